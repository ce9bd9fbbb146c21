//! PVAccess: requests on the network, and joining them to what they did inside the IOC.
//!
//! A request is first seen as a message; then, within a millisecond if the server is idle, its server thread writes the
//! field (`dbPut`, or `dbPutField` for links), and then answers. QSRV1 has a thread for each circuit, QSRV2 one for all.
//! So a hit belongs to the earliest request between whose message and answer it is, whose channel has the name of its
//! record and field, and whose value is its own. A request to a group has no record's name: it gets all hits within it
//! that have the value of one of its fields.
//!
//! Where the name of a channel is not known (it is older than the recording), the requests on it show its record:
//! whatever was not within one of them, with its value, is not it. What is left alone is.

use super::{Engine, MAX_RECORDS};
use crate::model::chain::{Answer, Packet, PutSpan, PvaRequest, Span, SpanKind, Trigger};
use crate::model::numbered::Numbered;
use crate::model::open_chains::{OpenChains, SpanRef};
use crate::model::pva_value::{options, possible, sent, Sent};
use crate::model::{run, value};
use crate::time::SECOND;
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{
    ChannelId, CircuitId, Dbf, FieldId, IocId, Linkage, PvaAnswer, PvaKind, PvaPut, RecordId, ThreadId, Value,
};
use std::collections::{HashSet, VecDeque};

/// Longest wait of a message for its hit and its answer: a server that is busy for longer is stuck.
const WAIT: u64 = 10 * SECOND;
/// After this time, a message's hits and its answer have been read.
const SETTLED: u64 = SECOND / 10;
/// Time that hits are remembered, to find the records of channels without names.
const REMEMBERED: u64 = SECOND;
/// Messages are captured by another clock than hits.
const CLOCK_ERROR: u64 = SECOND / 1000;
/// Messages, hits and values that wait; bounds for floods and hostile logs.
const MAX_WAITING: usize = 20_000;
/// Messages that a hit is compared with.
const WINDOW: usize = 512;
/// Records that a channel without a name may have.
const MAX_CANDIDATES: usize = 64;

/// A field, as far as it is known.
type Target = (RecordId, Option<FieldId>);

/// A request that may still have hits.
struct Waiting {
    time: u64,
    at: SpanRef,
    circuit: CircuitId,
    channel: ChannelId,
    /// Whether its hit was found.
    is_joined: bool,
}

/// What a server's thread did.
#[derive(Clone, Copy)]
struct Hit {
    thread: ThreadId,
    time: u64,
    at: SpanRef,
    /// Whether its request was looked for.
    is_tried: bool,
    is_joined: bool,
}

/// The way in which a hit fits a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// It is the request's put.
    Own,
    /// It is one of the puts of a group.
    Member,
}

/// Knowledge of a run's PVAccess circuits.
#[derive(Default)]
pub(super) struct Requests {
    waiting: VecDeque<Waiting>,
    hits: VecDeque<Hit>,
    /// Requests that may still be answered.
    asked: Numbered<(CircuitId, u32), VecDeque<SpanRef>>,
    /// Values that clients fetched before they put.
    before: Numbered<(CircuitId, u32), Sent>,
    /// Fields of channels whose names were never seen: those that are left, one if it is known.
    targets: Numbered<ChannelId, Vec<Target>>,
    names: Names,
}

/// The names of records, by IOC.
#[derive(Default)]
struct Names {
    known: HashSet<(IocId, Box<str>)>,
    iocs: HashSet<IocId>,
    /// Number of records then, and when that was.
    count: usize,
    since: u64,
}

impl Names {
    /// Whether this is the name of a record, and not of a group or of a server without records. Where the records are
    /// not known, only a server that is no IOC is certain to have none.
    fn is_record(&mut self, context: &Context, time: u64, ioc: Option<IocId>, pv: &str) -> bool {
        let Some(ioc) = ioc else { return true };
        let count = context.in_force().records.len();
        if count != self.count && (self.count == 0 || time >= self.since.saturating_add(SECOND)) {
            self.known = context.records().map(|record| (record.ioc, record.name.into())).collect();
            self.iocs = context.records().map(|record| record.ioc).collect();
            (self.count, self.since) = (count, time);
        }
        let name = Pv::new(pv).record;
        if self.iocs.contains(&ioc) {
            self.known.contains(&(ioc, name.into())) || context.by_alias(ioc, name).is_some()
        } else {
            context.ioc(ioc).is_none_or(|ioc| ioc.linkage != Linkage::Foreign)
        }
    }
}

