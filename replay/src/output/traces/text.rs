//! Chains as indented text.
//!
//! The first line has the time of the chain and its cause. The records follow in the order in which they were
//! processed, each under its cause, with its value, its severity if it has one, and its duration.

mod lines;

use self::lines::{Completion, Lines};
use super::tree::Tree;
use crate::model::chain::{Chain, LinkSpan, Outcome, ProcessSpan, PutSpan, Span, SpanKind, Trigger};
use crate::model::putlog::ioc_name;
use crate::model::run::{field_name, push_name_of, record_name};
use crate::model::{enum_strings, value};
use crate::out::{add, Out};
use crate::output::format::Writer;
use crate::output::moments::Moments;
use crate::output::ordered::Ordered;
use crate::time::Zone;
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
    /// Lines that are formatted elsewhere, if there are several CPUs and no styles.
    lines: Ordered<Lines>,
}

impl<'a> Text<'a> {
    /// Prints times in this zone.
    pub fn new(zone: &'a Zone) -> Self {
        Text { moments: Moments::new(zone), tree: Tree::default(), lines: Ordered::new() }
    }

    /// The same on at most so many threads, the caller's included.
    #[cfg(test)]
    fn on(zone: &'a Zone, threads: usize) -> Self {
        Text { lines: Ordered::on(threads), ..Text::new(zone) }
    }
}

impl Writer<Chain> for Text<'_> {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        let is_handed_over = self.lines.is_of_use() && !out.is_styled();
        let lines = if is_handed_over { Some(&mut self.lines) } else { None };
        write_chain(&mut To { out, lines }, chain, &mut self.moments, &mut self.tree)
    }

    fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        self.lines.finish(out)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.lines.finish(out)
    }
}

/// Where lines go.
struct To<'a, 'b> {
    /// Has the line that is being made.
    out: &'a mut Out<'b>,
    /// Takes whole lines, if they are formatted elsewhere.
    lines: Option<&'a mut Ordered<Lines>>,
}

impl To<'_, '_> {
    /// Ends the line.
    fn end(&mut self) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => {
                lines.batch().add(self.out.text());
                lines.added(self.out)
            }
            None => self.out.end(),
        }
    }

    /// Takes the line of a record, if that is formatted elsewhere.
    fn take(&mut self, context: &Context, span: &Span, depth: usize) -> io::Result<bool> {
        let (SpanKind::Process(process), Some(lines)) = (&span.kind, &mut self.lines) else {
            return Ok(false);
        };
        let is_taken = lines.batch().take(context, span, process, depth);
        if is_taken {
            lines.added(self.out)?;
        }
        Ok(is_taken)
    }
}

