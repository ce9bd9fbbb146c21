//! Processes that would hold up the placing or the removal of a probe, and with it the whole machine.
//!
//! To place or remove a breakpoint the kernel takes the memory lock of every process that has the file mapped, and until it
//! has all of them no process of the machine can fork (`register_for_each_vma` in kernel/events/uprobes.c). A process that
//! waits for a file server while it maps a file of it (NFS that hangs, FUSE) keeps its lock for as long, and nothing ends the
//! kernel's wait. So before that each process is asked for its lock, with a deadline. Which files it has mapped can't be
//! asked without it; nearly all have the C library's. A process may still begin to wait in the milliseconds between.

use std::fs::File;
use std::io::Read;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::{aside, process};

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

/// A process that keeps its memory locked, if there is one. A thread of its own waits for it as long as it must.
pub fn held_up() -> Option<String> {
    let mut state = state();
    if state.is_fresh() {
        return None;
    }
    if state.asked.is_none() {
        state.asked = Some((std::process::id(), Instant::now()));
        if aside::start("neighbours", Box::new(ask_each)).is_err() {
            state.asked = None;
        }
    }
    loop {
        let (pid, since) = state.asked?;
        let Some(left) = PATIENCE.checked_sub(since.elapsed()) else {
            drop(state);
            let user = process::user_id(pid).map_or_else(String::new, |user| format!(" of user {user}"));
            return Some(format!("{pid} ({}){user}", process::thread_name(pid, pid)));
        };
        state = CHANGED.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn ask_each() {
    for pid in others() {
        state().asked = Some((pid, Instant::now()));
        ask(pid);
    }
    *state() = State { answered: Some(Instant::now()), asked: None };
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
    others().for_each(ask);
}

/// All other processes, but kernel threads, which have no memory.
fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let pids = process::pids().unwrap_or_default().into_iter();
    pids.filter(move |pid| *pid != own && process::size(*pid).is_some_and(|size| size > 0))
}

/// Waits until a process gives its memory's lock.
fn ask(pid: u32) {
    // nothing is mapped at address 0, where reading begins: the kernel takes the lock, and reads no page
    let memory = File::open(format!("/proc/{pid}/mem"));
    let _ = memory.and_then(|mut memory| memory.read(&mut [0]));
}
