//! What happened: a row each, or log records of OpenTelemetry. To add a format, add a file here and a row below.

mod otlp;
mod record;

pub use self::otlp::Entry;

use super::format::Format;
use super::otlp::Encoding;
use super::rows::{self, Row};
use crate::answers::happened::{Happened, Kind, What};
use crate::model::enum_strings::severity_name;
use crate::output::resources::Resources;
use crate::time::Zone;
use serde::Serialize;
use std::rc::Rc;

/// What happened, and the resource that it is of.
pub struct Item {
    /// What happened.
    pub happened: Happened,
    /// Of what.
    pub resource: Rc<super::resources::Resource>,
}

/// The formats; the first is the default.
pub static FORMATS: [Format<Item>; 6] = [
    rows::text(),
    rows::jsonl(),
    rows::csv(),
    Encoding::JsonLines.format(),
    Encoding::Protobuf.format(),
    Encoding::Delimited.format(),
];

/// Whether what is written in a format has the ids of spans. Lines for people have none.
pub fn has_ids(format: &Format<Item>) -> bool {
    format.name.starts_with("otlp")
}

/// Finds the resources of what happened.
pub struct Items(Resources);

impl Items {
    /// Those of these logs.
    pub fn of(logs: &crate::Logs) -> Items {
        Items(Resources::read(logs))
    }

    /// With its resource.
    pub fn item(&mut self, happened: Happened) -> Item {
        let resource = self.0.of(&happened.host, &happened.ioc, happened.pid, happened.time);
        Item { happened, resource }
    }
}

/// The keys of what happened.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    what: &'static str,
    pv: Option<&'a str>,
    severity: Option<&'static str>,
    text: String,
}

impl Row for Item {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let Happened { time, host, ioc, what, .. } = &self.happened;
        Line {
            time: zone.format(*time, 9),
            host: known(host),
            ioc: known(ioc),
            what: kind(what),
            pv: pv(what),
            severity: match what {
                What::Alarm(line) => line.to.map(|(severity, _)| severity_name(severity)),
                _ => None,
            },
            text: record::body(what),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        let Happened { time, host, ioc, what, .. } = &self.happened;
        let place = if ioc.is_empty() { host } else { ioc };
        let place = if place.is_empty() { "-" } else { place };
        let kind = kind(what);
        format!("{:<32}  {kind:<7}  {place:<12}  {}", zone.format(*time, 6), record::body(what))
    }
}

/// The PV of a put, or the record of an alarm or a line that was printed.
fn pv(what: &What) -> Option<&str> {
    match what {
        What::Put(put) => put.pv.as_deref(),
        What::Alarm(line) => Some(&line.place.record),
        What::Said(row) => row.record.as_deref(),
        What::Mark(_) | What::End(_) | What::Loss(_) | What::Unrecorded(_) => None,
    }
}

/// The sort of what happened, as a word.
fn kind(what: &What) -> &'static str {
    match what {
        What::Put(_) => "put",
        What::Alarm(_) => "alarm",
        What::Said(_) => "console",
        What::Mark(_) => "mark",
        What::End(_) => "end",
        What::Loss(_) | What::Unrecorded(_) => "loss",
    }
}

/// The kind of that name.
///
/// # Errors
/// The names that there are.
pub fn find_kind(name: &str) -> Result<Kind, String> {
    let known = Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
    known.ok_or_else(|| format!("unknown kind '{name}'; use puts, alarms, console, marks, ends or losses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_ids_and_lines_have_none() {
        let with = FORMATS.iter().filter(|format| has_ids(format)).map(|format| format.name);
        assert_eq!(with.collect::<Vec<_>>(), ["otlp", "otlp-proto", "otlp-proto-delimited"]);
    }
}
