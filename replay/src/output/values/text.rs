//! Values as text, a line each.

use crate::model::history::{Origin, ValueLine, ValueSource};
use crate::model::unseen::{Kind, Unseen};
use crate::model::{enum_strings, value};
use crate::time::Zone;
use crate::wording::origin;
use iocrec_log::event::Value;
use std::fmt::Write as _;

/// `TIME  PV  VALUE  ALARM  CAUSE  IOC`: parts of varying length are padded to their usual width. And the byte at which ALARM
/// begins.
pub fn text(line: &ValueLine, zone: &Zone) -> (String, usize) {
    let mut text = zone.format(line.time, 6);
    if let Some(unseen) = &line.unseen {
        let _ = write!(text, "  -- {}", self::unseen(unseen, line, zone));
        return (text, usize::MAX);
    }
    let alarm = line.alarm.map_or(String::new(), |(severity, status)| enum_strings::alarm(severity, status));
    let ioc = if line.ioc.is_empty() { "-" } else { &line.ioc };
    let _ = write!(text, "  {:<20}  {:<16}  ", line.pv(), shown(line));
    let at = text.len();
    let _ = write!(text, "{alarm:<14}  {ioc:<10}  {}", source(line));
    text.truncate(text.trim_end().len());
    (text, at)
}

/// What went unseen: since when, of what.
fn unseen(unseen: &Unseen, line: &ValueLine, zone: &Zone) -> String {
    let of = match (line.ioc.as_ref(), line.host.as_ref()) {
        ("", host) => format!("all IOCs of {}", if host.is_empty() { "the host" } else { host }),
        (ioc, _) => ioc.to_owned(),
    };
    let since = zone.format(unseen.since, 6);
    match (unseen.kind, unseen.open) {
        (Kind::Ended, _) => format!("{of}: {}; its values are gone", unseen.words()),
        (_, true) => format!("{of}: {} from {since} on; values may have changed", unseen.words()),
        (_, false) => format!("{of}: {} since {since}; values may have changed", unseen.words()),
    }
}

/// The value, its units and text, and its doubts.
pub fn shown(line: &ValueLine) -> String {
    let mut text = value::text(&line.value);
    // the text of an array shows it already
    if line.cut == Some(true) && matches!(line.value, Value::Text(_)) {
        text.push_str("...");
    }
    enum_strings::push(&mut text, line.text.as_deref());
    if let Some(units) = units(line) {
        let _ = write!(text, " {units}");
    }
    if line.inexact {
        text.push_str(" (not certain)");
    }
    text
}

/// The units of a number in the record's value field, if they are known.
pub fn units(line: &ValueLine) -> Option<String> {
    let is_number = !matches!(line.value, Value::Unknown | Value::Text(_));
    let properties = line.properties().filter(|_| is_number && &*line.field == "VAL")?;
    (!properties.units.is_empty()).then(|| properties.units.clone())
}

/// How it got this value.
pub fn source(line: &ValueLine) -> String {
    match line.source {
        ValueSource::Found if line.again => "found by a put: as before".to_owned(),
        _ => led_to(line.source, line.origin.as_ref(), &line.record),
    }
}

/// How a record got a value.
pub fn led_to(source: ValueSource, origin: Option<&Origin>, record: &str) -> String {
    match (source, origin) {
        (ValueSource::Found, _) => "found by a put: set before, unseen".to_owned(),
        (ValueSource::Snapshot, _) => "read by the recorder".to_owned(),
        (ValueSource::Put | ValueSource::Process | ValueSource::Unseen, None) => "cause not known".to_owned(),
        (_, Some(origin)) => {
            let root = origin::root(origin).filter(|root| **root != *record && origin::put(origin).is_none());
            match root {
                Some(root) => format!("{} of {root}", origin::cause(origin)),
                None => origin::cause(origin),
            }
        }
    }
}
