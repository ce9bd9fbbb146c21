//! What logs hold, counted and measured.

use super::families::Metric;
use super::table::{Labels, Table, TooMany};
use crate::console::Kind;
use crate::filter::Filter;
use crate::model::alarms::What;
use crate::model::chain::{Chain, Outcome, SpanKind};
use crate::model::enum_strings::severity_name;
use crate::model::putlog::{each_put, PutLine};
use crate::model::span_ids::ioc_of;
use crate::names::source_name;
use crate::output::resources::{Resource, Resources};
use crate::processes::Processes;
use crate::Logs;
use iocrec_log::event::Fact;
use std::rc::Rc;

/// Fills the table, looking up whose numbers they are.
struct Collector<'a> {
    table: Table,
    resources: Resources,
    filter: &'a Filter,
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
    let resources = Resources::read(logs);
    let mut all = Collector { table: Table::new(step, filter.since, end), resources, filter };
    for chain in logs.chains(filter) {
        all.chain(&chain)?;
    }
    all.alarms(logs)?;
    all.console(logs)?;
    all.noted(logs)?;
    all.used(logs)?;
    all.ends(logs)?;
    all.table.check()?;
    Ok(all.table)
}

fn label(key: &'static str, value: &str) -> Labels {
    vec![(key, value.to_owned())]
}

impl Collector<'_> {
    /// Whose it is, if it matches.
    fn of(&mut self, host: &str, ioc: &str, pid: Option<u32>, time: i64) -> Option<Rc<Resource>> {
        let wanted = self.filter.time(time) && self.filter.place(host, ioc);
        wanted.then(|| self.resources.of(host, ioc, pid, time))
    }

    fn chain(&mut self, chain: &Chain) -> Result<(), TooMany> {
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
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let Some(of) = self.of(&text(&put.host), &text(&put.ioc), None, put.time) else { return Ok(()) };
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

    fn alarms(&mut self, logs: &Logs) -> Result<(), TooMany> {
        let processes = Processes::read(logs);
        for line in logs.alarms(self.filter).with_all() {
            let Some((severity, _)) = line.to.filter(|_| line.what == What::Change && !line.unprocessed)
            else {
                continue;
            };
            let pid = line.place.process.and_then(|process| Some(processes.get(process)?.pid));
            let Some(of) = self.of(&line.place.host, &line.place.ioc, pid, line.time) else { continue };
            let labels = label("severity", severity_name(severity));
            self.table.take(Metric::AlarmChanges, &of, labels, line.time, 1.0)?;
        }
        Ok(())
    }

    fn console(&mut self, logs: &Logs) -> Result<(), TooMany> {
        for row in logs.console(self.filter).filter(|row| row.kind == Kind::Line) {
            let Some(of) = self.of(&row.host, &row.ioc, row.pid, row.time) else { continue };
            let labels = label("severity", row.severity.unwrap_or("none"));
            self.table.take(Metric::ConsoleLines, &of, labels, row.time, 1.0)?;
        }
        Ok(())
    }

    fn noted(&mut self, logs: &Logs) -> Result<(), TooMany> {
        for found in logs.noted() {
            let (host, time) = (found.run.host(), found.time);
            if let Fact::ChainsLeftOut(left) = found.event.fact {
                let (name, pid) = {
                    let context = found.run.context();
                    let ioc = context.record(left.record).and_then(|record| context.ioc(record.ioc));
                    (ioc.map(|ioc| ioc.name.clone()).unwrap_or_default(), ioc.map(|ioc| ioc.pid))
                };
                let Some(of) = self.of(&host, &name, pid, time) else { continue };
                self.table.take(Metric::ChainsLeftOut, &of, Vec::new(), time, left.count as f64)?;
                continue;
            }
            // They are about a host, and so about all of its IOCs.
            let wanted = self.filter.host.as_ref().is_none_or(|glob| glob.matches(&host));
            if !wanted || !self.filter.time(time) {
                continue;
            }
            let of = self.resources.of(&host, "", None, time);
            match found.event.fact {
                Fact::Mark(_) => self.table.take(Metric::Marks, &of, Vec::new(), time, 1.0)?,
                Fact::Loss(loss) => {
                    let labels = || label("source", source_name(loss.source));
                    self.table.take(Metric::Losses, &of, labels(), time, 1.0)?;
                    // 0 is not known
                    if loss.count > 0 {
                        self.table.take(Metric::Lost, &of, labels(), time, loss.count as f64)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn used(&mut self, logs: &Logs) -> Result<(), TooMany> {
        for row in logs.resources(self.filter) {
            let Some(of) = self.of(&row.host, &row.ioc, row.pid, row.time) else { continue };
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
        }
        Ok(())
    }

    fn ends(&mut self, logs: &Logs) -> Result<(), TooMany> {
        for process in Processes::read(logs).all() {
            let Some(time) = process.end.as_ref().and_then(|end| end.wall) else { continue };
            let Some(of) = self.of(&process.host, &process.ioc, Some(process.pid), time) else { continue };
            self.table.take(Metric::Ends, &of, Vec::new(), time, 1.0)?;
        }
        Ok(())
    }
}
