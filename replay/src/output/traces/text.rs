//! Chains as indented text.
//!
//! The first line has the time of the chain and its cause. The records follow in the order in which they were
//! processed, each under its cause, with its value, its severity if it has one, and its duration.

use crate::model::chain::{Chain, LinkSpan, Outcome, ProcessSpan, PutSpan, Span, SpanKind};
use crate::model::putlog::ioc_of_span;
use crate::model::run::{field_name, has_value, record_name};
use crate::model::{enum_strings, value};
use crate::out::{add, line, Out};
use crate::output::format::Writer;
use crate::output::wording::cause::cause;
use crate::time::{duration, Zone};
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, Value};
use std::fmt::Write as _;
use std::io;

/// Writes chains as indented text.
pub struct Text<'a> {
    /// Zone of the times.
    pub zone: &'a Zone,
}

impl Writer<Chain> for Text<'_> {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        write(out, chain, self.zone)
    }
}

/// Writes a chain.
fn write(out: &mut Out, chain: &Chain, zone: &Zone) -> io::Result<()> {
    let Some(root) = chain.root() else { return Ok(()) };
    let ioc = ioc_of_span(&chain.run.context(), root);
    add!(out, "{}  {}", zone.format(chain.run.wall(root.start), 6), cause(chain, None));
    if !ioc.is_empty() {
        add!(out, "  [{ioc}]");
    }
    if chain.open {
        add!(out, "  (not seen to end)");
    }
    line!(out)?;
    let children = chain.children();
    match &root.kind {
        SpanKind::Put(_) => branch(out, chain, &children, 0, 1),
        _ => node(out, chain, &children, 0, 1),
    }
}

/// Writes the children of a span.
fn branch(
    out: &mut Out,
    chain: &Chain,
    children: &[Vec<usize>],
    number: usize,
    depth: usize,
) -> io::Result<()> {
    // Chains of thousands of records are possible; nobody reads deeper than this, and recursion must end.
    const MAX_DEPTH: usize = 500;
    if depth > MAX_DEPTH {
        indent(out, depth);
        return line!(out, "...");
    }
    for &child in children.get(number).map(Vec::as_slice).unwrap_or_default() {
        node(out, chain, children, child, depth)?;
    }
    Ok(())
}

fn node(
    out: &mut Out,
    chain: &Chain,
    children: &[Vec<usize>],
    number: usize,
    depth: usize,
) -> io::Result<()> {
    let Some(span) = chain.spans.get(number) else { return Ok(()) };
    indent(out, depth);
    let context = chain.run.context();
    let mut text = String::new();
    match &span.kind {
        SpanKind::Process(process) => describe_process(&mut text, &context, span, process),
        SpanKind::Put(put) => describe_put(&mut text, &context, put),
        SpanKind::Link(link) => describe_link(&mut text, &context, link),
    }
    line!(out, "{text}")?;
    if let SpanKind::Link(link) = &span.kind {
        if let Some(target) = &link.target {
            linked(out, target, link.record.map(|record| record_name(&context, record)), depth + 1)?;
        }
    }
    branch(out, chain, children, number, depth + 1)
}

/// Writes the chain that a CA link led to.
fn linked(out: &mut Out, chain: &Chain, record: Option<String>, depth: usize) -> io::Result<()> {
    let Some(root) = chain.root() else { return Ok(()) };
    indent(out, depth);
    let ioc = ioc_of_span(&chain.run.context(), root);
    let cause = cause(chain, Some(record.as_deref().unwrap_or_default()));
    line!(out, "{cause}  [{}{ioc}]", host_prefix(chain))?;
    branch(out, chain, &chain.children(), 0, depth + 1)
}

fn host_prefix(chain: &Chain) -> String {
    let host = chain.run.host();
    if host.is_empty() {
        host
    } else {
        host + ":"
    }
}

fn indent(out: &mut Out, depth: usize) {
    add!(out, "{:depth$}{:depth$}", "", "");
}

fn describe_process(text: &mut String, context: &Context, span: &Span, process: &ProcessSpan) {
    let name = record_name(context, process.record);
    let _ = write!(text, "{name:<16} {:<8}", process.trigger.name());
    match &process.outcome {
        Outcome::Open => text.push_str(" not seen to complete"),
        Outcome::Active => text.push_str(" active already: nothing done"),
        Outcome::Disabled => text.push_str(" disabled: nothing done"),
        Outcome::Waiting => text.push_str(" active: has yet to complete"),
        Outcome::Skipped => text.push_str(" skipped: disabled, or nothing to pass on"),
        Outcome::Entered { again: false } => text.push_str(" begun; no more is recorded"),
        Outcome::Entered { again: true } => text.push_str(" goes on; no more is recorded"),
        Outcome::Completed(completed) => {
            if completed.value != Value::Unknown && has_value(context, process.record) {
                text.push_str(" = ");
                value::push_text(text, &completed.value);
                let word = enum_strings::state(context, process.record, &completed.value);
                enum_strings::push(text, word.as_deref());
            }
            if completed.severity != 0 {
                let _ = write!(text, " {}", enum_strings::alarm(completed.severity, completed.status));
            }
            let took = span.end.saturating_sub(span.start);
            if took > 0 {
                let _ = write!(text, "  {}", duration(took));
            }
            if process.phases.iter().any(|phase| phase.asked.is_none()) {
                text.push_str(" asynchronous");
            }
            if process.phases.iter().any(|phase| is_delay(phase.asked)) {
                text.push_str(", delayed by itself");
            }
        }
    }
    trim(text);
}

fn is_delay(asked: Option<CauseKind>) -> bool {
    matches!(asked, Some(CauseKind::CallbackRequestDelayed | CauseKind::CallbackRequestProcessDelayed))
}

fn describe_put(text: &mut String, context: &Context, put: &PutSpan) {
    let record = put.record.map(|record| record_name(context, record)).unwrap_or_default();
    let field = field_name(context, put.field).unwrap_or("?");
    if put.only_processes {
        let _ = write!(text, "{record:<16} processing asked for");
        return;
    }
    let target = format!("{record}.{field}");
    let _ = write!(text, "{target:<16} put     ");
    if put.old != Value::Unknown {
        text.push(' ');
        value::push_text(text, &put.old);
        enum_strings::push(text, enum_strings::word(context, put.record, put.field, &put.old).as_deref());
    }
    text.push_str(" -> ");
    value::push_text(text, &put.requested);
    enum_strings::push(text, enum_strings::word(context, put.record, put.field, &put.requested).as_deref());
}

fn describe_link(text: &mut String, context: &Context, link: &LinkSpan) {
    let record = link.record.map(|record| record_name(context, record));
    let _ = write!(text, "CA link {} -> ", record.as_deref().unwrap_or("of an unknown record"));
    value::push_text(text, &link.value);
    let _ = write!(text, " to {}", link.pv);
}

fn trim(text: &mut String) {
    text.truncate(text.trim_end().len());
}
