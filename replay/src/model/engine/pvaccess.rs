//! PVAccess: requests on the network, and joining them to what they did inside the IOC.
//!
//! A request is first seen as a message; then, within a millisecond if the server is idle, its server thread writes the
//! field (`dbPut`, or `dbPutField` for links), and then answers. QSRV1 has a thread for each circuit, QSRV2 one for all.
//! So a hit belongs to the earliest request between whose message and answer it is, whose channel has the name of its
//! record and field, and whose value is its own. A request to a group has no record's name: it gets all hits within it
//! that have the value of one of its fields.
//!
//! Where requests of several clients fit a hit, the thread decides if it serves one circuit alone, and then what is known
//! of the circuits' servers. If that does not show either, the hit is nobody's: which of the clients it was stays unknown.
//!
//! Where the name of a channel is not known (it is older than the recording), the requests on it show its record:
//! whatever was not within one of them, with its value, is not it. What is left alone is.

mod broken_off;
mod fit;
mod own_threads;

use self::broken_off::is_broken_off;
use self::fit::{fits, has_value, is_of, is_within, leads_to, Fit};
use self::own_threads::OwnThreads;
use super::{Engine, MAX_RECORDS};
use crate::model::caller::{Caller, Role};
use crate::model::chain::{Answer, Packet, PutSpan, PvaRequest, Span, SpanKind, Trigger};
use crate::model::numbered::Numbered;
use crate::model::open_chains::SpanRef;
use crate::model::pva_value::{options, possible, sent, Sent};
use crate::model::run;
use crate::time::SECOND;
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{
    ChannelId, CircuitId, Dbf, FieldId, IocId, Linkage, PvaAnswer, PvaKind, PvaPut, RecordId, ThreadId, Value,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// Longest wait of a message for its hit and its answer: a server that is busy for longer is stuck.
const WAIT: u64 = 10 * SECOND;
/// After this time, a message's hits and its answer have been read.
const SETTLED: u64 = SECOND / 10;
/// Time that hits are remembered, to find the records of channels without names.
const REMEMBERED: u64 = SECOND;
/// Status of a request whose answer the client did not wait for.
const CANCELLED: u16 = 4;
/// Time after which a hit that fits requests of several clients is given up; later ones may show whose thread it is.
const CONTESTED: u64 = SECOND * 8 / 10;
/// Times that it is tried until then.
const TRIES: u8 = 8;
/// The threads of QSRV1's server, one for each circuit.
const OWN_THREAD: &str = "TCP-rx";
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

/// A request that fits a hit: its place among those that wait, its put, its circuit, and how it fits.
type Found = (usize, SpanRef, CircuitId, Fit);

/// A request that may still have hits.
struct Waiting {
    time: u64,
    at: SpanRef,
    circuit: CircuitId,
    channel: ChannelId,
    /// Whether its hit was found.
    is_joined: bool,
    /// Whether a hit fits it and another client's request.
    is_contested: bool,
    /// Whether such a hit was given up, and counts as its.
    is_accounted: bool,
    /// Whether its channel had no name when it was seen.
    was_unnamed: bool,
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
    /// How often it was, and what was known then ([`Requests::known`]).
    tries: u8,
    known: u64,
}

/// What became of a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    /// It belongs to a request.
    Done,
    /// It fits none.
    None,
    /// It fits requests of several clients.
    Contested,
}

