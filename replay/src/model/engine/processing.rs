//! Processing: why a record processed, when it was done, and which requests it made meanwhile.

use super::{Engine, Once, MAX_RECORDS, ONCE};
use crate::model::base_types::{self, is_sequence};
use crate::model::caller::{self, Caller, Role};
use crate::model::chain::{
    Asked, Completed, LinkSpan, Outcome, Phase, Phases, ProcessSpan, Span, SpanKind, Trigger,
};
use crate::model::open_chains::SpanRef;
use crate::model::requests::{Callback, Place, Request};
use crate::model::stack::{Frame, In, Thread};
use crate::time::SECOND;
use iocrec_log::event::{
    CaLinkPut, Cause, CauseKind, Complete, PactCheck, Process, PutKind, RecordId, ThreadId,
};

/// The longest text of a link, bytes, that is held once for all of its puts: a PV and what follows it. A hostile log may have
/// longer ones.
const LONGEST_SHARED: usize = 128;
/// Time that a chain without a known cause is kept for the completion that explains it.
const ORPHAN: u64 = SECOND;
/// A record's own callback calls `dbPut` for its links, and the function that requests the next callback or completes
/// the record. Either may be deeper: by this many bytes of stack, which hold the frames of the two or three functions
/// in between.
const OWN_CALLBACK: i64 = 512;
/// Time that a chain is kept for its requests to a callback thread.
const ASKED: u64 = SECOND;
/// `scanOnce` requests remembered for a record.
const MAX_ASKED: usize = 64;
/// Phases kept of one processing.
const MAX_PHASES: usize = 32;

/// The reason why a record processed.
struct Origin {
    parent: Option<SpanRef>,
    trigger: Trigger,
    asked: Option<Box<Asked>>,
    for_link: bool,
}

impl Engine {
    /// `dbProcess`.
    pub(super) fn process(&mut self, time: u64, process: Process) {
        let (thread, record) = (process.thread, process.record);
        self.pop(thread, process.sp, time);
        let is_after_loss = self.leave_stale_put(thread, record, time);
        let (caller, role) = self.ask(thread, process.site);
        self.requests.thin(self.run.is_sampled());
        let place = self.requests.place_of(record).filter(|place| self.can_be_for(thread, role, place));
        let Origin { parent, trigger, asked, for_link } = self.origin(time, process, caller, role, place);
        let scanned =
            matches!(trigger, Trigger::Scan | Trigger::Event | Trigger::IoInterrupt | Trigger::Python);
        let list = place.filter(|_| scanned).map(|place| place.list);
        let outcome = if process.active { Outcome::Active } else { Outcome::Open };
        let span = Span {
            parent: None,
            thread: Some(thread),
            start: time,
            end: time,
            kind: SpanKind::Process(ProcessSpan {
                record,
                trigger,
                outcome,
                phases: Phases::default(),
                list,
                asked,
                for_link,
                is_over: false,
            }),
        };
        let at = match parent {
            Some(parent) => self.chains.add(parent, span),
            None => self.chains.begin(span),
        };
        if parent.is_none() && self.serves_pva(thread, caller, role) {
            self.pva_hit(thread, time, at);
        }
        if process.active {
            if let Some(parent) = parent {
                self.found_active(record, parent);
            }
            return;
        }
        self.disturb(record, at);
        let older = self.open.insert(record, at);
        if let Some(older) = older {
            let did_nothing = !is_after_loss && self.always_forwards(record);
            let is_disabled = self.disabled.contains(record);
            if let Some(Span { kind: SpanKind::Process(older), .. }) = self.chains.span_mut(older) {
                match older.outcome {
                    _ if did_nothing => older.outcome = Outcome::Skipped,
                    Outcome::Open if is_disabled => older.outcome = Outcome::Disabled,
                    _ => {}
                }
            }
            self.chains.release(older);
        }
        if !self.meanwhile.is_empty() {
            if let Some(meanwhile) = self.meanwhile.remove(&record) {
                self.chains.release(meanwhile);
            }
        }
        if self.open.len() > MAX_RECORDS {
            self.open.remove(record);
        } else {
            self.chains.hold(at); // for its completion
        }
        self.enter(thread, process.sp, In::Process, record, at);
        if parent.is_none() && matches!(caller, Caller::Link) && matches!(role, Role::Callback | Role::Other)
        {
            self.chains.hold_until(at, time.saturating_add(ORPHAN));
            self.threads.of(thread).note_orphan(process.sp, at);
        }
    }

