//! How many clients and channels each IOC served, over time: by the circuits that the log knows as open.
//!
//! Unknown is a value: before the first circuit of an IOC became known in the middle of its life, where a part of the log
//! is missing or was not stored, once the recorder has forgotten one, and in a run that saw no circuit at all, since it may
//! have read no packets. Memory is bounded whatever the log holds.

use crate::logs::Logs;
use crate::reading::ended_unseen::notes_ends;
use crate::reading::scan::{Part, Scan};
use crate::time::SECOND;
use iocrec_log::event::{ChannelId, CircuitId, Event, Fact, IocId, Origin};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::SegmentFile;
use std::collections::{HashMap, HashSet};

/// Seconds with changes that are kept of all IOCs, 10 MB: a day of three IOCs whose clients come and go each second.
const MAX_STEPS: usize = 250_000;
/// Circuits and channels that are open at the same time; a bound for hostile logs.
const MAX_OPEN: usize = 500_000;

/// How many an IOC served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Circuits: a client program has one for each priority and server.
    pub clients: u32,
    /// Channels on them.
    pub channels: u32,
}

impl Count {
    fn most(self, other: Count) -> Count {
        let (clients, channels) = (self.clients.max(other.clients), self.channels.max(other.channels));
        Count { clients, channels }
    }
}

/// What changed within a second.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Monotonic time of the first change, nanoseconds.
    time: u64,
    /// The most from then on within that second; what was left at its end. `None`: unknown.
    most: Option<Count>,
    after: Option<Count>,
}

/// A circuit that is open.
#[derive(Default)]
struct Open {
    server: Option<IocId>,
    origin: Option<Origin>,
    /// Monotonic time since which it is known.
    since: u64,
    channels: HashSet<ChannelId>,
}

/// A run that is being read.
#[derive(Default)]
struct Reading {
    circuits: HashMap<CircuitId, Open>,
    channels: HashMap<ChannelId, CircuitId>,
    now: HashMap<IocId, Count>,
    /// IOCs of which the recorder has forgotten a circuit or a channel.
    forgot: HashSet<IocId>,
    /// Sequence number that the next segment should have.
    expected: Option<u32>,
    /// Whether a part of the log is missing: what was open before may have been closed.
    harmed: bool,
}

/// Whether events tell how the segment before this one ended.
fn tells_end(events: &[Event], header: &SegmentHeader) -> bool {
    let before = header.sequence.checked_sub(1);
    events.iter().any(|event| matches!(&event.fact, Fact::SegmentEnd(end) if Some(end.segment) == before))
}

/// See the module. Runs are counted in the order of the logs' own.
#[derive(Default)]
pub struct Served {
    of: HashMap<(usize, IocId), Vec<Step>>,
    /// Runs that saw any circuit.
    saw: HashSet<usize>,
    steps: usize,
}

impl Served {
    /// Reads all runs.
    pub fn read(logs: &Logs) -> Served {
        let mut served = Served::default();
        for (run, files) in logs.runs().iter().enumerate() {
            served.run(run, files);
        }
        served
    }

    fn run(&mut self, run: usize, files: &[SegmentFile]) {
        let mut reading = Reading::default();
        // the segment that has begun, as long as its first block has not told how the one before ended
        let mut begins: Option<SegmentHeader> = None;
        for part in Scan::of_definitions(files) {
            match part {
                Part::Segment(header) => {
                    let missing = reading.expected.is_some_and(|expected| expected != header.sequence);
                    let follows = reading.expected.is_some() && notes_ends(&header);
                    reading.expected = Some(header.sequence.saturating_add(1));
                    begins = None;
                    if missing || reading.harmed {
                        self.forget_all(run, &mut reading, header.created);
                    } else if follows {
                        begins = Some(header);
                    }
                }
                Part::Block(block) => {
                    // it does not tell if the recorder could not store meanwhile: what was closed then is still counted
                    if let Some(header) = begins.take().filter(|header| !tells_end(&block.events, header)) {
                        self.forget_all(run, &mut reading, header.created);
                    }
                    for event in &block.events {
                        self.fact(run, &mut reading, event.time, &event.fact, block.keyframe);
                    }
                }
                // what was closed there is still counted
                Part::Damage(_) | Part::Unreadable(_) => {
                    (reading.harmed, begins) = (true, None);
                    let iocs: Vec<IocId> = reading.now.keys().copied().collect();
                    iocs.into_iter().for_each(|ioc| self.step(run, ioc, 0, None));
                }
            }
        }
    }

    /// Nothing is known until the segment that begins now has told what is open.
    fn forget_all(&mut self, run: usize, reading: &mut Reading, time: u64) {
        let iocs: Vec<IocId> = reading.now.keys().copied().collect();
        // those that the recorder has forgotten no segment tells
        let forgot = std::mem::take(&mut reading.forgot);
        *reading = Reading { expected: reading.expected, forgot, ..Reading::default() };
        iocs.into_iter().for_each(|ioc| self.step(run, ioc, time, None));
    }

