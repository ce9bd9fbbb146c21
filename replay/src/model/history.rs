//! Values of fields over time: every moment at which a chain shows the value of a field.
//!
//! | source | the moment | value | alarm |
//! |---|---|---|---|
//! | `process` | a record has processed | of its value field | yes |
//! | `put` | a put that did not make its record process | as the put left it | no |
//! | `found` | a put found a value that was not the last one known | before the put | no |
//! | `snapshot` | the recorder read it from the IOC's memory | of its value field | yes |
//!
//! A put that was refused changes nothing and shows no value of its own. A put of unknown outcome leaves an unknown
//! value: later moments may show it again.

use super::chain::{Chain, Outcome as End, PutSpan, Span, SpanKind};
use super::putlog::ioc_of_span;
use super::run::{field_name, has_value, record_name};
use super::{enum_strings, outcome};
use crate::filter::{Filter, Pattern};
use iocrec_log::context::Context;
use iocrec_log::event::{FieldId, RecordId, Value};
use std::rc::Rc;

/// How a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// Its record has processed.
    Process,
    /// A put wrote it.
    Put,
    /// A put found it there.
    Found,
    /// The recorder read it.
    Snapshot,
}

impl ValueSource {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            ValueSource::Process => "process",
            ValueSource::Put => "put",
            ValueSource::Found => "found",
            ValueSource::Snapshot => "snapshot",
        }
    }
}

/// The value of a field at a moment.
#[derive(Clone)]
pub struct ValueLine {
    /// Wall-clock time, nanoseconds since 1970 UTC. The value was there at this time; with `found` and `snapshot`, it
    /// may have been there earlier.
    pub time: i64,
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// IOC; empty if unknown.
    pub ioc: Rc<str>,
    /// Record.
    pub record: Rc<str>,
    /// Field.
    pub field: Rc<str>,
    /// The value; unknown if it may have changed to something that is not in the log.
    pub value: Value,
    /// The enum string or menu choice that the value stands for.
    pub text: Option<String>,
    /// Whether the log holds only a part of the value.
    pub cut: Option<bool>,
    /// Alarm severity and status, if known.
    pub alarm: Option<(u16, u16)>,
    /// How it is known.
    pub source: ValueSource,
    /// It is not certain to be the result of the put.
    pub inexact: bool,
    /// The chain that led to it; `None` for a snapshot, and for a value that was found.
    pub origin: Option<Origin>,
}

impl ValueLine {
    /// The name of the PV: the record for VAL, or `record.FIELD`.
    pub fn pv(&self) -> String {
        match &*self.field {
            "VAL" => self.record.to_string(),
            field => format!("{}.{field}", self.record),
        }
    }

    /// Whether one of the patterns matches the PV's name. A record's name alone is its VAL.
    pub fn is_named(&self, patterns: &[Pattern]) -> bool {
        let (pv, value) = (self.pv(), format!("{}.VAL", self.record));
        let is_value = &*self.field == "VAL";
        patterns.iter().any(|pattern| pattern.matches(&pv) || is_value && pattern.matches(&value))
    }
}

/// The span in which a field got its value.
#[derive(Clone)]
pub struct Origin {
    /// The chain that began it all.
    pub chain: Rc<Chain>,
    /// The way to the span: in each chain a span's number; all but the last are CA links that lead on to another chain.
    pub path: Vec<usize>,
}

impl Origin {
    /// The chain that the span is in, the span, and the record whose CA link led to that chain.
    pub fn last(&self) -> Option<(&Chain, &Span, Option<String>)> {
        let (mut chain, mut by): (&Chain, Option<String>) = (&self.chain, None);
        let (last, links) = self.path.split_last()?;
        for number in links {
            let SpanKind::Link(link) = &chain.spans.get(*number)?.kind else { return None };
            by = link.record.map(|record| record_name(&chain.run.context(), record));
            chain = link.target.as_deref()?;
        }
        Some((chain, chain.spans.get(*last)?, by))
    }
}

/// Calls `each` for the values in a chain, and in those that its CA links led to, that match the filter, in no
/// particular order: each with its way in the chain. Lines have no origin yet.
pub fn each_value(chain: &Chain, filter: &Filter, each: &mut impl FnMut(ValueLine, &[usize])) {
    walk(chain, filter, &mut Vec::new(), each);
}

