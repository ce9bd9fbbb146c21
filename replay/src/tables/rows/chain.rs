//! Rows of a chain: itself, the processings and the puts in it.

use super::super::cells::{known, of_value, Cell};
use super::super::encoder::Row;
use super::super::export::{narrows_names, At, Export};
use super::super::schema::Of;
use super::{push_alarm, puts};
use crate::filter::Filter;
use crate::model::chain::{Chain, Outcome, ProcessSpan, Span, SpanKind};
use crate::model::enum_strings;
use crate::model::outcome::{is_cut, shown_by};
use crate::model::putlog::{each_put, ioc_name, root_put};
use crate::model::run::{has_value, ioc_of_thread, push_name_of};
use crate::model::span_ids::trace_id;
use crate::wording::cause::cause;
use iocrec_log::context::Context;
use iocrec_log::event::Value;
use std::borrow::Cow;

/// Depth to which chains that CA links lead to are followed, as in traces.
const MAX_DEPTH: usize = 16;

/// The number of the run that recorded a chain.
pub fn run(chain: &Chain) -> Option<usize> {
    chain.run.peers().map(|(_, number)| number)
}

/// The id of a chain.
pub fn id(chain: &Chain) -> String {
    format!("{:032x}", trace_id(chain).map_or(0, |id| id.0))
}

/// Adds the rows of a chain.
pub fn add(export: &mut Export, filter: &Filter, chain: &Chain) {
    let id = id(chain);
    if export.wants(Of::Puts) {
        puts::add(export, filter, chain, &id);
    }
    if export.wants(Of::Chains) && filter.chain(chain) {
        add_chain(export, chain, &id);
    }
    if export.wants(Of::Processing) && (!filter.asks_who() || is_by(filter, chain)) {
        let mut next = chain.spans.len();
        add_processing(export, filter, chain, &id, (0, None), &mut next, 0);
    }
}

/// Whether a user or client that is asked for made a put in the chain.
pub fn is_by(filter: &Filter, chain: &Chain) -> bool {
    let mut found = false;
    each_put(chain, false, &mut |put| found |= filter.who(&put));
    found
}

/// Adds the processings. `first`: the number of the first span, and what made it. `next`: the first that is not used yet.
fn add_processing(
    export: &mut Export,
    filter: &Filter,
    chain: &Chain,
    id: &str,
    (first, above): (usize, Option<usize>),
    next: &mut usize,
    depth: usize,
) {
    let context = chain.run.context();
    let host = context.host().map_or("", |host| host.name.as_str());
    let run = run(chain);
    for (number, span) in chain.spans.iter().enumerate() {
        match &span.kind {
            SpanKind::Process(process) => {
                let time = chain.run.wall(span.start);
                let record = context.record(process.record);
                let of_record = || record.and_then(|record| context.ioc(record.ioc));
                let ioc = span.thread.and_then(|thread| ioc_of_thread(&context, thread)).or_else(of_record);
                let ioc = ioc.map_or("", |ioc| ioc.name.as_str());
                if !filter.time(time) || !filter.place(host, ioc) {
                    continue;
                }
                let name: Cow<str> = match record {
                    Some(record) => record.name.into(),
                    None => {
                        let mut name = String::new();
                        push_name_of(&mut name, None, process.record);
                        name.into()
                    }
                };
                if narrows_names(filter) && !filter.field(&name, "VAL") {
                    continue;
                }
                let rtype = record.map_or("", |record| record.rtype);
                let parent = span.parent.map(|parent| first + parent).or(above);
                export.add(Of::Processing, At { run, time, host, ioc }, |row| {
                    row.push(id.into());
                    row.push((first + number).into());
                    row.push(parent.into());
                    row.push(Cell::Text(name));
                    row.push(known(rtype));
                    push_processing(row, &context, span, process);
                });
            }
            SpanKind::Link(link) => {
                let Some(target) = link.target.as_deref().filter(|_| depth < MAX_DEPTH) else { continue };
                let begin = *next;
                *next += target.spans.len();
                add_processing(export, filter, target, id, (begin, Some(first + number)), next, depth + 1);
            }
            SpanKind::Put(_) => {}
        }
    }
}