    /// Whether the thread can work through the list that the record was last seen on. If not, the record has moved without
    /// a put to SCAN, which simulation does (SIMM, SSCN): the thread is right.
    fn can_be_for(&self, thread: ThreadId, role: Role, place: &Place) -> bool {
        match role {
            Role::Callback => place.callback.is_some(),
            Role::Scan => {
                let context = self.run.context();
                let named = context.scan_list(place.list).and_then(|list| caller::seconds_of(&list.name));
                let own = context.thread(thread).and_then(|thread| caller::scan_seconds(&thread.name));
                let own = own.and_then(|seconds| seconds.parse::<f64>().ok());
                // names of threads have six digits
                let same = named.zip(own).is_none_or(|(named, own)| (named - own).abs() <= named * 1e-5);
                place.callback.is_none() && same
            }
            _ => true,
        }
    }

    /// Notes that a link found its record active. If a put began the chain of the link, and the record is active in another
    /// one, it will process once more for it, as after a put to it.
    fn found_active(&mut self, record: RecordId, parent: SpanRef) {
        let Some(parent) = self.chains.resolve(parent) else { return };
        let active = self.open.get(record).and_then(|at| self.chains.resolve(*at));
        let elsewhere = active.is_some_and(|active| active.chain != parent.chain);
        if elsewhere && self.chains.put(SpanRef { span: 0, ..parent }).is_some() {
            self.note_meanwhile(record, parent);
        }
    }

    fn always_forwards(&self, record: RecordId) -> bool {
        self.forwarding.always_forwards(&self.run.context(), record)
    }

    /// Leaves a put on top of the stack that has processed this record before: it has returned, and the hit of the put that
    /// does it now was lost. Returns whether there was one.
    fn leave_stale_put(&mut self, thread: ThreadId, record: RecordId, time: u64) -> bool {
        let Some(top) = self.threads.of(thread).frames.last_mut() else { return false };
        if !matches!(top.within, In::PutField | In::Notify) || top.record != record {
            return false;
        }
        if !std::mem::replace(&mut top.processed, true) {
            return false;
        }
        self.unwind(thread, time);
        self.threads.of(thread).puts.clear();
        true
    }

    /// Finds the reason why a record processed, and the origin of the request.
    fn origin(
        &mut self,
        time: u64,
        process: Process,
        caller: Caller,
        role: Role,
        place: Option<Place>,
    ) -> Origin {
        let (thread, record) = (process.thread, process.record);
        let by_caller =
            matches!(caller, Caller::ScanList | Caller::Root(Trigger::Event | Trigger::IoInterrupt));
        let periodic = place.is_some_and(|place| place.callback.is_none());
        // The list of an event or of I/O Intr: by the record's place, otherwise by the thread.
        if by_caller && !periodic && (place.is_some() || role == Role::Callback) {
            self.begin_root(thread, time);
            let sort = if let Caller::Root(sort) = caller { Some(sort) } else { None };
            let (request, trigger) = self.requests.cause(time, thread, record, sort);
            return self.asked_for(request, trigger);
        }
        let (parent, trigger) = self.parent(time, process, caller, role);
        // In a stripped IOC the caller is unknown. The record is on a list for which there was a request.
        let unexplained = parent.is_none() && matches!(trigger, Trigger::Callback | Trigger::Unknown);
        if unexplained && caller == Caller::Unknown && place.is_some() && !periodic {
            if let (Some(request), trigger) = self.requests.cause(time, thread, record, None) {
                return self.asked_for(Some(request), trigger);
            }
        }
        let for_link = parent.is_none()
            && match trigger {
                Trigger::CpLink => true,
                Trigger::Once => self.once_by_link,
                _ => false,
            };
        let active = if for_link && trigger == Trigger::Once { self.found_active.take() } else { None };
        Origin { parent, trigger, asked: active.map(Box::new), for_link }
    }

