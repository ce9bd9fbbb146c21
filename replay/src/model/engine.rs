//! From hits to chains: one engine a run.
//!
//! Fed with a run's events in the order of time, it rebuilds what called what (facts/epics.md, sections 3
//! and 4): by the stack of each thread, by the functions that called, and across threads by the
//! record that is waiting. A put's two sides, packet and hit, are joined here too (see
//! [`super::packets`]).

use super::caller::{self, Caller, Role};
use super::forest::{At, Forest};
use super::packets::{Match, Packets};
use super::run::Run;
use super::span::{
    Answer, Completed, LinkSpan, Outcome, Packet, Phase, ProcessSpan, PutSpan, Span, Tree, Trigger, What,
};
use super::stack::{Frame, In, Puts, Thread};
use super::{eca, value};
use crate::time::SECOND;
use iocrec_log::event::{
    CaAnswer, CaLinkPut, CaPut, Cause, CauseKind, CircuitId, Complete, Dbf, Event, Fact, Process, Put,
    PutKind, RecordId, ThreadId, Value,
};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// How often, in the log's time, what is finished is looked for.
const SWEEP: u64 = SECOND / 10;
/// After so long without a hit, a thread whose records have all completed has gone back to waiting.
const IDLE: u64 = 2 * SECOND;
/// How long a put is kept for the server's refusal, which comes after the IOC's hits, when the server
/// has worked off all it had received.
const REFUSAL: u64 = SECOND;
/// How long a chain without a known cause is kept for the completion that explains it.
const ORPHAN: u64 = SECOND;
/// How long `scanOnce` may take to get to a record: its queue holds 1000, and one may be slow.
const ONCE: u64 = 10 * SECOND;
/// Requests of `scanOnce` that are remembered for a record.
const MAX_ASKED: usize = 64;
/// Phases that are kept of one processing.
const MAX_PHASES: usize = 32;
/// Threads whose stacks are remembered before those that do nothing are forgotten. A big IOC has some
/// hundreds.
const MAX_THREADS: usize = 10_000;
/// Records that a run may have in a map here at most; a bound for hostile logs.
const MAX_RECORDS: usize = 1_000_000;

/// `scanOnce` was called for a record.
struct Asked {
    time: u64,
    /// In this record's processing, if in any.
    within: Option<At>,
}

/// Rebuilds the chains of one run.
pub struct Engine {
    run: Rc<Run>,
    forest: Forest,
    threads: HashMap<ThreadId, Thread>,
    /// Processing that has begun and not completed.
    open: HashMap<RecordId, At>,
    /// Puts with callback that found their record busy: carried out later, in a callback thread.
    busy: HashMap<RecordId, At>,
    /// `scanOnce` requests of each record.
    asked: HashMap<RecordId, VecDeque<Asked>>,
    packets: Packets,
    now: u64,
    swept: u64,
}

impl Engine {
    /// An engine for the run's events.
    pub fn new(run: Rc<Run>) -> Self {
        Engine {
            forest: Forest::new(Rc::clone(&run)),
            run,
            threads: HashMap::new(),
            open: HashMap::new(),
            busy: HashMap::new(),
            asked: HashMap::new(),
            packets: Packets::default(),
            now: 0,
            swept: 0,
        }
    }

    /// Takes the next event, not earlier than the one before. Chains that have ended go to `out`.
    pub fn push(&mut self, event: Event, out: &mut Vec<Tree>) {
        let time = event.time.max(self.now);
        self.now = time;
        if time >= self.swept.saturating_add(SWEEP) {
            self.swept = time;
            self.sweep(out);
        }
        match event.fact {
            Fact::Serves(serves) => self.packets.bind(serves.thread, serves.circuit),
            Fact::CaPut(put) => self.message(time, put),
            Fact::CaAnswer(answer) => self.answer(time, &answer),
            Fact::Put(put) => self.put(time, put),
            Fact::Process(process) => self.process(time, process),
            Fact::Complete(complete) => self.complete(time, complete),
            Fact::Cause(cause) => self.cause(time, cause),
            Fact::CaLinkPut(put) => self.link(time, put),
            _ => {}
        }
    }

