//! What happens in a log that grows: lines of the commands that show each kind by itself, as text or JSON.

pub mod syslog;

use crate::live::notes::{Kind, Note};
use crate::live::row::Row;
use crate::out::Out;
use crate::output::format::{Format, Writer};
use crate::output::rows::Row as Listed;
use crate::time::Zone;
use serde::Serialize;
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<Row>; 2] = [
    Format { name: "text", writer: |zone| Box::new(Text(zone)) },
    Format { name: "jsonl", writer: |zone| Box::new(JsonLines(zone)) },
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
