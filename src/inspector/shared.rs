//! State that the inspector's threads share with each other and with the recorder's loop.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::inspector::known::Known;
use crate::inspector::queue::{Queue, User};
use crate::inspector::report::Report;
use crate::inspector::request::Request;
use crate::linux::bell::Bell;

/// Reports that wait for the loop. A thread with one more waits until there is space.
const MAX_REPORTS: usize = 16;
/// Requests that wait for a thread, half of them about one user's processes alone. Any more are refused, and their facts stay
/// unknown.
const MAX_REQUESTS: usize = 2048;

/// The shared state.
pub(super) struct Common {
    state: Mutex<State>,
    /// Signalled when there is more work.
    pub work: Condvar,
    /// Signalled when a report was taken.
    room: Condvar,
    /// Wakes the loop when there is a report.
    pub bell: Bell,
}

/// State behind the lock.
pub(super) struct State {
    pub queue: Queue<Known>,
    /// Reports not yet taken by the loop. (A channel of the standard library costs 10 KiB of code.)
    reports: VecDeque<Report>,
    requests: VecDeque<(User, Request)>,
    /// Number of requests that are being answered.
    busy: usize,
    /// Processes that did not answer: requests about them are refused.
    pub silent: HashSet<u32>,
    /// Number of times that processes were seen to have ended: threads then forget their files.
    pub ended: u64,
    /// What listened at the last search for servers ([`crate::linux::diag::listening`]).
    pub listening: Option<u64>,
    /// Until when the thread waits that waits for the next process to be due; the others wait for work.
    pub keeper: Option<Instant>,
}

impl Common {
    pub fn new() -> Common {
        let state = State {
            queue: Queue::new(Instant::now()),
            reports: VecDeque::new(),
            requests: VecDeque::new(),
            busy: 0,
            silent: HashSet::new(),
            ended: 0,
            listening: None,
            keeper: None,
        };
        Common { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new(), bell: Bell::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more work, or until the next process is due at `due`. One thread at a time keeps watch over that; the
    /// others sleep until there is work.
    pub fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        now: Instant,
        due: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        let Some(due) = due.filter(|due| state.keeper.is_none_or(|keeper| *due < keeper)) else {
            return self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.keeper = Some(due);
        let limit = due.saturating_duration_since(now);
        state = self.work.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
        // another one may keep watch by now, since something is due earlier
        if state.keeper == Some(due) {
            state.keeper = None;
        }
        state
    }

    /// Hands over a report, as soon as there is space.
    pub fn put_report(&self, report: Report) {
        let is_full = |state: &mut State| state.reports.len() >= MAX_REPORTS;
        let state = self.room.wait_while(self.lock(), is_full);
        state.unwrap_or_else(PoisonError::into_inner).reports.push_back(report);
        self.bell.ring();
    }

    /// Takes a report, if there is one.
    pub fn take_report(&self) -> Option<Report> {
        let report = self.lock().reports.pop_front()?;
        self.room.notify_one();
        Some(report)
    }
}

impl State {
    /// Adds a request; false if too many wait. A user has as much room as is left, so that there is always some for others.
    pub fn add_request(&mut self, user: User, request: Request) -> bool {
        let own = self.requests.iter().filter(|(of, _)| *of == user).count();
        let has_room = self.requests.len() + own < MAX_REQUESTS;
        if has_room {
            self.requests.push_back((user, request));
        }
        has_room
    }

    /// Whether requests wait for a thread.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether all requests have been answered.
    pub fn has_answered(&self) -> bool {
        self.requests.is_empty() && self.busy == 0
    }

    /// Whether all reports have been taken.
    pub fn has_reported(&self) -> bool {
        self.reports.is_empty()
    }

    /// Whether reports on this process wait.
    pub fn reports_on(&self, pid: u32) -> bool {
        self.reports.iter().any(|report| report.pid == pid)
    }

    /// Takes the waiting request of the user who has cost the least so far.
    pub fn next_request(&mut self) -> Option<(User, Request)> {
        let spent = |(_, (user, _)): &(usize, &(User, Request))| self.queue.spent(*user);
        let (place, _) = (0..).zip(&self.requests).min_by_key(spent)?;
        let next = self.requests.remove(place)?;
        self.busy += 1;
        Some(next)
    }

    /// Notes that a request of this user was answered.
    pub fn answered(&mut self, user: User, took: Duration) {
        self.busy -= 1;
        self.queue.spend(user, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many one user's processes make, as one that begins threads without end.
    #[test]
    fn requests_about_others_have_room() {
        let common = Common::new();
        let mut state = common.lock();
        let mut add = |user: User, count: usize| {
            let request = || Request::ServersAmong { iocs: Vec::new() };
            (0..count).filter(|_| state.add_request(user, request())).count()
        };
        assert_eq!(add(Some(1000), 2 * MAX_REQUESTS), MAX_REQUESTS / 2);
        assert_eq!([add(None, 1), add(Some(0), 100)], [1, 100]);
    }
}
