//! Clients: a line for each circuit.

use super::puts::process;
use super::rows::{self, Row};
use crate::answers::clients::{ClientLine, Ended, Slow};
use crate::answers::network::Kind;
use crate::output::format::Format;
use crate::time::Zone;
use crate::wording::put::process_name;
use crate::words::{self, counted};
use iocrec_log::event::{Origin, Updates};
use serde::Serialize;
use std::fmt::Write as _;

/// The formats.
pub static FORMATS: [Format<ClientLine>; 3] = rows::formats();

/// PVs listed of those most written to.
const MOST: usize = 5;
/// Names of channels listed.
const MAX_CHANNELS: usize = 1000;

/// The keys of a line.
#[derive(Serialize)]
pub struct Line<'a> {
    host: Option<&'a str>,
    /// The IOC that it is connected to.
    ioc: Option<&'a str>,
    /// Addresses of the client and of the server.
    client: &'a str,
    server: &'a str,
    /// The names that the client claims.
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    /// The recorded IOC that is the client, and its program.
    client_ioc: Option<&'a str>,
    program: Option<&'a str>,
    minor_version: Option<u16>,
    /// `opened`, `mid_stream` or `memory`: how the recorder came to know it.
    origin: &'static str,
    first_seen: String,
    /// Null if it was connected before it was first seen.
    connected: Option<String>,
    disconnected: Option<String>,
    /// `open` when its recording ended, `closed`, `ioc_ended`, or `forgotten`.
    state: &'static str,
    channels: u64,
    puts: u64,
    denied: u64,
    /// Puts that were refused for another reason.
    failed: u64,
    /// Puts whose outcome is not known.
    unknown: u64,
    last_put: Option<String>,
    last_pv: Option<&'a str>,
    /// The PVs most written to, each with the number of puts.
    most_written: Vec<(&'a str, u64)>,
    /// Names of its channels, the first in alphabetical order if they are many.
    channel_names: Vec<&'a str>,
    /// `ca` or `pva`, and for the latter how the client introduced itself.
    protocol: &'static str,
    method: Option<&'a str>,
    /// How it ended, and the side that ended it, as in `iocreplay net`; null if that is not known.
    end_reason: Option<&'static str>,
    ended_by: Option<&'static str>,
    /// The process, as in `iocreplay puts`; null if no log tells.
    process: serde_json::Value,
    /// Times in which it took nothing, and data waited for it: `since`, `until` at least, `over`.
    stalls: Vec<serde_json::Value>,
    /// Times in which data waited in the server's socket and it did not keep up: `since`, `until` (the last note of it),
    /// `over`, `unsent_bytes`, `window_closed`, `updates` (`pv`, `pending`, `replaced`), `all_updates`.
    slow: Vec<serde_json::Value>,
    /// Of one that was not seen to end: until when it was watched.
    watched_until: Option<String>,
    /// What it claimed to be at other times on this circuit: `user`, `client_host`.
    other_names: Vec<serde_json::Value>,
    /// What was unusual on it, what it monitored and what went over it: lines of `iocreplay net`.
    net: Vec<serde_json::Value>,
}

