//! Openings of connections (SYN, and the SYN that answers it) that no data have followed yet.
//!
//! Anybody can send a SYN with the addresses and ports of others, so an opening alone changes no connection and makes
//! none: it is only remembered, and counts once data continue it. The memory is a table of fixed size, in which a new
//! opening takes the place of the oldest one of its row. A flood of openings therefore costs the connections nothing.

use std::hash::BuildHasher;

use crate::keyed::Secret;
use crate::net::packet::Segment;

/// Openings in a row: as many must come with the same hash before the data of the first to push it out.
const WAYS: usize = 8;
/// Rows. 4096 openings in all (160 KiB): at 22,000 a second, each is remembered for some 0.2 s; clients of Channel Access
/// send their first bytes at once.
const ROWS: usize = 512;
/// Age at which an opening is forgotten, nanoseconds: Linux gives up answering a SYN after 63 s.
const OLD: u64 = 64_000_000_000;

/// An opening. At least one of the numbers is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Sequence number of the client's SYN.
    pub client: u32,
    /// Sequence number of the server's, which answered it.
    pub server: Option<u32>,
    /// Time of the last of them.
    pub time: u64,
}

/// What [`Openings::note`] has found.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// Whether the segment is new.
    pub is_new: bool,
    /// Time of the opening's segment before this one, or of this one: so of its SYN, when the answer comes.
    pub began: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Half a hash of the connection's key; the other half chose the row.
    mark: u32,
    opening: Opening,
    /// Whether the client has the lower address.
    client_is_low: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Openings {
    hasher: Secret,
    /// Empty until the first opening comes.
    rows: Vec<[Option<Entry>; WAYS]>,
}

impl Openings {
    fn place<K: std::hash::Hash>(&self, key: &K) -> (usize, u32) {
        let hash = self.hasher.hash_one(key);
        (hash as usize % ROWS, (hash >> 32) as u32)
    }

    /// Remembers a segment with SYN between the ends of `key`.
    pub fn note<K: std::hash::Hash>(&mut self, key: &K, time: u64, segment: &Segment) -> Noted {
        if self.rows.is_empty() {
            self.rows = vec![[None; WAYS]; ROWS];
        }
        let (row, mark) = self.place(key);
        let source_is_low = segment.source < segment.destination;
        let (opening, client_is_low) = match segment.acknowledged {
            None => (Opening { client: segment.sequence, server: None, time }, source_is_low),
            Some(next) => {
                let server = Some(segment.sequence);
                (Opening { client: next.wrapping_sub(1), server, time }, !source_is_low)
            }
        };
        let new = Noted { is_new: true, began: time };
        let Some(row) = self.rows.get_mut(row) else { return new };
        // An answered opening and an unanswered one of the same ends stand side by side: an unanswered one may be
        // anybody's.
        let same = |entry: &Entry| {
            entry.mark == mark
                && entry.client_is_low == client_is_low
                && entry.opening.client == opening.client
        };
        if let Some(known) = row.iter_mut().flatten().find(|entry| same(entry)) {
            let is_new = opening.server.is_some() && known.opening.server != opening.server;
            let began = std::mem::replace(&mut known.opening.time, time);
            known.opening.server = opening.server.or(known.opening.server);
            return Noted { is_new, began };
        }
        // An empty place, else the oldest.
        let age = |entry: &Option<Entry>| entry.map_or(0, |entry| entry.opening.time.max(1));
        if let Some(place) = row.iter_mut().min_by_key(|entry| age(entry)) {
            *place = Some(Entry { mark, opening, client_is_low });
        }
        new
    }

    /// The opening that this segment continues, with whether the segment's source is the client: one for which `fits`,
    /// an answered one if there is one.
    pub fn find<K: std::hash::Hash>(
        &self,
        key: &K,
        time: u64,
        segment: &Segment,
        fits: impl Fn(&Opening, bool) -> bool,
    ) -> Option<(Opening, bool)> {
        if self.rows.is_empty() {
            return None;
        }
        let (row, mark) = self.place(key);
        let source_is_low = segment.source < segment.destination;
        let of_key = self.rows.get(row)?.iter().flatten().filter(|entry| entry.mark == mark);
        let fresh = of_key.filter(|entry| time.saturating_sub(entry.opening.time) < OLD);
        let sided = fresh.map(|entry| (entry.opening, entry.client_is_low == source_is_low));
        let fitting = sided.filter(|(opening, from_client)| fits(opening, *from_client));
        fitting.max_by_key(|(opening, _)| (opening.server.is_some(), opening.time))
    }

    /// Forgets the openings of these ends.
    pub fn forget<K: std::hash::Hash>(&mut self, key: &K) {
        let (row, mark) = self.place(key);
        for entry in self.rows.get_mut(row).into_iter().flatten() {
            if entry.is_some_and(|entry| entry.mark == mark) {
                *entry = None;
            }
        }
    }
}
