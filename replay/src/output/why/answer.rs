//! The answer to why a PV changed, as text and as JSON.

use super::inputs::Source;
use super::sources::{Lead, Link, Meanwhile};
use super::steps::Step;
use crate::answers::console::Row;
use crate::answers::hangs::{Hang, What};
use crate::answers::network::{Kind, NetLine};
use crate::model::alarms::Alarm;
use crate::model::enum_strings::{self, severity_name};
use crate::out::{add, line, Out};
use crate::output::console::said;
use crate::output::net::of_device;
use crate::shown_names::with_pid;
use crate::time::Zone;
use crate::wording::alarm;
use crate::words::counted;
use serde::Serialize;
use std::io;

/// How long before an alarm a device's connection may have ended to be named, and how long after: the recorder looks once a
/// second, or more seldom where looks are dear, and drivers mostly try again for some seconds. Nanoseconds.
const BEFORE_ALARM: i64 = 5_000_000_000;
const AFTER_ALARM: i64 = 1_500_000_000;
/// Lines of the console that are shown.
const MAX_SAID: usize = 20;

/// What the recorder read of a record.
#[derive(Serialize)]
pub struct ReadOtherwise {
    /// When.
    pub(super) time: String,
    /// The value.
    pub(super) value: serde_json::Value,
    /// The same as text.
    #[serde(skip)]
    pub(super) text: String,
}

/// The reason why the PV changed.
#[derive(Serialize)]
pub struct Answer {
    pub(super) pv: String,
    pub(super) host: String,
    pub(super) ioc: String,
    /// Time of the change.
    pub(super) time: String,
    /// Whether its value is known to have changed.
    pub(super) changed: bool,
    pub(super) from: Option<serde_json::Value>,
    pub(super) to: serde_json::Value,
    /// Time of the last processing or put.
    pub(super) last_written: String,
    /// Whether it was processed or written after the change, with the same value.
    pub(super) written_since: bool,
    /// What the recorder read of it since the change, if that is another value: a change that was not seen.
    pub(super) otherwise: Option<ReadOtherwise>,
    /// Number of times that it was processed or written, in the part of the logs that was read.
    pub(super) count: u64,
    /// Start of that part; null if everything was read. `before_known` and `values_unknown` are about that part, too.
    pub(super) counted_since: Option<String>,
    /// Whether the value before the first of them is known. If not, that one may have been a change.
    pub(super) before_known: bool,
    /// Number of them after which its value is unknown, or not all of it is known.
    pub(super) values_unknown: u64,
    /// The cause as text.
    pub(super) cause: String,
    /// Originator of the put at the root; null if the root is not a put.
    pub(super) by: Option<String>,
    pub(super) user: Option<String>,
    pub(super) client_host: Option<String>,
    pub(super) client: Option<String>,
    /// The path from the cause to the PV.
    pub(super) chain: Vec<Step>,
    /// The records that were processed as its inputs, in the chain.
    pub(super) read: Vec<Step>,
    /// `value` or `alarm`: whose last change this is.
    pub(super) asked: &'static str,
    /// The alarms before and since; null where they are not known.
    pub(super) from_alarm: Option<AlarmKeys>,
    pub(super) to_alarm: Option<AlarmKeys>,
    /// When the record was seen to process, or its field to be written, before that.
    pub(super) last_before: Option<String>,
    /// If the chain began by a CP link: the links that it may have been, and the last change of the source of each.
    pub(super) links: Vec<Link>,
    /// If no put began the chain: the input links of the record, and the last change of the source of each; what
    /// changed since the record processed before comes first, the latest first. Empty if they are not known.
    pub(super) sources: Vec<Source>,
    /// The record's device support, if that is known and it has a choice.
    pub(super) device: Option<String>,
    /// What began it all, if each CP link on the way leads on without doubt.
    pub(super) begun_by: Option<String>,
    /// What may have been missed since `last_before`, so that the value before may have been another.
    pub(super) missed: Option<String>,
    /// What may have been missed after it, so that there may be a later change; if it is not known to have changed, what may
    /// have been missed at any time.
    pub(super) missed_since: Option<String>,
    /// When its IOC ended after that, and the value with it.
    pub(super) ended: Option<String>,
    /// By when its IOC had ended after that, if nobody saw when.
    pub(super) ended_by: Option<String>,
    /// Whether its IOC was started anew in the logs: what is said here is about its last process.
    pub(super) started_anew: bool,
    /// Whether this is the record's first value, or its first alarm, in that process.
    pub(super) first_since_start: bool,
    /// What the log does not tell of the record's inputs, if the chain did not begin by a put.
    pub(super) inputs: Option<&'static str>,
    /// If the chain did not begin by a put: puts to the same IOC since `last_before`. They need not have to do with it.
    pub(super) meanwhile: Vec<Meanwhile>,
    /// Number of such puts that are not listed.
    pub(super) meanwhile_more: u64,
    /// What the records on the way printed until then.
    pub(super) said: Vec<Said>,
    /// The threads that stood still at that time, in or before the processing of a record on the way.
    pub(super) stuck: Vec<StuckThen>,
    /// If it is an alarm since then: connections of the same IOC with devices that ended, or did not come about, at the
    /// same time. They need not have to do with it.
    pub(super) devices: Vec<DeviceThen>,
    /// The process that made the put at the root, as in `iocreplay puts`; null if no log tells.
    pub(super) process: Option<serde_json::Value>,
    /// Other IOCs that have a PV of this name: this answer is not about them.
    pub(super) others: Vec<Elsewhere>,
    /// Process id of the IOC, if another of the same name runs beside it.
    pub(super) pid: Option<u32>,
    /// If this is the first in a process started anew: when the record was last seen in the one before, and its value.
    #[serde(skip)]
    pub(super) anew: Option<(String, Option<String>)>,
    /// The updates that may have made a process put, in words.
    #[serde(skip)]
    pub(super) after: Option<String>,
    #[serde(skip)]
    pub(super) text: (Option<String>, String),
    #[serde(skip)]
    pub(super) alarms: (Option<Alarm>, Option<Alarm>),
    /// Where to look further.
    #[serde(skip)]
    pub(super) lead: Lead,
}

