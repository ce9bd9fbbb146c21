//! The chains of all runs, in order of time and joined across CA links.
//!
//! A CA link that writes makes a put in the target's IOC, be it the same IOC, another one on the host, or one on
//! another host. Nothing in Channel Access joins the two, so they are joined only if they fit and nothing else does:
//! the same PV, a value that can have become the other, in order and within `LINK_WAIT`, no other client's circuit, and no
//! other link's put that could have become it, or an earlier one that this link can have made as well. A chain is given out when all puts that its links can have made are known, and all chains that
//! began earlier have ended. Until then it is held: up to `MAX_HELD` spans; beyond that the earliest chain is given
//! out, and chains that began before it come late.

use super::caller::{self, Role};
use super::chain::{Chain, LinkSpan, PutSpan, Span, SpanKind};
use super::numbered::Keyed;
use super::peers::{self, Ends, Peers, Place};
use super::{run, value};
use epics::pv::{link_target, Pv};
use foldhash::fast::RandomState;
use iocrec_log::event::{IocId, RecordId, SocketHolder};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::rc::Rc;

mod rivals;
mod sent;
use rivals::{Rival, Rivals};
use sent::{Sent, Track};

const SECOND: i64 = crate::time::SECOND as i64;
/// Longest time that a link's put takes to reach its target.
const LINK_WAIT: i64 = SECOND;
/// Largest difference between the clocks of two hosts, apart from what circuits that both saw beginning show ([`Peers`]).
/// NTP on a control network keeps to milliseconds.
const HOST_SKEW: i64 = SECOND / 10;
/// Limit of disorder among times on one host: hits and packets are timed in different places of the kernel.
pub const OWN_SKEW: i64 = SECOND / 1000;
/// Puts to one PV that are searched for a copy of another: more than a client can make in [`HOST_SKEW`] if it waits for
/// each, few enough for a flood of them.
const MAX_COPIES: usize = 1000;
/// Puts that a link can have made, and later puts of the link, that are checked for each put of a link: more than are
/// under way at a time, few enough for a flood of them.
const MAX_UNDER_WAY: usize = 256;
/// Links to one PV that are distinguished.
const MAX_SENDERS: usize = 16;
/// Limit of the spans held, a chain itself counted as one, about 35 MB; also of the links' puts that are remembered. A
/// record that takes half a minute to complete holds up 300,000 where 10,000 are processed per second one by one in
/// long chains.
const MAX_HELD: usize = 300_000;
/// Spans that may be held however small the logs are, and for each MiB of them: a small log has no chains that long.
const HELD: u64 = 120_000;
const HELD_PER_MIB: u64 = 6_250;
/// Links' puts from which on old ones are forgotten more often: a record that feeds itself makes 100,000 a second.
const MANY_SENT: usize = 20_000;
/// Stands for the namespace of a circuit where another log does not tell it.
const ANY: u64 = u64::MAX;
/// Depth to which links are followed: IOCs can write to each other in circles for ever.
const MAX_DEPTH: usize = 8;

/// Place of a chain in the order of time: wall clock; for equal times, which the messages of one packet have, the order
/// in which its run saw them; and a number that makes the key unique.
type Key = (i64, u64, u64);
/// Record and field, as a number: each put asks for it several times, and two texts each time were most of what it cost to
/// put in order. It depends on a number that each process draws for itself, so no log can choose names of which it is the
/// same; what is joined is compared by the names themselves.
type Target = u64;

/// Owner of a link: run (as an address, only compared), record.
type LinkOf = (usize, u32);
/// A record of a run (as an address, only compared).
type RecordOf = (usize, RecordId);

/// Puts through the links to one target, link by link.
type Senders = HashMap<LinkOf, Track>;

/// Plain chains that a chain may come after although it began before them, and still be put among them.
const OVERTAKEN: usize = 16;

/// A chain that is held.
struct Held {
    chain: Chain,
    weight: usize,
}