impl Engine {
    /// PUT, PUT_GET, PROCESS or RPC.
    pub(super) fn pva_put(&mut self, time: u64, put: &PvaPut) {
        let context = self.run.context();
        let changed = matches!(put.kind, PvaKind::Put | PvaKind::PutGet);
        let sent = sent(&context, &put.value, changed);
        let options = options(&context, &put.options);
        let name = context.channel(put.channel).map_or("", |channel| channel.pv.as_str());
        let ioc = run::ioc_of_circuit(&context, put.circuit).map(|ioc| ioc.id);
        let names_record = !name.is_empty() && self.pva.names.is_record(&context, time, ioc, name);
        drop(context);
        let key = (put.circuit, put.ioid);
        let (dbf, count) = shape(sent.main());
        let requested = sent.main().filter(|_| changed).cloned().unwrap_or(Value::Unknown);
        let request = PvaRequest {
            kind: put.kind,
            possible: if changed && !sent.is_known { possible(&put.value) } else { Vec::new() },
            sent,
            options,
            before: self.pva.before.remove(&key),
            status: None,
            text: String::new(),
            result: None,
            names_record,
            is_group: false,
        };
        let packet = Packet {
            time,
            circuit: put.circuit,
            channel: put.channel,
            notify: true,
            dbr: 0,
            answer: None,
            pva: Some(Box::new(request)),
        };
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
                dbf,
                count,
                requested,
                old: Value::Unknown,
                after: None,
                wrote: false,
                written: None,
                only_processes: false,
                packet: Some(Box::new(packet)),
            })),
        });
        self.chains.hold(at); // for its hits
        self.chains.hold(at); // for its answer
        self.chains.hold_until(at, time.saturating_add(SECOND));
        let asked = self.pva.asked.entry(key).or_default();
        asked.push_back(at);
        let (circuit, channel) = (put.circuit, put.channel);
        self.pva.waiting.push_back(Waiting { time, at, circuit, channel, is_joined: false });
        if self.pva.waiting.len() > MAX_WAITING {
            if let Some(old) = self.pva.waiting.pop_front() {
                self.chains.release(old.at);
            }
        }
        if self.pva.asked.len() > MAX_WAITING {
            let chains = &self.chains;
            self.pva.asked.retain(|_, asked| {
                asked.retain(|at| chains.resolve(*at).is_some());
                !asked.is_empty()
            });
        }
    }

    /// The server's answer.
    pub(super) fn pva_answer(&mut self, time: u64, answer: &PvaAnswer) {
        let key = (answer.circuit, answer.ioid);
        let changed = matches!(answer.kind, PvaKind::Get | PvaKind::PutGet);
        let value = sent(&self.run.context(), &answer.value, changed);
        if answer.kind == PvaKind::Get {
            if self.pva.before.len() < MAX_WAITING && answer.status <= 1 {
                self.pva.before.insert(key, value);
            }
            return;
        }
        let Some(asked) = self.pva.asked.get_mut(&key) else { return };
        let mut found = None;
        while let Some(at) = asked.pop_front() {
            if self.chains.put(at).is_some() {
                found = Some(at);
                break;
            }
        }
        if asked.is_empty() {
            self.pva.asked.remove(&key);
        }
        let Some(at) = found else { return };
        if let Some(packet) = self.chains.put_mut(at).and_then(|put| put.packet.as_mut()) {
            packet.answer = Some(Answer { time, status: epics::eca::NORMAL });
            if let Some(request) = &mut packet.pva {
                request.status = Some(answer.status);
                request.text.clone_from(&answer.text);
                request.result = Some(value).filter(|value| !value.fields.is_empty());
            }
        }
        self.chains.release(at);
    }

    /// A server's thread put to a field, or made a record process, and nothing on its stack did it.
    pub(super) fn pva_hit(&mut self, thread: ThreadId, time: u64, at: SpanRef) {
        self.chains.hold_until(at, time.saturating_add(REMEMBERED));
        if self.pva.hits.back().is_some_and(|last| last.at.chain == at.chain) {
            return;
        }
        if self.pva.hits.len() >= MAX_WAITING {
            self.pva.hits.pop_front();
        }
        self.pva.hits.push_back(Hit { thread, time, at, is_tried: false, is_joined: false });
    }

    /// Joins what has settled. `last`: all of it.
    pub(super) fn join_pva(&mut self, last: bool) {
        let now = if last { u64::MAX } else { self.now };
        let settled = |time: u64| time.saturating_add(SETTLED) <= now;
        for number in 0..self.pva.hits.len() {
            let Some(hit) = self.pva.hits.get(number).copied() else { break };
            if hit.is_tried || !settled(hit.time) {
                continue;
            }
            let is_joined = self.join_hit(&hit);
            if let Some(hit) = self.pva.hits.get_mut(number) {
                (hit.is_tried, hit.is_joined) = (true, is_joined);
            }
        }
        let mut waiting = std::mem::take(&mut self.pva.waiting);
        waiting.retain_mut(|message| {
            let packet = self.chains.put(message.at).and_then(|put| put.packet.as_ref());
            let answered = packet.and_then(|packet| packet.answer.as_ref()).map(|answer| answer.time);
            let over = packet.is_none()
                || last
                || answered.is_some_and(|time| settled(time.saturating_add(CLOCK_ERROR)))
                || message.time.saturating_add(WAIT) <= now;
            if over {
                if !message.is_joined {
                    self.learn_target(message, answered);
                }
                self.chains.release(message.at);
            }
            !over
        });
        self.pva.waiting = waiting;
        let old = |hit: &Hit| hit.is_tried && hit.time.saturating_add(REMEMBERED) <= now;
        while self.pva.hits.front().is_some_and(old) {
            self.pva.hits.pop_front();
        }
    }

    /// Joins a hit to the first request that it fits.
    fn join_hit(&mut self, hit: &Hit) -> bool {
        let context = self.run.context();
        // the clocks are mostly right
        let first = [0, CLOCK_ERROR].into_iter().find_map(|error| {
            let near = self.pva.waiting.iter().enumerate().take(WINDOW);
            let mut free = near.filter(|(_, message)| !message.is_joined);
            free.find_map(|(number, message)| {
                let fit = fits(&self.chains, &context, &self.pva.targets, hit, message, error)?;
                Some((number, message.at, fit))
            })
        });
        drop(context);
        let Some((number, message, fit)) = first else { return false };
        if fit == Fit::Own && self.chains.put(hit.at).is_some() {
            self.chains.merge(hit.at, message);
        } else {
            let is_group = fit == Fit::Member;
            self.chains.attach(hit.at, message);
            let request = self.chains.put_mut(message).and_then(|put| put.packet.as_mut()?.pva.as_mut());
            if let Some(request) = request {
                request.is_group |= is_group;
            }
            if let Some(Span { kind: SpanKind::Process(process), .. }) = self.chains.span_mut(hit.at) {
                process.trigger = Trigger::Put;
            }
        }
        if let Some(message) = self.pva.waiting.get_mut(number) {
            message.is_joined = fit == Fit::Own;
        }
        true
    }

    /// Learns from a request on a channel without a name which field that is.
    fn learn_target(&mut self, message: &Waiting, answered: Option<u64>) {
        let context = self.run.context();
        if context.channel(message.channel).is_some_and(|channel| !channel.pv.is_empty()) {
            return;
        }
        let Some(answered) = answered else { return };
        let ioc = run::ioc_of_circuit(&context, message.circuit).map(|ioc| ioc.id);
        let mut found: Vec<(Target, Hit)> = Vec::new();
        for hit in
            self.pva.hits.iter().filter(|hit| is_within(hit.time, message.time, Some(answered), CLOCK_ERROR))
        {
            let Some(put) = self.chains.put(hit.at) else { continue };
            let Some(request) = self.chains.put(message.at) else { continue };
            let Some(record) = put.record else { continue };
            if is_of(&context, hit.thread, ioc) && has_value(request, &put.requested) {
                found.push(((record, put.field), *hit));
            }
        }
        drop(context);
        if found.is_empty() || self.pva.targets.len() >= MAX_RECORDS {
            return;
        }
        let targets: Vec<Target> = found.iter().map(|(target, _)| *target).take(MAX_CANDIDATES).collect();
        let left = self.pva.targets.entry(message.channel).or_insert_with(|| targets.clone());
        left.retain(|target| targets.contains(target));
        left.dedup();
        let &mut [target] = left.as_mut_slice() else { return };
        let own = found.iter().find(|(found, hit)| *found == target && !hit.is_joined);
        if let Some((_, hit)) = own {
            self.chains.merge(hit.at, message.at);
            if let Some(known) = self.pva.hits.iter_mut().find(|known| known.at.chain == hit.at.chain) {
                known.is_joined = true;
            }
        }
    }
}

