//! What one of the inspector's threads does: inspections and requests, whichever is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::inspector::inspection::Known;
use crate::inspector::pool::{Common, Scope};
use crate::inspector::queue::{Entry, User};
use crate::inspector::{Finding, Report, Request};
use crate::ioc::Finder;
use crate::linux::reader::{client, use_reader_process};
use crate::probes::attacher::Attacher;

/// Longest wait for work, so that the finder's caches are tended.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Wait when a process is due but may not be inspected yet.
const RETRY: Duration = Duration::from_millis(50);
/// How often the finder forgets what is no longer needed.
const TICK: Duration = Duration::from_secs(1);

/// One thread.
pub(super) struct Worker {
    pub common: Arc<Common>,
    /// `None`: the tier has no probes.
    pub attacher: Option<Attacher>,
    pub scope: Scope,
    /// Answer requests before inspecting processes.
    requests_first: bool,
    pub finder: Finder,
    ticked: Instant,
}

/// What a thread does next.
enum Job {
    Inspect(Box<Entry<Known>>),
    Answer(User, Request),
}

impl Worker {
    pub fn new(
        common: Arc<Common>,
        attacher: Option<Attacher>,
        scope: Scope,
        requests_first: bool,
    ) -> Worker {
        Worker { common, attacher, scope, requests_first, finder: Finder::default(), ticked: Instant::now() }
    }

    /// Works until the program ends.
    pub fn run(mut self) {
        use_reader_process();
        loop {
            match self.next_job() {
                Job::Inspect(entry) => self.inspect(*entry),
                Job::Answer(user, request) => {
                    let start = Instant::now();
                    self.answer(request);
                    self.common.lock().answered(user, start.elapsed());
                }
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                let pids = self.common.lock().queue.pids();
                self.finder.tick(&pids);
            }
        }
    }

    /// Waits for a job.
    fn next_job(&self) -> Job {
        let mut state = self.common.lock();
        loop {
            let now = Instant::now();
            if self.requests_first {
                if let Some((user, request)) = state.next_request() {
                    return Job::Answer(user, request);
                }
            }
            if let Some(entry) = state.queue.take(now, may_ask) {
                return Job::Inspect(Box::new(entry));
            }
            if let Some((user, request)) = state.next_request() {
                return Job::Answer(user, request);
            }
            let until_due = |due: Instant| {
                due.checked_duration_since(now).filter(|wait| !wait.is_zero()).unwrap_or(RETRY)
            };
            let wait = state.queue.next().map_or(LONGEST_WAIT, until_due);
            state = self.common.wait(state, wait.min(LONGEST_WAIT));
        }
    }

    /// Reports a finding about a process to the loop.
    pub fn report(&self, pid: u32, start: u64, finding: Finding) {
        self.common.report(Report { pid, start, finding });
    }
}

/// May a process of this user be read? `answers`: it is an IOC that has answered so far.
fn may_ask(user: User, answers: bool) -> bool {
    if answers {
        client::may_ask_ioc(user)
    } else {
        client::may_ask(user)
    }
}
