//! Chains as spans of Zipkin, version 2: one JSON array.
//!
//! They are the spans of [`otlp`](super::otlp), told in Zipkin's terms by the rules that OpenTelemetry states for an exporter
//! to Zipkin: attributes are tags, which are all texts, and the status of what failed is the tag `error`. Zipkin counts in
//! microseconds; two more tags have the nanoseconds.

use super::otlp::shape::{AnyValue, Attribute, OtlpEvent, OtlpSpan, CLIENT, ERROR, SERVER};
use super::otlp::Batch;
use crate::collector::Batch as _;
use crate::model::chain::Chain;
use crate::model::span_ids::{SpanId, TraceId};
use crate::out::{line, Out};
use crate::output::format::Writer;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Writes chains as an array.
#[derive(Default)]
pub struct Zipkin {
    /// Whether a span was written.
    begun: bool,
}

impl Writer<Chain> for Zipkin {
    fn begin(&mut self, out: &mut Out) -> io::Result<()> {
        line!(out, "[")
    }

    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.add(chain);
        for resource in &batch.data().resource_spans {
            for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
                let is_first = !std::mem::replace(&mut self.begun, true);
                out.json_element(is_first, &zipkin_span(span, &resource.resource.attributes))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        line!(out, "]")
    }
}

/// A span, by Zipkin's names.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: TraceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<SpanId>,
    id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    name: &'a str,
    /// Microseconds since 1970; 0 would mean that it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<u64>,
    /// Microseconds, at least 1: 0 would mean that it is unknown.
    duration: u64,
    local_endpoint: Endpoint<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_endpoint: Option<Endpoint<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Annotation>,
    tags: BTreeMap<&'static str, String>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    service_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6: Option<Ipv6Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Serialize)]
struct Annotation {
    timestamp: u64,
    value: String,
}

fn zipkin_span<'a>(span: &'a OtlpSpan, resource: &'a [Attribute]) -> Span<'a> {
    let of_resource = resource.iter().filter(|attribute| attribute.key != "service.name");
    let mut tags: BTreeMap<&'static str, String> =
        of_resource.chain(&span.attributes).map(|attribute| (attribute.key, tag(&attribute.value))).collect();
    tags.insert("start.unix_nano", span.start_time_unix_nano.to_string());
    tags.insert("end.unix_nano", span.end_time_unix_nano.to_string());
    if let Some(status) = span.status.as_ref().filter(|status| status.code == ERROR) {
        tags.insert("error", status.message.clone());
    }
    let start = span.start_time_unix_nano / 1000;
    Span {
        trace_id: span.trace_id,
        parent_id: span.parent_span_id,
        id: span.span_id,
        kind: match span.kind {
            SERVER => Some("SERVER"),
            CLIENT => Some("CLIENT"),
            _ => None,
        },
        name: &span.name,
        timestamp: Some(start).filter(|start| *start > 0),
        duration: span.end_time_unix_nano.div_ceil(1000).saturating_sub(start).max(1),
        local_endpoint: Endpoint { service_name: text(resource, "service.name"), ..Endpoint::default() },
        remote_endpoint: remote(span),
        annotations: span.events.iter().map(annotation).collect(),
        tags,
    }
}

/// The other side of a put or a link, if anything is known of it.
fn remote(span: &OtlpSpan) -> Option<Endpoint<'_>> {
    let get = |key| text(&span.attributes, key);
    let end = |address: &str, port: &str| {
        let ip: IpAddr = text(&span.attributes, address)?.parse().ok()?;
        let port = span.attributes.iter().find(|attribute| attribute.key == port);
        let port = port.and_then(|port| match port.value {
            AnyValue::Int(port) => u16::try_from(port).ok(),
            _ => None,
        });
        Some((ip, port))
    };
    let (name, address) = match span.kind {
        SERVER => (get("client.address"), end("network.peer.address", "network.peer.port")),
        CLIENT => (get("service.peer.name"), end("server.address", "server.port")),
        _ => return None,
    };
    let mut endpoint = Endpoint { service_name: name, ..Endpoint::default() };
    if let Some((ip, port)) = address {
        match ip {
            IpAddr::V4(ip) => endpoint.ipv4 = Some(ip),
            IpAddr::V6(ip) => endpoint.ipv6 = Some(ip),
        }
        endpoint.port = port.filter(|port| *port > 0);
    }
    (endpoint.service_name.is_some() || address.is_some()).then_some(endpoint)
}

fn text<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a str> {
    attributes.iter().filter(|attribute| attribute.key == key).find_map(|attribute| match &attribute.value {
        AnyValue::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// A value as a text: arrays as JSON.
fn tag(value: &AnyValue) -> String {
    match value {
        AnyValue::Text(text) => text.clone(),
        value => plain(value).to_string(),
    }
}

/// A value as plain JSON.
fn plain(value: &AnyValue) -> serde_json::Value {
    match value {
        AnyValue::Text(text) => text.as_str().into(),
        AnyValue::Bool(bool) => (*bool).into(),
        AnyValue::Int(number) => (*number).into(),
        AnyValue::Double(number) => (*number).into(),
        AnyValue::Array { values } => values.iter().map(plain).collect(),
    }
}

/// An event: its name, and after it its attributes as JSON.
fn annotation(event: &OtlpEvent) -> Annotation {
    let attributes: serde_json::Map<String, serde_json::Value> = event
        .attributes
        .iter()
        .map(|attribute| (attribute.key.to_owned(), plain(&attribute.value)))
        .collect();
    let value = match attributes.is_empty() {
        true => event.name.to_owned(),
        false => format!("{}: {}", event.name, serde_json::Value::from(attributes)),
    };
    Annotation { timestamp: event.time_unix_nano / 1000, value }
}
