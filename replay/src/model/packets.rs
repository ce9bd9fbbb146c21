//! Puts on the network and puts inside the IOC: which are the same.
//!
//! A put from a client is seen as a message first, and a little later (seconds, when the server is
//! busy) as a hit in the thread that serves the client's circuit. Within a circuit the order of both
//! is the same, since one thread carries out what one circuit asks. Which thread serves which
//! circuit the recorder often knows; otherwise it is learned from the first put that fits one circuit
//! only.

use super::chain::{Answer, PutSpan};
use super::open_chains::{OpenChains, SpanRef};
use super::{run, value};
use crate::time::SECOND;
use epics::{Dbr, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{ChannelId, CircuitId, Dbf, PutKind, RecordId, ThreadId, Value};
use std::collections::{HashMap, VecDeque};

/// How long a message may wait for its hit: a server that is busy for longer is stuck.
const HIT_WAIT: u64 = 10 * SECOND;
/// How long a hit waits for a message that was seen late, or for the thread's circuit to be learned.
const PACKET_WAIT: u64 = SECOND / 2;
/// Messages and hits that wait at most, of each kind; the oldest are given up without their counterpart.
const MAX_WAITING: usize = 50_000;
/// Messages that wait on all circuits, and threads, circuits and channels that are remembered; a bound for hostile
/// logs.
const MAX_HELD: usize = 1_000_000;

/// Messages on a circuit that a hit is compared with, the first and the latest before it: with more, a log
/// whose hits were lost by the million takes for ever.
const WINDOW: usize = 256;
/// A message is captured before its hit, but by another clock (1 ms is generous).
const CLOCK_ERROR: u64 = SECOND / 1000;

/// Hits that are looked at for each message; more wait for the next sweep.
const FEW: usize = 64;

/// A hit that waits, and since when.
#[derive(Clone, Copy, Debug)]
struct WaitingHit {
    thread: ThreadId,
    time: u64,
    at: SpanRef,
}

/// A message that waits, and since when.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: u64,
    at: SpanRef,
    /// Of its value, see [`print()`].
    print: Option<u64>,
}

/// A hit that is looked for.
#[derive(Clone, Copy)]
struct Hit<'a> {
    time: u64,
    put: &'a PutSpan,
    print: Option<u64>,
}

impl<'a> Hit<'a> {
    fn of(chains: &'a OpenChains, at: SpanRef) -> Option<Hit<'a>> {
        let put = chains.put(at)?;
        Some(Hit { time: chains.span(at)?.start, put, print: print(&put.requested) })
    }

    /// Does the value show that the message is another's? A hit is compared with hundreds of messages, so what needs no
    /// look into the chains comes first.
    fn differs(&self, message: &Waiting) -> bool {
        matches!((self.print, message.print), (Some(own), Some(other)) if own != other)
    }
}

/// A number made from a value: where two values both have one, and not the same, [`value::same`] finds them
/// different.
fn print(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Int(v) => *v as f64,
        Value::UInt(v) => *v as f64,
        Value::Float(v) => f64::from(*v),
        Value::Double(v) => *v,
        // FNV-1a
        Value::Text(text) => {
            let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            return Some(text.iter().fold(0xcbf2_9ce4_8422_2325, hash));
        }
        // cut arrays, and those of one element, can be the same as much else
        Value::Array(_) | Value::Unknown => return None,
    };
    // One for both zeroes, one for all that is not a number.
    let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
    Some(number.to_bits())
}

/// How a message fits a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// By the name of its channel too.
    Named,
    /// By its value: the channel is named otherwise, perhaps by an alias that is not in the log.
    Valued,
}

/// A message that fits a hit: its circuit, its place in the queue, its time.
struct Fitting {
    circuit: CircuitId,
    place: usize,
    time: u64,
}

/// Key of an answer: circuit, request id, with callback.
type Request = (CircuitId, u32, bool);

