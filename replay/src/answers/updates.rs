//! What the clients of recorded servers had subscribed to, for the updates that may have made them put
//! ([`crate::model::updates`]).
//!
//! Of Channel Access the log has counts: a channel with updates, or with a new subscription, between two times. They are
//! written about once a minute, later than the puts that they are about, for the busiest channels; so the logs are read for
//! them before. Of PVAccess it has each monitor's beginning and end.

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
use iocrec_log::event::{ChannelId, CircuitId, Event, Fact, PvaMonitor};
use iocrec_log::reader::{About, Choice, Classes, SegmentFile};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Time after which the counts of a channel are written at the latest, and by which they may begin before a put, with room for
/// the clocks of hosts: counts of this time around what is asked are read. Nanoseconds.
const COUNTED: i64 = 180 * SECOND as i64;
/// Channels of a run that are monitored at a time, and circuits whose clients are remembered; bounds for hostile logs.
const MAX_MONITORED: usize = 100_000;
const MAX_CIRCUITS: usize = 100_000;

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
            let wanted = rest.get(..rest.iter().take_while(is_wanted).count()).unwrap_or_default();
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
}

impl Reading {
    fn new(logs: &Logs, number: usize, files: &[SegmentFile]) -> Reading {
        let run = Rc::new(Run::sharing(SetLater::find(files), &budget(files)));
        run.is_one_of(logs.peers(), number);
        let (clients, monitored) = (HashMap::new(), HashMap::new());
        Reading { run, number, uses_index: logs.uses_index(), clients, monitored, channels: 0 }
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

    fn take(&mut self, event: &Event, found: &mut Subscriptions) {
        let time = event.time;
        match &event.fact {
            Fact::ChannelTraffic(of) if of.updates > 0 || of.subscriptions > 0 => {
                self.note(of.channel, (of.since, Some(time)), found);
            }
            Fact::PvaMonitor(of) => self.monitor(of, time, found),
            Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => {
                let circuit = self.run.context().channel(*channel).map(|channel| channel.circuit);
                if let Some(circuit) = circuit {
                    self.stop(circuit, *channel, time, found);
                }
            }
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => {
                let all = self.monitored.remove(circuit).unwrap_or_default();
                self.channels = self.channels.saturating_sub(all.len());
                for (channel, (since, _)) in all {
                    self.note(channel, (since, Some(time)), found);
                }
            }
            // whoever is named by it may be asked for later
            Fact::IocEnd(_) | Fact::Detached(_) => {}
            fact => {
                match fact {
                    // its number is another one's now, or more is known of it
                    Fact::Circuit(of) => _ = self.clients.remove(&of.id),
                    Fact::CircuitEnds(of) => _ = self.clients.remove(&of.circuit),
                    Fact::CircuitProcess(of) => _ = self.clients.remove(&of.circuit),
                    _ => {}
                }
                self.run.apply(time, fact);
            }
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
