//! Bytes that come again: are they the same?

use super::arrival::{Arrival, Verdict};
use super::Stream;

/// Segments remembered, to find that other bytes are sent in their place.
pub(super) const REMEMBERED: usize = 4;

/// Bytes of each that are compared.
const COMPARED: usize = 512;

/// A segment that was passed on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) sequence: u32,
    /// Bytes from there on that `hash` is of; 0: none.
    pub(super) length: u32,
    pub(super) hash: u32,
}

/// A hash of bytes, to find by accident or ill will changed ones.
fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(FACTOR, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    (rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte) + 256)) >> 32) as u32
}

impl Stream {
    /// Takes a segment all of which is known, or its known part: are its bytes the same?
    pub(super) fn again(&self, arrival: &Arrival) -> Verdict {
        let same = |sent: &Sent| {
            sent.length == 0
                || sent.sequence != arrival.sequence
                || arrival.bytes.get(..sent.length as usize).is_none_or(|bytes| hash(bytes) == sent.hash)
        };
        if self.sent.iter().all(same) {
            Verdict::Taken
        } else {
            Verdict::Changed
        }
    }

    /// Whether a segment is one of the last that were passed on. Never of a long one, whose end is not compared.
    pub(super) fn has_sent(&self, arrival: &Arrival) -> bool {
        let length = arrival.bytes.len();
        let is_alike = |sent: &&Sent| sent.sequence == arrival.sequence && sent.length as usize == length;
        length < COMPARED
            && self.sent.iter().filter(is_alike).any(|sent| length > 0 && sent.hash == hash(arrival.bytes))
    }

    pub(super) fn remember(&mut self, sequence: u32, bytes: &[u8]) {
        let bytes = bytes.get(..COMPARED).unwrap_or(bytes);
        if let Some(sent) = self.sent.get_mut(usize::from(self.turn)) {
            *sent = Sent { sequence, length: bytes.len() as u32, hash: hash(bytes) };
        }
        self.turn = (self.turn + 1) % REMEMBERED as u8;
    }
}
