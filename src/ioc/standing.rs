//! What a thread that stands still waits for, and for which record.
//!
//! `/proc/PID/task/TID/syscall` has the system call, its arguments and the stack pointer. The words of the stack that are
//! addresses of records name what the thread works on: but a word may be left over from a call that has returned, so a
//! record counts only if the IOC's own locks agree. A thread that processes a record, or puts to it, holds the lock of
//! its lock set; one that is about to waits for that lock.
//!
//! An idle thread waits for an event, like one that waits for a device; but it holds no record's lock.
//!
//! The process runs on meanwhile. So everything is looked at a second time where it decides something, and a thread that
//! has moved is not told.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;

use iocrec_log::event::{Address, Wait};

use crate::ioc::calls::{Call, Kind, Place};
use crate::ioc::layout::Layout;
use crate::ioc::locks;
use crate::ioc::IocProcess;
use crate::linux::memory::Memory;
use crate::linux::width::u32_at;
use crate::linux::{process, sockets};

/// Bytes of stack that are looked through: a record's processing was within 512 bytes; drivers put some kilobytes on it.
const STACK: usize = 8192;
/// Most records on a stack that are looked at.
const MOST_RECORDS: usize = 8;
/// Threads that are looked at for the one with a number of its own; an IOC with a hundred clients has 220.
const MOST_THREADS: usize = 512;
/// Bytes of stack above the stack pointer in which a function that suspends has its frame, with the frames of the event
/// that it waits for and of the C library.
const SUSPENDING: usize = 1024;
/// Bytes of such a function whose symbol has no size: `epicsAssert` has 272, the others 55 to 250.
const FUNCTION: u64 = 272;
/// The functions that suspend their thread for ever. The first may leave its frame to the wait, and then only its caller
/// is on the stack.
pub const SUSPEND: [&str; 3] = ["epicsThreadSuspendSelf", "cantProceed", "epicsAssert"];

/// futex(2): operations without their flags.
const OPERATION: u64 = 127;
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const LOCK_PI2: u64 = 13;

/// A thread that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it waits for; [`Look::object`] tells more.
    pub wait: Wait,
    /// Its system call.
    pub call: Option<u32>,
    /// The mutex's lock word, and its holder, if it waits for one.
    pub mutex: Option<Mutex>,
    /// The record whose lock it holds and whose address is on its stack: it processes it, or puts to it.
    pub holds: Option<u64>,
    /// The text of /proc by which it can be seen to have stood still meanwhile.
    text: String,
}

/// A mutex that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutex {
    /// Address of its lock word.
    pub word: u64,
    /// Whether the kernel knows the holder.
    priority: bool,
    /// The thread that holds it; `None` if unknown.
    pub holder: Option<u32>,
    /// The record on the waiting thread's stack whose lock set's lock it is.
    pub record: Option<u64>,
}

/// A look at the threads of an IOC.
pub struct Look<'a> {
    ioc: &'a IocProcess,
    layout: Option<&'a Layout>,
    /// Whether an address is that of a record.
    is_record: &'a dyn Fn(u64) -> bool,
    /// The threads' numbers in a pid namespace of the process's own, and those here; once they are needed.
    numbers: OnceCell<Vec<(u32, u32)>>,
}

