//! One probe in one process, placed from any thread.
//!
//! A probe is a kernel event that is bound to a thread, and through that thread to the memory of its process: the
//! kernel writes the breakpoint there and nowhere else, and removes it if it finds it elsewhere (in a forked child).
//! The file is named by the descriptor through which it was inspected.
//!
//! For each place in a file the kernel keeps the instruction that the breakpoint replaces, as long as a probe is there.
//! If the file were overwritten meanwhile and a second probe placed there, the new code would execute that old
//! instruction. So this module remembers the instruction at each place until the kernel has released it, and until then
//! refuses a place that holds a different one.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{libbpf_sys, AsRawLibbpf, Link, Object, Program};

use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::Step;
use crate::bpf::libbpf;
use crate::bpf::refusal::Refusal;
use crate::bpf::shared::Program as Planned;
use crate::linux::elf::CODE_WINDOW;
use crate::linux::kernel::UPROBE_PMU;
use crate::linux::opened::Opened;
use crate::linux::reader::file::ATTRIBUTES;
use crate::linux::FileId;
use crate::probes::catalog::{Purpose, Spec};
use crate::probes::thread::Thread;
use crate::probes::{deferred_close, removal};

/// Place of a probe.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// The file, by device and inode.
    pub file: FileId,
    /// Offset in the file.
    pub offset: u64,
    /// The instruction there, padded with zeroes.
    pub code: [u8; CODE_WINDOW],
}

/// Longest wait for places that must be released first, of all probes that are placed together: the kernel takes 0.02 to 0.2 s
/// to remove a probe, and an IOC has 15.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Reason why a probe could not be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The process has no live thread.
    Ended,
    /// The file was overwritten at that place, and the kernel has not released the old instruction.
    StillHeld,
    /// The kernel has not yet removed the same probe of that thread, from before.
    StillThere,
    /// The file was overwritten not long ago, and another recorder's probes may still be there.
    StillKept,
    /// The offset in the file, or the thread's number, is too large for the kernel's interface.
    OutOfRange(u64),
    /// The objects have no program of that name.
    NoProgram(&'static str),
    /// The kernel refused it.
    Kernel(Refusal),
}

