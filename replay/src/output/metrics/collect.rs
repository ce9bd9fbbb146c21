//! What logs hold, counted and measured.

use super::families::Metric;
use super::table::{Labels, Table, TooMany};
use crate::answers::console::Kind as OfLine;
use crate::answers::happened::{Happened, Kind, LeftOut, What};
use crate::answers::resources::Row as Used;
use crate::filter::Filter;
use crate::model::alarms::What as OfAlarm;
use crate::model::chain::{Chain, Outcome, SpanKind};
use crate::model::enum_strings::severity_name;
use crate::model::putlog::{each_put, PutLine};
use crate::model::span_ids::ioc_of;
use crate::names::source_name;
use crate::output::resources::{Resource, Resources};
use crate::Logs;
use std::rc::Rc;

/// Fills a table, looking up whose numbers they are.
pub struct Collector {
    /// What was counted so far.
    pub table: Table,
    /// Whose numbers there may be.
    pub resources: Resources,
    /// Counts what matches, which may ask for times and places.
    pub filter: Filter,
}

/// Counts and measures what matches, which may ask for times and places. `step`: nanoseconds between points.
///
/// # Errors
/// If there are too many points.
pub fn collect(logs: &Logs, filter: &Filter, step: Option<i64>) -> Result<Table, TooMany> {
    let end = match (filter.until, logs.end()) {
        (Some(until), Some(end)) => until.min(end),
        (until, end) => end.or(until).unwrap_or_default(),
    };
    let (table, resources) = (Table::new(step, filter.since, end), Resources::read(logs));
    let mut all = Collector { table, resources, filter: filter.clone() };
    logs.chains(filter).try_for_each(|chain| all.chain(&chain))?;
    // by kinds, whose resources are in this order
    for kinds in [&[Kind::Alarms][..], &[Kind::Console], &[Kind::Marks, Kind::Losses]] {
        logs.happened(filter, kinds).try_for_each(|happened| all.happened(&happened))?;
    }
    logs.left_out(filter).try_for_each(|left_out| all.left_out(&left_out))?;
    logs.resources(filter).try_for_each(|row| all.used(&row))?;
    logs.happened(filter, &[Kind::Ends]).try_for_each(|happened| all.happened(&happened))?;
    all.table.check()?;
    Ok(all.table)
}

fn label(key: &'static str, value: &str) -> Labels {
    vec![(key, value.to_owned())]
}

impl Collector {
    /// Whose it is, if it matches.
    fn of(&mut self, host: &str, ioc: &str, pid: Option<u32>, time: i64) -> Option<Rc<Resource>> {
        let wanted = self.filter.time(time) && self.filter.place(host, ioc);
        wanted.then(|| self.resources.of(host, ioc, pid, time))
    }

    /// Takes a chain: puts from outside, and what was processed.
    ///
    /// # Errors
    /// If there are too many points; the same holds for what else is taken.
    pub fn chain(&mut self, chain: &Chain) -> Result<(), TooMany> {
        let mut result = Ok(());
        each_put(chain, false, &mut |put| {
            if result.is_ok() {
                result = self.put(&put);
            }
        });
        result?;
        self.processings(chain)
    }

    fn put(&mut self, put: &PutLine) -> Result<(), TooMany> {
        let [host, ioc] = [&put.host, &put.ioc].map(|text| text.as_deref().unwrap_or_default());
        let Some(of) = self.of(host, ioc, None, put.time) else { return Ok(()) };
        let labels = vec![("via", put.via.name().to_owned()), ("status", put.status.to_string())];
        self.table.take(Metric::Puts, &of, labels, put.time, 1.0)
    }