/// A line that an IOC printed while a record on the way was processed.
#[derive(Serialize)]
pub struct Said {
    time: String,
    record: String,
    thread: Option<String>,
    severity: Option<&'static str>,
    text: String,
    /// All of it as text.
    #[serde(skip)]
    line: String,
}

/// A thread that stood still then.
#[derive(Serialize)]
pub struct StuckThen {
    time: String,
    thread: Option<String>,
    text: String,
}

/// A connection with a device that ended then.
#[derive(Serialize)]
pub struct DeviceThen {
    time: String,
    device: String,
    text: String,
}

/// Another IOC that has a PV of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Elsewhere {
    /// Its host; empty if unknown.
    pub host: String,
    /// Its name; empty if unknown.
    pub ioc: String,
    /// Its process id, if known.
    pub pid: Option<u32>,
}

/// An alarm as JSON.
#[derive(Serialize)]
pub struct AlarmKeys {
    pub(super) severity: &'static str,
    pub(super) status: &'static str,
}

impl From<Alarm> for AlarmKeys {
    fn from((severity, status): Alarm) -> Self {
        AlarmKeys { severity: severity_name(severity), status: enum_strings::status_name(status) }
    }
}

impl Answer {
    /// The time in which what the records on the way printed belongs to it: of the chain, until the change.
    pub fn span(&self) -> (i64, i64) {
        self.lead.span()
    }

    /// Takes a line of the console: it counts if a record on the way was certainly being processed.
    pub fn add_said(&mut self, row: &Row, zone: &Zone) {
        let (since, until) = self.lead.span();
        let Some(record) = row.record.as_ref().filter(|_| row.is_certain) else { return };
        let mut steps = self.chain.iter().chain(&self.read);
        let on_the_way = steps.any(|step| step.record == *record && step.ioc == *row.ioc);
        if !on_the_way || row.said < since || row.said > until || self.said.len() >= MAX_SAID {
            return;
        }
        let (time, line) = (zone.format(row.said, 9), said(row));
        let (thread, severity, text) = (row.thread.clone(), row.severity, row.text.clone());
        self.said.push(Said { time, record: record.clone(), thread, severity, text, line });
    }

