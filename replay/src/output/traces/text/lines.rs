//! Lines of traces on their way to the thread that formats them.
//!
//! Most lines are of records that a scan has processed: of these their numbers are handed over, all others as they are. Names
//! are looked up before, since definitions change while the log is read.

use super::{indent, is_delay, push_trigger, trim};
use crate::model::chain::{Completed, Outcome, ProcessSpan, Span, Trigger};
use crate::model::run::{push_name_of, type_has_value};
use crate::model::{enum_strings, value};
use crate::out::Out;
use crate::output::ordered::Batch;
use crate::time::push_duration;
use crate::wording::alarm;
use iocrec_log::context::{Context, RecordRef};
use iocrec_log::event::Value;

/// Lines that are handed over together, or bytes of them: some hold arrays.
pub(super) const FULL: usize = 1024;
const FULL_TEXT: usize = 1 << 18;

/// How a record completed.
#[derive(Clone, Copy)]
pub(super) struct Completion<'a> {
    /// Its value, if that means anything.
    value: Option<&'a Value>,
    severity: u16,
    status: u16,
    took: u64,
    is_asynchronous: bool,
    is_delayed: bool,
}

impl<'a> Completion<'a> {
    /// That of a span.
    pub fn of(
        record: Option<RecordRef>,
        span: &Span,
        process: &ProcessSpan,
        completed: &'a Completed,
    ) -> Completion<'a> {
        let has_value =
            completed.value != Value::Unknown && record.is_none_or(|record| type_has_value(record.rtype));
        Completion {
            value: has_value.then_some(&completed.value),
            severity: completed.severity,
            status: completed.status,
            took: span.end.saturating_sub(span.start),
            is_asynchronous: process.phases.iter().any(|phase| phase.asked.is_none()),
            is_delayed: process.phases.iter().any(|phase| is_delay(phase.asked)),
        }
    }

    /// The name of the state that the value is the number of.
    pub fn state(self, context: &Context, span: &Span, process: &ProcessSpan) -> Option<String> {
        enum_strings::state(context, process.record, span.end, self.value?)
    }

    /// Adds it to the line.
    pub fn push(self, out: &mut Out, state: Option<&str>) {
        if let Some(value) = self.value {
            let text = out.text();
            text.push_str(" = ");
            value::push_text(text, value);
            enum_strings::push(text, state);
        }
        if self.severity != 0 {
            alarm::push(out, self.severity, self.status);
        }
        let text = out.text();
        if self.took > 0 {
            text.push_str("  ");
            push_duration(text, self.took);
        }
        if self.is_asynchronous {
            text.push_str(" asynchronous");
        }
        if self.is_delayed {
            text.push_str(", delayed by itself");
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Lines {
    /// The texts of all lines; of records their names.
    text: String,
    lines: Vec<Line>,
}

struct Line {
    /// Bytes of its text.
    length: usize,
    /// What follows the name, if it is a record's.
    record: Option<Record>,
}

struct Record {
    depth: usize,
    trigger: Trigger,
    value: Option<Value>,
    severity: u16,
    status: u16,
    took: u64,
    is_asynchronous: bool,
    is_delayed: bool,
}

impl Lines {
    /// Takes the text of a whole line.
    pub fn add(&mut self, text: &mut String) {
        self.text.push_str(text);
        self.lines.push(Line { length: text.len(), record: None });
        text.clear();
    }

    /// Takes the line of a record, if it is of few numbers.
    pub fn take(&mut self, context: &Context, span: &Span, process: &ProcessSpan, depth: usize) -> bool {
        let Outcome::Completed(completed) = &process.outcome else { return false };
        let record = context.record(process.record);
        let completion = Completion::of(record, span, process, completed);
        if value::heap(&completed.value) > 0 || completion.state(context, span, process).is_some() {
            return false;
        }
        let from = self.text.len();
        push_name_of(&mut self.text, record, process.record);
        let Completion { value, severity, status, took, is_asynchronous, is_delayed } = completion;
        let (value, trigger) = (value.cloned(), process.trigger);
        let record = Record { depth, trigger, value, severity, status, took, is_asynchronous, is_delayed };
        self.lines.push(Line { length: self.text.len() - from, record: Some(record) });
        true
    }
}

impl Record {
    fn push(&self, out: &mut Out, name: &str) {
        let text = out.text();
        indent(text, self.depth);
        let from = text.len();
        text.push_str(name);
        push_trigger(text, from, self.trigger);
        let Record { severity, status, took, is_asynchronous, is_delayed, .. } = *self;
        let value = self.value.as_ref();
        Completion { value, severity, status, took, is_asynchronous, is_delayed }.push(out, None);
        trim(out.text(), from);
    }
}

impl Batch for Lines {
    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= FULL || self.text.len() >= FULL_TEXT
    }

    fn make(&mut self, output: &mut Vec<u8>) {
        let mut out = Out::new(output);
        let mut rest = self.text.as_str();
        for line in self.lines.drain(..) {
            let (text, after) = rest.split_at_checked(line.length).unwrap_or((rest, ""));
            rest = after;
            match &line.record {
                Some(record) => record.push(&mut out, text),
                None => out.text().push_str(text),
            }
            // writing to memory can't fail
            let _ = out.end();
        }
        self.text.clear();
    }
}