    fn asked_for(&self, request: Option<Request>, trigger: Trigger) -> Origin {
        let parent = request.and_then(|request| request.within);
        let asked = request.map(|Request { time, thread, site, .. }| Box::new(Asked { time, thread, site }));
        let parent = parent.filter(|at| self.chains.resolve(*at).is_some());
        Origin { parent, trigger, asked, for_link: false }
    }

    /// Empties the thread's stack: nothing on it calls what begins now.
    pub(super) fn begin_root(&mut self, thread: ThreadId, time: u64) {
        self.unwind(thread, time);
        let state = self.threads.of(thread);
        state.orphans.clear();
        state.puts.clear();
    }

    /// Handles the entry of a process routine. Without the hits of `dbProcess` and of its callers nothing shows which
    /// frames of the thread are still live, so it becomes a chain of its own.
    pub(super) fn rset_process(&mut self, time: u64, process: Process) {
        let outcome = Outcome::Entered { again: process.active };
        let (record, trigger) = (process.record, Trigger::Unknown);
        let kind = SpanKind::Process(ProcessSpan {
            record,
            trigger,
            outcome,
            phases: Phases::default(),
            list: None,
            asked: None,
            for_link: false,
            is_over: false,
        });
        let thread = Some(process.thread);
        let at = self.chains.begin(Span { parent: None, thread, start: time, end: time, kind });
        self.disturb(record, at);
    }

    /// Finds the parent span and the trigger of a record's processing.
    fn parent(
        &mut self,
        time: u64,
        process: Process,
        caller: Caller,
        role: Role,
    ) -> (Option<SpanRef>, Trigger) {
        let (thread, record) = (process.thread, process.record);
        if matches!(caller, Caller::Root(_) | Caller::ScanList) {
            self.begin_root(thread, time);
        }
        match caller {
            Caller::Root(Trigger::Once) => return (self.who_asked(time, record), Trigger::Once),
            // bo's HIGH: the callback that the record itself requested; nothing else uses this function.
            Caller::Root(Trigger::Callback) => return (self.delayed(record), Trigger::Callback),
            Caller::ScanList => return (None, Trigger::Scan),
            Caller::Root(trigger) => return (None, trigger),
            _ => {}
        }
        // no forward link leads through code of the IOC, such as a callback of device support
        let is_elsewhere =
            caller == Caller::Unknown && caller::is_outside_database(&self.run.context(), process.site);
        let followed = |state: &Thread| {
            let top = state.frames.last();
            top.is_some_and(|top| top.followed || is_elsewhere && top.within == In::Complete)
        };
        if self.threads.get(thread).is_some_and(followed) {
            self.leave_forward_link(thread, time);
        }
        if is_elsewhere && matches!(role, Role::Callback | Role::Other) && self.may_have_returned(thread) {
            self.begin_root(thread, time);
        }
        self.note_request(thread, record);
        let is_fanout = |at: SpanRef| {
            let Some(Span { kind: SpanKind::Process(parent), .. }) = self.chains.span(at) else {
                return None;
            };
            let context = self.run.context();
            let rtype = context.record(parent.record)?.rtype;
            (!rtype.is_empty() && !is_sequence(rtype)).then_some(rtype == "fanout")
        };
        let state = self.threads.of(thread);
        if let Some(top) = state.frames.last_mut() {
            if let Some(put) = top.puts.take(record) {
                return (Some(put), Trigger::Out);
            }
            top.followed = top.within == In::Complete;
            let trigger = match top.within {
                In::PutField | In::Notify => Trigger::Put,
                In::Complete => Trigger::Forward,
                In::Process => match is_fanout(top.at) {
                    Some(true) => Trigger::Fanout,
                    // A record that makes another process without writing to it reads from it; a sequence by a link of
                    // another name.
                    Some(false) => Trigger::Input,
                    None => Trigger::Link,
                },
            };
            return (Some(top.at), trigger);
        }
        if let Some(put) = state.puts.take(record) {
            let notify = self.chains.put(put).is_some_and(|put| put.kind == Some(PutKind::Notify));
            let trigger = if role == Role::Callback && !notify { Trigger::Out } else { Trigger::Put };
            return (Some(put), trigger);
        }
        state.puts.clear();
        match role {
            Role::Scan => (None, Trigger::Scan),
            Role::ScanOnce => (self.who_asked(time, record), Trigger::Once),
            Role::Callback => (self.delayed(record), Trigger::Callback),
            // For CP links, 7.0.10 processes records here; 7.0.3 passes them to scanOnce.
            Role::CaLink => (None, Trigger::CpLink),
            _ => (None, Trigger::Unknown),
        }
    }