/// Holds chains until they can be given out.
pub struct Order {
    /// Chains that anything can be in the way of: that have a put or a CA link.
    /// Boxed: what comes in order leaves half of a tree's places free.
    chains: BTreeMap<Key, Box<Held>>,
    /// Most of the others, in order.
    plain: VecDeque<(Key, Held)>,
    /// The rest of them, which came late.
    late_plain: BTreeMap<Key, Held>,
    count: u64,
    /// Weight of `chains`, and its limit.
    held: usize,
    most: usize,
    /// The latest start of a chain that was given out before it was due, and the number of chains that came late
    /// because of it.
    gone: i64,
    late: u64,
    /// Puts that are roots of held chains, for each record in the order in which they were carried out (monotonic time
    /// of the run, a number for equal times).
    written: BTreeMap<(RecordOf, (u64, u64)), Key>,
    /// Puts that a link can have made: the roots of held chains, and the number that was requested, if it was one, else not a
    /// number. A link that feeds its own record has hundreds under way, most of which the number rules out.
    puts: Keyed<Target, BTreeMap<Key, f64>>,
    /// Makes numbers of their records and fields.
    targets: RandomState,
    /// Whether they are noted: not before the first link, or a second run, which may hold copies.
    notes_puts: bool,
    /// Links' puts in all chains that are held or were given out less than [`LINK_WAIT`] ago.
    sent: Keyed<Target, Senders>,
    sent_count: usize,
    /// The most of them that are remembered, and the latest time of those that were forgotten because there were more.
    most_sent: usize,
    forgot: i64,
    /// When old entries of `sent` were last removed.
    cleared: i64,
    /// Circuits learned to belong to an IOC's links; each once more with [`ANY`] namespace.
    link_circuits: HashSet<Ends>,
    /// Runs that chains have come from, as addresses, and the number of each among all that are read.
    runs: HashMap<usize, Option<usize>>,
    /// What is known of their clocks, if there are several; and their largest difference.
    peers: Option<Rc<Peers>>,
    most_ahead: i64,
    /// Whether another host's log may hold a copy of a put.
    has_copies: bool,
    /// The latest of them.
    latest_run: usize,
}

/// For logs of any size.
impl Default for Order {
    fn default() -> Self {
        Order::holding(MAX_HELD)
    }
}

impl Order {
    /// For logs of this size in bytes.
    pub fn of_logs(bytes: u64) -> Self {
        let most = (bytes >> 20).saturating_mul(HELD_PER_MIB).saturating_add(HELD);
        Order::holding(usize::try_from(most).unwrap_or(MAX_HELD).min(MAX_HELD))
    }

    /// Holds at most `most` spans.
    pub fn holding(most: usize) -> Self {
        Order {
            chains: BTreeMap::new(),
            plain: VecDeque::new(),
            late_plain: BTreeMap::new(),
            count: 0,
            held: 0,
            most,
            gone: i64::MIN,
            late: 0,
            written: BTreeMap::new(),
            puts: Keyed::default(),
            targets: RandomState::default(),
            notes_puts: false,
            sent: Keyed::default(),
            sent_count: 0,
            most_sent: MAX_HELD,
            forgot: i64::MIN,
            cleared: 0,
            link_circuits: HashSet::new(),
            runs: HashMap::new(),
            peers: None,
            most_ahead: 0,
            has_copies: true,
            latest_run: 0,
        }
    }

    /// Remembers at most this many of the links' puts.
    pub fn remembering(self, most_sent: usize) -> Self {
        Order { most_sent, ..self }
    }

    /// For so many runs: in the only one no put waits for its copy. In 0.1 s a flood makes 10,000 of them.
    pub fn of_runs(self, count: usize) -> Self {
        Order { has_copies: count > 1, ..self }
    }

    /// Number of chains given out after others that began later.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Start of the earliest chain that is held (wall-clock time).
    pub fn earliest(&self) -> Option<i64> {
        self.first().map(|key| key.0)
    }

    fn first(&self) -> Option<Key> {
        let chain = self.chains.first_key_value().map(|(key, _)| *key);
        chain.into_iter().chain(self.first_plain()).min()
    }

    fn first_plain(&self) -> Option<Key> {
        let late = self.late_plain.first_key_value().map(|(key, _)| *key);
        self.plain.front().map(|(key, _)| *key).into_iter().chain(late).min()
    }

