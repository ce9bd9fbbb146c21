//! Processes that would hold up the placing or the removal of a probe, and with it the whole machine.
//!
//! To place or remove a breakpoint the kernel takes the memory lock of every process that has the file mapped, and until it
//! has all of them no process of the machine can fork (`register_for_each_vma` in kernel/events/uprobes.c). A process that
//! waits for a file server while it maps a file of it (NFS that hangs, FUSE) keeps its lock for as long, and nothing ends the
//! kernel's wait. So before that each process is asked for its lock, with a deadline. Which files it has mapped can't be
//! asked without it; nearly all have the C library's. A process may still begin to wait in the milliseconds between.
//!
//! As long as not all could be asked, for want of descriptors, memory or threads, no probe is placed; its removal, which may
//! be what frees descriptors, waits ten seconds for it.

use std::fs::File;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::{aside, descriptors, process};

/// Time for which the answer is taken to last: several IOCs often start together, and each process takes some 5 µs.
const LASTS: Duration = Duration::from_secs(1);
/// Time after which a process counts as one that holds up. All else that holds the lock does so for milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last time that the processes were asked, or the thread that asks them now.
struct State {
    /// When all had answered.
    answered: Option<Instant>,
    /// The process that is being asked, and since when.
    asked: Option<(u32, Instant)>,
}

static STATE: Mutex<State> = Mutex::new(State { answered: None, asked: None });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn is_fresh(&self) -> bool {
        self.asked.is_none() && self.answered.is_some_and(|time| time.elapsed() < LASTS)
    }
}

/// What keeps a probe from being placed: a process that keeps its memory locked, or that not all could be asked. A thread of
/// its own waits for it as long as it must.
pub fn held_up() -> Option<String> {
    const UNKNOWN: &str = "not all processes could be asked whether they keep their memory locked";
    let mut state = state();
    if state.is_fresh() {
        return None;
    }
    if state.asked.is_none() {
        state.asked = Some((std::process::id(), Instant::now()));
        if aside::start("neighbours", Box::new(ask_each)).is_err() {
            state.asked = None;
            return Some(UNKNOWN.into());
        }
    }
    loop {
        let Some((pid, since)) = state.asked else {
            return state.answered.is_none().then(|| UNKNOWN.into());
        };
        let Some(left) = PATIENCE.checked_sub(since.elapsed()) else {
            drop(state);
            let user = process::user_id(pid).map_or_else(String::new, |user| format!(" of user {user}"));
            let name = process::thread_name(pid, pid);
            return Some(format!(
                "process {pid} ({name}){user} keeps its memory locked (does it wait for a file server?)"
            ));
        };
        state = CHANGED.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn ask_each() {
    let have_answered = others().is_some_and(|others| {
        others.into_iter().all(|pid| {
            state().asked = Some((pid, Instant::now()));
            ask(pid)
        })
    });
    *state() = State { answered: have_answered.then(Instant::now), asked: None };
    CHANGED.notify_all();
}

/// Waits for all, on a thread that may wait as long as it must.
pub fn wait() {
    if !state().is_fresh() {
        wait_in_child();
    }
}

/// The same for a forked child, which may take no lock.
pub fn wait_in_child() {
    /// Seconds for which it tries to ask those that could not be.
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        if others().is_some_and(|others| others.into_iter().all(ask)) {
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A living thread of each other process but kernel threads, which have no memory; `None` if they are unknown.
fn others() -> Option<Vec<u32>> {
    let own = std::process::id();
    let mut pids = process::pids().ok()?;
    pids.retain_mut(|pid| {
        let first = *pid;
        let has_memory = process::size(first) != Some(0);
        if !has_memory {
            // the first thread may have ended alone
            *pid = process::living(first);
        }
        first != own && (has_memory || *pid != first)
    });
    Some(pids)
}

/// Waits until a process gives its memory's lock. False if it could not be asked.
fn ask(pid: u32) -> bool {
    // nothing is mapped at address 0, where reading begins: the kernel takes the lock, and reads no page. Other errors tell
    // that it has ended, or may not be asked
    let memory = File::open(format!("/proc/{pid}/mem"));
    match memory.and_then(|mut memory| memory.read(&mut [0])) {
        Err(error) => !descriptors::is_want(&error),
        Ok(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn all_others_are_asked() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let all = others().unwrap();
        assert!(all.contains(&child.id()));
        assert!(!all.contains(&std::process::id()));
        assert!(ask(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ask(child.id()), "it has ended, and holds nothing up");
    }
}
