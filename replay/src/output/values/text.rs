//! Values as text, a line each.

use crate::model::enum_strings;
use crate::model::history::{ValueLine, ValueSource};
use crate::model::value;
use crate::output::wording::origin;
use crate::time::Zone;
use iocrec_log::event::Value;
use std::fmt::Write as _;

/// `TIME  PV  VALUE  ALARM  CAUSE  IOC`: parts of varying length are padded to their usual width.
pub fn text(line: &ValueLine, zone: &Zone) -> String {
    let mut text = zone.format(line.time, 6);
    let alarm = line.alarm.map_or(String::new(), |(severity, status)| enum_strings::alarm(severity, status));
    let ioc = if line.ioc.is_empty() { "-" } else { &line.ioc };
    let _ =
        write!(text, "  {:<20}  {:<16}  {alarm:<14}  {ioc:<10}  {}", line.pv(), shown(line), source(line));
    text.truncate(text.trim_end().len());
    text
}

/// The value, its text, and its doubts.
fn shown(line: &ValueLine) -> String {
    let mut text = value::text(&line.value);
    // the text of an array shows it already
    if line.cut == Some(true) && matches!(line.value, Value::Text(_)) {
        text.push_str("...");
    }
    enum_strings::push(&mut text, line.text.as_deref());
    if line.inexact {
        text.push_str(" (not certain)");
    }
    text
}

/// How it got this value.
fn source(line: &ValueLine) -> String {
    match (line.source, &line.origin) {
        (ValueSource::Found, _) => "found by a put: set before, unseen".to_owned(),
        (ValueSource::Snapshot, _) => "read by the recorder".to_owned(),
        (_, None) => "cause not known".to_owned(),
        (_, Some(origin)) => {
            let root =
                origin::root(origin).filter(|root| **root != *line.record && origin::put(origin).is_none());
            match root {
                Some(root) => format!("{} of {root}", origin::cause(origin)),
                None => origin::cause(origin),
            }
        }
    }
}
