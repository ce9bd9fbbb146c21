//! Probes of an IOC: inspecting each function, then placing its probe.
//!
//! Any thread may do this. [`Probes`] owns the probes of an IOC and removes them when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;

use crate::ioc::functions::{self, Function};
use crate::ioc::{IocProcess, Module};
use crate::linux::elf::{Symbol, CODE_WINDOW};
use crate::linux::opened::Opened;
use crate::linux::{elf, machine, process};
use crate::probes::attacher::{Attacher, Probe, ProbeError, Spot, PATIENCE};
use crate::probes::catalog::{Purpose, Spec, Wanted, CATALOG, PROCESS_ROUTINE};
use crate::probes::not_probed::{NotProbed, Reason};
use crate::probes::place::{compare, place, Cost, Memory};
use crate::probes::removal;
use crate::probes::thread::{self, Thread};

/// The place for a function's probe.
pub struct Target<'a> {
    /// The function's name in this IOC.
    pub symbol: &'static str,
    /// The module that defines it.
    pub module: &'a Module,
    /// Offset in the module's file.
    pub offset: u64,
    /// The instruction there, padded with zeroes.
    code: [u8; CODE_WINDOW],
    /// Cost of a probe there.
    pub cost: Cost,
}

/// Inspects a function of an IOC in each library that has it. Of several EPICS Bases in a process (packages for Python bring
/// their own) any may run the records, or put as a client; and before glibc 2.34, libpthread has a `write` of its own, which other
/// libraries call.
///
/// The place, or the reason for which it cannot or should not be probed.
pub fn targets<'a>(ioc: &'a IocProcess, spec: &Spec) -> Vec<Result<Target<'a>, NotProbed>> {
    let symbols = spec.function.symbols();
    let is_its_own = |(module, _): &(&Module, Symbol)| match spec.function.is_of_c_library() {
        // what comes between an IOC and glibc passes calls on: each would be told twice
        true => module.elf.symbol(functions::OF_GLIBC).is_some(),
        // other libraries may use the name, too
        false => module.is_of_base(),
    };
    let Some((symbol, found)) = named(symbols, |symbol| ioc.functions(symbol).collect(), is_its_own) else {
        let is_local = |symbol: &&str| ioc.modules.iter().any(|module| module.elf.has_local(symbol));
        let not_probed = match symbols.iter().any(is_local) {
            true => NotProbed::LocalSymbol(spec.function),
            false => NotProbed::NoSymbol(spec.function),
        };
        return vec![Err(not_probed)];
    };
    let target = |(module, found): (&'a Module, Symbol)| {
        if !spec.function.is_of_c_library() && !module.is_of_base() {
            return Err(NotProbed::Function(symbol, Reason::NotBase(module.path.clone())));
        }
        let target = look(ioc, module, symbol, found.address, spec.program.arguments, Some(&found.code));
        let target = target.map_err(|reason| NotProbed::Function(symbol, reason))?;
        if target.cost == Cost::Stepped && !spec.core {
            return Err(NotProbed::Function(symbol, Reason::SingleStepped));
        }
        Ok(target)
    };
    found.into_iter().map(target).collect()
}

/// Most libraries of a process in which one function is probed: two were seen.
const MAX_PLACES: usize = 4;

/// The name of a function that counts, and where it is: the first under which its own library has it, else the first that
/// there is. A library of another may use the name of a newer Base for something else.
fn named<T>(
    symbols: &[&'static str],
    find: impl Fn(&'static str) -> Vec<T>,
    is_its_own: impl Fn(&T) -> bool,
) -> Option<(&'static str, Vec<T>)> {
    let found = symbols.iter().rev().filter_map(|&symbol| {
        let mut found = find(symbol);
        let is_own = found.iter().any(&is_its_own);
        if is_own {
            found.retain(&is_its_own);
        }
        found.truncate(MAX_PLACES);
        (!found.is_empty()).then_some((is_own, symbol, found))
    });
    // the last one of several that are alike
    found.max_by_key(|(is_own, ..)| *is_own).map(|(_, symbol, found)| (symbol, found))
}

/// Inspects the beginning of a function, at `address` as in the file of its module. `seen` is the code that was there
/// when the file's symbols were read; `arguments` is the number of its arguments that the program reads.
fn look<'a>(
    ioc: &IocProcess,
    module: &'a Module,
    symbol: &'static str,
    address: u64,
    arguments: usize,
    seen: Option<&[u8; CODE_WINDOW]>,
) -> Result<Target<'a>, Reason> {
    let code_for = module.elf.machine;
    if Some(code_for) != machine::architecture() {
        return Err(Reason::OtherMachine(code_for));
    }
    let (here, offset) = module.code_at(address).ok_or(Reason::NoCode)?;
    let head = elf::code(&module.opened, offset);
    if seen.is_some_and(|seen| *seen != head) {
        return Err(Reason::CodeChanged(module.path.clone()));
    }
    let place = place(code_for, offset, &head, arguments)?;
    let mut memory = [0; CODE_WINDOW];
    let have = ioc.memory.read_some(here, &mut memory);
    match compare(code_for, &place, &head, memory.get(..have).unwrap_or_default()) {
        Memory::Same => {}
        // another recorder's, perf's or bpftrace's: the kernel shares the place between them
        Memory::Breakpoint if !process::is_debugged(ioc.pid) => {}
        Memory::Breakpoint => return Err(Reason::Debugger),
        Memory::Differs if have == 0 => return Err(Reason::CodeUnread),
        Memory::Differs => return Err(Reason::CodeDiffers(module.path.clone())),
    }
    let (from, to) = (place.offset as usize, place.offset as usize + place.length);
    let mut code = [0; CODE_WINDOW];
    code.iter_mut().zip(head.get(from..to).unwrap_or_default()).for_each(|(into, byte)| *into = *byte);
    Ok(Target { symbol, module, offset: offset + place.offset, code, cost: place.cost })
}