    /// Takes a thread that stood still: it counts if it names a record on the way, at that time.
    pub fn add_stuck(&mut self, row: &Hang, zone: &Zone) {
        let (since, until) = self.lead.span();
        let mut steps = self.chain.iter().chain(&self.read);
        let on_the_way =
            steps.any(|step| step.ioc == *row.ioc && row.records().any(|name| name == step.record));
        let thread = match &row.what {
            What::Stuck { stuck, .. } => &stuck.thread,
            What::Queue { fill, .. } => &fill.thread,
            What::Overruns { .. } => return,
        };
        if on_the_way && row.is_in(since, until) && self.stuck.len() < MAX_SAID {
            let (time, text) = (zone.format(row.time, 9), row.text.clone());
            let thread = Some(thread.clone()).filter(|thread| !thread.is_empty());
            self.stuck.push(StuckThen { time, thread, text });
        }
    }

    /// The time in which connections with devices count, if the record was in alarm after the change. The recorder looks once a
    /// second, so it notes an end up to that much later.
    pub fn device_span(&self) -> Option<(i64, i64)> {
        let (_, time) = self.lead.span();
        let in_alarm = self.alarms.1.is_some_and(|(severity, _)| severity > 0);
        in_alarm.then(|| (time.saturating_sub(BEFORE_ALARM), time.saturating_add(AFTER_ALARM)))
    }

    /// Takes a line about a connection: it counts if it is one of the same IOC that ended otherwise than by the IOC, in that
    /// time.
    pub fn add_device(&mut self, line: &NetLine, zone: &Zone) {
        let Some((since, until)) = self.device_span() else { return };
        let is_end = matches!(line.kind, Kind::DeviceDisconnected | Kind::DeviceUnreachable);
        let same_host = self.host.is_empty() || *line.host == *self.host;
        let same_ioc = !self.ioc.is_empty()
            && (line.ioc == self.ioc || self.pid.is_some_and(|pid| line.ioc == with_pid(&self.ioc, pid)));
        let in_time = (since..=until).contains(&line.since);
        if is_end && line.by != "ioc" && same_host && same_ioc && in_time && self.devices.len() < MAX_SAID {
            let text = of_device(line, &|time| zone.format(time, 3));
            let (time, device) = (zone.format(line.since, 9), line.servers.join(", "));
            self.devices.push(DeviceThen { time, device, text });
        }
    }

    /// The answer, found by reading only what was recorded since a time.
    pub fn counted_since(self, since: i64, zone: &Zone) -> Answer {
        Answer { counted_since: Some(zone.format(since, 9)), ..self }
    }

    /// Writes it as text: the change, then its cause, then each step down to the PV; then what the cause followed.
    pub fn write_text(&self, out: &mut Out) -> io::Result<()> {
        self.write_change(out)?;
        self.write_others(out)?;
        line!(out, "Cause: {}", self.cause)?;
        if let Some(begun_by) = &self.begun_by {
            line!(out, "Begun by: {begun_by}")?;
        }
        if let Some(after) = &self.after {
            line!(
                out,
                "Perhaps after: {after} (its process had subscribed; whether it acted on that is not known)"
            )?;
        }
        for (depth, step) in self.chain.iter().enumerate() {
            add!(out, "  {}  {:indent$}{}", step.time, "", step.text, indent = 2 * depth.min(40));
            step.alarm.inspect(|(severity, status)| alarm::push(out, *severity, *status));
            line!(out)?;
        }
        for step in &self.read {
            line!(out, "Input: {}  {}", step.time, step.text)?;
        }
        for said in &self.said {
            line!(out, "Said: {}  {}", said.time, said.line)?;
        }
        for stuck in &self.stuck {
            line!(out, "Stuck: {}  {}", stuck.time, stuck.text)?;
        }
        for at in &self.devices {
            let DeviceThen { time, device, text } = at;
            line!(
                out,
                "At the same time: {time}  device {device}: {text} (this need not have to do with it)"
            )?;
        }
        self.write_sources(out)
    }

