//! Matches puts on the network with puts inside the IOC.
//!
//! A put from a client is first seen as a message, and a little later (seconds later, if the server is busy) as a hit
//! in the thread that serves the client's circuit. Within a circuit both have the same order, since one thread carries
//! out all requests of one circuit. The recorder often knows which thread serves which circuit; otherwise it is learned
//! from the first put that fits only one circuit.

use super::chain::{Answer, PutSpan};
use super::numbered::Numbered;
use super::open_chains::{OpenChains, SpanRef};
use super::{run, value};
use crate::time::SECOND;
use epics::{eca, Dbr, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{ChannelId, CircuitId, Dbf, PutKind, RecordId, ThreadId, Value};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Longest wait of a message for its hit: a server that is busy for longer is stuck.
const HIT_WAIT: u64 = 10 * SECOND;
/// Longest wait of a hit for a message that was seen late, or for its thread's circuit to be learned.
const PACKET_WAIT: u64 = SECOND / 2;
/// Limit of waiting messages and of waiting hits; beyond it the oldest are dropped without their counterparts.
const MAX_WAITING: usize = 50_000;
/// Requests that may still be answered before those whose puts are gone are looked for.
const MAX_ASKED: usize = 10_000;
/// Messages waiting on all circuits, and threads, circuits and channels remembered; a bound for hostile logs.
const MAX_HELD: usize = 1_000_000;

/// Messages on a circuit that a hit is compared with: the first, the latest before it, and the first of the same value.
/// With more, a log that lost millions of hits takes for ever.
const WINDOW: usize = 256;
/// A message is captured before its hit, but by another clock (1 ms is generous).
const CLOCK_ERROR: u64 = SECOND / 1000;
/// A message that seems later than its hit by more than this is most likely another put's. It may still be the hit's own:
/// while the recorder's clock is being set, messages have the time at which they were read.
const LATE: u64 = SECOND / 40;

/// Hits checked for each message; if there are more, they wait for the next sweep.
const FEW: usize = 64;
/// Of so many more, the oldest, those of the thread that serves the message's circuit are checked: a bound for hostile logs.
const MANY: usize = 4096;
/// Of those, so many; likewise.
const MANY_OF_THREAD: usize = 512;

/// A waiting hit, and since when it waits.
#[derive(Clone, Copy, Debug)]
struct WaitingHit {
    thread: ThreadId,
    time: u64,
    at: SpanRef,
}

/// A waiting message, and since when it waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: u64,
    at: SpanRef,
    /// Its number on the circuit; later ones have higher numbers.
    number: u64,
    /// Fingerprint of its value, see [`print()`].
    print: Option<u64>,
}

/// The messages that wait on a circuit, in order of arrival.
#[derive(Default)]
struct Queue {
    messages: VecDeque<Waiting>,
    /// Number of the next message.
    next: u64,
    /// Fingerprints and numbers of messages. After thousands of hits were lost, it leads to the message of the next
    /// one. Holds some that no longer wait, at most as many as do.
    prints: BTreeSet<(u64, u64)>,
}

impl Queue {
    fn push(&mut self, time: u64, at: SpanRef, print: Option<u64>) {
        self.messages.push_back(Waiting { time, at, number: self.next, print });
        if let Some(print) = print {
            self.prints.insert((print, self.next));
        }
        self.next += 1;
        if self.prints.len() > 2 * self.messages.len() + WINDOW {
            let first = self.messages.front().map_or(self.next, |first| first.number);
            self.prints.retain(|(_, number)| *number >= first);
        }
    }

    /// Places of the first messages with this fingerprint.
    fn with_print(&self, print: u64) -> impl Iterator<Item = usize> + '_ {
        let first = self.messages.front().map_or(self.next, |first| first.number);
        let numbers = self.prints.range((print, first)..=(print, u64::MAX)).map(|(_, number)| *number);
        numbers.take(WINDOW).filter_map(|number| {
            let place = self.messages.partition_point(|message| message.number < number);
            self.messages.get(place).filter(|message| message.number == number).map(|_| place)
        })
    }
}

