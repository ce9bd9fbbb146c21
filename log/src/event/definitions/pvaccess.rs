//! PVAccess circuits, and the types of the values sent on them.
//!
//! A TCP connection of PVAccess is a [`Circuit`](super::Circuit) with channels, like one of Channel Access; a
//! [`PvaCircuit`] with its number tells the protocols apart and holds what PVAccess adds.

use crate::event::ids::*;
use crate::event::life::{allocated, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// A circuit speaks PVAccess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaCircuit {
    /// The circuit.
    pub circuit: CircuitId,
    /// Highest version of the protocol in the headers of its messages; 0 if not seen.
    pub version: u16,
    /// How the client introduced itself: `ca`, `anonymous`, `x509`; empty if that was not seen. User and host, if it
    /// named them, are those of the circuit: claims, like those of Channel Access.
    pub method: String,
    /// The client's IPv6 address, 16 bytes; then the IPv4 address of the circuit is 0. Empty if it came by IPv4.
    pub client_ip: Vec<u8>,
    /// The same of the server.
    pub server_ip: Vec<u8>,
}

impl Whole for PvaCircuit {
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
        allocated(self.method.len()) + allocated(self.client_ip.len()) + allocated(self.server_ip.len())
    }
}

/// The type of values that PVAccess sends. Circuits share them; a number that was not used for long gets another type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaType {
    /// Its number, from 1 on.
    pub id: PvaTypeId,
    /// Its description, written out whole (`epics::pva::types`).
    pub description: Vec<u8>,
}

impl Whole for PvaType {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.id
    }

    fn heap(&self) -> usize {
        allocated(self.description.len())
    }
}
