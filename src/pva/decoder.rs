//! From packets to facts: the PVAccess connections, behind the recorder's interface to decoders.

use iocrec_log::event::Event;

use crate::net::connections::{self, Connections};
use crate::net::packet::Segment;
use crate::net::protocol;
use crate::net::served::Served;
use crate::net::Namespace;
use crate::pva::circuit::PvAccess;
use crate::pva::session::SessionLimits;

const SECOND: u64 = 1_000_000_000;

/// Bounds of the decoder.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections.
    pub circuits: usize,
    /// Open channels of one circuit; likewise its prepared requests, and its monitors.
    pub channels: usize,
    /// All of these of all circuits.
    pub all_channels: usize,
    /// Bytes of out-of-order segments that one direction of a connection may hold.
    pub buffered: usize,
    /// The same for all connections together.
    pub all_buffered: usize,
    /// Bytes to keep of a value.
    pub payload: usize,
    /// Time to wait for missing bytes, nanoseconds, as for Channel Access.
    pub wait: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            circuits: 512,
            channels: 8192,
            all_channels: 16384,
            buffered: 256 << 10,
            all_buffered: 1 << 20,
            payload: 4096,
            wait: SECOND,
        }
    }
}

/// Turns packets into circuits, channels, puts and answers. See [`super`].
#[derive(Debug)]
pub struct Decoder {
    connections: Connections<PvAccess>,
}

impl Decoder {
    /// A decoder without circuits.
    pub fn new(limits: Limits) -> Decoder {
        let Limits { circuits, channels, all_channels, buffered, all_buffered, payload, wait } = limits;
        let session = SessionLimits { circuit: channels.max(1), all: all_channels.max(1), payload };
        let limits =
            connections::Limits { connections: circuits, buffered, all_buffered, wait, filtered: false };
        Decoder { connections: Connections::new(limits, PvAccess::new(session)) }
    }

    /// From now on reports the ends of each circuit: its namespace, and the process that serves it, if the listening
    /// sockets show it.
    pub fn report_ends(&mut self) {
        self.connections.protocol.report_ends();
    }

    /// Takes a packet captured in a network namespace, from its IPv4 header on, at `time` (nanoseconds, monotonic).
    pub fn packet(
        &mut self,
        namespace: Namespace,
        time: u64,
        ipv4: &[u8],
        original_length: usize,
        out: &mut Vec<Event>,
    ) {
        self.connections.packet(namespace, time, ipv4, original_length, out);
    }
}

impl protocol::Decoder for Decoder {
    type Output = Vec<Event>;

    fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut Vec<Event>) {
        self.connections.set_served(now, served, out);
    }

    fn set_captured(&mut self, namespaces: &[Namespace]) {
        self.connections.set_captured(namespaces);
    }

    fn serves(&self, namespace: Namespace, segment: &Segment) -> bool {
        let serves = |end| self.connections.serves(namespace, end);
        serves(segment.source) || serves(segment.destination)
    }

    fn segment(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut Vec<Event>) {
        self.connections.segment(namespace, time, segment, out);
    }

    /// Also reports losses.
    fn tick(&mut self, now: u64, out: &mut Vec<Event>) {
        self.connections.tick(now, out);
        self.connections.protocol.report_losses(now, false, out);
    }

    /// Also reports every loss.
    fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.connections.finish(out);
        self.connections.protocol.report_losses(now, true, out);
    }
}