/// Type and count of a value.
fn shape(value: Option<&Value>) -> (Dbf, u32) {
    match value {
        Some(Value::Array(array)) => (array.dbf, array.count),
        Some(Value::Text(_)) => (Dbf::String, 1),
        Some(Value::Int(_)) => (Dbf::Int64, 1),
        Some(Value::UInt(_)) => (Dbf::UInt64, 1),
        Some(Value::Float(_)) => (Dbf::Float, 1),
        Some(Value::Double(_)) => (Dbf::Double, 1),
        Some(Value::Unknown) | None => (Dbf::NoAccess, 1),
    }
}

/// Whether a hit is between a request and its answer.
fn is_within(hit: u64, asked: u64, answered: Option<u64>, error: u64) -> bool {
    asked <= hit.saturating_add(error)
        && answered.is_none_or(|answered| hit <= answered.saturating_add(error))
}

/// Whether the thread may belong to the IOC.
fn is_of(context: &Context, thread: ThreadId, ioc: Option<IocId>) -> bool {
    let own = run::ioc_of_thread(context, thread).map(|ioc| ioc.id);
    ioc.is_none() || own.is_none() || ioc == own
}

/// Whether the request may have asked for this value.
fn has_value(request: &PutSpan, value: &Value) -> bool {
    if *value == Value::Unknown {
        return true;
    }
    let possible = request.packet.as_ref().and_then(|packet| packet.pva.as_ref()).map(|pva| &pva.possible);
    match possible.filter(|possible| !possible.is_empty()) {
        Some(possible) => possible.iter().any(|one| value::same(one, value) == Some(true)),
        None => is_same(&request.requested, value) != Some(false),
    }
}

