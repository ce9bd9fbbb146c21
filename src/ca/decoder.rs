//! From packets to facts: the Channel Access connections, behind the recorder's interface to decoders.

use std::sync::Weak;

use iocrec_log::event::{Address, CircuitId, Event};

use crate::ca::channels::ChannelLimits;
use crate::ca::circuit::{ChannelAccess, Client};
use crate::ca::session::SeedChannel;
use crate::net::connections::{self, Connections};
use crate::net::counts::Counts;
use crate::net::decoder;
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;

/// Bounds of the decoder, by what the agent may use (docs/benchmarks.md: 16 MiB beside 100,000 records). An open channel
/// takes about 130 bytes and a circuit 1.2 KiB, so all that are kept take 4 MiB and 5 MiB at most; 20,000 channels of
/// two clients take 3 MiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections.
    pub circuits: usize,
    /// Open channels of one circuit.
    pub channels: usize,
    /// Open channels of all circuits.
    pub all_channels: usize,
    /// Bytes of out-of-order segments that one direction of a connection may hold.
    pub buffered: usize,
    /// The same for all connections together.
    pub all_buffered: usize,
    /// Bytes to keep of a put's payload.
    pub payload: u32,
    /// Time to wait for missing bytes, nanoseconds. Longer than a sender waits before it sends again (200 ms on Linux,
    /// doubled at each failure).
    pub wait: u64,
    /// Whether a socket filter leaves out what servers send, as far as it does not matter: then missing bytes from a
    /// server count only if they end a message of interest.
    pub filtered: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            circuits: 4096,
            channels: 24_576,
            all_channels: 32_768,
            buffered: 256 << 10,
            all_buffered: 1 << 20,
            payload: 4096,
            wait: SECOND,
            filtered: false,
        }
    }
}

/// Turns packets into circuits, channels, puts and answers. See [`super`].
pub type Decoder = decoder::Decoder<ChannelAccess>;

impl Decoder {
    /// A decoder without circuits.
    pub fn new(limits: Limits) -> Decoder {
        let Limits { circuits, channels, all_channels, buffered, all_buffered, payload, wait, filtered } =
            limits;
        let channels = ChannelLimits { circuit: channels, all: all_channels };
        let limits = connections::Limits { connections: circuits, buffered, all_buffered, wait, filtered };
        Decoder { connections: Connections::new(limits, ChannelAccess::new(channels, payload)) }
    }

    /// From now on reports the ends of each circuit: its namespace, and the process that serves it, if the listening
    /// sockets show it.
    pub fn report_ends(&mut self) {
        self.connections.protocol.report_ends();
    }

    /// From now on counts what goes over circuits beside puts, and notes how they and their channels end.
    pub fn count_traffic(&mut self) {
        self.connections.protocol.count_traffic();
    }

    /// From now on takes the counts of updates in a namespace from there, if traffic is counted.
    pub fn watch_counts(&mut self, namespace: Namespace, now: u64, counts: Weak<Counts>) {
        self.connections.protocol.watch_counts(namespace, now, counts);
    }

    /// From now on expects that a socket filter leaves out what does not matter: see [`Limits::filtered`].
    pub fn expect_filter(&mut self) {
        self.connections.expect_filter();
    }

    /// The number of the circuit between these ends, if it has one and is open.
    pub fn circuit(&self, namespace: Namespace, client: Address, server: Address) -> Option<CircuitId> {
        let (circuit, closed) = self.connections.find(namespace, client, server)?;
        circuit.id().filter(|_| closed.is_none())
    }

    /// The number of the circuit that was open between these ends at `time` (nanoseconds, monotonic), even if it has
    /// been closed since.
    pub fn circuit_then(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
        time: u64,
    ) -> Option<CircuitId> {
        let (circuit, closed) = self.connections.find(namespace, client, server)?;
        match closed {
            None => circuit.id(),
            Some(closed) => circuit.closed_id().filter(|_| closed >= time),
        }
    }

    /// The number of the circuit that was open between these ends at `time`, if another one is in its place by now.
    pub fn circuit_before(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
        time: u64,
    ) -> Option<CircuitId> {
        self.connections.replaced(namespace, client, server, time)
    }

    /// Whether packets between these ends have come from `time` or later, and whether these are of a circuit that began later. If
    /// none have, another one may seem open that had ended by then; not one that is older than the capture: the server's memory
    /// names its channels, and the put that the first hit shows must not wait for that.
    pub fn has_come_to(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
        time: u64,
    ) -> (bool, bool) {
        let times = self.connections.times(namespace, client, server);
        times.map_or((false, false), |(began, last)| (began == 0 || last >= time, began > time))
    }

    /// The network namespace in which a circuit is recorded if its client is in `namespace`: that of the server's
    /// address, if it is captured.
    pub fn home(&self, namespace: Namespace, server: Address) -> Namespace {
        self.connections.home(namespace, server)
    }

    /// Adds a circuit and channels that were read from the memory of a server or client at `now`. Facts from the
    /// network take precedence; a `minor` of 0 and empty texts mean unknown.
    #[allow(clippy::too_many_arguments)] // the members of a circuit, by name at each call
    pub fn seed(
        &mut self,
        namespace: Namespace,
        now: u64,
        client: Address,
        server: Address,
        user: &str,
        host: &str,
        minor: u16,
        channels: &[SeedChannel],
        out: &mut Vec<Event>,
    ) -> CircuitId {
        let found = self.connections.adopt(namespace, now, client, server, out);
        let identity = Client { user, host, minor };
        // the connection was adopted just now
        found.map_or(0, |(protocol, circuit)| protocol.seed(circuit, now, &identity, channels, out))
    }
}
