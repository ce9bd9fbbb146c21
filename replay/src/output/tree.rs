//! Chains as indented text.
//!
//! The first line says when and what set the chain off; below it stand the records in the order in
//! which they were processed, each under what made it process, with its value, its severity where it
//! has one, and the time that it took.

use super::puts::{change, who};
use crate::model::caller::{self, Role};
use crate::model::putlog::{ioc_of_span, root_put};
use crate::model::run::{field_name, has_value, record_name};
use crate::model::span::{LinkSpan, Outcome, ProcessSpan, PutSpan, Span, Tree, Trigger, What};
use crate::model::{value, words};
use crate::out::{add, line, Out};
use crate::time::{duration, Zone};
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, Value};
use std::fmt::Write as _;
use std::io;

/// Writes a chain.
pub fn write(out: &mut Out, tree: &Tree, zone: &Zone) -> io::Result<()> {
    let Some(root) = tree.root() else { return Ok(()) };
    let ioc = ioc_of_span(&tree.run.context(), root);
    add!(out, "{}  {}", zone.format(tree.run.wall(root.start), 6), cause(tree, None));
    if !ioc.is_empty() {
        add!(out, "  [{ioc}]");
    }
    if tree.open {
        add!(out, "  (not seen to end)");
    }
    line!(out)?;
    let children = tree.children();
    match &root.what {
        What::Put(_) => branch(out, tree, &children, 0, 1),
        _ => node(out, tree, &children, 0, 1),
    }
}

/// What set the chain off, in words. `link`: the record whose CA link did.
pub fn cause(tree: &Tree, link: Option<&str>) -> String {
    let Some(root) = tree.root() else { return String::new() };
    if let Some(put) = root_put(tree, link) {
        let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
        if matches!(&root.what, What::Put(root) if root.only_processes) {
            return format!("processing of {pv} asked for by {}", who(&put));
        }
        let mut text = format!("{} {pv} {} by {}", put.via.name(), change(&put), who(&put));
        if put.status != "ok" {
            let _ = write!(text, ", {}", put.status);
        }
        return text;
    }
    let context = tree.run.context();
    let thread = root.thread.and_then(|thread| context.thread(thread));
    let thread = thread.map_or("", |thread| thread.name.as_str());
    match &root.what {
        What::Process(process) => match process.trigger {
            Trigger::Scan => match caller::scan_period(thread).as_deref().or(list_name(&context, process)) {
                Some(period) => format!("scan {period}"),
                None => "scan".to_owned(),
            },
            Trigger::Event => {
                let name = list_name(&context, process).map(|name| format!(" {name}")).unwrap_or_default();
                format!("event{name}{}", asker(&context, process))
            }
            Trigger::IoInterrupt => format!("I/O Intr{}", asker(&context, process)),
            Trigger::Python => format!("I/O Intr by Python code{}", asker(&context, process)),
            Trigger::Callback => format!("callback in {thread}"),
            Trigger::Once | Trigger::CpLink if process.for_link => {
                match tree.run.cp_link(root.start, process.record) {
                    Some((field, source)) => {
                        let field = field_name(&context, Some(field)).unwrap_or("?");
                        format!("CP link {}.{field} from {source}", record_name(&context, process.record))
                    }
                    None => "CP link, source not known".to_owned(),
                }
            }
            Trigger::Once | Trigger::CpLink => "scanOnce (CP link, or put while active)".to_owned(),
            Trigger::Pini => "PINI".to_owned(),
            Trigger::Shell => "dbtr in the IOC shell".to_owned(),
            Trigger::Completion => "completion of what began earlier".to_owned(),
            _ => match root.thread.map(|thread| caller::role(&context, thread)) {
                Some(Role::PvaServer) => "PVA client".to_owned(),
                _ if thread.is_empty() => "unknown".to_owned(),
                _ => format!("unknown, in thread {thread}"),
            },
        },
        _ => format!("CA link, in thread {thread}"),
    }
}

