//! Log records of OpenTelemetry.
//!
//! Field numbers are those of opentelemetry-proto 1.x, `logs.proto`.

use super::record::record;
use super::Item;
use crate::answers::happened::Happened;
use crate::collector::signal::{Signal, LOGS};
use crate::model::span_ids::{SpanId, TraceId};
use crate::output::otlp::{Part, Parts, Telemetry};
use crate::output::protobuf::Message;
use crate::output::resources::Resource;
use crate::output::traces::otlp::proto::{attributes, value};
use crate::output::traces::otlp::shape::{as_string, AnyValue, Attribute};
use serde::Serialize;
use std::rc::Rc;

/// A log record and what it is of.
#[derive(Clone)]
pub struct Entry {
    of: Rc<Resource>,
    record: LogRecord,
}

impl Entry {
    /// What happened to this.
    pub fn new(happened: &Happened, of: Rc<Resource>) -> Entry {
        Entry { of, record: record(happened) }
    }
}

/// A log record, by the protocol's names.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRecord {
    #[serde(serialize_with = "as_string")]
    pub(super) time_unix_nano: u64,
    #[serde(serialize_with = "as_string")]
    pub(super) observed_time_unix_nano: u64,
    /// 0 if it has none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) severity_number: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) severity_text: &'static str,
    pub(super) body: AnyValue,
    pub(super) attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<TraceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) span_id: Option<SpanId>,
    pub(super) event_name: &'static str,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u8) -> bool {
    *number == 0
}

impl Part for Entry {
    const SIGNAL: &'static Signal = &LOGS;
    const KEYS: [&'static str; 3] = ["resourceLogs", "scopeLogs", "logRecords"];
    type Line<'a> = &'a LogRecord;

    fn of(&self) -> &Rc<Resource> {
        &self.of
    }

    fn add_to<'a>(&'a self, lines: &mut Vec<&'a LogRecord>) {
        lines.push(&self.record);
    }

    fn encode(record: &&LogRecord, to: &mut Message) {
        to.fixed(1, record.time_unix_nano);
        if record.severity_number > 0 {
            to.number(2, u64::from(record.severity_number));
        }
        to.text(3, record.severity_text);
        to.message(5, |to| value(to, &record.body));
        attributes(to, 6, &record.attributes);
        if let (Some(trace), Some(span)) = (record.trace_id, record.span_id) {
            to.bytes(9, &trace.0.to_be_bytes());
            to.bytes(10, &span.0.to_be_bytes());
        }
        to.fixed(11, record.observed_time_unix_nano);
        to.text(12, record.event_name);
    }
}

impl Telemetry for Item {
    type Batch = Parts<Entry>;

    fn parts<E>(&self, mut each: impl FnMut(&Entry) -> Result<(), E>) -> Result<(), E> {
        each(&Entry::new(&self.happened, Rc::clone(&self.resource)))
    }
}
