//! The last minute of an IOC as one row, with longer lists than fit on a screen.

use super::{known, rate};
use crate::answers::clients::{ClientLine, Slow};
use crate::answers::last::{Ending, Last};
use crate::answers::values::RESTARTED;
use crate::model::alarms::AlarmLine;
use crate::model::enum_strings::{severity_name, status_name};
use crate::model::putlog::PutLine;
use crate::model::value;
use crate::output::clients::slow_json;
use crate::output::rows::Row;
use crate::output::{console, net, stuck};
use crate::reading::ended_unseen::UNSEEN;
use crate::time::{Zone, SECOND};
use crate::wording::inputs::words;
use crate::wording::put::who;
use serde::Serialize;
use std::borrow::Cow;

/// Items of a list in JSON.
const MOST: usize = 1000;

/// The keys of the row.
#[derive(Serialize)]
pub struct Keys<'a> {
    host: Option<&'a str>,
    ioc: &'a str,
    pid: u32,
    /// Number of other processes that match.
    others: usize,
    /// `ended`, `not_recorded`, `log_ends` or `asked`: what the minute ends with.
    until: &'static str,
    /// How the IOC ended, or why it was no longer recorded; null where that is not known.
    how: Option<&'a str>,
    started: Option<String>,
    end: String,
    /// By when it had ended, if that was not seen.
    ended_by: Option<String>,
    uptime_s: Option<f64>,
    /// Begin of the minute, as far as it was recorded, and of the time with which it is compared.
    from: String,
    before: Option<String>,
    not_seen: Vec<NotSeenKeys<'a>>,
    /// Whether chains were left out: counts and rates are minima.
    sampled: bool,
    /// Whether something was lost in the time before the minute: counts and rates there are minima.
    lost_before: bool,
    begun: Vec<BegunKeys<'a>>,
    unanswered: Vec<PutKeys<'a>>,
    threads: Vec<ThreadKeys<'a>>,
    puts: Vec<PutKeys<'a>>,
    alarms: Vec<AlarmKeys<'a>>,
    /// Records in alarm at the end; null where processing was not recorded.
    in_alarm: Option<usize>,
    /// Records in alarm when they were last seen, of which that is not known at the end.
    in_alarm_when_seen: usize,
    clients: Vec<ClientKeys<'a>>,
    /// What it printed in the minute, with the keys of `iocreplay console`.
    console: Vec<console::Line<'a>>,
    /// Its threads that stood still, with the keys of `iocreplay stuck`.
    stuck: Vec<stuck::Line<'a>>,
    /// Connections with devices that ended, and what it sent again, with the keys of `iocreplay net`.
    devices: Vec<net::Line<'a>>,
    /// Clients that did not keep up: `client`, and the keys of `slow` of `iocreplay clients`.
    slow: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct NotSeenKeys<'a> {
    from: String,
    to: String,
    cause: &'a str,
}

#[derive(Serialize)]
struct BegunKeys<'a> {
    time: String,
    record: &'a str,
    thread: Option<&'a str>,
    /// Whether the recorder saw later that it was still active.
    active: bool,
    /// Whether it had asked for a callback after a delay.
    waits: bool,
    cause: &'a str,
}

#[derive(Serialize)]
struct ThreadKeys<'a> {
    thread: Option<&'a str>,
    count: usize,
    last: String,
    record: Option<&'a str>,
    /// Records processed in the minute, and in the time before; and per second.
    processed: u64,
    processed_before: u64,
    rate: Option<f64>,
    rate_before: Option<f64>,
}

#[derive(Serialize)]
struct PutKeys<'a> {
    time: String,
    pv: Option<&'a str>,
    old: serde_json::Value,
    new: serde_json::Value,
    requested: serde_json::Value,
    status: &'a str,
    via: &'static str,
    by: String,
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    client: Option<&'a str>,
}

#[derive(Serialize)]
struct AlarmKeys<'a> {
    time: String,
    record: &'a str,
    what: &'static str,
    from_severity: Option<&'static str>,
    from_status: Option<&'static str>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    cause: Option<Cow<'a, str>>,
    /// What is known of the inputs, in words, if no put began it.
    inputs: Vec<String>,
    /// `process`, or `snapshot` if the recorder found it so: since when is not known.
    source: &'static str,
    changes: u64,
}

#[derive(Serialize)]
struct ClientKeys<'a> {
    client: &'a str,
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    client_ioc: Option<&'a str>,
    channels: u64,
    puts: u64,
}

