//! Chains as rows: one for each put, processed record and CA link, in the order in which they began to exist.
//!
//! What a CA link leads to follows it as a part of the same chain.

mod held;

use self::held::Lines;
use crate::model::chain::{Chain, Outcome, Span, SpanKind};
use crate::model::enum_strings::{severity_name, state, status_name, word};
use crate::model::putlog::{ioc_name, root_put, PutLine};
use crate::model::run::{field_name, record_name};
use crate::model::value;
use crate::out::Out;
use crate::output::format::Writer;
use crate::output::ordered::Ordered;
use crate::output::rows::{write_row, Shape};
use crate::time::Zone;
use crate::wording::cause::cause;
use iocrec_log::context::Context;
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::rc::Rc;

/// Depth to which chains that CA links lead to are written.
const MAX_DEPTH: usize = 16;

/// The keys of a row.
#[derive(Default, Serialize)]
struct Line<'a> {
    /// The chain's number in this answer.
    chain: u64,
    /// The row's number in the chain, and that of the row that led to it; null for what began the chain.
    number: u64,
    parent: Option<u64>,
    time: String,
    end: String,
    took_ms: Option<f64>,
    host: Option<Cow<'a, str>>,
    ioc: Option<&'a str>,
    thread: Option<&'a str>,
    /// `put`, `process`, `ca_link`, or `request`: processing was asked for.
    what: &'static str,
    record: Option<Cow<'a, str>>,
    field: Option<Cow<'a, str>>,
    /// The name that a client or a link used.
    pv: Option<Cow<'a, str>>,
    trigger: Option<&'static str>,
    outcome: Option<&'static str>,
    old: serde_json::Value,
    value: serde_json::Value,
    text: Option<Cow<'a, str>>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    /// Of the first row: what began the chain.
    cause: Option<Cow<'a, str>>,
    via: Option<&'static str>,
    user: Option<Cow<'a, str>>,
    client_host: Option<Cow<'a, str>>,
    client: Option<Cow<'a, str>>,
    /// Whether the chain was not seen to end.
    open: bool,
}

/// When a row began and ended: wall-clock times.
type Times = (i64, i64);

/// Writes chains as rows.
pub struct Rows<'a> {
    zone: &'a Zone,
    shape: Shape,
    chains: u64,
    /// Rows that are formatted elsewhere, if there are several CPUs.
    lines: Ordered<Lines>,
}

impl<'a> Rows<'a> {
    /// In this shape, with times in this zone.
    pub fn new(zone: &'a Zone, shape: Shape) -> Self {
        Rows { zone, shape, chains: 0, lines: Ordered::new() }
    }

    /// The same on at most so many threads, the caller's included.
    #[cfg(test)]
    fn on(zone: &'a Zone, shape: Shape, threads: usize) -> Self {
        Rows { lines: Ordered::on(threads), ..Rows::new(zone, shape) }
    }
}

impl Writer<Chain> for Rows<'_> {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        self.chains += 1;
        let Rows { zone, shape, chains, .. } = *self;
        let lines = if self.lines.is_of_use() { Some(&mut self.lines) } else { None };
        To { out, shape, zone, lines }.chain(chains, chain, 1, None).map(drop)
    }

    fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        self.lines.finish(out)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.lines.finish(out)
    }
}

/// Where rows go.
struct To<'a, 'b> {
    out: &'a mut Out<'b>,
    shape: Shape,
    zone: &'a Zone,
    /// Takes them, if they are formatted elsewhere.
    lines: Option<&'a mut Ordered<Lines>>,
}

impl To<'_, '_> {
    fn row(&mut self, line: Line<'_>, times: Times, is_first: bool) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => {
                lines.batch().shaped(self.shape, self.zone).add(line, times, is_first);
                lines.added(self.out)
            }
            None => write_row(self.out, self.shape, is_first, &line.at(times, self.zone)),
        }
    }

    /// Writes the chain with this number, whose first row is that of number `next`. Returns the number of the row after its
    /// last.
    fn chain(&mut self, serial: u64, chain: &Chain, mut next: u64, link: Option<&Link>) -> io::Result<u64> {
        let context = chain.run.context();
        let mut numbers = Vec::with_capacity(chain.spans.len());
        for (place, span) in chain.spans.iter().enumerate() {
            let own = next;
            next += 1;
            numbers.push(own);
            let parent = match span.parent {
                Some(parent) => numbers.get(parent).copied(),
                None => link.map(|link| link.number),
            };
            let at = At { chain, context: &context, link };
            let line = Line { chain: serial, number: own, parent, ..at.line(place, span) };
            let times = (chain.run.wall(span.start), chain.run.wall(span.end));
            self.row(line, times, serial == 1 && own == 1)?;
            let SpanKind::Link(of) = &span.kind else { continue };
            let depth = link.map_or(0, |link| link.depth) + 1;
            if let Some(target) = of.target.as_deref().filter(|_| depth <= MAX_DEPTH) {
                let record = of.record.map(|record| record_name(&context, record)).unwrap_or_default();
                next = self.chain(serial, target, next, Some(&Link { number: own, record, depth }))?;
            }
        }
        Ok(next)
    }
}

