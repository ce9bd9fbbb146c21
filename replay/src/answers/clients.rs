//! Clients: the circuits of Channel Access and PVAccess that the recorder saw, and what came on each.
//!
//! A client program has a circuit for each server that it talks to, so it is in the list once for each.

use crate::answers::network::{end_names, refused_channel, Kind, NetLine, Network};
use crate::filter::{names_of_address, Filter};
use crate::logs::Logs;
use crate::model::client::Client;
use crate::model::peers::{self, Ends, Peers};
use crate::model::putlog::{each_put, ProcessLine, PutLine};
use crate::model::run::ioc_of_circuit;
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::shown_names::selects;
use iocrec_log::context::Context;
use iocrec_log::event::{Channel, ChannelId, Circuit, CircuitId, Fact, IocId, Origin, SlowClient, Updates};
use iocrec_log::reader::{About, Cause, Choice, SegmentFile};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Circuits listed; a bound for hostile logs.
const MAX_CIRCUITS: usize = 100_000;
/// Names of channels and of PVs written to that are kept of a circuit, and of all; and bytes of one. Likewise.
const MAX_NAMES: usize = 10_000;
const MAX_ALL_NAMES: usize = 500_000;
const MAX_LENGTH: usize = 200;
/// Channels that were asked for in vain, of a run. Likewise.
const MAX_REFUSED: usize = 500_000;
/// Times kept of a circuit in which its client took nothing.
const MAX_STALLS: usize = 1000;
/// What is told of a circuit as in `iocreplay net`.
const MAX_NET: usize = 1000;
/// Names kept of a circuit that its client had at other times. Likewise.
const MAX_OTHER_NAMES: usize = 16;

/// How a circuit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was closed.
    Closed,
    /// Its server, an IOC, ended.
    IocEnded,
    /// It was open when the recorder's run ended, or the log of it.
    No,
    /// It was open when the recorder forgot it, because more were open than it keeps.
    Forgotten,
}

impl Ended {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Closed => "closed",
            Ended::IocEnded => "ioc_ended",
            Ended::No => "open",
            Ended::Forgotten => "forgotten",
        }
    }
}

/// A time in which a client did not take what waited for it, as the server's socket and memory show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Wall-clock time of the first look that showed data waiting.
    pub since: i64,
    /// That of the last note of it.
    pub until: i64,
    /// Whether that note was that nothing waits any more, or that the connection has ended.
    pub is_over: bool,
    /// Bytes that waited in the socket.
    pub unsent: u32,
    /// Whether the client had no room for any.
    pub window_closed: bool,
    /// Its subscriptions, as the IOC counts their updates; `None` if that could not be read.
    pub updates: Option<Vec<Updates>>,
    /// Whether these are all.
    pub is_whole: bool,
}

impl Slow {
    /// Whether any of it lies in the filter's time range.
    pub fn is_in(&self, filter: &Filter) -> bool {
        filter.until.is_none_or(|until| self.since < until)
            && filter.since.is_none_or(|since| self.until >= since)
    }
}

