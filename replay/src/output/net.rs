//! The network: a line for each thing that happened, or went on.

use super::rows::{self, Row};
use crate::answers::network::{Kind, NetLine, Who};
use crate::output::format::Format;
use crate::time::{Zone, SECOND};
use crate::words::age::age;
use crate::words::{counted, ioc, name};
use serde::Serialize;

/// The formats.
pub static FORMATS: [Format<NetLine>; 3] = rows::formats();

/// The keys of a line.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    kind: &'static str,
    /// `ca`, `pva`, or `tcp`: any connection of an IOC.
    protocol: &'static str,
    pv: Option<&'a str>,
    /// Address of the client, and what is known of it.
    client: Option<&'a str>,
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    client_ioc: Option<&'a str>,
    program: Option<&'a str>,
    pid: Option<u32>,
    /// Addresses of the servers.
    servers: &'a [String],
    /// The recorded IOC that is the server.
    ioc: Option<&'a str>,
    /// When the last of it was seen.
    last: Option<String>,
    count: u64,
    /// True if not everything was looked at.
    at_least: bool,
    /// Whether it went on when the log ended; null if that is not known, or makes no sense.
    going_on: Option<bool>,
    reason: Option<&'static str>,
    /// `client` or `server`, or `ioc` or `device`: the side that ended it.
    by: Option<&'static str>,
    duration_ms: Option<f64>,
    /// Since when the server is known to serve the name, if no answer was seen.
    served_since: Option<String>,
    text: Option<&'a str>,
    /// The PVs if it is about several.
    pvs: &'a [String],
}

impl Row for NetLine {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Line {
            time: zone.format(self.since, 9),
            host: known(&self.host),
            kind: self.kind.name(),
            protocol: match self.kind {
                kind if kind.is_of_devices() => "tcp",
                _ if self.is_pva => "pva",
                _ => "ca",
            },
            pv: known(&self.pv),
            client: known(&self.client.address),
            user: known(&self.client.user),
            client_host: known(&self.client.host),
            client_ioc: known(&self.client.ioc),
            program: known(&self.client.program),
            pid: self.client.pid,
            servers: &self.servers,
            ioc: known(&self.ioc),
            last: self.last.map(|last| zone.format(last, 9)),
            count: self.count,
            at_least: self.at_least,
            going_on: self.going_on,
            reason: Some(self.reason).filter(|reason| !reason.is_empty()),
            by: Some(self.by).filter(|by| !by.is_empty()),
            duration_ms: self.duration.map(|duration| duration as f64 / 1e6),
            served_since: self.served_since.map(|since| zone.format(since, 9)),
            text: known(&self.text),
            pvs: &self.pvs,
        }
    }

    fn text(&self, zone: &Zone) -> String {
        let protocol = if self.is_pva { "PVAccess: " } else { "" };
        let mut line = format!("{}  {protocol}{}", zone.format(self.since, 3), what(self, zone));
        if !self.text.is_empty() && self.kind != Kind::SearchStorm {
            line += "; ";
            line += &self.text;
        }
        line
    }
}