impl Display for ProbeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Ended => f.write_str("its process has ended"),
            ProbeError::StillHeld => {
                f.write_str("its file was overwritten, and the kernel has not released the old code")
            }
            ProbeError::StillThere => {
                f.write_str("the kernel has not yet removed an earlier probe there; iocrec tries again")
            }
            ProbeError::StillKept => f.write_str(
                "its file may have been overwritten not long ago, and another recorder's probes may still be there",
            ),
            ProbeError::OutOfRange(number) => write!(f, "{number:#x} is out of range"),
            ProbeError::NoProgram(name) => write!(f, "no BPF program {name}"),
            ProbeError::Kernel(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Instruction at each place when it was probed, and the probes there.
type Places = HashMap<(FileId, u64), ([u8; CODE_WINDOW], Vec<Bound>)>;

/// The thread that a probe is bound to, its program, and the thread as one of an IOC's process.
type Bound = (i32, &'static str, Option<Thread>);

/// Places that have probes.
#[derive(Default)]
struct Held {
    places: Mutex<Places>,
    /// Signalled when a place is released.
    freed: Condvar,
}

/// Places probes. Clones share their state, so each thread may have one.
#[derive(Clone)]
pub struct Attacher {
    /// One of libbpf's `PROBE_ATTACH_MODE_`s: the default, or the one for kernels before 4.17.
    pub(crate) mode: u32,
    /// The programs. They do not change once loaded, so threads may share them.
    object: Arc<Object>,
    held: Arc<Held>,
}

/// A probe that is in place. Dropping it removes the probe, which waits for a grace period of the kernel.
pub struct Probe {
    /// `None` only while it is dropped.
    link: Option<Link>,
    place: (FileId, u64),
    bound: Bound,
    held: Arc<Held>,
    /// Keeps the program loaded as long as the probe exists.
    _object: Arc<Object>,
}

impl Attacher {
    pub(crate) fn new(object: Arc<Object>) -> Attacher {
        Attacher { mode: libbpf_sys::PROBE_ATTACH_MODE_DEFAULT, object, held: Arc::default() }
    }

    /// Places a probe in a thread's process, at a place in a file that it has mapped. All threads of the process hit
    /// it, until the given thread ends. May wait as long as `patience`, which becomes shorter by that.
    ///
    /// # Errors
    /// The probe could not be placed.
    pub fn attach(
        &self,
        spec: &Spec,
        opened: &Opened,
        spot: &Spot,
        thread: Thread,
        patience: &mut Duration,
    ) -> Result<Probe, ProbeError> {
        // those of the process's end may be there twice for a moment: whatever both tell counts once
        let whose = (spec.purpose != Purpose::End).then_some(thread);
        self.attach_as(Step::Probe, &spec.program, opened, spot, (thread.tid, whose), patience)
    }

    /// The same for iocrec itself, which is probed before any IOC.
    pub(crate) fn attach_as(
        &self,
        step: Step,
        planned: &Planned,
        opened: &Opened,
        spot: &Spot,
        (thread, whose): (u32, Option<Thread>),
        patience: &mut Duration,
    ) -> Result<Probe, ProbeError> {
        let Spot { file, offset, code } = *spot;
        let program = self.object.progs().find(|program| program.name() == planned.name);
        let program = program.ok_or(ProbeError::NoProgram(planned.name))?;
        let at = usize::try_from(offset).map_err(|_| ProbeError::OutOfRange(offset))?;
        // a path in /proc/self/fd holds no NUL
        let path = CString::new(opened.path().as_os_str().as_bytes()).unwrap_or_default();
        let thread = i32::try_from(thread).map_err(|_| ProbeError::OutOfRange(thread.into()))?;
        if step == Step::Probe && deferred_close::may_be_kept(std::iter::once(opened)) {
            return Err(ProbeError::StillKept);
        }
        let _placing = removal::placing();
        let bound_to = (thread, planned.name, whose);
        self.held.hold((file, offset), code, bound_to, patience)?;
        let attached = libbpf::listen(|| {
            if let Some(event) = self.event(opened, offset, thread) {
                return bound(&program, event?);
            }
            let options = libbpf_sys::bpf_uprobe_opts {
                sz: size_of::<libbpf_sys::bpf_uprobe_opts>() as _,
                attach_mode: self.mode,
                ..Default::default()
            };
            // SAFETY: the program belongs to the object, which `self` keeps and which is loaded; the call reads it and
            // changes nothing in it. The path and the options outlive the call, which copies what it needs.
            let link = unsafe {
                libbpf_sys::bpf_program__attach_uprobe_opts(
                    program.as_libbpf_object().as_ptr(),
                    thread,
                    path.as_ptr(),
                    at as _,
                    &raw const options,
                )
            };
            let link = NonNull::new(link).ok_or_else(libbpf::last_error)?;
            // SAFETY: libbpf has just made it, and nobody else has it.
            Ok(unsafe { Link::from_ptr(link) })
        });
        match attached {
            Ok(link) => Ok(Probe {
                link: Some(link),
                place: (file, offset),
                bound: bound_to,
                held: self.held.clone(),
                _object: self.object.clone(),
            }),
            Err(failure) => {
                self.held.release((file, offset), bound_to);
                Err(ProbeError::Kernel(diagnose(step, failure)))
            }
        }
    }
}

impl Attacher {
    /// Lets a reader process create the kernel event for a probe: to create it, the kernel reads the file and waits for
    /// locks of every process that has it mapped, possibly for ever. `None` if the event must be created here: before
    /// kernel 4.17, and for a probe in iocrec itself.
    fn event(&self, opened: &Opened, offset: u64, thread: i32) -> Option<io::Result<OwnedFd>> {
        if self.mode != libbpf_sys::PROBE_ATTACH_MODE_DEFAULT {
            return None;
        }
        let kind = std::fs::read_to_string(UPROBE_PMU).ok()?;
        let kind: u32 = kind.trim().parse().ok()?;
        // struct perf_event_attr (linux/perf_event.h): type, size, config .. config1 (the path), config2 (the offset)
        let mut attributes = [0; ATTRIBUTES];
        let mut put = |at: usize, bytes: &[u8]| attributes[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &kind.to_ne_bytes());
        put(4, &(ATTRIBUTES as u32).to_ne_bytes());
        put(64, &offset.to_ne_bytes());
        opened.handle().event(thread.unsigned_abs(), thread, &attributes)
    }
}

/// Runs a program at an event.
fn bound(program: &Program<'_>, event: OwnedFd) -> io::Result<Link> {
    let event = event.into_raw_fd();
    // SAFETY: the program is loaded and its object lives; without options the call takes the defaults.
    let link = unsafe {
        libbpf_sys::bpf_program__attach_perf_event_opts(
            program.as_libbpf_object().as_ptr(),
            event,
            std::ptr::null(),
        )
    };
    let Some(link) = NonNull::new(link) else {
        let error = libbpf::last_error();
        // SAFETY: libbpf has not taken it.
        drop(unsafe { OwnedFd::from_raw_fd(event) });
        return Err(error);
    };
    // SAFETY: libbpf has just made it, and nobody else has it. It closes the event.
    Ok(unsafe { Link::from_ptr(link) })
}

impl Held {
    /// Notes a probe at a place. If the place held a different instruction, waits until it is released; likewise if it has the
    /// same probe of that thread, or of another one of its process that lives: each hit would be recorded twice. So it is after an
    /// exec, if they were placed again before that was known, and where placing them was given up.
    fn hold(
        &self,
        place: (FileId, u64),
        code: [u8; CODE_WINDOW],
        bound: Bound,
        patience: &mut Duration,
    ) -> Result<(), ProbeError> {
        let is_hit = |other: &Bound| {
            let (Some(thread), Some(own)) = (other.2, bound.2) else { return other.0 == bound.0 };
            other.0 == bound.0 || thread.pid == own.pid && thread.lives()
        };
        let is_same = |other: &Bound| other.1 == bound.1 && is_hit(other);
        let is_taken = |places: &mut Places| {
            let held = places.get(&place);
            held.is_some_and(|(before, probes)| *before != code || probes.iter().any(is_same))
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let _wanted = is_taken(&mut places).then(removal::wanted);
        let began = Instant::now();
        let waited = self.freed.wait_timeout_while(places, *patience, is_taken);
        let (mut places, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        *patience = patience.saturating_sub(began.elapsed());
        if waited.timed_out() {
            let is_other = places.get(&place).is_some_and(|(before, _)| *before != code);
            return Err(if is_other { ProbeError::StillHeld } else { ProbeError::StillThere });
        }
        places.entry(place).or_insert((code, Vec::new())).1.push(bound);
        Ok(())
    }

    fn release(&self, place: (FileId, u64), bound: Bound) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, probes)) = places.get_mut(&place) {
            if let Some(at) = probes.iter().position(|held| *held == bound) {
                probes.swap_remove(at);
            }
            if probes.is_empty() {
                places.remove(&place);
            }
            self.freed.notify_all();
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // the kernel's probe first: until it is gone the place is not free
        drop(self.link.take());
        self.held.release(self.place, self.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::thread;

    const ONE: Bound = (1, "process", None);
    const TWO: Bound = (2, "process", None);

    fn hold(held: &Held, place: (FileId, u64), code: u8, bound: Bound) -> Result<(), ProbeError> {
        let mut patience = PATIENCE;
        held.hold(place, [code; CODE_WINDOW], bound, &mut patience)
    }

    #[test]
    fn a_place_that_held_something_else_is_waited_for() {
        let held = Arc::new(Held::default());
        let place = ((1, 2), 0x1000);
        hold(&held, place, 1, ONE).unwrap();
        hold(&held, place, 1, TWO).unwrap();
        hold(&held, (place.0, 0x2000), 2, ONE).unwrap();
        let other = held.clone();
        let waiting = std::thread::spawn(move || hold(&other, place, 2, ONE));
        held.release(place, ONE);
        assert!(!waiting.is_finished(), "one probe is still there");
        held.release(place, TWO);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        held.release(place, ONE);
        held.release((place.0, 0x2000), ONE);
        assert!(held.places.lock().unwrap().is_empty());
    }

    /// Both at once, since each waits for as long as it may.
    #[test]
    fn what_is_still_there_is_told_from_what_was_overwritten() {
        let held = Arc::new(Held::default());
        let place = ((1, 2), 0x1000);
        hold(&held, place, 1, ONE).unwrap();
        let other = held.clone();
        let overwritten = std::thread::spawn(move || hold(&other, place, 2, TWO));
        assert_eq!(hold(&held, place, 1, ONE), Err(ProbeError::StillThere));
        assert_eq!(overwritten.join().unwrap(), Err(ProbeError::StillHeld));
    }

    /// Those of another thread of the process, which are hit as long as that lives.
    #[test]
    fn another_thread_of_the_process_is_waited_for() {
        let held = Arc::new(Held::default());
        let (place, pid) = (((1, 2), 0x1000), std::process::id());
        let own = thread::living(pid, nix::unistd::gettid().as_raw() as u32).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = ended.recv();
        });
        let other = thread::living(pid, told.recv().unwrap()).unwrap();
        let bound = |thread: Thread| (thread.tid as i32, "process", Some(thread));
        hold(&held, place, 1, bound(other)).unwrap();
        hold(&held, place, 1, TWO).unwrap();
        assert_eq!(hold(&held, place, 1, bound(own)), Err(ProbeError::StillThere));
        drop(end);
        sleeper.join().unwrap();
        // the kernel may take a moment
        let mut ends = 0;
        while other.lives() && ends < 1000 {
            std::thread::sleep(Duration::from_millis(10));
            ends += 1;
        }
        assert_eq!(hold(&held, place, 1, bound(own)), Ok(()));
    }

    /// An IOC has two dozen probes: if each waited for as long, the inspection would be over before the last.
    #[test]
    fn probes_that_are_placed_together_wait_once() {
        let held = Held::default();
        let place = ((1, 2), 0x1000);
        hold(&held, place, 1, ONE).unwrap();
        let mut patience = Duration::from_millis(50);
        for _ in 0..100 {
            let again = held.hold(place, [1; CODE_WINDOW], ONE, &mut patience);
            assert_eq!((again, patience), (Err(ProbeError::StillThere), Duration::ZERO));
        }
        let other = held.hold(place, [1; CODE_WINDOW], TWO, &mut patience);
        assert_eq!(other, Ok(()), "it has nothing to wait for");
    }

    #[test]
    fn a_thread_that_is_probed_there_is_waited_for() {
        let held = Arc::new(Held::default());
        let place = ((1, 2), 0x1000);
        hold(&held, place, 1, ONE).unwrap();
        hold(&held, place, 1, TWO).unwrap();
        let other = held.clone();
        let waiting = std::thread::spawn(move || hold(&other, place, 1, ONE));
        held.release(place, TWO);
        assert!(!waiting.is_finished(), "its probe is still there");
        held.release(place, ONE);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        held.release(place, ONE);
        assert!(held.places.lock().unwrap().is_empty());
    }
}