/// What is known of the circuits of a run.
#[derive(Default)]
pub struct Packets {
    /// Puts that wait for their hits, in the order in which they came.
    queues: HashMap<CircuitId, VecDeque<Waiting>>,
    /// Which circuit a thread serves, and the way back.
    circuits: HashMap<ThreadId, CircuitId>,
    threads: HashMap<CircuitId, ThreadId>,
    /// Records of channels whose names do not name them: aliases, and channels never named.
    records: HashMap<ChannelId, RecordId>,
    /// Puts that may yet be answered.
    asked: HashMap<Request, VecDeque<SpanRef>>,
    /// Puts in [`Packets::asked`], dead ones included, and how many there may be before these are looked for.
    asked_count: usize,
    asked_limit: usize,
    /// Hits that wait for their message.
    hits: VecDeque<WaitingHit>,
}

/// What became of the search for a hit's message.
#[derive(Clone, Copy, Debug)]
pub enum Match {
    /// It is this.
    Found(SpanRef),
    /// There is none, or there are several.
    None,
}

impl Packets {
    /// A thread serves a circuit.
    pub fn bind(&mut self, thread: ThreadId, circuit: CircuitId) {
        if self.circuits.len() < MAX_HELD && self.threads.len() < MAX_HELD {
            self.circuits.insert(thread, circuit);
            self.threads.insert(circuit, thread);
        }
    }

    /// A circuit is gone, and what waited on it.
    pub fn forget(&mut self, circuit: CircuitId) {
        self.queues.remove(&circuit);
        if let Some(thread) = self.threads.remove(&circuit) {
            self.circuits.remove(&thread);
        }
    }

    /// The circuit that a thread serves, where known.
    pub fn circuit(&self, thread: ThreadId) -> Option<CircuitId> {
        self.circuits.get(&thread).copied()
    }

    /// A message came; `at` is the put that it made, which it holds. Gives those that have waited
    /// too long.
    pub fn push(&mut self, chains: &OpenChains, time: u64, at: SpanRef, request: Request) -> Option<SpanRef> {
        let queue = self.queues.entry(request.0).or_default();
        let message = chains.put(at);
        // The protocol's CHAR is converted before it is compared.
        let print = message.filter(|put| put.dbf != Dbf::UChar).and_then(|put| print(&put.requested));
        queue.push_back(Waiting { time, at, print });
        self.asked.entry(request).or_default().push_back(at);
        self.asked_count += 1;
        if queue.len() > MAX_WAITING {
            return queue.pop_front().map(|old| old.at);
        }
        None
    }

    /// An answer came. Gives the put that it answers.
    pub fn answer(&mut self, chains: &mut OpenChains, request: Request, answer: Answer) -> Option<SpanRef> {
        let asked = self.asked.get_mut(&request)?;
        // Ids of puts with callback are unique while they are open. Those of others are not (libca
        // sends the channel's id), and few of them are answered: most likely the latest.
        let at = loop {
            let at = if request.2 { asked.pop_front() } else { asked.pop_back() };
            let Some(at) = at else {
                self.asked.remove(&request);
                return None;
            };
            self.asked_count = self.asked_count.saturating_sub(1);
            if chains.put(at).is_some() {
                break at;
            }
        };
        if asked.is_empty() {
            self.asked.remove(&request);
        }
        chains.put_mut(at)?.packet.as_mut()?.answer = Some(answer);
        Some(at)
    }

    /// A put will have no hit (it was denied). Tells whether it was waiting for one.
    pub fn give_up(&mut self, circuit: CircuitId, at: SpanRef) -> bool {
        let Some(queue) = self.queues.get_mut(&circuit) else { return false };
        // It was sent a moment ago, so it is among the last.
        let place = queue.iter().rposition(|waiting| waiting.at.chain == at.chain);
        place.is_some_and(|place| queue.remove(place).is_some())
    }

    /// A hit waits for its message.
    pub fn wait(&mut self, thread: ThreadId, time: u64, at: SpanRef) {
        if self.hits.len() == MAX_WAITING {
            self.hits.pop_front();
        }
        self.hits.push_back(WaitingHit { thread, time, at });
    }

