//! From hits to chains: one engine per run.
//!
//! Fed with a run's events in order of time, it rebuilds what called what (docs/internals/chains.md): by the stack of
//! each thread, by the calling functions, and across threads by the waiting record. It also joins the two sides of a
//! put, packet and hit (see [`super::packets`]). This module has the stacks and the end of chains; `puts` and
//! `processing` have the rules for hits.

mod after;
mod processing;
mod puts;
mod pvaccess;
mod scans;
mod together;

use super::caller::{Caller, Known, Role};
use super::chain::{Asked, Chain};
use super::forwarding::Forwarding;
use super::numbered::{Dense, Numbered};
use super::open_chains::{OpenChains, SpanRef};
use super::packets::Packets;
use super::requests::{Callback, Requests};
use super::run::Run;
use super::said::{Said, Sayings, What as Saying};
use super::stack::{Frame, In, Puts, Thread};
use super::threads::Threads;
use crate::names::is_lost;
use crate::time::SECOND;
use iocrec_log::event::{CircuitId, Event, Fact, Loss, LossSource, RecordId, ThreadId};
use std::collections::VecDeque;
use std::rc::Rc;
use together::Together;

/// Interval, in the log's time, between searches for finished chains.
const SWEEP: u64 = SECOND / 10;
/// Events after which the search is made regardless of time, so that logs in which no time passes, or very much happens
/// in it, take no more memory.
const SWEEP_EVENTS: usize = 20_000;
/// Time without a hit after which a thread whose records have all completed has gone back to waiting.
const IDLE: u64 = 2 * SECOND;
/// Longest time until `scanOnce` processes a record: its queue holds 1000, and one may be slow.
const ONCE: u64 = 10 * SECOND;
/// Threads whose stacks are remembered before idle ones are forgotten. A big IOC has some hundreds.
const MAX_THREADS: usize = 10_000;
/// Functions that a thread may be in: its stack of some megabytes can't hold more.
const MAX_FRAMES: usize = 20_000;
/// Functions that all threads together may be in; a bound for hostile logs.
const MAX_ALL_FRAMES: usize = 1_000_000;
/// Records in each map here; a bound for hostile logs.
const MAX_RECORDS: usize = 1_000_000;

/// A call of `scanOnce` for a record.
struct Once {
    time: u64,
    /// The record's processing in which it was made, if any.
    within: Option<SpanRef>,
    /// Whether a thread of the CA links made it: a monitor has arrived.
    by_link: bool,
    /// If a CP link has found its record active, since when the record had been.
    active: Option<Asked>,
}

/// Rebuilds the chains of one run.
pub struct Engine {
    run: Rc<Run>,
    chains: OpenChains,
    threads: Threads,
    known: Known,
    /// Processing that has begun but not completed.
    open: Dense<SpanRef>,
    /// Records that were disabled when the recorder looked, and have not completed since.
    disabled: Dense<()>,
    /// Puts with callback that have yet to write: if they find their record busy, a callback thread carries them out
    /// later, one after the other.
    notifies: Numbered<RecordId, VecDeque<SpanRef>>,
    /// The latest put to a record during its processing, or what made its link try to process it then: the reason why the
    /// record processes once more (RPRO).
    meanwhile: Numbered<RecordId, SpanRef>,
    /// `scanOnce` requests for each record.
    asked: Numbered<RecordId, VecDeque<Once>>,
    /// Whether a thread of the CA links made the latest of them that was carried out.
    once_by_link: bool,
    /// Since when the record had been active that it found so.
    found_active: Option<Asked>,
    /// Processing that has requested a delayed callback.
    delayed: Numbered<RecordId, SpanRef>,
    /// The processing that each callback of a record's own belongs to.
    callbacks: Numbered<Callback, SpanRef>,
    /// Requests to process the records of an event or of I/O Intr.
    requests: Requests,
    /// The latest puts to fields of each record whose result has yet to be seen.
    written: Numbered<RecordId, Vec<after::Written>>,
    /// Puts whose result was seen in the last seconds, and when.
    judged: VecDeque<(u64, SpanRef)>,
    together: Together,
    packets: Packets,
    pva: pvaccess::Requests,
    forwarding: Forwarding,
    /// Chains of scans that are made again.
    scans: scans::Scans,
    /// What the IOCs said.
    sayings: Sayings,
    now: u64,
    /// Time of the last search for finished chains, and events since.
    swept: u64,
    since_swept: usize,
}

