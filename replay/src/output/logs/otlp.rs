//! Log records of OpenTelemetry: JSON lines, protobuf, or what is sent to a collector.
//!
//! Field numbers are those of opentelemetry-proto 1.x, `logs.proto`.

use super::record::record;
use super::Item;
use crate::collector::signal::{Signal, LOGS};
use crate::collector::Batch as _;
use crate::model::span_ids::{SpanId, TraceId};
use crate::out::Out;
use crate::output::format::Writer;
use crate::output::protobuf::Message;
use crate::output::resources::Resource as Of;
use crate::output::traces::otlp::proto::{attributes, length, value};
use crate::output::traces::otlp::shape::{as_string, AnyValue, Attribute, Scope, SCHEMA, SCOPE};
use crate::output::traces::otlp::Encoding;
use serde::Serialize;
use std::io;
use std::rc::Rc;

/// A log record and what it is of.
#[derive(Clone)]
pub struct Entry {
    of: Rc<Of>,
    record: LogRecord,
}

impl From<&Item> for Entry {
    fn from(item: &Item) -> Entry {
        Entry { of: Rc::clone(&item.resource), record: record(&item.happened) }
    }
}

/// A log record, by the protocol's names.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogRecord {
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

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct LogsData<'a> {
    resource_logs: Vec<ResourceLogs<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLogs<'a> {
    resource: Resource<'a>,
    scope_logs: [ScopeLogs<'a>; 1],
    schema_url: &'static str,
    /// Whose records these are.
    #[serde(skip)]
    of: &'a Rc<Of>,
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: &'a [Attribute],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeLogs<'a> {
    scope: Scope,
    log_records: Vec<&'a LogRecord>,
}

/// Log records on their way out, in the order in which they came.
#[derive(Default)]
pub struct Batch(Vec<Entry>);

impl Batch {
    /// By their resources, each of which stands once.
    fn data(&self) -> LogsData<'_> {
        let mut all: Vec<ResourceLogs> = Vec::new();
        for Entry { of, record } in &self.0 {
            if let Some(own) = all.iter_mut().find(|own| Rc::ptr_eq(own.of, of)) {
                let [scope] = &mut own.scope_logs;
                scope.log_records.push(record);
                continue;
            }
            all.push(ResourceLogs {
                resource: Resource { attributes: &of.attributes },
                scope_logs: [ScopeLogs { scope: SCOPE, log_records: vec![record] }],
                schema_url: SCHEMA,
                of,
            });
        }
        LogsData { resource_logs: all }
    }
}

impl crate::collector::Batch for Batch {
    type Part = Entry;
    const SIGNAL: &'static Signal = &LOGS;
    const SIZE: usize = 1000;

    fn add(&mut self, entry: &Entry) {
        self.0.push(entry.clone());
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn protobuf(&self) -> Vec<u8> {
        let mut message = Message::default();
        for of in &self.data().resource_logs {
            message.message(1, |to| {
                to.message(1, |to| attributes(to, 1, of.resource.attributes));
                of.scope_logs.iter().for_each(|scope| to.message(2, |to| scope_logs(to, scope)));
                to.bytes(3, of.schema_url.as_bytes());
            });
        }
        message.0
    }

    fn halves(mut self) -> Result<(Batch, Batch), Batch> {
        match self.0.len() {
            0 | 1 => Err(self),
            count => {
                let second = self.0.split_off(count / 2);
                Ok((self, Batch(second)))
            }
        }
    }
}

fn scope_logs(to: &mut Message, of: &ScopeLogs) {
    to.message(1, |to| {
        to.bytes(1, of.scope.name.as_bytes());
        to.bytes(2, of.scope.version.as_bytes());
    });
    of.log_records.iter().for_each(|of| to.message(2, |to| log_record(to, of)));
}

fn log_record(to: &mut Message, of: &LogRecord) {
    to.fixed(1, of.time_unix_nano);
    if of.severity_number > 0 {
        to.number(2, u64::from(of.severity_number));
    }
    to.text(3, of.severity_text);
    to.message(5, |to| value(to, &of.body));
    attributes(to, 6, &of.attributes);
    if let (Some(trace), Some(span)) = (of.trace_id, of.span_id) {
        to.bytes(9, &trace.0.to_be_bytes());
        to.bytes(10, &span.0.to_be_bytes());
    }
    to.fixed(11, of.observed_time_unix_nano);
    to.text(12, of.event_name);
}

/// Writes log records as OTLP.
pub(super) struct Otlp {
    encoding: Encoding,
    batch: Batch,
}

impl Otlp {
    pub(super) fn new(encoding: Encoding) -> Self {
        Otlp { encoding, batch: Batch::default() }
    }
}

impl Writer<Item> for Otlp {
    fn write(&mut self, out: &mut Out, item: &Item) -> io::Result<()> {
        self.batch.add(&Entry::from(item));
        match self.batch.count() >= Batch::SIZE {
            true => self.flush(out),
            false => Ok(()),
        }
    }

    fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.count() == 0 {
            return Ok(());
        }
        match self.encoding {
            Encoding::JsonLines => out.json(&batch.data()),
            Encoding::Protobuf => out.binary(&batch.protobuf()),
            Encoding::Delimited => {
                let message = batch.protobuf();
                out.binary(&length(message.len()))?;
                out.binary(&message)
            }
        }
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.flush(out)
    }
}