    /// The hits of a thread that wait for a message; they wait no more.
    pub fn take_hits_of(&mut self, thread: ThreadId) -> Vec<(u64, SpanRef)> {
        let mut taken = Vec::new();
        self.hits.retain(|hit| {
            if hit.thread == thread {
                taken.push((hit.time, hit.at));
            }
            hit.thread != thread
        });
        taken
    }

    /// The hits to try again: those that have waited long enough (`true`), which wait no more; and of the others, of
    /// threads whose circuit is not known the latest few. `last`: all of them, for the last time.
    pub fn take_hits(&mut self, now: u64, last: bool) -> Vec<(ThreadId, u64, SpanRef, bool)> {
        let mut tries: HashMap<ThreadId, usize> = HashMap::new();
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(hit) = self.hits.pop_back() {
            let overdue = last || hit.time.saturating_add(PACKET_WAIT) <= now;
            let tries = tries.entry(hit.thread).or_default();
            *tries += 1;
            if overdue || *tries <= FEW || self.circuits.contains_key(&hit.thread) {
                taken.push((hit.thread, hit.time, hit.at, overdue));
            } else {
                kept.push_front(hit);
            }
        }
        self.hits = kept;
        taken.reverse();
        taken
    }

    /// The hits that the message that came last on a circuit may belong to; they wait no more. None where more than
    /// a few wait: the next sweep looks at them.
    pub fn take_hits_for(
        &mut self,
        chains: &OpenChains,
        context: &Context,
        circuit: CircuitId,
    ) -> Vec<(ThreadId, u64, SpanRef)> {
        let message = self.queues.get(&circuit).and_then(|queue| queue.back()).copied();
        let Some(message) = message.filter(|_| (1..=FEW).contains(&self.hits.len())) else {
            return Vec::new();
        };
        let may_fit = |waiting: &WaitingHit| {
            let own = self.circuits.get(&waiting.thread);
            let possible = own.map_or(!self.threads.contains_key(&circuit), |own| *own == circuit);
            let hit = Hit::of(chains, waiting.at).filter(|_| possible);
            hit.is_some_and(|hit| self.fits(chains, context, &message, hit).is_some())
        };
        let fitting: Vec<bool> = self.hits.iter().map(may_fit).collect();
        let mut taken = Vec::new();
        let mut fitting = fitting.into_iter();
        self.hits.retain(|hit| {
            let fits = fitting.next().unwrap_or(false);
            if fits {
                taken.push((hit.thread, hit.time, hit.at));
            }
            !fits
        });
        taken
    }

    /// Does any hit wait?
    pub fn has_hits(&self) -> bool {
        !self.hits.is_empty()
    }

    /// Messages that have waited long enough for a hit; they wait no more.
    pub fn expire(&mut self, chains: &OpenChains, now: u64, mut release: impl FnMut(SpanRef)) {
        self.queues.retain(|_, queue| {
            while queue.front().is_some_and(|first| first.time.saturating_add(HIT_WAIT) <= now) {
                queue.pop_front().into_iter().for_each(|old| release(old.at));
            }
            !queue.is_empty()
        });
        // The chains is bounded.
        if self.queues.values().map(VecDeque::len).sum::<usize>() > MAX_HELD {
            self.queues.retain(|_, queue| {
                queue.retain(|waiting| chains.resolve(waiting.at).is_some());
                !queue.is_empty()
            });
        }
        // Requests that were never answered and have been given out.
        if self.asked_count > self.asked_limit.max(MAX_WAITING) {
            self.asked.retain(|_, asked| {
                asked.retain(|at| chains.resolve(*at).is_some());
                !asked.is_empty()
            });
            self.asked_count = self.asked.values().map(VecDeque::len).sum();
            // Not to look through the same ones each time.
            self.asked_limit = 2 * self.asked_count;
        }
    }