    /// A circuit was closed long ago.
    pub fn forget(&mut self, circuit: CircuitId) {
        self.packets.forget(circuit);
    }

    /// The log is at its end, or has a gap: gives out everything.
    pub fn finish(&mut self, out: &mut Vec<Tree>) {
        let threads: Vec<ThreadId> = self.threads.keys().copied().collect();
        for thread in threads {
            self.unwind(thread, 0);
        }
        self.retry_hits(true);
        self.packets.expire(&self.forest, u64::MAX, |_| {});
        self.open.clear();
        self.busy.clear();
        self.asked.clear();
        self.forest.clear(out);
    }

    /// When the oldest chain began that is yet to be given out.
    pub fn oldest(&self) -> Option<u64> {
        self.forest.oldest()
    }

    /// Time of the last event, or later if the run is known to have none until then.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Nothing happens until `time`.
    pub fn tick(&mut self, time: u64, out: &mut Vec<Tree>) {
        if time > self.now {
            self.now = time;
            self.swept = time;
            self.sweep(out);
        }
    }

    // --- puts on the network ---

    fn message(&mut self, time: u64, put: CaPut) {
        let packet = Packet {
            time,
            circuit: put.circuit,
            channel: put.channel,
            notify: put.notify,
            dbr: put.dbr,
            answer: None,
        };
        let request = (put.circuit, put.ioid, put.notify);
        let at = self.forest.plant(Span {
            parent: None,
            thread: None,
            start: time,
            end: time,
            what: What::Put(PutSpan {
                kind: None,
                site: 0,
                record: None,
                field: None,
                dbf: value::dbf_of_dbr(put.dbr).unwrap_or(Dbf::NoAccess),
                count: put.count,
                requested: value::from_channel_access(put.dbr, put.count, &put.payload),
                old: Value::Unknown,
                wrote: false,
                packet: Some(Box::new(packet)),
            }),
        });
        self.forest.hold(at); // for its hit
        self.forest.hold_until(at, time.saturating_add(REFUSAL));
        if put.notify {
            self.forest.hold(at); // for its answer
        }
        if let Some(old) = self.packets.push(time, at, request) {
            self.forest.release(old);
        }
        if self.packets.has_few_hits() {
            self.retry_hits(false);
        }
    }

    fn answer(&mut self, time: u64, answer: &CaAnswer) {
        let request = (answer.circuit, answer.ioid, answer.notify);
        let status = answer.status;
        let Some(at) = self.packets.answer(&mut self.forest, request, Answer { time, status }) else {
            return;
        };
        if answer.notify {
            self.forest.release(at);
        }
        if status == eca::NO_WRITE_ACCESS && self.packets.give_up(answer.circuit, at) {
            self.forest.release(at);
        }
    }

    // --- puts inside the IOC ---

    fn put(&mut self, time: u64, put: Put) {
        self.pop(put.thread, put.sp, time);
        let (caller, role) = self.ask(put.thread, put.site);
        match put.kind {
            PutKind::Put => self.write(time, put, caller, role),
            PutKind::PutField | PutKind::Notify => self.put_from_outside(time, put, caller, role),
        }
    }

