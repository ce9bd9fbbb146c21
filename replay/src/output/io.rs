//! What IOCs did with files, sockets and devices: a row for each file or peer, as a table, JSON lines or CSV.

pub mod darshan;

use super::rows::{self, Row as Listed};
use crate::answers::files::Named;
use crate::out::{line, Out};
use crate::output::format::Format;
use crate::time::Zone;
use crate::words::counted;
use iocrec_log::escape::Shown;
use iocrec_log::event::files::{word, CallKind};
use iocrec_log::event::FileHow;
use serde::Serialize;
use std::io;

/// The formats of rows.
pub static FORMATS: [Format<Row>; 3] = rows::formats();

/// A row: all opens of a file by a process.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    host: Option<String>,
    ioc: Option<String>,
    pid: Option<u32>,
    /// Of one whose name isn't known, what is.
    file: String,
    is_named: bool,
    /// Names of [`FileHow`], in order.
    how: Vec<&'static str>,
    opens: u64,
    errors: u64,
    last_error: Option<u64>,
    bytes_read: u64,
    bytes_written: u64,
    /// Calls that had begun and not ended.
    in_progress: u64,
    timeouts: u64,
    left_out: u64,
    /// By a process as a whole only.
    disk_bytes_read: Option<u64>,
    disk_bytes_written: Option<u64>,
    calls: Vec<Kind>,
}

/// The calls of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    kind: &'static str,
    calls: u64,
    errors: u64,
    /// `None` if times aren't known.
    seconds: Option<f64>,
    longest_seconds: Option<f64>,
    /// Below 1.024 microseconds, then up to twice that of the one before; the last has no end. Empty ones at the end are
    /// left out.
    histogram: Vec<u64>,
}

fn how(how: FileHow) -> &'static str {
    match how {
        FileHow::Others => "others",
        FileHow::Opened => "opened",
        FileHow::Failed => "failed",
        FileHow::Named => "named",
        FileHow::Socket => "socket",
        FileHow::Accepted => "accepted",
        FileHow::Found => "found",
        FileHow::Process => "process",
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl From<&Named<'_>> for Row {
    fn from(named: &Named<'_>) -> Row {
        let (words, process) = (&named.words, named.process);
        let mut ways: Vec<&'static str> = Vec::new();
        for open in &named.opens {
            let way = how(open.file.how);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        let of_process = ways.contains(&"process");
        let kinds = CallKind::ALL.iter().filter(|kind| words.of(**kind, word::CALLS) > 0).map(|&kind| {
            let mut histogram: Vec<u64> =
                (0..word::BUCKETS).map(|bucket| words.of(kind, word::HISTOGRAM + bucket)).collect();
            while histogram.last() == Some(&0) {
                histogram.pop();
            }
            let known = |nanoseconds| (!of_process).then(|| seconds(nanoseconds));
            Kind {
                kind: kind.name(),
                calls: words.of(kind, word::CALLS),
                errors: words.of(kind, word::ERRORS),
                seconds: known(words.of(kind, word::TIME)),
                longest_seconds: known(words.of(kind, word::LONGEST)),
                histogram,
            }
        });
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Row {
            host: known(&process.host),
            ioc: known(&process.ioc),
            pid: process.pid,
            file: named.name.clone(),
            is_named: named.is_named,
            how: ways,
            opens: words.get(word::OPENS),
            errors: words.sum(word::ERRORS),
            last_error: Some(words.get(word::ERROR)).filter(|error| *error > 0),
            bytes_read: words.of(CallKind::Read, word::BYTES),
            bytes_written: words.of(CallKind::Write, word::BYTES),
            in_progress: named.opens.iter().map(|open| open.in_progress()).sum(),
            timeouts: words.get(word::TIMEOUTS),
            left_out: words.get(word::LEFT_OUT),
            disk_bytes_read: of_process.then(|| words.get(word::DISK_READ)),
            disk_bytes_written: of_process.then(|| words.get(word::DISK_WRITTEN)),
            calls: kinds.collect(),
        }
    }
}

/// A time with its unit, in seven characters; `-` for none.
fn duration(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(time) if time < 1e-3 => format!("{:.1} us", time * 1e6),
        Some(time) if time < 1.0 => format!("{:.1} ms", time * 1e3),
        Some(time) => format!("{time:.2} s"),
    }
}

/// Writes the heading of the table.
///
/// # Errors
/// If the output can't be written.
pub fn heading(out: &mut Out) -> io::Result<()> {
    line!(
        out,
        "{:<20} {:>6} {:>8} {:>6} {:>12} {:>12} {:>9} {:>9} {:>9} {:>9}  {}",
        "IOC",
        "opens",
        "calls",
        "errors",
        "bytes read",
        "written",
        "read max",
        "write max",
        "sync max",
        "wait max",
        "file or peer"
    )
}

impl Row {
    fn longest(&self, kind: CallKind) -> String {
        duration(self.calls.iter().find(|of| of.kind == kind.name()).and_then(|of| of.longest_seconds))
    }
}

impl Listed for Row {
    type Line<'a> = &'a Row;

    fn line<'a>(&'a self, _: &'a Zone) -> &'a Row {
        self
    }

    fn text(&self, _: &Zone) -> String {
        let calls: u64 = self.calls.iter().map(|of| of.calls).sum();
        let mut notes = String::new();
        if self.in_progress > 0 {
            notes += &format!("  ({} not ended)", self.in_progress);
        }
        if self.timeouts > 0 {
            notes += &format!("  ({} timed out)", self.timeouts);
        }
        if self.left_out > 0 {
            notes += &format!("  ({})", counted(self.left_out, "open"));
        }
        if let (Some(read), Some(written)) = (self.disk_bytes_read, self.disk_bytes_written) {
            notes += &format!("  (disks: {read} bytes read, {written} written)");
        }
        let ioc = self.ioc.as_deref().unwrap_or("?");
        format!(
            "{:<20} {:>6} {calls:>8} {:>6} {:>12} {:>12} {:>9} {:>9} {:>9} {:>9}  {}{notes}",
            Shown(ioc).to_string(),
            self.opens,
            self.errors,
            self.bytes_read,
            self.bytes_written,
            self.longest(CallKind::Read),
            self.longest(CallKind::Write),
            self.longest(CallKind::Sync),
            self.longest(CallKind::Wait),
            Shown(&self.file),
        )
    }
}