/// The event or period that the record was processed for.
fn list_name<'a>(context: &'a Context, process: &ProcessSpan) -> Option<&'a str> {
    let name = context.scan_list(process.list?)?.name.as_str();
    (!name.is_empty()).then_some(name)
}

/// Who asked for an event or for I/O Intr, where known.
fn asker(context: &Context, process: &ProcessSpan) -> String {
    let Some(asked) = &process.asked else { return String::new() };
    let site =
        context.call_site(asked.site).filter(|site| !site.function.is_empty() || !site.module.is_empty());
    let by = site.map(|site| match (site.function.as_str(), site.module.as_str()) {
        ("", module) => format!(" by {module}"),
        (function, module) => format!(" by {function} ({module})"),
    });
    // one that had ended when its name was to be read
    let thread = context.thread(asked.thread).map(|thread| match thread.name.as_str() {
        "" => format!(" in thread {}", thread.tid),
        name => format!(" in thread {name}"),
    });
    match (by, thread) {
        (None, None) => String::new(),
        (by, thread) => format!(", asked for{}{}", by.unwrap_or_default(), thread.unwrap_or_default()),
    }
}

/// The children of a span.
fn branch(
    out: &mut Out,
    tree: &Tree,
    children: &[Vec<usize>],
    number: usize,
    depth: usize,
) -> io::Result<()> {
    // Chains of thousands of records are possible; deeper than this nobody reads, and recursion ends.
    const DEEPEST: usize = 500;
    if depth > DEEPEST {
        indent(out, depth);
        return line!(out, "...");
    }
    for &child in children.get(number).map(Vec::as_slice).unwrap_or_default() {
        node(out, tree, children, child, depth)?;
    }
    Ok(())
}

fn node(out: &mut Out, tree: &Tree, children: &[Vec<usize>], number: usize, depth: usize) -> io::Result<()> {
    let Some(span) = tree.spans.get(number) else { return Ok(()) };
    indent(out, depth);
    let context = tree.run.context();
    let mut text = String::new();
    match &span.what {
        What::Process(process) => describe_process(&mut text, &context, span, process),
        What::Put(put) => describe_put(&mut text, &context, put),
        What::Link(link) => describe_link(&mut text, &context, link),
    }
    line!(out, "{text}")?;
    if let What::Link(LinkSpan { target: Some(target), record, .. }) = &span.what {
        linked(out, target, record.map(|record| record_name(&context, record)), depth + 1)?;
    }
    branch(out, tree, children, number, depth + 1)
}

/// The chain that a CA link led to.
fn linked(out: &mut Out, tree: &Tree, record: Option<String>, depth: usize) -> io::Result<()> {
    let Some(root) = tree.root() else { return Ok(()) };
    indent(out, depth);
    let ioc = ioc_of_span(&tree.run.context(), root);
    let cause = cause(tree, Some(record.as_deref().unwrap_or_default()));
    line!(out, "{cause}  [{}{ioc}]", host_prefix(tree))?;
    branch(out, tree, &tree.children(), 0, depth + 1)
}

fn host_prefix(tree: &Tree) -> String {
    let host = tree.run.host();
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
                let word = words::state(context, process.record, &completed.value);
                words::push(text, word.as_deref());
            }
            if completed.severity != 0 {
                let _ = write!(text, " {}", words::alarm(completed.severity, completed.status));
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
        words::push(text, words::word(context, put.record, put.field, &put.old).as_deref());
    }
    text.push_str(" -> ");
    value::push_text(text, &put.requested);
    words::push(text, words::word(context, put.record, put.field, &put.requested).as_deref());
}

fn describe_link(text: &mut String, context: &Context, link: &LinkSpan) {
    let record = link.record.map(|record| record_name(context, record));
    let _ = write!(text, "CA link {} -> ", record.as_deref().unwrap_or("of a record that is not known"));
    value::push_text(text, &link.value);
    let _ = write!(text, " to {}", link.pv);
}

fn trim(text: &mut String) {
    text.truncate(text.trim_end().len());
}
