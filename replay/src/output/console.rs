//! What IOCs printed: a line each.

use super::rows::{self, Row};
use crate::answers::console::{Kind, Row as ConsoleRow};
use crate::output::format::Format;
use crate::time::Zone;
use crate::words::name;
use serde::Serialize;
use std::fmt::Write as _;

/// The formats.
pub static FORMATS: [Format<ConsoleRow>; 3] = rows::formats();

/// The keys of a line.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pid: Option<u32>,
    /// `line`, `left_out` or `gave_up`.
    kind: &'static str,
    thread: Option<&'a str>,
    severity: Option<&'static str>,
    record: Option<&'a str>,
    record_certain: Option<bool>,
    text: &'a str,
    cut: u32,
    ended: bool,
    output: Option<&'static str>,
    kept_back: bool,
    caller: Option<&'a str>,
}

impl Row for ConsoleRow {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Line {
            time: zone.format(self.time, 9),
            host: known(&self.host),
            ioc: known(&self.ioc),
            pid: self.pid,
            kind: self.kind.name(),
            thread: self.thread.as_deref(),
            severity: self.severity,
            record: self.record.as_deref(),
            record_certain: self.record.as_ref().map(|_| self.is_certain),
            text: &self.text,
            cut: self.cut,
            ended: self.is_ended,
            output: self.output,
            kept_back: self.is_kept_back,
            caller: self.caller.as_deref(),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        let ioc = if self.ioc.is_empty() { "-" } else { &*self.ioc };
        format!("{:<32}  {ioc:<12}  {}", zone.format(self.time, 6), said(self))
    }
}

/// What was said, by whom, while what was processed.
pub fn said(row: &ConsoleRow) -> String {
    let mut line = match row.kind {
        Kind::Line => row.text.clone(),
        Kind::LeftOut => return format!("({} left out: too many at a time)", row.text),
        Kind::GaveUp => {
            let thread = row.thread.as_deref().map_or_else(|| "a thread".to_owned(), name);
            format!("({thread} {})", row.text)
        }
    };
    match (row.cut, row.is_ended) {
        (0, true) => {}
        (0, false) => line += " (without an end)",
        (u32::MAX, _) => line += " (and more)",
        (cut, _) => {
            let _ = write!(line, " (and {cut} bytes more)");
        }
    }
    let mut about = Vec::new();
    if let (Kind::Line, Some(thread)) = (row.kind, &row.thread) {
        about.push(thread.clone());
    }
    if row.is_kept_back {
        about.push("written then, perhaps said earlier or by another thread".to_owned());
    }
    match (&row.record, row.is_certain) {
        (Some(record), true) => about.push(format!("processing {record}")),
        (Some(record), false) => about.push(format!("probably processing {record}")),
        (None, _) => {}
    }
    if let Some(caller) = &row.caller {
        about.push(format!("called by {caller}"));
    }
    if !about.is_empty() {
        let _ = write!(line, "   [{}]", about.join(", "));
    }
    line
}
