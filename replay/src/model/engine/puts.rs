//! Puts: messages on the network, hits inside the IOC, and joining the two.

use super::{Engine, MAX_RECORDS};
use crate::model::caller::{self, Caller, Role};
use crate::model::chain::{Answer, Packet, PutSpan, Span, SpanKind};
use crate::model::open_chains::SpanRef;
use crate::model::packets::Match;
use crate::model::stack::In;
use crate::model::value;
use crate::time::SECOND;
use epics::limits::MAX_STRING_SIZE;
use epics::{eca, Dbr};
use iocrec_log::event::{CaAnswer, CaPut, Dbf, Put, PutKind, RecordId, ThreadId, Value};

/// Time that a put is kept for the server's refusal, which comes after the IOC's hits, when the server has handled
/// everything it had received; and for the recorder's readings of its field, up to half a second later.
const REFUSAL: u64 = SECOND;
/// Puts with callback that are remembered while they wait for the same record.
const MAX_WAITING: usize = 64;

/// Whether a text's end is not in the message. In 40 bytes it needs none.
fn is_endless(put: &CaPut) -> bool {
    let is_whole = usize::try_from(put.length) == Ok(put.payload.len());
    let is_text = Dbr(put.dbr).put_element() == Some(Dbf::String) && put.count == 1;
    is_text && is_whole && put.payload.len() < MAX_STRING_SIZE && !put.payload.contains(&0)
}

/// Whether only the first bytes of a text were captured.
fn is_part(put: &CaPut) -> bool {
    let is_text = Dbr(put.dbr).put_element() == Some(Dbf::String) && put.count == 1;
    let is_short = usize::try_from(put.length).is_ok_and(|length| put.payload.len() < length);
    is_text && is_short && put.payload.len() < MAX_STRING_SIZE && !put.payload.contains(&0)
}

impl Engine {
    /// WRITE or WRITE_NOTIFY.
    pub(super) fn message(&mut self, time: u64, put: CaPut) {
        let packet = Packet {
            time,
            circuit: put.circuit,
            channel: put.channel,
            notify: put.notify,
            dbr: put.dbr,
            nth: self.together.count(time, put.circuit),
            is_endless: is_endless(&put),
            is_part: is_part(&put),
            answer: None,
            is_doubtful: false,
            pva: None,
        };
        let request = (put.circuit, put.ioid, put.notify);
        let at = self.chains.begin(Span {
            parent: None,
            thread: None,
            start: time,
            end: time,
            kind: SpanKind::Put(Box::new(PutSpan {
                kind: None,
                site: 0,
                record: None,
                field: None,
                dbf: Dbr(put.dbr).put_element().unwrap_or(Dbf::NoAccess),
                count: put.count,
                requested: value::from_channel_access(put.dbr, put.count, &put.payload),
                old: Value::Unknown,
                after: None,
                wrote: false,
                written: None,
                only_processes: false,
                is_one_of_several: false,
                packet: Some(Box::new(packet)),
            })),
        });
        self.chains.hold(at); // for its hit
        self.chains.hold_until(at, time.saturating_add(REFUSAL));
        if put.notify {
            self.chains.hold(at); // for its answer
        }
        if let Some(old) = self.packets.push(&self.chains, time, at, request) {
            self.chains.release(old);
        }
        let hits = self.packets.take_hits_for(&self.chains, &self.run.context(), put.circuit);
        for (thread, time, hit) in hits {
            self.join(thread, time, hit, false);
        }
    }

    /// The server's answer to either.
    pub(super) fn answer(&mut self, time: u64, answer: &CaAnswer) {
        let request = (answer.circuit, answer.ioid, answer.notify);
        let status = answer.status;
        let doubtful = match answer.notify {
            true => self.packets.take_doubtful(&self.chains, request),
            false => self.packets.any_refused(&self.chains, request, status),
        };
        for at in &doubtful {
            if let Some(packet) = self.chains.put_mut(*at).and_then(|put| put.packet.as_mut()) {
                packet.is_doubtful = true;
            }
            if answer.notify {
                self.chains.release(*at);
            }
        }
        if !doubtful.is_empty() {
            return;
        }
        let Some(at) = self.packets.answer(&mut self.chains, request, Answer { time, status }) else {
            return;
        };
        if answer.notify {
            self.chains.release(at);
        }
        if status == eca::NOWTACCESS && self.packets.give_up(answer.circuit, at) {
            self.chains.release(at);
        }
    }