    /// Learns which circuit `thread` serves from a hit in it, if messages on one circuit only fit.
    /// Returns whether that is new.
    pub fn learn(&mut self, chains: &OpenChains, context: &Context, thread: ThreadId, hit: SpanRef) -> bool {
        let hit = Hit::of(chains, hit).filter(|_| self.circuit(thread).is_none());
        let Some(hit) = hit else { return false };
        let mut fitting = self.fitting(chains, context, thread, hit);
        let (Some(Fitting { circuit, .. }), None) = (fitting.next(), fitting.next()) else { return false };
        drop(fitting);
        self.bind(thread, circuit);
        true
    }

    /// Searches the message of a hit in `thread`. Those before it on the circuit will have no hits:
    /// `release` is called for them and for the message found. With `last` the earliest on any
    /// circuit that fits is taken.
    pub fn find(
        &mut self,
        chains: &OpenChains,
        context: &Context,
        thread: ThreadId,
        hit: SpanRef,
        last: bool,
        mut release: impl FnMut(SpanRef),
    ) -> Match {
        let Some(hit) = Hit::of(chains, hit) else { return Match::None };
        let found = match self.circuit(thread) {
            Some(circuit) => {
                let (named, valued) = self.place(chains, context, circuit, hit);
                named.or(valued).map(|place| (circuit, place))
            }
            None if last => {
                let first =
                    self.fitting(chains, context, thread, hit).min_by_key(|fits| (fits.time, fits.circuit));
                first.map(|first| (first.circuit, first.place))
            }
            None => None,
        };
        let Some((circuit, place)) = found else { return Match::None };
        let Some(queue) = self.queues.get_mut(&circuit) else { return Match::None };
        queue.drain(..place).for_each(|passed| release(passed.at));
        let Some(message) = queue.pop_front() else { return Match::None };
        release(message.at);
        let channel = chains.put(message.at).and_then(|put| put.packet.as_ref()).map(|packet| packet.channel);
        if let (Some(channel), Some(record)) = (channel, hit.put.record) {
            let name = context.channel(channel).map_or("", |channel| channel.pv.as_str());
            if !is_name_of(context, record, Pv::new(name).record) && self.records.len() < MAX_HELD {
                self.records.insert(channel, record);
            }
        }
        Match::Found(message.at)
    }