impl Line<'_> {
    /// The line with its times.
    fn at(self, (start, end): Times, zone: &Zone) -> Self {
        Line { time: zone.format(start, 9), end: zone.format(end, 9), ..self }
    }
}

/// The CA link that leads to a chain.
struct Link {
    number: u64,
    record: String,
    depth: usize,
}

/// What a row is of.
struct At<'a> {
    chain: &'a Chain,
    context: &'a Context,
    link: Option<&'a Link>,
}

impl<'a> At<'a> {
    /// The row of a span, without its numbers and times.
    fn line(&self, place: usize, span: &'a Span) -> Line<'a> {
        let At { chain, context, .. } = *self;
        let link = self.link.map(|link| link.record.as_str());
        let took = span.end.saturating_sub(span.start);
        let host = context.host().map(|host| host.name.as_str());
        let record = |record| match context.record(record) {
            Some(known) => Cow::Borrowed(known.name),
            None => Cow::Owned(record_name(context, record)),
        };
        let mut line = Line {
            took_ms: Some(took as f64 / 1e6).filter(|_| took > 0),
            host: host.filter(|host| !host.is_empty()).map(Cow::Borrowed),
            ioc: Some(ioc_name(context, span)).filter(|ioc| !ioc.is_empty()),
            thread: span.thread.and_then(|thread| Some(&*context.thread(thread)?.name)),
            cause: (place == 0 && link.is_none()).then(|| cause(chain, None).into()),
            open: chain.open,
            ..Line::default()
        };
        match &span.kind {
            SpanKind::Put(put) => {
                line.what = if put.only_processes { "request" } else { "put" };
                line.record = put.record.map(record);
                line.field = field_name(context, put.field).map(Cow::Borrowed);
                if place == 0 {
                    self.add_client(&mut line, root_put(chain, link));
                }
                if !put.only_processes {
                    line.old = value::json(&put.old);
                    line.value = value::json(&put.requested);
                    let word = word(context, put.record, put.field, put.time(), &put.requested);
                    line.text = word.map(Cow::Owned);
                }
            }
            SpanKind::Process(process) => {
                line.what = "process";
                line.record = Some(record(process.record));
                line.trigger = Some(process.trigger.name());
                line.outcome = Some(name_of(&process.outcome));
                if let Outcome::Completed(completed) = &process.outcome {
                    line.value = value::json(&completed.value);
                    let state = state(context, process.record, span.end, &completed.value);
                    line.text = state.map(Cow::Owned);
                    line.severity = Some(severity_name(completed.severity));
                    line.status = Some(status_name(completed.status));
                }
            }
            SpanKind::Link(of) => {
                line.what = "ca_link";
                line.record = of.record.map(record);
                line.pv = Some(Cow::Borrowed(of.pv.as_ref()));
                line.value = value::json(&of.value);
            }
        }
        line
    }

    /// Adds who made the put at the root.
    fn add_client(&self, line: &mut Line<'_>, put: Option<PutLine>) {
        let Some(put) = put else { return };
        line.record = line.record.take().or(put.record.map(Cow::Owned));
        line.field = line.field.take().or(put.field.map(Cow::Owned));
        line.pv = put.pv.map(Cow::Owned);
        line.via = Some(put.via.name());
        let text = |text: Option<Rc<str>>| text.as_deref().map(|text| Cow::<str>::Owned(text.to_owned()));
        (line.user, line.client_host, line.client) =
            (text(put.user), text(put.client_host), text(put.client));
    }
}

/// The name of an outcome; part of the output.
fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Open => "open",
        Outcome::Active => "active",
        Outcome::Skipped => "skipped",
        Outcome::Disabled => "disabled",
        Outcome::Waiting => "waiting",
        Outcome::Completed(_) => "completed",
        Outcome::Entered { again: false } => "entered",
        Outcome::Entered { again: true } => "entered_again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Logs};
    use std::path::Path;

    /// What so many threads write of the chains of a log, each of them several times over.
    fn written(log: &Path, shape: Shape, threads: usize) -> String {
        let (zone, filter, mut bytes) = (Zone::utc(), Filter::default(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut rows = Rows::on(&zone, shape, threads);
        for chain in Logs::open([log]).unwrap().chains(&filter) {
            (0..5).for_each(|_| rows.write(&mut out, &chain).unwrap());
        }
        rows.end(&mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn several_threads_write_what_one_does() {
        let travelled = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled"));
        let machines = std::fs::read_dir(travelled).unwrap();
        let logs = machines.map(|machine| machine.unwrap().path().join("log"));
        let mut longest = 0;
        for log in logs.filter(|log| log.is_dir()) {
            for shape in [Shape::JsonLines, Shape::Csv] {
                let one = written(&log, shape, 1);
                longest = longest.max(one.lines().count());
                for threads in [2, 4] {
                    assert!(written(&log, shape, threads) == one, "{}, {threads} threads", log.display());
                }
            }
        }
        assert!(longest > 2 * held::FULL, "{longest} rows");
    }
}