/// A circuit, with its client.
#[derive(Clone, Debug)]
pub struct ClientLine {
    /// The number of the run that recorded it, in the order of the logs.
    pub run: usize,
    /// Its number in that run.
    pub circuit: CircuitId,
    /// Host that recorded it; empty if unknown.
    pub host: Rc<str>,
    /// The IOC that serves it; empty if unknown.
    pub ioc: String,
    /// The number of its process, if known.
    pub ioc_pid: Option<u32>,
    /// The client's address.
    pub client: String,
    /// The server's address.
    pub server: String,
    /// User name that the client claims; empty if not seen.
    pub user: String,
    /// Host name that the client claims; empty if not seen.
    pub client_host: String,
    /// Users and hosts that it claimed to be at other times.
    pub other_names: Vec<(String, String)>,
    /// Monotonic time since which it claims what it claims now.
    claimed: u64,
    /// The recorded IOC whose process is the client, and its program; empty if it is none.
    pub client_ioc: String,
    /// See `client_ioc`.
    pub program: String,
    /// The process that it is, if a log tells.
    pub process: Option<Box<ProcessLine>>,
    /// The client's CA minor version; 0 if not seen.
    pub minor: u16,
    /// Whether it speaks PVAccess, and how it introduced itself there.
    pub is_pva: bool,
    /// See `is_pva`; empty if not seen.
    pub method: String,
    /// Whether it is encrypted, so that nothing that came on it is seen.
    pub is_encrypted: bool,
    /// How it became known.
    pub origin: Origin,
    /// Wall-clock time when it was first seen.
    pub seen: i64,
    /// Wall-clock time when it was opened; `None` if that was before, or not seen.
    pub connected: Option<i64>,
    /// Wall-clock time of its end, if it ended.
    pub disconnected: Option<i64>,
    /// How it ended.
    pub ended: Ended,
    /// Of one that was not seen to end: wall-clock time until which it was watched. The log may go on after that, with
    /// another run of the recorder.
    pub watched: Option<i64>,
    /// Whether that is since when a part of the log is missing, after which nothing was heard of it: it may have gone on.
    pub may_go_on: bool,
    /// How and by which side, as words of `iocreplay net`; `None` if that is not known.
    pub how: Option<(&'static str, &'static str)>,
    /// Times in which it took nothing, and data waited for it, up to a limit: since, until at least, whether that was the
    /// end.
    pub stalls: Vec<(i64, i64, bool)>,
    /// Times in which data waited for it in the server's socket and it did not keep up.
    pub slow: Vec<Slow>,
    /// Number of channels.
    pub channels: u64,
    /// Those among them of which only the number in a put was seen, which the client may have made up.
    only_put_to: u64,
    /// Names of its channels, up to a limit.
    pub names: BTreeSet<Rc<str>>,
    /// Number of puts, and of those that were denied, failed, or of unknown outcome.
    pub puts: u64,
    /// See `puts`.
    pub denied: u64,
    /// See `puts`.
    pub failed: u64,
    /// See `puts`.
    pub unknown: u64,
    /// Wall-clock time and PV of the last put.
    pub last_put: Option<(i64, String)>,
    /// PVs written to, up to a limit, with the number of puts to each.
    pub written: HashMap<Rc<str>, u64>,
    /// What was unusual on it, its monitors and what went over it, as in `iocreplay net`, up to a limit; see
    /// [`add_network`].
    pub net: Vec<NetLine>,
    /// Its ends, to find it in other logs.
    ends: Option<Ends>,
}

/// Adds what the logs tell of each circuit beside its puts, in the filter's time range.
pub fn add_network(lines: &mut [ClientLine], logs: &Logs, filter: &Filter) {
    // how it began and ended is told anyway, and when it took nothing
    let is_new = |of: &NetLine| match of.kind {
        Kind::Connected => !of.text.is_empty(),
        Kind::SlowClient => of.reason != "window_closed",
        kind => !matches!(kind, Kind::Closed | Kind::Disconnected | Kind::ChannelTraffic),
    };
    let mut all = Network::of_circuits(logs, &|of| is_new(of) && of.is_in_time(filter));
    for line in lines {
        let Some(mut of_it) = all.remove(&(line.run, line.circuit)) else { continue };
        // there may be thousands of monitors
        of_it.sort_by_key(|of| (of.kind == Kind::Monitored, of.since));
        of_it.truncate(MAX_NET);
        line.net = of_it;
    }
}

impl ClientLine {
    /// PVs by the number of puts to them, most first.
    pub fn most_written(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.written.iter().map(|(pv, count)| (&**pv, *count)).collect();
        all.sort_by_key(|(pv, count)| (std::cmp::Reverse(*count), *pv));
        all
    }

    /// Whether it was open at some time of the filter's range.
    fn is_in_time(&self, filter: &Filter) -> bool {
        let begun = self.connected.unwrap_or(self.seen);
        let end = self.disconnected.or(self.watched).filter(|_| !self.may_go_on);
        filter.until.is_none_or(|until| begun < until)
            && filter.since.is_none_or(|since| end.is_none_or(|end| end >= since))
    }