/// The places to probe in the process routines of an IOC's record types, and the routines that cannot be probed. Both
/// are empty if the IOC has a `dbProcess`, and as long as its record types are unknown.
///
/// The addresses come from the process's memory, so they may have any value.
pub fn routines(ioc: &IocProcess) -> (Vec<Target<'_>>, Vec<NotProbed>) {
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    let layout = ioc.layout.as_ref().ok().filter(|_| ioc.function("dbProcess").is_none());
    let mut routines: Vec<(&str, u64)> =
        layout.into_iter().flat_map(|layout| layout.routines(&ioc.memory)).collect();
    routines.sort_unstable();
    let (symbol, arguments) = (PROCESS_ROUTINE.function.name(), PROCESS_ROUTINE.program.arguments);
    for module in &ioc.modules {
        let here: Vec<(&str, u64)> = routines
            .extract_if(.., |(_, address)| (module.range.0..module.range.1).contains(address))
            .collect();
        let addresses: Vec<u64> = here.iter().map(|(_, address)| address.wrapping_sub(module.bias)).collect();
        // code that is not Base's is refused anyway
        let begins = if module.is_of_base() { module.elf.begins(&module.opened, &addresses) } else { None };
        for (at, ((rtype, _), address)) in here.iter().zip(addresses).enumerate() {
            let is_of_base = || module.is_of_base().then_some(()).ok_or(Reason::NotBase(module.path.clone()));
            let look = |()| look(ioc, module, symbol, address, arguments, None);
            let looked = is_of_base().and_then(look).and_then(|target| {
                let begins = begins.as_ref().ok_or(Reason::NoUnwindTables)?;
                begins.get(at).filter(|&&begins| begins).ok_or(Reason::NoFunction)?;
                Ok(target)
            });
            match looked {
                Ok(target) => targets.push(target),
                Err(reason) => left_out.push(NotProbed::RecordType(rtype.to_string(), reason)),
            }
        }
    }
    let nowhere = |(rtype, _): (&str, u64)| NotProbed::RecordType(rtype.to_string(), Reason::NoFile);
    left_out.extend(routines.into_iter().map(nowhere));
    (targets, left_out)
}

/// The probes of an IOC. Dropping this removes them in the background, which takes a second or two.
pub struct Probes {
    pid: u32,
    /// Start of the process, nanoseconds after boot: its number may be another one's once it has ended.
    start: u64,
    /// The thread that they are bound to, but for those of its end.
    thread: Option<Thread>,
    placed: Vec<Placing>,
    /// The number of its threads when those of its end were last found to be bound to the right one.
    threads: usize,
}

/// A probe, and the data needed to place it again.
struct Placing {
    spec: &'static Spec,
    opened: Arc<Opened>,
    spot: Spot,
    probe: Probe,
    /// The thread that it is bound to.
    thread: Thread,
}

impl Placing {
    /// Whether it tells what the IOC dies of.
    fn is_of_end(&self) -> bool {
        self.spec.purpose == Purpose::End
    }
}

/// The result of placing all probes.
pub struct Placed {
    /// The probes that are in place.
    pub probes: Probes,
    /// The parts that are not probed, with reasons.
    pub not_probed: Vec<NotProbed>,
}

/// State of an IOC's probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// They are in place, or the process has ended (which is detected elsewhere).
    Holds,
    /// The thread that they were bound to had ended, so hits were missing for a while. They are now in place again.
    HeldAnew,
    /// The thread that they were bound to has ended, and they could not be placed again.
    Lost(ProbeError),
}

impl Probes {
    /// None yet.
    pub fn none(pid: u32, start: u64) -> Probes {
        Probes { pid, start, thread: None, placed: Vec::new(), threads: 0 }
    }