    /// `dbPutField` and `dbProcessNotify`.
    fn put_from_outside(&mut self, time: u64, put: Put, caller: Caller, role: Role) {
        let (thread, sp, record, kind) = (put.thread, put.sp, put.record, put.kind);
        let within = if kind == PutKind::Notify { In::Notify } else { In::PutField };
        let state = self.threads.entry(thread).or_default();
        let top = state.frames.last().map(|frame| (frame.within, frame.record, frame.at));
        // What these threads do begins with a put; unless code of the site's own called it.
        let served = matches!(role, Role::CaServer | Role::CaLink)
            && matches!(caller, Caller::Server | Caller::Unknown);
        let entry = served || caller == Caller::Shell || state.is_entry(put.site, kind, sp);
        if let (Some((In::Notify, of, at)), PutKind::PutField) = (top, kind) {
            // A put with callback to a link field.
            if of == record && !self.forest.put(at).is_some_and(|put| put.wrote) {
                self.fill(at, put);
                self.enter(thread, sp, within, record, at);
                self.join(thread, time, at, false);
                return;
            }
        }
        let processing = state
            .frames
            .iter()
            .any(|frame| frame.within == In::Process && self.open.contains_key(&frame.record));
        let inside = processing && !entry;
        let at = match top {
            Some((_, _, at)) if inside => self.forest.add(at, put_span(time, put)),
            _ => {
                state.note_entry(put.site, kind, sp);
                self.unwind(thread, time);
                let at = self.forest.plant(put_span(time, put));
                self.forest.hold_until(at, time.saturating_add(REFUSAL));
                at
            }
        };
        self.enter(thread, sp, within, record, at);
        if !inside && kind == PutKind::PutField {
            self.join(thread, time, at, false);
        }
    }

    /// `dbPut`. It never is a parent by the stack: it has returned before the record is processed.
    fn write(&mut self, time: u64, put: Put, caller: Caller, role: Role) {
        let (thread, record, sp) = (put.thread, put.record, put.sp);
        self.leave_forward_link(thread, time); // which writes to no field
        let state = self.threads.entry(thread).or_default();
        let top = state.frames.last().map(|frame| (frame.within, frame.record, frame.at));
        match top {
            Some((In::PutField | In::Notify, of, at))
                if of == record && !self.forest.put(at).is_some_and(|put| put.wrote) =>
            {
                self.fill(at, put);
                self.join(thread, time, at, false);
            }
            // Frames that seem to be around a put from outside are left over from earlier.
            Some((_, _, at)) if caller != Caller::ChannelPut => {
                let at = self.forest.add(at, put_span(time, put));
                if let Some(top) = self.threads.entry(thread).or_default().top() {
                    top.puts.push(record, at);
                }
            }
            _ => {
                self.unwind(thread, time);
                let waiting = if role == Role::Callback { self.busy.remove(&record) } else { None };
                let waiting = waiting.filter(|at| self.forest.put(*at).is_some());
                if let (Some(at), Caller::ChannelPut | Caller::Unknown) = (waiting, caller) {
                    self.fill(at, put);
                    self.threads.entry(thread).or_default().puts.push(record, at);
                    return;
                }
                let at = self.forest.plant(put_span(time, put));
                self.forest.hold_until(at, time.saturating_add(REFUSAL));
                let state = self.threads.entry(thread).or_default();
                state.puts.push(record, at);
                if matches!(caller, Caller::Link | Caller::Unknown)
                    && matches!(role, Role::Callback | Role::Other)
                {
                    state.orphans.push((sp, at));
                }
                self.join(thread, time, at, false);
            }
        }
    }

    /// A put's `dbPut` was seen (or, for a link field, its `dbPutField` inside `dbProcessNotify`).
    fn fill(&mut self, at: At, put: Put) {
        let Some(span) = self.forest.span_mut(at) else { return };
        let What::Put(own) = &mut span.what else { return };
        own.wrote = true;
        own.old = put.old;
        own.field = put.field.or(own.field);
        if own.requested == Value::Unknown {
            own.dbf = put.dbf;
            own.count = put.count;
            own.requested = put.requested;
        }
    }