    /// Takes a chain that has ended.
    pub fn insert(&mut self, chain: Chain) {
        let Some(root) = chain.root() else { return };
        let key = (chain.run.even(root.start), chain.serial, self.count);
        self.count += 1;
        if self.latest_run != address(&chain) {
            self.latest_run = address(&chain);
            self.meet(&chain);
        }
        let has_links = || chain.spans.iter().any(|span| matches!(span.kind, SpanKind::Link(_)));
        if !self.notes_puts && (self.runs.len() > 1 || has_links()) {
            self.notes_puts = true;
            for (key, held) in &self.chains {
                note_put(&mut self.puts, &self.targets, *key, &held.chain);
            }
        }
        if self.notes_puts {
            note_put(&mut self.puts, &self.targets, key, &chain);
        }
        for span in &chain.spans {
            if let SpanKind::Link(link) = &span.kind {
                let of = (address(&chain), link.record.unwrap_or(u32::MAX));
                let time = chain.run.even(span.start);
                let sent = Sent { time, chain: key, value: link.value.clone().into() };
                self.sent_count += 1;
                let target = link_key(&self.targets, link);
                let new = || Track::of(whose(&self.targets, &chain, link.record).unwrap_or(0));
                self.sent.entry(target).or_default().entry(of).or_insert_with(new).insert(sent);
            }
        }
        if self.sent_count > self.most_sent {
            self.forget_sent();
        }
        self.hold(key, chain);
    }

    /// Forgets what links have sent: there is more of it than any IOC sends. Who else can have made a put of that time is not
    /// known any more.
    fn forget_sent(&mut self) {
        let last = self.sent.values().flat_map(HashMap::values).filter_map(Track::latest);
        self.forgot = last.max().unwrap_or(i64::MIN).max(self.forgot);
        self.sent.clear();
        self.sent_count = 0;
    }

    /// Notes the run of a chain.
    fn meet(&mut self, chain: &Chain) {
        if self.runs.contains_key(&address(chain)) {
            return;
        }
        let known = chain.run.peers();
        self.runs.insert(address(chain), known.as_ref().map(|(_, number)| *number));
        // known from the first chain on: it is held for as long as a clock may be ahead
        if let Some((peers, _)) = known.filter(|_| self.peers.is_none()) {
            self.most_ahead = peers.most_ahead();
            self.peers = Some(peers);
        }
    }

    /// How far the clock of one run (as an address) is ahead of another's, nanoseconds.
    fn ahead(&self, of: usize, before: usize) -> i64 {
        if of == before || self.most_ahead == 0 {
            return 0;
        }
        let number = |run| self.runs.get(&run).copied().flatten();
        match (&self.peers, number(of), number(before)) {
            (Some(peers), Some(of), Some(before)) => peers.ahead(of, before),
            _ => 0,
        }
    }

