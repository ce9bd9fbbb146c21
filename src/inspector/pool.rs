//! The inspector's threads, and what they share with the recorder's loop.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::inspector::inspection::Known;
use crate::inspector::queue::{Queue, User};
use crate::inspector::worker::Worker;
use crate::inspector::{Report, Request};
use crate::linux::reader::client;
use crate::linux::{process, user};
use crate::probes::attacher::Attacher;

/// Number of threads. While one waits for a process, the other goes on.
const THREADS: usize = 2;
/// Reports that wait for the loop. A thread that has one more waits until there is room.
const MAX_REPORTS: usize = 16;
/// Requests that wait for a thread. One more is refused, and what was asked for stays unknown.
const MAX_REQUESTS: usize = 1024;

/// What to record of an IOC.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Users whose processes are recorded.
    pub users: user::Users,
    /// Record puts.
    pub puts: bool,
    /// Record processing.
    pub process: bool,
}

/// Inspects processes on threads of its own. The recorder's loop holds this end; no call waits for another process.
pub struct Inspector {
    common: Arc<Common>,
    threads: usize,
}

/// What the threads and the loop share.
pub(super) struct Common {
    state: Mutex<State>,
    /// Signalled when there is more work.
    work: Condvar,
    /// Signalled when a report was taken.
    room: Condvar,
}

/// Behind the lock.
pub(super) struct State {
    pub queue: Queue<Known>,
    /// Not yet taken by the loop. (A channel of the standard library costs 10 KiB of code.)
    reports: VecDeque<Report>,
    requests: VecDeque<(User, Request)>,
    /// Requests that are being answered.
    busy: usize,
    /// Processes that did not answer: requests about them are refused.
    pub silent: HashSet<u32>,
}

impl Common {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more work, `limit` at most.
    pub fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: std::time::Duration,
    ) -> MutexGuard<'a, State> {
        self.work.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Hands over a report, as soon as there is room.
    pub fn report(&self, report: Report) {
        let is_full = |state: &mut State| state.reports.len() >= MAX_REPORTS;
        let state = self.room.wait_while(self.lock(), is_full);
        state.unwrap_or_else(PoisonError::into_inner).reports.push_back(report);
    }
}

impl State {
    /// Takes the waiting request of the user who has cost the least so far.
    pub fn next_request(&mut self) -> Option<(User, Request)> {
        let spent = |(_, (user, _)): &(usize, &(User, Request))| self.queue.spent(*user);
        let (place, _) = (0..).zip(&self.requests).min_by_key(spent)?;
        let next = self.requests.remove(place)?;
        self.busy += 1;
        Some(next)
    }

    /// A request of this user was answered.
    pub fn answered(&mut self, user: User, took: std::time::Duration) {
        self.busy -= 1;
        self.queue.spend(user, took);
    }
}

impl Inspector {
    /// Starts the threads. Without an `attacher` nothing is probed.
    pub fn start(attacher: Option<&Attacher>, scope: &Scope) -> Inspector {
        let state = State {
            queue: Queue::new(Instant::now()),
            reports: VecDeque::new(),
            requests: VecDeque::new(),
            busy: 0,
            silent: HashSet::new(),
        };
        let (work, room) = (Condvar::new(), Condvar::new());
        let common = Arc::new(Common { state: Mutex::new(state), work, room });
        let start = |number: usize| {
            let worker = Worker::new(common.clone(), attacher.cloned(), scope.clone(), number == 0);
            // if the system refuses both threads, packets alone are recorded
            std::thread::Builder::new().name("inspector".into()).spawn(move || worker.run()).is_ok()
        };
        let threads = (0..THREADS).filter(|&number| start(number)).count();
        Inspector { common, threads }
    }

    /// Did the system refuse all threads? Then nothing is ever inspected.
    pub fn has_no_threads(&self) -> bool {
        self.threads == 0
    }

    /// A process exists; `new` if it has just started. Has no effect on one that is known.
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
        state.queue.add(pid, start, Some(user), new, Known::default(), Instant::now());
        self.common.work.notify_one();
    }

    /// Forgets all processes but these.
    pub fn retain(&self, pids: &HashSet<u32>) {
        let mut state = self.common.lock();
        state.queue.retain(|pid| pids.contains(&pid));
        state.silent.retain(|pid| pids.contains(pid));
    }

    /// Forgets a process that has ended or has become another program, and takes out its probes.
    pub fn forget(&self, pid: u32) {
        let mut state = self.common.lock();
        state.queue.remove(pid);
        state.silent.remove(&pid);
    }

    /// Has an inspection of the process that began after `since` ended? If not, one is begun soon.
    pub fn has_inspected(&self, pid: u32, since: Instant) -> bool {
        let mut state = self.common.lock();
        if state.queue.inspected(pid).is_some_and(|inspected| inspected >= since) {
            return true;
        }
        if let Some(known) = state.queue.hurry(pid, Instant::now()) {
            known.forget_size();
            self.common.work.notify_one();
        }
        false
    }

    /// Have all processes been inspected that existed at the start, and all requests been answered?
    pub fn has_finished_start(&self) -> bool {
        let state = self.common.lock();
        self.threads == 0 || state.queue.has_finished_start() && state.requests.is_empty() && state.busy == 0
    }

    /// Have all requests been answered, and all reports been taken?
    pub fn is_idle(&self) -> bool {
        let state = self.common.lock();
        self.threads == 0 || state.requests.is_empty() && state.busy == 0 && state.reports.is_empty()
    }

    /// Processes that are added from now on did not exist at the start.
    pub fn end_start(&self) {
        self.common.lock().queue.end_start();
    }

    /// Asks for a fact. False if no report will follow: the process does not answer, or too many requests wait.
    pub fn request(&self, request: Request) -> bool {
        let mut state = self.common.lock();
        let pid = request.ioc().map(|ioc| ioc.pid);
        let is_silent = pid.is_some_and(|pid| {
            state.silent.contains(&pid) || client::stuck() > 0 && !client::may_ask(process::user_id(pid))
        });
        if is_silent || state.requests.len() >= MAX_REQUESTS || self.threads == 0 {
            return false;
        }
        state.requests.push_back((pid.and_then(process::user_id), request));
        drop(state);
        self.common.work.notify_all();
        true
    }

    /// Takes a report, if there is one.
    pub fn next_report(&self) -> Option<Report> {
        let report = self.common.lock().reports.pop_front()?;
        self.common.room.notify_one();
        Some(report)
    }
}