    fn write_change(&self, out: &mut Out) -> io::Result<()> {
        let Answer { pv, host, ioc, time, count, last_written, .. } = self;
        let shown =
            self.pid.filter(|_| !ioc.is_empty()).map_or_else(|| ioc.clone(), |pid| with_pid(ioc, pid));
        let place = match (ioc.is_empty(), host.is_empty()) {
            (false, false) => format!("  [{shown} on {host}]"),
            (false, true) => format!("  [{shown}]"),
            _ => String::new(),
        };
        if self.asked == "alarm" {
            return self.write_alarm(out, &place);
        }
        match (&self.text, self.changed) {
            ((Some(from), to), true) => line!(out, "{pv} changed from {from} to {to} at {time}{place}")?,
            ((None, to), true) => line!(out, "{pv} became {to} at {time}{place}")?,
            ((_, to), false) => {
                // A single write without a known value before may well have been a change.
                let within = self.within();
                let (what, remark) = match (self.before_known && self.values_unknown == 0, count) {
                    (true, _) => (format!("did not change {within}"), String::new()),
                    (false, 1) if self.counted_since.is_some() => {
                        ("may have changed".to_owned(), ", its value before was not looked for".into())
                    }
                    (false, 1) => {
                        (format!("may have changed {within}"), ", its value before is unknown".into())
                    }
                    (false, _) if self.values_unknown > 0 => (
                        format!("is not known to have changed {within}"),
                        format!(
                            ", {} with a value that is not known whole",
                            counted(self.values_unknown, "time")
                        ),
                    ),
                    (false, _) => (
                        format!("may have changed {within} with the first of these, and not since"),
                        ", its value before them is unknown".into(),
                    ),
                };
                let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
                line!(
                    out,
                    "{pv} {what} (processed or written {times}, value {to}{remark}); \
                     the last time at {time}{place}"
                )?;
            }
        }
        if let Some(ReadOtherwise { time, text, .. }) = &self.otherwise {
            line!(
                out,
                "It had another value, {text}, when it was read at {time}: that change was not seen."
            )?;
        }
        if self.changed && self.written_since {
            let is_last = matches!(self.last_change(), Some((_, true)));
            let unchanged = if self.otherwise.is_none() && is_last { ", without a change" } else { "" };
            line!(out, "It was processed or written again{unchanged}, last at {last_written}.")?;
        }
        self.write_ended(out)?;
        self.write_anew(out)?;
        self.write_missed(out)
    }

    /// Says if its IOC has ended since, so that this is not what the record has now.
    pub(super) fn write_ended(&self, out: &mut Out) -> io::Result<()> {
        match (&self.ended, &self.ended_by) {
            (Some(ended), _) => {
                line!(out, "Its IOC ended at {ended}: what the record had then is gone.")
            }
            (None, Some(by)) => {
                line!(out, "Its IOC had ended by {by}, which was not seen: what the record had then is gone.")
            }
            (None, None) => Ok(()),
        }
    }

    /// Says which other IOCs have a PV of this name, and how to ask for them.
    fn write_others(&self, out: &mut Out) -> io::Result<()> {
        if self.others.is_empty() {
            return Ok(());
        }
        let of = |other: &Elsewhere| {
            let name = if other.ioc.is_empty() { "an unknown IOC" } else { &other.ioc };
            let name = other.pid.map_or_else(|| name.to_owned(), |pid| with_pid(name, pid));
            let host = if other.host == self.host { String::new() } else { format!(" on {}", other.host) };
            format!("{name}{host}")
        };
        let names: Vec<String> = self.others.iter().map(of).collect();
        line!(
            out,
            "It is also a PV of {}, of which this says nothing; choose with --ioc or --host.",
            names.join(", ")
        )
    }

    /// The part of the logs that counts.
    pub(super) fn within(&self) -> &'static str {
        match self.started_anew {
            true => "since its IOC was started anew",
            false => "in these logs",
        }
    }

    /// Says if the IOC had been started anew since the record was seen before.
    pub(super) fn write_anew(&self, out: &mut Out) -> io::Result<()> {
        let Some((time, value)) = &self.anew else { return Ok(()) };
        let value = value.as_ref().map(|value| format!(", with the value {value}")).unwrap_or_default();
        line!(out, "Its IOC had been started anew: before that, it was last seen at {time}{value}.")
    }

    /// Writes it as one JSON object.
    pub fn write_json(&self, out: &mut Out) -> io::Result<()> {
        out.pretty_json(self)
    }
}