    /// The different values of that, for all runs before this one.
    fn differences(&self, before: usize) -> Vec<i64> {
        if self.most_ahead == 0 {
            return vec![0];
        }
        let mut all: Vec<i64> = self.runs.keys().map(|of| self.ahead(*of, before)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn hold(&mut self, key: Key, chain: Chain) {
        if let Some(weight) = plain_weight(&chain) {
            self.held += weight;
            return self.hold_plain(key, Held { chain, weight });
        }
        let weight = weight(&chain, 0);
        self.held += weight;
        if let Some((record, at)) = written(key, &chain) {
            self.written.insert((record, at), key);
        }
        self.chains.insert(key, Box::new(Held { chain, weight }));
    }

    fn hold_plain(&mut self, key: Key, held: Held) {
        let after = self.plain.iter().rev().take(OVERTAKEN).take_while(|(other, _)| *other > key).count();
        match self.plain.len() - after {
            place if after < OVERTAKEN || place == 0 => self.plain.insert(place, (key, held)),
            _ => _ = self.late_plain.insert(key, held),
        }
    }

    fn take_plain(&mut self, key: Key) -> Option<Held> {
        match self.plain.front() {
            Some((first, _)) if *first == key => self.plain.pop_front().map(|(_, held)| held),
            _ => self.late_plain.remove(&key),
        }
    }

    /// Moves the chains that began before `until` to `ready`; no more of these will come.
    pub fn release(&mut self, until: i64, ready: &mut VecDeque<Chain>) {
        self.release_each(until, &mut |_, chain| ready.push_back(chain));
    }

    /// Gives out the same chains, each with the start of the earliest one that is held then: what was carried out first goes
    /// before chains that began earlier.
    pub fn release_each(&mut self, until: i64, give: &mut impl FnMut(i64, Chain)) {
        while let Some(first) = self.first() {
            let full = self.held > self.most;
            let due = first.0 < until;
            if self.chains.first_key_value().is_none_or(|(key, _)| *key != first) {
                if !due && !full {
                    break;
                }
                let Some(Held { chain, weight }) = self.take_plain(first) else { break };
                self.held = self.held.saturating_sub(weight);
                self.note_given_out(first, due);
                give(first.0, chain);
                continue;
            }
            let Some(chain) = self.chains.get(&first).map(|held| &held.chain) else { break };
            let key = self.leader(first, chain).or_else(|| self.before(first, chain)).unwrap_or(first);
            let waits = self.chains.get(&key).map_or(i64::MIN, |held| self.waits_until(&held.chain, 0));
            let due = due && waits < until;
            if !due && !full {
                break;
            }
            let Some(mut chain) = self.take(key) else { break };
            self.resolve(&mut chain, 0);
            // The chain that a link led to may have links of its own.
            let due = due && self.waits_until(&chain, 0) < until;
            if !due && !full {
                self.hold(key, chain);
                break;
            }
            self.note_given_out(key, due);
            let (is_copy, other) = self.copies(key, &chain);
            // without a hit of its own: one that saw its group's members tells more, or that knows the server
            match other.filter(|(_, other)| tells(other) > tells(&chain)) {
                _ if is_copy => {}
                // in its turn, when the puts of its links are known
                Some((key, other)) => self.hold(key, other),
                None => give(first.0, chain),
            }
        }
        let pause = if self.sent_count > MANY_SENT { LINK_WAIT / 4 } else { LINK_WAIT };
        if until.saturating_sub(pause) > self.cleared {
            self.cleared = until;
            // No chain that comes or is held began earlier. What its links sent went out later, and the puts that they can
            // have made came at most [`HOST_SKEW`] earlier by any clock; what other links sent can be as much older.
            let oldest = self.first().map_or(until, |key| key.0.min(until));
            let ahead = self.most_ahead.saturating_mul(2);
            let keep = oldest.saturating_sub(ahead.saturating_add(LINK_WAIT + 2 * HOST_SKEW));
            self.sent.retain(|_, senders| {
                senders.retain(|_, sent| {
                    sent.forget_before(keep);
                    !sent.is_empty()
                });
                !senders.is_empty()
            });
            self.sent_count = self.sent.values().flat_map(HashMap::values).map(Track::len).sum();
        }
    }

    /// Notes that a chain is given out, and whether all that began earlier have been.
    fn note_given_out(&mut self, key: Key, due: bool) {
        self.late += u64::from(key.0 < self.gone);
        if !due {
            self.gone = self.gone.max(key.0);
        }
    }

    /// Wall-clock time until which puts may arrive that the chain's links made, or that were carried out before its own.
    fn waits_until(&self, chain: &Chain, depth: usize) -> i64 {
        let written = chain.root().and_then(|root| match &root.kind {
            SpanKind::Put(put) => Some(chain.run.even(put.written?).saturating_add(1)),
            _ => None,
        });
        // The same put may be in another host's log.
        let may_be_copied = self.has_copies && ends(chain).is_some();
        let copies = chain
            .root()
            .filter(|_| may_be_copied)
            .map(|root| chain.run.even(root.start).saturating_add(HOST_SKEW).saturating_add(self.most_ahead));
        let links = chain.spans.iter().filter_map(|span| match &span.kind {
            SpanKind::Link(link) => Some((span.start, link)),
            _ => None,
        });
        let links = links.map(|(start, link)| match &link.target {
            Some(target) if depth < MAX_DEPTH => self.waits_until(target, depth + 1),
            _ if link.resolved => i64::MIN,
            _ => chain.run.even(start).saturating_add(LINK_WAIT).saturating_add(self.most_ahead),
        });
        links.chain(copies).chain(written).max().unwrap_or(i64::MIN)
    }

    /// A chain whose link made this put, although by its host's clock it began later.
    fn leader(&self, key: Key, chain: &Chain) -> Option<Key> {
        let latest = key.0.saturating_add(HOST_SKEW).saturating_add(self.most_ahead);
        if self.sent.is_empty() {
            return None;
        }
        let own = address(chain);
        let others = self.sent.get(&put_target(&self.targets, chain)?)?.iter().filter(|(of, _)| of.0 != own);
        let later = others.flat_map(|(of, sent)| {
            let by_its_clock = key.0.saturating_sub(self.ahead(own, of.0));
            let can_be = by_its_clock.saturating_sub(LINK_WAIT)..=by_its_clock.saturating_add(HOST_SKEW);
            let sent = sent.since(key.0.saturating_add(1)).take_while(move |sent| sent.time <= latest);
            sent.take(MAX_UNDER_WAY).filter(move |sent| can_be.contains(&sent.time))
        });
        let held = later.filter(|sent| self.chains.contains_key(&sent.chain));
        // of equal times, that of the chain that was inserted first
        held.min_by_key(|sent| (sent.time, sent.chain.2)).map(|sent| sent.chain)
    }

    /// A chain that begins with a put to the same record, requested later and carried out earlier: one client's request
    /// may wait while another's is carried out.
    fn before(&self, key: Key, chain: &Chain) -> Option<Key> {
        let (record, at) = written(key, chain)?;
        let mut earlier = self.written.range((record, (0, 0))..(record, at));
        earlier.next().map(|(_, of)| *of)
    }

    /// Whether there is an account of this put that shows what it did, as it does not: the recorders on both ends of a
    /// circuit see the same message. If there is none, takes another one of it.
    fn copies(&mut self, key: Key, chain: &Chain) -> (bool, Option<(Key, Chain)>) {
        if self.runs.len() < 2 {
            return (false, None);
        }
        let Some(ends) = ends(chain) else { return (false, None) };
        let Some(target) = put_target(&self.targets, chain) else { return (false, None) };
        let Some(Span { kind: SpanKind::Put(put), .. }) = chain.root() else { return (false, None) };
        let same_put = |other: &Chain| {
            let Some(Span { kind: SpanKind::Put(theirs), .. }) = other.root() else { return None };
            let (own, their) = (put.packet.as_ref()?, theirs.packet.as_ref()?);
            let same = address(other) != address(chain)
                && self::ends(other).is_some_and(|other| peers::can_be_one(other, ends))
                && (own.notify, own.dbr, put.count) == (their.notify, their.dbr, theirs.count)
                && value::same(&put.requested, &theirs.requested) != Some(false)
                && have_one_target(chain, other);
            same.then_some(theirs.kind.is_some())
        };
        let mut copy = None;
        let own = address(chain);
        let this: &Order = self;
        let keys = this.puts.get(&target);
        let near = this.differences(own).into_iter().flat_map(|ahead| {
            let near = around(key.0.saturating_add(ahead), HOST_SKEW, HOST_SKEW);
            let near = keys.into_iter().flat_map(move |keys| keys.range(near.clone()).take(MAX_COPIES));
            let near = near.map(|(key, _)| key);
            near.filter(move |other| {
                let other = this.chains.get(other).map(|held| address(&held.chain));
                other.is_some_and(|other| this.ahead(other, own) == ahead)
            })
        });
        for other in near {
            match this.chains.get(other).and_then(|held| same_put(&held.chain)) {
                Some(true) if put.kind.is_none() => return (true, None),
                // One for one: a client may write the same value twice in that time.
                Some(_) if copy.is_none() => copy = Some(*other),
                _ => {}
            }
        }
        (false, copy.and_then(|copy| Some((copy, self.take(copy)?))))
    }

    fn take(&mut self, key: Key) -> Option<Chain> {
        let Held { chain, weight } = *self.chains.remove(&key)?;
        self.held = self.held.saturating_sub(weight);
        if let Some((record, at)) = written(key, &chain) {
            self.written.remove(&(record, at));
        }
        let target = if self.notes_puts { put_target(&self.targets, &chain) } else { None };
        if let Some(target) = target {
            if let Some(keys) = self.puts.get_mut(&target) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.puts.remove(&target);
                }
            }
        }
        Some(chain)
    }

