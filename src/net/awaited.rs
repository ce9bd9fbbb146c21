//! What a client is said to have sent on a connection whose server has shown nothing of itself.
//!
//! Anybody can send a segment with another's address, from a port that is in no use. The server refuses it (RST), but the
//! packet was captured. So where the opening of a connection, and its answer, were not seen, what its client sends waits for
//! a sign that the connection exists: a segment of the server that acknowledges it, or a socket in the kernel's table. What
//! waits in vain is counted, and never a put.
//!
//! Bounds: those of the connection's streams, and [`PATIENCE`].

use std::collections::VecDeque;

use crate::net::packet::{End, Segment};

/// Time to wait, nanoseconds: a server acknowledges within 0.2 s; looking into the kernel's table takes some 0.1 s.
pub const PATIENCE: u64 = 5_000_000_000;
/// Distance of a segment's end from what the server acknowledges, at most: about a window.
const NEAR: i32 = 1 << 20;
/// Segments that wait on one connection.
const MOST: usize = 256;

/// A segment, held back.
#[derive(Debug)]
pub struct Held {
    pub time: u64,
    source: End,
    destination: End,
    sequence: u32,
    acknowledged: Option<u32>,
    closes_window: bool,
    fin: bool,
    payload: Vec<u8>,
    length: u32,
    options: Vec<u8>,
    elided: bool,
    urgent: bool,
    place: Option<u32>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Awaited {
    held: VecDeque<Held>,
    bytes: usize,
}

impl Held {
    fn memory(&self) -> usize {
        self.payload.capacity() + self.options.capacity() + size_of::<Held>()
    }

    /// The segment.
    pub fn segment(&self) -> Segment<'_> {
        Segment {
            source: self.source,
            destination: self.destination,
            sequence: self.sequence,
            acknowledged: self.acknowledged,
            closes_window: self.closes_window,
            syn: false,
            fin: self.fin,
            reset: false,
            urgent: self.urgent,
            payload: &self.payload,
            length: self.length,
            options: &self.options,
            elided: self.elided,
            place: self.place,
        }
    }

    /// Whether the server can have received it that has received all before `acknowledged`, or is about to.
    pub fn fits(&self, acknowledged: Option<u32>) -> bool {
        let end = self.sequence.wrapping_add(self.length);
        acknowledged.is_none_or(|next| (-NEAR..=NEAR).contains(&(end.wrapping_sub(next) as i32)))
    }
}

impl Awaited {
    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has as many segments as it may have.
    pub fn is_full(&self) -> bool {
        self.held.len() >= MOST
    }

    /// End of the last segment that waits of this sender.
    pub fn end_of(&self, source: End) -> Option<u32> {
        let last = self.held.iter().rev().find(|held| held.source == source)?;
        Some(last.sequence.wrapping_add(last.length))
    }

    /// Of the last segment that waits: its time, its end, and what it acknowledges.
    pub fn last(&self) -> Option<(u64, u32, Option<u32>)> {
        let last = self.held.back()?;
        Some((last.time, last.sequence.wrapping_add(last.length), last.acknowledged))
    }

    /// Holds a segment back. Returns how many others must go: it has room for so many bytes.
    pub fn hold(&mut self, time: u64, segment: &Segment, room: usize) -> u64 {
        let held = Held {
            time,
            source: segment.source,
            destination: segment.destination,
            sequence: segment.sequence,
            acknowledged: segment.acknowledged,
            closes_window: segment.closes_window,
            fin: segment.fin,
            payload: segment.payload.to_vec(),
            length: segment.length,
            options: segment.options.to_vec(),
            elided: segment.elided,
            urgent: segment.urgent,
            place: segment.place,
        };
        self.bytes += held.memory();
        self.held.push_back(held);
        let mut gone = 0;
        while self.bytes > room || self.held.len() > MOST {
            if !self.drop_first() {
                break;
            }
            gone += 1;
        }
        gone
    }

    fn drop_first(&mut self) -> bool {
        let Some(first) = self.held.pop_front() else { return false };
        self.bytes = self.bytes.saturating_sub(first.memory());
        true
    }

    /// Drops what has waited in vain, and returns its number.
    pub fn drop_before(&mut self, time: u64) -> u64 {
        let mut gone = 0;
        while self.held.front().is_some_and(|held| held.time <= time) && self.drop_first() {
            gone += 1;
        }
        gone
    }

    /// Whether a reset with this sequence number answers any of it: that is what the segment acknowledged (RFC 9293).
    pub fn is_refused_by(&self, sequence: u32) -> bool {
        self.held.iter().any(|held| held.acknowledged == Some(sequence))
    }

    /// All of it.
    pub fn take(&mut self) -> VecDeque<Held> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }
}