    /// Whether a record is on top of the thread's stack that nothing on it processed, of a type that may return without a trace,
    /// such as a motor that moves: it may have done so, and what code of the IOC does then is not its doing.
    pub(super) fn may_have_returned(&self, thread: ThreadId) -> bool {
        let Some(top) = self.threads.get(thread).and_then(|state| state.frames.last()) else { return false };
        let is_root = || self.chains.span(top.at).is_some_and(|span| span.parent.is_none());
        let context = self.run.context();
        let rtype = context.record(top.record).map_or("", |record| record.rtype);
        top.within == In::Process && !rtype.is_empty() && !base_types::always_forwards(rtype) && is_root()
    }

    /// Notes that a `dbProcessNotify` was only asked to process its record, if it does so before writing to it.
    fn note_request(&mut self, thread: ThreadId, record: RecordId) {
        let Some(top) = self.threads.get(thread).and_then(|state| state.frames.last()) else { return };
        if top.within == In::Notify && top.record == record && top.wrote.is_none() {
            let at = top.at;
            if let Some(put) = self.chains.put_mut(at).filter(|put| !put.wrote && put.packet.is_none()) {
                put.only_processes = true;
            }
        }
    }

    /// The record's earlier processing, if it requested a delayed callback.
    fn delayed(&mut self, record: RecordId) -> Option<SpanRef> {
        let at = self.delayed.remove(&record)?;
        self.chains.resolve(at)
    }

    /// The processing in which `scanOnce` was called for the record, the earliest call first.
    fn who_asked(&mut self, time: u64, record: RecordId) -> Option<SpanRef> {
        (self.once_by_link, self.found_active) = (false, None);
        let asked = self.asked.get_mut(&record)?;
        let mut within = None;
        while let Some(first) = asked.pop_front() {
            if let Some(at) = first.within {
                self.chains.release(at);
            }
            if first.time.saturating_add(ONCE) > time {
                within = first.within;
                (self.once_by_link, self.found_active) = (first.by_link, first.active);
                break;
            }
        }
        if asked.is_empty() {
            self.asked.remove(&record);
        }
        within.filter(|at| self.chains.resolve(*at).is_some())
    }

