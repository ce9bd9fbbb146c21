//! Changes of alarms: a line each.

use super::rows::Row;
use crate::model::alarms::{Alarm, AlarmLine, Source, Until, What};
use crate::model::enum_strings::{self, severity_name, status_name};
use crate::model::putlog::PutLine;
use crate::model::value;
use crate::out::Out;
use crate::output::format::Format;
use crate::output::rows;
use crate::time::{Zone, SECOND};
use crate::wording::inputs::{push_all, words};
use crate::wording::put::{change, who};
use crate::words::counted;
use iocrec_log::event::Value;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// The formats.
pub static FORMATS: [Format<AlarmLine>; 3] = rows::formats();

/// The keys of a line.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    record: &'a str,
    /// `change`, `flapping`, `acknowledged` or `still`.
    what: &'static str,
    /// The alarm before; null where it is not known.
    from_severity: Option<&'static str>,
    from_status: Option<&'static str>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    value: serde_json::Value,
    /// The enum string of the value.
    text: Option<&'a str>,
    /// What began the chain of the change, in words; null where it is not known.
    cause: Option<Cow<'a, str>>,
    /// Who made the put that began it, or who acknowledged.
    by: Option<String>,
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    client: Option<&'a str>,
    /// The records whose CP links were followed from there.
    through: Vec<&'a str>,
    /// What is known of the inputs, in words, if no put began it: each that may have been the cause with what changed its
    /// source.
    inputs: Vec<String>,
    /// `process`, or `snapshot` if the recorder found the alarm.
    source: &'static str,
    /// Seconds that the alarm lasted, at least; null if it was not over when the line was written, and for NO_ALARM.
    lasted_s: Option<f64>,
    /// What ended it: `left`, `log_end`, `ioc_end`, `gap`, `disabled`, `later`.
    until: Option<&'static str>,
    /// What may have been missed before the change.
    gap: Option<&'a str>,
    /// Why it was not seen for a while, in which it may have been over.
    unseen: Option<&'a str>,
    /// Number of changes in this line.
    changes: u64,
    /// Whether the record has never processed.
    unprocessed: bool,
    /// What an acknowledgement wrote to: `ACKS` or `ACKT`.
    acknowledges: Option<&'static str>,
    /// What it asked for: a severity, or for ACKT `YES` or `NO`.
    asked: Option<&'static str>,
    /// What that field held afterwards: the severity left to be acknowledged. Null if it is not known.
    left: Option<&'static str>,
}

impl Row for AlarmLine {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let cause = self.cause.as_deref();
        let acknowledgement = self.put.as_deref().filter(|_| self.what == What::Acknowledged);
        let by = self.put.as_deref().or(cause.and_then(|cause| cause.put.as_deref()));
        Line {
            time: zone.format(self.time, 9),
            host: known(&self.place.host),
            ioc: known(&self.place.ioc),
            record: &self.place.record,
            what: self.what.name(),
            from_severity: self.from.map(|from| severity_name(from.0)),
            from_status: self.from.map(|from| status_name(from.1)),
            severity: self.to.map(|to| severity_name(to.0)),
            status: self.to.map(|to| status_name(to.1)),
            value: value::json(&self.value),
            text: self.text.as_deref(),
            cause: cause.map(|cause| cause.text.text()),
            by: by.map(who),
            user: by.and_then(|put| put.user.as_deref()),
            client_host: by.and_then(|put| put.client_host.as_deref()),
            client: by.and_then(|put| put.client.as_deref()),
            through: cause.into_iter().flat_map(|cause| cause.through().iter().map(|name| &**name)).collect(),
            inputs: self.inputs.iter().map(words).collect(),
            source: self.source.name(),
            lasted_s: self.lasted.map(seconds),
            until: self.until.map(Until::name),
            gap: self.gap.as_deref(),
            unseen: self.unseen.as_deref(),
            changes: self.changes,
            unprocessed: self.unprocessed,
            acknowledges: acknowledgement.and_then(|put| put.acknowledges),
            asked: acknowledgement.and_then(|put| acknowledged(put, &put.requested)),
            left: acknowledgement.filter(|put| !put.inexact).and_then(|put| acknowledged(put, &put.new)),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        self.text_and_alarm(zone).0
    }

    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        let (text, at) = self.text_and_alarm(zone);
        rows::write_with_alarm(out, &text, at, self.to)
    }
}

impl AlarmLine {
    /// The line of text, and the byte at which the alarm begins.
    fn text_and_alarm(&self, zone: &Zone) -> (String, usize) {
        let time = match self.what {
            What::Still => "at the end".to_owned(),
            _ => zone.format(self.time, 6),
        };
        let mut line = format!("{time:<32}  {:<20}  ", self.place.record);
        let mut at = line.len();
        let ioc = match &*self.place.ioc {
            "" => "-",
            ioc => ioc,
        };
        match self.what {
            What::Change => {
                let from = format!("{} -> ", alarm(self.from));
                at += from.len();
                let _ = write!(line, "{:<28}", from + &alarm(self.to));
                let _ = write!(line, "  {:<12}  {ioc:<10}", shown(&self.value, self.text.as_deref()));
                let _ = write!(line, "  {:<10}", lasted(self));
                cause_of(&mut line, self);
            }
            What::Flapping => {
                let _ = write!(
                    line,
                    "flaps: {}, {} in {}; the last is {}",
                    counted(self.changes, "change"),
                    counted(self.rises as u64, "alarm"),
                    seconds_text(self.lasted.unwrap_or(0)),
                    alarm(self.to)
                );
                let _ = write!(line, "  {ioc}  the first:");
                cause_of(&mut line, self);
            }
            What::Acknowledged => {
                let put = self.put.as_deref();
                let (what, by) = put.map(|put| (change(put), who(put))).unwrap_or_default();
                let _ = write!(line, "{what}, {}, by {by}  {ioc}", alarm_then(self.to));
                if let Some(status) = put.map(|put| &*put.status).filter(|status| *status != "ok") {
                    let _ = write!(line, "  {status}");
                }
            }
            What::Still => {
                still(&mut line, self, ioc, zone);
                at += line.get(at..).and_then(|still| still.find(&alarm(self.to))).unwrap_or_default();
            }
        }
        if let Some(unseen) = &self.unseen {
            let _ = write!(line, "; perhaps not all of the time ({unseen})");
        }
        line.truncate(line.trim_end().len());
        (line, at)
    }
}

