//! OTLP as protobuf.
//!
//! Field numbers are those of opentelemetry-proto 1.x: `trace.proto`, `common.proto`, `resource.proto`. A message that
//! another one holds stands after its length, so it is written first and copied, which is cheap: they are short, but
//! for the spans of a resource.

use super::shape::{AnyValue, Attribute, OtlpEvent, OtlpSpan, ResourceSpans, ScopeSpans, TracesData};

/// Encodes a TracesData, which is an ExportTraceServiceRequest, too.
pub(super) fn encode(data: &TracesData) -> Vec<u8> {
    let mut message = Message::default();
    data.resource_spans.iter().for_each(|resource| message.message(1, |to| resource_spans(to, resource)));
    message.0
}

/// A length as the varint that stands before a message.
pub(super) fn length(length: usize) -> Vec<u8> {
    let mut message = Message::default();
    message.varint(length as u64);
    message.0
}

/// Bytes of a message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// An integer, a boolean, an enum.
    fn number(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    /// A fixed64 or a double, by its bits.
    fn fixed(&mut self, field: u64, bits: u64) {
        self.tag(field, 1);
        self.0.extend(bits.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attributes(&mut self, field: u64, attributes: &[Attribute]) {
        for attribute in attributes {
            self.message(field, |to| {
                to.bytes(1, attribute.key.as_bytes());
                to.message(2, |to| to.value(&attribute.value));
            });
        }
    }

    /// The value of a oneof is written even if it is 0 or empty: otherwise there would be none.
    fn value(&mut self, value: &AnyValue) {
        match value {
            AnyValue::Text(text) => self.bytes(1, text.as_bytes()),
            AnyValue::Bool(bool) => self.number(2, u64::from(*bool)),
            // An int64 below zero takes ten bytes, as in two's complement.
            AnyValue::Int(number) => self.number(3, number.cast_unsigned()),
            AnyValue::Double(number) => self.fixed(4, number.to_bits()),
            AnyValue::Array { values } => {
                self.message(5, |to| values.iter().for_each(|value| to.message(1, |to| to.value(value))));
            }
        }
    }
}

fn resource_spans(to: &mut Message, resource: &ResourceSpans) {
    to.message(1, |to| to.attributes(1, &resource.resource.attributes));
    resource.scope_spans.iter().for_each(|scope| to.message(2, |to| scope_spans(to, scope)));
    to.bytes(3, resource.schema_url.as_bytes());
}

fn scope_spans(to: &mut Message, of: &ScopeSpans) {
    to.message(1, |to| {
        to.bytes(1, of.scope.name.as_bytes());
        to.bytes(2, of.scope.version.as_bytes());
    });
    of.spans.iter().for_each(|of| to.message(2, |to| span(to, of)));
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
    to.attributes(9, &span.attributes);
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
    to.attributes(3, &event.attributes);
}
