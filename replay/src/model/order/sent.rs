//! The puts of one link to one target, in order of time.
//!
//! A record that feeds itself through a link has hundreds of thousands of them remembered. They come nearly in order of
//! time, which leaves nearly half of a tree's places free; here they are in pieces that are full. Guarantees for any order:
//! of equal times, the first one that came comes first, and a put costs a search and the move of a piece.

use super::Key;
use crate::model::small_value::SmallValue;
use std::collections::{btree_map, BTreeMap};
use std::ops::Bound;
use std::slice;

/// Puts in a piece, unless more of them have one time.
const PIECE: usize = 64;

/// A put through a link.
pub(super) struct Sent {
    /// When it was sent (wall-clock time).
    pub time: i64,
    /// The chain that contains it.
    pub chain: Key,
    /// The value sent.
    pub value: SmallValue,
}

// there may be 300,000
const _: () = assert!(size_of::<Sent>() <= 48);

/// See the module.
#[derive(Default)]
pub(super) struct Track {
    /// By a time that no put of the piece is earlier than, and that all puts of the pieces before are earlier than. None is
    /// empty.
    pieces: BTreeMap<i64, Vec<Sent>>,
    length: usize,
    /// Which record of which process has the link, as a number; 0 for unknown. Several recorders of an IOC tell of each put.
    whose: u64,
}

impl Track {
    /// Of a link of this record: see [`Track::is_twin`].
    pub fn of(whose: u64) -> Track {
        Track { whose, ..Track::default() }
    }

    /// Whether another recorder saw the same link.
    pub fn is_twin(&self, other: &Track) -> bool {
        self.whose != 0 && self.whose == other.whose
    }

    /// Number of puts.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Time of the last.
    pub fn latest(&self) -> Option<i64> {
        let (_, piece) = self.pieces.last_key_value()?;
        piece.last().map(|sent| sent.time)
    }

    /// Adds a put.
    pub fn insert(&mut self, sent: Sent) {
        let time = sent.time;
        self.length += 1;
        let last = self.pieces.last_key_value().map(|(begin, _)| *begin);
        let Some(begin) = self.pieces.range(..=time).next_back().map(|(begin, _)| *begin) else {
            // earlier than all: the first piece begins with it now
            let mut piece = self.pieces.pop_first().map_or_else(Vec::new, |(_, piece)| piece);
            piece.insert(0, sent);
            return self.keep(time, piece);
        };
        let Some(piece) = self.pieces.get_mut(&begin) else { return };
        let is_last = Some(begin) == last && piece.last().is_some_and(|latest| latest.time < time);
        if is_last && piece.len() >= PIECE {
            self.pieces.insert(time, vec![sent]);
            return;
        }
        let place = piece.partition_point(|other| other.time <= time);
        piece.insert(place, sent);
        if let Some((begin, later)) = split(piece) {
            self.pieces.insert(begin, later);
        }
    }

    /// Keeps a piece that begins then.
    fn keep(&mut self, begin: i64, mut piece: Vec<Sent>) {
        if let Some((begin, later)) = split(&mut piece) {
            self.pieces.insert(begin, later);
        }
        self.pieces.insert(begin, piece);
    }

    /// Forgets what was sent before this time.
    pub fn forget_before(&mut self, time: i64) {
        while let Some(mut first) = self.pieces.first_entry() {
            let piece = first.get_mut();
            let old = piece.partition_point(|sent| sent.time < time);
            self.length -= old;
            if old < piece.len() {
                piece.drain(..old);
                break;
            }
            first.remove();
        }
    }

    /// What was sent at this time or later, in order.
    pub fn since(&self, time: i64) -> Since<'_> {
        let first = self.pieces.range(..=time).next_back().map(|(_, piece)| piece.as_slice());
        let first = first.unwrap_or_default();
        let before = first.partition_point(|sent| sent.time < time);
        let piece = first.get(before..).unwrap_or_default().iter();
        let rest = self.pieces.range((Bound::Excluded(time), Bound::Unbounded));
        Since { piece, rest }
    }
}

