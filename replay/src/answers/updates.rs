//! What the clients of recorded servers had subscribed to, for the updates that may have made them put
//! ([`crate::model::updates`]).
//!
//! Of Channel Access the log has counts: a channel with updates, or with a new subscription, between two times. They are
//! written about once a minute, later than the puts that they are about, for the busiest channels; so the logs are read for
//! them before. Of PVAccess it has each monitor's beginning and end. What has ended is held until its counts have come, and no
//! longer: a log may have millions of short clients.

use super::network::{may_tell, may_tell_monitors};
use crate::logs::Logs;
use crate::model::client;
use crate::model::run::{ioc_of_circuit, Run};
use crate::model::updates::{process_of, Process, Subscriptions, Updates};
use crate::reading::runs::budget;
use crate::reading::runs::set::{created, SetLater};
use crate::reading::scan::{Blocks, Part, Scan};
use crate::time::SECOND;
use epics::Pv;
use iocrec_log::event::{ChannelId, CircuitId, Event, Fact, Origin, PvaMonitor};
use iocrec_log::reader::{About, Choice, Classes, SegmentFile};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// Time after which the counts of a channel are written at the latest, and by which they may begin before a put, with room for
/// the clocks of hosts: counts of this time around what is asked are read. Nanoseconds.
const COUNTED: i64 = 180 * SECOND as i64;
/// Channels of a run that are monitored at a time, and circuits whose clients are remembered; bounds for hostile logs.
const MAX_MONITORED: usize = 100_000;
const MAX_CIRCUITS: usize = 100_000;
/// Channels that the recorder notes at a time, the busiest: of all circuits, and of one that ends. Where it noted as many, there
/// may have been others (`iocrec`, ca/traffic).
const NOTED: usize = 100;
const NOTED_AT_END: usize = 20;

impl Logs {
    /// What clients had subscribed to between two wall-clock times. The changes are yet to be taken. What can't be read is
    /// not reported.
    pub(crate) fn subscriptions(&self, (since, until): (i64, i64)) -> Updates {
        let mut found = Subscriptions::default();
        for (number, files) in self.runs().iter().enumerate() {
            let mut reading = Reading::new(self, number, files);
            let set = SetLater::find(files);
            // what is in a segment comes before the next one
            let is_before = |next: &&SegmentFile| begins(next, set) < since.saturating_sub(COUNTED);
            let (before, rest) = files.split_at(files.iter().skip(1).take_while(is_before).count());
            let is_wanted = |file: &&SegmentFile| begins(file, set) <= until.saturating_add(COUNTED);
            // the first may have begun by a clock that was set since
            let wanted = rest.iter().skip(1).take_while(is_wanted).count().saturating_add(1);
            let wanted = rest.get(..wanted).unwrap_or(rest);
            reading.read(before, only_monitors, &mut found);
            reading.read(wanted, may_tell, &mut found);
            reading.end(&mut found);
        }
        Updates::new(found, self.host_names(), Rc::clone(self.peers()))
    }
}

/// Wall-clock time of a segment's beginning.
fn begins(file: &SegmentFile, set: Option<SetLater>) -> i64 {
    file.header.map_or(i64::MIN, |header| created(&header, set))
}

/// Whether a block may tell of PVAccess's monitors: one may have begun long before.
fn only_monitors(classes: Classes, about: &About) -> bool {
    classes.network() && may_tell_monitors(about)
}

/// The monitors of a circuit's channels that are open: the monotonic time since when, and how many.
type Monitored = HashMap<ChannelId, (u64, u32)>;

/// A run that is being read.
struct Reading {
    run: Rc<Run>,
    number: usize,
    uses_index: bool,
    /// Who is behind circuits, as far as it is known.
    clients: HashMap<CircuitId, Process>,
    monitored: HashMap<CircuitId, Monitored>,
    /// Number of channels among them.
    channels: usize,
    /// Ends that have not taken effect, since counts may yet come, and the last end of each.
    ends: VecDeque<(u64, Fact)>,
    last_end: HashMap<Name, u64>,
    /// Channels that were noted last at one time: when, of which circuits, and of all.
    noted_at: u64,
    noted: HashMap<CircuitId, usize>,
    noted_of_all: usize,
    /// Circuits that are older than the recorder: of what their clients had subscribed to before it, nothing is counted.
    older: HashSet<CircuitId>,
    /// Time of the last event.
    last: u64,
}