    fn is_wanted(&self, filter: &Filter) -> bool {
        let mut of_client = names_of_address(&self.client).to_vec();
        of_client.push(&self.client_host);
        of_client.extend(self.other_names.iter().map(|(_, host)| host.as_str()));
        let mut users = vec![self.user.as_str()];
        users.extend(self.other_names.iter().map(|(user, _)| user.as_str()));
        let any = |names: &[&str], wanted: &dyn Fn(&str) -> bool| {
            names.iter().any(|name| !name.is_empty() && wanted(name))
        };
        let by_pv = filter.pv.is_empty() && filter.exclude.is_empty();
        self.is_in_time(filter)
            && filter.place(&self.host, &self.ioc)
            && filter.user.as_ref().is_none_or(|user| any(&users, &|name| user.matches(name)))
            && filter.client.as_ref().is_none_or(|client| {
                any(&of_client, &|name| client.matches(name))
                    || (!self.client_ioc.is_empty() && selects(client, &self.client_ioc))
            })
            && (by_pv || self.puts > 0 || self.names.iter().any(|name| filter.name(|pv| pv.matches(name))))
    }
}

/// All circuits of logs.
#[derive(Default)]
pub struct Clients {
    lines: Vec<ClientLine>,
    /// By host, client's and server's address: the circuits with these ends, in order of time.
    by_ends: HashMap<[Rc<str>; 3], Vec<usize>>,
    names: usize,
    /// Whether no names are kept.
    without_names: bool,
    /// The IOCs that ended.
    lives: Vec<Life>,
    /// Number of circuits that were left out because there are too many.
    pub left_out: u64,
    /// Number of puts that came on no circuit that is known: by pvAccess, or from the IOC's shell.
    pub without_circuit: u64,
}

/// An IOC that ended. Times are wall-clock time, nanoseconds since 1970 UTC.
struct Life {
    host: Rc<str>,
    ioc: String,
    pid: u32,
    began: i64,
    ended: i64,
}

/// A run being read.
struct Reading {
    context: Context,
    host: Rc<str>,
    open: HashMap<CircuitId, usize>,
    ended: HashMap<IocId, i64>,
    /// The circuits of each, to find the owner when all is known.
    circuits: Vec<(usize, CircuitId)>,
    /// What clients asked for, and the servers did not make.
    refused: HashSet<ChannelId>,
    /// The last time of which something was read.
    last: u64,
    /// The last such time before something that can't be read: what ended unseen may have ended then.
    gap: Option<u64>,
    /// Circuits of which something was read since.
    heard: HashSet<CircuitId>,
}

impl Clients {
    /// Reads the circuits of all runs, and what came on them in the filter's time range.
    pub fn read(logs: &Logs, filter: &Filter) -> Clients {
        let mut found = Clients::default();
        found.circuits(logs);
        let puts = Filter { since: filter.since, until: filter.until, ..Filter::default() };
        // Whatever came on a circuit can matter to the put log.
        for chain in logs.replay_puts(&puts) {
            each_put(&chain, true, &mut |put| found.count(&put, filter));
        }
        found
    }

    /// Reads the circuits of all runs, but no names: only numbers are wanted of their channels and of the puts that
    /// [`Clients::count`] takes.
    pub fn without_names(logs: &Logs) -> Clients {
        let mut found = Clients { without_names: true, ..Clients::default() };
        found.circuits(logs);
        found
    }

    fn circuits(&mut self, logs: &Logs) {
        for (number, run) in logs.runs().iter().enumerate() {
            let first = self.lines.len();
            self.run(run, logs.uses_index());
            let end = logs.end_of(run);
            let open = self.lines.iter_mut().skip(first).filter(|line| line.ended == Ended::No);
            open.for_each(|line| line.watched = line.watched.or(end));
            self.lines.iter_mut().skip(first).for_each(|line| line.run = number);
            for place in first..self.lines.len() {
                self.learn(place, logs.peers(), number);
            }
        }
    }

