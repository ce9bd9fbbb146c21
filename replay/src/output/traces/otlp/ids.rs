//! Ids of traces and spans.

use super::ioc;
use super::shape::{SpanId, TraceId};
use crate::model::chain::{Chain, Span, SpanKind};
use crate::model::run::{field_name, record_name};

/// FNV-1a with 128 bits: simple, and the same for ever (the standard library's hash is neither).
pub(super) struct Hash(u128);

impl Hash {
    pub(super) fn new(kind: &[u8]) -> Self {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d).bytes(kind)
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
        Hash(bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }

    /// Adds text and its end.
    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).bytes(&[0xff])
    }

    /// Adds the identity of a span.
    pub(super) fn span(self, chain: &Chain, span: &Span) -> Self {
        let context = chain.run.context();
        let boot = context.host().map_or("", |host| host.boot_id.as_str());
        let mut hash = self.text(boot).bytes(&span.start.to_le_bytes());
        if let Some(ioc) = ioc(&context, span) {
            hash = hash.bytes(&ioc.pid.to_le_bytes()).bytes(&ioc.start.to_le_bytes());
        }
        if let Some(thread) = span.thread.and_then(|thread| context.thread(thread)) {
            hash = hash.bytes(&thread.tid.to_le_bytes());
        }
        match &span.kind {
            SpanKind::Put(put) => {
                let packet = put.packet.as_ref();
                if let Some([Some(client), Some(server)]) =
                    packet.map(|packet| context.addresses(packet.circuit))
                {
                    hash = hash.text(&client).text(&server);
                }
                let record = put.record.map(|record| record_name(&context, record)).unwrap_or_default();
                hash.text("put").text(&record).text(field_name(&context, put.field).unwrap_or_default())
            }
            SpanKind::Process(process) => hash.text("process").text(&record_name(&context, process.record)),
            SpanKind::Link(link) => hash.text("link").text(&link.pv),
        }
    }

    /// All of it, never zero.
    pub(super) fn trace(&self) -> TraceId {
        TraceId(self.0.max(1))
    }

    /// 64 bits of it, never all zero.
    pub(super) fn short(&self) -> SpanId {
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        SpanId(folded.max(1))
    }
}