/// What ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Circuit(CircuitId),
    Channel(ChannelId),
}

impl Reading {
    fn new(logs: &Logs, number: usize, files: &[SegmentFile]) -> Reading {
        let run = Rc::new(Run::sharing(SetLater::find(files), &budget(files)));
        run.is_one_of(logs.peers(), number);
        Reading::of(run, number, logs.uses_index())
    }

    fn of(run: Rc<Run>, number: usize, uses_index: bool) -> Reading {
        Reading {
            run,
            number,
            uses_index,
            clients: HashMap::new(),
            monitored: HashMap::new(),
            channels: 0,
            ends: VecDeque::new(),
            last_end: HashMap::new(),
            noted_at: 0,
            noted: HashMap::new(),
            noted_of_all: 0,
            older: HashSet::new(),
            last: 0,
        }
    }

    /// Reads segments, of their blocks those that are needed.
    fn read(&mut self, files: &[SegmentFile], needs: fn(Classes, &About) -> bool, found: &mut Subscriptions) {
        let mut scan = Scan::new(files, Blocks::All);
        if self.uses_index {
            // what is skipped holds nothing that is looked for: if it is damaged, whoever reads hits says so
            scan.choose(Arc::new(move |about: &About| match about.classes {
                Some(classes) if !needs(classes, about) && !about.defines => Choice::Skip,
                _ => Choice::Only(Arc::new(|_| false)),
            }));
        }
        for part in scan {
            let Part::Block(block) = part else { continue };
            block.events.iter().for_each(|event| self.take(event, found));
        }
    }

    /// Notes an end, which takes effect when no more counts can come.
    fn ends(&mut self, time: u64, name: Name, fact: &Fact) {
        self.ends.push_back((time, fact.clone()));
        self.last_end.insert(name, time);
    }

    /// Lets ends take effect, unless their numbers have been used again since.
    fn forget(&mut self, now: u64) {
        let is_due = |(time, _): &(u64, Fact)| time.saturating_add(COUNTED.unsigned_abs()) < now;
        while self.ends.front().is_some_and(is_due) {
            let Some((time, fact)) = self.ends.pop_front() else { break };
            let name = match &fact {
                Fact::CircuitEnd(id) | Fact::CircuitForgotten(id) => Name::Circuit(*id),
                Fact::ChannelEnd(id) | Fact::ChannelForgotten(id) => Name::Channel(*id),
                _ => continue,
            };
            if self.last_end.get(&name) != Some(&time) {
                continue;
            }
            self.last_end.remove(&name);
            if let Name::Circuit(id) = name {
                self.clients.remove(&id);
            }
            self.run.apply(time, &fact);
        }
    }

    fn take(&mut self, event: &Event, found: &mut Subscriptions) {
        let time = event.time;
        self.forget(time);
        self.last = time;
        match &event.fact {
            Fact::ChannelTraffic(of) => {
                self.count(of.channel, time, found);
                if of.updates > 0 || of.subscriptions > 0 {
                    self.note(of.channel, (of.since, Some(time)), found);
                }
            }
            Fact::PvaMonitor(of) => self.monitor(of, time, found),
            Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => {
                let circuit = self.run.context().channel(*channel).map(|channel| channel.circuit);
                if let Some(circuit) = circuit {
                    self.stop(circuit, *channel, time, found);
                }
                self.ends(time, Name::Channel(*channel), &event.fact);
            }
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => {
                let all = self.monitored.remove(circuit).unwrap_or_default();
                self.channels = self.channels.saturating_sub(all.len());
                for (channel, (since, _)) in all {
                    self.note(channel, (since, Some(time)), found);
                }
                self.ended(*circuit, time, found);
                self.ends(time, Name::Circuit(*circuit), &event.fact);
            }
            // whoever is named by it may be asked for later
            Fact::IocEnd(_) | Fact::Detached(_) => {}
            fact => {
                match fact {
                    // its number is another one's now, or more is known of it
                    Fact::Circuit(of) => {
                        self.clients.remove(&of.id);
                        self.last_end.remove(&Name::Circuit(of.id));
                        if of.origin == Origin::Opened {
                            self.older.remove(&of.id);
                        } else if self.older.len() < MAX_CIRCUITS {
                            self.older.insert(of.id);
                        } else {
                            found.lacks_of_any();
                        }
                    }
                    Fact::Channel(of) => _ = self.last_end.remove(&Name::Channel(of.id)),
                    Fact::CircuitEnds(of) => _ = self.clients.remove(&of.circuit),
                    Fact::CircuitProcess(of) => _ = self.clients.remove(&of.circuit),
                    _ => {}
                }
                self.run.apply(time, fact);
            }
        }
    }

