//! The messages of circuits that two recorded hosts saw, one where they were sent and the other where they arrived.
//!
//! A circuit has the same addresses and ports in both logs. Which host is the client's and which the server's is known by
//! the sockets that the recorders found. A message is told from others by what it says (its number, type, value); one that
//! a host saw twice says nothing. Circuits of loopback addresses stay on their host.
//!
//! First the definitions are read: a new circuit, a client's request for a channel and the server's answer. Then, if
//! hosts share circuits, puts and their answers: all of them in the first hour of the time that is asked for, and then
//! those of [`SAMPLE`] in each hour. That is enough for clocks that differ by no more than [`MAX_DIFFERENCE`].

use super::bounds::{Between, Bound};
use super::MAX_DIFFERENCE;
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::time::SECOND;
use iocrec_log::context::Context;
use iocrec_log::event::{Address, CircuitId, Event, Fact, Ip6, Origin};
use iocrec_log::reader::{About, Choice, SegmentFile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Messages that are remembered, about 60 MB; a bound for hostile logs.
const MAX_MESSAGES: usize = 500_000;
/// Circuits and addresses; likewise.
const MAX_CIRCUITS: usize = 200_000;
/// Messages of one circuit in one log: with more, nothing is gained.
const MAX_OF_CIRCUIT: u32 = 5000;
/// Time that is read whole, and the part of each later hour that is read, nanoseconds.
const HOUR: i64 = 3600 * SECOND as i64;
const SAMPLE: i64 = 180 * SECOND as i64;
/// Numbers of the facts that are messages ([`Fact::number`]): puts and answers of Channel Access and PVAccess.
const MESSAGES: [u16; 4] = [14, 15, 44, 45];

/// A circuit's ends: client and server.
type Ends = (Address, Address);

/// A message that a host saw.
struct Message {
    host: usize,
    /// By that host's clock, and how exact that is, nanoseconds.
    wall: i64,
    step: i64,
    certain: bool,
}

/// Where a message is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    ends: Ends,
    from_client: bool,
    /// Of what it says.
    content: u64,
}

/// What all logs show.
#[derive(Default)]
pub struct Seen {
    messages: HashMap<Key, Vec<Message>>,
    count: usize,
    /// The hosts that saw a circuit.
    circuits: HashMap<Ends, BTreeSet<usize>>,
    /// The hosts that have an address: a process there holds a socket with it.
    addresses: HashMap<u32, BTreeSet<usize>>,
    /// Of circuits that hosts share, those read in the second pass.
    shared: HashSet<Ends>,
    /// Messages of a circuit that a host saw.
    of_circuit: HashMap<(usize, Ends), u32>,
}

/// A run to be read: its host's number, and its segments.
pub type HostRun<'a> = (usize, &'a [SegmentFile]);

impl Seen {
    /// Reads these runs.
    pub fn read(runs: &[HostRun]) -> Seen {
        let mut seen = Seen::default();
        for (host, files) in runs {
            seen.pass(*host, files, None);
        }
        let several = |hosts: &BTreeSet<usize>| hosts.len() > 1;
        seen.shared =
            seen.circuits.iter().filter(|(_, hosts)| several(hosts)).map(|(ends, _)| *ends).collect();
        let sharing: BTreeSet<usize> =
            seen.circuits.values().filter(|hosts| several(hosts)).flatten().copied().collect();
        let headers = || runs.iter().flat_map(|(_, files)| files.iter().filter_map(|file| file.header));
        let begin = headers().map(|header| header.created_wall).min().unwrap_or(0);
        for (host, files) in runs.iter().filter(|(host, _)| sharing.contains(host)) {
            seen.pass(*host, files, Some(begin));
        }
        seen
    }

