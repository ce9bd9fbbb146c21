//! Ids of traces and spans: hashes of a span's identity, which are its host's boot, process, thread, time and record. The
//! same log gives the same ids whenever it is read.

use super::chain::{Chain, Span, SpanKind};
use super::run::{field_name, ioc_of_circuit, ioc_of_thread, record_name};
use iocrec_log::context::Context;
use iocrec_log::event::Ioc;
use serde::{Serialize, Serializer};
use std::collections::HashSet;

/// A number of a trace, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

/// A number of a span, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub u64);

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

/// The ids of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Of its trace.
    pub trace: TraceId,
    /// Its own.
    pub span: SpanId,
}

/// The id of the trace that a chain is, with all that its CA links lead to.
pub fn trace_id(chain: &Chain) -> Option<TraceId> {
    Some(Hash::new(b"trace").span(chain, chain.root()?).trace())
}

/// The ids of a chain's spans.
pub fn span_ids(chain: &Chain) -> Vec<SpanId> {
    let mut taken = HashSet::with_capacity(chain.spans.len());
    let id = |span| {
        let mut hash = Hash::new(b"span").span(chain, span);
        // Two hits of a record at the same nanosecond are still different spans.
        while !taken.insert(hash.short()) {
            hash = hash.bytes(b"again");
        }
        hash.short()
    };
    chain.spans.iter().map(id).collect()
}

/// The IOC that a span is of, if it is known.
pub fn ioc_of<'a>(context: &'a Context, span: &Span) -> Option<&'a Ioc> {
    let by_thread = span.thread.and_then(|thread| ioc_of_thread(context, thread));
    by_thread.or_else(|| ioc_of_circuit(context, span.packet()?.circuit))
}

/// FNV-1a with 128 bits: simple, and the same for ever (the standard library's hash is neither).
struct Hash(u128);

impl Hash {
    fn new(kind: &[u8]) -> Self {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d).bytes(kind)
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
        Hash(bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }

    /// Adds text and its end.
    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).bytes(&[0xff])
    }

    /// Adds the identity of a span.
    fn span(self, chain: &Chain, span: &Span) -> Self {
        let context = chain.run.context();
        let boot = context.host().map_or("", |host| host.boot_id.as_str());
        let mut hash = self.text(boot).bytes(&span.start.to_le_bytes());
        if let Some(ioc) = ioc_of(&context, span) {
            hash = hash.bytes(&ioc.pid.to_le_bytes()).bytes(&ioc.start.to_le_bytes());
        }
        if let Some(thread) = span.thread.and_then(|thread| context.thread(thread)) {
            hash = hash.bytes(&thread.tid.to_le_bytes());
        }
        match &span.kind {
            SpanKind::Put(put) => {
                let packet = put.packet.as_ref();
                // one packet may hold several puts to a PV
                if let Some(packet) = packet.filter(|packet| packet.nth > 0) {
                    hash = hash.bytes(&packet.nth.to_le_bytes());
                }
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
    fn trace(&self) -> TraceId {
        TraceId(self.0.max(1))
    }

    /// 64 bits of it, never all zero.
    fn short(&self) -> SpanId {
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        SpanId(folded.max(1))
    }
}