    /// A put's hit.
    pub(super) fn put(&mut self, time: u64, put: Put) {
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
        let field = put.field;
        let is_link = |field| self.run.context().field(field).is_some_and(|field| field.dbf.is_link());
        let old_link = (kind == PutKind::PutField && field.is_some_and(is_link)).then(|| put.old.clone());
        let within = if kind == PutKind::Notify { In::Notify } else { In::PutField };
        // what a driver's thread puts itself, once a motor that it has processed has returned
        let is_elsewhere = role == Role::Other
            && caller == Caller::Unknown
            && caller::is_outside_database(&self.run.context(), put.site)
            && self.may_have_returned(thread);
        let state = self.threads.of(thread);
        let top = state.frames.last().map(|frame| (frame.within, frame.record, frame.at));
        // In these threads everything begins with a put, unless site-specific code called it.
        let served = matches!(role, Role::CaServer | Role::CaLink)
            && (caller == Caller::Server
                || caller == Caller::Unknown && !caller::is_other(&self.run.context(), put.site));
        let entry = served || caller == Caller::Shell || state.is_entry(put.site, kind, sp);
        if let (Some((In::Notify, of, at)), PutKind::PutField) = (top, kind) {
            // A put with callback to a link field.
            if of == record && !self.chains.put(at).is_some_and(|put| put.wrote) {
                self.fill(time, at, put);
                self.enter(thread, sp, within, record, at);
                self.join(thread, time, at, false);
                return;
            }
        }
        let processing =
            state.frames.iter().any(|frame| frame.within == In::Process && self.open.contains(frame.record));
        let inside = processing && !entry && !is_elsewhere;
        let at = match top {
            Some((_, _, at)) if inside => self.chains.add(at, put_span(time, put)),
            _ => {
                state.note_entry(put.site, kind, sp);
                self.unwind(thread, time);
                let at = self.chains.begin(put_span(time, put));
                self.chains.hold_until(at, time.saturating_add(REFUSAL));
                at
            }
        };
        self.enter(thread, sp, within, record, at);
        if let Some(old) = old_link {
            // No `dbPut` follows.
            self.run.link_changes(time, record);
            self.found(record, field, &old);
            self.watch(time, record, at);
        }
        if kind == PutKind::Notify {
            self.wait_to_write(record, at);
        }
        // over PVAccess it is the time that tells whose it is, and a refused one has no `dbPut`
        if !inside && (kind == PutKind::PutField || self.serves_pva(thread, caller, role)) {
            self.join(thread, time, at, false);
        }
    }

    /// Notes that a put with callback has begun, and may have to wait for its record.
    fn wait_to_write(&mut self, record: RecordId, at: SpanRef) {
        if self.notifies.len() < MAX_RECORDS {
            let waiting = self.notifies.entry(record).or_default();
            if waiting.len() < MAX_WAITING {
                waiting.push_back(at);
            }
        }
    }

    /// The put with callback that has waited longest to write to the record, and its thread.
    fn has_waited(&self, record: RecordId) -> Option<(SpanRef, Option<ThreadId>)> {
        let mut waiting = self.notifies.get(&record)?.iter();
        let at = *waiting.find(|at| self.chains.put(**at).is_some_and(|put| !put.wrote))?;
        Some((at, self.chains.span(at)?.thread))
    }

    /// Notes a put to a record during its processing, or what its link tried to make process then: it may make the record
    /// process once more.
    pub(super) fn note_meanwhile(&mut self, record: RecordId, at: SpanRef) {
        if self.open.contains(record) && self.meanwhile.len() < MAX_RECORDS {
            self.chains.hold(at);
            if let Some(earlier) = self.meanwhile.insert(record, at) {
                self.chains.release(earlier);
            }
        }
    }

