//! How many updates servers send, by subscription: the programs of the [stateful filter](crate::net::stateful) count
//! them (bpf/counts.h), since they leave them out.

use std::collections::HashSet;

use iocrec_log::event::Address;
use libbpf_rs::Object;

use crate::bpf::shared::{shared, Shared};
use crate::bpf::table::Table;

shared! {
    /// `struct count` of bpf/counts.h.
    Count {
        /// Which subscription it is; 0 if the place is free.
        whose: u64,
        /// The interface on which it is counted.
        interface: u32,
        /// Updates.
        updates: u32,
        /// Bytes of these, headers included.
        bytes: u64,
    }
}

/// COUNTS_BITS and COUNTS of bpf/counts.h.
const BITS: u32 = 11;
const PLACES: u32 = 1 << BITS;
/// COUNTS_MISSED of bpf/counts.h.
const MISSED: u32 = u32::MAX;

/// A connection, as the programs tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection(u64);

impl Connection {
    /// Between these ends.
    pub fn new(client: Address, server: Address) -> Connection {
        let word = |address: Address| u64::from(u32::from_ne_bytes(address.ip.to_be_bytes()));
        let ([a, b], [c, d]) = (server.port.to_be_bytes(), client.port.to_be_bytes());
        let ports = u64::from(u32::from_ne_bytes([a, b, c, d]));
        // counted_as() of bpf/counts.h
        let hash = (word(server) << 32 | word(client)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Connection((hash ^ hash >> 29).wrapping_add(ports).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    /// By what a subscription is told apart.
    pub fn whose(self, number: u32) -> u64 {
        // subscription() of bpf/counts.h
        let hash = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ hash >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
    }
}

/// What was counted since the first update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Updates; it wraps.
    pub updates: u32,
    /// Bytes of these, headers included.
    pub bytes: u64,
}

/// The counts of a capture.
pub struct Counts(Table<u32, Count>);

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counts")
    }
}

impl Counts {
    /// `None` if the system has no descriptor to spare.
    pub(super) fn open(object: &Object) -> Option<Counts> {
        Table::open(object, "counts").ok().map(Counts)
    }

    /// The places of a subscription: one as a rule.
    fn places(&self, whose: u64) -> impl Iterator<Item = (u32, Count)> + '_ {
        let first = (whose >> (64 - BITS)) as u32;
        let found = [first, first ^ 1].into_iter().filter_map(|at| Some((at, self.0.get(at)?)));
        found.filter(move |(_, count)| count.whose == whose)
    }

    /// What was counted for a client's number of a subscription; `None` if nothing was.
    pub fn of(&self, connection: Connection, number: u32) -> Option<Counted> {
        let add = |all: Counted, (_, count): (u32, Count)| Counted {
            updates: all.updates.wrapping_add(count.updates),
            bytes: all.bytes.wrapping_add(count.bytes),
        };
        let mut places = self.places(connection.whose(number)).peekable();
        places.peek()?;
        Some(places.fold(Counted::default(), add))
    }

    /// A number that changes if updates of this connection may not have been counted.
    pub fn missed(&self, connection: Connection) -> u32 {
        self.of(connection, MISSED).map_or(0, |missed| missed.updates).wrapping_add(self.full())
    }

    /// Updates for which there was no place.
    pub fn full(&self) -> u32 {
        self.0.get(PLACES).map_or(0, |count| count.updates)
    }

    /// Frees all places but those of known subscriptions.
    pub fn free_all_but(&self, known: &HashSet<u64>) {
        for at in 0..PLACES {
            if self.0.get(at).is_some_and(|count| count.whose != 0 && !known.contains(&count.whose)) {
                self.free(at);
            }
        }
    }

    /// A subscription has ended.
    pub fn forget(&self, connection: Connection, number: u32) {
        for (at, _) in self.places(connection.whose(number)) {
            self.free(at);
        }
    }

    /// The same for what is noted of a connection that has ended.
    pub fn forget_missed(&self, connection: Connection) {
        self.forget(connection, MISSED);
    }

    fn free(&self, at: u32) {
        // the place exists
        let _ = self.0.set(at, Count::zeroed());
    }
}