    fn fact(&mut self, run: usize, reading: &mut Reading, time: u64, fact: &Fact, keyframe: bool) {
        let mut since = time;
        let (server, change) = match fact {
            Fact::Circuit(circuit) => {
                self.saw.insert(run);
                if reading.circuits.len() < MAX_OPEN {
                    let open = reading.circuits.entry(circuit.id).or_default();
                    let origin = if keyframe { Origin::MidStream } else { circuit.origin };
                    if open.origin.is_none() {
                        (open.origin, open.since) = (Some(origin), time);
                    }
                }
                return;
            }
            Fact::CircuitEnds(ends) => {
                let Some(open) = reading.circuits.get_mut(&ends.circuit) else { return };
                let (Some(server), true) = (ends.server, open.server != ends.server) else { return };
                let channels = i64::try_from(open.channels.len()).unwrap_or(i64::MAX);
                let before = open.server.replace(server);
                // before the first that was there when it became known, others may have been
                let is_first = !self.of.contains_key(&(run, server));
                if is_first && open.origin == Some(Origin::Opened) {
                    self.step(run, server, 0, Some(Count::default()));
                }
                // its server may be found later, but it was one of it
                since = open.since;
                if let Some(before) = before {
                    self.count(run, reading, time, before, (-1, -channels));
                }
                (server, (1, channels))
            }
            Fact::Channel(channel) => {
                let has_room = reading.channels.len() < MAX_OPEN;
                let Some(open) = reading.circuits.get_mut(&channel.circuit).filter(|_| has_room) else {
                    return;
                };
                if !open.channels.insert(channel.id) {
                    return; // a keyframe repeats it
                }
                reading.channels.insert(channel.id, channel.circuit);
                let Some(server) = open.server else { return };
                (server, (0, 1))
            }
            Fact::ChannelEnd(id) | Fact::ChannelForgotten(id) => {
                let circuit = reading.channels.remove(id);
                let open = circuit.and_then(|circuit| reading.circuits.get_mut(&circuit));
                let Some(open) = open.filter(|open| open.channels.contains(id)) else { return };
                open.channels.remove(id);
                let Some(server) = open.server else { return };
                if matches!(fact, Fact::ChannelForgotten(_)) {
                    reading.forgot.insert(server);
                }
                (server, (0, -1))
            }
            Fact::CircuitEnd(id) | Fact::CircuitForgotten(id) => {
                let Some(open) = reading.circuits.remove(id) else { return };
                open.channels.iter().for_each(|channel| _ = reading.channels.remove(channel));
                let Some(server) = open.server else { return };
                if matches!(fact, Fact::CircuitForgotten(_)) {
                    reading.forgot.insert(server);
                }
                (server, (-1, -i64::try_from(open.channels.len()).unwrap_or(i64::MAX)))
            }
            _ => return,
        };
        self.count(run, reading, since, server, change);
    }

    fn count(
        &mut self,
        run: usize,
        reading: &mut Reading,
        time: u64,
        ioc: IocId,
        (clients, channels): (i64, i64),
    ) {
        let changed = |count: u32, by: i64| {
            u32::try_from(i64::from(count).saturating_add(by).max(0)).unwrap_or(u32::MAX)
        };
        let now = reading.now.entry(ioc).or_default();
        now.clients = changed(now.clients, clients);
        now.channels = changed(now.channels, channels);
        let count = Some(*now).filter(|_| !reading.harmed && !reading.forgot.contains(&ioc));
        self.step(run, ioc, time, count);
    }

    fn step(&mut self, run: usize, ioc: IocId, time: u64, count: Option<Count>) {
        let steps = self.of.entry((run, ioc)).or_default();
        let time = steps.last().map_or(time, |last| time.max(last.time));
        match steps.last_mut() {
            Some(last) if last.after == count && last.most == count => {}
            Some(last) if last.time / SECOND == time / SECOND => {
                last.most = last.most.zip(count).map(|(most, count)| most.most(count));
                last.after = count;
            }
            _ if self.steps < MAX_STEPS => {
                steps.push(Step { time, most: count, after: count });
                self.steps += 1;
            }
            // no room: nothing is known from here on
            Some(last) => (last.most, last.after) = (None, None),
            None => {}
        }
    }

    /// What an IOC served from one monotonic time to another: the count at the first, then each change with its time.
    /// Where several changes lie within a second, the most of that second is told.
    pub fn over(&self, run: usize, ioc: IocId, from: u64, to: u64) -> Vec<(u64, Option<Count>)> {
        let Some(steps) = self.of.get(&(run, ioc)) else {
            let none = Some(Count::default()).filter(|_| self.saw.contains(&run));
            return vec![(from, none)];
        };
        let mut changes = Vec::new();
        let first = steps.partition_point(|step| step.time <= from).saturating_sub(1);
        if steps.first().is_none_or(|step| step.time > from) {
            changes.push((from, None));
        }
        for (number, step) in steps.iter().enumerate().skip(first) {
            if step.time > to {
                break;
            }
            let mut tell = |time: u64, count| {
                if time <= to {
                    changes.retain(|(other, _)| *other < time.max(from));
                    changes.push((time.max(from), count));
                }
            };
            tell(step.time, step.most);
            let second_ends = (step.time / SECOND).saturating_add(1).saturating_mul(SECOND);
            let next = steps.get(number + 1).map_or(u64::MAX, |next| next.time);
            if step.most != step.after && second_ends < next {
                tell(second_ends, step.after);
            }
        }
        changes
    }
}