    fn processings(&mut self, chain: &Chain) -> Result<(), TooMany> {
        let host = chain.run.host();
        for span in &chain.spans {
            match &span.kind {
                // Nothing was done.
                SpanKind::Process(process)
                    if matches!(process.outcome, Outcome::Active | Outcome::Disabled | Outcome::Skipped) => {}
                SpanKind::Process(process) => {
                    let time = chain.run.wall(span.start);
                    let (name, pid) = match ioc_of(&chain.run.context(), span) {
                        Some(ioc) => (ioc.name.clone(), Some(ioc.pid)),
                        None => (String::new(), None),
                    };
                    let Some(of) = self.of(&host, &name, pid, time) else { continue };
                    let labels = label("trigger", process.trigger.name());
                    self.table.take(Metric::Processings, &of, labels, time, 1.0)?;
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.processings(target)?;
                    }
                }
                SpanKind::Put(_) => {}
            }
        }
        Ok(())
    }

    /// Takes what happened, but for puts, which are those of chains.
    ///
    /// # Errors
    /// See [`Collector::chain`].
    pub fn happened(&mut self, happened: &Happened) -> Result<(), TooMany> {
        let Happened { time, host, ioc, pid, what, .. } = happened;
        let none = Vec::new();
        let counts: [Option<(Metric, Labels, f64)>; 2] = match what {
            What::Alarm(line) => match line.to.filter(|_| line.what == OfAlarm::Change) {
                Some((severity, _)) => {
                    [Some((Metric::AlarmChanges, label("severity", severity_name(severity)), 1.0)), None]
                }
                None => [None, None],
            },
            What::Said(row) if row.kind == OfLine::Line => {
                let labels = label("severity", row.severity.unwrap_or("none"));
                [Some((Metric::ConsoleLines, labels, 1.0)), None]
            }
            What::Mark(_) => [Some((Metric::Marks, none, 1.0)), None],
            What::Loss(loss) => {
                let labels = label("source", source_name(loss.source));
                // 0 is not known
                let lost = (loss.count > 0).then(|| (Metric::Lost, labels.clone(), loss.count as f64));
                [Some((Metric::Losses, labels, 1.0)), lost]
            }
            What::End(_) => [Some((Metric::Ends, none, 1.0)), None],
            What::Put(_) | What::Said(_) | What::Unrecorded(_) => [None, None],
        };
        let of = self.resources.of(host, ioc, *pid, *time);
        counts
            .into_iter()
            .flatten()
            .try_for_each(|(metric, labels, number)| self.table.take(metric, &of, labels, *time, number))
    }

    /// Takes chains that were left out.
    ///
    /// # Errors
    /// See [`Collector::chain`].
    pub fn left_out(&mut self, left: &LeftOut) -> Result<(), TooMany> {
        let of = self.resources.of(&left.host, &left.ioc, left.pid, left.time);
        self.table.take(Metric::ChainsLeftOut, &of, Vec::new(), left.time, left.count as f64)
    }

    /// Takes what an IOC used.
    ///
    /// # Errors
    /// See [`Collector::chain`].
    pub fn used(&mut self, row: &Used) -> Result<(), TooMany> {
        let of = self.resources.of(&row.host, &row.ioc, row.pid, row.time);
        let (used, served) = (&row.used, row.serves());
        let seconds = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1e6);
        let number = |count: Option<u32>| count.map(f64::from);
        for (metric, labels, number) in [
            (Metric::CpuTime, Vec::new(), seconds(used.cpu)),
            (Metric::CpuWaiting, Vec::new(), seconds(used.waiting)),
            (Metric::PageFaults, label("kind", "minor"), Some(used.minor_faults as f64)),
            (Metric::PageFaults, label("kind", "major"), Some(used.major_faults as f64)),
            (Metric::UdpDrops, Vec::new(), used.udp_drops.map(|drops| drops as f64)),
            (Metric::Resident, Vec::new(), row.resident().map(|bytes| bytes as f64)),
            (Metric::Threads, Vec::new(), Some(f64::from(used.threads))),
            (Metric::Descriptors, Vec::new(), number(used.descriptors)),
            (Metric::Clients, Vec::new(), number(served.map(|count| count.clients))),
            (Metric::Channels, Vec::new(), number(served.map(|count| count.channels))),
        ] {
            if let Some(number) = number {
                self.table.take(metric, &of, labels, row.time, number)?;
            }
        }
        Ok(())
    }
}