    /// The differences of pairs of hosts: how far the second one's clock is ahead.
    pub fn between(&self) -> BTreeMap<(usize, usize), Between> {
        let mut found: BTreeMap<(usize, usize), Between> = BTreeMap::new();
        for (key, messages) in &self.messages {
            let [one, other] = messages.as_slice() else { continue };
            let different = one.host != other.host;
            if !different || one.wall.abs_diff(other.wall) > MAX_DIFFERENCE.unsigned_abs() {
                continue;
            }
            let (first, second) = if one.host < other.host { (one, other) } else { (other, one) };
            let Some(first_is_client) = self.is_client(key.ends, first.host, second.host) else { continue };
            let bound = match key.from_client == first_is_client {
                // It arrived at the second, whose clock showed less than `step` more.
                true => Bound::AtMost(second.wall.saturating_sub(first.wall).saturating_add(second.step - 1)),
                false => {
                    Bound::AtLeast(second.wall.saturating_sub(first.wall).saturating_sub(first.step - 1))
                }
            };
            let certain = first.certain && second.certain;
            found.entry((first.host, second.host)).or_default().take(first.wall, bound, certain);
        }
        found
    }

    /// Whether the first host is the client's, and the second the server's; the other way round; or unknown.
    fn is_client(&self, (client, server): Ends, first: usize, second: usize) -> Option<bool> {
        let has = |host: usize, address: Address| {
            self.addresses.get(&address.ip).is_some_and(|hosts| hosts.contains(&host))
        };
        let fits = |client_host: usize, server_host: usize| {
            u8::from(has(client_host, client)) + u8::from(has(server_host, server))
        };
        match (fits(first, second), fits(second, first)) {
            (one, other) if one == other => None,
            (one, other) => Some(one > other),
        }
    }

    /// Reads a run: its definitions, or the puts of shared circuits. `samples_from`: when the time begins.
    fn pass(&mut self, host: usize, files: &[SegmentFile], samples_from: Option<i64>) {
        let mut context = Context::sharing(&budget(files));
        SetLater::find(files).inspect(|set| set.apply_to(&mut context));
        // Definitions of circuits are ended when the next block begins, so that their last messages find them.
        let mut reading = Reading { host, context, step: 1, puts: samples_from.is_some() };
        for file in files {
            let scan = match samples_from {
                None => Scan::one(file, Blocks::Definitions),
                Some(begin) => {
                    let ahead = file.header.map_or(0, |header| {
                        header.created_wall.saturating_sub(i64::try_from(header.created).unwrap_or(0))
                    });
                    Scan::one_choosing(file, Arc::new(move |about: &About| choose(about, ahead, begin)))
                }
            };
            let Ok(scan) = scan else { continue };
            reading.step =
                file.header.map_or(1, |header| i64::try_from(header.time_step()).unwrap_or(1)).max(1);
            for part in scan {
                let Part::Block(block) = part else { continue };
                for event in &block.events {
                    self.event(&mut reading, event, block.keyframe);
                }
            }
        }
    }

    fn event(&mut self, reading: &mut Reading, event: &Event, keyframe: bool) {
        match &event.fact {
            Fact::Circuit(circuit) if !reading.puts => {
                let is_new = reading.context.circuit(circuit.id).is_none();
                let compared = ends(circuit.client, circuit.server);
                reading.context.apply(event.time, &event.fact);
                let Some(ends) = compared else { return };
                if self.circuits.len() < MAX_CIRCUITS || self.circuits.contains_key(&ends) {
                    self.circuits.entry(ends).or_default().insert(reading.host);
                }
                if is_new && !keyframe && circuit.origin == Origin::Opened {
                    self.message(reading, event.time, ends, true, "circuit", true);
                }
                return;
            }
            Fact::Channel(channel) if !keyframe && !reading.puts && channel.origin == Origin::Opened => {
                let before = reading.context.channel(channel.id);
                let is_answered = before.is_some_and(|before| before.sid.is_none()) && channel.sid.is_some();
                let is_asked = before.is_none() && channel.sid.is_none();
                if (is_answered || is_asked) && channel.cid.is_some() {
                    if let Some(ends) = reading.ends(channel.circuit) {
                        let content = ("channel", channel.cid, channel.sid, &channel.pv);
                        self.message(reading, event.time, ends, is_asked, content, is_asked);
                    }
                }
            }
            Fact::CircuitEnds(of) => {
                let ends = reading.context.circuit(of.circuit).map(|of| (of.client, of.server));
                if let Some((client, server)) = ends {
                    let held = [(of.client, client), (of.server, server)];
                    held.iter().filter(|(ioc, _)| ioc.is_some()).for_each(|(_, own)| self.has(reading, *own));
                }
            }
            Fact::CircuitProcess(of) => {
                // without holders, too: the client's address is the machine's own
                let client = reading.context.circuit(of.circuit).map(|of| of.client);
                client.into_iter().for_each(|client| self.has(reading, client));
            }
            Fact::CaPut(put) if reading.puts => {
                let content = (14, put.notify, put.ioid, (put.dbr, put.count, put.length), &put.payload);
                self.put(reading, event.time, put.circuit, true, content);
            }
            Fact::CaAnswer(answer) if reading.puts => {
                let content = (15, answer.notify, answer.ioid, answer.status);
                self.put(reading, event.time, answer.circuit, false, content);
            }
            Fact::PvaPut(put) if reading.puts => {
                let content = (44, put.ioid, put.kind, put.value.length, &put.value.bytes);
                self.put(reading, event.time, put.circuit, true, content);
            }
            // given up by the client, not answered by the server
            Fact::PvaAnswer(answer) if reading.puts && answer.status < 4 => {
                let content = (45, answer.ioid, answer.kind, answer.status, &answer.value.bytes);
                self.put(reading, event.time, answer.circuit, false, content);
            }
            _ => {}
        }
        reading.context.apply(event.time, &event.fact);
    }