/// Takes the later half out of a piece that is too large, with the time at which that begins. Those of one time stay
/// together, so that times alone tell where a piece begins.
fn split(piece: &mut Vec<Sent>) -> Option<(i64, Vec<Sent>)> {
    if piece.len() <= PIECE {
        return None;
    }
    let middle = piece.get(piece.len() / 2)?.time;
    let after = piece.partition_point(|sent| sent.time <= middle);
    let at = match after < piece.len() {
        true => after,
        false => piece.partition_point(|sent| sent.time < middle),
    };
    if at == 0 {
        return None;
    }
    let later = piece.split_off(at);
    piece.shrink_to(PIECE); // it had grown to room for two
    Some((later.first()?.time, later))
}

/// Puts in order of time.
pub(super) struct Since<'a> {
    piece: slice::Iter<'a, Sent>,
    rest: btree_map::Range<'a, i64, Vec<Sent>>,
}

impl<'a> Iterator for Since<'a> {
    type Item = &'a Sent;

    fn next(&mut self) -> Option<&'a Sent> {
        loop {
            if let Some(sent) = self.piece.next() {
                return Some(sent);
            }
            self.piece = self.rest.next()?.1.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(time: i64, number: u64) -> Sent {
        Sent { time, chain: (0, 0, number), value: SmallValue::default() }
    }

    /// Time and number of each.
    fn all<'a>(some: impl Iterator<Item = &'a Sent>) -> Vec<(i64, u64)> {
        some.map(|sent| (sent.time, sent.chain.2)).collect()
    }

    /// Whatever the order in which they come, and whatever is forgotten meanwhile.
    #[test]
    fn as_a_sorted_list() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for turn in 0..60 {
            let (mut track, mut sorted) = (Track::default(), Vec::new());
            // from many of each time to hardly two of one
            let spread = [1, 3, 100, 1_000_000][turn % 4];
            for number in 0..2000_u64 {
                let time = match turn / 4 % 5 {
                    0 => number as i64,
                    1 => -(number as i64),
                    2 => random(spread) as i64,
                    // nearly in order
                    3 => number as i64 / 10 + random(spread.min(50)) as i64,
                    // many of one time, and others before and after them
                    _ => [0, 0, 0, random(spread) as i64 - spread as i64 / 2][number as usize % 4],
                };
                track.insert(sent(time, number));
                sorted.push((time, number));
                if random(500) == 0 {
                    sorted.sort_unstable();
                    let from = sorted.get(random(sorted.len() as u64 / 2 + 1) as usize).map_or(0, |at| at.0);
                    track.forget_before(from);
                    sorted.retain(|(time, _)| *time >= from);
                }
            }
            sorted.sort_unstable();
            assert_eq!(all(track.since(i64::MIN)), sorted, "turn {turn}");
            assert_eq!((track.len(), track.is_empty()), (sorted.len(), false), "turn {turn}");
            assert_eq!(track.latest(), sorted.last().map(|(time, _)| *time), "turn {turn}");
            for _ in 0..50 {
                let from = sorted.get(random(sorted.len() as u64) as usize).map_or(0, |at| at.0);
                let from = from + random(3) as i64 - 1;
                let expected: Vec<_> = sorted.iter().copied().filter(|(time, _)| *time >= from).collect();
                assert_eq!(all(track.since(from)), expected, "turn {turn}, since {from}");
            }
            track.forget_before(i64::MAX);
            assert!(track.is_empty() && track.pieces.is_empty() && track.latest().is_none(), "turn {turn}");
        }
    }

    /// What comes in order fills its pieces, and what comes in any other half of them.
    #[test]
    fn pieces_are_full() {
        let count = 100 * PIECE as i64;
        let pieces = |time: &dyn Fn(i64) -> i64| {
            let mut track = Track::default();
            (0..count).for_each(|number| track.insert(sent(time(number), 0)));
            let has_room = |piece: &Vec<Sent>| piece.capacity() > PIECE.max(2 * piece.len());
            assert!(!track.pieces.values().any(has_room));
            track.pieces.len()
        };
        assert_eq!(pieces(&|number| number), 100);
        assert!(pieces(&|number| -number) <= 200);
        // 641 has no divisor in common with the count, so each time comes once
        assert!(pieces(&|number| number * 641 % count) <= 210);
        // the latest is always replaced by one that is a little earlier
        assert!(pieces(&|number| if number % 2 == 0 { number } else { 3 * count - number }) <= 210);
        assert_eq!(pieces(&|_| 0), 1);
    }
}
