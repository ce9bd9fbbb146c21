//! Processes that would hold up the placing or the removal of a probe, and with it the whole machine.
//!
//! To place or remove a breakpoint the kernel takes the memory lock of every process that has the file mapped, and until it has them all
//! no process of the machine can fork (`register_for_each_vma` in kernel/events/uprobes.c). A process that waits for a file
//! server while it maps a file of it (NFS that hangs, FUSE) keeps its lock for as long, and nothing can end the wait of the
//! kernel. So before probes are placed each process is asked for its lock, with a deadline. Which files it has mapped can't be
//! asked without it; nearly all have the C library's. A process may still begin to wait in the milliseconds between.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::process;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::Inspection;

/// Time for which the answer is taken to last: several IOCs often start together, and each process takes some 10 µs.
const LASTS: Duration = Duration::from_secs(1);
/// The same if one holds up: its deadline costs a second.
const HELD_LASTS: Duration = Duration::from_secs(4);
/// Limits for one process: nothing is read but an error.
const BYTES: u64 = 1 << 20;
const TIME: Duration = Duration::from_secs(5);

/// When the processes were last asked, and which one held up.
static LAST: Mutex<Option<(Instant, Option<String>)>> = Mutex::new(None);

/// A process that keeps its memory locked, if there is one. Call it on a thread with a reader process, outside of an
/// inspection.
pub fn held_up() -> Option<String> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let lasts = |held: &Option<String>| if held.is_some() { HELD_LASTS } else { LASTS };
    if let Some((_, held)) = last.as_ref().filter(|(time, held)| time.elapsed() < lasts(held)) {
        return held.clone();
    }
    let held = others().find(|pid| keeps_lock(*pid)).map(|pid| {
        let user = process::user_id(pid).map_or_else(String::new, |user| format!(" of user {user}"));
        format!("{pid} ({}){user}", process::thread_name(pid, pid))
    });
    *last = Some((Instant::now(), held.clone()));
    held
}

/// Waits for all, on a thread that may wait as long as it must.
pub fn wait() {
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |(time, held): &(Instant, Option<String>)| held.is_none() && time.elapsed() < LASTS;
    if !last().as_ref().is_some_and(is_free) {
        wait_in_child();
        *last() = Some((Instant::now(), None));
    }
}

/// The same for a forked child, which may take no lock.
pub fn wait_in_child() {
    for pid in others() {
        let memory = std::fs::File::open(memory_of(pid));
        let _ = memory.and_then(|mut memory| std::io::Read::read(&mut memory, &mut [0]));
    }
}

/// All other processes, but kernel threads, which have no memory.
fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let pids = process::pids().unwrap_or_default().into_iter();
    pids.filter(move |pid| *pid != own && process::size(*pid).is_some_and(|size| size > 0))
}

fn memory_of(pid: u32) -> String {
    // nothing is mapped at address 0, where reading begins: the kernel takes the lock, and reads no page
    format!("/proc/{pid}/mem")
}

/// Whether a process does not give its memory's lock in time.
fn keeps_lock(pid: u32) -> bool {
    let look = Inspection::begin(pid, BYTES, TIME);
    let _ = process::contents(memory_of(pid));
    look.end() == Some(Refused::NoAnswer)
}
