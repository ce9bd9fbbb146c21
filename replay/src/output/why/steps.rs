//! The steps from the root of a chain down to a record, and the records that it read.

use crate::model::alarms::Alarm;
use crate::model::chain::{Chain, Outcome, PutSpan, Span, SpanKind, Trigger};
use crate::model::enum_strings::{self, severity_name};
use crate::model::putlog::{ioc_of_span, root_put, PutLine};
use crate::model::run::{field_name, has_value, record_name};
use crate::model::{outcome, value};
use crate::time::Zone;
use crate::wording::cause::cause;
use crate::wording::put::{change, who};
use iocrec_log::event::Value;
use serde::Serialize;

/// Inputs that are shown, which are processed as part of the chain.
const MAX_INPUTS: usize = 16;

/// Whether the put made its record process; if so, its completion has the value.
pub(super) fn processes(chain: &Chain, number: usize, put: &PutSpan) -> bool {
    field_name(&chain.run.context(), put.field) == Some("VAL")
        && chain.spans.iter().any(|span| match &span.kind {
            SpanKind::Process(process) => {
                let completed = matches!(process.outcome, Outcome::Completed(_));
                span.parent == Some(number) && Some(process.record) == put.record && completed
            }
            _ => false,
        })
}

/// The value of the field as the put left it.
pub(super) fn accepted(chain: &Chain, number: usize, put: &PutSpan) -> Value {
    if number == 0 {
        return root_put(chain, None).map_or(Value::Unknown, |line| line.new);
    }
    outcome::of(chain, &chain.run.context(), number, put).new
}

/// A step on the path from the cause to the record.
#[derive(Serialize)]
pub struct Step {
    pub(super) time: String,
    pub(super) ioc: String,
    /// `put`, `process` or `ca_link`.
    pub(super) what: &'static str,
    pub(super) record: String,
    pub(super) field: Option<String>,
    pub(super) trigger: Option<&'static str>,
    pub(super) old: serde_json::Value,
    pub(super) value: serde_json::Value,
    pub(super) severity: Option<&'static str>,
    #[serde(skip)]
    pub(super) text: String,
    /// The alarm's severity and status, if any.
    #[serde(skip)]
    pub(super) alarm: Option<Alarm>,
}

/// Adds the steps from the chain's root to span `number`. If that is a CA link, returns the chain that it leads to, and
/// the record that the link belongs to.
pub(super) fn way<'a>(
    chain: &'a Chain,
    number: usize,
    link: Option<&str>,
    zone: &Zone,
    steps: &mut Vec<Step>,
) -> Option<(String, &'a Chain)> {
    let mut numbers = Vec::new();
    let mut next = Some(number);
    while let Some(number) = next {
        numbers.push(number);
        next = chain.spans.get(number).and_then(|span| span.parent);
    }
    let mut leads = None;
    for number in numbers.into_iter().rev() {
        let Some(span) = chain.spans.get(number) else { continue };
        steps.push(step(chain, number, span, link, zone));
        if let SpanKind::Link(to) = &span.kind {
            let context = chain.run.context();
            let record = to.record.map(|record| record_name(&context, record)).unwrap_or_default();
            leads = to.target.as_deref().map(|target| (record, target));
        }
    }
    leads
}

/// Adds the records that were processed as inputs of that of span `number`, and as inputs of those.
pub(super) fn inputs(chain: &Chain, number: usize, zone: &Zone, depth: usize, steps: &mut Vec<Step>) {
    for (child, span) in chain.spans.iter().enumerate().skip(number) {
        let is_input = matches!(&span.kind, SpanKind::Process(process) if process.trigger == Trigger::Input);
        if is_input && span.parent == Some(number) && steps.len() < MAX_INPUTS {
            steps.push(step(chain, child, span, None, zone));
            if depth < MAX_INPUTS {
                inputs(chain, child, zone, depth + 1, steps);
            }
        }
    }
}

fn step(chain: &Chain, number: usize, span: &Span, link: Option<&str>, zone: &Zone) -> Step {
    let context = chain.run.context();
    let mut step = Step {
        time: zone.format(chain.run.wall(span.start), 9),
        ioc: ioc_of_span(&context, span),
        what: "put",
        record: String::new(),
        field: None,
        trigger: None,
        old: serde_json::Value::Null,
        value: serde_json::Value::Null,
        severity: None,
        text: String::new(),
        alarm: None,
    };
    match &span.kind {
        SpanKind::Put(put) => {
            let line: Option<PutLine> = if number == 0 { root_put(chain, link) } else { None };
            let record = put.record.map(|record| record_name(&context, record));
            let named = line.as_ref().and_then(|line| line.record.clone());
            step.record = record.or(named).unwrap_or_default();
            step.field = field_name(&context, put.field).map(str::to_owned);
            step.old = value::json(&put.old);
            step.value = value::json(&put.requested);
            step.text = match &line {
                _ if put.only_processes => format!("processing of {} asked for", step.record),
                Some(line) => format!(
                    "{} {} {} by {}",
                    line.via.name(),
                    line.pv.as_deref().unwrap_or("(unnamed channel)"),
                    change(line),
                    who(line)
                ),
                None => {
                    let field = step.field.as_deref().unwrap_or("?");
                    let (old, new) = (value::text(&put.old), value::text(&put.requested));
                    format!("put to {}.{field}: {old} -> {new}", step.record)
                }
            };
        }
        SpanKind::Process(process) => {
            step.what = "process";
            step.record = record_name(&context, process.record);
            step.trigger = Some(process.trigger.name());
            step.text = match number {
                0 => format!("{} processed by {}", step.record, cause(chain, link)),
                _ => format!("{} processed by {}", step.record, process.trigger.name()),
            };
            if let Outcome::Completed(completed) = &process.outcome {
                step.value = value::json(&completed.value);
                step.severity = Some(severity_name(completed.severity));
                if completed.value != Value::Unknown && has_value(&context, process.record) {
                    step.text.push_str(" = ");
                    value::push_text(&mut step.text, &completed.value);
                    let word = enum_strings::state(&context, process.record, span.end, &completed.value);
                    enum_strings::push(&mut step.text, word.as_deref());
                }
                if completed.severity != 0 {
                    step.alarm = Some((completed.severity, completed.status));
                }
            }
        }
        SpanKind::Link(link) => {
            step.what = "ca_link";
            step.record = link.record.map(|record| record_name(&context, record)).unwrap_or_default();
            step.value = value::json(&link.value);
            let of = if step.record.is_empty() { "an unknown record" } else { &step.record };
            step.text = format!("CA link of {of} writes {} to {}", value::text(&link.value), link.pv);
        }
    }
    step
}