impl Engine {
    /// Creates an engine for the run's events.
    pub fn new(run: Rc<Run>) -> Self {
        Engine {
            chains: OpenChains::new(Rc::clone(&run)),
            run,
            threads: Threads::default(),
            known: Known::default(),
            open: Dense::default(),
            disabled: Dense::default(),
            notifies: Numbered::default(),
            meanwhile: Numbered::default(),
            asked: Numbered::default(),
            once_by_link: false,
            found_active: None,
            delayed: Numbered::default(),
            callbacks: Numbered::default(),
            requests: Requests::default(),
            written: Numbered::default(),
            judged: VecDeque::new(),
            together: Together::default(),
            packets: Packets::default(),
            pva: pvaccess::Requests::default(),
            forwarding: Forwarding::default(),
            scans: scans::Scans::default(),
            sayings: Sayings::default(),
            now: 0,
            swept: 0,
            since_swept: 0,
        }
    }

    /// Takes the next event, not earlier than the one before. Moves chains that have ended to `out`.
    pub fn push(&mut self, event: Event, out: &mut Vec<Chain>) {
        let time = event.time.max(self.now);
        self.now = time;
        self.since_swept += 1;
        if time >= self.swept.saturating_add(SWEEP) || self.since_swept >= SWEEP_EVENTS {
            self.sweep(out);
        }
        match event.fact {
            Fact::ServerThread(server) => self.packets.bind(server.thread, server.circuit),
            Fact::CaPut(put) => self.message(time, put),
            Fact::CaAnswer(answer) => self.answer(time, &answer),
            Fact::PvaPut(put) => self.pva_put(time, &put),
            Fact::PvaAnswer(answer) => self.pva_answer(time, &answer),
            Fact::Put(put) => self.put(time, *put),
            Fact::Process(process) => self.process(time, process),
            Fact::RsetProcess(process) => self.rset_process(time, process),
            Fact::Complete(complete) => self.complete(time, complete),
            Fact::Cause(cause) => self.cause(time, cause),
            Fact::CaLinkPut(put) => self.link(time, *put),
            Fact::CaClientPut(put) => self.run.asks_to_put(time, &put),
            Fact::RecordScan(scanned) => {
                self.scans.clear();
                let context = self.run.context();
                let list = scanned.list.and_then(|list| context.scan_list(list));
                self.requests.place(scanned.record, list);
            }
            Fact::ConsoleLine(line) => self.says(time, Saying::Line(*line)),
            Fact::ConsoleLeftOut(left_out) => self.says(time, Saying::LeftOut(left_out)),
            Fact::ErrlogCall(call) => self.says(time, Saying::Errlog(*call)),
            Fact::GivingUp(end) => self.says(time, Saying::GaveUp(*end)),
            Fact::PactCheck(check) => self.pact_check(time, check),
            Fact::FieldValue(held) => self.field_value(time, held),
            // Requests may be missing too: a record could then be matched with another's request.
            Fact::Loss(Loss { source: LossSource::Hits, since, .. }) => {
                self.requests.clear();
                self.run.lost_hits(since, time);
                self.disturb_all(since);
            }
            Fact::Loss(loss) if loss.source == LossSource::Storage && is_lost(&loss) => {
                self.run.lacks(loss.since, time);
            }
            _ => {}
        }
    }

    /// Forgets a circuit that was closed long ago.
    pub fn forget(&mut self, circuit: CircuitId) {
        self.packets.forget(circuit);
    }