impl Row for ClientLine {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let time = |time: i64| zone.format(time, 9);
        Line {
            host: known(&self.host),
            ioc: known(&self.ioc),
            client: &self.client,
            server: &self.server,
            user: known(&self.user),
            client_host: known(&self.client_host),
            client_ioc: known(&self.client_ioc),
            program: known(&self.program),
            minor_version: Some(self.minor).filter(|minor| *minor > 0),
            origin: match self.origin {
                Origin::Opened => "opened",
                Origin::MidStream => "mid_stream",
                Origin::Memory => "memory",
            },
            first_seen: time(self.seen),
            connected: self.connected.map(time),
            disconnected: self.disconnected.map(time),
            state: self.ended.name(),
            channels: self.channels,
            puts: self.puts,
            denied: self.denied,
            failed: self.failed,
            unknown: self.unknown,
            last_put: self.last_put.as_ref().map(|(at, _)| time(*at)),
            last_pv: self.last_put.as_ref().and_then(|(_, pv)| known(pv)),
            most_written: self.most_written().into_iter().take(MOST).collect(),
            channel_names: self.names.iter().take(MAX_CHANNELS).map(|name| &**name).collect(),
            protocol: if self.is_pva { "pva" } else { "ca" },
            method: known(&self.method),
            end_reason: self.how.map(|(reason, _)| reason),
            ended_by: self.how.map(|(_, by)| by).filter(|by| !by.is_empty()),
            process: self.process.as_deref().map_or(serde_json::Value::Null, process),
            stalls: self
                .stalls
                .iter()
                .map(|(since, until, over)| {
                    serde_json::json!({ "since": time(*since), "until": time(*until), "over": over })
                })
                .collect(),
            slow: self.slow.iter().map(|slow| slow_json(slow, zone)).collect(),
            watched_until: self.watched.filter(|_| self.disconnected.is_none()).map(time),
            other_names: self
                .other_names
                .iter()
                .map(
                    |(user, host)| serde_json::json!({ "user": known(user), "client_host": known(host) }),
                )
                .collect(),
            net: self.net.iter().filter_map(|of| serde_json::to_value(of.line(zone)).ok()).collect(),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        let name = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
        let claimed =
            |user: &str, host: &str| format!("{}@{}", words::name(&name(user)), words::name(&name(host)));
        let who = claimed(&self.user, &self.client_host);
        let mut line = format!("{who:<24}  {:<21}  {:<10}", self.client, name(&self.ioc));
        let from = match self.connected {
            Some(connected) => format!("from {}", zone.format(connected, 3)),
            None => format!("before {}", zone.format(self.seen, 3)),
        };
        let to = match (self.ended, self.disconnected) {
            (Ended::No, _) => match self.watched {
                Some(time) if self.may_go_on => {
                    format!("not seen to end; a part of the log is missing after {}", zone.format(time, 3))
                }
                Some(time) => format!("still connected when its recording ended, {}", zone.format(time, 3)),
                None => "not seen to end".to_owned(),
            },
            (Ended::Forgotten, _) => {
                "connected until the recorder forgot it: more were open than it keeps".to_owned()
            }
            (Ended::Closed, Some(time)) => {
                let how = match self.how {
                    Some(("reset", by)) if !by.is_empty() => format!(" (broken off by the {by})"),
                    Some(("closed", "server")) => " (closed by the server)".to_owned(),
                    Some(("half_closed", by)) if !by.is_empty() => {
                        format!(" (closed by the {by} up to a minute before, but not by the other side)")
                    }
                    Some(("half_closed", _)) => {
                        " (closed by one side only, up to a minute before)".to_owned()
                    }
                    Some(("replaced", _)) => " (another took its place, its end was not seen)".to_owned(),
                    _ => String::new(),
                };
                format!("to {}{how}", zone.format(time, 3))
            }
            (Ended::Closed, None) => "closed at an unknown time".to_owned(),
            (Ended::IocEnded, Some(time)) => format!("to {} (the IOC ended)", zone.format(time, 3)),
            (Ended::IocEnded, None) => "until the IOC ended".to_owned(),
        };
        let _ = write!(line, "  {from} {to}  {}", counted(self.channels, "channel"));
        let _ = write!(line, ", {}", counted(self.puts, "put"));
        if self.is_pva {
            line.push_str(" over PVAccess");
        }
        if self.is_encrypted {
            line.push_str(", which is encrypted: what came on it is not seen");
        }
        let parts = [(self.denied, "denied"), (self.failed, "failed"), (self.unknown, "of unknown outcome")];
        for (count, what) in parts.iter().filter(|(count, _)| *count > 0) {
            let _ = write!(line, ", {count} {what}");
        }
        if !self.other_names.is_empty() {
            let before = self.other_names.iter().map(|(user, host)| claimed(user, host));
            let _ = write!(line, "  also said to be {}", before.collect::<Vec<_>>().join(", "));
        }
        if !self.client_ioc.is_empty() {
            let (ioc, program) = (words::ioc(&self.client_ioc), words::name(&self.program));
            let _ = write!(line, "  is IOC {ioc} ({program})");
        }
        if let Some(by) = self.process.as_deref().and_then(process_name) {
            let _ = write!(line, "  is {by}");
        }
        if let Some((since, until, over)) = self.stalls.last() {
            let times = if self.stalls.len() == 1 { "" } else { "last " };
            let until = match over {
                true => format!("to {}", zone.format(*until, 3)),
                false => format!("at least to {}", zone.format(*until, 3)),
            };
            let _ = write!(line, "  took nothing {times}from {} {until}", zone.format(*since, 3));
        }
        if let Some(slow) = self.slow.last() {
            let _ = write!(line, "  {}", slow_text(slow, zone));
        }
        let unusual = unusual(self);
        if !unusual.is_empty() {
            let _ = write!(line, "  {unusual}");
        }
        let most: Vec<String> = self
            .most_written()
            .iter()
            .take(MOST)
            .map(|(pv, count)| format!("{} {count}x", name(pv)))
            .collect();
        if !most.is_empty() {
            let _ = write!(line, "  wrote {}", most.join(", "));
            let more = self.written.len().saturating_sub(MOST);
            if more > 0 {
                let _ = write!(line, " and {more} more");
            }
        }
        if let Some((time, pv)) = &self.last_put {
            let _ = write!(line, "; last {} at {}", name(pv), zone.format(*time, 3));
        }
        line
    }
}

