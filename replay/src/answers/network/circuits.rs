//! Circuits: who connected, how each ended, what was refused, who could not keep up.

use super::counted::{Counted, Room};
use super::rights::{Channels, Rights};
use super::{iocs_by_server, is_pva, place, push, Kind, NetLine, Place, Reading, Served, Who};
use crate::model::run::ioc_of_circuit;
use crate::words::counted;
use epics::eca;
use iocrec_log::event::{
    ChannelId, ChannelReason, CircuitId, CircuitSide, CircuitTraffic, CloseReason, Fact, IocId, Message,
    Origin, PvaMessage, PvaMonitor,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The command of PVAccess that makes a channel.
const CREATE_CHANNEL: u16 = 7;
/// Circuits; a bound for hostile logs.
const MAX_CIRCUITS: usize = 100_000;
/// Monitored channels of all circuits; the same.
const MAX_MONITORED: usize = 100_000;

#[derive(Default)]
struct Open {
    since: i64,
    /// Its opening was seen.
    connected: bool,
    /// The priority that the client asked for; 0 is the usual one.
    priority: u16,
    ended: Option<i64>,
    /// It ended, moved or was forgotten in a part of the log that is missing: `ended` is when it was last known to be open.
    unseen: bool,
    closed: Option<(CloseReason, Option<CircuitSide>)>,
    /// When the process at one of its ends ended, which closes it, and the side that this is.
    process_ended: Option<(i64, &'static str)>,
    off: Off,
    errors: BTreeMap<(u16, u32), Counted>,
    /// The same of PVAccess, and warnings: by command and level.
    messages: BTreeMap<(u16, u16), Counted>,
    refused: BTreeMap<(Kind, &'static str), Counted>,
    rights: Rights,
    traffic: Option<Traffic>,
    /// Echoes that were not answered in time: since, and when they were.
    late: Vec<(i64, Option<i64>)>,
    /// Times in which the client took nothing: since, until at least, whether that was the end.
    stalls: Vec<(i64, i64, bool)>,
    monitored: BTreeMap<ChannelId, Monitored>,
}

/// The monitors that a client of PVAccess had on a channel.
struct Monitored {
    pv: String,
    since: i64,
    /// When the last of them stopped.
    stopped: i64,
    /// How often one started, and how many go on.
    times: u64,
    open: u64,
}

impl Open {
    /// When it ended, if it has.
    fn over(&self) -> Option<i64> {
        let with_process = self.process_ended.map(|(time, _)| time);
        match self.closed {
            Some((CloseReason::Closed | CloseReason::Reset, _)) => self.ended.or(with_process),
            // when that was noted is later than the end, or it was none
            _ => with_process.or(self.ended),
        }
    }
}

/// Times of EVENTS_OFF.
#[derive(Default)]
struct Off {
    times: u64,
    off: u64,
    since: i64,
    last: i64,
    is_off: bool,
}

#[derive(Default)]
struct Traffic {
    since: i64,
    last: i64,
    from_client: u64,
    from_server: u64,
    not_looked_at: u64,
    messages: BTreeMap<Message, u64>,
}

/// See the module.
#[derive(Default)]
pub struct Circuits {
    open: BTreeMap<CircuitId, Open>,
    lines: Vec<NetLine>,
    /// When IOCs ended.
    ended: BTreeMap<IocId, i64>,
    channels: Channels,
    room: Room,
    monitored: usize,
    left_out: u64,
}

impl Circuits {
    /// An IOC ended: the kernel closes its circuits then, whether or not the other side takes notice.
    /// `last_seen`: of an end that nobody saw, the last time before.
    pub(super) fn ioc_ended(&mut self, reading: &Reading, time: u64, ioc: IocId, last_seen: Option<i64>) {
        if self.ended.len() < MAX_CIRCUITS {
            self.ended.insert(ioc, last_seen.unwrap_or(reading.wall(time)));
        }
        for (circuit, open) in &mut self.open {
            let Some(ends) = reading.context.circuit_ends(*circuit) else { continue };
            let side = match ioc {
                _ if open.ended.is_some() => continue,
                ioc if ends.server == Some(ioc) => "server",
                ioc if ends.client == Some(ioc) => "client",
                _ => continue,
            };
            open.unseen |= last_seen.is_some();
            open.process_ended.get_or_insert((last_seen.unwrap_or(reading.wall(time)), side));
        }
    }

    /// After this time a part of the log is missing, of which no later segment tells. Circuits of which nothing was heard
    /// since may have ended in it.
    pub(super) fn unheard(&mut self, gap: i64, heard: &HashSet<CircuitId>) {
        for (circuit, open) in &mut self.open {
            if open.over().is_none() && open.since <= gap && !heard.contains(circuit) {
                (open.ended, open.unseen) = (Some(gap), true);
            }
        }
    }

    /// Takes the end of a circuit, while it is still known. `last_seen`: of an end that nobody saw, the last time before.
    pub(super) fn ending(&mut self, reading: &Reading, time: u64, fact: &Fact, last_seen: Option<i64>) {
        match fact {
            Fact::CircuitEnd(circuit) => {
                if let Some(open) = self.open.get_mut(circuit) {
                    open.ended = Some(last_seen.unwrap_or(reading.wall(time)));
                    open.unseen = last_seen.is_some();
                }
            }
            Fact::CircuitForgotten(circuit) => {
                if let Some(open) = self.open.get_mut(circuit) {
                    open.ended = Some(reading.wall(time));
                    open.closed = Some((CloseReason::Forgotten, None));
                }
            }
            Fact::CircuitClosed(closed) => {
                if let Some(open) = self.open.get_mut(&closed.circuit) {
                    open.closed = Some((closed.reason, closed.by));
                }
            }
            Fact::ChannelClosed(closed) => {
                let (kind, reason) = match closed.reason {
                    ChannelReason::Refused => (Kind::ChannelRefused, "create_failed"),
                    ChannelReason::Disconnected => (Kind::ChannelDisconnected, "server_disconnect"),
                    ChannelReason::Cleared | ChannelReason::Replaced | ChannelReason::Forgotten => return,
                };
                let Some(channel) = reading.context.channel(closed.channel) else { return };
                let wall = reading.wall(time);
                if let Some(open) = self.open.get_mut(&channel.circuit) {
                    let refused = open.refused.entry((kind, reason)).or_default();
                    refused.add(1, wall, wall, Some(&channel.pv), &mut self.room);
                }
            }
            Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => {
                let circuit = reading.context.channel(*channel).map(|channel| channel.circuit);
                if let Some(open) = circuit.and_then(|circuit| self.open.get_mut(&circuit)) {
                    open.rights.ended(*channel);
                }
            }
            _ => {}
        }
    }

    pub(super) fn take(&mut self, reading: &Reading, time: u64, fact: &Fact, keyframe: bool) {
        let wall = reading.wall(time);
        match fact {
            Fact::Circuit(circuit) => {
                if self.open.len() >= MAX_CIRCUITS && !self.open.contains_key(&circuit.id) {
                    self.left_out += 1;
                    return;
                }
                let connected = circuit.origin == Origin::Opened && !keyframe;
                self.open.entry(circuit.id).or_insert_with(|| Open {
                    since: wall,
                    connected,
                    ..Open::default()
                });
            }
            Fact::AccessRights(of) => {
                let pv = reading.context.channel(of.channel).map_or("", |channel| channel.pv.as_str());
                if let Some(open) = self.open.get_mut(&of.circuit) {
                    let bounds = (&mut self.channels, &mut self.room);
                    let has_room = open.rights.told((of.channel, pv), of.rights, wall, bounds);
                    self.left_out += u64::from(!has_room);
                }
            }
            Fact::CircuitPriority(of) => {
                if let Some(open) = self.open.get_mut(&of.circuit) {
                    open.priority = of.priority;
                }
            }
            Fact::EventsOff(of) => {
                if let Some(open) = self.open.get_mut(&of.circuit) {
                    if open.off.times == 0 {
                        open.off.since = reading.wall(of.since);
                    }
                    open.off.times = open.off.times.saturating_add(of.times.into());
                    open.off.off = open.off.off.saturating_add(of.off);
                    (open.off.last, open.off.is_off) = (wall, of.is_off);
                }
            }
            Fact::EchoLate(of) => {
                let Some(open) = self.open.get_mut(&of.circuit) else { return };
                let since = reading.wall(of.since);
                let has_room = open.late.len() < 1000;
                match open.late.iter_mut().rev().find(|(begun, _)| *begun == since) {
                    Some((_, answered)) => *answered = of.is_answered.then_some(wall),
                    None if has_room => open.late.push((since, of.is_answered.then_some(wall))),
                    None => self.left_out += 1,
                }
            }
            Fact::ClientStalled(of) => {
                let Some(open) = self.open.get_mut(&of.circuit) else { return };
                let (since, until) = (reading.wall(of.since), reading.wall(of.until));
                let has_room = open.stalls.len() < 1000;
                match open.stalls.iter_mut().rev().find(|(begun, ..)| *begun == since) {
                    Some(stall) => *stall = (since, until.max(stall.1), of.is_over || stall.2),
                    None if has_room => open.stalls.push((since, until, of.is_over)),
                    None => self.left_out += 1,
                }
            }
            Fact::PvaMessage(of) if is_refusal(of) => {
                let channel = of.channel.and_then(|channel| reading.context.channel(channel));
                let pv = channel.map(|channel| channel.pv.as_str());
                if let Some(open) = self.open.get_mut(&of.circuit) {
                    let key = (Kind::ChannelRefused, "create_failed");
                    open.refused.entry(key).or_default().add(1, wall, wall, pv, &mut self.room);
                }
            }
            // information is for people who ask for it
            Fact::PvaMessage(of) if of.level > 0 => {
                let channel = of.channel.and_then(|channel| reading.context.channel(channel));
                let Some(open) = self.open.get_mut(&of.circuit) else { return };
                if open.messages.len() < 1000 {
                    let counted = open.messages.entry((of.command, of.level)).or_default();
                    let pv = channel.map(|channel| channel.pv.as_str());
                    counted.add(1, wall, wall, pv, &mut self.room);
                    counted.text.clone_from(&of.text);
                }
            }
            Fact::PvaMonitor(of) => self.monitor(reading, wall, of),
            Fact::CaError(of) => {
                let channel = of.channel.and_then(|channel| reading.context.channel(channel));
                let Some(open) = self.open.get_mut(&of.circuit) else { return };
                if open.errors.len() < 1000 {
                    let counted = open.errors.entry((of.command, of.status)).or_default();
                    let pv = channel.map(|channel| channel.pv.as_str());
                    counted.add(of.count.into(), reading.wall(of.since), wall, pv, &mut self.room);
                    counted.text.clone_from(&of.text);
                }
            }
            Fact::CircuitTraffic(of) => self.traffic(reading, wall, of),
            Fact::ChannelTraffic(of) => {
                let Some(channel) = reading.context.channel(of.channel) else { return };
                let mut line = NetLine::new(Kind::ChannelTraffic, reading.host, reading.wall(of.since));
                line.last = Some(wall);
                line.pv.clone_from(&channel.pv);
                self.ends(reading, channel.circuit, &mut line);
                line.count = of.updates;
                line.at_least = !of.complete;
                let least = if of.complete { "" } else { "at least " };
                line.text = format!(
                    "{}, {}, {least}{} of updates",
                    counted(of.gets.into(), "get"),
                    counted(of.subscriptions.into(), "new subscription"),
                    counted(of.bytes, "byte")
                );
                let seconds = wall.saturating_sub(line.since) as f64 / 1e9;
                if of.updates > 0 && seconds >= 1.0 {
                    let rate = |count: u64| count as f64 / seconds;
                    line.text +=
                        &format!(", {least}{:.1} and {:.0} bytes a second", rate(of.updates), rate(of.bytes));
                }
                push(&mut self.lines, line, &mut self.left_out);
            }
            _ => {}
        }
    }

    fn monitor(&mut self, reading: &Reading, wall: i64, of: &PvaMonitor) {
        let Some(open) = self.open.get_mut(&of.circuit) else { return };
        let known = open.monitored.contains_key(&of.channel);
        if !known && (!of.starts || self.monitored >= MAX_MONITORED) {
            self.left_out += u64::from(of.starts);
            return;
        }
        self.monitored += usize::from(!known);
        let monitored = open.monitored.entry(of.channel).or_insert_with(|| Monitored {
            pv: reading.context.channel(of.channel).map_or_else(String::new, |channel| channel.pv.clone()),
            since: wall,
            stopped: wall,
            times: 0,
            open: 0,
        });
        if of.starts {
            monitored.times += 1;
            monitored.open += 1;
        } else {
            monitored.open = monitored.open.saturating_sub(1);
            monitored.stopped = wall;
        }
    }

    fn traffic(&mut self, reading: &Reading, wall: i64, of: &CircuitTraffic) {
        let Some(open) = self.open.get_mut(&of.circuit) else { return };
        let since = reading.wall(of.since);
        let traffic = open.traffic.get_or_insert_with(|| Traffic { since, ..Traffic::default() });
        traffic.last = wall;
        traffic.from_client = traffic.from_client.saturating_add(of.from_client);
        traffic.from_server = traffic.from_server.saturating_add(of.from_server);
        traffic.not_looked_at = traffic.not_looked_at.saturating_add(of.not_looked_at);
        for (message, count) in &of.messages {
            *traffic.messages.entry(*message).or_default() += u64::from(*count);
        }
    }

    /// Names the ends of a circuit in a line.
    fn ends(&self, reading: &Reading, circuit: CircuitId, line: &mut NetLine) {
        let context = reading.context;
        line.circuit = Some(circuit);
        let Some(of) = context.circuit(circuit) else { return };
        let [client, server] = context.addresses(circuit);
        let address = client.unwrap_or_default();
        line.client = Who { address, user: of.user.clone(), host: of.host.clone(), ..Who::default() };
        line.servers = server.into_iter().collect();
        line.is_pva = is_pva(context, circuit);
        if let Some(ioc) = ioc_of_circuit(context, circuit) {
            line.ioc.clone_from(&ioc.name);
        }
        if let Some(client) = context.circuit_ends(circuit).and_then(|ends| context.ioc(ends.client?)) {
            line.client.ioc.clone_from(&client.name);
            line.client.program.clone_from(&client.exe);
            line.client.pid = Some(client.pid);
        }
    }

    /// Names the IOC of a line of a circuit that was over before the recorder could look whose it is: by other circuits of that
    /// server, if the IOC ran when this one began.
    fn name_server(
        &self,
        reading: &Reading,
        served: &HashMap<Place, Served>,
        since: i64,
        line: &mut NetLine,
    ) {
        let context = reading.context;
        let of = line.circuit.and_then(|id| Some((context.circuit(id)?, context.circuit_ends(id)?)));
        let Some((of, ends)) = of.filter(|(of, ends)| of.server.ip != 0 && ends.server.is_none()) else {
            return;
        };
        let served = served.get(&place(ends.namespace, of.server));
        let Some((_, ioc)) = served.and_then(|served| served.range(..=since).next_back()) else { return };
        let runs = self.ended.get(ioc).is_none_or(|ended| since < *ended);
        if let Some(ioc) = context.ioc(*ioc).filter(|_| runs) {
            line.ioc.clone_from(&ioc.name);
        }
    }

    /// The lines, and how much was left out.
    pub(super) fn lines(mut self, reading: &Reading, end: i64) -> (Vec<NetLine>, u64) {
        let served = iocs_by_server(reading.context);
        let all = std::mem::take(&mut self.open);
        let mut room = std::mem::take(&mut self.room);
        for (circuit, open) in &all {
            let new = |kind: Kind, since: i64| {
                let mut line = NetLine::new(kind, reading.host, since);
                self.ends(reading, *circuit, &mut line);
                self.name_server(reading, &served, open.since, &mut line);
                line
            };
            // whether something that was not seen to end goes on; if its circuit ended unseen, nobody knows when that was
            let going_on = |lasts: bool| match open.over() {
                Some(_) if lasts && open.unseen => None,
                over => Some(lasts && over.is_none()),
            };
            let mut lines = Vec::new();
            if open.connected {
                let mut line = NetLine { reason: "opened", ..new(Kind::Connected, open.since) };
                if open.priority > 0 {
                    line.text = format!("priority {}", open.priority);
                }
                lines.push(line);
            }
            if let Some(ended) = open.over().filter(|_| !open.unseen) {
                lines.push(end_of(open, new(Kind::Closed, ended)));
            }
            for ((kind, reason), counted) in &open.refused {
                lines.push(NetLine { reason, ..counted.tell(new(*kind, counted.since)) });
            }
            let denied = |since| new(Kind::NoAccess, since);
            lines.extend(open.rights.lines(open.over().is_none(), &mut room, denied));
            let told = |counted: &Counted, reason, what: &str| {
                let line = counted.tell(new(Kind::Error, counted.since));
                let of = if line.text.is_empty() { String::new() } else { format!(" of {}", line.text) };
                let text = format!("{what}{of}: {}", counted.text);
                NetLine { reason, text, ..line }
            };
            for ((command, status), counted) in &open.errors {
                let reason = eca::name(*status).unwrap_or("unknown_status");
                lines.push(told(counted, reason, &format!("to {}", command_name(*command))));
            }
            for ((command, level), counted) in &open.messages {
                let reason = match level {
                    1 => "warning",
                    2 => "error",
                    3 => "fatal_error",
                    _ => "unknown_status",
                };
                let line = told(counted, reason, &pva_command_name(*command));
                lines.push(NetLine { is_pva: true, ..line });
            }
            if open.off.times > 0 || open.off.is_off {
                let mut line = new(Kind::SlowClient, open.off.since);
                line.last = Some(open.off.last);
                line.count = open.off.times;
                line.duration = i64::try_from(open.off.off).ok();
                line.going_on = going_on(open.off.is_off);
                line.reason = "events_off";
                lines.push(line);
            }
            for (since, until, is_over) in &open.stalls {
                let mut line = new(Kind::SlowClient, *since);
                line.last = Some(*until);
                line.count = 1;
                line.going_on = going_on(!is_over);
                line.duration = Some(until.saturating_sub(*since));
                line.reason = "window_closed";
                lines.push(line);
            }
            for (since, answered) in &open.late {
                let mut line = new(Kind::Unresponsive, *since);
                line.last = *answered;
                line.going_on = going_on(answered.is_none());
                line.duration = Some(answered.or(open.over()).unwrap_or(end).saturating_sub(*since).max(0));
                line.reason = "echo_not_answered";
                lines.push(line);
            }
            for monitored in open.monitored.values() {
                let mut line = new(Kind::Monitored, monitored.since);
                line.pv.clone_from(&monitored.pv);
                line.count = monitored.times;
                line.going_on = going_on(monitored.open > 0);
                let over = open.over().map(|over| over.max(monitored.since));
                line.last = if monitored.open > 0 { over } else { Some(monitored.stopped) };
                lines.push(line);
            }
            if let Some(traffic) = &open.traffic {
                lines.push(traffic_line(traffic, new(Kind::Traffic, traffic.since)));
            }
            for line in lines {
                push(&mut self.lines, line, &mut self.left_out);
            }
        }
        (self.lines, self.left_out)
    }
}

/// Whether a server of PVAccess did not make a channel: by the number of the command, and of an error.
fn is_refusal(of: &PvaMessage) -> bool {
    of.command == CREATE_CHANNEL && of.level >= 2
}

/// The channel that a client asked for and its server did not make, if the fact tells of one.
pub fn refused_channel(fact: &Fact) -> Option<ChannelId> {
    match fact {
        Fact::ChannelClosed(closed) if closed.reason == ChannelReason::Refused => Some(closed.channel),
        Fact::PvaMessage(of) if is_refusal(of) => of.channel,
        _ => None,
    }
}

/// How a circuit ended, and the side that ended it, or nothing; part of the output formats.
pub fn names(reason: CloseReason, by: Option<CircuitSide>) -> (&'static str, &'static str) {
    let reason = match reason {
        CloseReason::Closed => "closed",
        CloseReason::Reset => "reset",
        CloseReason::Replaced => "replaced",
        CloseReason::Forgotten => "forgotten",
        CloseReason::HalfClosed => "half_closed",
        CloseReason::NotCaptured => "not_captured",
        CloseReason::Moved => "moved",
    };
    let by = match by {
        Some(CircuitSide::Client) => "client",
        Some(CircuitSide::Server) => "server",
        None => "",
    };
    (reason, by)
}

/// The end of a circuit.
fn end_of(open: &Open, mut line: NetLine) -> NetLine {
    let Some((reason, by)) = open.closed.filter(|_| open.ended == open.over()) else {
        let Some((_, by)) = open.process_ended else { return NetLine { reason: "unknown", ..line } };
        return NetLine { kind: Kind::Disconnected, reason: "ioc_ended", by, ..line };
    };
    (line.reason, line.by) = names(reason, by);
    let in_order = match reason {
        CloseReason::Closed => by != Some(CircuitSide::Server),
        CloseReason::NotCaptured | CloseReason::Moved => true,
        CloseReason::Reset | CloseReason::Replaced | CloseReason::Forgotten | CloseReason::HalfClosed => {
            false
        }
    };
    line.kind = if in_order { Kind::Closed } else { Kind::Disconnected };
    line
}

fn traffic_line(traffic: &Traffic, mut line: NetLine) -> NetLine {
    let count = |message| traffic.messages.get(&message).copied().unwrap_or(0);
    line.last = Some(traffic.last);
    line.at_least = traffic.not_looked_at > 0;
    line.count = count(Message::Update);
    let more = if line.at_least { "at least " } else { "" };
    let echoes = match count(Message::Echo) {
        1 => "1 echo".to_owned(),
        count => format!("{count} echoes"),
    };
    line.text = format!(
        "{} from the client, {more}{} from the server; {}, {more}{}, {}, {}, {echoes}",
        counted(traffic.from_client, "byte"),
        traffic.from_server,
        counted(count(Message::Subscribe), "new subscription"),
        counted(count(Message::Update), "update"),
        counted(count(Message::Get), "get"),
        counted(count(Message::Put), "put"),
    );
    line
}

/// A command of the protocol, for people.
fn command_name(command: u16) -> String {
    match command {
        1 => "a subscription".to_owned(),
        2 => "the end of a subscription".to_owned(),
        3 | 15 => "a get".to_owned(),
        4 | 19 => "a put".to_owned(),
        12 => "the end of a channel".to_owned(),
        18 => "a new channel".to_owned(),
        other => format!("command {other}"),
    }
}

/// What a server of PVAccess says this about, by the command that it answers, for people.
fn pva_command_name(command: u16) -> String {
    match command {
        7 => "to a new channel".to_owned(),
        9 => "to the name of the user".to_owned(),
        10 => "to a get".to_owned(),
        11 => "to a put".to_owned(),
        12 => "to a put and get".to_owned(),
        13 => "to a monitor".to_owned(),
        16 => "to processing".to_owned(),
        17 => "to a question for a type".to_owned(),
        18 => "by a message".to_owned(),
        20 => "to a call".to_owned(),
        other => format!("to command {other}"),
    }
}