    /// The circuits, of those that no other thread serves, on which a message waits that fits the put.
    fn fitting<'a>(
        &'a self,
        chains: &'a OpenChains,
        context: &'a Context,
        thread: ThreadId,
        hit: Hit<'a>,
    ) -> impl Iterator<Item = Fitting> + 'a {
        let own = run::ioc_of_thread(context, thread);
        self.queues.iter().filter_map(move |(&circuit, queue)| {
            let at = context.circuit(circuit)?.server;
            // Whose the socket was is certain, where it is known.
            let server = context.circuit_ends(circuit).and_then(|ends| ends.server);
            let can_be = own.is_none_or(|ioc| match server {
                Some(server) => server == ioc.id,
                None => ioc.ca_ports.is_empty() || run::can_serve(ioc, at),
            });
            if self.threads.contains_key(&circuit) || !can_be {
                return None;
            }
            let place = self.place(chains, context, circuit, hit).0?;
            Some(Fitting { circuit, place, time: queue.get(place)?.time })
        })
    }

    /// The first message on the circuit that fits the put by the name of its channel too, and, if none does, by its
    /// value alone.
    fn place(
        &self,
        chains: &OpenChains,
        context: &Context,
        circuit: CircuitId,
        hit: Hit,
    ) -> (Option<usize>, Option<usize>) {
        let Some(queue) = self.queues.get(&circuit) else { return (None, None) };
        // where hits were lost the message is that of a moment ago rather than the first
        let ago = queue.partition_point(|waiting| waiting.time <= hit.time.saturating_add(CLOCK_ERROR));
        let recent = ago.saturating_sub(WINDOW).max(WINDOW)..ago;
        let mut valued = None;
        for place in (0..WINDOW.min(queue.len())).chain(recent) {
            let Some(message) = queue.get(place).filter(|message| !hit.differs(message)) else { continue };
            match self.fits(chains, context, message, hit) {
                Some(Fit::Named) => return (Some(place), valued),
                Some(Fit::Valued) => valued = valued.or(Some(place)),
                None => {}
            }
        }
        (None, valued)
    }

    /// Can `message` have made the put?
    fn fits(&self, chains: &OpenChains, context: &Context, message: &Waiting, hit: Hit) -> Option<Fit> {
        let message = chains.put(message.at)?;
        let packet = message.packet.as_ref()?;
        let put = hit.put;
        let kind = if packet.notify { PutKind::Notify } else { PutKind::PutField };
        // A `dbPut` alone is what is left of either when the hit around it was lost.
        if !(put.kind == Some(kind) || put.kind == Some(PutKind::Put)) {
            return None;
        }
        // dbProcessNotify carries no value; if no dbPut follows, nothing is known of it.
        let known = put.requested != Value::Unknown;
        if known && (message.count.max(1) != put.count.max(1) || !same_type(packet.dbr, put.dbf)) {
            return None;
        }
        let equal = match message.dbf {
            // The protocol's CHAR is unsigned, the IOC's is not.
            Dbf::UChar => value::same(&message.requested, &value::convert(&put.requested, Dbf::UChar)),
            _ => value::same(&message.requested, &put.requested),
        };
        if equal == Some(false) {
            return None;
        }
        let by_value = (equal == Some(true)).then_some(Fit::Valued);
        match self.names(context, packet.channel, put, matches!(packet.dbr, 35 | 36)) {
            Some(true) => Some(Fit::Named),
            // Named otherwise: an alias that is not in the log, if the value agrees.
            Some(false) => by_value,
            // Its channel was never named: the value has to do.
            None => by_value.map(|_| Fit::Named),
        }
    }

    /// Does the channel lead to the record and field of the put? `None` where its name was never seen.
    /// `acknowledged`: by a message that acknowledges an alarm.
    fn names(
        &self,
        context: &Context,
        channel: ChannelId,
        put: &PutSpan,
        acknowledged: bool,
    ) -> Option<bool> {
        let pv = context.channel(channel).map_or("", |channel| channel.pv.as_str());
        if let Some(known) = self.records.get(&channel) {
            return Some(put.record == Some(*known));
        }
        if pv.is_empty() {
            return None;
        }
        let pv = Pv::new(pv);
        let field = match (acknowledged, run::field_name(context, put.field)) {
            // It names a PV of the record, and is about the record's alarm.
            (true, Some("ACKS" | "ACKT")) | (_, None) => true,
            (_, Some(field)) => field == pv.field,
        };
        context.record(put.record?)?;
        Some(is_name_of(context, put.record?, pv.record) && field)
    }
}

/// Is this the record's name, or one of its other names?
fn is_name_of(context: &Context, record: RecordId, name: &str) -> bool {
    context.record(record).is_some_and(|record| record.name == name)
        || context.aliases(record).iter().any(|alias| **alias == *name)
}

/// Can a request of DBR type `dbr` be one of type `dbf` inside the IOC?
fn same_type(dbr: u16, dbf: Dbf) -> bool {
    match Dbr(dbr).put_element() {
        Some(Dbf::UChar) => matches!(dbf, Dbf::Char | Dbf::UChar),
        // DBR_PUT_ACKT and DBR_PUT_ACKS; an old recorder took their numbers for those of field types
        _ if Dbr(dbr) == Dbr::PUT_ACKT => matches!(dbf, Dbf::UShort | Dbf::Menu),
        _ if Dbr(dbr) == Dbr::PUT_ACKS => matches!(dbf, Dbf::UShort | Dbf::Device),
        // The protocol has one ENUM for what the IOC keeps as enum, menu or device.
        Some(Dbf::Enum) => matches!(dbf, Dbf::Enum | Dbf::Menu | Dbf::Device | Dbf::UShort),
        Some(own) => own == dbf,
        // The alarm and time forms of a type.
        None => true,
    }
}