/// What happened, without its time.
fn what(line: &NetLine, zone: &Zone) -> String {
    let who = who(&line.client);
    let server = server(line);
    let pv = if line.pv.is_empty() { counted(line.count, "channel") } else { line.pv.clone() };
    // of several, how often is told, and which
    let channels = if line.pv.is_empty() { "channels" } else { line.pv.as_str() };
    let least = if line.at_least { "at least " } else { "" };
    let times = format!("{least}{}", times(line.count));
    let last = line.last.map(|last| zone.format(last, 3)).unwrap_or_default();
    let long = line.duration.map(age).unwrap_or_default();
    let device = line.servers.join(", ");
    match line.kind {
        Kind::Unanswered | Kind::Searched => {
            let how = match line.reason {
                "not_found" => "the name server has it not".to_owned(),
                "no_answer_seen" => "no answer was seen".to_owned(),
                "served" => {
                    let since = line.served_since.map(|since| zone.format(since, 3)).unwrap_or_default();
                    format!(
                        "served to this address by {} since {since}; its answer was not seen",
                        line.servers.join(", ")
                    )
                }
                "answer_may_be_unseen" => "no answer was seen, but there may have been one".to_owned(),
                _ => format!("answered by {}", line.servers.join(", ")),
            };
            let still = match (line.going_on, line.duration) {
                (None | Some(true), Some(_)) => format!("last {long} before the end of the log"),
                _ => format!("last at {last}"),
            };
            format!("{} searched for by {who}, {times}, {still}: {how}", line.pv)
        }
        Kind::SeveralServers => {
            format!("{} is served by several: {}; last at {last}", line.pv, line.servers.join(", "))
        }
        Kind::SearchStorm => {
            let about = if line.reason == "estimated" { "about " } else { "" };
            format!("{least}{about}{} searches until {last}: {}", line.count, line.text)
        }
        Kind::ServerStarted => format!("server {server} started"),
        Kind::ServerSeen => format!("server {server} sends beacons"),
        // which may have been another server's
        Kind::ServerRestarted => {
            format!("server {server} started again, {long} after the beacon before from its address")
        }
        Kind::BeaconsIrregular => {
            let how = match line.reason {
                "numbers_skipped" => "beacons were missed, or two servers share the address",
                "numbers_back" => "two servers may share the address, or another program sent it",
                _ => "sooner than usual",
            };
            format!("a beacon of server {server} came out of step ({how}), {long} after the one before")
        }
        Kind::BeaconsMissing => match line.going_on {
            Some(true) => format!("server {server} sent its last beacon, {long} before the end of the log"),
            Some(false) => format!("server {server} sent no beacon for {long}, until {last}"),
            None => format!(
                "server {server} sent its last beacon that is known; a part of the log is missing after it"
            ),
        },
        Kind::Connected => format!("{who} connected to {server}"),
        Kind::Closed | Kind::Disconnected => {
            let how = match (line.reason, line.by) {
                ("closed", "client") => "the client closed the circuit".to_owned(),
                ("closed", "server") => "the server closed the circuit".to_owned(),
                ("closed", _) => "the circuit was closed".to_owned(),
                ("reset", "") => "the circuit was reset".to_owned(),
                ("reset", by) => format!("the {by} broke the circuit off (RST)"),
                ("replaced", _) => "another connection took its place, so its end was not seen".to_owned(),
                ("forgotten", _) => "too many are open, so the recorder forgot it; it may be open".to_owned(),
                ("half_closed", "") => {
                    "one side closed the circuit up to a minute before, the other did not".to_owned()
                }
                ("half_closed", by) => {
                    format!("the {by} closed the circuit up to a minute before, the other side did not")
                }
                ("not_captured", _) => "its packets are no longer captured there; it may be open".to_owned(),
                ("ioc_ended", "server") => "the IOC that served it ended".to_owned(),
                ("ioc_ended", _) => "the IOC that was its client ended".to_owned(),
                ("moved", _) => "it is recorded at the server from now on".to_owned(),
                _ => "it ended; how is not known".to_owned(),
            };
            format!("{who} and {server}: {how}")
        }
        Kind::ChannelRefused => format!("{server} did not make {channels} for {who}, {times}"),
        Kind::ChannelDisconnected => format!("{server} ended {channels} of {who}, {times}"),
        Kind::NoAccess => {
            let what = match line.reason {
                "no_write" => "write",
                "no_read" => "read",
                _ => "read or write",
            };
            match line.going_on {
                Some(false) => format!("{who} was not allowed to {what} {pv} on {server} until {last}"),
                _ => {
                    // some may have been denied from the beginning, the others since access security changed
                    let later = line.last.filter(|last| last.saturating_sub(line.since) >= SECOND as i64);
                    let later = later.map(|_| format!(", the last of them since {last}")).unwrap_or_default();
                    format!("{who} may not {what} {pv} on {server}{later}")
                }
            }
        }
        Kind::SlowClient if line.reason == "window_closed" => {
            let until = match line.going_on {
                Some(false) => format!("until {last}"),
                _ => format!("at least until {last}, and its end was not seen"),
            };
            format!("{who} took nothing from {server} for {long}, {until}: its window was closed, and data waited")
        }
        Kind::SlowClient => {
            let still = if line.going_on == Some(true) { ", and they still are" } else { "" };
            format!(
                "{who} could not keep up with {server}: updates were off {times}, {long} in all, until {last}{still}"
            )
        }
        Kind::Unresponsive => match line.last {
            Some(_) => format!("{server} answered an ECHO of {who} after {long}"),
            None => format!("{server} did not answer an ECHO of {who} in {long}"),
        },
        Kind::DeviceConnected if line.at_least => {
            format!("{} was connected with {device} when the recorder looked first", line.ioc)
        }
        Kind::DeviceConnected => format!("{} connected with {device}", line.ioc),
        Kind::DeviceUnreachable => {
            format!("{} asked for a connection with {device}: none came about", line.ioc)
        }
        Kind::DeviceDisconnected => {
            let how = match (line.reason, line.by) {
                ("closed", "device") => "the device closed the connection",
                ("closed", _) => "the IOC closed the connection",
                ("broken_off", _) => {
                    "the connection broke off (a reset, a time-out, or the IOC shut it down: which is not known)"
                }
                _ => "the connection ended; by whom is not known",
            };
            let again = match line.going_on {
                Some(false) => format!(", connected again at {last}"),
                Some(true) => ", not seen to connect again".to_owned(),
                None => String::new(),
            };
            format!("{} and device {device}: {how}{again}", line.ioc)
        }
        Kind::Retransmissions => {
            let what = counted(line.count, "segment");
            format!("{} had to send {what} again to {device}, in all until {last}", line.ioc)
        }
        Kind::Error => {
            let what = match line.reason {
                "warning" => "a warning",
                "error" => "an error",
                "fatal_error" => "a fatal error",
                other => other,
            };
            format!("{server} answered {who} with {what} {times}")
        }
        Kind::Traffic => format!("between {who} and {server} until {last}"),
        Kind::Monitored => {
            let until = match line.going_on {
                Some(true) => "and still does".to_owned(),
                Some(false) => format!("until {last}"),
                None => format!("at least until {last}, and its end was not seen"),
            };
            let pv = if line.pv.is_empty() { "a PV whose name was not seen" } else { &line.pv };
            let again = if line.count > 1 { format!(", {times}") } else { String::new() };
            format!("{who} monitored {pv} on {server}, {until}{again}")
        }
        Kind::ChannelTraffic => {
            format!(
                "{} for {who} from {server} until {last}: {least}{}",
                line.pv,
                counted(line.count, "update")
            )
        }
        Kind::Repeater => {
            format!("repeater {server}: {} until {last}", counted(line.count, "registration"))
        }
    }
}

