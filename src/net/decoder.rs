//! From packets to events: a protocol's connections behind the recorder's interface to decoders.

use std::fmt;

use crate::net::connections::Connections;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{self, Protocol};
use crate::net::served::Served;
use crate::net::Namespace;

/// The decoder of one protocol. Each has a constructor in its own room.
pub struct Decoder<P: Protocol> {
    pub(crate) connections: Connections<P>,
}

impl<P: Protocol + fmt::Debug> fmt::Debug for Decoder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Decoder").field(&self.connections.protocol).finish()
    }
}

impl<P: Protocol> Decoder<P> {
    /// Takes a packet captured in a network namespace, from its network header on, at `time` (nanoseconds, monotonic).
    /// `original_length` is its length before the capture cut anything off. Events go to `out`; their times are those of
    /// the packets that completed them, which may be older than `time`.
    pub fn packet(
        &mut self,
        namespace: Namespace,
        time: u64,
        packet: &[u8],
        original_length: usize,
        out: &mut P::Output,
    ) {
        self.connections.packet(namespace, time, packet, original_length, out);
    }
}

impl<P: Protocol> protocol::Decoder for Decoder<P> {
    type Output = P::Output;

    fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut P::Output) {
        self.connections.set_served(now, served, out);
    }

    fn set_captured(&mut self, since: u64, namespaces: &[Namespace]) {
        self.connections.set_captured(since, namespaces);
    }

    fn serves(&self, namespace: Namespace, segment: &Segment) -> bool {
        let serves = |end| self.connections.serves(namespace, end);
        serves(segment.source) || serves(segment.destination)
    }

    fn claim(&self, namespace: Namespace, segment: &Segment) -> u8 {
        self.connections.claim(namespace, segment)
    }

    fn expect_confirmation(&mut self) {
        self.connections.expect_confirmation();
    }

    fn take_unconfirmed(&mut self) -> Vec<(Namespace, End, End)> {
        self.connections.take_unconfirmed()
    }

    fn confirm(&mut self, namespace: Namespace, client: End, server: End, out: &mut P::Output) {
        self.connections.confirm(namespace, client, server, out);
    }

    fn segment(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut P::Output) {
        self.connections.segment(namespace, time, segment, out);
    }

    fn tick(&mut self, now: u64, out: &mut P::Output) {
        self.connections.tick(now, out);
        self.connections.protocol.on_tick(now, out);
    }

    fn finish(&mut self, now: u64, out: &mut P::Output) {
        self.connections.finish(now, out);
        self.connections.protocol.on_finish(now, out);
    }
}
