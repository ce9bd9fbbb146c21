//! The loop: it asks every source in turn, some twenty times a second while something comes, and notes losses and the
//! wall clock. When nothing comes it waits until a descriptor wakes it, a source wants to be asked, or the second is
//! over.
//!
//! The order is exact. An IOC's last facts come before its end: once the end of a process is noticed, all waiting facts
//! are taken again before its tracing ends. At its own end the recorder waits a moment for answers that the last hits need: names of call sites,
//! clients.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use iocrec_log::event::{Clock, Event, Fact, Loss};
use nix::poll::{PollFd, PollFlags};

use crate::bpf::maps::Maps;
use crate::linux::connector::Connector;
use crate::recorder::circuits::Circuits;
use crate::recorder::context::Context;
use crate::recorder::env::Run;
use crate::recorder::env::{Env, Machine};
use crate::recorder::error::StartError;
use crate::recorder::options::Options;
use crate::recorder::registry::Registry;
use crate::recorder::sink::Sink;
use crate::recorder::sources::{Lost, Resting, Source, ROUND, UNTIL_WOKEN};

/// Interval between searches for processes, nanoseconds: an IOC that starts is seen within this.
pub(super) const SURVEY: u64 = 1_000_000_000;
/// Longest wait of the start for all processes to be inspected, nanoseconds. The rest are inspected while others are
/// recorded.
const START: u64 = 5_000_000_000;
/// Longest wait of the end for answers and for the last packets, nanoseconds: ending the recorder takes at most a second
/// in all. The kernel keeps packets for up to 420 ms of it.
const SETTLE: u64 = 700_000_000;
/// Pause between two rounds of that wait.
const PAUSE: Duration = Duration::from_millis(2);
/// Rounds before a look for ended IOCs, and at the end: they take more than the ring holds. The limit ends them even
/// under a load that refills the ring as fast.
const MAX_ROUNDS: usize = 8;
/// Interval between notes of the wall clock, nanoseconds: the time of a step is known to this.
const CLOCK: u64 = 10_000_000_000;
/// Smallest step of the wall clock that is noted at once, nanoseconds.
const CLOCK_STEP: u64 = 1_000_000;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// The time was over.
    ByTime,
    /// A descriptor, or there was no wait.
    ByWork,
}

/// The sources, and everything that they work on.
pub struct Loop {
    pub(super) options: Options,
    machine: Machine,
    sources: Vec<Box<dyn Source>>,
    iocs: Registry,
    circuits: Circuits,
    maps: Option<Maps>,
    run: Run,
    wall_offset: i64,
    /// Of each source: whether it rests until it is woken.
    resting: Vec<bool>,
    /// Time of the last count of losses: new ones are later.
    counted: u64,
    /// Whether anything new has been found since memory was last given back.
    changed: bool,
    /// Whether anything new had been found before that.
    changed_before: bool,
}

impl Loop {
    /// Creates a loop without sources.
    pub fn new(options: Options, machine: Machine, maps: Option<Maps>, run: Run) -> Loop {
        let counted = machine.clock.monotonic();
        Loop {
            options,
            machine,
            sources: Vec::new(),
            iocs: Registry::default(),
            circuits: Circuits::default(),
            maps,
            run,
            wall_offset: 0,
            resting: Vec::new(),
            counted,
            changed: false,
            changed_before: false,
        }
    }

    /// Takes packets from a file: nothing of this machine is recorded.
    pub fn of_file(mut self) -> Loop {
        self.circuits = Circuits::of_file();
        self
    }

    /// Adds a source after the others.
    pub fn add(&mut self, source: impl Source + 'static) {
        self.sources.push(Box::new(source));
    }

    /// Lets the process connector tell how processes end.
    pub fn listen(&mut self, connector: Connector) {
        self.iocs.endings_mut().listen(connector);
    }

    fn now(&self) -> u64 {
        self.machine.clock.monotonic()
    }