/// A hit to find the message of.
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

    /// Whether the values show that the message does not belong to the hit. A hit is compared with hundreds of
    /// messages, so this cheap check, which does not access the chains, comes first.
    fn differs(&self, message: &Waiting) -> bool {
        matches!((self.print, message.print), (Some(own), Some(other)) if own != other)
    }

    /// Whether a message of this time is most likely another put's. Before such a one is taken, its own hit is waited for.
    fn is_long_before(&self, message: u64) -> bool {
        self.time.saturating_add(LATE) < message
    }
}

/// A fingerprint of a value: if two values have different ones, [`value::same`] finds them different.
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
        // cut arrays, and those of one element, can equal values of other types
        Value::Array(_) | Value::Unknown => return None,
    };
    // One for both zeroes, and one for every NaN.
    let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
    Some(number.to_bits())
}

/// Whether a text begins with another. `None` if it is unknown.
fn begins(text: &Value, with: &Value) -> Option<bool> {
    match (text, with) {
        (Value::Text(text), Value::Text(with)) => Some(text.starts_with(with)),
        _ => value::same(text, with),
    }
}

/// The way in which a message fits a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// By the name of its channel, too.
    Named,
    /// By its value: the channel has another name, perhaps an alias that is not in the log.
    Valued,
}

/// A message that fits a hit: its circuit, its place in the queue, its time.
struct Fitting {
    circuit: CircuitId,
    place: usize,
    time: u64,
}

/// Puts that may still be answered under one key, in order: one of nearly all keys.
#[allow(clippy::box_collection)] // the others need no room for it
enum Asked {
    One(SpanRef),
    More(Box<VecDeque<SpanRef>>),
}

impl Asked {
    fn push(&mut self, at: SpanRef) {
        match self {
            Asked::One(first) => *self = Asked::More(Box::new(VecDeque::from([*first, at]))),
            Asked::More(all) => all.push_back(at),
        }
    }

    /// Drops those that are not open. Returns how many are left.
    fn retain_open(&mut self, chains: &OpenChains) -> usize {
        match self {
            Asked::One(at) => usize::from(chains.resolve(*at).is_some()),
            Asked::More(all) => {
                all.retain(|at| chains.resolve(*at).is_some());
                all.shrink_to_fit();
                all.len()
            }
        }
    }
}

/// Key of an answer: circuit, request id, with callback.
type Request = (CircuitId, u32, bool);

/// Knowledge of a run's circuits.
#[derive(Default)]
pub struct Packets {
    /// Puts waiting for their hits, in order of arrival.
    queues: Numbered<CircuitId, Queue>,
    /// The circuit that a thread serves, and the reverse.
    circuits: Numbered<ThreadId, CircuitId>,
    threads: Numbered<CircuitId, ThreadId>,
    /// Threads whose circuits were learned from a put, which may be wrong where a part of the log is missing.
    learned: HashSet<ThreadId>,
    /// Records of channels whose names don't identify them: aliases, and channels whose names were never seen.
    records: Numbered<ChannelId, RecordId>,
    /// Puts that may still be answered.
    asked: Numbered<Request, Asked>,
    /// Answers to come for numbers that several puts with callback had at once, of which none is known to be whose.
    owed: HashMap<Request, usize>,
    /// Number of puts in [`Packets::asked`], dead ones included, and the number at which dead ones are removed.
    asked_count: usize,
    asked_limit: usize,
    /// Hits that wait for their message.
    hits: VecDeque<WaitingHit>,
}

/// Result of the search for a hit's message.
#[derive(Clone, Copy, Debug)]
pub enum Match {
    /// This message.
    Found(SpanRef),
    /// No message fits, or several do.
    None,
}

