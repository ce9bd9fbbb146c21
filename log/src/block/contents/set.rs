//! Sets of numbers in few bytes: exact while they fit, then a filter that may say yes too often but never no.

use crate::block::varint;
use std::ops::RangeInclusive;

/// Bits that a filter sets for each number.
const HASHES: u64 = 3;
/// A filter with fewer bits for each number than this says yes to nearly everything, so it is not written.
const MIN_BITS: usize = 3;

/// A set of numbers: records, channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// These numbers, in rising order.
    Exact(Vec<RangeInclusive<u32>>),
    /// A Bloom filter: all numbers of the set, and some others.
    Filter(Vec<u8>),
    /// Nothing is known of it.
    Any,
}

impl Default for Set {
    fn default() -> Self {
        Set::Exact(Vec::new())
    }
}

/// Spreads a number over 64 bits (the finalizer of SplitMix64).
fn spread(number: u32) -> u64 {
    let mut mixed = u64::from(number).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The places of a number's bits in a filter of so many bits.
fn bits(number: u32, count: u64) -> impl Iterator<Item = u64> {
    let mixed = spread(number);
    let (first, step) = (mixed & 0xFFFF_FFFF, mixed >> 32 | 1);
    (0..HASHES).map(move |turn| (first + turn * step) % count.max(1))
}

impl Set {
    /// The exact set of these numbers, which it sorts.
    pub(super) fn of(numbers: &mut Vec<u32>) -> Set {
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for &number in numbers.iter() {
            match ranges.last_mut() {
                Some(last) if number.checked_sub(1) == Some(*last.end()) => *last = *last.start()..=number,
                _ => ranges.push(number..=number),
            }
        }
        Set::Exact(ranges)
    }

    /// Whether the number may be in the set; if not, it is certainly not in it.
    pub fn may_hold(&self, number: u32) -> bool {
        match self {
            Set::Any => true,
            Set::Exact(ranges) => {
                let place = ranges.partition_point(|range| *range.end() < number);
                ranges.get(place).is_some_and(|range| *range.start() <= number)
            }
            Set::Filter(bytes) => {
                let is_set = |bit: u64| {
                    let byte = usize::try_from(bit / 8).ok().and_then(|place| bytes.get(place));
                    byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
                };
                bits(number, bytes.len() as u64 * 8).all(is_set)
            }
        }
    }

    /// Whether it certainly holds nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self, Set::Exact(ranges) if ranges.is_empty())
    }

    /// Its numbers, if it is exact. A range of a hostile log may be long: stop in time.
    pub fn numbers(&self) -> Option<impl Iterator<Item = u32> + '_> {
        match self {
            Set::Exact(ranges) => Some(ranges.iter().cloned().flatten()),
            Set::Filter(_) | Set::Any => None,
        }
    }

    /// The same set in at most `room` bytes, or `Any`.
    pub(super) fn within(self, numbers: &[u32], room: usize) -> Set {
        let bits_each = room.saturating_mul(8) / numbers.len().max(1);
        // its kind and its length
        let count = room.saturating_sub(4);
        if self.length() <= room {
            return self;
        }
        if bits_each < MIN_BITS || count == 0 {
            return Set::Any;
        }
        let mut bytes = vec![0_u8; count];
        for number in numbers {
            for bit in bits(*number, count as u64 * 8) {
                if let Some(byte) = usize::try_from(bit / 8).ok().and_then(|place| bytes.get_mut(place)) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
        Set::Filter(bytes)
    }

    /// Its length in bytes.
    pub(super) fn length(&self) -> usize {
        let mut out = Vec::new();
        self.put(&mut out);
        out.len()
    }

    /// Appends it: 0 for any, 1 and the filter's bytes with their number, or 2 and the number of ranges, and for each
    /// range the distance from the end of the one before it, twice, plus one if it holds more than one number; and then
    /// how many more than two.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Set::Any => varint::put(out, 0),
            Set::Filter(bytes) => {
                varint::put(out, 1);
                varint::put(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Set::Exact(ranges) => {
                varint::put(out, 2 + ranges.len() as u64);
                let mut from = 0;
                for range in ranges {
                    let (start, end) = (u64::from(*range.start()), u64::from(*range.end()));
                    let more = end - start;
                    varint::put(out, (start - from) << 1 | u64::from(more > 0));
                    if more > 0 {
                        varint::put(out, more - 1);
                    }
                    from = end;
                }
            }
        }
    }

    /// Takes a set off the front; `None` if no writer wrote it.
    pub(super) fn take(bytes: &mut &[u8]) -> Option<Set> {
        match varint::take(bytes)? {
            0 => Some(Set::Any),
            1 => {
                let length = usize::try_from(varint::take(bytes)?).ok()?;
                let (filter, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                (!filter.is_empty()).then(|| Set::Filter(filter.to_vec()))
            }
            count => {
                let count = count - 2;
                // Each has at least one byte.
                (count <= bytes.len() as u64).then_some(())?;
                let (mut ranges, mut from) = (Vec::with_capacity(usize::try_from(count).ok()?), 0_u64);
                for _ in 0..count {
                    let first = varint::take(bytes)?;
                    let start = from.checked_add(first >> 1)?;
                    let more = if first & 1 == 1 { varint::take(bytes)?.checked_add(1)? } else { 0 };
                    let end = start.checked_add(more)?;
                    ranges.push(u32::try_from(start).ok()?..=u32::try_from(end).ok()?);
                    from = end;
                }
                ranges.is_sorted_by(|a, b| a.end() < b.start()).then_some(Set::Exact(ranges))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(count: usize, below: u32) -> Vec<u32> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 7) % below
        };
        (0..count).map(|_| next()).collect()
    }

    fn written(set: &Set) -> Set {
        let mut out = Vec::new();
        set.put(&mut out);
        assert_eq!(out.len(), set.length());
        let mut bytes = out.as_slice();
        let read = Set::take(&mut bytes).unwrap();
        assert!(bytes.is_empty());
        read
    }

    #[test]
    fn exact_sets_hold_what_they_should_and_nothing_else() {
        for mut numbers in [
            vec![],
            vec![0],
            vec![u32::MAX, 0],
            random(500, 1000),
            (5..2005).collect(),
            random(300, u32::MAX),
        ] {
            let set = written(&Set::of(&mut numbers));
            assert!(set.numbers().unwrap().eq(numbers.iter().copied()));
            for number in (0..2010).chain([u32::MAX - 1, u32::MAX]) {
                assert_eq!(set.may_hold(number), numbers.binary_search(&number).is_ok(), "{number}");
            }
        }
        assert!(Set::of(&mut (5..2005).collect()).length() < 8, "records in a row cost next to nothing");
    }

    #[test]
    fn a_filter_never_says_no_to_what_is_there() {
        let mut numbers = random(1000, u32::MAX);
        let exact = Set::of(&mut numbers);
        for (room, least) in [(1500, 850), (700, 400)] {
            let set = written(&exact.clone().within(&numbers, room));
            assert!(matches!(set, Set::Filter(_)) && set.length() <= room);
            assert!(numbers.iter().all(|number| set.may_hold(*number)));
            let others = random(3000, 10_000);
            let no = others.iter().filter(|number| !set.may_hold(**number)).count();
            assert!(no > least * 3, "{no} of 3000 with {room} bytes");
        }
        assert_eq!(exact.clone().within(&numbers, 100), Set::Any, "too few bits to say anything");
        assert_eq!(exact.clone().within(&numbers, exact.length()), exact);
    }

    #[test]
    fn what_no_writer_wrote_is_refused() {
        for bytes in [&[][..], &[1], &[1, 0], &[1, 3, 0], &[3], &[4, 2, 0], &[3, 0x81, 0x80]] {
            assert_eq!(Set::take(&mut { bytes }), None, "{bytes:?}");
        }
    }
}
