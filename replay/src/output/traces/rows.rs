//! Chains as rows: one for each put, processed record and CA link, in the order in which they began to exist.
//!
//! What a CA link leads to follows it as a part of the same chain.

use crate::model::chain::{Chain, Outcome, Span, SpanKind};
use crate::model::enum_strings::{severity_name, state, status_name, word};
use crate::model::putlog::{ioc_name, root_put, PutLine};
use crate::model::run::{field_name, record_name};
use crate::model::value;
use crate::out::Out;
use crate::output::format::Writer;
use crate::output::rows::{write_row, Shape};
use crate::time::Zone;
use crate::wording::cause::cause;
use iocrec_log::context::Context;
use serde::Serialize;
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
    host: Option<String>,
    ioc: Option<&'a str>,
    thread: Option<&'a str>,
    /// `put`, `process`, `ca_link`, or `request`: processing was asked for.
    what: &'static str,
    record: Option<String>,
    field: Option<String>,
    /// The name that a client or a link used.
    pv: Option<String>,
    trigger: Option<&'static str>,
    outcome: Option<&'static str>,
    old: serde_json::Value,
    value: serde_json::Value,
    text: Option<String>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    /// Of the first row: what began the chain.
    cause: Option<String>,
    via: Option<&'static str>,
    user: Option<String>,
    client_host: Option<String>,
    client: Option<String>,
    /// Whether the chain was not seen to end.
    open: bool,
}

/// Writes chains as rows.
pub struct Rows<'a> {
    zone: &'a Zone,
    shape: Shape,
    chains: u64,
}

impl<'a> Rows<'a> {
    /// In this shape, with times in this zone.
    pub fn new(zone: &'a Zone, shape: Shape) -> Self {
        Rows { zone, shape, chains: 0 }
    }

    /// Writes a chain, whose first row is that of number `next`. Returns the number of the row after its last.
    fn chain(&self, out: &mut Out, chain: &Chain, mut next: u64, link: Option<&Link>) -> io::Result<u64> {
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
            let at = At { chain, context: &context, link, zone: self.zone };
            let line = Line { chain: self.chains, number: own, parent, ..at.line(place, span) };
            write_row(out, self.shape, self.chains == 1 && own == 1, &line)?;
            let SpanKind::Link(of) = &span.kind else { continue };
            let depth = link.map_or(0, |link| link.depth) + 1;
            if let Some(target) = of.target.as_deref().filter(|_| depth <= MAX_DEPTH) {
                let record = of.record.map(|record| record_name(&context, record)).unwrap_or_default();
                next = self.chain(out, target, next, Some(&Link { number: own, record, depth }))?;
            }
        }
        Ok(next)
    }
}

impl Writer<Chain> for Rows<'_> {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        self.chains += 1;
        self.chain(out, chain, 1, None).map(drop)
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
    zone: &'a Zone,
}

impl<'a> At<'a> {
    /// The row of a span, without its numbers.
    fn line(&self, place: usize, span: &'a Span) -> Line<'a> {
        let At { chain, context, zone, .. } = *self;
        let link = self.link.map(|link| link.record.as_str());
        let time = |time| zone.format(chain.run.wall(time), 9);
        let took = span.end.saturating_sub(span.start);
        let mut line = Line {
            time: time(span.start),
            end: time(span.end),
            took_ms: Some(took as f64 / 1e6).filter(|_| took > 0),
            host: Some(chain.run.host()).filter(|host| !host.is_empty()),
            ioc: Some(ioc_name(context, span)).filter(|ioc| !ioc.is_empty()),
            thread: span.thread.and_then(|thread| Some(&*context.thread(thread)?.name)),
            cause: (place == 0 && link.is_none()).then(|| cause(chain, None)),
            open: chain.open,
            ..Line::default()
        };
        match &span.kind {
            SpanKind::Put(put) => {
                line.what = if put.only_processes { "request" } else { "put" };
                line.record = put.record.map(|record| record_name(context, record));
                line.field = field_name(context, put.field).map(str::to_owned);
                if place == 0 {
                    self.add_client(&mut line, root_put(chain, link));
                }
                if !put.only_processes {
                    line.old = value::json(&put.old);
                    line.value = value::json(&put.requested);
                    line.text = word(context, put.record, put.field, put.time(), &put.requested);
                }
            }
            SpanKind::Process(process) => {
                line.what = "process";
                line.record = Some(record_name(context, process.record));
                line.trigger = Some(process.trigger.name());
                line.outcome = Some(name_of(&process.outcome));
                if let Outcome::Completed(completed) = &process.outcome {
                    line.value = value::json(&completed.value);
                    line.text = state(context, process.record, span.end, &completed.value);
                    line.severity = Some(severity_name(completed.severity));
                    line.status = Some(status_name(completed.status));
                }
            }
            SpanKind::Link(of) => {
                line.what = "ca_link";
                line.record = of.record.map(|record| record_name(context, record));
                line.pv = Some(of.pv.to_string());
                line.value = value::json(&of.value);
            }
        }
        line
    }

    /// Adds who made the put at the root.
    fn add_client(&self, line: &mut Line<'_>, put: Option<PutLine>) {
        let Some(put) = put else { return };
        line.record = line.record.take().or(put.record);
        line.field = line.field.take().or(put.field);
        line.pv = put.pv;
        line.via = Some(put.via.name());
        let text = |text: Option<Rc<str>>| text.as_deref().map(str::to_owned);
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