/// The word for a value of ACKS or ACKT.
fn acknowledged(put: &PutLine, value: &Value) -> Option<&'static str> {
    let number = match value {
        Value::Int(number) => u16::try_from(*number).ok()?,
        Value::UInt(number) => u16::try_from(*number).ok()?,
        _ => return None,
    };
    match (put.acknowledges, number) {
        (Some("ACKT"), 0) => Some("NO"),
        (Some("ACKT"), 1) => Some("YES"),
        (Some("ACKS"), _) => Some(severity_name(number)),
        _ => None,
    }
}

fn still(line: &mut String, alarm_line: &AlarmLine, ioc: &str, zone: &Zone) {
    let AlarmLine { until, value, text, put, .. } = alarm_line;
    let verb = match until {
        Some(Until::IocEnd) => "was, when its IOC ended,",
        Some(Until::Gap) => "was",
        _ => "is still",
    };
    let _ = write!(line, "{verb} {}", alarm(alarm_line.to));
    let (since, lasted) = (zone.format(alarm_line.time, 3), alarm_line.lasted.unwrap_or(0));
    let _ = match until {
        Some(Until::Gap) if lasted == 0 => write!(line, "  {ioc}  when last seen, at {since}"),
        Some(Until::Gap) => write!(line, "  {ioc}  when last seen, {} after {since}", seconds_text(lasted)),
        _ => write!(line, "  {ioc}  since {since} ({})", seconds_text(lasted)),
    };
    let value = shown(value, text.as_deref());
    if let Some(value) = value.strip_prefix("= ") {
        let _ = write!(line, ", its value then {value}");
    }
    match put.as_deref() {
        _ if alarm_line.unprocessed && *until == Some(Until::Gap) => {
            line.push_str(", not processed until then")
        }
        _ if alarm_line.unprocessed => line.push_str(", never processed"),
        Some(put) => {
            let _ = write!(line, ", {} by {}", change(put), who(put));
        }
        None => line.push_str(", no acknowledgement in the log"),
    }
    if let Some(gap) = &alarm_line.gap {
        let _ = write!(line, "; since then {gap}");
    }
}

/// The alarm, or a mark where it is not known.
pub(super) fn alarm(alarm: Option<Alarm>) -> String {
    alarm.map_or("?".to_owned(), |(severity, status)| enum_strings::alarm(severity, status))
}

/// The alarm that a record had when something was done to it.
pub(super) fn alarm_then(then: Option<Alarm>) -> String {
    match then {
        Some(_) => format!("while it was {}", alarm(then)),
        None => "its alarm is not known".to_owned(),
    }
}

fn shown(value: &Value, text: Option<&str>) -> String {
    let mut shown = String::new();
    if *value != Value::Unknown {
        shown.push_str("= ");
        value::push_text(&mut shown, value);
        enum_strings::push(&mut shown, text);
    }
    shown
}

/// How long the alarm lasted.
fn lasted(line: &AlarmLine) -> String {
    let Some(lasted) = line.lasted else {
        return match line.until {
            Some(Until::Later) => "for long".to_owned(),
            _ => String::new(),
        };
    };
    let time = seconds_text(lasted);
    // An alarm whose begin was not seen may have lasted longer.
    let least = if line.from.is_none() || line.gap.is_some() { ">= " } else { "" };
    match line.until {
        Some(Until::Gap) => format!(">= {time}, then not seen"),
        Some(Until::LogEnd) => format!("{least}{time}, lasts"),
        Some(Until::IocEnd) => format!("{least}{time}, IOC ended"),
        Some(Until::Disabled) => format!("{least}{time}, then disabled"),
        _ => format!("{least}{time}"),
    }
}

fn cause_of(text: &mut String, line: &AlarmLine) {
    match (line.source, line.cause.as_deref()) {
        (Source::Snapshot, _) => text.push_str("  found so by the recorder: since when and why is not known"),
        (Source::Process, Some(cause)) => {
            text.push_str("  ");
            push_all(text, cause, &line.inputs);
        }
        (Source::Process, None) => text.push_str("  cause not known"),
    }
    if let Some(gap) = &line.gap {
        let _ = write!(text, "; not all before it was recorded ({gap})");
    }
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

fn seconds_text(nanoseconds: i64) -> String {
    let seconds = seconds(nanoseconds);
    match seconds {
        0.0..60.0 => format!("{seconds:.3} s"),
        60.0..3600.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}
