//! What runs most, in tables.
//!
//! | table | a row is | sorted by |
//! |---|---|---|
//! | `records` | a record | how often it processed |
//! | `time` | a record | its own time ([`activity`](crate::model::activity)) |
//! | `chains` | chains that begin with the same record for the same reason | their time in all |
//! | `users` | a claimed user | puts from outside |
//! | `clients` | a user on a host | puts from outside |
//! | `fights` | a PV that clients overwrite in turn ([`contention`](crate::model::contention)) | overrides |
//! | `loops` | records that make each other process ([`links_seen`](crate::model::links_seen)) | turns |
//!
//! Counts are minima where the log lacks something: hits that were lost, segments, chains left out by chain sampling.

use super::format::{Format, Writer};
use super::rows::{self, Row};
use crate::filter::Filter;
use crate::model::activity::{Activity, OfChain, OfRecord};
use crate::model::contention::{Contention, Puts};
use crate::model::links_seen::{loops, LinksSeen};
use crate::model::naming::{Name, Naming};
use crate::model::putlog::{each_put, PutLine};
use crate::model::value;
use crate::out::{line, Out};
use crate::time::{duration, Zone};
use crate::Logs;
use iocrec_log::event::Fact;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::btree_map::{BTreeMap, OccupiedEntry};
use std::io;

/// The earliest put that waits.
type First<'a> = OccupiedEntry<'a, (i64, u64), PutLine>;

/// Records named in a loop's row; the rest are counted.
const MAX_NAMED: usize = 8;

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
                let rate = self.per_second.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"));
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

/// Everything that the tables show.
#[derive(Default)]
pub struct Tables {
    naming: Naming,
    activity: Activity,
    contention: Contention,
    links: LinksSeen,
    is_minimum: bool,
}

impl Tables {
    /// Reads the logs.
    pub fn read(logs: &Logs, filter: &Filter) -> Tables {
        let mut tables = Tables::default();
        // Puts are later than their chains' beginnings: each waits until no earlier one can come.
        let (mut waiting, mut count) = (BTreeMap::new(), 0_u64);
        for chain in logs.chains(filter) {
            let began = chain.root().map_or(i64::MIN, |root| chain.run.wall(root.start));
            while let Some(first) = waiting.first_entry().filter(|first: &First| first.key().0 < began) {
                tables.contention.take(&first.remove());
            }
            each_put(&chain, false, &mut |put| {
                if filter.put(&put) {
                    count += 1;
                    waiting.insert((put.time, count), put);
                }
            });
            if filter.asks_who() {
                continue; // only puts have a user
            }
            tables.activity.take(&chain, filter, &mut tables.naming);
            tables.links.take(&chain, filter, &mut tables.naming);
        }
        waiting.values().for_each(|put| tables.contention.take(put));
        let quiet = logs.without_notices();
        tables.is_minimum = !logs.is_complete()
            || quiet.noted().any(|event| {
                let lacks = matches!(&event.event.fact, Fact::Loss(loss) if loss.count > 0)
                    || matches!(event.event.fact, Fact::ChainsLeftOut(_));
                lacks && filter.time(event.time)
            });
        tables
    }

    /// Whether something is missing, so that counts are minima.
    pub fn is_minimum(&self) -> bool {
        self.is_minimum
    }

    /// The first rows of a table.
    pub fn lines(&self, section: Section, rows: usize) -> Vec<TopLine> {
        let mut lines = match section {
            Section::Records | Section::Time => self.of_records(section),
            Section::Chains => self.of_chains(),
            Section::Users => {
                let named =
                    |user: &String| if user.is_empty() { "unknown user".into() } else { user.clone() };
                let users = self.contention.users.iter();
                of_puts(section, users.map(|(user, puts)| (named(user), puts)))
            }
            Section::Clients => {
                let clients = self.contention.clients.iter();
                of_puts(section, clients.map(|(client, puts)| (client.text(), puts)))
            }
            Section::Fights => self.of_fights(),
            Section::Loops => self.of_loops(),
        };
        lines.truncate(rows);
        lines
    }