impl Packets {
    /// Notes that a thread serves a circuit, and no other.
    pub fn bind(&mut self, thread: ThreadId, circuit: CircuitId) {
        if self.circuits.len() >= MAX_HELD || self.threads.len() >= MAX_HELD {
            return;
        }
        if let Some(former) = self.circuits.insert(thread, circuit).filter(|former| *former != circuit) {
            self.threads.remove(&former);
        }
        if let Some(former) = self.threads.insert(circuit, thread).filter(|former| *former != thread) {
            self.circuits.remove(&former);
            self.learned.remove(&former);
        }
        self.learned.remove(&thread);
    }

    /// Drops a closed circuit, and the messages that wait on it.
    pub fn forget(&mut self, circuit: CircuitId) {
        self.queues.remove(&circuit);
        if let Some(thread) = self.threads.remove(&circuit) {
            self.circuits.remove(&thread);
            self.learned.remove(&thread);
        }
    }

    /// The circuit that a thread serves, if known.
    pub fn circuit(&self, thread: ThreadId) -> Option<CircuitId> {
        self.circuits.get(&thread).copied()
    }

    /// Takes a message; `at` is the put that it made, which it holds. Returns a put that has waited too long.
    pub fn push(&mut self, chains: &OpenChains, time: u64, at: SpanRef, request: Request) -> Option<SpanRef> {
        let queue = self.queues.entry(request.0).or_default();
        let message = chains.put(at);
        // The protocol's CHAR is converted before it is compared, and a text without its end is a part.
        let is_whole =
            |put: &&PutSpan| !put.packet.as_ref().is_some_and(|packet| packet.is_endless || packet.is_part);
        let print = message.filter(|put| put.dbf != Dbf::UChar).filter(is_whole);
        let print = print.and_then(|put| self::print(&put.requested));
        queue.push(time, at, print);
        self.asked.entry(request).and_modify(|asked| asked.push(at)).or_insert(Asked::One(at));
        self.asked_count += 1;
        if queue.messages.len() > MAX_WAITING {
            return queue.messages.pop_front().map(|old| old.at);
        }
        None
    }

    /// Takes an answer for a put with callback if others wait with the same number: servers answer puts to several channels
    /// in any order. Returns those that wait.
    pub fn take_doubtful(&mut self, chains: &OpenChains, request: Request) -> Vec<SpanRef> {
        let owed = self.owed.remove(&request).unwrap_or_default();
        let open = |at: &SpanRef| chains.put(*at).is_some();
        let waiting = match self.asked.get_mut(&request) {
            Some(Asked::More(all)) => {
                all.retain(open);
                all.len()
            }
            Some(Asked::One(_)) => 1,
            None => 0,
        };
        if owed + waiting <= 1 {
            return Vec::new();
        }
        if self.owed.len() >= MAX_ASKED {
            self.owed.clear();
        }
        self.owed.insert(request, owed + waiting - 1);
        match self.asked.remove(&request) {
            Some(Asked::More(all)) => all.into_iter().collect(),
            Some(Asked::One(at)) => vec![at],
            None => Vec::new(),
        }
    }

    /// The puts without callback of which one was refused, if it is not known which: RSRV repeats the number alone, which
    /// clients use for all puts to a channel. Access is refused to all of a channel.
    pub fn any_refused(&self, chains: &OpenChains, request: Request, status: u32) -> Vec<SpanRef> {
        let Some(Asked::More(all)) = self.asked.get(&request) else { return Vec::new() };
        let open = |at: &&SpanRef| chains.put(**at).is_some();
        let open: Vec<SpanRef> = all.iter().filter(open).copied().collect();
        let channel = |at: &SpanRef| chains.put(*at).and_then(|put| Some(put.packet.as_ref()?.channel));
        let first = open.first().and_then(channel);
        let is_of_one = open.iter().all(|at| channel(at) == first);
        // and what is too large is the latest: it is refused while it comes
        let is_known = status == eca::NOWTACCESS || status == eca::TOLARGE;
        if open.len() <= 1 || is_known && is_of_one {
            return Vec::new();
        }
        open
    }

