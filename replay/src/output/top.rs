//! What runs most, in tables.
//!
//! | table | a row is | sorted by |
//! |---|---|---|
//! | `records` | a record | how often it processed |
//! | `time` | a record | its own time ([`activity`](crate::model::activity)) |
//! | `chains` | chains that begin with the same record for the same reason | their time in all, as number times median |
//! | `users` | a claimed user | puts from outside |
//! | `clients` | a user on a host | puts from outside |
//! | `fights` | a PV that clients overwrite in turn ([`contention`](crate::model::contention)) | overrides |
//! | `loops` | records that make each other process ([`links_seen`](crate::model::links_seen)) | turns |
//!
//! Counts are minima where the log lacks something: hits that were lost, segments, chains left out by chain sampling.

mod tables;

pub use self::tables::Tables;

use super::format::{Format, Writer};
use super::rows::{self, Row};
use crate::out::{line, Out};
use crate::time::{duration, Zone};
use crate::words;
use serde::Serialize;
use std::io;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Records by rate.
    Records,
    /// Records by time.
    Time,
    /// Chains by time.
    Chains,
    /// Users by puts.
    Users,
    /// Clients by puts.
    Clients,
    /// PVs that clients fight over.
    Fights,
    /// Loops that feed themselves.
    Loops,
}

impl Section {
    /// All tables, in the order in which they are shown.
    pub const ALL: [Section; 7] = [
        Section::Records,
        Section::Time,
        Section::Chains,
        Section::Users,
        Section::Clients,
        Section::Fights,
        Section::Loops,
    ];

    /// Its name, for `--by` and in the output formats.
    pub fn name(self) -> &'static str {
        match self {
            Section::Records => "records",
            Section::Time => "time",
            Section::Chains => "chains",
            Section::Users => "users",
            Section::Clients => "clients",
            Section::Fights => "fights",
            Section::Loops => "loops",
        }
    }

    /// The table of that name.
    pub fn find(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Section::Records => "Records by how often they processed",
            Section::Time => {
                "Records by their own time (without what they processed; the probes' time included)"
            }
            Section::Chains => "Chains by time",
            Section::Users => "Users by puts (claimed names)",
            Section::Clients => "Clients by puts",
            Section::Fights => "PVs that clients overwrite in turn",
            Section::Loops => "Loops: records that make each other process",
        }
    }
}

/// The formats; the first is the default.
pub static FORMATS: [Format<TopLine>; 3] = [
    Format { name: "text", writer: |zone| Box::new(Text { zone, section: None }) },
    rows::jsonl(),
    rows::csv(),
];

/// A row of a table.
pub struct TopLine {
    section: Section,
    name: String,
    host: String,
    ioc: String,
    count: u64,
    per_second: Option<f64>,
    /// Share of all that the table counts or times.
    share: Option<f64>,
    /// Nanoseconds: sum, median, 99 % and maximum.
    time: Option<u64>,
    median: Option<u64>,
    most: Option<u64>,
    max: Option<u64>,
    /// Those of `count` whose time is unknown, or that were refused.
    without: u64,
    span: Option<(i64, i64)>,
    detail: String,
}

/// The keys of a row. They never change; add new ones at the end.
#[derive(Serialize)]
pub struct Line<'a> {
    table: &'a str,
    name: &'a str,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    count: u64,
    per_second: Option<f64>,
    share: Option<f64>,
    time_ms: Option<f64>,
    median_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    untimed: Option<u64>,
    refused: Option<u64>,
    first: Option<String>,
    last: Option<String>,
    detail: Option<&'a str>,
}

impl Row for TopLine {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let text = |text: &'a str| (!text.is_empty()).then_some(text);
        let ms = |nanoseconds: Option<u64>| nanoseconds.map(|n| n as f64 / 1e6);
        let puts = matches!(self.section, Section::Users | Section::Clients);
        let timed = matches!(self.section, Section::Records | Section::Time | Section::Chains);
        Line {
            table: self.section.name(),
            name: &self.name,
            host: text(&self.host),
            ioc: text(&self.ioc),
            count: self.count,
            per_second: self.per_second,
            share: self.share,
            time_ms: ms(self.time),
            median_ms: ms(self.median),
            p99_ms: ms(self.most),
            max_ms: ms(self.max),
            untimed: timed.then_some(self.without),
            refused: puts.then_some(self.without),
            first: self.span.map(|(first, _)| zone.format(first, 6)),
            last: self.span.map(|(_, last)| zone.format(last, 6)),
            detail: text(&self.detail),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        let TopLine { name, count, .. } = self;
        let mut text = format!("  {count:>9}  ");
        match self.section {
            Section::Records | Section::Time => {
                let rate = self.per_second.map_or("-".to_owned(), words::rate);
                let share = self.share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
                let each = self.time.filter(|_| *count > self.without);
                let each = each.map_or("-".to_owned(), |time| duration(time / (count - self.without)));
                let sum = match (self.section, self.time) {
                    (Section::Time, Some(time)) => format!("{:>10} in all  ", duration(time)),
                    _ => String::new(),
                };
                text.push_str(&format!("{rate:>10}  {share:>7}  {sum}{each:>10} each  {name}"));
            }
            Section::Chains => {
                let [median, most, max] =
                    [self.median, self.most, self.max].map(|n| n.map_or("-".to_owned(), duration));
                text.push_str(&format!("median {median:>10}  99 % {most:>10}  max {max:>10}  {name}"));
            }
            Section::Users | Section::Clients => {
                let refused = match self.without {
                    0 => String::new(),
                    refused => format!("  {refused} refused"),
                };
                let span = self.span.map_or(String::new(), |(first, last)| {
                    format!("  {} to {}", zone.format(first, 0), zone.format(last, 0))
                });
                text.push_str(&format!("{name}{refused}{span}"));
            }
            Section::Fights | Section::Loops => text.push_str(name),
        }
        if !self.ioc.is_empty() {
            text.push_str(&format!("  [{}]", self.ioc));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!("  {}", self.detail));
        }
        text
    }
}

/// Text with a title above each table.
struct Text<'a> {
    zone: &'a Zone,
    section: Option<Section>,
}

impl Writer<TopLine> for Text<'_> {
    fn write(&mut self, out: &mut Out, row: &TopLine) -> io::Result<()> {
        if self.section != Some(row.section) {
            if self.section.is_some() {
                line!(out)?;
            }
            self.section = Some(row.section);
            line!(out, "{}", row.section.title())?;
        }
        line!(out, "{}", row.text(self.zone))
    }
}
