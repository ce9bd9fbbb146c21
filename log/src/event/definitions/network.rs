//! Channel Access circuits and their channels.

use crate::event::ids::*;
use crate::event::life::{allocated, Begin, Definition, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// An IPv4 TCP address (Channel Access in EPICS Base is IPv4 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// The IP address as a number; its first byte is the most significant.
    pub ip: u32,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Makes an address from its parts.
    pub fn new(ip: Ipv4Addr, port: u16) -> Self {
        Address { ip: ip.into(), port }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", Ipv4Addr::from(self.ip), self.port)
    }
}

/// A circuit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Circuit {
    /// Its number.
    pub id: CircuitId,
    /// The client's end.
    pub client: Address,
    /// The server's end.
    pub server: Address,
    /// The user name that the client claims; empty if not (yet) seen.
    pub user: String,
    /// The host name that the client claims; empty if not (yet) seen.
    pub host: String,
    /// The client's CA minor version; 0 if not seen.
    pub minor: u16,
    /// The way it became known.
    pub origin: Origin,
}

impl Whole for Circuit {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.id
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Circuit(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        allocated(self.user.len()) + allocated(self.host.len())
    }
}

/// The way a circuit or channel became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Its opening was seen on the network.
    Opened,
    /// It was already open when the recorder started: joined mid-stream.
    MidStream,
    /// Read from the memory of the server or client.
    Memory,
}

/// A channel. CIDs and SIDs are local to their circuit and are reused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Its number.
    pub id: ChannelId,
    /// Its circuit.
    pub circuit: CircuitId,
    /// The client's id, where known.
    pub cid: Option<u32>,
    /// The server's id, once known.
    pub sid: Option<u32>,
    /// PV as the client named it; empty if never seen.
    pub pv: String,
    /// Native DBR type of the channel ([`epics::Dbr`]), where seen.
    pub dbr: Option<u16>,
    /// Native element count, where seen.
    pub count: Option<u32>,
    /// The way it became known.
    pub origin: Origin,
}

impl Whole for Channel {
    const OWNED_BY: OwnedBy = OwnedBy::Circuit;

    fn key(&self) -> u32 {
        self.id
    }

    fn owner(&self) -> u32 {
        self.circuit
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Channel(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        allocated(self.pv.len())
    }
}

/// A server's thread and the circuit that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerThread {
    /// A CAS-client thread.
    pub thread: ThreadId,
    /// The circuit whose requests it carries out.
    pub circuit: CircuitId,
}

impl Definition for ServerThread {
    /// The circuit.
    type Kept = CircuitId;
    const OWNED_BY: OwnedBy = OwnedBy::ThreadAndCircuit;

    fn key(&self) -> u32 {
        self.thread
    }

    fn begin(&self, _: Option<&CircuitId>) -> Begin<CircuitId> {
        Begin::Keep(self.circuit)
    }

    fn again(thread: u32, circuit: &CircuitId) -> impl Iterator<Item = Self> {
        std::iter::once(ServerThread { thread, circuit: *circuit })
    }

    fn heap(_: &CircuitId) -> usize {
        0
    }

    fn owner(circuit: &CircuitId) -> u32 {
        *circuit
    }
}

/// The recorded processes at the ends of a circuit: those that hold the sockets, in their network namespace. Addresses
/// and ports alone do not identify them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitEnds {
    /// The circuit.
    pub circuit: CircuitId,
    /// Inode number of the network namespace in which it was seen (`/proc/PID/ns/net`); 0 where not known.
    pub namespace: u64,
    /// The process that serves it, if it is recorded and was found.
    pub server: Option<IocId>,
    /// The process that is its client, if it is recorded and was found: an IOC's CA link or sequencer.
    pub client: Option<IocId>,
}

impl Whole for CircuitEnds {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.circuit
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Circuit(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        0
    }
}
