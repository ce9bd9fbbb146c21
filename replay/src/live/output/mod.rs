//! What happens in a log that grows: lines of the commands that show each kind by itself, as text or JSON, or all kinds under
//! the columns of one CSV file.

pub mod syslog;

use crate::live::notes::{Kind, Note};
use crate::live::row::Row;
use crate::out::Out;
use crate::output::format::{Format, Writer};
use crate::output::rows::{csv_line_under, Row as Listed};
use crate::time::Zone;
use serde::Serialize;
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<Row>; 3] = [
    Format { name: "text", writer: |zone| Box::new(Text(zone)) },
    Format { name: "jsonl", writer: |zone| Box::new(JsonLines(zone)) },
    Format { name: "csv", writer: |zone| Box::new(Csv { zone, has_begun: false }) },
];

/// The keys of a note.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pid: Option<u32>,
    what: &'static str,
    text: &'a str,
    count: Option<u64>,
    source: Option<&'static str>,
}

impl Listed for Note {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Line {
            time: zone.format(self.time, 9),
            host: known(&self.host),
            ioc: known(&self.ioc),
            pid: self.pid,
            what: self.what,
            text: &self.text,
            count: self.count,
            source: self.source,
        }
    }

    fn text(&self, zone: &Zone) -> String {
        format!("{:<32}  {}", zone.format(self.time, 6), sentence(self))
    }
}

/// What a note says, and of which IOC.
fn sentence(note: &Note) -> String {
    match (note.kind, note.ioc.as_str()) {
        (Kind::Mark, _) => format!("mark: {}", note.text),
        (_, "") => note.text.clone(),
        (_, ioc) => format!("{ioc:<12}  {}", note.text),
    }
}

/// The value of the key `event`; the others are those of the kind's own command.
pub fn event(row: &Row) -> &'static str {
    match row.kind() {
        "puts" => "put",
        "alarms" => "alarm",
        "deaths" => "death",
        "hangs" => "hang",
        "losses" => "loss",
        "marks" => "mark",
        kind => kind,
    }
}

struct Text<'a>(&'a Zone);

impl Writer<Row> for Text<'_> {
    fn write(&mut self, out: &mut Out, row: &Row) -> io::Result<()> {
        match row {
            Row::Put(put) => put.write_text(out, self.0),
            Row::Alarm(alarm) => alarm.write_text(out, self.0),
            Row::Console(line) => line.write_text(out, self.0),
            Row::Note(note) => note.write_text(out, self.0),
            Row::Chain(_) | Row::Event(_) | Row::Used(_) | Row::LeftOut(_) => Ok(()),
        }
    }
}

/// A line as the kind's own command has it, with a key more.
#[derive(Serialize)]
struct Event<T> {
    event: &'static str,
    #[serde(flatten)]
    line: T,
}

struct JsonLines<'a>(&'a Zone);

impl Writer<Row> for JsonLines<'_> {
    fn write(&mut self, out: &mut Out, row: &Row) -> io::Result<()> {
        let event = event(row);
        match row {
            Row::Put(put) => out.json(&Event { event, line: put.line(self.0) }),
            Row::Alarm(alarm) => out.json(&Event { event, line: alarm.line(self.0) }),
            Row::Console(line) => out.json(&Event { event, line: line.line(self.0) }),
            Row::Note(note) => out.json(&Event { event, line: note.line(self.0) }),
            Row::Chain(_) | Row::Event(_) | Row::Used(_) | Row::LeftOut(_) => Ok(()),
        }
    }
}

/// The columns of CSV: all keys that a line of some kind has. They never change; add new ones at the end.
const COLUMNS: [&str; 65] = [
    "event",
    "time",
    "host",
    "ioc",
    "pid",
    "what",
    "kind",
    "pv",
    "record",
    "field",
    "severity",
    "status",
    "value",
    "text",
    "user",
    "client_host",
    "client",
    "client_ioc",
    "server",
    "via",
    "dbr",
    "count",
    "requested",
    "old",
    "new",
    "callback_ms",
    "thread",
    "source",
    "inexact",
    "cause_record",
    "old_text",
    "new_text",
    "requested_cut",
    "old_cut",
    "new_cut",
    "protocol",
    "request",
    "fields",
    "fields_cut",
    "options",
    "message",
    "result",
    "members",
    "process",
    "from_severity",
    "from_status",
    "cause",
    "by",
    "through",
    "inputs",
    "lasted_s",
    "until",
    "gap",
    "unseen",
    "changes",
    "unprocessed",
    "acknowledges",
    "asked",
    "left",
    "record_certain",
    "cut",
    "ended",
    "output",
    "kept_back",
    "caller",
];

struct Csv<'a> {
    zone: &'a Zone,
    has_begun: bool,
}

impl Csv<'_> {
    fn line(&mut self, out: &mut Out, event: &'static str, line: impl Serialize) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        csv_line_under(out, &COLUMNS, &Event { event, line }, is_first)
    }
}

impl Writer<Row> for Csv<'_> {
    fn write(&mut self, out: &mut Out, row: &Row) -> io::Result<()> {
        let (event, zone) = (event(row), self.zone);
        match row {
            Row::Put(put) => self.line(out, event, put.line(zone)),
            Row::Alarm(alarm) => self.line(out, event, alarm.line(zone)),
            Row::Console(line) => self.line(out, event, line.line(zone)),
            Row::Note(note) => self.line(out, event, note.line(zone)),
            Row::Chain(_) | Row::Event(_) | Row::Used(_) | Row::LeftOut(_) => Ok(()),
        }
    }
}
