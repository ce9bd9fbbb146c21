//! What a line of OTLP JSON consists of, by the protocol's names, and how attributes are added.

use crate::model::value;
use iocrec_log::event::Value;
use serde::Serialize;

/// Span kinds of the protocol.
pub(super) const INTERNAL: u8 = 1;
pub(super) const SERVER: u8 = 2;
pub(super) const CLIENT: u8 = 3;
/// Status code of the protocol for an error.
pub(super) const ERROR: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TracesData {
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    pub(super) resource: Resource,
    pub(super) scope_spans: [ScopeSpans; 1],
    /// Its run and IOC.
    #[serde(skip)]
    pub(super) of: (usize, Option<u32>),
}

#[derive(Serialize)]
pub(super) struct Resource {
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(super) struct ScopeSpans {
    pub(super) scope: Scope,
    pub(super) spans: Vec<OtlpSpan>,
}

#[derive(Serialize)]
pub(super) struct Scope {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<String>,
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) start_time_unix_nano: String,
    pub(super) end_time_unix_nano: String,
    pub(super) attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<OtlpEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtlpEvent {
    pub(super) time_unix_nano: String,
    pub(super) name: &'static str,
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub(super) struct Status {
    pub(super) code: u8,
    pub(super) message: String,
}

#[derive(Serialize)]
pub(super) struct Attribute {
    pub(super) key: &'static str,
    pub(super) value: AnyValue,
}

#[derive(Serialize)]
pub(super) enum AnyValue {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Bool(bool),
    /// The protocol writes 64-bit integers as strings.
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "arrayValue")]
    Array { values: Vec<AnyValue> },
}

/// Adds an attribute, unless the text is empty.
pub(super) fn text(attributes: &mut Vec<Attribute>, key: &'static str, value: &str) {
    if !value.is_empty() {
        attributes.push(Attribute { key, value: AnyValue::Text(value.to_owned()) });
    }
}

/// Adds a number.
pub(super) fn int(attributes: &mut Vec<Attribute>, key: &'static str, value: i64) {
    attributes.push(Attribute { key, value: AnyValue::Int(value.to_string()) });
}

/// Adds an attribute, unless the value is unknown.
pub(super) fn any(attributes: &mut Vec<Attribute>, key: &'static str, value: &Value) {
    if let Some(value) = any_value(value) {
        attributes.push(Attribute { key, value });
    }
}

fn any_value(v: &Value) -> Option<AnyValue> {
    Some(match v {
        Value::Unknown => return None,
        Value::Int(v) => AnyValue::Int(v.to_string()),
        // Beyond the range of the protocol's signed integers.
        Value::UInt(v) if i64::try_from(*v).is_err() => AnyValue::Text(v.to_string()),
        Value::UInt(v) => AnyValue::Int(v.to_string()),
        Value::Array(array) => {
            AnyValue::Array { values: value::elements(array).filter_map(|v| any_value(&v)).collect() }
        }
        Value::Float(_) | Value::Double(_) | Value::Text(_) => match value::json(v) {
            serde_json::Value::String(text) => AnyValue::Text(text),
            number => AnyValue::Double(number.as_f64()?),
        },
    })
}