/// Knowledge of a run's PVAccess circuits.
#[derive(Default)]
pub(super) struct Requests {
    waiting: VecDeque<Waiting>,
    hits: VecDeque<Hit>,
    /// Requests that may still be answered.
    asked: Numbered<(CircuitId, u32), VecDeque<SpanRef>>,
    /// Those numbers of requests whose answers can't be told apart: a request came while another with its number waited, or
    /// the client did not wait for its answer, which may have come all the same. QSRV1 refuses the second, before or after
    /// it answers the first, and QSRV2 passes it over. With how many answers may still come: once all have, later ones can be
    /// told again.
    doubtful: HashMap<(CircuitId, u32), u32>,
    /// Values that clients fetched before they put.
    before: Numbered<(CircuitId, u32), Sent>,
    /// Fields of channels whose names were never seen: those that are left, one if it is known.
    targets: Numbered<ChannelId, Vec<Target>>,
    own_threads: OwnThreads,
    /// The IOCs' ports on which puts to records came. What else serves PVs in such a process is at another.
    serve_records: HashSet<(IocId, u16)>,
    /// Grows whenever something becomes known that may tell whose a contested hit is.
    known: u64,
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
        let mut sent = sent(&context, &put.value, changed);
        let is_broken_off = changed && is_broken_off(&context, &sent, &put.value);
        let options = options(&context, &put.options);
        let name = context.channel(put.channel).map_or("", |channel| channel.pv.as_str());
        let ioc = run::ioc_of_circuit(&context, put.circuit).map(|ioc| ioc.id);
        let was_unnamed = name.is_empty();
        let is_of_record = !changed || has_fields_of_records(&sent);
        let names_record =
            !was_unnamed && is_of_record && self.pva.names.is_record(&context, time, ioc, name);
        drop(context);
        if !was_unnamed && !names_record {
            unsay(&mut sent);
        }
        let key = (put.circuit, put.ioid);
        let owed = self.pva.doubtful.get_mut(&key);
        let is_doubtful = owed.is_some();
        owed.into_iter().for_each(|owed| *owed = owed.saturating_add(1));
        let (dbf, count) = shape(sent.main());
        let requested = sent.main().filter(|_| changed).cloned().unwrap_or(Value::Unknown);
        let request = PvaRequest {
            kind: put.kind,
            is_broken_off,
            possible: if changed && !sent.is_known { possible(&put.value) } else { Vec::new() },
            unread: if changed && !sent.is_known {
                put.value.bytes.as_slice().into()
            } else {
                Box::default()
            },
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
            nth: self.together.count(time, put.circuit),
            is_endless: false,
            is_part: false,
            answer: None,
            is_doubtful,
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
                is_one_of_several: false,
                packet: Some(Box::new(packet)),
            })),
        });
        self.chains.hold(at); // for its hits
        self.chains.hold(at); // for its answer
        self.chains.hold_until(at, time.saturating_add(SECOND));
        if is_doubtful {
            self.chains.release(at);
        } else {
            self.pva.asked.entry(key).or_default().push_back(at);
        }
        let (circuit, channel) = (put.circuit, put.channel);
        self.pva.waiting.push_back(Waiting {
            time,
            at,
            circuit,
            channel,
            is_joined: false,
            is_contested: false,
            is_accounted: false,
            was_unnamed,
        });
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
            if answer.status <= 1 {
                // clients that only look leave theirs behind
                if self.pva.before.len() >= MAX_WAITING {
                    self.pva.before.clear();
                }
                self.pva.before.insert(key, value);
            }
            return;
        }
        let is_cancelled = answer.status == CANCELLED;
        let Some(mut asked) = self.pva.asked.remove(&key) else {
            if let Some(owed) = self.pva.doubtful.get_mut(&key).filter(|_| !is_cancelled) {
                *owed -= 1;
                if *owed == 0 {
                    self.pva.doubtful.remove(&key);
                }
            }
            return;
        };
        asked.retain(|at| self.chains.put(*at).is_some());
        let owed = asked.len().saturating_sub(usize::from(!is_cancelled));
        if owed > 0 {
            if self.pva.doubtful.len() >= MAX_WAITING {
                self.pva.doubtful.clear();
            }
            self.pva.doubtful.insert(key, u32::try_from(owed).unwrap_or(u32::MAX));
        }
        let is_known = is_cancelled || asked.len() == 1;
        for at in asked {
            if let Some(packet) = self.chains.put_mut(at).and_then(|put| put.packet.as_mut()) {
                packet.is_doubtful = !is_known;
                packet.answer = is_known.then_some(Answer { time, status: epics::eca::NORMAL });
                if let Some(request) = packet.pva.as_mut().filter(|_| is_known) {
                    request.status = Some(answer.status);
                    request.text.clone_from(&answer.text);
                    request.result = Some(value.clone()).filter(|value| !value.fields.is_empty());
                }
            }
            self.chains.release(at);
        }
    }

    /// Whether what a thread does is what a client of PVAccess asked for. A thread of QSRV1 whose circuit lasted for
    /// milliseconds had ended before its name was read.
    pub(super) fn serves_pva(&self, thread: ThreadId, caller: Caller, role: Role) -> bool {
        let has_no_name = || self.run.context().thread(thread).is_some_and(|thread| thread.name.is_empty());
        role == Role::PvaServer || role == Role::Other && caller == Caller::ChannelPut && has_no_name()
    }

    /// A server's thread put to a field, or made a record process, and nothing on its stack did it.
    pub(super) fn pva_hit(&mut self, thread: ThreadId, time: u64, at: SpanRef) {
        self.chains.hold_until(at, time.saturating_add(REMEMBERED));
        if self.pva.hits.iter().rev().take(WINDOW).any(|earlier| earlier.at.chain == at.chain) {
            return;
        }
        if self.pva.hits.len() >= MAX_WAITING {
            self.pva.hits.pop_front();
        }
        self.pva.hits.push_back(Hit {
            thread,
            time,
            at,
            is_tried: false,
            is_joined: false,
            tries: 0,
            known: 0,
        });
    }

    /// Joins what has settled. `last`: all of it.
    pub(super) fn join_pva(&mut self, last: bool) {
        let now = if last { u64::MAX } else { self.now };
        let settled = |time: u64| time.saturating_add(SETTLED) <= now;
        self.look_up_names(now);
        // a later hit may show whose thread an earlier one is on
        for gives_up in [false, true] {
            for number in 0..self.pva.hits.len() {
                let Some(hit) = self.pva.hits.get(number).copied() else { break };
                let is_over = last || hit.time.saturating_add(CONTESTED) <= now;
                let in_vain =
                    !gives_up && hit.tries > 0 && (hit.known == self.pva.known || hit.tries > TRIES);
                if hit.is_tried || !settled(hit.time) || gives_up && !is_over || in_vain {
                    continue;
                }
                let known = self.pva.known;
                let join = self.join_hit(&hit, gives_up);
                if let Some(hit) = self.pva.hits.get_mut(number) {
                    hit.is_tried = join != Join::Contested || gives_up;
                    hit.is_joined = join == Join::Done;
                    (hit.tries, hit.known) = (hit.tries.saturating_add(1), known);
                }
            }
        }
        let mut waiting = std::mem::take(&mut self.pva.waiting);
        waiting.retain_mut(|message| {
            let packet = self.chains.put(message.at).and_then(|put| put.packet.as_ref());
            let answered = packet.and_then(|packet| packet.answer.as_ref()).map(|answer| answer.time);
            let over = packet.is_none()
                || last
                || answered.is_some_and(|time| {
                    let more = if message.is_contested && !message.is_joined { CONTESTED } else { 0 };
                    settled(time.saturating_add(CLOCK_ERROR + more))
                })
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

    /// Looks up the names that channels have got since their requests were seen.
    fn look_up_names(&mut self, now: u64) {
        let context = self.run.context();
        for message in self.pva.waiting.iter_mut().filter(|message| message.was_unnamed) {
            let name = context.channel(message.channel).map_or("", |channel| channel.pv.as_str());
            if name.is_empty() {
                continue;
            }
            message.was_unnamed = false;
            let ioc = run::ioc_of_circuit(&context, message.circuit).map(|ioc| ioc.id);
            let names_record = self.pva.names.is_record(&context, now, ioc, name);
            let Some(put) = self.chains.put_mut(message.at) else { continue };
            let Some(request) = put.packet.as_mut().and_then(|packet| packet.pva.as_mut()) else { continue };
            let changed = matches!(request.kind, PvaKind::Put | PvaKind::PutGet);
            let names_record = names_record && (!changed || has_fields_of_records(&request.sent));
            request.names_record = names_record;
            if !names_record && unsay(&mut request.sent) {
                put.requested = Value::Unknown;
            }
        }
    }

    /// Joins a hit to the first request that it fits, if those that it fits are of one client. `gives_up`: else it is
    /// nobody's.
    fn join_hit(&mut self, hit: &Hit, gives_up: bool) -> Join {
        let context = self.run.context();
        // the clocks are mostly right; what only may fit does so where nothing else fits
        let mut found = [(0, false), (CLOCK_ERROR, false), (0, true)]
            .into_iter()
            .map(|(error, perhaps)| {
                let near = self.pva.waiting.iter().enumerate().take(WINDOW);
                let free = near.filter(|(_, message)| !message.is_joined);
                let fit = free.filter_map(|(number, message)| {
                    let fit = fits(&self.chains, &context, &self.pva.targets, hit, message, error)?;
                    (perhaps || fit != Fit::Perhaps).then_some((number, message.at, message.circuit, fit))
                });
                fit.collect::<Vec<_>>()
            })
            .find(|found| !found.is_empty())
            .unwrap_or_default();
        let is_own = context
            .thread(hit.thread)
            .is_some_and(|thread| thread.name == OWN_THREAD || thread.name.is_empty());
        let ioc = run::ioc_of_thread(&context, hit.thread).map(|ioc| ioc.id);
        let port = |circuit: CircuitId| context.circuit(circuit).map(|circuit| circuit.server.port);
        if gives_up {
            leave_out_other_servers(&context, hit.thread, &mut found);
            // members of a group have no name in common with it, and what another server is asked for may be the same
            let of_records = |circuit: CircuitId| {
                ioc.zip(port(circuit)).is_some_and(|place| self.pva.serve_records.contains(&place))
            };
            if found.iter().any(|(.., circuit, _)| of_records(*circuit)) {
                found.retain(|(.., circuit, _)| of_records(*circuit));
            }
        }
        let own = found
            .iter()
            .find(|(.., circuit, fit)| *fit == Fit::Own && leads_to(&context, *circuit, hit.thread));
        let place = own.and_then(|(.., circuit, _)| ioc.zip(port(*circuit)));
        drop(context);
        if is_own && !found.is_empty() {
            let mut circuits: Vec<CircuitId> = found.iter().map(|(.., circuit, _)| *circuit).collect();
            self.pva.known += u64::from(self.pva.own_threads.serve(hit.thread, &mut circuits));
            found.retain(|(.., circuit, _)| circuits.contains(circuit));
        }
        if found.is_empty() && is_own {
            found.extend(self.of_own_group(hit));
        }
        let Some(&(number, message, circuit, fit)) = found.first() else { return Join::None };
        if found.iter().any(|(.., other, _)| *other != circuit) {
            self.contest(hit, &found.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), gives_up);
            return Join::Contested;
        }
        if let Some(place) = place.filter(|_| self.pva.serve_records.len() < MAX_WAITING) {
            self.pva.serve_records.insert(place);
        }
        if fit == Fit::Own && self.chains.put(hit.at).is_some() {
            self.chains.merge(hit.at, message);
        } else {
            let is_group = fit != Fit::Own;
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
            self.pva.known += u64::from(message.is_contested);
        }
        Join::Done
    }

    /// The put to a group whose thread does nothing else from its request to its answer: what it writes there belongs to the
    /// group, though nobody sent it. QSRV1 writes all members that are in an array of structures, also those that it was
    /// not sent, as they are.
    fn of_own_group(&self, hit: &Hit) -> Option<(usize, SpanRef, CircuitId, Fit)> {
        let circuit = self.pva.own_threads.certain(hit.thread)?;
        let near = self.pva.waiting.iter().enumerate().take(WINDOW);
        let mut of_it = near.filter(|(_, message)| message.circuit == circuit && !message.is_joined);
        of_it.find_map(|(number, message)| {
            let packet = self.chains.put(message.at)?.packet.as_ref()?;
            let is_group = packet.pva.as_ref()?.is_group;
            let answered = packet.answer.as_ref()?.time;
            (is_group && is_within(hit.time, message.time, Some(answered), 0)).then_some((
                number,
                message.at,
                circuit,
                Fit::Member,
            ))
        })
    }

    /// These requests of several clients fit a hit. When it is given up, it counts as that of the one that was answered
    /// first: later hits may still be those of the others.
    fn contest(&mut self, hit: &Hit, requests: &[usize], gives_up: bool) {
        let mut first: Option<(u64, usize)> = None;
        for &number in requests {
            let Some(message) = self.pva.waiting.get_mut(number) else { continue };
            message.is_contested = true;
            if gives_up && !message.is_accounted {
                let packet = self.chains.put(message.at).and_then(|put| put.packet.as_ref());
                let answer = packet.and_then(|packet| packet.answer.as_ref());
                let answered = (answer.map_or(u64::MAX, |answer| answer.time), number);
                first = Some(first.map_or(answered, |first| first.min(answered)));
            }
        }
        let Some(message) = first.and_then(|(_, number)| self.pva.waiting.get_mut(number)) else { return };
        message.is_accounted = true;
        if let Some(put) = self.chains.put_mut(hit.at) {
            put.is_one_of_several = true;
        }
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
        // of several, which one is this request's is unknown
        let mut own = found.iter().filter(|(found, hit)| *found == target && !hit.is_joined);
        if let Some((_, hit)) = own.next().filter(|_| own.next().is_none()) {
            self.chains.merge(hit.at, message.at);
            if let Some(known) = self.pva.hits.iter_mut().find(|known| known.at.chain == hit.at.chain) {
                known.is_joined = true;
            }
        }
    }
}

/// Of requests that fit a hit of this thread, leaves out those to other servers, as far as that is known. A gateway puts on
/// what was put to it: who serves at its port may never be known, who serves at the IOC's is. And code in the IOC's process
/// may serve PVs of its own, at a port of its own: not being records, they look like groups.
fn leave_out_other_servers(context: &Context, thread: ThreadId, found: &mut Vec<Found>) {
    let at = |circuit: CircuitId| context.circuit(circuit).map(|circuit| circuit.server);
    let certain = found.iter().filter(|(.., circuit, _)| leads_to(context, *circuit, thread));
    let servers: Vec<_> = certain.map(|(.., circuit, _)| at(*circuit)).collect();
    found.retain(|(.., circuit, _)| servers.is_empty() || servers.contains(&at(*circuit)));
    let port = |circuit: CircuitId| at(circuit).map(|server| server.port);
    let named = found.iter().filter(|(.., fit)| *fit == Fit::Own);
    let ports: Vec<_> = named.map(|(.., circuit, _)| port(*circuit)).collect();
    found.retain(|(.., circuit, _)| ports.is_empty() || ports.contains(&port(*circuit)));
}

/// Whether what was sent has only fields that the values of records have: a group may be called like a record's field, and has
/// its members.
fn has_fields_of_records(sent: &Sent) -> bool {
    let is_of_record = |(path, _): &(String, Value)| {
        let first = path.split(['.', '[']).next().unwrap_or_default();
        ["", "value", "alarm", "timeStamp", "display", "control", "valueAlarm", "descriptor"].contains(&first)
    };
    !sent.is_known || sent.fields.iter().all(is_of_record)
}

/// Takes back what a value of unknown type looked like: it was read as records have it, but its channel is none's.
/// Returns whether there was something.
fn unsay(sent: &mut Sent) -> bool {
    let guessed = !sent.is_known && !sent.fields.is_empty();
    if guessed {
        *sent = Sent { is_cut: true, ..Sent::default() };
    }
    guessed
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