    /// Takes an answer. Returns the put that it answers.
    pub fn answer(&mut self, chains: &mut OpenChains, request: Request, answer: Answer) -> Option<SpanRef> {
        // Ids of puts with callback are unique while they are open. Other ids are not (libca sends the channel's id),
        // and few of these puts are answered: most likely the latest.
        let at = loop {
            let at = match self.asked.get_mut(&request)? {
                Asked::One(at) => {
                    let at = *at;
                    self.asked.remove(&request);
                    at
                }
                Asked::More(all) => match if request.2 { all.pop_front() } else { all.pop_back() } {
                    Some(at) => at,
                    None => {
                        self.asked.remove(&request);
                        return None;
                    }
                },
            };
            self.asked_count = self.asked_count.saturating_sub(1);
            if chains.put(at).is_some() {
                break at;
            }
        };
        chains.put_mut(at)?.packet.as_mut()?.answer = Some(answer);
        Some(at)
    }

    /// Drops a put that will have no hit (it was denied). Returns whether it was waiting for one.
    pub fn give_up(&mut self, circuit: CircuitId, at: SpanRef) -> bool {
        let Some(Queue { messages: queue, .. }) = self.queues.get_mut(&circuit) else { return false };
        // It was sent a moment ago, so it is among the last.
        let place = queue.iter().rposition(|waiting| waiting.at.chain == at.chain);
        place.is_some_and(|place| queue.remove(place).is_some())
    }

    /// Lets a hit wait for its message.
    pub fn wait(&mut self, thread: ThreadId, time: u64, at: SpanRef) {
        if self.hits.len() == MAX_WAITING {
            self.hits.pop_front();
        }
        self.hits.push_back(WaitingHit { thread, time, at });
    }

    /// Takes the hits of a thread that wait for a message.
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

