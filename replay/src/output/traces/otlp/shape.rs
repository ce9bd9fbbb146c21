//! What a message of OTLP consists of, by the protocol's names, and how attributes are added.
//!
//! It serializes as OTLP JSON: ids in lower-case hexadecimal, 64-bit integers as strings, what is empty left out.
//! `proto` writes the same as protobuf, and `zipkin` makes spans of Zipkin out of it.

use crate::model::run::Run;
use crate::model::value;
use iocrec_log::event::Value;
use serde::{Serialize, Serializer};
use std::rc::Rc;

/// Span kinds of the protocol.
pub(in crate::output::traces) const INTERNAL: u8 = 1;
pub(in crate::output::traces) const SERVER: u8 = 2;
pub(in crate::output::traces) const CLIENT: u8 = 3;
/// Status code of the protocol for an error.
pub(in crate::output::traces) const ERROR: u8 = 2;

/// The version of OpenTelemetry's conventions that the attributes follow: the names of peers and clients
/// (`network.peer.address`, `client.address`) are stable since 1.21, those of services, processes and threads longer.
pub(in crate::output::traces) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.21.0";

/// A number of a trace, not 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::output::traces) struct TraceId(pub(in crate::output::traces) u128);

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

/// A number of a span, not 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::output::traces) struct SpanId(pub(in crate::output::traces) u64);

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

/// OTLP JSON has 64-bit integers as strings.
fn as_string<S: Serializer, T: std::fmt::Display>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::traces) struct TracesData {
    pub(in crate::output::traces) resource_spans: Vec<ResourceSpans>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::traces) struct ResourceSpans {
    pub(in crate::output::traces) resource: Resource,
    pub(in crate::output::traces) scope_spans: [ScopeSpans; 1],
    pub(in crate::output::traces) schema_url: &'static str,
    /// Whose spans these are.
    #[serde(skip)]
    pub(in crate::output::traces) of: Of,
}

/// Whose spans a resource holds: those of an IOC or a server in a run. The run is held, so that no other one can come to
/// lie in its place in memory.
#[derive(Clone)]
pub(in crate::output::traces) struct Of {
    pub(in crate::output::traces) run: Rc<Run>,
    pub(in crate::output::traces) service: Service,
}

impl PartialEq for Of {
    fn eq(&self, other: &Of) -> bool {
        Rc::ptr_eq(&self.run, &other.run) && self.service == other.service
    }
}

/// An IOC by its id in the run, or a server of which only the address is known, if that.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::output::traces) enum Service {
    Ioc(u32),
    Address(Option<String>),
}

#[derive(Clone, Serialize)]
pub(in crate::output::traces) struct Resource {
    pub(in crate::output::traces) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(in crate::output::traces) struct ScopeSpans {
    pub(in crate::output::traces) scope: Scope,
    pub(in crate::output::traces) spans: Vec<OtlpSpan>,
}

#[derive(Clone, Copy, Serialize)]
pub(in crate::output::traces) struct Scope {
    pub(in crate::output::traces) name: &'static str,
    pub(in crate::output::traces) version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::traces) struct OtlpSpan {
    pub(in crate::output::traces) trace_id: TraceId,
    pub(in crate::output::traces) span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::output::traces) parent_span_id: Option<SpanId>,
    pub(in crate::output::traces) name: String,
    pub(in crate::output::traces) kind: u8,
    #[serde(serialize_with = "as_string")]
    pub(in crate::output::traces) start_time_unix_nano: u64,
    #[serde(serialize_with = "as_string")]
    pub(in crate::output::traces) end_time_unix_nano: u64,
    pub(in crate::output::traces) attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::output::traces) events: Vec<OtlpEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::output::traces) status: Option<Status>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::traces) struct OtlpEvent {
    #[serde(serialize_with = "as_string")]
    pub(in crate::output::traces) time_unix_nano: u64,
    pub(in crate::output::traces) name: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::output::traces) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(in crate::output::traces) struct Status {
    pub(in crate::output::traces) code: u8,
    pub(in crate::output::traces) message: String,
}

#[derive(Clone, Serialize)]
pub(in crate::output::traces) struct Attribute {
    pub(in crate::output::traces) key: &'static str,
    pub(in crate::output::traces) value: AnyValue,
}

#[derive(Clone, Serialize)]
pub(in crate::output::traces) enum AnyValue {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "intValue", serialize_with = "as_string")]
    Int(i64),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "arrayValue")]
    Array { values: Vec<AnyValue> },
}

/// Adds an attribute, unless the text is empty.
pub(in crate::output::traces) fn text(attributes: &mut Vec<Attribute>, key: &'static str, value: &str) {
    if !value.is_empty() {
        attributes.push(Attribute { key, value: AnyValue::Text(value.to_owned()) });
    }
}

/// Adds a number.
pub(in crate::output::traces) fn int(attributes: &mut Vec<Attribute>, key: &'static str, value: i64) {
    attributes.push(Attribute { key, value: AnyValue::Int(value) });
}

/// Adds an attribute, unless the value is unknown.
pub(in crate::output::traces) fn any(attributes: &mut Vec<Attribute>, key: &'static str, value: &Value) {
    if let Some(value) = any_value(value) {
        attributes.push(Attribute { key, value });
    }
}

fn any_value(v: &Value) -> Option<AnyValue> {
    Some(match v {
        Value::Unknown => return None,
        Value::Int(v) => AnyValue::Int(*v),
        // What is beyond the range of the protocol's signed integers is a text.
        Value::UInt(v) => i64::try_from(*v).map_or_else(|_| AnyValue::Text(v.to_string()), AnyValue::Int),
        Value::Array(array) => {
            AnyValue::Array { values: value::elements(array).filter_map(|v| any_value(&v)).collect() }
        }
        Value::Float(_) | Value::Double(_) | Value::Text(_) => match value::json(v) {
            serde_json::Value::String(text) => AnyValue::Text(text),
            number => AnyValue::Double(number.as_f64()?),
        },
    })
}
