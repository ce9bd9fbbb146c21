//! Formats of the put log. To add one, add a file here and a row below.

pub mod caputlog;
pub mod jsonl;
#[cfg(test)]
pub mod sample;
pub mod script;
pub mod text;

pub use self::jsonl::{detail, process};

use super::format::{UnknownFormat, Writer};
use super::rows::{self, Row};
use crate::model::putlog::PutLine;
use crate::out::Out;
use crate::terminal::style::Style;
use crate::time::Zone;
use caputlog::{CaPutLog, Level};
use std::collections::BTreeMap;
use std::fmt;

/// A format of the put log.
pub struct PutFormat {
    /// Its name for `--format`.
    pub name: &'static str,
    /// Makes its writer.
    pub writer: for<'a> fn(&'a Zone, &'a Options) -> Box<dyn Writer<PutLine> + 'a>,
}

/// Options of single formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What caPutLog's formats hold.
    pub level: Level,
    /// Their burst time, nanoseconds.
    pub burst: i64,
    /// Text that begins their lines.
    pub prefix: String,
    /// Keys and values that caputlog-json adds.
    pub metadata: BTreeMap<String, String>,
    /// Whether the script waits between puts as long as the clients did.
    pub timing: bool,
}

/// The burst time of caPutLog where none is configured (`DEFAULT_BURST_TIMEOUT`), nanoseconds.
pub const BURST: i64 = 5_000_000_000;

impl Default for Options {
    fn default() -> Self {
        let metadata = BTreeMap::new();
        Options { level: Level::Changes, burst: BURST, prefix: String::new(), metadata, timing: false }
    }
}
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [PutFormat; 6] = [
    PutFormat { name: "text", writer: |zone, _| (rows::text().writer)(zone) },
    PutFormat { name: "jsonl", writer: |zone, _| (rows::jsonl().writer)(zone) },
    PutFormat { name: "csv", writer: |zone, _| (rows::csv().writer)(zone) },
    PutFormat {
        name: "caputlog",
        writer: |zone, options| Box::new(CaPutLog::new(caputlog::Style::Text, zone, options)),
    },
    PutFormat {
        name: "caputlog-json",
        writer: |zone, options| Box::new(CaPutLog::new(caputlog::Style::Json, zone, options)),
    },
    PutFormat { name: "caput", writer: |zone, options| Box::new(script::Script::new(zone, options)) },
];

impl fmt::Debug for PutFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Finds the format of that name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static PutFormat, UnknownFormat> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| UnknownFormat {
        name: name.to_owned(),
        known: FORMATS.iter().map(|format| format.name).collect(),
    })
}

impl Row for PutLine {
    type Line<'a> = jsonl::Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> jsonl::Line<'a> {
        jsonl::line(self, zone)
    }

    fn text(&self, zone: &Zone) -> String {
        let mut line = String::new();
        text::push_before(&mut line, self, zone);
        text::push_status(&mut line, self);
        text::push_after(&mut line, self);
        line
    }

    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        text::push_before(out.text(), self, zone);
        out.style(Style::of_status(&self.status));
        text::push_status(out.text(), self);
        out.style(Style::Plain);
        text::push_after(out.text(), self);
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_format_names_those_there_are() {
        assert_eq!(find("csv").unwrap().name, "csv");
        assert_eq!(
            find("xml").unwrap_err().to_string(),
            "unknown format 'xml'; choose text, jsonl, csv, caputlog, caputlog-json or caput"
        );
    }
}