/// What happened to a connection with a device, in few words, without its time and the device's address. `clock`: how a
/// time is shown.
pub fn of_device(line: &NetLine, clock: &dyn Fn(i64) -> String) -> String {
    let what = match (line.kind, line.by) {
        (Kind::Retransmissions, _) => format!("{} sent again", counted(line.count, "segment")),
        (Kind::DeviceUnreachable, _) => "no connection came about".to_owned(),
        (_, "device") => "closed by the device".to_owned(),
        (_, "ioc") => "closed by the IOC".to_owned(),
        _ if line.reason == "broken_off" => "broke off by a reset, a time-out or shutdown()".to_owned(),
        _ => "ended, by whom is not known".to_owned(),
    };
    match (line.kind, line.going_on, line.last) {
        (Kind::Retransmissions, ..) => what,
        (_, Some(false), Some(last)) => format!("{what}, connected again at {}", clock(last)),
        _ => what,
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// The client, as far as it is known.
fn who(client: &Who) -> String {
    let mut known = match (client.user.is_empty(), client.host.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("?@{}", name(&client.host)),
        (false, true) => name(&client.user),
        (false, false) => format!("{}@{}", name(&client.user), name(&client.host)),
    };
    let mut add = |text: &str| {
        if !text.is_empty() {
            known += if known.is_empty() { "" } else { " " };
            known += text;
        }
    };
    add(&client.address);
    let program = match (client.ioc.is_empty(), client.program.is_empty(), client.pid) {
        (false, ..) => format!("(IOC {})", ioc(&client.ioc)),
        (true, false, Some(pid)) => format!("({}, pid {pid})", name(&client.program)),
        (true, false, None) => format!("({})", name(&client.program)),
        (true, true, _) => String::new(),
    };
    add(&program);
    if known.is_empty() {
        "several clients".to_owned()
    } else {
        known
    }
}

/// The server, as far as it is known.
fn server(line: &NetLine) -> String {
    let at = line.servers.join(", ");
    match (line.ioc.is_empty(), at.is_empty()) {
        (true, true) => "an unknown server".to_owned(),
        (true, false) => at,
        (false, _) => format!("{} ({at})", line.ioc),
    }
}