/// What was unusual on a circuit, in few words.
fn unusual(line: &ClientLine) -> String {
    let kinds = [
        (Kind::ChannelRefused, "channel", " refused"),
        (Kind::ChannelDisconnected, "channel", " ended by the server"),
        (Kind::NoAccess, "channel", " without all rights"),
        (Kind::Error, "error", ""),
        (Kind::Unresponsive, "ECHO", " not answered in time"),
        (Kind::SlowClient, "time", " asked for no updates (EVENTS_OFF)"),
    ];
    let told = kinds.iter().filter_map(|(kind, noun, what)| {
        let of_kind = line.net.iter().filter(|of| of.kind == *kind && of.reason != "warning");
        let count: u64 = of_kind.map(|of| of.count).fold(0, u64::saturating_add);
        (count > 0).then(|| format!("{}{what}", counted(count, noun)))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The keys of a time in which a client was slow.
pub fn slow_json(slow: &Slow, zone: &Zone) -> serde_json::Value {
    let updates = |updates: &Updates| serde_json::json!({ "pv": updates.pv, "pending": updates.pending, "replaced": updates.replaced });
    serde_json::json!({
        "since": zone.format(slow.since, 9),
        "until": zone.format(slow.until, 9),
        "over": slow.is_over,
        "unsent_bytes": slow.unsent,
        "window_closed": slow.window_closed,
        "updates": slow.updates.as_ref().map(|all| all.iter().map(updates).collect::<Vec<_>>()),
        "all_updates": slow.is_whole && slow.updates.is_some(),
    })
}

/// That a client was slow, in few words, without its beginning. `clock`: how a time is shown.
pub fn slow_words(slow: &Slow, clock: &dyn Fn(i64) -> String) -> String {
    let until = if slow.is_over { "until" } else { "at least until" };
    let mut text = format!("did not keep up {until} {}", clock(slow.until));
    if slow.window_closed {
        text += ", its window was closed";
    }
    let replaced: u64 =
        slow.updates.iter().flatten().filter_map(|of| of.replaced).fold(0, u64::saturating_add);
    if replaced > 0 {
        let least = if slow.is_whole { "" } else { "at least " };
        let _ = write!(text, ", {least}{} replaced since it subscribed", counted(replaced, "update"));
    }
    text
}

/// That a client was slow, for people.
fn slow_text(slow: &Slow, zone: &Zone) -> String {
    let until = if slow.is_over { "to" } else { "at least to" };
    let mut text = format!("slow from {} {until} {}", zone.format(slow.since, 3), zone.format(slow.until, 3));
    if slow.window_closed {
        text += ", its window was closed";
    }
    if !slow.is_over {
        let _ = write!(text, ", {} waited in the socket", counted(slow.unsent.into(), "byte"));
    }
    let Some(updates) = &slow.updates else { return text };
    let lost =
        updates.iter().filter_map(|of| of.replaced.filter(|count| *count > 0).map(|count| (&of.pv, count)));
    let lost: Vec<String> =
        lost.take(MOST).map(|(pv, count)| format!("{} of {pv} replaced", counted(count, "update"))).collect();
    if !lost.is_empty() {
        let _ = write!(text, ", since it subscribed {}", lost.join(", "));
    }
    let uncounted = updates.iter().filter(|of| of.replaced.is_none());
    let uncounted: Vec<&str> = uncounted.take(MOST).map(|of| of.pv.as_str()).collect();
    if !uncounted.is_empty() {
        let _ = write!(text, ", those of {} are not counted", uncounted.join(", "));
    }
    text
}

/// The names of the channels, for people.
pub fn channels(line: &ClientLine) -> String {
    let names: Vec<&str> = line.names.iter().take(MAX_CHANNELS).map(|name| &**name).collect();
    let more = line.names.len().saturating_sub(MAX_CHANNELS);
    match more {
        0 => names.join(" "),
        more => format!("{} and {more} more", names.join(" ")),
    }
}
