//! The rows of the tables, counted from the chains.

use super::{Section, TopLine};
use crate::answers::recorded::Recorded;
use crate::filter::Filter;
use crate::model::activity::{Activity, OfChain, OfRecord};
use crate::model::contention::{Contention, Fight, Puts};
use crate::model::links_seen::{loops, LinksSeen, Loop};
use crate::model::naming::{Name, Naming};
use crate::model::putlog::{each_put, PutLine};
use crate::model::value;
use crate::names::is_lost;
use crate::words::counted;
use crate::Logs;
use iocrec_log::event::Fact;
use std::cmp::Reverse;
use std::collections::btree_map::{BTreeMap, OccupiedEntry};
use std::fmt::Write as _;

/// The earliest put that waits.
type First<'a> = OccupiedEntry<'a, (i64, u64), PutLine>;

/// Records named in a loop's row; the rest are counted.
const MAX_NAMED: usize = 8;

/// Everything that the tables show.
#[derive(Default)]
pub struct Tables {
    naming: Naming,
    activity: Activity,
    recorded: Recorded,
    contention: Contention,
    links: LinksSeen,
    is_minimum: bool,
}

impl Tables {
    /// Reads the logs.
    pub fn read(logs: &Logs, filter: &Filter) -> Tables {
        let recorded = Recorded::read(logs, filter);
        let links = LinksSeen::default().without_roots();
        let mut tables = Tables { recorded, links, ..Tables::default() };
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
        tables.is_minimum = logs.notices().lacks()
            || quiet.noted(None, None).any(|event| {
                let since = match &event.event.fact {
                    Fact::Loss(loss) if is_lost(loss) => loss.since,
                    Fact::ChainsLeftOut(left) => left.since,
                    _ => return false,
                };
                // it is noted at its end
                let begun = event.run.wall(since).min(event.time);
                filter.since.is_none_or(|since| event.time >= since)
                    && filter.until.is_none_or(|until| begun < until)
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
            Section::Records | Section::Time => self.of_records(section, rows),
            Section::Chains => self.of_chains(rows),
            Section::Users => {
                let users = self.contention.users.iter();
                of_puts(section, users.map(|(user, puts)| (user.text(), puts)))
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

    /// How often in a second of the time in which the record's IOC was recorded.
    fn rate(&self, count: u64, name: &Name) -> Option<f64> {
        self.recorded.seconds(&name.host, &name.ioc).map(|seconds| count as f64 / seconds)
    }

    fn of_records(&self, section: Section, rows: usize) -> Vec<TopLine> {
        let all: Vec<(usize, &OfRecord)> = self.activity.records().collect();
        let by = |of: &OfRecord| if section == Section::Time { of.time } else { of.count };
        let sum: u64 = all.iter().map(|(_, of)| by(of)).sum();
        let mut all = all;
        all.retain(|(_, of)| by(of) > 0);
        all.sort_by(|(a, of), (b, other)| {
            by(other).cmp(&by(of)).then_with(|| self.naming.named(*a).cmp(&self.naming.named(*b)))
        });
        let line = |(number, of): (usize, &OfRecord)| {
            let name = self.naming.name(number);
            TopLine {
                count: of.count,
                per_second: self.rate(of.count, &name),
                share: (sum > 0).then(|| by(of) as f64 / sum as f64),
                time: (of.count > of.untimed).then_some(of.time),
                without: of.untimed,
                ..of_record(section, &name)
            }
        };
        all.into_iter().take(rows).map(line).collect()
    }

    fn of_chains(&self, rows: usize) -> Vec<TopLine> {
        // by what the row shows: of chains whose end was not seen, where too many were open, the time is that of the others
        let total = |of: &OfChain| {
            let count = of.durations.count().saturating_add(of.untimed);
            of.durations.quantile(0.5).unwrap_or(0).saturating_mul(count)
        };
        let chains = self.activity.chains();
        let mut all: Vec<_> = chains.map(|(number, kind, of)| (total(of), number, kind, of)).collect();
        all.sort_by(|(total, a, kind, _), (most, b, other, _)| {
            let by_name = || self.naming.named(*a).cmp(&self.naming.named(*b));
            most.cmp(total).then_with(by_name).then_with(|| kind.cmp(other))
        });
        let line = |(_, number, kind, of): (u64, usize, &str, &OfChain)| {
            let name = self.naming.name(number);
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
        all.into_iter().take(rows).map(line).collect()
    }

    fn of_fights(&self) -> Vec<TopLine> {
        let fights = self.contention.fights().into_iter();
        let line = |fight: Fight| {
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
        let line = |found: Loop| {
            let names: Vec<Name> = found.records.iter().map(|number| self.naming.name(*number)).collect();
            let mut named: Vec<&str> = names.iter().take(MAX_NAMED).map(|name| &*name.record).collect();
            let more = format!("and {} more", names.len().saturating_sub(MAX_NAMED));
            if names.len() > MAX_NAMED {
                named.push(&more);
            }
            TopLine {
                name: named.join(", "),
                count: found.count,
                per_second: names.first().and_then(|name| self.rate(found.count, name)),
                share: (found.processed > 0).then(|| (found.count as f64 / found.processed as f64).min(1.0)),
                detail: of_loop(&found),
                ..of_record(Section::Loops, names.first().unwrap_or(&Name::default()))
            }
        };
        loops(&self.links).into_iter().map(line).collect()
    }
}

fn of_loop(found: &Loop) -> String {
    let mut detail = format!("their records processed {} times in all", found.processed);
    if found.perhaps > 0 {
        let _ = write!(detail, "; {} of these turns may have been for another CP link", found.perhaps);
    }
    if found.idle > 0 {
        let _ = write!(detail, "; {} of links among them made nothing process", counted(found.idle, "put"));
    }
    detail
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
