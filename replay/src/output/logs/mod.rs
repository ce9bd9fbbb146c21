//! What happened: a line each, or log records of OpenTelemetry. To add a format, add a file here and a row below.

mod otlp;
mod record;

pub use self::otlp::Entry;

use super::format::{Format, Writer};
use super::otlp::Encoding;
use crate::happened::{Happened, Kind, What};
use crate::out::{line, Out};
use crate::output::resources::Resources;
use crate::time::Zone;
use std::io;
use std::rc::Rc;

/// What happened, and the resource that it is of.
pub struct Item {
    /// What happened.
    pub happened: Happened,
    /// Of what.
    pub resource: Rc<super::resources::Resource>,
}

/// The formats; the first is the default.
pub static FORMATS: [Format<Item>; 4] = [
    Format { name: "text", writer: |zone| Box::new(Text(zone)) },
    Encoding::JsonLines.format(),
    Encoding::Protobuf.format(),
    Encoding::Delimited.format(),
];

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

/// A line of text each.
struct Text<'a>(&'a Zone);

impl Writer<Item> for Text<'_> {
    fn write(&mut self, out: &mut Out, item: &Item) -> io::Result<()> {
        let Happened { time, host, ioc, what, .. } = &item.happened;
        let place = if ioc.is_empty() { host } else { ioc };
        let place = if place.is_empty() { "-" } else { place };
        let kind = kind(what);
        line!(out, "{:<32}  {kind:<7}  {place:<12}  {}", self.0.format(*time, 6), record::body(what))
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