/// Adds the cells from the thread on.
fn push_processing(row: &mut Row, context: &Context, span: &Span, process: &ProcessSpan) {
    let thread = span.thread.and_then(|thread| context.thread(thread));
    row.push(known(thread.map_or("", |thread| thread.name.as_str())));
    row.push(process.trigger.name().into());
    let list = process.list.and_then(|list| context.scan_list(list));
    row.push(known(list.map_or("", |list| list.name.as_str())));
    row.push(outcome(&process.outcome).into());
    let Outcome::Completed(completed) = &process.outcome else {
        row.push(Cell::Null);
        row.extend(&of_value(&Value::Unknown, None, None));
        return push_alarm(row, None);
    };
    row.push(span.end.saturating_sub(span.start).into());
    let value = if has_value(context, process.record) { &completed.value } else { &Value::Unknown };
    let text = match value {
        Value::Int(_) | Value::UInt(_) => enum_strings::state(context, process.record, span.end, value),
        _ => None,
    };
    let is_cut = is_cut(value, shown_by(context, Some(process.record), value));
    row.extend(&of_value(value, text.map(Cow::from), is_cut));
    push_alarm(row, Some((completed.severity, completed.status)));
}

fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Active => "active",
        Outcome::Skipped => "skipped",
        Outcome::Disabled => "disabled",
        Outcome::Waiting => "waiting",
        Outcome::Open => "open",
        Outcome::Entered { .. } => "entered",
    }
}

/// What there is in a chain and in those that its CA links led to.
#[derive(Default)]
struct Counts {
    spans: usize,
    processed: usize,
    puts: usize,
    links: usize,
    /// Hosts and IOCs.
    iocs: Vec<(String, String)>,
    severity: Option<u16>,
    /// The last end, wall-clock time.
    end: i64,
}

impl Counts {
    fn take(&mut self, chain: &Chain, depth: usize) {
        let context = chain.run.context();
        let host = context.host().map_or("", |host| host.name.as_str());
        self.spans += chain.spans.len();
        for span in &chain.spans {
            let start = chain.run.wall(span.start);
            let length = span.end.saturating_sub(span.start);
            self.end = self.end.max(start.saturating_add_unsigned(length));
            let ioc = ioc_name(&context, span);
            let is_known = |known: &(String, String)| known.0 == host && known.1 == ioc;
            if !ioc.is_empty() && !self.iocs.iter().any(is_known) {
                self.iocs.push((host.to_owned(), ioc.to_owned()));
            }
            match &span.kind {
                SpanKind::Process(process) => {
                    self.processed += 1;
                    if let Outcome::Completed(completed) = &process.outcome {
                        self.severity = self.severity.max(Some(completed.severity));
                    }
                }
                SpanKind::Put(_) => self.puts += 1,
                SpanKind::Link(link) => {
                    self.links += 1;
                    if let Some(target) = link.target.as_deref().filter(|_| depth < MAX_DEPTH) {
                        self.take(target, depth + 1);
                    }
                }
            }
        }
    }
}

fn add_chain(export: &mut Export, chain: &Chain, id: &str) {
    let Some(root) = chain.root() else { return };
    let time = chain.run.wall(root.start);
    let mut counts = Counts { end: time, ..Counts::default() };
    counts.take(chain, 0);
    let put = root_put(chain, None);
    let put = put.as_ref();
    let cause = cause(chain, None);
    let context = chain.run.context();
    let host = context.host().map_or("", |host| host.name.as_str());
    let (trigger, record) = match &root.kind {
        SpanKind::Put(put) => ("put", put.record),
        SpanKind::Process(process) => (process.trigger.name(), Some(process.record)),
        SpanKind::Link(link) => ("link", link.record),
    };
    let record = match (record, put.and_then(|put| put.record.clone())) {
        (_, Some(name)) => name,
        (Some(record), None) => {
            let mut name = String::new();
            push_name_of(&mut name, context.record(record), record);
            name
        }
        (None, None) => String::new(),
    };
    let thread = root.thread.and_then(|thread| context.thread(thread));
    let at = At { run: run(chain), time, host, ioc: ioc_name(&context, root) };
    export.add(Of::Chains, at, |row| {
        let text = |text: Option<&str>| Cell::from(text.map(str::to_owned));
        row.push(id.into());
        row.push(trigger.into());
        row.push(Some(record).filter(|record| !record.is_empty()).into());
        row.push(text(put.and_then(|put| put.pv.as_deref())));
        row.push(cause.into());
        row.push(text(put.and_then(|put| put.user.as_deref())));
        row.push(text(put.and_then(|put| put.client_host.as_deref())));
        row.push(text(put.and_then(|put| put.client.as_deref())));
        row.push(known(thread.map_or("", |thread| thread.name.as_str())));
        row.push(counts.spans.into());
        row.push(counts.processed.into());
        row.push(counts.puts.into());
        row.push(counts.links.into());
        row.push(counts.iocs.len().into());
        row.push(counts.severity.map(i64::from).into());
        row.push(counts.end.saturating_sub(time).into());
        row.push(chain.open.into());
    });
}