    /// Works with the sources. True if they have changed something that all must adapt to.
    fn work(
        &mut self,
        sink: &mut dyn Sink,
        messages: &mut Vec<String>,
        work: impl FnOnce(&mut [Box<dyn Source>], &mut Context<'_>),
    ) -> bool {
        let env = Env {
            now: self.machine.clock.monotonic(),
            wall_offset: self.wall_offset,
            options: &self.options,
            machine: &self.machine,
            sink,
            messages,
            run: &mut self.run,
        };
        let (iocs, circuits, maps) = (&mut self.iocs, &mut self.circuits, self.maps.as_mut());
        let mut cx = Context { env, iocs, circuits, maps, changed: false };
        work(&mut self.sources, &mut cx);
        cx.changed
    }

    /// Asks all sources once. True if more facts may wait.
    fn round(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) -> bool {
        self.ask(sink, messages, Woken::ByWork)
    }

    /// Asks all sources once, or those that do not rest until they are woken. True if more facts may wait.
    fn ask(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>, woken: Woken) -> bool {
        let mut more = false;
        let resting = std::mem::take(&mut self.resting);
        let changed = self.work(sink, messages, |sources, cx| {
            for (at, source) in sources.iter_mut().enumerate() {
                let rests = woken == Woken::ByTime && resting.get(at).is_some_and(|rests| *rests);
                if !rests {
                    more |= source.take(cx);
                }
            }
            if cx.changed {
                cx.env.now = cx.env.monotonic();
                sources.iter_mut().for_each(|source| source.adapt(cx));
            }
        });
        self.changed |= changed;
        more
    }

    /// Takes all facts that wait now, even if more arrive meanwhile.
    fn take_all(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) {
        for _ in 0..MAX_ROUNDS {
            if !self.round(sink, messages) {
                break;
            }
        }
    }

    /// Starts, and waits a while until every running IOC has been found.
    ///
    /// # Errors
    /// Nothing of the user's selection can be recorded.
    pub fn start(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) -> Result<(), StartError> {
        self.work(sink, messages, |sources, cx| sources.iter_mut().for_each(|source| source.begin(cx)));
        let end = self.now().saturating_add(START);
        let told_to_end = self.machine.is_told_to_end;
        let mut is_through = false;
        while !is_through && !told_to_end() && self.now() < end {
            is_through = self.sources.iter().all(|source| source.is_through());
            if !is_through {
                self.machine.clock.wait(&mut [], PAUSE);
            }
            self.take_all(sink, messages);
            sink.tick(self.now());
        }
        if told_to_end() {
            // not everything was looked at
            return Ok(());
        }
        let mut outcome = Ok(());
        self.work(sink, messages, |sources, cx| {
            outcome = sources.iter_mut().try_for_each(|source| source.started(cx, is_through));
        });
        outcome
    }

    /// Records until a signal or the duration ends it. Lines for people go to `say`.
    pub fn run(&mut self, sink: &mut dyn Sink, say: &mut dyn FnMut(&str)) {
        let start = self.now();
        let end = self.options.duration.map(|duration| start.saturating_add(duration.as_nanos() as u64));
        let (mut surveyed, mut clocked) = (start, start);
        let mut messages = Vec::new();
        let mut woken = Woken::ByWork;
        loop {
            let more = self.ask(sink, &mut messages, woken);
            woken = Woken::ByWork;
            let now = self.now();
            let is_over = self.sources.iter().any(|source| source.is_over());
            if is_over || (self.machine.is_told_to_end)() || end.is_some_and(|end| now >= end) {
                break;
            }
            if now - surveyed >= SURVEY {
                surveyed = now;
                self.second(sink, &mut messages);
            }
            let step = self.wall_offset.abs_diff(self.machine.clock.wall_offset()) >= CLOCK_STEP;
            if now - clocked >= CLOCK || step {
                clocked = now;
                self.note_clock(now, sink);
            }
            sink.tick(now);
            messages.extend(sink.notice());
            messages.drain(..).for_each(|line| say(&line));
            if more {
                continue;
            }
            let next = surveyed.saturating_add(SURVEY).min(end.unwrap_or(u64::MAX));
            let rest = self.rest(sink, now, next);
            let has_ended;
            (has_ended, woken) = self.wait(rest);
            if has_ended {
                self.end_processes(sink, &mut messages);
            }
        }
        self.end(sink, &mut messages);
        messages.extend(sink.notice());
        messages.drain(..).for_each(|line| say(&line));
    }

    /// Ends the tracing of processes that have ended. The first round notices them; what they did until then is taken
    /// before the second one lets them go.
    fn end_processes(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) {
        for _ in 0..2 {
            self.take_all(sink, messages);
            self.changed |= self.work(sink, messages, |sources, cx| {
                sources.iter_mut().for_each(|source| source.process_ended(cx));
                if cx.changed {
                    sources.iter_mut().for_each(|source| source.adapt(cx));
                }
            });
        }
    }

    /// Does the work of each second.
    fn second(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) {
        // an IOC's last facts come before its end
        self.take_all(sink, messages);
        let changed = self.work(sink, messages, |sources, cx| {
            sources.iter_mut().for_each(|source| source.survey(cx));
            sources.iter_mut().for_each(|source| source.adapt(cx));
            sources.iter_mut().for_each(|source| source.second(cx));
        });
        if self.iocs.iter().any(|ioc| ioc.end_noticed) {
            self.end_processes(sink, messages);
        }
        self.note_losses(sink);
        // after a change, and once more after the log's thread has handled it
        let changed = changed | std::mem::take(&mut self.changed);
        if changed || self.changed_before {
            give_memory_back();
        }
        self.changed_before = changed;
    }

    /// Takes all remaining facts, with the answers that they need.
    fn end(&mut self, sink: &mut dyn Sink, messages: &mut Vec<String>) {
        self.work(sink, messages, |sources, cx| sources.iter_mut().for_each(|source| source.stop(cx)));
        self.take_all(sink, messages);
        let until = self.now().saturating_add(SETTLE);
        while self.now() < until {
            self.round(sink, messages);
            if !sink.awaits() && self.sources.iter().all(|source| source.is_settled()) {
                break;
            }
            self.machine.clock.wait(&mut [], PAUSE);
        }
        self.take_all(sink, messages);
        self.work(sink, messages, |sources, cx| sources.iter_mut().for_each(|source| source.finish(cx)));
        self.note_losses(sink);
    }

    /// The longest time that the loop may wait from `now` on: until `second`, when the work of the next second is due,
    /// and as long as all sources and the sink rest.
    fn rest(&mut self, sink: &dyn Sink, now: u64, second: u64) -> Duration {
        if !self.run.requests.is_empty() {
            return ROUND;
        }
        let left = |until: u64| Duration::from_nanos(until.saturating_sub(now));
        let longest = sink.rest(now).min(left(second));
        let resting = Resting { now, patience: sink.patience(), iocs: &self.iocs, circuits: &self.circuits };
        self.resting.clear();
        let rests = self.sources.iter_mut().map(|source| {
            let rest = source.rest(&resting);
            self.resting.push(rest == UNTIL_WOKEN);
            rest
        });
        rests.fold(longest, Duration::min)
    }

    /// Waits for work, at most for `longest`. Returns whether a traced process has ended; and what woke it: without a
    /// readable descriptor, sources that rest until they are woken need not be asked.
    fn wait(&self, longest: Duration) -> (bool, Woken) {
        let fds: Vec<RawFd> = self.sources.iter().flat_map(|source| source.descriptors()).collect();
        let mut polled: Vec<PollFd> = fds
            .iter()
            .map(|&fd| {
                // SAFETY: the descriptors belong to the sources, which live longer than `polled` and do not change
                // meanwhile.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                PollFd::new(fd, PollFlags::POLLIN)
            })
            .collect();
        let of_sources = polled.len();
        polled.extend(self.iocs.endings().descriptor().map(|ending| PollFd::new(ending, PollFlags::POLLIN)));
        self.machine.clock.wait(&mut polled, longest);
        let is_readable = |polled: &PollFd| polled.any() == Some(true);
        let has_ended = polled.iter().skip(of_sources).any(is_readable);
        let by_time = !polled.iter().any(is_readable);
        (has_ended, if by_time { Woken::ByTime } else { Woken::ByWork })
    }

    /// Notes the wall clock's time.
    pub fn note_clock(&mut self, now: u64, sink: &mut dyn Sink) {
        self.wall_offset = self.machine.clock.wall_offset();
        let wall = self.wall_offset.saturating_add_unsigned(now);
        sink.push(Event { time: now, fact: Fact::Clock(Clock { wall }) });
    }

    /// Notes the sources' losses since the last call: a stopped recorder has lost facts since then.
    fn note_losses(&mut self, sink: &mut dyn Sink) {
        let now = self.now();
        let since = std::mem::replace(&mut self.counted, now);
        for Lost { source, count, cause } in self.sources.iter_mut().flat_map(|source| source.lost()) {
            if count > 0 {
                let loss = Loss { source, count, since, cause: cause.into() };
                sink.push(Event { time: now, fact: Fact::Loss(loss) });
            }
        }
    }
}

/// Gives the memory of symbol tables, megabytes for some programs, back to the system: glibc would keep it.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests;