    fn of_records(&self, section: Section) -> Vec<TopLine> {
        let all: Vec<(usize, &OfRecord)> = self.activity.records().collect();
        let by = |of: &OfRecord| if section == Section::Time { of.time } else { of.count };
        let sum: u64 = all.iter().map(|(_, of)| by(of)).sum();
        let mut all: Vec<_> =
            all.into_iter().map(|(n, of)| (Reverse(by(of)), self.naming.name(n), n, of)).collect();
        all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let line = |(_, name, number, of): (_, Name, usize, &OfRecord)| TopLine {
            count: of.count,
            per_second: self.activity.seconds(&self.naming, number).map(|seconds| of.count as f64 / seconds),
            share: (sum > 0).then(|| by(of) as f64 / sum as f64),
            time: (of.count > of.untimed).then_some(of.time),
            without: of.untimed,
            ..of_record(section, &name)
        };
        all.into_iter().filter(|(by, ..)| by.0 > 0).map(line).collect()
    }

    fn of_chains(&self) -> Vec<TopLine> {
        let total =
            |of: &OfChain| of.durations.quantile(0.5).unwrap_or(0).saturating_mul(of.durations.count());
        let mut all: Vec<_> = self.activity.chains.iter().collect();
        all.sort_by_key(|((number, kind), of)| (Reverse(total(of)), self.naming.name(*number), *kind));
        let line = |((number, kind), of): (&(usize, &str), &OfChain)| {
            let name = self.naming.name(*number);
            let count = of.durations.count() + of.untimed;
            let records = of.records as f64 / count.max(1) as f64;
            TopLine {
                name: format!("{kind} {}", name.record),
                count,
                median: of.durations.quantile(0.5),
                most: of.durations.quantile(0.99),
                max: of.durations.max(),
                without: of.untimed,
                detail: format!("{records:.1} records each"),
                ..of_record(Section::Chains, &name)
            }
        };
        all.into_iter().map(line).collect()
    }

    fn of_fights(&self) -> Vec<TopLine> {
        let fights = self.contention.fights().into_iter();
        let line = |fight: crate::model::contention::Fight| {
            let sides: Vec<String> = fight
                .sides
                .iter()
                .map(|(writer, side)| {
                    format!("{} {} times, last {}", writer.text(), side.overrides, value::text(&side.value))
                })
                .collect();
            TopLine {
                count: fight.overrides(),
                name: fight.pv,
                host: fight.host,
                ioc: fight.ioc,
                span: Some(fight.span),
                detail: sides.join("; "),
                ..empty(Section::Fights)
            }
        };
        fights.map(line).collect()
    }

    fn of_loops(&self) -> Vec<TopLine> {
        let line = |found: crate::model::links_seen::Loop| {
            let names: Vec<Name> = found.records.iter().map(|number| self.naming.name(*number)).collect();
            let mut named: Vec<&str> = names.iter().take(MAX_NAMED).map(|name| &*name.record).collect();
            let more = format!("and {} more", names.len().saturating_sub(MAX_NAMED));
            if names.len() > MAX_NAMED {
                named.push(&more);
            }
            let first = found.records.first().copied().unwrap_or(0);
            TopLine {
                name: named.join(", "),
                count: found.count,
                per_second: self
                    .activity
                    .seconds(&self.naming, first)
                    .map(|seconds| found.count as f64 / seconds),
                share: (found.processed > 0).then(|| (found.count as f64 / found.processed as f64).min(1.0)),
                detail: format!("their records processed {} times in all", found.processed),
                ..of_record(Section::Loops, names.first().unwrap_or(&Name::default()))
            }
        };
        loops(&self.links).into_iter().map(line).collect()
    }
}

fn of_puts<'a>(section: Section, all: impl Iterator<Item = (String, &'a Puts)>) -> Vec<TopLine> {
    let mut all: Vec<(String, &Puts)> = all.collect();
    all.sort_by(|a, b| (Reverse(a.1.count), &a.0).cmp(&(Reverse(b.1.count), &b.0)));
    let sum: u64 = all.iter().map(|(_, puts)| puts.count).sum();
    all.into_iter()
        .map(|(name, puts)| TopLine {
            name,
            count: puts.count,
            share: Some(puts.count as f64 / sum.max(1) as f64),
            without: puts.refused,
            span: puts.span,
            ..empty(section)
        })
        .collect()
}

fn of_record(section: Section, name: &Name) -> TopLine {
    let Name { host, ioc, record } = name;
    let [name, host, ioc] = [record, host, ioc].map(|text| text.to_string());
    TopLine { name, host, ioc, ..empty(section) }
}

fn empty(section: Section) -> TopLine {
    TopLine {
        section,
        name: String::new(),
        host: String::new(),
        ioc: String::new(),
        count: 0,
        per_second: None,
        share: None,
        time: None,
        median: None,
        most: None,
        max: None,
        without: 0,
        span: None,
        detail: String::new(),
    }
}