    /// Number of probes for puts and processing.
    pub fn count(&self) -> usize {
        let is_of_hits =
            |placing: &&Placing| matches!(placing.spec.purpose, Purpose::Puts | Purpose::Processing);
        self.placed.iter().filter(is_of_hits).count()
    }

    /// The thread that they are bound to, if there are any, but for those of its end.
    pub fn thread(&self) -> Option<u32> {
        self.thread.map(|thread| thread.tid)
    }

    /// Whether they are in place. Reads one file of /proc.
    pub fn hold(&self) -> bool {
        self.placed.is_empty() || self.thread.is_some_and(|thread| thread.lives())
    }

    /// Places them again if the thread that they were bound to has ended. If only some could be, another call goes on with
    /// the others.
    pub fn hold_on(&mut self, attacher: &Attacher) -> Hold {
        if self.hold() {
            return Hold::Holds;
        }
        // a call before this one may have placed some
        let others = self.placed.iter().filter(|placing| !placing.is_of_end());
        let begun = others.map(|placing| placing.thread).find(Thread::lives);
        let thread = begun.filter(|_| self.is_of_process()).or_else(|| self.lasting());
        let Some(thread) = thread else { return Hold::Holds };
        let is_bound = |placing: &Placing| placing.is_of_end() || placing.thread == thread;
        if self.placed.iter().all(is_bound) && self.thread == Some(thread) {
            return Hold::Holds; // only now it could be looked at
        }
        if let Err(reason) = self.bind(attacher, thread, false) {
            return Hold::Lost(reason);
        }
        if self.placed.is_empty() {
            return Hold::Holds;
        }
        self.thread = Some(thread);
        Hold::HeldAnew
    }

    /// The thread to which the probes of its end should be bound, if they are not. An IOC that begins beside the recorder has no
    /// server yet when it is found, and its other threads may end before it calls exit.
    pub fn better(&mut self) -> Option<Thread> {
        let of_end = self.placed.iter().find(|placing| placing.is_of_end())?;
        let threads = process::threads(self.pid).len();
        if threads == self.threads && of_end.thread.lives() {
            return None;
        }
        let better = thread::to_the_end(self.pid).filter(|_| self.is_of_process());
        let is_behind = |placing: &Placing| placing.is_of_end() && Some(placing.thread) != better;
        if better.is_some() && self.placed.iter().any(is_behind) {
            return better;
        }
        self.threads = threads;
        None
    }

    /// Binds the probes of its end to this thread. They are in place all the time, each for a moment twice: hits are told once
    /// all the same. Whatever can't be placed stays where it is, for another call.
    pub fn bind_end(&mut self, attacher: &Attacher, thread: Thread) {
        _ = self.bind(attacher, thread, true);
    }

    /// Binds the probes of its end, or all others, to this thread. Drops all of them if it is not the process's.
    fn bind(&mut self, attacher: &Attacher, thread: Thread, of_end: bool) -> Result<(), ProbeError> {
        let mut patience = PATIENCE;
        for placing in &mut self.placed {
            if placing.is_of_end() != of_end || placing.thread == thread {
                continue;
            }
            let Placing { spec, opened, spot, .. } = placing;
            let probe = attacher.attach(spec, opened, spot, thread, &mut patience)?;
            removal::aside([std::mem::replace(&mut placing.probe, probe)]);
            placing.thread = thread;
        }
        if !self.is_of_process() {
            removal::aside(std::mem::take(&mut self.placed));
        }
        Ok(())
    }

    /// Whether the process still has its number.
    fn is_of_process(&self) -> bool {
        match process::known_start(self.pid) {
            Ok(start) => start == self.start,
            Err(errno) => errno != Errno::ESRCH,
        }
    }

    /// The thread to bind probes to; `None` if the process has ended.
    fn lasting(&self) -> Option<Thread> {
        thread::lasting(self.pid).filter(|_| self.is_of_process())
    }

    /// Places a probe, unless it is already in place.
    fn add(
        &mut self,
        attacher: &Attacher,
        spec: &'static Spec,
        target: &Target,
        patience: &mut Duration,
    ) -> Result<(), ProbeError> {
        let spot = Spot { file: target.module.file, offset: target.offset, code: target.code };
        let here = |placing: &Placing| {
            std::ptr::eq(placing.spec, spec)
                && (placing.spot.file, placing.spot.offset) == (spot.file, spot.offset)
        };
        if self.placed.iter().any(here) {
            return Ok(());
        }
        let thread = self.thread.filter(|thread| thread.lives()).or_else(|| self.lasting());
        let thread = thread.ok_or(ProbeError::Ended)?;
        let of_end = (spec.purpose == Purpose::End).then(|| thread::to_the_end(self.pid)).flatten();
        let bound = of_end.unwrap_or(thread);
        let opened = target.module.opened.clone();
        let probe = attacher.attach(spec, &opened, &spot, bound, patience)?;
        if !self.is_of_process() {
            removal::aside([probe]);
            return Err(ProbeError::Ended);
        }
        self.thread.get_or_insert(thread);
        self.placed.push(Placing { spec, opened, spot, probe, thread: bound });
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        if !self.placed.is_empty() {
            removal::aside(std::mem::take(&mut self.placed));
        }
    }
}