    /// Looks for the chains that the chain's links led to.
    fn resolve(&mut self, chain: &mut Chain, depth: usize) {
        let (run, own) = (Rc::clone(&chain.run), address(chain));
        for span in &mut chain.spans {
            let SpanKind::Link(link) = &mut span.kind else { continue };
            let time = run.even(span.start);
            let ioc = span.thread.and_then(|thread| Some(run::ioc_of_thread(&run.context(), thread)?.id));
            if !link.resolved && depth < MAX_DEPTH {
                let target = self.target(own, ioc, time, link).and_then(|key| Some((key, self.take(key)?)));
                if let Some((key, target)) = target {
                    self.copies(key, &target);
                    link.target = Some(Box::new(target));
                }
            }
            link.resolved = true;
            if let Some(target) = &mut link.target {
                self.resolve(target, depth + 1);
            }
        }
    }

    /// The IOC of this run that is the client of the circuit on which another run's chain began, by its socket. `None` if
    /// that is not known, or if it is another run's.
    fn client_elsewhere(&self, own: usize, chain: &Chain) -> Option<IocId> {
        let (peers, number) = (self.peers.as_ref()?, self.runs.get(&own).copied().flatten()?);
        let of = self.runs.get(&address(chain)).copied().flatten()?;
        let root = chain.root()?;
        let context = chain.run.context();
        let circuit = context.circuit(root.packet()?.circuit)?;
        let ends = (circuit.client, circuit.server, peers::place(&context, circuit));
        let (run, _, client) = peers.find(of, ends, chain.run.wall(root.start))?;
        client.ioc.filter(|_| run == number)
    }