    /// Joins a hit to its message, if there is one that fits; `last`: if not now, then never.
    fn join(&mut self, thread: ThreadId, time: u64, at: At, last: bool) {
        let Some(put) = self.forest.put(at) else { return };
        let seen_both = put.packet.is_some();
        let nothing_known = put.kind == Some(PutKind::Notify) && !put.wrote && !last;
        let (caller, role) = self.ask(thread, put.site);
        let served = self.packets.circuit(thread).is_some()
            || role == Role::CaServer
            || (role == Role::Other && matches!(caller, Caller::Server | Caller::Unknown));
        if seen_both || nothing_known || !served {
            return;
        }
        let mut done = Vec::new();
        if self.packets.learn(&self.forest, &self.run.context(), thread, at) {
            // What the thread did before, and could not be told from another's, comes first.
            for (time, earlier) in self.packets.take_hits_of(thread) {
                self.join(thread, time, earlier, last);
            }
        }
        let context = self.run.context();
        let found = self.packets.find(&self.forest, &context, thread, at, last, |at| done.push(at));
        match found {
            Match::Found(message) => self.forest.merge(at, message),
            Match::None if !last => self.packets.wait(thread, time, at),
            Match::None => {}
        }
        drop(context);
        for at in done {
            self.forest.release(at);
        }
    }

    /// Tries again to join the hits that wait.
    fn retry_hits(&mut self, last: bool) {
        for (thread, time, at) in self.packets.take_hits() {
            let overdue = last || self.packets.is_overdue(time, self.now);
            self.join(thread, time, at, overdue);
        }
    }

    // --- processing ---

    fn process(&mut self, time: u64, process: Process) {
        let (thread, record) = (process.thread, process.record);
        self.pop(thread, process.sp, time);
        let (caller, role) = self.ask(thread, process.site);
        let (parent, trigger) = self.parent(time, process, caller, role);
        let outcome = if process.active { Outcome::Active } else { Outcome::Open };
        let span = Span {
            parent: None,
            thread: Some(thread),
            start: time,
            end: time,
            what: What::Process(ProcessSpan { record, trigger, outcome, phases: Vec::new() }),
        };
        let at = match parent {
            Some(parent) => self.forest.add(parent, span),
            None => self.forest.plant(span),
        };
        if process.active {
            return;
        }
        if let Some(older) = self.open.remove(&record) {
            if let Some(Span { what: What::Process(older), .. }) = self.forest.span_mut(older) {
                older.outcome = Outcome::NotCompleted;
            }
            self.forest.release(older);
        }
        if self.open.len() < MAX_RECORDS {
            self.open.insert(record, at);
            self.forest.hold(at); // for its completion
        }
        self.enter(thread, process.sp, In::Process, record, at);
        if parent.is_none() && matches!(caller, Caller::Link) && matches!(role, Role::Callback | Role::Other)
        {
            self.forest.hold_until(at, time.saturating_add(ORPHAN));
            self.threads.entry(thread).or_default().orphans.push((process.sp, at));
        }
    }