impl<'a> Look<'a> {
    /// Looks at an IOC.
    pub fn at(ioc: &'a IocProcess, is_record: &'a dyn Fn(u64) -> bool) -> Look<'a> {
        Look { ioc, layout: ioc.layout.as_ref().ok(), is_record, numbers: OnceCell::new() }
    }

    fn memory(&self) -> &Memory {
        &self.ioc.memory
    }

    fn file(&self, tid: u32, name: &str) -> String {
        process::text(format!("/proc/{}/task/{tid}/{name}", self.ioc.pid)).unwrap_or_default()
    }

    /// The state of the process if a thread of it is stopped, traced or frozen.
    pub fn stopped(&self, tid: u32) -> Option<Wait> {
        let stat = self.file(tid, "stat");
        match stat.rsplit_once(") ")?.1.chars().next()? {
            'T' => Some(Wait::Stopped),
            't' => Some(Wait::Traced),
            // do_freezer_trap of cgroup 2, __refrigerator of cgroup 1
            _ => {
                let place = self.file(tid, "wchan");
                (place.contains("freez") || place.contains("refrigerator")).then_some(Wait::Frozen)
            }
        }
    }

    /// Looks at a thread. `None` if that can't be done.
    pub fn thread(&self, tid: u32) -> Option<Standing> {
        let text = self.file(tid, "syscall");
        let place = Place::of(&text)?;
        let mut found = Standing { wait: Wait::Unknown, call: None, mutex: None, holds: None, text };
        let stack = place.sp().map(|sp| self.stack(sp)).unwrap_or_default();
        let records = self.records(&stack);
        match place {
            Place::Running => found.wait = Wait::Processor,
            Place::Elsewhere { .. } => {}
            Place::Call(call) => {
                found.call = Some(call.number);
                self.decode(&call, &records, &mut found);
            }
        }
        if found.wait == Wait::Event && self.is_suspended(&stack) {
            found.wait = Wait::Suspended;
        }
        let own = own_number(self.ioc.pid, tid);
        found.holds = records.into_iter().find(|&record| self.owner(record) == Some(own));
        Some(found)
    }

    /// Whether a thread has not moved since it was looked at.
    pub fn still_stands(&self, tid: u32, standing: &Standing) -> bool {
        self.file(tid, "syscall") == standing.text && standing.wait != Wait::Processor
    }

    /// The thread that holds a mutex now.
    pub fn holder(&self, mutex: &Mutex) -> Option<u32> {
        let owner = locks::owner_by_word(self.memory(), mutex.word, mutex.priority)?;
        self.thread_of(owner)
    }

    /// The thread with this number in its own pid namespace.
    fn thread_of(&self, own: u32) -> Option<u32> {
        let pid = self.ioc.pid;
        if own_number(pid, pid) == pid {
            return Path::new(&format!("/proc/{pid}/task/{own}")).exists().then_some(own);
        }
        // anybody may have tens of thousands of threads, and ask for one with each
        let numbers = self.numbers.get_or_init(|| {
            let threads = process::threads(pid).into_iter().take(MOST_THREADS);
            threads.map(|tid| (own_number(pid, tid), tid)).collect()
        });
        numbers.iter().find(|(number, _)| *number == own).map(|(_, tid)| *tid)
    }

    /// Whether a mutex is that of a record's lock set.
    pub fn is_lock_of(&self, mutex: &Mutex, record: u64) -> bool {
        let places = self.layout.map(|layout| locks::mutexes(self.memory(), layout, record));
        let is_it = |place: &u64| mutex.word == *place || mutex.word == place.wrapping_add(locks::MUSL_LOCK);
        places.unwrap_or_default().iter().any(is_it)
    }

    /// Whether a thread holds the lock of a record's lock set.
    pub fn holds(&self, tid: u32, record: u64) -> bool {
        self.owner(record) == Some(own_number(self.ioc.pid, tid))
    }

    /// How often a thread has waited for anything since it began.
    pub fn waits(&self, tid: u32) -> Option<u64> {
        let status = self.file(tid, "status");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim_ascii().parse().ok()
    }

    /// The holder of the lock of a record's lock set.
    fn owner(&self, record: u64) -> Option<u32> {
        let places = locks::mutexes(self.memory(), self.layout?, record);
        places.into_iter().find_map(|place| locks::owner(self.memory(), place))
    }

    fn stack(&self, sp: u64) -> Vec<u8> {
        let mut stack = vec![0; STACK];
        let have = self.memory().read_some(sp, &mut stack);
        stack.truncate(have);
        stack
    }

    /// The records whose addresses are on a stack, the innermost first.
    fn records(&self, stack: &[u8]) -> Vec<u64> {
        let mut seen = HashSet::new();
        let words = self.words(stack).filter(|word| (self.is_record)(*word) && seen.insert(*word));
        words.take(MOST_RECORDS).collect()
    }

    fn words<'b>(&'b self, stack: &'b [u8]) -> impl Iterator<Item = u64> + 'b {
        let width = self.memory().width();
        (0..stack.len() / width.bytes()).map(move |at| width.pointer(stack, at * width.bytes()))
    }

    /// Whether a return address into a function that suspends is on a stack. They never return, so it can't be left over.
    fn is_suspended(&self, stack: &[u8]) -> bool {
        let near = stack.get(..SUSPENDING.min(stack.len())).unwrap_or_default();
        let symbols = SUSPEND.iter().filter_map(|name| self.ioc.function(name));
        let mut functions = symbols.map(|(module, symbol)| {
            let bytes = if symbol.bytes == 0 { FUNCTION } else { symbol.bytes };
            (symbol.address.wrapping_add(module.bias), bytes)
        });
        // not the address behind it: a pointer to the next function may be on any stack (`start_routine` on those of threads)
        functions
            .any(|(begin, bytes)| self.words(near).any(|word| (1..bytes).contains(&word.wrapping_sub(begin))))
    }

    /// The kind of a system call, if the program's architecture is known.
    fn kind(&self, call: &Call) -> Option<Kind> {
        Some(call.kind(self.ioc.modules.first()?.elf.machine))
    }

    fn decode(&self, call: &Call, records: &[u64], found: &mut Standing) {
        let [first, second, third, ..] = call.arguments;
        match self.kind(call) {
            Some(Kind::Futex) => {
                found.mutex = self.mutex(first, second & OPERATION, third, records);
                found.wait = if found.mutex.is_some() { Wait::Mutex } else { Wait::Event };
            }
            Some(Kind::Poll) => found.wait = Wait::Poll,
            Some(Kind::Descriptor(wait) | Kind::Other(wait)) => found.wait = wait,
            None => {}
        }
    }

    /// What a thread waits for, and by which name; that is empty if it is unknown. To find it may take a list of all
    /// connections, so ask only for a thread of which something is told.
    pub fn object(&self, standing: &Standing) -> (Wait, String) {
        let wait = standing.wait;
        let Some(Place::Call(call)) = Place::of(&standing.text) else { return (wait, String::new()) };
        let [first, second, ..] = call.arguments;
        let object = match self.kind(&call) {
            Some(Kind::Futex) => {
                let mutex = standing.mutex.filter(|mutex| mutex.record.is_none());
                mutex.map(|mutex| self.source(mutex.word))
            }
            Some(Kind::Poll) => {
                let descriptor = self.memory().bytes::<4>(first).filter(|_| second > 0);
                descriptor.map(|fd| self.descriptor(u32::from_ne_bytes(fd)))
            }
            Some(Kind::Descriptor(_)) => Some(self.descriptor(first as u32)),
            Some(Kind::Other(_)) | None => None,
        };
        let object = object.unwrap_or_default();
        let wait = match wait {
            Wait::Read if is_address(&object) => Wait::Receive,
            Wait::Write if is_address(&object) => Wait::Send,
            wait => wait,
        };
        (wait, object)
    }

    /// The mutex behind a futex, if it is one.
    fn mutex(&self, word: u64, operation: u64, value: u64, records: &[u64]) -> Option<Mutex> {
        let priority = matches!(operation, LOCK_PI | LOCK_PI2);
        // a thread waits for an event at a word that is no lock: no thread's number is there
        let may_be = priority || operation == WAIT && (value == 2 || value & 1 << 31 != 0);
        if !may_be {
            return None;
        }
        let mut mutex = Mutex { word, priority, holder: None, record: None };
        mutex.holder = self.holder(&mutex);
        mutex.record = records.iter().copied().find(|&record| self.is_lock_of(&mutex, record));
        (priority || mutex.holder.is_some()).then_some(mutex)
    }

    /// Where a mutex was made: from Base 7.0.9 on an epicsMutex has file and line before it.
    fn source(&self, word: u64) -> String {
        let find = || {
            let width = self.memory().width();
            let before = (width.bytes() as u64) * 2;
            let bytes: [u8; 16] = self.memory().head(word.checked_sub(before)?, width.bytes() + 4)?;
            let file = self.memory().string(width.pointer(&bytes, 0), 200)?;
            let line = u32_at(&bytes, width.bytes());
            let name = file.rsplit('/').next()?.to_string();
            let is_source = [".c", ".cpp", ".h", ".cc", ".cxx"].iter().any(|end| name.ends_with(end));
            (is_source && line > 0 && line < 1_000_000).then(|| format!("{name}:{line}"))
        };
        find().unwrap_or_default()
    }

    /// What a descriptor refers to: a path, or the other end of a connection.
    fn descriptor(&self, descriptor: u32) -> String {
        let target = process::link(self.ioc.pid, &format!("fd/{descriptor}"));
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        let Some(inode): Option<u64> = inode else { return target };
        let connections = sockets::connections_at_once(self.ioc.pid);
        let found = connections.into_iter().flatten().find(|connection| connection.inode == inode);
        found.map_or(String::new(), |connection| {
            let Address { ip, port } = connection.remote;
            format!("{}:{port}", std::net::Ipv4Addr::from(ip))
        })
    }
}

/// Whether an object is the other end of a connection, and no path, pipe or the like.
fn is_address(object: &str) -> bool {
    !object.starts_with('/') && object.ends_with(|end: char| end.is_ascii_digit())
}

/// The number of a thread in its own pid namespace, which locks hold.
fn own_number(pid: u32, tid: u32) -> u32 {
    let status = process::text(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // since Linux 4.1; one for each namespace, the innermost last
    line.and_then(|line| line.split_ascii_whitespace().last()?.parse().ok()).unwrap_or(tid)
}

#[cfg(test)]
pub(crate) mod tests;