    /// `recGblFwdLink`.
    pub(super) fn complete(&mut self, time: u64, complete: Complete) {
        let (thread, sp, record) = (complete.thread, complete.sp, complete.record);
        if !self.sayings.is_calm() {
            self.sayings.completes(thread, record, sp);
        }
        self.pop(thread, sp, time);
        self.forwarding.has_completed(&self.run.context(), record);
        self.disabled.remove(record);
        let Complete { value, severity, status, .. } = complete;
        let completed = Outcome::Completed(Completed { value, severity, status });
        let open = self.open.remove(record);
        let open = open.filter(|at| self.chains.resolve(*at).is_some());
        let Some(at) = open else {
            // It began before the recording, or its chain has been given out.
            let trigger = Trigger::Completion;
            let phases = Phases::default();
            let (list, asked) = (None, None);
            let kind = SpanKind::Process(ProcessSpan {
                record,
                trigger,
                outcome: completed,
                phases,
                list,
                asked,
                for_link: false,
                is_over: false,
            });
            let at =
                self.chains.begin(Span { parent: None, thread: Some(thread), start: time, end: time, kind });
            self.disturb(record, at);
            self.adopt(time, thread, sp, at);
            self.enter(thread, sp, In::Complete, record, at);
            return;
        };
        let is_own = |frame: &Frame| {
            let same = |one: SpanRef, other: SpanRef| (one.chain, one.span) == (other.chain, other.span);
            let places = self.chains.resolve(frame.at).zip(self.chains.resolve(at));
            frame.within == In::Process && places.is_some_and(|(one, other)| same(one, other))
        };
        let own = self.threads.get(thread).and_then(|state| state.frames.iter().rposition(is_own));
        if let Some(span) = self.chains.span_mut(at) {
            span.end = time;
            if let SpanKind::Process(process) = &mut span.kind {
                process.outcome = completed;
                // The frame may be stale, from when the record began: its requests decide.
                if own.is_none() || process.phases.iter().any(|phase| phase.asked.is_some_and(is_completion))
                {
                    note(process, Phase { time, thread, asked: None });
                }
            }
        }
        self.chains.weigh_again(at);
        self.disturb(record, at);
        match own {
            Some(own) => self.cut(thread, own + 1, time),
            None => {
                let room = if self.runs_callbacks(at) { OWN_CALLBACK } else { 0 };
                self.adopt(time, thread, sp.saturating_add(room), at);
            }
        }
        self.enter(thread, sp, In::Complete, record, at);
        self.chains.release(at); // its completion
    }

    /// Whether the record has asked for a callback in which it goes on, after which its process function does nothing but
    /// return. A bo with HIGH goes on without: it completes at once.
    pub(super) fn has_asked_to_go_on(&self, at: SpanRef) -> bool {
        let Some(Span { kind: SpanKind::Process(process), .. }) = self.chains.span(at) else { return false };
        let asked = |phase: &Phase| match phase.asked {
            Some(CauseKind::CallbackRequest | CauseKind::CallbackRequestDelayed) => {
                let context = self.run.context();
                context.record(process.record).is_some_and(|record| is_sequence(record.rtype))
            }
            Some(kind) => is_completion(kind),
            None => false,
        };
        process.phases.iter().any(asked)
    }

    /// Whether the record has requested callbacks of its own during processing.
    fn runs_callbacks(&self, at: SpanRef) -> bool {
        let delayed = |phase: &Phase| phase.asked == Some(CauseKind::CallbackRequestDelayed);
        matches!(self.chains.span(at), Some(Span { kind: SpanKind::Process(process), .. }) if process.phases.iter().any(delayed))
    }

    /// Handles a request for a callback, at once or delayed. The first in a record's processing makes the callback that
    /// record's. A record that works through its links one after the other (seq; sseq, which requests a callback at once
    /// where there is no delay) requests it again in the callback itself, right after what the callback did: so that was
    /// the record's work.
    fn own_callback(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        callback: Callback,
        within: Option<SpanRef>,
    ) {
        let is_open = |at: &SpanRef| match self.chains.span(*at) {
            Some(Span { kind: SpanKind::Process(process), .. }) => {
                let open = self.open.get(process.record).and_then(|open| self.chains.resolve(*open));
                open.zip(self.chains.resolve(*at))
                    .is_some_and(|(open, at)| (open.chain, open.span) == (at.chain, at.span))
            }
            _ => false,
        };
        match (self.callbacks.get(&callback).copied().filter(is_open), within) {
            (Some(at), _) => self.adopt(time, thread, sp.saturating_add(OWN_CALLBACK), at),
            (None, Some(at)) if self.callbacks.len() < MAX_RECORDS => _ = self.callbacks.insert(callback, at),
            (None, _) => {}
        }
    }

    /// Attaches orphans to an asynchronous record, which works through its links before it completes: whatever the
    /// thread has just done from a deeper frame, without a cause of its own, was the record's work.
    fn adopt(&mut self, time: u64, thread: ThreadId, sp: i64, at: SpanRef) {
        let orphans = std::mem::take(&mut self.threads.of(thread).orphans);
        let began = self.chains.span(at).map_or(0, |span| span.start);
        for (from, orphan) in orphans {
            let Some(span) = self.chains.span_mut(orphan) else { continue };
            if from >= sp || span.start < began && began < time || span.start.saturating_add(ORPHAN) < time {
                continue;
            }
            if let SpanKind::Process(process) = &mut span.kind {
                process.trigger = Trigger::Link;
            }
            self.chains.attach(orphan, at);
        }
    }