/// The row.
pub fn keys<'a>(last: &'a Last, zone: &'a Zone) -> Keys<'a> {
    let time = |time: i64| zone.format(time, 9);
    let put = |put| put_keys(put, zone);
    let process = &last.process;
    let (until, how) = match &last.ending {
        Ending::Ended(how) => ("ended", known(how)),
        Ending::Unseen(_) => ("ended", Some(UNSEEN)),
        Ending::NotRecorded(cause) => ("not_recorded", known(cause)),
        Ending::Replaced => ("not_recorded", Some(RESTARTED)),
        Ending::LogEnds => ("log_ends", None),
        Ending::RunEnds => ("run_ends", None),
        Ending::Asked => ("asked", None),
    };
    Keys {
        host: known(&process.host),
        ioc: &process.ioc,
        pid: process.pid,
        others: last.others,
        until,
        how,
        started: process.started.map(time),
        end: time(last.end),
        ended_by: match last.ending {
            Ending::Unseen(by) => Some(time(by)),
            Ending::Replaced => process.replaced.map(|(_, by)| time(by)),
            _ => None,
        },
        uptime_s: process.ran_until(last.end).map(|ran| ran as f64 / SECOND as f64),
        from: time(last.from),
        before: (last.before < last.from).then(|| time(last.before)),
        not_seen: last
            .not_seen
            .iter()
            .map(|seen| NotSeenKeys { from: time(seen.from), to: time(seen.to), cause: &seen.cause })
            .collect(),
        sampled: last.sampled,
        lost_before: last.lost_before,
        begun: last
            .begun
            .iter()
            .map(|begun| BegunKeys {
                time: time(begun.time),
                record: &begun.record,
                thread: known(&begun.thread),
                active: begun.active,
                waits: begun.waits,
                cause: &begun.cause,
            })
            .collect(),
        unanswered: last.unanswered.iter().map(|unanswered| put(&unanswered.put)).collect(),
        threads: last
            .threads
            .iter()
            .take(MOST)
            .map(|thread| ThreadKeys {
                thread: known(&thread.name),
                count: thread.threads,
                last: time(thread.last),
                record: known(&thread.record),
                processed: thread.in_minute,
                processed_before: thread.before,
                rate: rate(last, thread.in_minute, last.from, last.end),
                rate_before: rate(last, thread.before, last.before, last.from),
            })
            .collect(),
        puts: last.puts.iter().map(|line| put(line)).collect(),
        alarms: last.alarms.iter().map(|line| alarm_keys(line, zone)).collect(),
        in_alarm: (last.in_alarm > 0 || !last.packets_only).then_some(last.in_alarm),
        in_alarm_when_seen: last.in_alarm_when_seen,
        clients: last.clients.iter().take(MOST).map(client_keys).collect(),
        console: last.said.iter().map(|row| row.line(zone)).collect(),
        stuck: last.hangs.iter().map(|row| row.line(zone)).collect(),
        devices: last.devices.iter().map(|line| line.line(zone)).collect(),
        slow: last.slow.iter().take(MOST).map(|(line, slow)| slow_of(line, slow, zone)).collect(),
    }
}

fn slow_of(line: &ClientLine, slow: &Slow, zone: &Zone) -> serde_json::Value {
    let mut keys = slow_json(slow, zone);
    keys["client"] = line.client.as_str().into();
    keys
}

fn put_keys<'a>(put: &'a PutLine, zone: &Zone) -> PutKeys<'a> {
    PutKeys {
        time: zone.format(put.time, 9),
        pv: put.pv.as_deref(),
        old: value::json(&put.old),
        new: value::json(&put.new),
        requested: value::json(&put.requested),
        status: &put.status,
        via: put.via.name(),
        by: who(put),
        user: put.user.as_deref(),
        client_host: put.client_host.as_deref(),
        client: put.client.as_deref(),
    }
}

fn alarm_keys<'a>(line: &'a AlarmLine, zone: &Zone) -> AlarmKeys<'a> {
    AlarmKeys {
        time: zone.format(line.time, 9),
        record: &line.place.record,
        what: line.what.name(),
        from_severity: line.from.map(|from| severity_name(from.0)),
        from_status: line.from.map(|from| status_name(from.1)),
        severity: line.to.map(|to| severity_name(to.0)),
        status: line.to.map(|to| status_name(to.1)),
        cause: line.cause.as_ref().map(|cause| cause.text.text()),
        inputs: line.inputs.iter().map(words).collect(),
        source: line.source.name(),
        changes: line.changes,
    }
}

fn client_keys(line: &ClientLine) -> ClientKeys<'_> {
    ClientKeys {
        client: &line.client,
        user: known(&line.user),
        client_host: known(&line.client_host),
        client_ioc: known(&line.client_ioc),
        channels: line.channels,
        puts: line.puts,
    }
}