    /// Counts a channel that the recorder noted. If it noted as many as it ever does, some process may have had others.
    fn count(&mut self, channel: ChannelId, time: u64, found: &mut Subscriptions) {
        if self.noted_at != time {
            (self.noted_at, self.noted_of_all) = (time, 0);
            self.noted.clear();
        }
        self.noted_of_all = self.noted_of_all.saturating_add(1);
        if self.noted_of_all >= NOTED {
            found.lacks_of_any();
            return;
        }
        let circuit = self.run.context().channel(channel).map(|channel| channel.circuit);
        if let Some(circuit) = circuit {
            *self.noted.entry(circuit).or_default() += 1;
        }
    }

    /// A circuit is over. Of its channels the busiest were noted just now.
    fn ended(&mut self, circuit: CircuitId, time: u64, found: &mut Subscriptions) {
        let noted = self.noted.get(&circuit).filter(|_| self.noted_at == time);
        let is_cut = noted.is_some_and(|noted| *noted >= NOTED_AT_END);
        if self.older.remove(&circuit) || is_cut {
            self.lacks(circuit, time, found);
        }
    }

    /// The client of a circuit may have had more subscriptions than the log has.
    fn lacks(&self, circuit: CircuitId, time: u64, found: &mut Subscriptions) {
        let process = match self.clients.get(&circuit) {
            Some(known) => Some(known.clone()),
            None => client::behind(&self.run, circuit, self.run.wall(time))
                .and_then(|behind| process_of(&behind.client)),
        };
        if let Some(process) = process {
            found.lacks_of(process);
        }
    }