    /// What made a record process.
    fn parent(&mut self, time: u64, process: Process, caller: Caller, role: Role) -> (Option<At>, Trigger) {
        let (thread, record) = (process.thread, process.record);
        if let Caller::Root(trigger) = caller {
            self.unwind(thread, time);
            let state = self.threads.entry(thread).or_default();
            state.orphans.clear();
            state.puts.clear();
            return match trigger {
                Trigger::Once => (self.who_asked(time, record), trigger),
                _ => (None, trigger),
            };
        }
        let followed = |state: &Thread| state.frames.last().is_some_and(|top| top.followed);
        if self.threads.get(&thread).is_some_and(followed) {
            self.leave_forward_link(thread, time);
        }
        let rtype_is_fanout = |at: At| {
            let Some(Span { what: What::Process(parent), .. }) = self.forest.span(at) else { return None };
            let context = self.run.context();
            let rtype = context.record(parent.record)?.rtype;
            (!rtype.is_empty()).then_some(matches!(rtype, "fanout" | "seq" | "sseq"))
        };
        let state = self.threads.entry(thread).or_default();
        if let Some(top) = state.frames.last_mut() {
            if let Some(put) = top.puts.take(record) {
                return (Some(put), Trigger::Out);
            }
            top.followed = top.within == In::Complete;
            let trigger = match top.within {
                In::PutField | In::Notify => Trigger::Put,
                In::Complete => Trigger::Forward,
                In::Process => match rtype_is_fanout(top.at) {
                    Some(true) => Trigger::Fanout,
                    // A record that processes another without writing to it reads from it.
                    Some(false) => Trigger::Input,
                    None => Trigger::Link,
                },
            };
            return (Some(top.at), trigger);
        }
        if let Some(put) = state.puts.take(record) {
            let trigger = if role == Role::Callback { Trigger::Out } else { Trigger::Put };
            return (Some(put), trigger);
        }
        state.puts.clear();
        match role {
            Role::Scan => (None, Trigger::Scan),
            Role::ScanOnce => (self.who_asked(time, record), Trigger::Once),
            Role::Callback => (None, Trigger::Callback),
            _ => (None, Trigger::Unknown),
        }
    }

    /// The processing in which `scanOnce` was called for the record, the earliest call first.
    fn who_asked(&mut self, time: u64, record: RecordId) -> Option<At> {
        let asked = self.asked.get_mut(&record)?;
        let mut within = None;
        while let Some(first) = asked.pop_front() {
            if let Some(at) = first.within {
                self.forest.release(at);
            }
            if first.time.saturating_add(ONCE) > time {
                within = first.within;
                break;
            }
        }
        if asked.is_empty() {
            self.asked.remove(&record);
        }
        within.filter(|at| self.forest.resolve(*at).is_some())
    }

    fn complete(&mut self, time: u64, complete: Complete) {
        let (thread, sp, record) = (complete.thread, complete.sp, complete.record);
        self.pop(thread, sp, time);
        let Complete { value, severity, status, .. } = complete;
        let completed = Outcome::Completed(Completed { value, severity, status });
        let own = self
            .threads
            .entry(thread)
            .or_default()
            .frames
            .iter()
            .rposition(|frame| frame.within == In::Process && frame.record == record);
        let open = self.open.remove(&record);
        let open = open.filter(|at| self.forest.resolve(*at).is_some());
        let Some(at) = open else {
            // It began before the recorder, or so long ago that its chain has been given out.
            let trigger = Trigger::Completion;
            let what = What::Process(ProcessSpan { record, trigger, outcome: completed, phases: Vec::new() });
            let at =
                self.forest.plant(Span { parent: None, thread: Some(thread), start: time, end: time, what });
            self.adopt(time, thread, sp, at);
            self.enter(thread, sp, In::Complete, record, at);
            return;
        };
        if let Some(span) = self.forest.span_mut(at) {
            span.end = time;
            if let What::Process(process) = &mut span.what {
                process.outcome = completed;
                // A frame may be left over from when the record began: what it asked for tells.
                if own.is_none() || process.phases.iter().any(|phase| phase.asked.is_some_and(is_completion))
                {
                    note(process, Phase { time, thread, asked: None });
                }
            }
        }
        match own {
            Some(own) => self.cut(thread, own + 1, time),
            None => self.adopt(time, thread, sp, at),
        }
        self.enter(thread, sp, In::Complete, record, at);
        self.forest.release(at); // its completion
    }

    /// An asynchronous record works its links off before it completes: what such a thread has just
    /// done from a deeper frame, without a cause of its own, was that.
    fn adopt(&mut self, time: u64, thread: ThreadId, sp: i64, at: At) {
        let orphans = std::mem::take(&mut self.threads.entry(thread).or_default().orphans);
        let began = self.forest.span(at).map_or(0, |span| span.start);
        for (from, orphan) in orphans {
            let Some(span) = self.forest.span_mut(orphan) else { continue };
            if from >= sp || span.start < began && began < time || span.start.saturating_add(ORPHAN) < time {
                continue;
            }
            if let What::Process(process) = &mut span.what {
                process.trigger = Trigger::Link;
            }
            self.forest.graft(orphan, at);
        }
    }