    /// Takes the hits to try again: those that have waited long enough (`true`), for the last time; of the others,
    /// those of threads whose circuit is known, and the latest few of each other thread. `last`: all of them, for the
    /// last time.
    pub fn take_hits(&mut self, now: u64, last: bool) -> Vec<(ThreadId, u64, SpanRef, bool)> {
        let mut tries: Numbered<ThreadId, usize> = Numbered::default();
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

    /// Takes the hits that the latest message on a circuit may belong to. If more than a few hits wait, only the first of the
    /// thread that serves the circuit, if that is known: the next sweep checks the others.
    pub fn take_hits_for(
        &mut self,
        chains: &OpenChains,
        context: &Context,
        circuit: CircuitId,
    ) -> Vec<(ThreadId, u64, SpanRef)> {
        let message = self.queues.get(&circuit).and_then(|queue| queue.messages.back()).copied();
        let Some(message) = message.filter(|_| self.has_hits()) else { return Vec::new() };
        if self.hits.len() > FEW {
            return self.take_own_hit(chains, context, circuit, &message).into_iter().collect();
        }
        let may_fit = |waiting: &WaitingHit| {
            let possible = |hit: &Hit| match self.circuits.get(&waiting.thread) {
                Some(own) => *own == circuit,
                None => !self.threads.contains_key(&circuit) && !hit.is_long_before(message.time),
            };
            let hit = Hit::of(chains, waiting.at).filter(possible);
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

    /// Takes the first waiting hit that this message fits, of the thread that serves the circuit. The message may be the copy of
    /// a packet that was lost, where many were: it comes long after its hit, and the thread's next hit would pass it over.
    fn take_own_hit(
        &mut self,
        chains: &OpenChains,
        context: &Context,
        circuit: CircuitId,
        message: &Waiting,
    ) -> Option<(ThreadId, u64, SpanRef)> {
        let own = *self.threads.get(&circuit)?;
        let fits = |waiting: &WaitingHit| {
            let hit = Hit::of(chains, waiting.at).filter(|hit| !hit.differs(message));
            hit.is_some_and(|hit| self.fits(chains, context, message, hit) == Some(Fit::Named))
        };
        let of_thread = self.hits.iter().enumerate().take(MANY).filter(|(_, waiting)| waiting.thread == own);
        let place =
            of_thread.take(MANY_OF_THREAD).find(|(_, waiting)| fits(waiting)).map(|(place, _)| place)?;
        self.hits.remove(place).map(|hit| (hit.thread, hit.time, hit.at))
    }

    /// Whether any hit waits.
    pub fn has_hits(&self) -> bool {
        !self.hits.is_empty()
    }

    /// Drops messages that have waited long enough for a hit.
    pub fn expire(&mut self, chains: &OpenChains, now: u64, mut release: impl FnMut(SpanRef)) {
        self.queues.retain(|_, Queue { messages: queue, .. }| {
            // Chains given out early are the oldest. Their messages fit nothing any more.
            let is_over = |first: &Waiting| {
                first.time.saturating_add(HIT_WAIT) <= now || chains.resolve(first.at).is_none()
            };
            while queue.front().is_some_and(is_over) {
                queue.pop_front().into_iter().for_each(|old| release(old.at));
            }
            !queue.is_empty()
        });
        // The number of open chains is bounded.
        if self.queues.values().map(|queue| queue.messages.len()).sum::<usize>() > MAX_HELD {
            self.queues.retain(|_, Queue { messages: queue, .. }| {
                queue.retain(|waiting| chains.resolve(waiting.at).is_some());
                !queue.is_empty()
            });
        }
        // Requests that were never answered and whose chains have been given out.
        if self.asked_count > self.asked_limit.max(MAX_ASKED) {
            let mut open = 0;
            self.asked.retain(|_, asked| {
                let count = asked.retain_open(chains);
                open += count;
                count > 0
            });
            self.asked_count = open;
            // So as not to search the same ones each time.
            self.asked_limit = open + open / 2;
        }
    }

    /// Learns which circuit `thread` serves from a hit in it, if messages on only one circuit fit, and the first of them is
    /// not long after the hit. Returns whether that is new.
    pub fn learn(&mut self, chains: &OpenChains, context: &Context, thread: ThreadId, hit: SpanRef) -> bool {
        let hit = Hit::of(chains, hit).filter(|_| self.circuit(thread).is_none());
        let Some(hit) = hit else { return false };
        let mut fitting = self.fitting(chains, context, thread, hit);
        let (Some(Fitting { circuit, time, .. }), None) = (fitting.next(), fitting.next()) else {
            return false;
        };
        drop(fitting);
        if hit.is_long_before(time) {
            return false;
        }
        self.bind(thread, circuit);
        self.learned.insert(thread);
        true
    }

    /// Learns anew which circuit `thread` serves, if that was learned from a put which must have been another's: no message on
    /// it fits this hit, and one on only one other circuit does.
    fn learn_better(&mut self, chains: &OpenChains, context: &Context, thread: ThreadId, hit: Hit) {
        if !self.learned.contains(&thread) {
            return;
        }
        let mut fitting = self.fitting(chains, context, thread, hit);
        let (Some(Fitting { circuit, time, .. }), None) = (fitting.next(), fitting.next()) else { return };
        drop(fitting);
        if hit.is_long_before(time) {
            return;
        }
        self.bind(thread, circuit);
        self.learned.insert(thread);
    }

    /// Finds the message of a hit in `thread`. Messages before it on the circuit will have no hits: calls `release` for
    /// them and for the message found. With `last`, takes the earliest message on any circuit that fits.
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
        let on = |packets: &Packets, circuit| {
            let (named, valued) = packets.place(chains, context, circuit, hit);
            named.or(valued).map(|place| (circuit, place))
        };
        let found = match self.circuit(thread) {
            Some(circuit) => match on(self, circuit) {
                None if last => {
                    self.learn_better(chains, context, thread, hit);
                    self.circuit(thread)
                        .filter(|better| *better != circuit)
                        .and_then(|better| on(self, better))
                }
                found => found,
            },
            None if last => {
                let first =
                    self.fitting(chains, context, thread, hit).min_by_key(|fits| (fits.time, fits.circuit));
                first.map(|first| (first.circuit, first.place))
            }
            None => None,
        };
        let Some((circuit, place)) = found else { return Match::None };
        let Some(Queue { messages: queue, .. }) = self.queues.get_mut(&circuit) else { return Match::None };
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

    /// The circuits, of those that no other thread serves, with a waiting message that fits the put.
    fn fitting<'a>(
        &'a self,
        chains: &'a OpenChains,
        context: &'a Context,
        thread: ThreadId,
        hit: Hit<'a>,
    ) -> impl Iterator<Item = Fitting> + 'a {
        let own = run::ioc_of_thread(context, thread);
        self.queues.iter().filter_map(move |(&circuit, queue)| {
            // its definition may be in a part that is missing
            let at = context.circuit(circuit).map(|circuit| circuit.server);
            // If the owner of the socket is known, it is certain.
            let server = context.circuit_ends(circuit).and_then(|ends| ends.server);
            let can_be = own.is_none_or(|ioc| match server {
                Some(server) => server == ioc.id,
                None => at.is_none_or(|at| ioc.ca_ports.is_empty() || run::can_serve(ioc, at)),
            });
            if self.threads.contains_key(&circuit) || !can_be {
                return None;
            }
            let place = self.place(chains, context, circuit, hit).0?;
            Some(Fitting { circuit, place, time: queue.messages.get(place)?.time })
        })
    }

    /// The first message on the circuit that fits the put by the name of its channel, too; if none does, by its value
    /// alone.
    fn place(
        &self,
        chains: &OpenChains,
        context: &Context,
        circuit: CircuitId,
        hit: Hit,
    ) -> (Option<usize>, Option<usize>) {
        let Some(waiting) = self.queues.get(&circuit) else { return (None, None) };
        let queue = &waiting.messages;
        // if hits were lost, the message is a recent one rather than the first
        let ago = queue.partition_point(|waiting| waiting.time <= hit.time.saturating_add(CLOCK_ERROR));
        let recent = ago.saturating_sub(WINDOW).max(WINDOW)..ago;
        let alike = hit.print.into_iter().flat_map(|print| waiting.with_print(print));
        let alike = alike.take_while(|place| *place < ago);
        let attached = attached(context, hit);
        // the hit of a message from before the IOC was attached was most likely not seen: it counts only if no later one fits
        let (mut unseen, mut valued) = (None, None);
        for place in (0..WINDOW.min(queue.len())).chain(recent).chain(alike) {
            let Some(message) = queue.get(place).filter(|message| !hit.differs(message)) else { continue };
            let is_unseen = message.time < attached;
            if is_unseen && message.time.saturating_add(PACKET_WAIT) < hit.time {
                continue;
            }
            match self.fits(chains, context, message, hit) {
                Some(Fit::Named) if is_unseen => unseen = unseen.max(Some(place)),
                // what was sent later than the hit is captured late at best
                Some(Fit::Named) if place >= ago && unseen.is_some() => return (unseen, valued),
                Some(Fit::Named) => return (Some(place), valued),
                // an alias that is not in the log; what was sent later is a put to another PV
                Some(Fit::Valued) if place < ago => valued = valued.or(Some(place)),
                Some(Fit::Valued) | None => {}
            }
        }
        (unseen, valued)
    }

    /// Whether `message` can have made the put, and how it fits.
    fn fits(&self, chains: &OpenChains, context: &Context, message: &Waiting, hit: Hit) -> Option<Fit> {
        let message = chains.put(message.at)?;
        let packet = message.packet.as_ref()?;
        let put = hit.put;
        // the server answers once it has put
        let is_over = |answer: &Answer| answer.time.saturating_add(CLOCK_ERROR) < hit.time;
        if packet.notify && packet.answer.as_ref().is_some_and(is_over) {
            return None;
        }
        let kind = if packet.notify { PutKind::Notify } else { PutKind::PutField };
        // A lone `dbPut` is what remains of either if the hit around it was lost.
        if !(put.kind == Some(kind) || put.kind == Some(PutKind::Put)) {
            return None;
        }
        // dbProcessNotify carries no value; without a following dbPut the value is unknown.
        let known = put.requested != Value::Unknown;
        if known && (message.count.max(1) != put.count.max(1) || !same_type(packet.dbr, put.dbf)) {
            return None;
        }
        let equal = match message.dbf {
            // The protocol's CHAR is unsigned, the IOC's is signed.
            Dbf::UChar => value::same(&message.requested, &value::convert(&put.requested, Dbf::UChar)),
            Dbf::String if packet.is_endless || packet.is_part => begins(&put.requested, &message.requested),
            _ => value::same(&message.requested, &put.requested),
        };
        if equal == Some(false) {
            return None;
        }
        let by_value = (equal == Some(true)).then_some(Fit::Valued);
        match self.names(context, packet.channel, put, matches!(packet.dbr, 35 | 36)) {
            Some(true) => Some(Fit::Named),
            // Another name: an alias that is not in the log, if the value agrees.
            Some(false) => by_value,
            // The channel's name was never seen: the value must suffice.
            None => by_value.map(|_| Fit::Named),
        }
    }

    /// Whether the channel leads to the record and field of the put. `None` if its name was never seen. `acknowledged`:
    /// by a message that acknowledges an alarm.
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
            // It names a PV of the record and concerns the record's alarm.
            (true, Some("ACKS" | "ACKT")) | (_, None) => true,
            (_, Some(field)) => field == pv.field,
        };
        context.record(put.record?)?;
        Some(is_name_of(context, put.record?, pv.record) && field)
    }
}

