//! The inspector as the recorder's loop sees it.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use crate::inspector::inspection::{Scope, Tools};
use crate::inspector::known::Known;
use crate::inspector::report::Report;
use crate::inspector::request::Request;
use crate::inspector::shared::Common;
use crate::inspector::worker::Worker;
use crate::linux::aside;
use crate::linux::reader::client;
use crate::linux::{diag, process};
use crate::probes::attacher::Attacher;

/// Number of threads. While one waits for a process, the other continues.
const THREADS: usize = 2;

/// Inspects processes on its own threads. The recorder's loop holds this end; no call waits for another process.
pub struct Inspector {
    common: Arc<Common>,
    threads: usize,
}

impl Inspector {
    /// Starts the threads. Without an `attacher` nothing is probed.
    pub fn start(attacher: Option<&Attacher>, scope: &Scope) -> Inspector {
        let common = Arc::new(Common::new());
        let start = |number: usize| {
            let tools = Tools::new(common.clone(), attacher.cloned(), scope.clone());
            let worker = Worker::new(tools, number == 0);
            aside::start("inspector", Box::new(move || worker.run())).is_ok()
        };
        let threads = (0..THREADS).filter(|&number| start(number)).count();
        Inspector { common, threads }
    }

    /// Whether the system refused all threads. Then nothing is ever inspected.
    pub fn has_no_threads(&self) -> bool {
        self.threads == 0
    }

    /// Adds a process; `new` if it has just started. Has no effect on a known one.
    pub fn add(&self, pid: u32, new: bool) {
        let mut state = self.common.lock();
        if state.queue.has(pid) {
            return;
        }
        // threads have ids like processes
        let Some((_, user)) = process::group_and_user_id(pid).filter(|(group, _)| *group == pid) else {
            return;
        };
        let Some(start) = process::start(pid) else { return };
        let user = Some(process::sharer_of(pid, user));
        state.queue.add(pid, start, user, new, Known::default(), Instant::now());
        self.common.work.notify_all();
    }

    /// Looks at all processes, some 0.5 µs each: those that have changed their size since their last inspection are
    /// inspected soon, those that have ended are forgotten. Returns the changed ones. Call this each second.
    pub fn glance(&self) -> Vec<u32> {
        let mut state = self.common.lock();
        let (changed, ended) = state.queue.wake(Instant::now(), Known::glance);
        if !ended.is_empty() {
            state.ended += 1;
        }
        drop(state);
        if !(changed.is_empty() && ended.is_empty()) {
            self.common.work.notify_all();
        }
        changed
    }

    /// Whether no socket has begun or ceased to listen since the last search for servers, as far as the kernel tells:
    /// 40 µs, and no other thread is woken.
    pub fn listen_the_same(&self) -> bool {
        let before = self.common.lock().listening;
        // asking for the first time may make the kernel load a module, so a thread of the inspector does that
        before.is_some() && diag::listening() == before
    }

    /// The descriptor that becomes readable when reports wait.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.common.bell.descriptor()
    }

    /// Notes that reports are taken now: the descriptor is no longer readable. Call this before taking them.
    pub fn hear(&self) {
        self.common.bell.hear();
    }

    /// Forgets all processes but these.
    pub fn retain(&self, pids: &HashSet<u32>) {
        let mut state = self.common.lock();
        if state.queue.retain(|pid| pids.contains(&pid)) {
            state.ended += 1;
            self.common.work.notify_all();
        }
        state.silent.retain(|pid| pids.contains(pid));
    }

    /// Forgets a process that has ended or has become another program, and removes its probes.
    pub fn forget(&self, pid: u32) {
        let mut state = self.common.lock();
        state.queue.remove(pid);
        state.silent.remove(&pid);
    }

    /// Whether an inspection of the process that began after `since` has ended, and its reports were taken. If not, one begins
    /// soon.
    pub fn has_inspected(&self, pid: u32, since: Instant) -> bool {
        let mut state = self.common.lock();
        if state.queue.inspected(pid).is_some_and(|inspected| inspected >= since) {
            // the report that is worked on now may have overtaken what the inspection has found
            return !state.reports_on(pid);
        }
        if let Some(known) = state.queue.hurry(pid, Instant::now()) {
            known.forget_size();
            self.common.work.notify_all();
        }
        false
    }

    /// Whether the last inspection of the process could not read it. Then it may be an IOC or not.
    pub fn is_silent(&self, pid: u32) -> bool {
        self.common.lock().silent.contains(&pid)
    }

    /// One to which the system refused all threads.
    #[cfg(test)]
    pub(crate) fn without_threads() -> Inspector {
        Inspector { common: Arc::new(Common::new()), threads: 0 }
    }

    /// Sets that a process has just been inspected, and could be read or not.
    #[cfg(test)]
    pub(crate) fn set_inspected(&self, pid: u32, start: u64, is_read: bool) {
        use crate::inspector::queue::Outcome;
        let (mut state, now) = (self.common.lock(), Instant::now());
        state.queue.remove(pid);
        state.queue.add(pid, start, Some(0), false, Known::default(), now);
        let entry = state.queue.take(now, |_, _| true).expect("the process");
        let outcome = if is_read { Outcome::NoIoc } else { Outcome::Unanswered };
        state.queue.put_back(entry, outcome, std::time::Duration::ZERO, now);
        if is_read {
            state.silent.remove(&pid);
        } else {
            state.silent.insert(pid);
        }
    }

    /// Adds a report, as a thread does.
    #[cfg(test)]
    pub(crate) fn put_report(&self, report: Report) {
        self.common.put_report(report);
    }

    /// Whether all processes that existed at the start have been inspected, and all requests answered.
    pub fn has_finished_start(&self) -> bool {
        let state = self.common.lock();
        self.threads == 0 || state.queue.has_finished_start() && state.has_answered()
    }

    /// Whether all requests have been answered, and all reports taken.
    pub fn is_idle(&self) -> bool {
        let state = self.common.lock();
        self.threads == 0 || state.has_answered() && state.has_reported()
    }

    /// Ends the start: processes added from now on did not exist then.
    pub fn end_start(&self) {
        self.common.lock().queue.end_start();
    }

    /// Asks for a fact. False if no report will follow: the process does not answer, or too many requests wait.
    pub fn request(&self, request: Request) -> bool {
        let mut state = self.common.lock();
        let pid = request.ioc().map(|ioc| ioc.pid);
        let is_silent = pid.is_some_and(|pid| {
            state.silent.contains(&pid) || client::stuck() > 0 && !client::may_ask(process::sharer(pid))
        });
        if is_silent || self.threads == 0 || !state.add_request(pid.and_then(process::sharer), request) {
            return false;
        }
        drop(state);
        self.common.work.notify_one();
        true
    }

    /// Takes a report, if there is one.
    pub fn next_report(&self) -> Option<Report> {
        self.common.take_report()
    }
}