    /// Handles `dbPut`. By the stack it never is a parent: it has returned before the record processes.
    fn write(&mut self, time: u64, put: Put, caller: Caller, role: Role) {
        let (thread, record, sp) = (put.thread, put.record, put.sp);
        self.leave_forward_link(thread, time); // which writes to no field
        let state = self.threads.of(thread);
        let top = state.frames.last().map(|frame| (frame.within, frame.record, frame.at));
        // A put writes once: anything not called from its `dbPut` comes after it.
        let over = state.frames.last().is_some_and(|frame| {
            matches!(frame.within, In::PutField | In::Notify)
                && frame.wrote.is_some_and(|deepest| sp >= deepest)
        });
        match top {
            Some((In::PutField | In::Notify, of, at))
                if of == record && !self.chains.put(at).is_some_and(|put| put.wrote) =>
            {
                self.fill(time, at, put);
                if let Some(top) = self.threads.of(thread).top() {
                    top.wrote = Some(sp);
                }
                self.note_meanwhile(record, at);
                self.join(thread, time, at, false);
            }
            // Frames that seem to be around a put from outside are stale.
            Some((_, _, at)) if !over && !matches!(caller, Caller::ChannelPut | Caller::Python) => {
                self.found(record, put.field, &put.old);
                let at = self.chains.add(at, put_span(time, put));
                self.note_meanwhile(record, at);
                if let Some(top) = self.threads.of(thread).top() {
                    top.puts.push(record, at);
                }
            }
            _ => {
                self.unwind(thread, time);
                let waiting = if role == Role::Callback { self.has_waited(record) } else { None };
                if let (Some((at, from)), Caller::ChannelPut | Caller::Unknown) = (waiting, caller) {
                    self.fill(time, at, put);
                    self.threads.of(thread).puts.push(record, at);
                    self.join(from.unwrap_or(thread), time, at, false);
                    return;
                }
                self.found(record, put.field, &put.old);
                let at = self.chains.begin(put_span(time, put));
                self.watch(time, record, at);
                self.note_meanwhile(record, at);
                self.chains.hold_until(at, time.saturating_add(REFUSAL));
                let state = self.threads.of(thread);
                state.puts.push(record, at);
                if matches!(caller, Caller::Link | Caller::Unknown)
                    && matches!(role, Role::Callback | Role::Other)
                {
                    state.note_orphan(sp, at);
                }
                self.join(thread, time, at, false);
            }
        }
    }

    /// Completes a put once its `dbPut` is seen (or, for a link field, its `dbPutField` inside `dbProcessNotify`).
    fn fill(&mut self, time: u64, at: SpanRef, put: Put) {
        let record = put.record;
        if put.kind == PutKind::PutField {
            self.run.link_changes(time, record);
        }
        self.found(record, put.field, &put.old);
        let Some(span) = self.chains.span_mut(at) else { return };
        let SpanKind::Put(own) = &mut span.kind else { return };
        own.wrote = true;
        own.written = Some(time);
        own.old = put.old;
        own.field = put.field.or(own.field);
        if own.requested == Value::Unknown {
            own.dbf = put.dbf;
            own.count = put.count;
            own.requested = put.requested;
        }
        self.chains.weigh_again(at);
        self.chains.hold_until(at, time.saturating_add(REFUSAL));
        self.watch(time, record, at);
    }

    /// Joins a hit to its message, if one fits. `last`: this is the last attempt.
    pub(super) fn join(&mut self, thread: ThreadId, time: u64, at: SpanRef, last: bool) {
        let Some(put) = self.chains.put(at) else { return };
        let seen_both = put.packet.is_some();
        let nothing_known = put.kind == Some(PutKind::Notify) && !put.wrote && !last;
        let (caller, role) = self.ask(thread, put.site);
        if self.serves_pva(thread, caller, role) && !seen_both {
            self.pva_hit(thread, time, at);
            return;
        }
        let served = self.packets.circuit(thread).is_some()
            || role == Role::CaServer
            || (role == Role::Other && matches!(caller, Caller::Server | Caller::Unknown));
        if seen_both || nothing_known || !served {
            return;
        }
        let mut done = Vec::new();
        if self.packets.learn(&self.chains, &self.run.context(), thread, at) {
            // The thread's earlier hits, which could not be distinguished from another thread's, come first.
            for (time, earlier) in self.packets.take_hits_of(thread) {
                self.join(thread, time, earlier, last);
            }
        }
        let context = self.run.context();
        let found = self.packets.find(&self.chains, &context, thread, at, last, |at| done.push(at));
        match found {
            Match::Found(message) => self.chains.merge(at, message),
            Match::None if !last => self.packets.wait(thread, time, at),
            Match::None => {}
        }
        drop(context);
        for at in done {
            self.chains.release(at);
        }
    }

    /// Tries again to join the waiting hits.
    pub(super) fn retry_hits(&mut self, last: bool) {
        for (thread, time, at, overdue) in self.packets.take_hits(self.now, last) {
            self.join(thread, time, at, overdue);
        }
    }
}

/// The span of a put seen inside the IOC.
fn put_span(time: u64, put: Put) -> Span {
    Span {
        parent: None,
        thread: Some(put.thread),
        start: time,
        end: time,
        kind: SpanKind::Put(Box::new(PutSpan {
            kind: Some(put.kind),
            site: put.site,
            record: Some(put.record),
            field: put.field,
            dbf: put.dbf,
            count: put.count,
            requested: put.requested,
            old: put.old,
            after: None,
            wrote: put.kind == PutKind::Put,
            written: (put.kind == PutKind::Put).then_some(time),
            only_processes: false,
            is_one_of_several: false,
            packet: None,
        })),
    }
}