fn write_chain(to: &mut To, chain: &Chain, moments: &mut Moments, tree: &mut Tree) -> io::Result<()> {
    let Some(root) = chain.root() else { return Ok(()) };
    let context = chain.run.context();
    let text = to.out.text();
    moments.push(text, chain.run.wall(root.start));
    text.push_str("  ");
    push_cause(to.out, chain);
    let ioc = ioc_name(&context, root);
    let text = to.out.text();
    if !ioc.is_empty() {
        ["  [", ioc, "]"].into_iter().for_each(|part| text.push_str(part));
    }
    if chain.open {
        text.push_str("  (not seen to end)");
    }
    to.end()?;
    tree.fill(chain);
    let at = At { chain, context: &context, tree };
    match &root.kind {
        SpanKind::Put(_) => at.branch(to, 0, 1),
        _ => at.node(to, 0, 1),
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
    fn branch(self, to: &mut To, number: usize, depth: usize) -> io::Result<()> {
        // Chains of thousands of records are possible; nobody reads deeper than this, and recursion must end.
        const MAX_DEPTH: usize = 500;
        let children = self.tree.children(number);
        if depth > MAX_DEPTH && !children.is_empty() {
            indent(to.out.text(), depth);
            add!(to.out, "... (what is deeper is left out here; --format jsonl has it)");
            return to.end();
        }
        for &child in children {
            self.node(to, child, depth)?;
        }
        Ok(())
    }

    fn node(self, to: &mut To, number: usize, depth: usize) -> io::Result<()> {
        let Some(span) = self.chain.spans.get(number) else { return Ok(()) };
        if !to.take(self.context, span, depth)? {
            let text = to.out.text();
            indent(text, depth);
            match &span.kind {
                SpanKind::Process(process) => describe_process(to.out, self.context, span, process),
                SpanKind::Put(put) => describe_put(text, self.context, put),
                SpanKind::Link(link) => describe_link(text, self.context, link),
            }
            to.end()?;
        }
        if let SpanKind::Link(link) = &span.kind {
            if let Some(target) = &link.target {
                let record = link.record.map(|record| record_name(self.context, record));
                linked(to, target, record, depth + 1)?;
            }
        }
        self.branch(to, number, depth + 1)
    }
}

/// Writes the chain that a CA link led to.
fn linked(to: &mut To, chain: &Chain, record: Option<String>, depth: usize) -> io::Result<()> {
    let Some(root) = chain.root() else { return Ok(()) };
    indent(to.out.text(), depth);
    let context = chain.run.context();
    let cause = cause(chain, Some(record.as_deref().unwrap_or_default()));
    add!(to.out, "{cause}  [{}{}]", host_prefix(chain), ioc_name(&context, root));
    to.end()?;
    let mut tree = Tree::default();
    tree.fill(chain);
    At { chain, context: &context, tree: &tree }.branch(to, 0, depth + 1)
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
    push_trigger(text, from, process.trigger);
    let outcome = match &process.outcome {
        Outcome::Open => " not seen to complete",
        Outcome::Active => " active already: nothing done",
        Outcome::Disabled => " disabled: nothing done",
        Outcome::Waiting => " active: has yet to complete",
        Outcome::Skipped => " skipped: disabled, or nothing to pass on",
        Outcome::Entered { again: false } => " begun; no more is recorded",
        Outcome::Entered { again: true } => " goes on; no more is recorded",
        Outcome::Completed(completed) => {
            let completion = Completion::of(record, span, process, completed);
            completion.push(out, completion.state(context, span, process).as_deref());
            ""
        }
    };
    out.text().push_str(outcome);
    trim(out.text(), from);
}

/// Appends what made a record process to its name, which begins at `from`.
fn push_trigger(text: &mut String, from: usize, trigger: Trigger) {
    pad(text, from, 16);
    text.push(' ');
    let from = text.len();
    text.push_str(trigger.name());
    pad(text, from, 8);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Logs};
    use std::path::Path;

    /// What one thread and several write of the chains of a log, each of them many times over.
    fn written(log: &Path, threads: usize, is_styled: bool) -> String {
        let (zone, filter, mut bytes) = (Zone::utc(), Filter::default(), Vec::new());
        let mut out = Out::new(&mut bytes);
        out.use_styles(is_styled);
        let mut text = Text::on(&zone, threads);
        for (number, chain) in Logs::open([log]).unwrap().chains(&filter).enumerate() {
            for _ in 0..40 {
                text.write(&mut out, &chain).unwrap();
            }
            if number % 70 == 69 {
                text.flush(&mut out).unwrap();
            }
        }
        text.end(&mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn several_threads_write_what_one_does() {
        let travelled = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled"));
        let machines = std::fs::read_dir(travelled).unwrap();
        let logs = machines.map(|machine| machine.unwrap().path().join("log"));
        let mut longest = 0;
        for log in logs.filter(|log| log.is_dir()) {
            let one = written(&log, 1, false);
            longest = longest.max(one.lines().count());
            for threads in [2, 4] {
                assert!(written(&log, threads, false) == one, "{}, {threads} threads", log.display());
            }
            assert!(written(&log, 4, true) == written(&log, 1, true), "{} in colours", log.display());
        }
        assert!(longest > 2 * lines::FULL, "{longest} lines");
    }
}
