//! Chains as indented text.
//!
//! The first line has the time of the chain and its cause. The records follow in the order in which they were
//! processed, each under its cause, with its value, its severity if it has one, and its duration.

use super::tree::Tree;
use crate::model::chain::{Chain, LinkSpan, Outcome, ProcessSpan, PutSpan, Span, SpanKind};
use crate::model::putlog::ioc_name;
use crate::model::run::{field_name, push_name_of, record_name, type_has_value};
use crate::model::{enum_strings, value};
use crate::out::{line, Out};
use crate::output::format::Writer;
use crate::output::moments::Moments;
use crate::time::{push_duration, Zone};
use crate::wording::alarm;
use crate::wording::cause::{cause, push_cause};
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, Value};
use std::fmt::Write as _;
use std::io;

/// Writes chains as indented text.
pub struct Text<'a> {
    moments: Moments<'a>,
    /// The spans of the chain, kept for its memory.
    tree: Tree,
}

impl<'a> Text<'a> {
    /// Prints times in this zone.
    pub fn new(zone: &'a Zone) -> Self {
        Text { moments: Moments::new(zone), tree: Tree::default() }
    }
}

impl Writer<Chain> for Text<'_> {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        let Some(root) = chain.root() else { return Ok(()) };
        let context = chain.run.context();
        let text = out.text();
        self.moments.push(text, chain.run.wall(root.start));
        text.push_str("  ");
        push_cause(out, chain);
        let ioc = ioc_name(&context, root);
        let text = out.text();
        if !ioc.is_empty() {
            ["  [", ioc, "]"].into_iter().for_each(|part| text.push_str(part));
        }
        if chain.open {
            text.push_str("  (not seen to end)");
        }
        line!(out)?;
        self.tree.fill(chain);
        let at = At { chain, context: &context, tree: &self.tree };
        match &root.kind {
            SpanKind::Put(_) => at.branch(out, 0, 1),
            _ => at.node(out, 0, 1),
        }
    }
}

/// The chain that is being written.
#[derive(Clone, Copy)]
struct At<'a> {
    chain: &'a Chain,
    context: &'a Context,
    tree: &'a Tree,
}

impl At<'_> {
    /// Writes the children of a span.
    fn branch(self, out: &mut Out, number: usize, depth: usize) -> io::Result<()> {
        // Chains of thousands of records are possible; nobody reads deeper than this, and recursion must end.
        const MAX_DEPTH: usize = 500;
        let children = self.tree.children(number);
        if depth > MAX_DEPTH && !children.is_empty() {
            indent(out.text(), depth);
            return line!(out, "... (what is deeper is left out here; --format jsonl has it)");
        }
        for &child in children {
            self.node(out, child, depth)?;
        }
        Ok(())
    }

    fn node(self, out: &mut Out, number: usize, depth: usize) -> io::Result<()> {
        let Some(span) = self.chain.spans.get(number) else { return Ok(()) };
        let text = out.text();
        indent(text, depth);
        match &span.kind {
            SpanKind::Process(process) => describe_process(out, self.context, span, process),
            SpanKind::Put(put) => describe_put(text, self.context, put),
            SpanKind::Link(link) => describe_link(text, self.context, link),
        }
        line!(out)?;
        if let SpanKind::Link(link) = &span.kind {
            if let Some(target) = &link.target {
                let record = link.record.map(|record| record_name(self.context, record));
                linked(out, target, record, depth + 1)?;
            }
        }
        self.branch(out, number, depth + 1)
    }
}

/// Writes the chain that a CA link led to.
fn linked(out: &mut Out, chain: &Chain, record: Option<String>, depth: usize) -> io::Result<()> {
    let Some(root) = chain.root() else { return Ok(()) };
    indent(out.text(), depth);
    let context = chain.run.context();
    let cause = cause(chain, Some(record.as_deref().unwrap_or_default()));
    line!(out, "{cause}  [{}{}]", host_prefix(chain), ioc_name(&context, root))?;
    let mut tree = Tree::default();
    tree.fill(chain);
    At { chain, context: &context, tree: &tree }.branch(out, 0, depth + 1)
}

fn host_prefix(chain: &Chain) -> String {
    let host = chain.run.host();
    if host.is_empty() {
        host
    } else {
        host + ":"
    }
}

fn indent(text: &mut String, depth: usize) {
    push_blanks(text, 2 * depth);
}

/// Appends so many blanks.
fn push_blanks(text: &mut String, mut count: usize) {
    const BLANKS: &str = "                                ";
    while let Some(part) = BLANKS.get(..count.min(BLANKS.len())).filter(|part| !part.is_empty()) {
        text.push_str(part);
        count -= part.len();
    }
}

/// Pads what was appended since `from` to so many letters.
fn pad(text: &mut String, from: usize, width: usize) {
    let letters = text.get(from..).map_or(0, |part| part.chars().count());
    push_blanks(text, width.saturating_sub(letters));
}

fn describe_process(out: &mut Out, context: &Context, span: &Span, process: &ProcessSpan) {
    let text = out.text();
    let from = text.len();
    let record = context.record(process.record);
    push_name_of(text, record, process.record);
    pad(text, from, 16);
    text.push(' ');
    let trigger = text.len();
    text.push_str(process.trigger.name());
    pad(text, trigger, 8);
    match &process.outcome {
        Outcome::Open => text.push_str(" not seen to complete"),
        Outcome::Active => text.push_str(" active already: nothing done"),
        Outcome::Disabled => text.push_str(" disabled: nothing done"),
        Outcome::Waiting => text.push_str(" active: has yet to complete"),
        Outcome::Skipped => text.push_str(" skipped: disabled, or nothing to pass on"),
        Outcome::Entered { again: false } => text.push_str(" begun; no more is recorded"),
        Outcome::Entered { again: true } => text.push_str(" goes on; no more is recorded"),
        Outcome::Completed(completed) => {
            if completed.value != Value::Unknown && record.is_none_or(|record| type_has_value(record.rtype)) {
                text.push_str(" = ");
                value::push_text(text, &completed.value);
                let word = enum_strings::state(context, process.record, span.end, &completed.value);
                enum_strings::push(text, word.as_deref());
            }
            if completed.severity != 0 {
                alarm::push(out, completed.severity, completed.status);
            }
            let text = out.text();
            let took = span.end.saturating_sub(span.start);
            if took > 0 {
                text.push_str("  ");
                push_duration(text, took);
            }
            if process.phases.iter().any(|phase| phase.asked.is_none()) {
                text.push_str(" asynchronous");
            }
            if process.phases.iter().any(|phase| is_delay(phase.asked)) {
                text.push_str(", delayed by itself");
            }
        }
    }
    trim(out.text(), from);
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
    let word = |value| enum_strings::word(context, put.record, put.field, put.time(), value);
    if put.old != Value::Unknown {
        text.push(' ');
        value::push_text(text, &put.old);
        enum_strings::push(text, word(&put.old).as_deref());
    }
    text.push_str(" -> ");
    value::push_text(text, &put.requested);
    enum_strings::push(text, word(&put.requested).as_deref());
}

fn describe_link(text: &mut String, context: &Context, link: &LinkSpan) {
    let record = link.record.map(|record| record_name(context, record));
    let _ = write!(text, "CA link {} -> ", record.as_deref().unwrap_or("of an unknown record"));
    value::push_text(text, &link.value);
    let _ = write!(text, " to {}", link.pv);
}

/// Removes white space from the end of what was appended since `from`.
fn trim(text: &mut String, from: usize) {
    let kept = text.get(from..).map_or(0, |part| part.trim_end().len());
    text.truncate(from + kept);
}
