//! The work of one of the inspector's threads: inspections and requests, whichever is due.

use std::time::{Duration, Instant};

use crate::inspector::inspection::Tools;
use crate::inspector::known::Known;
use crate::inspector::lookup;
use crate::inspector::queue::{Entry, User};
use crate::inspector::request::Request;
use crate::inspector::shared::State;
use crate::linux::reader::{client, use_reader_process};

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
    /// Number of times that processes had been seen to have ended when it last did so.
    ended: u64,
}

/// The next job of a thread.
enum Job {
    Inspect(Box<Entry<Known>>),
    Answer(User, Request),
    /// Processes have ended: forget their files.
    Tidy,
}

impl Worker {
    pub fn new(tools: Tools, requests_first: bool) -> Worker {
        Worker { tools, requests_first, ticked: Instant::now(), ended: 0 }
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
                Job::Tidy => {}
            }
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                let state = self.tools.common.lock();
                self.ended = state.ended;
                let pids = state.queue.pids();
                drop(state);
                self.tools.finder.tick(&pids);
            }
        }
    }

    /// Waits for a job.
    fn next_job(&self) -> Job {
        let mut state = self.tools.common.lock();
        loop {
            let now = Instant::now();
            if let Some(job) = self.job(&mut state, now) {
                // another thread keeps watch meanwhile
                if state.keeper.is_none() && state.queue.next().is_some() {
                    self.tools.common.work.notify_one();
                }
                return job;
            }
            let mut due = state.queue.next().map(|due| if due > now { due } else { now + RETRY });
            if state.ended != self.ended {
                let tidy = self.ticked + TICK;
                if tidy <= now {
                    // each thread has files of its own
                    self.tools.common.work.notify_one();
                    return Job::Tidy;
                }
                due = Some(due.map_or(tidy, |due| due.min(tidy)));
            }
            state = self.tools.common.wait(state, now, due);
        }
    }
}

impl Worker {
    /// Takes a job, if there is one to do now.
    fn job(&self, state: &mut State, now: Instant) -> Option<Job> {
        let request =
            |state: &mut State| state.next_request().map(|(user, request)| Job::Answer(user, request));
        let first = if self.requests_first { request(state) } else { None };
        let inspect = |state: &mut State| Some(Job::Inspect(Box::new(state.queue.take(now, may_ask)?)));
        first.or_else(|| inspect(state)).or_else(|| request(state))
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