    fn put(&mut self, reading: &Reading, time: u64, of: CircuitId, from_client: bool, content: impl Hash) {
        let Some(ends) = reading.ends(of).filter(|ends| self.shared.contains(ends)) else { return };
        self.message(reading, time, ends, from_client, content, true);
    }

    fn message(
        &mut self,
        reading: &Reading,
        time: u64,
        ends: Ends,
        from_client: bool,
        content: impl Hash,
        certain: bool,
    ) {
        let host = reading.host;
        let Some(wall) = reading.context.wall(time) else { return };
        let seen = self.of_circuit.entry((host, ends)).or_default();
        if *seen >= MAX_OF_CIRCUIT || self.count >= MAX_MESSAGES {
            return;
        }
        *seen += 1;
        self.count += 1;
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let key = Key { ends, from_client, content: hasher.finish() };
        self.messages.entry(key).or_default().push(Message { host, wall, step: reading.step, certain });
    }

    /// Notes that a host has an address.
    fn has(&mut self, reading: &Reading, address: Address) {
        if self.addresses.len() < MAX_CIRCUITS || self.addresses.contains_key(&address.ip) {
            self.addresses.entry(address.ip).or_default().insert(reading.host);
        }
    }
}

/// A run while it is read.
struct Reading {
    host: usize,
    context: Context,
    /// Resolution of its times, nanoseconds.
    step: i64,
    /// Whether puts are looked for.
    puts: bool,
}

impl Reading {
    fn ends(&self, circuit: CircuitId) -> Option<Ends> {
        let circuit = self.context.circuit(circuit)?;
        ends(circuit.client, circuit.server)
    }
}

/// The ends of a circuit that two hosts can share.
fn ends(client: Address, server: Address) -> Option<Ends> {
    // numbers below Ip6::END stand for addresses of IPv6 of one log
    let compared = |address: Address| address.ip >= Ip6::END && address.ip >> 24 != 127;
    (compared(client) && compared(server)).then_some((client, server))
}

/// Definitions, and puts in the time that is read. `ahead`: how far the wall clock is ahead of the monotonic one.
fn choose(about: &About, ahead: i64, begin: i64) -> Choice {
    let wall =
        |time: u64| ahead.saturating_add(i64::try_from(time).unwrap_or(i64::MAX)).saturating_sub(begin);
    let (first, last) = (wall(about.first), wall(about.last));
    let is_sampled =
        first < HOUR || first.rem_euclid(HOUR) < SAMPLE || last.div_euclid(HOUR) > first.div_euclid(HOUR);
    let may_hold = match (&about.contents, about.classes) {
        (Some(contents), _) => contents.counts.iter().any(|(number, _)| MESSAGES.contains(number)),
        (None, Some(classes)) => classes.network() || classes.others(),
        (None, None) => true,
    };
    match about.keyframe || about.defines || (is_sampled && may_hold) {
        true => Choice::Read,
        false => Choice::Pass,
    }
}
