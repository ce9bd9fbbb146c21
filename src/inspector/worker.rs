//! The work of one of the inspector's threads: inspections and requests, whichever is due.

use std::time::{Duration, Instant};

use crate::inspector::inspection::Tools;
use crate::inspector::known::Known;
use crate::inspector::lookup;
use crate::inspector::queue::{Entry, User};
use crate::inspector::request::Request;
use crate::linux::reader::{client, use_reader_process};

/// Longest wait for work, so that the finder's caches are tended.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Wait when a process is due but may not be inspected yet.
const RETRY: Duration = Duration::from_millis(50);
/// Interval at which the finder forgets data no longer needed.
const TICK: Duration = Duration::from_secs(1);

/// One thread.
pub(super) struct Worker {
    tools: Tools,
    /// Whether to answer requests before inspecting processes.
    requests_first: bool,
    ticked: Instant,
}

/// The next job of a thread.
enum Job {
    Inspect(Box<Entry<Known>>),
    Answer(User, Request),
}

impl Worker {
    pub fn new(tools: Tools, requests_first: bool) -> Worker {
        Worker { tools, requests_first, ticked: Instant::now() }
    }

    /// Works until the program ends.
    pub fn run(mut self) {
        use_reader_process();
        loop {
            match self.next_job() {
                Job::Inspect(entry) => self.tools.inspect(*entry),
                Job::Answer(user, request) => {
                    let start = Instant::now();
                    lookup::answer(&self.tools.common, request);
                    self.tools.common.lock().answered(user, start.elapsed());
                }
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                let pids = self.tools.common.lock().queue.pids();
                self.tools.finder.tick(&pids);
            }
        }
    }

    /// Waits for a job.
    fn next_job(&self) -> Job {
        let mut state = self.tools.common.lock();
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
            state = self.tools.common.wait(state, wait.min(LONGEST_WAIT));
        }
    }
}

/// Whether a process of this user may be read. `answers`: it is an IOC that has answered so far.
fn may_ask(user: User, answers: bool) -> bool {
    if answers {
        client::may_ask_ioc(user)
    } else {
        client::may_ask(user)
    }
}