    /// Handles a request for work to be done later or in another thread.
    pub(super) fn cause(&mut self, time: u64, cause: Cause) {
        self.pop(cause.thread, cause.sp, time);
        let (caller, role) = self.ask(cause.thread, cause.site);
        let by_link = role == Role::CaLink
            || self.run.context().thread(cause.thread).is_some_and(|thread| thread.name == "CAC-event");
        let ioc = self.run.context().thread(cause.thread).map_or(0, |thread| thread.ioc);
        let callback = (ioc, cause.object);
        let state = self.threads.of(cause.thread);
        let top = state.frames.last().filter(|top| matches!(top.within, In::Process | In::Complete));
        let mut within = top.map(|top| top.at);
        let completes = top.filter(|top| top.within == In::Complete).map(|top| top.record);
        let mut processing = top.filter(|top| top.within == In::Process).map(|top| top.record);
        // A record of a type that may return without a trace, such as a motor that moves, may have done so: a driver's thread
        // that has processed it goes on with what it does itself.
        let context = self.run.context();
        let may_have_returned = role == Role::Other
            && processing
                .and_then(|record| context.record(record))
                .is_some_and(|record| !record.rtype.is_empty() && !base_types::always_forwards(record.rtype))
            && within.and_then(|at| self.chains.span(at)).is_some_and(|span| span.parent.is_none());
        drop(context);
        if may_have_returned {
            (within, processing) = (None, None);
        }
        if let Some(at) = within {
            // until the request is carried out
            self.chains.hold_until(at, time.saturating_add(ASKED));
        }
        if matches!(cause.kind, CauseKind::ScanIoRequest | CauseKind::PostEvent) {
            state.interrupt = Some((cause.sp, cause.site));
            return;
        }
        let by_caller = if let Caller::Asks(trigger) = caller { Some(trigger) } else { None };
        let asks = self.requests.trigger_of(callback).or(by_caller);
        if let (CauseKind::CallbackRequest, Some(trigger)) = (cause.kind, asks) {
            // Hits of `scanIoRequest` and `postEvent` hold their caller, if these are probed.
            let asked = state.interrupt.filter(|(sp, _)| *sp > cause.sp).map(|(_, site)| site);
            let site = asked.or((by_caller.is_none()).then_some(cause.site)).unwrap_or_default();
            let from =
                asked.filter(|_| trigger == Trigger::IoInterrupt).map(|site| self.ask(cause.thread, site));
            let python = matches!(from, Some((Caller::Python, _) | (Caller::Unknown, Role::Python)));
            let trigger = if python { Trigger::Python } else { trigger };
            // What follows from a forward link belongs to the processing of another record.
            let within = within.filter(|_| processing.is_some());
            let served = self.requests.served(callback).and_then(|thread| self.threads.get(thread));
            let last = served.map(|thread| thread.last);
            let thread = cause.thread;
            self.requests.push(Request { time, callback, trigger, within, thread, site }, last);
            return;
        }
        let is_callback =
            matches!(cause.kind, CauseKind::CallbackRequest | CauseKind::CallbackRequestDelayed);
        if is_callback && cause.object != 0 {
            self.own_callback(
                time,
                cause.thread,
                cause.sp,
                callback,
                within.filter(|_| processing.is_some()),
            );
        }
        if let (CauseKind::CallbackRequestDelayed, Some(record), Some(at)) = (cause.kind, processing, within)
        {
            if self.delayed.len() < MAX_RECORDS {
                self.delayed.insert(record, at);
            }
        }
        match (cause.kind, cause.record) {
            (CauseKind::ScanOnce, Some(record)) => {
                if self.asked.len() >= MAX_RECORDS {
                    return;
                }
                let (mut by_link, mut active, mut meanwhile) = (by_link, None, None);
                if completes == Some(record) {
                    // It processes once more (RPRO), which is never its own doing.
                    meanwhile = self.meanwhile.remove(&record);
                    // a CP link that finds its record active leaves no other trace
                    by_link = meanwhile.is_none() && !self.run.cp_links(time, record).is_empty();
                    let since = within.and_then(|at| self.chains.span(at)).map(|span| span.start);
                    active = since.filter(|_| by_link);
                    within = meanwhile;
                } else if completes.is_some() && !matches!(role, Role::Scan | Role::ScanOnce) {
                    // The forward link of a record asks for no other one. A thread that does more than process records may
                    // be in something else by now, such as a callback that tells sscan that its put is done.
                    within = None;
                }
                let active = active.map(|time| Asked { time, thread: cause.thread, site: 0 });
                if let Some(at) = within {
                    self.chains.hold(at); // for the processing requested
                }
                if let Some(at) = meanwhile {
                    self.chains.release(at);
                }
                let asked = self.asked.entry(record).or_default();
                asked.push_back(Once { time, within, by_link, active });
                if asked.len() > MAX_ASKED {
                    if let Some(at) = asked.pop_front().and_then(|first| first.within) {
                        self.chains.release(at);
                    }
                }
            }
            (CauseKind::ScanOnce, None) => {}
            (_, record) => {
                let of_record = record.and_then(|record| self.open.get(record).copied());
                let at = of_record.or(within.filter(|_| processing.is_some()));
                let span = at.and_then(|at| self.chains.span_mut(at));
                if let Some(Span { kind: SpanKind::Process(process), .. }) = span {
                    note(process, Phase { time, thread: cause.thread, asked: Some(cause.kind) });
                }
            }
        }
    }