    /// Counts a put, if it is in the filter's time range and to what it asks for.
    pub fn count(&mut self, put: &PutLine, filter: &Filter) {
        let (record, field) = (put.record.as_deref().unwrap_or_default(), put.field.as_deref());
        let named = |pv: &crate::Pattern| put.pv.as_deref().is_some_and(|name| pv.matches(name));
        let wanted = filter.field(record, field.unwrap_or("VAL")) || filter.name(named);
        if wanted && filter.time(put.time) {
            self.put(put);
        }
    }

    /// Only the circuits whose clients did not keep up, in the filter's time range; without their puts.
    pub fn slow_ones(logs: &Logs, filter: &Filter) -> Vec<ClientLine> {
        let mut found = Clients::default();
        logs.runs().iter().for_each(|run| found.run(run, logs.uses_index()));
        let mut lines = found.lines(filter);
        lines.iter_mut().for_each(|line| line.slow.retain(|slow| slow.is_in(filter)));
        lines.retain(|line| !line.slow.is_empty());
        lines
    }

    /// Reads the circuits of a run. `use_index`: passes over blocks that say that they hold nothing of them.
    fn run(&mut self, files: &[SegmentFile], use_index: bool) {
        let mut context = Context::sharing(&budget(files));
        SetLater::find(files).inspect(|set| set.apply_to(&mut context));
        let mut reading = Reading {
            context,
            host: "".into(),
            open: HashMap::new(),
            ended: HashMap::new(),
            circuits: Vec::new(),
            refused: HashSet::new(),
            last: 0,
            gap: None,
            heard: HashSet::new(),
        };
        // Blocks that can't be read are reported when the puts are read.
        // bulk need not be unpacked
        let choose = |about: &About| match about.classes {
            Some(classes) if !classes.others() && !classes.notes() && !about.defines => Choice::Pass,
            _ => Choice::Only(Arc::new(|_| false)),
        };
        // whether nothing was read of a segment but its keyframe, all of which was read
        let mut begins = false;
        let mut scan = Scan::new(files, Blocks::All);
        if use_index {
            scan.choose(Arc::new(choose));
        }
        for part in scan {
            let block = match part {
                Part::Block(block) => block,
                Part::Segment(_) => {
                    begins = true;
                    continue;
                }
                Part::Damage(damage) if matches!(damage.cause, Cause::Header | Cause::Repeated) => continue,
                Part::Damage(_) | Part::Unreadable(_) => {
                    begins = false;
                    reading.gap.get_or_insert(reading.last);
                    reading.heard.clear();
                    continue;
                }
            };
            for event in &block.events {
                self.fact(&mut reading, event.time, &event.fact, block.keyframe);
            }
            // in a keyframe only the time of the segment's begin is new
            if !block.keyframe {
                // what ended before it was told with its keyframe
                if std::mem::take(&mut begins) {
                    reading.gap = None;
                }
                let last = block.events.iter().map(|event| event.time).max();
                let last = block.about.as_ref().map(|about| about.last).max(last);
                reading.last = reading.last.max(last.unwrap_or(0));
            }
        }
        self.note_unheard(&reading);
        self.owners(&reading);
    }

    /// Notes which circuits may have ended in a part that is missing, of which no later segment tells.
    fn note_unheard(&mut self, reading: &Reading) {
        // behind a log that was cut is nothing more
        let gap = reading.gap.filter(|gap| *gap < reading.last);
        let Some(gap) = gap.and_then(|gap| reading.context.wall(gap)) else { return };
        for (_, number) in reading.open.iter().filter(|(circuit, _)| !reading.heard.contains(circuit)) {
            if let Some(line) = self.lines.get_mut(*number).filter(|line| line.seen <= gap) {
                (line.watched, line.may_go_on) = (Some(gap), true);
            }
        }
    }

