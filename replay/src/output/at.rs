//! Values at a time, a row for each PV.

use super::rows::{self, Row};
use crate::answers::states::state::{FieldState, Seen};
use crate::model::enum_strings::{self, severity_name, status_name};
use crate::model::value;
use crate::out::Out;
use crate::output::format::Format;
use crate::reading::runs::course::passed;
use crate::time::Zone;
use crate::words::age::age;
use serde::Serialize;
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;

/// The formats; the first is the default.
pub static FORMATS: [Format<AtRow>; 3] = rows::formats();

/// A field at a time.
pub struct AtRow {
    /// The time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// The field.
    pub field: FieldState,
    /// Where the clock of its host was set forward: what it showed before and after. `None` if it was set back: then the
    /// difference of two times is no length of time.
    pub leaps: Option<Rc<[(i64, i64)]>>,
}

/// A field as a JSON line. Keys are null where nothing is known.
#[derive(Serialize)]
pub struct Line {
    time: String,
    host: Option<String>,
    ioc: Option<String>,
    pv: String,
    record: String,
    field: String,
    value: serde_json::Value,
    text: Option<String>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    /// `yes`, `doubt` or `no`.
    known: &'static str,
    doubt: Option<String>,
    set: Option<String>,
    first: Option<String>,
    seen: Option<String>,
    age: Option<f64>,
    source: Option<&'static str>,
    inexact: bool,
    cut: Option<bool>,
    units: Option<String>,
    description: Option<String>,
    precision: Option<i32>,
}

/// `yes`, `doubt` or `no`.
pub fn known(field: &FieldState) -> &'static str {
    match (field.is_known(), field.is_certain()) {
        (false, _) => "no",
        (_, true) => "yes",
        (_, false) => "doubt",
    }
}

impl Row for AtRow {
    type Line<'a> = Line;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line {
        let field = &self.field;
        let (process, record, name) = &field.key;
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let seen = field.seen.as_ref().filter(|_| field.is_known());
        let properties = field.properties(self.time);
        let time = |time: i64| zone.format(time, 9);
        Line {
            time: time(self.time),
            host: some(&process.host),
            ioc: some(&process.ioc),
            pv: field.pv(),
            record: record.to_string(),
            field: name.to_string(),
            value: value::json(&field.value()),
            text: seen.and_then(|seen| seen.text().map(str::to_owned)),
            severity: seen.and_then(|seen| Some(severity_name(seen.alarm?.0))),
            status: seen.and_then(|seen| Some(status_name(seen.alarm?.1))),
            known: known(field),
            doubt: field.doubt.as_deref().map(str::to_owned),
            set: seen.and_then(|seen| seen.set()).map(time),
            first: seen.map(|seen| time(seen.first)),
            seen: seen.map(|seen| time(seen.time)),
            age: seen.and_then(|seen| self.since(seen.set()?)).map(|age| age as f64 / 1e9),
            source: seen.map(|seen| seen.source.name()),
            inexact: seen.is_some_and(|seen| seen.inexact),
            cut: seen.and_then(|seen| seen.cut),
            units: properties.as_ref().and_then(|properties| some(&properties.units)),
            description: properties.as_ref().and_then(|properties| some(&properties.description)),
            precision: properties.and_then(|properties| properties.precision),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        self.text_and_alarm(zone).0
    }

    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        let (text, at) = self.text_and_alarm(zone);
        let alarm = self.field.seen.as_ref().and_then(|seen| seen.alarm);
        rows::write_with_alarm(out, &text, at, alarm)
    }
}

impl AtRow {
    /// `PV  VALUE  ALARM  AGE  IOC  DOUBT`: parts of varying length are padded to their usual width. And the byte at which
    /// ALARM begins.
    fn text_and_alarm(&self, zone: &Zone) -> (String, usize) {
        let field = &self.field;
        let ioc = if field.key.0.ioc.is_empty() { "-".to_owned() } else { field.place() };
        let seen = field.seen.as_ref().filter(|_| field.is_known());
        let alarm = seen.and_then(|seen| seen.alarm);
        let alarm = alarm.map_or(String::new(), |(severity, status)| enum_strings::alarm(severity, status));
        let age = seen.map_or(String::new(), |seen| self.age(seen));
        let mut text = format!("{:<24}  {:<20}  ", field.pv(), shown(field));
        let at = text.len();
        let _ = write!(text, "{alarm:<14}  {age:<16}  {ioc:<10}");
        if let Some(doubt) = &field.doubt {
            let _ = write!(text, "  {doubt}");
        }
        if let Some(when) = field.ended {
            let _ = write!(text, ", {}", between(when, zone));
        }
        text.truncate(text.trim_end().len());
        (text, at)
    }

    /// For how long the field had had its value.
    fn age(&self, seen: &Seen) -> String {
        let length = self.since(seen.set().unwrap_or(seen.first));
        match (length.map(age), seen.set()) {
            (Some(length), Some(_)) => length,
            // It was there when it was first seen; nobody knows for how long.
            (Some(length), None) => format!("over {length}"),
            (None, _) => "-".to_owned(),
        }
    }

    /// The time that has passed since then, if it is known.
    fn since(&self, then: i64) -> Option<i64> {
        Some(passed((then, self.time), &**self.leaps.as_ref()?))
    }
}

/// When an IOC ended: not before the first time, and by the second.
pub fn between((since, by): (i64, i64), zone: &Zone) -> String {
    match since < by {
        true => format!("between {} and {}", zone.format(since, 3), zone.format(by, 3)),
        false => format!("at {}", zone.format(by, 3)),
    }
}

/// The value with its text and units; `unknown` if it is not known, with a question mark if it is in doubt.
pub fn shown(field: &FieldState) -> String {
    let Some(seen) = field.seen.as_ref().filter(|_| field.is_known()) else {
        return "unknown".to_owned();
    };
    let mut text = super::values::text::shown(&seen.line(&field.key));
    if field.doubt.is_some() {
        text.push_str(" ?");
    }
    text
}