/// Places the probes of [`routines`] that are not in place yet. Returns those that could not be placed.
pub fn attach_routines(attacher: &Attacher, ioc: &IocProcess, probes: &mut Probes) -> Vec<NotProbed> {
    let (targets, mut left_out) = routines(ioc);
    let mut patience = PATIENCE;
    for target in targets {
        let added = probes.add(attacher, &PROCESS_ROUTINE, &target, &mut patience);
        left_out.extend(added.err().map(|error| NotProbed::Routine(error.into())));
    }
    left_out
}

/// Places all probes that are wanted.
pub fn attach(attacher: &Attacher, ioc: &IocProcess, wanted: Wanted) -> Placed {
    let mut probes = Probes::none(ioc.pid, ioc.start);
    let not_probed = attach_missing(attacher, ioc, wanted, &mut probes);
    Placed { probes, not_probed }
}

/// Places all probes that are wanted and not in place yet. Returns what is not probed.
pub fn attach_missing(
    attacher: &Attacher,
    ioc: &IocProcess,
    wanted: Wanted,
    probes: &mut Probes,
) -> Vec<NotProbed> {
    let mut not_probed = Vec::new();
    let mut patience = PATIENCE;
    for target in
        planned(ioc, wanted).flat_map(|spec| targets(ioc, spec).into_iter().map(move |target| (spec, target)))
    {
        let (spec, target) = target;
        let placed = target.and_then(|target| {
            let added = probes.add(attacher, spec, &target, &mut patience);
            added.map_err(|error| NotProbed::Function(target.symbol, error.into()))
        });
        if let Err(why) = placed {
            why.note(&mut not_probed);
        }
    }
    if ioc.is_stripped() {
        not_probed.insert(0, stripped(ioc));
    }
    let unwanted = [
        (!wanted.process).then_some(NotProbed::NoProcessing),
        (!wanted.puts).then_some(NotProbed::NoPuts),
        (!wanted.console).then_some(NotProbed::NoConsole),
        (wanted.console && ioc.has_musl()).then_some(NotProbed::Musl),
    ];
    not_probed.extend(unwanted.into_iter().flatten());
    not_probed
}

/// Why an IOC's functions of Base are not probed, if its record database was searched for.
pub fn stripped(ioc: &IocProcess) -> NotProbed {
    let name = Function::DbProcess.name();
    if ioc.modules.iter().any(|module| module.elf.has_local(name)) {
        NotProbed::LocalSymbols
    } else {
        NotProbed::Stripped
    }
}

/// The probes that an IOC should have. A stripped program has no functions of Base.
pub fn planned(ioc: &IocProcess, wanted: Wanted) -> impl Iterator<Item = &'static Spec> + use<> {
    let has_base = !ioc.is_stripped();
    CATALOG
        .iter()
        .filter(move |spec| wanted.has(spec.purpose) && (has_base || spec.function.is_of_c_library()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Base 3.14 has `post_event`, and a device library that it loads may have a `postEvent` of its own.
    #[test]
    fn an_older_name_of_base_counts_more_than_anothers_newer_one() {
        let (base, other) = (true, false);
        let chosen = |newer: &[bool], older: &[bool]| {
            let find = |symbol| if symbol == "postEvent" { newer.to_vec() } else { older.to_vec() };
            named(&["postEvent", "post_event"], find, |&is_own| is_own)
        };
        assert_eq!(chosen(&[other], &[base]), Some(("post_event", vec![base])));
        assert_eq!(chosen(&[other, base], &[base]), Some(("postEvent", vec![base])));
        assert_eq!(chosen(&[other], &[]), Some(("postEvent", vec![other])), "it says why there is no probe");
        assert_eq!(chosen(&[], &[other]), Some(("post_event", vec![other])));
        assert_eq!(chosen(&[], &[]), None);
    }

    /// Other threads inspect processes and place probes.
    #[test]
    fn any_thread_may_do_it() {
        fn is_sent<T: Send + 'static>() {}
        fn is_shared<T: Send + Sync + Clone + 'static>() {}
        is_shared::<Attacher>();
        is_sent::<Placed>();
        is_sent::<Probes>();
        is_sent::<IocProcess>();
        is_sent::<crate::ioc::Finder>();
    }
}