    /// Handles the recorder's check of a record that it had not seen complete.
    pub(super) fn pact_check(&mut self, _time: u64, check: PactCheck) {
        match check.disabled && !check.active {
            true if self.disabled.len() < MAX_RECORDS => _ = self.disabled.insert(check.record, ()),
            true => {}
            false => _ = self.disabled.remove(check.record),
        }
        let Some(&at) = self.open.get(check.record) else { return };
        let did_nothing = self.always_forwards(check.record);
        let Some(Span { kind: SpanKind::Process(process), .. }) = self.chains.span_mut(at) else { return };
        process.outcome = match (check.active, check.disabled) {
            (true, _) => Outcome::Waiting,
            (false, true) => Outcome::Disabled,
            (false, false) if did_nothing => Outcome::Skipped,
            (false, false) => Outcome::Open,
        };
        process.is_over = !check.active && !check.disabled;
        if !check.active {
            self.open.remove(check.record);
            self.chains.release(at); // its completion
        }
    }

    /// `dbCaPutLinkCallback`.
    pub(super) fn link(&mut self, time: u64, put: CaLinkPut) {
        self.pop(put.thread, put.sp, time);
        let state = self.threads.of(put.thread);
        let own = state.frames.iter().rev().find(|frame| {
            frame.within == In::Process && put.record.is_none_or(|record| record == frame.record)
        });
        let open = put.record.and_then(|record| self.open.get(record).copied());
        // Other frames are stale: only a record that is processing follows its links.
        let parent = own.map(|frame| frame.at).or(open);
        let CaLinkPut { thread, record, pv, value, .. } = put;
        let shared = if pv.len() <= LONGEST_SHARED { self.run.share(&pv) } else { None };
        let pv = shared.unwrap_or_else(|| pv.into());
        let kind = SpanKind::Link(Box::new(LinkSpan { record, pv, value, resolved: false, target: None }));
        let span = Span { parent: None, thread: Some(thread), start: time, end: time, kind };
        match parent {
            Some(parent) => self.chains.add(parent, span),
            None => self.chains.begin(span),
        };
    }
}

/// Whether a callback will continue the record's processing.
fn is_completion(kind: CauseKind) -> bool {
    matches!(kind, CauseKind::CallbackRequestProcess | CauseKind::CallbackRequestProcessDelayed)
}

fn note(process: &mut ProcessSpan, phase: Phase) {
    if process.phases.len() < MAX_PHASES {
        process.phases.push(phase);
    }
}