    /// Whether a circuit is known to be that of an IOC's links, in whichever log: one may not tell its namespace.
    fn is_of_links(&self, (client, server, place): Ends) -> bool {
        let has = |namespace| self.link_circuits.contains(&(client, server, Place { namespace, ..place }));
        has(place.namespace) || has(0) || place.namespace == 0 && has(ANY)
    }

    /// The put that the link made, if only one fits. `ioc`: the link's IOC, in its own run.
    fn target(&mut self, own: usize, ioc: Option<IocId>, time: i64, link: &LinkSpan) -> Option<Key> {
        let earliest =
            time.saturating_sub(self.most_ahead.saturating_mul(2).saturating_add(LINK_WAIT + HOST_SKEW));
        if earliest <= self.forgot {
            return None;
        }
        let target = link_key(&self.targets, link);
        let mine = (own, link.record.unwrap_or(u32::MAX));
        let mut found: Vec<(Key, Option<Ends>, u8)> = Vec::new();
        // those of them on circuits whose client is known to be the link's IOC
        let mut certain: HashSet<Key> = HashSet::new();
        // the first put that this link or another can have made
        let mut doubtful: Option<Key> = None;
        let senders = self.sent.get(&target)?;
        let puts = self.puts.get(&target)?;
        let differences = self.differences(own);
        // with one clock they come in order of time
        let in_order = differences.len() == 1 && self.most_ahead == 0;
        let near = differences.into_iter().flat_map(|ahead| {
            let in_time = around(time.saturating_add(ahead), HOST_SKEW, LINK_WAIT);
            puts.range(in_time).take(MAX_UNDER_WAY).map(move |(key, number)| (ahead, key, *number))
        });
        let mut rivals = Rivals::new(senders, mine, time, &link.value);
        let given = value::number(&link.value);
        for (ahead, key, number) in near {
            if given.is_some_and(|given| !value::can_become(given, number)) {
                continue;
            }
            let chain = &self.chains.get(key)?.chain;
            if self.ahead(address(chain), own) != ahead {
                continue;
            }
            // by the clock of the link's host
            let put_at = key.0.saturating_sub(ahead);
            let skew = if address(chain) == own { OWN_SKEW } else { HOST_SKEW };
            let Some(Span { kind: SpanKind::Put(put), .. }) = chain.root() else { continue };
            if put_at < time.saturating_sub(skew)
                || value::same_through_link(&link.value, &put.requested) == Some(false)
            {
                continue;
            }
            let client =
                if address(chain) == own { client(chain) } else { self.client_elsewhere(own, chain) };
            let others = client.is_some_and(|client| Some(client) != ioc)
                || address(chain) == own && ioc.is_some_and(|ioc| is_from_elsewhere(chain, ioc));
            if others {
                continue;
            }
            let at = |run: usize| key.0.saturating_sub(self.ahead(address(chain), run));
            let rival = rivals.of(&at, skew, &put.requested);
            if rival == Rival::None {
                found.push((*key, ends(chain), tells(chain)));
                certain.extend(client.map(|_| *key));
            } else if doubtful.is_none_or(|first| *key < first) {
                doubtful = Some(*key);
            }
            // none of the rest is found, and none is the first doubtful one
            if rival == Rival::SomeForAllLater && in_order {
                break;
            }
        }
        if !certain.is_empty() {
            found.retain(|(key, ..)| certain.contains(key));
        }
        let known = |ends: &Option<Ends>| ends.is_none_or(|ends| self.is_of_links(ends));
        if found.iter().any(|(_, ends, _)| known(ends)) {
            found.retain(|(_, ends, _)| known(ends));
        }
        let (first, ends, _) = *found.iter().min_by_key(|(key, ..)| *key)?;
        // an earlier put may be this link's, and this one anybody's
        let is_doubtful = certain.is_empty() && doubtful.is_some_and(|earlier| earlier < first);
        // one that does not tell its namespace can be each of two that do, which are not one
        let told = found.iter().filter_map(|(_, ends, _)| *ends).find(|(.., place)| place.namespace != 0);
        let ends = told.or(ends);
        let is_it = |other: &Option<Ends>| match (*other, ends) {
            (Some(other), Some(ends)) => peers::can_be_one(other, ends),
            (other, ends) => other == ends,
        };
        if is_doubtful || !found.iter().all(|(_, other, _)| is_it(other)) {
            return None;
        }
        if let Some(ends) = ends.filter(|_| self.link_circuits.len() < MAX_HELD) {
            let (client, server, place) = ends;
            self.link_circuits.extend([ends, (client, server, Place { namespace: ANY, ..place })]);
        }
        // Seen at both ends of the circuit: take the end that tells more, as where the target's IOC was recorded.
        let latest = first.0.saturating_add(HOST_SKEW).saturating_add(self.most_ahead);
        let copies = found.iter().filter(|(key, ..)| key.0 <= latest);
        let made = copies.max_by_key(|(key, _, tells)| (*tells, Reverse(*key))).map(|(key, ..)| *key)?;
        let pv = Pv::new(link_target(&link.pv));
        let is_it = |record: &str, field: &str| (record, field) == (pv.record, pv.field);
        (with_target(&self.chains.get(&made)?.chain, is_it) == Some(true)).then_some(made)
    }
}

