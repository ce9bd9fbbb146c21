//! Recognizes datagrams that were seen before, on another interface or in another namespace: each bridge and each pair
//! of virtual interfaces shows a datagram again.
//!
//! What comes twice from the same interface was sent twice.

use crate::net::udp::datagram::Datagram;
use crate::net::udp::Seen;
use crate::net::Namespace;
use std::hash::{BuildHasher, RandomState};

/// Datagrams that are remembered: those of some milliseconds, even in a flood.
const KEPT: usize = 64;
/// Longest time that a copy takes, nanoseconds.
const SOON: u64 = 20_000_000;

#[derive(Clone, Copy, Debug)]
struct Passed {
    hash: u64,
    time: u64,
    place: (Namespace, i32),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Copies {
    hasher: RandomState,
    passed: Vec<Passed>,
    next: usize,
    /// The interface of the first datagram: with only one, nothing is a copy.
    first: Option<(Namespace, i32)>,
    is_several: bool,
}

impl Copies {
    /// Whether this datagram is a copy of one that was seen elsewhere; if not, it is remembered.
    pub fn is_copy(&mut self, seen: &Seen, datagram: &Datagram) -> bool {
        let place = (seen.namespace, seen.interface);
        self.is_several |= *self.first.get_or_insert(place) != place;
        // Loopback addresses are each namespace's own.
        if !self.is_several || datagram.source.is_loopback() {
            return false;
        }
        let hash =
            self.hasher.hash_one((datagram.source, datagram.destination, datagram.length, datagram.payload));
        let same = |p: &Passed| p.hash == hash && p.place != place && seen.time.abs_diff(p.time) < SOON;
        if self.passed.iter().any(same) {
            return true;
        }
        let passed = Passed { hash, time: seen.time, place };
        match self.passed.get_mut(self.next) {
            Some(old) => *old = passed,
            None => self.passed.push(passed),
        }
        self.next = (self.next + 1) % KEPT;
        false
    }
}