/// Whether this is the record's name or one of its aliases.
fn is_name_of(context: &Context, record: RecordId, name: &str) -> bool {
    context.record(record).is_some_and(|record| record.name == name)
        || context.aliases(record).iter().any(|alias| **alias == *name)
}

/// Monotonic time from which on the hits of a hit's IOC are recorded; 0 if that is not known.
fn attached(context: &Context, hit: Hit) -> u64 {
    let ioc = hit.put.record.and_then(|record| context.record(record)).map(|record| record.ioc);
    ioc.and_then(|ioc| context.attached(ioc)).map_or(0, |attached| attached.since)
}

/// Whether a request of DBR type `dbr` can have type `dbf` inside the IOC.
fn same_type(dbr: u16, dbf: Dbf) -> bool {
    match Dbr(dbr).put_element() {
        Some(Dbf::UChar) => matches!(dbf, Dbf::Char | Dbf::UChar),
        // DBR_PUT_ACKT and DBR_PUT_ACKS; an old recorder took their numbers for field types
        _ if Dbr(dbr) == Dbr::PUT_ACKT => matches!(dbf, Dbf::UShort | Dbf::Menu),
        _ if Dbr(dbr) == Dbr::PUT_ACKS => matches!(dbf, Dbf::UShort | Dbf::Device),
        // The protocol has one ENUM for the IOC's enum, menu and device types.
        Some(Dbf::Enum) => matches!(dbf, Dbf::Enum | Dbf::Menu | Dbf::Device | Dbf::UShort),
        Some(own) => own == dbf,
        // The types with status, time or limits.
        None => true,
    }
}