/// How much a chain tells of the put that it begins with: what it did in its IOC, be it to the members of a group, or at least
/// who serves it.
fn tells(chain: &Chain) -> u8 {
    let Some(root) = chain.root() else { return 0 };
    if matches!(&root.kind, SpanKind::Put(put) if put.kind.is_some() || chain.spans.len() > 1) {
        return 2;
    }
    let context = chain.run.context();
    let server = root.packet().and_then(|packet| run::ioc_of_circuit(&context, packet.circuit));
    u8::from(server.is_some())
}

/// From `before` earlier than `time` to `after` later than it.
fn around(time: i64, before: i64, after: i64) -> RangeInclusive<Key> {
    (time.saturating_sub(before), 0, 0)..=(time.saturating_add(after), u64::MAX, u64::MAX)
}

/// Weight of a chain that has neither links nor a put as its root, so that nothing decides when it is given out but its
/// time.
fn plain_weight(chain: &Chain) -> Option<usize> {
    if matches!(chain.root(), Some(Span { kind: SpanKind::Put(_), .. })) {
        return None;
    }
    chain.spans.iter().try_fold(1, |sum, span| match span.kind {
        SpanKind::Link(_) => None,
        _ => Some(sum + span.weight()),
    })
}

/// For a chain that begins with a put: its record, and its place among the record's puts in the order they were carried
/// out.
fn written(key: Key, chain: &Chain) -> Option<(RecordOf, (u64, u64))> {
    let Some(Span { kind: SpanKind::Put(put), .. }) = chain.root() else { return None };
    Some(((address(chain), put.record?), (put.written?, key.2)))
}

/// The recorded IOC that is the client of the circuit on which the chain's first put arrived, by its socket.
fn client(chain: &Chain) -> Option<IocId> {
    let packet = chain.root()?.packet()?;
    chain.run.context().circuit_ends(packet.circuit)?.client
}