    // --- what is asked for ---

    fn cause(&mut self, time: u64, cause: Cause) {
        self.pop(cause.thread, cause.sp, time);
        let state = self.threads.entry(cause.thread).or_default();
        let top = state.frames.last().filter(|top| matches!(top.within, In::Process | In::Complete));
        let within = top.map(|top| top.at);
        let processing = top.is_some_and(|top| top.within == In::Process);
        match (cause.kind, cause.record) {
            (CauseKind::ScanOnce, Some(record)) => {
                if self.asked.len() >= MAX_RECORDS {
                    return;
                }
                if let Some(at) = within {
                    self.forest.hold(at); // for the processing asked for
                }
                let asked = self.asked.entry(record).or_default();
                asked.push_back(Asked { time, within });
                if asked.len() > MAX_ASKED {
                    if let Some(at) = asked.pop_front().and_then(|first| first.within) {
                        self.forest.release(at);
                    }
                }
            }
            (CauseKind::ScanOnce, None) => {}
            (_, record) => {
                let of_record = record.and_then(|record| self.open.get(&record).copied());
                let at = of_record.or(within.filter(|_| processing));
                let span = at.and_then(|at| self.forest.span_mut(at));
                if let Some(Span { what: What::Process(process), .. }) = span {
                    note(process, Phase { time, thread: cause.thread, asked: Some(cause.kind) });
                }
            }
        }
    }

    fn link(&mut self, time: u64, put: CaLinkPut) {
        self.pop(put.thread, put.sp, time);
        let state = self.threads.entry(put.thread).or_default();
        let own = state.frames.iter().rev().find(|frame| {
            frame.within == In::Process && put.record.is_none_or(|record| record == frame.record)
        });
        let open = put.record.and_then(|record| self.open.get(&record).copied());
        let parent = own.map(|frame| frame.at).or(open).or(state.frames.last().map(|frame| frame.at));
        let CaLinkPut { thread, record, pv, value, .. } = put;
        let what = What::Link(LinkSpan { record, pv, value, resolved: false, target: None });
        let span = Span { parent: None, thread: Some(thread), start: time, end: time, what };
        match parent {
            Some(parent) => self.forest.add(parent, span),
            None => self.forest.plant(span),
        };
    }

    // --- stacks ---

    fn ask(&self, thread: ThreadId, site: u32) -> (Caller, Role) {
        let context = self.run.context();
        (caller::caller(&context, site), caller::role(&context, thread))
    }

    /// Enters a function.
    fn enter(&mut self, thread: ThreadId, sp: i64, within: In, record: RecordId, at: At) {
        self.forest.hold(at);
        let frame = Frame { sp, within, record, at, puts: Puts::default(), followed: false };
        self.threads.entry(thread).or_default().frames.push(frame);
    }

    /// A hit at `sp`: functions at or below it have returned.
    fn pop(&mut self, thread: ThreadId, sp: i64, time: u64) {
        let state = self.threads.entry(thread).or_default();
        state.last = time;
        let live = state.frames.iter().rposition(|frame| frame.sp > sp).map_or(0, |deepest| deepest + 1);
        if live < state.frames.len() {
            self.cut(thread, live, time);
        }
        self.leave_completed(thread, time);
    }

    /// Records on top of the stack that have completed have returned: they call nothing more.
    fn leave_completed(&mut self, thread: ThreadId, time: u64) {
        while let Some(state) = self.threads.get(&thread) {
            let Some(top) = state.frames.last() else { break };
            if top.within != In::Process || self.open.contains_key(&top.record) {
                break;
            }
            let live = state.frames.len() - 1;
            self.cut(thread, live, time);
        }
    }