fn walk(chain: &Chain, filter: &Filter, path: &mut Vec<usize>, each: &mut impl FnMut(ValueLine, &[usize])) {
    let context = chain.run.context();
    for (number, span) in chain.spans.iter().enumerate() {
        path.push(number);
        match &span.kind {
            SpanKind::Process(process) => {
                if let End::Completed(completed) = &process.outcome {
                    let value = match has_value(&context, process.record) {
                        true => completed.value.clone(),
                        false => Value::Unknown,
                    };
                    let of = Field { record: process.record, field: None, name: "VAL" };
                    if let Some(line) = line(chain, &context, span, of, span.end, filter) {
                        let alarm = Some((completed.severity, completed.status));
                        let source = ValueSource::Process;
                        each(ValueLine { alarm, source, ..with(line, &context, of, value) }, path);
                    }
                }
            }
            SpanKind::Put(put) => of_put(chain, &context, number, put, filter, &mut |line| each(line, path)),
            SpanKind::Link(link) => {
                if let Some(target) = &link.target {
                    walk(target, filter, path, each);
                }
            }
        }
        path.pop();
    }
}

/// The value that a put found, and the one that it left.
fn of_put(
    chain: &Chain,
    context: &Context,
    number: usize,
    put: &PutSpan,
    filter: &Filter,
    each: &mut impl FnMut(ValueLine),
) {
    let (Some(record), Some(span)) = (put.record, chain.spans.get(number)) else { return };
    let name = field_name(context, put.field);
    // Without a name it may be any field.
    let Some(name) = name.filter(|_| !put.only_processes && !outcome::acknowledges(context, put)) else {
        return;
    };
    let of = Field { record, field: put.field, name };
    let begun = put.written.unwrap_or(span.start);
    if put.old != Value::Unknown {
        let definition = put.field.and_then(|field| context.field(field));
        let old = outcome::as_asked(context, put, definition, put.old.clone());
        if let Some(line) = line(chain, context, span, of, begun, filter) {
            each(ValueLine { source: ValueSource::Found, ..with(line, context, of, old) });
        }
    }
    if processes(chain, number, put, name) {
        return; // its completion has the value
    }
    let outcome::Outcome { status, new, inexact } = outcome::of(chain, context, number, put);
    // An answer other than "ok" is a refusal; "unknown" may be either.
    let refused = status != "ok" && status != "unknown";
    let reached = put.wrote || put.packet.is_some();
    if refused || !reached {
        return;
    }
    let time = put.written.unwrap_or(span.end);
    if let Some(line) = line(chain, context, span, of, time, filter) {
        each(ValueLine { source: ValueSource::Put, inexact, ..with(line, context, of, new) });
    }
}

/// A field of a record.
#[derive(Clone, Copy)]
struct Field<'a> {
    record: RecordId,
    field: Option<FieldId>,
    name: &'a str,
}

/// A line for this field at this monotonic time, if it matches the filter.
fn line(
    chain: &Chain,
    context: &Context,
    span: &Span,
    of: Field,
    time: u64,
    filter: &Filter,
) -> Option<ValueLine> {
    let time = chain.run.wall(time);
    let record = record_name(context, of.record);
    if !filter.time(time) || !filter.field(&record, of.name) {
        return None;
    }
    let (host, ioc) = (chain.run.host(), ioc_of_span(context, span));
    filter.place(&host, &ioc).then(|| ValueLine {
        time,
        host: host.into(),
        ioc: ioc.into(),
        record: record.into(),
        field: of.name.into(),
        value: Value::Unknown,
        text: None,
        cut: None,
        alarm: None,
        source: ValueSource::Process,
        inexact: false,
        origin: None,
    })
}

fn with(line: ValueLine, context: &Context, of: Field, value: Value) -> ValueLine {
    let text = match of.field {
        Some(_) => enum_strings::word(context, Some(of.record), of.field, &value),
        None => enum_strings::state(context, of.record, &value),
    };
    ValueLine { cut: outcome::is_cut(&value, true), text, value, ..line }
}

/// Whether the put made its record process to the end; if so, that shows the value.
fn processes(chain: &Chain, number: usize, put: &PutSpan, field: &str) -> bool {
    field == "VAL"
        && chain.spans.iter().any(|span| match &span.kind {
            SpanKind::Process(process) => {
                let completed = matches!(process.outcome, End::Completed(_));
                span.parent == Some(number) && Some(process.record) == put.record && completed
            }
            _ => false,
        })
}
