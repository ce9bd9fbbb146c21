//! OTLP as protobuf.
//!
//! Field numbers are those of opentelemetry-proto 1.x: `trace.proto`, `common.proto`, `resource.proto`.

use super::shape::{AnyValue, Attribute, OtlpEvent, OtlpSpan, ResourceSpans, TracesData, SCHEMA, SCOPE};
use crate::output::protobuf::Message;

/// Encodes a TracesData, which is an ExportTraceServiceRequest, too.
pub(super) fn encode(data: &TracesData) -> Vec<u8> {
    let mut message = Message::default();
    for ResourceSpans { resource: of, scope_spans: [scope], .. } in &data.resource_spans {
        resource(&mut message, &of.attributes, |to| {
            scope.spans.iter().for_each(|of| to.message(2, |to| span(to, of)));
        });
    }
    message.0
}

/// A length as the varint that stands before a message.
pub(in crate::output) fn length(length: usize) -> Vec<u8> {
    let mut message = Message::default();
    message.varint(length as u64);
    message.0
}

/// A resource, with a scope and what that holds.
pub(in crate::output) fn resource(to: &mut Message, of: &[Attribute], lines: impl FnOnce(&mut Message)) {
    to.message(1, |to| {
        to.message(1, |to| attributes(to, 1, of));
        to.message(2, |to| {
            to.message(1, |to| {
                to.bytes(1, SCOPE.name.as_bytes());
                to.bytes(2, SCOPE.version.as_bytes());
            });
            lines(to);
        });
        to.bytes(3, SCHEMA.as_bytes());
    });
}

/// Attributes, as KeyValue.
pub(in crate::output) fn attributes(to: &mut Message, field: u64, attributes: &[Attribute]) {
    for attribute in attributes {
        to.message(field, |to| {
            to.bytes(1, attribute.key.as_bytes());
            to.message(2, |to| value(to, &attribute.value));
        });
    }
}

/// An AnyValue. The value of a oneof is written even if it is 0 or empty: otherwise there would be none.
pub(in crate::output) fn value(to: &mut Message, of: &AnyValue) {
    match of {
        AnyValue::Text(text) => to.bytes(1, text.as_bytes()),
        AnyValue::Bool(bool) => to.number(2, u64::from(*bool)),
        // An int64 below zero takes ten bytes, as in two's complement.
        AnyValue::Int(number) => to.number(3, number.cast_unsigned()),
        AnyValue::Double(number) => to.fixed(4, number.to_bits()),
        AnyValue::Array { values } => {
            to.message(5, |to| values.iter().for_each(|of| to.message(1, |to| value(to, of))));
        }
    }
}

fn span(to: &mut Message, span: &OtlpSpan) {
    to.bytes(1, &span.trace_id.0.to_be_bytes());
    to.bytes(2, &span.span_id.0.to_be_bytes());
    if let Some(parent) = span.parent_span_id {
        to.bytes(4, &parent.0.to_be_bytes());
    }
    to.bytes(5, span.name.as_bytes());
    to.number(6, u64::from(span.kind));
    to.fixed(7, span.start_time_unix_nano);
    to.fixed(8, span.end_time_unix_nano);
    attributes(to, 9, &span.attributes);
    span.events.iter().for_each(|of| to.message(11, |to| event(to, of)));
    if let Some(status) = &span.status {
        to.message(15, |to| {
            to.bytes(2, status.message.as_bytes());
            to.number(3, u64::from(status.code));
        });
    }
}

fn event(to: &mut Message, event: &OtlpEvent) {
    to.fixed(1, event.time_unix_nano);
    to.bytes(2, event.name.as_bytes());
    attributes(to, 3, &event.attributes);
}