    /// A monitor starts or stops.
    fn monitor(&mut self, of: &PvaMonitor, time: u64, found: &mut Subscriptions) {
        if of.starts {
            if self.channels < MAX_MONITORED {
                let all = self.monitored.entry(of.circuit).or_default();
                let before = all.len();
                let (_, open) = all.entry(of.channel).or_insert((time, 0));
                *open = open.saturating_add(1);
                self.channels += all.len() - before;
            }
            return;
        }
        let known = self.monitored.get_mut(&of.circuit).and_then(|all| all.get_mut(&of.channel));
        let Some((_, open)) = known else { return };
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.stop(of.circuit, of.channel, time, found);
        }
    }

    /// The last monitor of a channel stops.
    fn stop(&mut self, circuit: CircuitId, channel: ChannelId, time: u64, found: &mut Subscriptions) {
        let known = self.monitored.get_mut(&circuit).and_then(|all| all.remove(&channel));
        let Some((since, _)) = known else { return };
        self.channels = self.channels.saturating_sub(1);
        self.note(channel, (since, Some(time)), found);
    }

    /// What is monitored when the log ends goes on.
    fn end(&mut self, found: &mut Subscriptions) {
        for (channel, (since, _)) in std::mem::take(&mut self.monitored).into_values().flatten() {
            self.note(channel, (since, None), found);
        }
        for circuit in std::mem::take(&mut self.older) {
            self.lacks(circuit, self.last, found);
        }
    }

    /// Notes that there was a subscription on a channel between two monotonic times.
    fn note(&mut self, channel: ChannelId, (since, until): (u64, Option<u64>), found: &mut Subscriptions) {
        let context = self.run.context();
        let Some(channel) = context.channel(channel).filter(|channel| !channel.pv.is_empty()) else { return };
        let last = self.run.wall(until.unwrap_or(since));
        let process = match self.clients.get(&channel.circuit) {
            Some(known) => known.clone(),
            None => {
                let behind = client::behind(&self.run, channel.circuit, last);
                let Some(process) = behind.and_then(|behind| process_of(&behind.client)) else { return };
                if self.clients.len() < MAX_CIRCUITS {
                    self.clients.insert(channel.circuit, process.clone());
                }
                process
            }
        };
        let span = (self.run.wall(since), until.map_or(i64::MAX, |_| last));
        let server = || {
            let name = Pv::new(&channel.pv).record;
            let ioc = ioc_of_circuit(&context, channel.circuit);
            let record = ioc.and_then(|ioc| context.by_alias(ioc.id, name));
            let host = context.host().map(|host| host.name.clone()).unwrap_or_default();
            (ioc.map(|ioc| (host, ioc.name.clone())), record.map_or(name, |record| record.name).to_owned())
        };
        found.note(process, &channel.pv, self.number, span, server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{
        Address, Channel, ChannelTraffic, Circuit, CircuitProcess, Origin, SocketHolder,
    };

    /// A client that is gone still has its counts, a minute later; then it is forgotten.
    #[test]
    fn clients_that_have_gone_are_held_until_their_counts_have_come() {
        let second = SECOND;
        let mut reading = Reading::of(Rc::new(Run::new(None)), 0, true);
        let mut found = Subscriptions::default();
        let mut at = |reading: &mut Reading, time: u64, fact: Fact| {
            reading.take(&Event { time: time * second, fact }, &mut found);
            found.is_empty()
        };
        let opens = |id: u32| {
            let (client, server) = (Address { ip: 1, port: 40_000 }, Address { ip: 2, port: 5064 });
            let (user, host) = ("ops".into(), "box1".into());
            Fact::from(Circuit { id, client, server, user, host, minor: 13, origin: Origin::Opened })
        };
        let channel = |id: u32, circuit: u32| {
            let (cid, sid, dbr, count) = (Some(1), Some(1), Some(6), Some(1));
            Fact::from(Channel {
                id,
                circuit,
                cid,
                sid,
                pv: "X:PV".into(),
                dbr,
                count,
                origin: Origin::Opened,
            })
        };
        let holder = SocketHolder {
            pid: 7,
            start: 5,
            program: "gui".into(),
            command: vec![],
            is_cut: false,
            user: "ops".into(),
        };
        let behind = CircuitProcess { circuit: 1, holders: vec![holder], more: 0, is_whole: true };
        for fact in [opens(1), channel(1, 1), channel(2, 1), Fact::CircuitProcess(behind)] {
            assert!(at(&mut reading, 10, fact));
        }
        at(&mut reading, 11, Fact::ChannelEnd(2));
        at(&mut reading, 12, Fact::CircuitEnd(1));
        let of = ChannelTraffic {
            channel: 1,
            since: 10 * second,
            gets: 0,
            subscriptions: 1,
            updates: 0,
            bytes: 0,
            complete: true,
        };
        assert!(!at(&mut reading, 70, Fact::ChannelTraffic(of)), "its subscription");
        // its number is another circuit's by then
        at(&mut reading, 80, opens(1));
        at(&mut reading, 80, channel(3, 1));
        at(&mut reading, 400, channel(4, 1));
        let held = |reading: &Reading| {
            let context = reading.run.context();
            (1..=4).filter(|id| context.channel(*id).is_some()).collect::<Vec<u32>>()
        };
        assert!(reading.run.context().circuit(1).is_some());
        assert!(held(&reading).ends_with(&[3, 4]) && !held(&reading).contains(&2), "{:?}", held(&reading));
        at(&mut reading, 401, Fact::CircuitEnd(1));
        at(&mut reading, 800, opens(2));
        assert!(reading.run.context().circuit(1).is_none() && held(&reading).is_empty());
        assert!(reading.ends.is_empty() && reading.last_end.is_empty());
    }
}
