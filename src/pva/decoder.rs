//! From packets to facts: the PVAccess connections, behind the recorder's interface to decoders.

use iocrec_log::event::{CircuitId, Event};

use crate::net::connections::{self, Connections};
use crate::net::packet::End;
use crate::net::{decoder, Namespace};
use crate::pva::circuit::PvAccess;
use crate::pva::session::{Seed, SessionLimits};

const SECOND: u64 = 1_000_000_000;

/// Bounds of the decoder, by what the agent may use: a circuit takes some 2 KiB, so all that are kept take 5 MiB at most,
/// beside their channels.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections.
    pub circuits: usize,
    /// Open channels of one circuit; likewise its prepared requests, and its monitors.
    pub channels: usize,
    /// All of these of all circuits. Where it is reached, a circuit still gets its share: as many of each kind as this has for
    /// each circuit.
    pub all_channels: usize,
    /// Bytes of out-of-order segments that one direction of a connection may hold.
    pub buffered: usize,
    /// The same for all connections together.
    pub all_buffered: usize,
    /// Bytes to keep of a value.
    pub payload: usize,
    /// Time to wait for missing bytes, nanoseconds, as for Channel Access.
    pub wait: u64,
    /// Whether a socket filter leaves out bytes from servers that do not matter.
    pub filtered: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            circuits: 2048,
            channels: 8192,
            all_channels: 16384,
            buffered: 256 << 10,
            all_buffered: 1 << 20,
            payload: 4096,
            wait: SECOND,
            filtered: false,
        }
    }
}

/// Turns packets into circuits, channels, puts and answers. See [`super`].
pub type Decoder = decoder::Decoder<PvAccess>;

impl Decoder {
    /// A decoder without circuits.
    pub fn new(limits: Limits) -> Decoder {
        let Limits { circuits, channels, all_channels, buffered, all_buffered, payload, wait, filtered } =
            limits;
        let (all, own) = (all_channels.max(1), all_channels / circuits.max(1));
        let session = SessionLimits { circuit: channels.max(1), all, own, payload };
        let limits = connections::Limits { connections: circuits, buffered, all_buffered, wait, filtered };
        Decoder { connections: Connections::new(limits, PvAccess::new(session)) }
    }

    /// From now on expects that a socket filter leaves out what does not matter: see [`Limits::filtered`].
    pub fn expect_filter(&mut self) {
        self.connections.expect_filter();
    }

    /// From now on reports the ends of each circuit: its namespace, and the process that serves it, if the listening
    /// sockets show it.
    pub fn report_ends(&mut self) {
        self.connections.protocol.report_ends();
    }

    /// Servers that have shown themselves since the last call, at ports of which it was a guess.
    pub fn take_shown(&mut self) -> Vec<(Namespace, End)> {
        std::mem::take(&mut self.connections.protocol.shown)
    }

    /// Adds a circuit and channels that were read from the server's memory at `now`; returns its number. `None` if
    /// packets show it from its beginning, and name it.
    pub fn seed(
        &mut self,
        namespace: Namespace,
        now: u64,
        (client, server): (End, End),
        seed: &Seed<'_>,
        out: &mut Vec<Event>,
    ) -> Option<CircuitId> {
        let (protocol, circuit) = self.connections.adopt(namespace, now, client, server, out)?;
        protocol.seed(circuit, now, seed, out)
    }
}