/// Whether a field was given the value that was sent.
fn is_same(sent: &Value, given: &Value) -> Option<bool> {
    match (sent, given) {
        // a field has room for less
        (Value::Text(sent), Value::Text(given)) => Some(sent.starts_with(given)),
        _ => value::same(sent, given),
    }
}

/// The way in which a hit fits a request, if it does.
fn fits(
    chains: &OpenChains,
    context: &Context,
    targets: &Numbered<ChannelId, Vec<Target>>,
    hit: &Hit,
    message: &Waiting,
    error: u64,
) -> Option<Fit> {
    let request = chains.put(message.at)?;
    let packet = request.packet.as_ref()?;
    let pva = packet.pva.as_ref()?;
    let answered = packet.answer.as_ref().map(|answer| answer.time);
    // a put of no field: QSRV2 writes 0 all the same, QSRV1 nothing
    let is_empty = pva.kind != PvaKind::Process && pva.sent.fields.is_empty() && !pva.sent.is_cut;
    let error = if is_empty { 0 } else { error };
    if !is_within(hit.time, message.time, answered, error) || pva.kind == PvaKind::Rpc {
        return None;
    }
    let ioc = run::ioc_of_circuit(context, message.circuit).map(|ioc| ioc.id);
    if !is_of(context, hit.thread, ioc) {
        return None;
    }
    let (record, field, requested) = match &chains.span(hit.at)?.kind {
        SpanKind::Put(put) => (put.record?, put.field, Some(&put.requested)),
        SpanKind::Process(process) => (process.record, None, None),
        SpanKind::Link(_) => return None,
    };
    let refused = pva.status.is_some_and(|status| matches!(status, 2 | 3));
    let name = context.channel(message.channel).map_or("", |channel| channel.pv.as_str());
    if name.is_empty() {
        let known = targets.get(&message.channel).map(Vec::as_slice);
        let own = known == Some(&[(record, field)]) && !refused;
        return (own && requested.is_some_and(|given| has_value(request, given))).then_some(Fit::Own);
    }
    let pv = Pv::new(name);
    let is_named = context.record(record).is_some_and(|record| record.name == pv.record)
        || context.aliases(record).iter().any(|alias| **alias == *pv.record);
    if is_named {
        let fits = match requested {
            Some(given) => {
                let same_field = run::field_name(context, field).is_none_or(|field| field == pv.field);
                pva.kind != PvaKind::Process && same_field && has_value(request, given)
            }
            None => pva.kind == PvaKind::Process,
        };
        return (fits && !refused).then_some(Fit::Own);
    }
    if pva.names_record || ioc.is_none() || pva.kind == PvaKind::Process {
        return None;
    }
    let is_field = match requested {
        // its record is locked with others, so the value is read later
        Some(Value::Unknown) => true,
        Some(given) => pva.sent.fields.iter().any(|(_, sent)| is_same(sent, given) == Some(true)),
        // a member that only makes its record process
        None => true,
    };
    is_field.then_some(Fit::Member)
}