    /// The `recGblFwdLink` on top of the stack, if any, has returned.
    fn leave_forward_link(&mut self, thread: ThreadId, time: u64) {
        while let Some(state) = self.threads.get(&thread) {
            if state.frames.last().is_none_or(|top| top.within != In::Complete) {
                break;
            }
            let live = state.frames.len() - 1;
            self.cut(thread, live, time);
            self.leave_completed(thread, time);
        }
    }

    /// All functions of the thread have returned.
    fn unwind(&mut self, thread: ThreadId, time: u64) {
        self.cut(thread, 0, time);
    }

    /// Functions from number `live` on have returned.
    fn cut(&mut self, thread: ThreadId, live: usize, time: u64) {
        while let Some(state) = self.threads.get_mut(&thread) {
            if state.frames.len() <= live {
                break;
            }
            let Some(frame) = state.frames.pop() else { break };
            if frame.within == In::Notify {
                self.leave_notify(thread, time, &frame);
            }
            self.forest.release(frame.at);
        }
    }

    /// `dbProcessNotify` has returned. If no `dbPut` was seen in it, its record was busy or disabled.
    fn leave_notify(&mut self, thread: ThreadId, time: u64, frame: &Frame) {
        if self.forest.put(frame.at).is_some_and(|put| !put.wrote) {
            self.join(thread, time, frame.at, true);
            if self.busy.len() < MAX_RECORDS {
                self.busy.insert(frame.record, frame.at);
            }
        }
    }

    /// Looks for what has ended.
    fn sweep(&mut self, out: &mut Vec<Tree>) {
        let now = self.now;
        let idle = |state: &Thread| !state.frames.is_empty() && state.last.saturating_add(IDLE) <= now;
        let idle: Vec<ThreadId> =
            self.threads.iter().filter(|(_, state)| idle(state)).map(|(thread, _)| *thread).collect();
        for thread in idle {
            let Some(state) = self.threads.get(&thread) else { continue };
            let waits = state.frames.iter().any(|frame| {
                let open = frame.within == In::Process && self.open.contains_key(&frame.record);
                open && self.forest.resolve(frame.at).is_some()
            });
            if !waits {
                self.unwind(thread, now);
            }
        }
        if self.packets.has_hits() {
            self.retry_hits(false);
        }
        let mut done = Vec::new();
        self.packets.expire(&self.forest, now, |at| done.push(at));
        self.asked.retain(|_, asked| {
            while asked.front().is_some_and(|first| first.time.saturating_add(ONCE) <= now) {
                done.extend(asked.pop_front().and_then(|first| first.within));
            }
            !asked.is_empty()
        });
        for at in done {
            self.forest.release(at);
        }
        self.forest.harvest(now, out);
        if self.threads.len() > MAX_THREADS {
            let limit = now.saturating_sub(IDLE);
            self.threads.retain(|_, state| !state.frames.is_empty() || state.last > limit);
        }
    }
}

/// A callback that will go on with the record's processing?
fn is_completion(kind: CauseKind) -> bool {
    matches!(kind, CauseKind::CallbackRequestProcess | CauseKind::CallbackRequestProcessDelayed)
}

fn note(process: &mut ProcessSpan, phase: Phase) {
    if process.phases.len() < MAX_PHASES {
        process.phases.push(phase);
    }
}

/// The span of a put that was seen inside the IOC.
fn put_span(time: u64, put: Put) -> Span {
    Span {
        parent: None,
        thread: Some(put.thread),
        start: time,
        end: time,
        what: What::Put(PutSpan {
            kind: Some(put.kind),
            site: put.site,
            record: Some(put.record),
            field: put.field,
            dbf: put.dbf,
            count: put.count,
            requested: put.requested,
            old: put.old,
            wrote: put.kind == PutKind::Put,
            packet: None,
        }),
    }
}