/// Whether a put of the run in which this IOC is recorded came on a circuit that no link of the IOC uses. Links to the
/// IOC's own records have none: its client library asks the process's own database first (`dbContext::createChannel`).
/// And other circuits belong to whoever holds the client's socket.
fn is_from_elsewhere(chain: &Chain, ioc: IocId) -> bool {
    let Some(Span { kind: SpanKind::Put(put), .. }) = chain.root() else { return false };
    let Some(packet) = &put.packet else { return false };
    let context = chain.run.context();
    let is_own = |record| context.record(record).is_some_and(|record| record.ioc == ioc);
    if put.record.is_some_and(is_own) {
        return true;
    }
    let Some(of) = context.ioc(ioc) else { return false };
    context.circuit_process(packet.circuit).is_some_and(|process| {
        let is_another = |holder: &SocketHolder| (holder.pid, holder.start) != (of.pid, of.start);
        process.is_whole
            && process.more == 0
            && !process.holders.is_empty()
            && process.holders.iter().all(is_another)
    })
}

/// The ends of the circuit on which the chain's first put arrived.
fn ends(chain: &Chain) -> Option<Ends> {
    let packet = chain.root()?.packet()?;
    let context = chain.run.context();
    // the addresses of IPv6 are not compared
    let circuit = context.circuit(packet.circuit).filter(|of| of.client.ip != 0 && of.server.ip != 0)?;
    Some((circuit.client, circuit.server, peers::place(&context, circuit)))
}

/// Weight of a chain and of those that its links led to.
fn weight(chain: &Chain, depth: usize) -> usize {
    let targets = chain.spans.iter().filter_map(|span| match &span.kind {
        SpanKind::Link(link) if depth < MAX_DEPTH => link.target.as_deref(),
        _ => None,
    });
    1 + chain.spans.iter().map(Span::weight).sum::<usize>()
        + targets.map(|target| weight(target, depth + 1)).sum::<usize>()
}

/// Notes the put that the chain begins with, if a link can have made it.
fn note_put(puts: &mut Keyed<Target, BTreeMap<Key, f64>>, targets: &RandomState, key: Key, chain: &Chain) {
    let Some(Span { kind: SpanKind::Put(put), .. }) = chain.root() else { return };
    if let Some(target) = put_target(targets, chain) {
        puts.entry(target).or_default().insert(key, value::number(&put.requested).unwrap_or(f64::NAN));
    }
}

/// The address of the chain's run, to distinguish runs.
fn address(chain: &Chain) -> usize {
    Rc::as_ptr(&chain.run) as usize
}

fn link_key(targets: &RandomState, link: &LinkSpan) -> Target {
    let pv = Pv::new(link_target(&link.pv));
    targets.hash_one((pv.record, pv.field))
}

/// Which record of which process of which machine this is, as a number that is the same in all runs.
fn whose(numbers: &RandomState, chain: &Chain, record: Option<RecordId>) -> Option<u64> {
    let context = chain.run.context();
    let record = context.record(record?)?;
    let ioc = context.ioc(record.ioc)?;
    let boot = context.host().map(|host| host.boot_id.as_str()).filter(|boot| !boot.is_empty())?;
    Some(numbers.hash_one((boot, ioc.pid, ioc.start, record.name)))
}

/// The target that a chain's root writes to, if a CA link can have made it.
fn put_target(targets: &RandomState, chain: &Chain) -> Option<Target> {
    with_target(chain, |record, field| targets.hash_one((record, field)))
}

/// Whether the roots of two chains write to the same record and field.
fn have_one_target(one: &Chain, other: &Chain) -> bool {
    let is_it = |record: &str, field: &str| {
        with_target(other, |its_record, its_field| (its_record, its_field) == (record, field))
    };
    with_target(one, is_it).flatten() == Some(true)
}

/// What `take` makes of the record and the field that a chain's root writes to, if a CA link can have made it.
fn with_target<T>(chain: &Chain, take: impl FnOnce(&str, &str) -> T) -> Option<T> {
    let Some(Span { kind: SpanKind::Put(put), thread, .. }) = chain.root() else { return None };
    let context = chain.run.context();
    let PutSpan { packet, record, field, .. } = &**put;
    let channel = packet.as_ref().and_then(|packet| context.channel(packet.channel));
    if let Some(channel) = channel.filter(|channel| !channel.pv.is_empty()) {
        let pv = Pv::new(&channel.pv);
        return Some(take(pv.record, pv.field));
    }
    let record = (*record)?;
    let served = packet.is_some() || caller::role(&context, (*thread)?) == Role::CaLink;
    let field = run::field_name(&context, *field).filter(|_| served)?;
    Some(match context.record(record) {
        Some(known) => take(known.name, field),
        None => take(&run::record_name(&context, record), field),
    })
}