    fn fact(&mut self, reading: &mut Reading, time: u64, fact: &Fact, keyframe: bool) {
        let heard = match fact {
            Fact::Circuit(circuit) => Some(circuit.id),
            Fact::Channel(channel) => Some(channel.circuit),
            Fact::CircuitTraffic(traffic) => Some(traffic.circuit),
            Fact::ClientStalled(of) => Some(of.circuit),
            Fact::SlowClient(of) => of.circuit,
            _ => None,
        };
        // as many as are open at most
        if let Some(circuit) = heard.filter(|of| reading.gap.is_some() && reading.open.contains_key(of)) {
            reading.heard.insert(circuit);
        }
        match fact {
            Fact::CircuitClosed(closed) => {
                let line = reading.open.get(&closed.circuit).and_then(|line| self.lines.get_mut(*line));
                if let Some(line) = line {
                    line.how = Some(end_names(closed.reason, closed.by));
                }
                return;
            }
            Fact::CircuitEnd(circuit) => {
                let line = reading.open.remove(circuit).and_then(|line| self.lines.get_mut(line));
                let Some(line) = line else { return };
                if keyframe {
                    // it ended unseen after that
                    line.watched = reading.context.wall(reading.gap.unwrap_or(reading.last));
                    return;
                }
                let wall = reading.context.wall(time);
                match line.how {
                    // the recorder sees no more of it here, which is no end
                    Some(("not_captured" | "moved", _)) => line.watched = wall,
                    _ => (line.disconnected, line.ended) = (wall, Ended::Closed),
                }
                return;
            }
            // that of one that ended unseen is not known
            Fact::IocEnd(_) if keyframe => return,
            Fact::IocEnd(end) => {
                reading.context.wall(time).map(|wall| reading.ended.insert(end.ioc, wall));
                return;
            }
            Fact::CircuitForgotten(circuit) => {
                let line = reading.open.remove(circuit).and_then(|line| self.lines.get_mut(line));
                if let Some(line) = line {
                    line.ended = Ended::Forgotten;
                    line.watched = reading.context.wall(time);
                }
                return;
            }
            Fact::ClientStalled(of) => {
                let line = reading.open.get(&of.circuit).and_then(|line| self.lines.get_mut(*line));
                let Some(line) = line else { return };
                let wall = |time| reading.context.wall(time).unwrap_or(0);
                let (since, until) = (wall(of.since), wall(of.until));
                let has_room = line.stalls.len() < MAX_STALLS;
                match line.stalls.last_mut() {
                    Some(last) if last.0 == since => *last = (since, until.max(last.1), of.is_over || last.2),
                    _ if has_room => line.stalls.push((since, until, of.is_over)),
                    _ => {}
                }
                return;
            }
            Fact::SlowClient(of) => {
                self.slow(reading, time, of);
                return;
            }
            Fact::ChannelEnd(_) | Fact::ChannelForgotten(_) | Fact::Detached(_) => return,
            _ => reading.context.apply(time, fact),
        }
        if let Some(channel) = refused_channel(fact).filter(|_| reading.refused.len() < MAX_REFUSED) {
            reading.refused.insert(channel);
        }
        match fact {
            Fact::Host(host) => reading.host = host.name.as_str().into(),
            Fact::Circuit(circuit) => self.circuit(reading, time, circuit, keyframe),
            Fact::Channel(channel) => self.channel(reading, channel),
            Fact::PvaCircuit(circuit) => {
                let number = reading.open.get(&circuit.circuit).copied();
                let line = number.and_then(|number| Some((number, self.lines.get_mut(number)?)));
                if let Some((number, line)) = line {
                    let ends = reading.context.addresses(circuit.circuit).map(Option::unwrap_or_default);
                    if ends != [&*line.client, &*line.server] {
                        // over IPv6: now its addresses are known
                        [line.client, line.server] = ends.clone();
                        let [client, server] = ends;
                        let ends = [Rc::clone(&reading.host), client.into(), server.into()];
                        self.by_ends.entry(ends).or_default().push(number);
                    }
                    line.is_pva = true;
                    // a client may call itself that, too, but says so in a message, which has a version
                    line.is_encrypted = circuit.version == 0 && circuit.method == "tls";
                    if !circuit.method.is_empty() {
                        line.method.clone_from(&circuit.method);
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes that a client does not take what waits for it, or does again.
    fn slow(&mut self, reading: &Reading, time: u64, of: &SlowClient) {
        let number = match of.circuit {
            Some(circuit) => reading.open.get(&circuit).copied(),
            None => {
                let client = of.client.to_string();
                let is_it =
                    |number: &usize| self.lines.get(*number).is_some_and(|line| line.client == client);
                reading.open.values().copied().find(is_it)
            }
        };
        let Some(line) = number.and_then(|number| self.lines.get_mut(number)) else { return };
        let wall = |time| reading.context.wall(time).unwrap_or(0);
        let updates = of.updates.clone();
        let mut slow = Slow {
            since: wall(of.since),
            until: wall(time),
            is_over: of.is_over,
            unsent: of.unsent,
            window_closed: of.window_closed,
            updates,
            is_whole: of.is_whole,
        };
        let has_room = line.slow.len() < MAX_STALLS;
        match line.slow.last_mut() {
            Some(last) if last.since == slow.since => {
                if slow.updates.is_none() {
                    (slow.updates, slow.is_whole) = (last.updates.take(), last.is_whole);
                }
                *last = slow;
            }
            _ if has_room => line.slow.push(slow),
            _ => {}
        }
    }

    fn circuit(&mut self, reading: &mut Reading, time: u64, circuit: &Circuit, keyframe: bool) {
        let full = self.lines.len() >= MAX_CIRCUITS;
        let line = match reading.open.get(&circuit.id).and_then(|line| self.lines.get_mut(*line)) {
            Some(line) => line,
            None if full => {
                self.left_out += u64::from(!keyframe);
                return;
            }
            None => {
                let seen = reading.context.wall(time).unwrap_or(0);
                // A keyframe repeats what began earlier.
                let opened = circuit.origin == Origin::Opened && !keyframe;
                let number = self.lines.len();
                let [client, server] = reading.context.addresses(circuit.id).map(Option::unwrap_or_default);
                let ends = (Rc::clone(&reading.host), client, server);
                self.lines.push(ClientLine::new(&ends, circuit, seen, opened));
                let (host, client, server) = ends;
                let ends = [host, client.into(), server.into()];
                self.by_ends.entry(ends).or_default().push(number);
                reading.open.insert(circuit.id, number);
                reading.circuits.push((number, circuit.id));
                return;
            }
        };
        // The client tells its names after it has connected.
        let text = |known: &mut String, text: &str| {
            if !text.is_empty() {
                *known = text.to_owned();
            }
        };
        let is_other = |known: &str, now: &str| !known.is_empty() && !now.is_empty() && known != now;
        let is_renamed = is_other(&line.user, &circuit.user) || is_other(&line.client_host, &circuit.host);
        let before = is_renamed.then(|| (line.user.clone(), line.client_host.clone()));
        text(&mut line.user, &circuit.user);
        text(&mut line.client_host, &circuit.host);
        if let Some(before) = before {
            // a user and a host that come together are one name
            let was_valid = line.claimed < time;
            if was_valid && !line.other_names.contains(&before) && line.other_names.len() < MAX_OTHER_NAMES {
                line.other_names.push(before);
            }
            line.claimed = time;
            line.other_names.retain(|(user, host)| (user, host) != (&line.user, &line.client_host));
        }
        line.minor = line.minor.max(circuit.minor);
    }

    fn channel(&mut self, reading: &mut Reading, channel: &Channel) {
        let line = reading.open.get(&channel.circuit).and_then(|line| self.lines.get_mut(*line));
        let Some(line) = line else { return };
        let has_room = !self.without_names && line.names.len() < MAX_NAMES && self.names < MAX_ALL_NAMES;
        if !channel.pv.is_empty() && channel.pv.len() <= MAX_LENGTH && has_room {
            self.names += usize::from(line.names.insert(channel.pv.as_str().into()));
        }
    }

    /// Looks up whose processes are at the ends of a run's circuits.
    fn owners(&mut self, reading: &Reading) {
        let context = &reading.context;
        for (ioc, ended) in &reading.ended {
            if let (Some(ioc), true) = (context.ioc(*ioc), self.lives.len() < MAX_CIRCUITS) {
                let (host, began) = (Rc::clone(&reading.host), context.wall(ioc.start).unwrap_or(i64::MIN));
                self.lives.push(Life { host, ioc: ioc.name.clone(), pid: ioc.pid, began, ended: *ended });
            }
        }
        let mut channels: HashMap<CircuitId, (u64, u64)> = HashMap::new();
        let (mut made, mut refused) = (HashSet::new(), Vec::new());
        for channel in context.in_force().channels.values() {
            let name = (channel.circuit, channel.pv.as_str());
            if reading.refused.contains(&channel.id) {
                refused.push(name);
                continue;
            }
            if !reading.refused.is_empty() {
                made.insert(name);
            }
            let (all, only_put_to) = channels.entry(channel.circuit).or_default();
            let is_named = channel.cid.is_some() || channel.dbr.is_some() || !channel.pv.is_empty();
            *all += 1;
            *only_put_to += u64::from(!is_named);
        }
        let mut never_made: HashMap<CircuitId, Vec<&str>> = HashMap::new();
        for (circuit, pv) in refused.into_iter().filter(|name| !made.contains(name)) {
            never_made.entry(circuit).or_default().push(pv);
        }
        for (number, circuit) in &reading.circuits {
            let Some(line) = self.lines.get_mut(*number) else { continue };
            for pv in never_made.remove(circuit).into_iter().flatten() {
                line.names.remove(pv);
            }
            (line.channels, line.only_put_to) = channels.get(circuit).copied().unwrap_or_default();
            if let Some(ioc) = ioc_of_circuit(context, *circuit) {
                line.ioc.clone_from(&ioc.name);
                line.ioc_pid = Some(ioc.pid);
                // that its client never closed it was noted later
                let noted_late = matches!(line.how, Some(("half_closed" | "replaced", _)));
                let is_it = |ended: &&i64| {
                    line.ended == Ended::No || noted_late && line.disconnected.is_some_and(|at| at > **ended)
                };
                if let Some(ended) = reading.ended.get(&ioc.id).filter(is_it) {
                    (line.disconnected, line.ended) = (Some(*ended), Ended::IocEnded);
                }
            }
            let client = context.circuit_ends(*circuit).and_then(|ends| context.ioc(ends.client?));
            if let Some(client) = client {
                line.client_ioc.clone_from(&client.name);
                line.program.clone_from(&client.exe);
            }
            line.ends = context.circuit(*circuit).map(|of| (of.client, of.server, peers::place(context, of)));
            line.process = Client::of(context, *circuit).map(|of| Box::new(ProcessLine::of(of, None)));
        }
    }

    /// Looks up in the logs of other hosts which process a client of this run was.
    fn learn(&mut self, place: usize, peers: &Peers, run: usize) {
        let Some(line) = self.lines.get_mut(place) else { return };
        let is_known = line.process.as_ref().is_some_and(|of| of.ioc.is_some() || !of.holders.is_empty());
        let Some(ends) = line.ends.filter(|_| !is_known) else { return };
        if let Some((_, joined, client)) = peers.find(run, ends, line.seen) {
            let process = ProcessLine::of((*client).clone(), Some(joined));
            if let Some((name, _, program)) = &process.ioc {
                line.client_ioc.clone_from(name);
                line.program.clone_from(program);
            }
            line.process = Some(Box::new(process));
        }
    }

    /// Counts a put.
    pub fn put(&mut self, put: &PutLine) {
        let (Some(client), Some(server)) = (&put.client, &put.server) else {
            self.without_circuit += u64::from(put.via.is_from_outside());
            return;
        };
        let host = put.host.clone().unwrap_or_default();
        let of_ends = self.by_ends.get(&[host, Rc::clone(client), Rc::clone(server)]);
        let mut lines = of_ends.into_iter().flatten().rev();
        // The latest with these ends that had begun; a put may come on it while it is being noted.
        let begun = |line: &&usize| self.lines.get(**line).is_some_and(|line| line.seen <= put.time);
        let number = lines.find(begun).or(of_ends.and_then(|lines| lines.first())).copied();
        let Some(line) = number.and_then(|number| self.lines.get_mut(number)) else {
            self.without_circuit += 1;
            return;
        };
        line.puts += 1;
        if let (true, Some(ioc)) = (line.ioc.is_empty(), &put.ioc) {
            // The thread that carried the put out shows whose circuit it is.
            line.ioc = ioc.as_ref().to_owned();
            let lived = |life: &&Life| (life.began..=life.ended).contains(&put.time);
            let of = |life: &&Life| *life.ioc == **ioc && life.host == line.host;
            let mut lives = self.lives.iter().filter(of).filter(lived);
            if let (Some(life), None) = (lives.next(), lives.next()) {
                line.ioc_pid = Some(life.pid);
                if line.ended == Ended::No {
                    (line.disconnected, line.ended) = (Some(life.ended), Ended::IocEnded);
                }
            }
        }
        match &*put.status {
            "ok" => {}
            "denied" => line.denied += 1,
            "unknown" => line.unknown += 1,
            _ => line.failed += 1,
        }
        // so EPICS Base's server refuses a number that it has given to no channel (rsrv's logBadId), and closes the circuit
        if put.status == "ECA_INTERNAL" && put.pv.is_none() && line.only_put_to > 0 {
            line.only_put_to -= 1;
            line.channels = line.channels.saturating_sub(1);
        }
        if self.without_names {
            return;
        }
        let pv = put.pv.as_deref().unwrap_or_default();
        match &mut line.last_put {
            Some((time, _)) if *time > put.time => {}
            Some((time, last)) => {
                *time = put.time;
                pv.clone_into(last);
            }
            none => *none = Some((put.time, pv.to_owned())),
        }
        if let Some(count) = line.written.get_mut(pv) {
            *count += 1;
        } else if line.written.len() < MAX_NAMES && self.names < MAX_ALL_NAMES && pv.len() <= MAX_LENGTH {
            self.names += 1;
            let name = line.names.get(pv).map_or_else(|| pv.into(), Rc::clone);
            line.written.insert(name, 1);
        }
    }

    /// The circuits that match, in the order in which they were opened or first seen.
    pub fn lines(self, filter: &Filter) -> Vec<ClientLine> {
        let mut lines: Vec<ClientLine> =
            self.lines.into_iter().filter(|line| line.is_wanted(filter)).collect();
        lines.sort_by_key(|line| (line.connected.unwrap_or(line.seen), line.connected.is_some()));
        lines
    }
}

impl ClientLine {
    fn new(ends: &(Rc<str>, String, String), circuit: &Circuit, seen: i64, opened: bool) -> Self {
        ClientLine {
            run: 0,
            circuit: circuit.id,
            host: Rc::clone(&ends.0),
            ioc: String::new(),
            ioc_pid: None,
            client: ends.1.clone(),
            server: ends.2.clone(),
            user: circuit.user.clone(),
            client_host: circuit.host.clone(),
            other_names: Vec::new(),
            claimed: 0,
            client_ioc: String::new(),
            program: String::new(),
            process: None,
            minor: circuit.minor,
            is_pva: false,
            method: String::new(),
            is_encrypted: false,
            origin: circuit.origin,
            seen,
            connected: Some(seen).filter(|_| opened),
            disconnected: None,
            ended: Ended::No,
            watched: None,
            may_go_on: false,
            how: None,
            stalls: Vec::new(),
            slow: Vec::new(),
            channels: 0,
            only_put_to: 0,
            names: BTreeSet::new(),
            puts: 0,
            denied: 0,
            failed: 0,
            unknown: 0,
            last_put: None,
            written: HashMap::new(),
            net: Vec::new(),
            ends: None,
        }
    }
}
