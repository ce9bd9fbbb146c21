//! What a message of OTLP consists of, by the protocol's names, and how attributes are added.
//!
//! It serializes as OTLP JSON: ids in lower-case hexadecimal, 64-bit integers as strings, what is empty left out.
//! `proto` writes the same as protobuf, and `zipkin` makes spans of Zipkin out of it.

use crate::model::span_ids::{SpanId, TraceId};
use crate::model::value;
use iocrec_log::event::Value;
use serde::{Serialize, Serializer};

/// Span kinds of the protocol.
pub(crate) const INTERNAL: u8 = 1;
pub(crate) const SERVER: u8 = 2;
pub(crate) const CLIENT: u8 = 3;
/// Status code of the protocol for an error.
pub(crate) const ERROR: u8 = 2;

/// The version of OpenTelemetry's conventions that the attributes follow: the names of peers and clients
/// (`network.peer.address`, `client.address`) are stable since 1.21, those of services, processes and threads longer.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.21.0";

/// OTLP JSON has 64-bit integers as strings.
pub(crate) fn as_string<S: Serializer, T: std::fmt::Display>(
    number: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TracesData {
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceSpans {
    pub(crate) resource: Resource,
    pub(crate) scope_spans: [ScopeSpans; 1],
    pub(crate) schema_url: &'static str,
    /// Whose spans these are.
    #[serde(skip)]
    pub(crate) of: Of,
}

/// Whose spans a resource holds: those of an IOC or a server in a run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Of {
    /// The run as an address, only compared, since spans go to other threads and a run can't. Who adds them holds the run, so
    /// that no other one can come to lie in its place in memory.
    pub(crate) run: usize,
    pub(crate) service: Service,
}

/// An IOC by its id in the run, or a server of which only the address is known, if that.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Service {
    Ioc(u32),
    Address(Option<String>),
}

#[derive(Clone, Serialize)]
pub(crate) struct Resource {
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(crate) struct ScopeSpans {
    pub(crate) scope: Scope,
    pub(crate) spans: Vec<OtlpSpan>,
}

/// What wrote it.
pub(crate) const SCOPE: Scope = Scope { name: "iocreplay", version: env!("CARGO_PKG_VERSION") };

#[derive(Clone, Copy, Serialize)]
pub(crate) struct Scope {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OtlpSpan {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_span_id: Option<SpanId>,
    pub(crate) name: String,
    pub(crate) kind: u8,
    #[serde(serialize_with = "as_string")]
    pub(crate) start_time_unix_nano: u64,
    #[serde(serialize_with = "as_string")]
    pub(crate) end_time_unix_nano: u64,
    pub(crate) attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<OtlpEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    /// Whether it goes on while its thread does something else: a record that completes later, or is not seen to.
    #[serde(skip)]
    pub(crate) lasts: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OtlpEvent {
    #[serde(serialize_with = "as_string")]
    pub(crate) time_unix_nano: u64,
    pub(crate) name: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(crate) struct Status {
    pub(crate) code: u8,
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Serialize)]
pub(crate) struct Attribute {
    pub(crate) key: &'static str,
    pub(crate) value: AnyValue,
}

#[derive(Clone, PartialEq, Serialize)]
pub(crate) enum AnyValue {
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
pub(crate) fn text(attributes: &mut Vec<Attribute>, key: &'static str, value: &str) {
    if !value.is_empty() {
        attributes.push(Attribute { key, value: AnyValue::Text(value.to_owned()) });
    }
}

/// Adds a number.
pub(crate) fn int(attributes: &mut Vec<Attribute>, key: &'static str, value: i64) {
    attributes.push(Attribute { key, value: AnyValue::Int(value) });
}

/// Adds the address and the port of a client.
pub(crate) fn peer(attributes: &mut Vec<Attribute>, client: Option<&str>) {
    end(attributes, ["network.peer.address", "network.peer.port"], client);
}

/// Adds the address and the port of a server.
pub(crate) fn server(attributes: &mut Vec<Attribute>, server: Option<&str>) {
    end(attributes, ["server.address", "server.port"], server);
}

/// Adds both parts of `ADDRESS:PORT`. The address is without the brackets that one of IPv6 has before a port.
fn end(attributes: &mut Vec<Attribute>, [address, number]: [&'static str; 2], end: Option<&str>) {
    if let Some((ip, port)) = end.and_then(|end| end.rsplit_once(':')) {
        text(attributes, address, ip.trim_matches(['[', ']']));
        int(attributes, number, port.parse().unwrap_or_default());
    }
}

/// Adds an attribute, unless the value is unknown.
pub(crate) fn any(attributes: &mut Vec<Attribute>, key: &'static str, value: &Value) {
    if let Some(value) = any_value(value) {
        attributes.push(Attribute { key, value });
    }
}

/// All elements of an array as texts, if one of them is: OpenTelemetry's conventions allow no array of several types, and
/// receivers that keep arrays in columns drop or refuse it. Numbers have the digits that they have in JSON.
fn of_one_type(mut values: Vec<AnyValue>) -> Vec<AnyValue> {
    if values.iter().any(|value| matches!(value, AnyValue::Text(_))) {
        for value in &mut values {
            match value {
                AnyValue::Int(number) => *value = AnyValue::Text(number.to_string()),
                AnyValue::Double(number) => {
                    *value = AnyValue::Text(serde_json::Value::from(*number).to_string())
                }
                AnyValue::Text(_) | AnyValue::Bool(_) | AnyValue::Array { .. } => {}
            }
        }
    }
    values
}

fn any_value(v: &Value) -> Option<AnyValue> {
    Some(match v {
        Value::Unknown => return None,
        Value::Int(v) => AnyValue::Int(*v),
        // What is beyond the range of the protocol's signed integers is a text.
        Value::UInt(v) => i64::try_from(*v).map_or_else(|_| AnyValue::Text(v.to_string()), AnyValue::Int),
        Value::Array(array) => AnyValue::Array {
            values: of_one_type(value::elements(array).filter_map(|v| any_value(&v)).collect()),
        },
        Value::Float(_) | Value::Double(_) | Value::Text(_) => match value::json(v) {
            serde_json::Value::String(text) => AnyValue::Text(text),
            number => AnyValue::Double(number.as_f64()?),
        },
    })
}