    /// Gives out everything at the end of the log or at a gap.
    pub fn finish(&mut self, out: &mut Vec<Chain>) {
        let threads: Vec<ThreadId> = self.threads.iter().map(|(thread, _)| thread).collect();
        for thread in threads {
            self.unwind(thread, 0);
        }
        self.sayings.finish();
        self.retry_hits(true);
        self.join_pva(true);
        self.packets.expire(&self.chains, u64::MAX, |_| {});
        self.open.clear();
        self.notifies.clear();
        self.meanwhile.clear();
        self.delayed.clear();
        self.callbacks.clear();
        self.requests.clear();
        self.written.clear();
        self.judged.clear();
        self.asked.clear();
        self.chains.clear(out);
    }

    /// Start of the oldest chain that is yet to be given out.
    pub fn oldest(&mut self) -> Option<u64> {
        self.chains.oldest()
    }

    /// Number of chains that were given out before their time, since there were too many.
    pub fn early(&self) -> u64 {
        self.chains.early()
    }

    /// Time of the last event, or a later one if the run is known to have no events until then.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets time pass without events until `time`.
    pub fn tick(&mut self, time: u64, out: &mut Vec<Chain>) {
        if time > self.now {
            self.now = time;
            self.sweep(out);
        }
    }

    /// What the IOCs said, as far as its records are known, since the last call.
    pub fn said(&mut self) -> std::vec::Drain<'_, Said> {
        self.sayings.settled()
    }

    /// Takes what an IOC said: during the processing of the record in whose `dbProcess` the thread is.
    fn says(&mut self, time: u64, what: Saying) {
        let Some((thread, sp)) = what.place() else { return self.sayings.take(time, what, None) };
        self.pop(thread, sp, time);
        let top = self.threads.get(thread).and_then(|state| state.frames.last());
        let open = top.filter(|top| top.within == In::Process && self.open.contains(top.record));
        let open = open.map(|top| (top.record, top.sp));
        self.sayings.take(time, what, open);
    }

    fn ask(&mut self, thread: ThreadId, site: u32) -> (Caller, Role) {
        self.known.ask(&self.run, thread, site)
    }

    /// Enters a function.
    fn enter(&mut self, thread: ThreadId, sp: i64, within: In, record: RecordId, at: SpanRef) {
        if self.threads.get(thread).is_some_and(|state| state.frames.len() >= MAX_FRAMES) {
            self.unwind(thread, self.now);
        }
        self.chains.hold(at);
        let (puts, wrote, processed, followed) = (Puts::default(), None, false, false);
        let frame = Frame { sp, within, record, at, puts, wrote, processed, followed };
        self.threads.of(thread).frames.push(frame);
    }

    /// Removes functions at or below `sp`, the stack pointer of a hit: they have returned.
    fn pop(&mut self, thread: ThreadId, sp: i64, time: u64) {
        let state = self.threads.of(thread);
        state.last = time;
        let live = state.frames.iter().rposition(|frame| frame.sp > sp).map_or(0, |deepest| deepest + 1);
        if live < state.frames.len() {
            self.cut(thread, live, time);
        }
        self.leave_completed(thread, time);
    }

    /// Removes records from the top of the stack that are done: they have returned, since they call nothing more.
    fn leave_completed(&mut self, thread: ThreadId, time: u64) {
        while let Some(state) = self.threads.get(thread) {
            let Some(top) = state.frames.last() else { break };
            if top.within != In::Process || self.is_at_work(top) {
                break;
            }
            let live = state.frames.len() - 1;
            self.cut(thread, live, time);
        }
    }

    /// Whether the record that a thread entered may still be in its process function: not if it has completed, perhaps in
    /// another thread, and processes anew by now; nor if it has asked for the callback in which it goes on.
    fn is_at_work(&self, frame: &Frame) -> bool {
        let Some(open) = self.open.get(frame.record) else { return false };
        let (Some(open), Some(at)) = (self.chains.resolve(*open), self.chains.resolve(frame.at)) else {
            return true;
        };
        (open.chain, open.span) == (at.chain, at.span) && !self.has_asked_to_go_on(at)
    }

    /// Removes the `recGblFwdLink` on top of the stack, if any: it has returned.
    fn leave_forward_link(&mut self, thread: ThreadId, time: u64) {
        while let Some(state) = self.threads.get(thread) {
            if state.frames.last().is_none_or(|top| top.within != In::Complete) {
                break;
            }
            let live = state.frames.len() - 1;
            self.cut(thread, live, time);
            self.leave_completed(thread, time);
        }
    }

    /// Removes all functions of the thread: they have returned.
    fn unwind(&mut self, thread: ThreadId, time: u64) {
        self.cut(thread, 0, time);
    }

    /// Removes functions from number `live` on: they have returned.
    fn cut(&mut self, thread: ThreadId, live: usize, time: u64) {
        while let Some(state) = self.threads.get_mut(thread) {
            if state.frames.len() <= live {
                break;
            }
            let Some(frame) = state.frames.pop() else { break };
            if !self.sayings.is_calm() {
                self.sayings.returned(thread, frame.sp);
            }
            if frame.within == In::Notify {
                self.leave_notify(thread, time, &frame);
            }
            self.chains.release(frame.at);
        }
    }

    /// Handles the return of `dbProcessNotify`. If no `dbPut` was seen in it, its record was busy or disabled.
    fn leave_notify(&mut self, thread: ThreadId, time: u64, frame: &Frame) {
        if self.chains.put(frame.at).is_some_and(|put| !put.wrote) {
            // that it has returned may have been seen long after
            let time = self.chains.span(frame.at).map_or(time, |span| span.start);
            self.join(thread, time, frame.at, true);
        }
    }

    /// Looks for finished chains.
    fn sweep(&mut self, out: &mut Vec<Chain>) {
        let now = self.now;
        (self.swept, self.since_swept) = (now, 0);
        if self.threads.iter().map(|(_, state)| state.frames.len()).sum::<usize>() > MAX_ALL_FRAMES {
            let threads: Vec<ThreadId> = self.threads.iter().map(|(thread, _)| thread).collect();
            threads.into_iter().for_each(|thread| self.unwind(thread, now));
        }
        let idle = |state: &Thread| !state.frames.is_empty() && state.last.saturating_add(IDLE) <= now;
        let idle: Vec<ThreadId> =
            self.threads.iter().filter(|(_, state)| idle(state)).map(|(thread, _)| thread).collect();
        for thread in idle {
            let Some(state) = self.threads.get(thread) else { continue };
            let waits = state.frames.iter().any(|frame| {
                let open = frame.within == In::Process && self.open.contains(frame.record);
                open && self.chains.resolve(frame.at).is_some()
            });
            if !waits {
                self.unwind(thread, now);
            }
        }
        if self.packets.has_hits() {
            self.retry_hits(false);
        }
        self.join_pva(false);
        let mut done = Vec::new();
        self.packets.expire(&self.chains, now, |at| done.push(at));
        self.asked.retain(|_, asked| {
            while asked.front().is_some_and(|first| first.time.saturating_add(ONCE) <= now) {
                done.extend(asked.pop_front().and_then(|first| first.within));
            }
            !asked.is_empty()
        });
        for at in done {
            self.chains.release(at);
        }
        self.requests.forget(now);
        self.forget_written(now);
        let chains = &self.chains;
        self.notifies.retain(|_, waiting| {
            waiting.retain(|at| chains.put(*at).is_some_and(|put| !put.wrote));
            !waiting.is_empty()
        });
        self.delayed.retain(|_, at| chains.resolve(*at).is_some());
        self.callbacks.retain(|_, at| chains.resolve(*at).is_some());
        self.chains.take_finished(now, out);
        if self.threads.len() > MAX_THREADS {
            let limit = now.saturating_sub(IDLE);
            self.threads.retain(|state| !state.frames.is_empty() || state.last > limit);
            if self.threads.len() > MAX_RECORDS {
                self.threads.retain(|state| !state.frames.is_empty());
            }
        }
    }
}
