//! Hits on their way from the kernel's buffers to events: copied, and sorted into processing order.
//!
//! Hits of the same thread are handed over in the order in which the thread made them, whichever buffers they came
//! through. They can be merged because each carries a time that was noted before the hit became visible here: a hit
//! begun after the clock showed T carries a time later than T. So a reader that takes all hits begun until then has all
//! those with times up to T and hands them over; later ones wait for the next round.

use crate::bpf::contract::Hit;

/// Where a hit is, and its time.
#[derive(Clone, Copy)]
struct Place {
    time: u64,
    start: u32,
    end: u32,
}

/// Hits in order of arrival.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Batch {
    /// Adds a hit, in one or two pieces.
    pub(crate) fn push(&mut self, sample: &[u8], rest: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(sample);
        self.bytes.extend_from_slice(rest);
        let time = time(&self.bytes, start);
        self.places.push(Place { time, start, end: self.bytes.len() as u32 });
    }

    /// Each hit in turn.
    pub fn samples(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().filter_map(|&place| self.sample(place))
    }

    fn sample(&self, place: Place) -> Option<&[u8]> {
        self.bytes.get(place.start as usize..place.end as usize)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of all hits.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Sorts the hits of several CPUs and buffers by time. Those of each are nearly in order, so this is fast.
    pub(crate) fn sort(&mut self) {
        // the sort of a std that is built for size does not notice that there is nothing to do
        if !self.places.is_sorted_by_key(|place| place.time) {
            self.places.sort_by_key(|place| place.time);
        }
    }

    /// Removes and returns hits later than `until` (CLOCK_MONOTONIC, nanoseconds) from sorted ones.
    pub(super) fn split(&mut self, until: u64) -> Batch {
        let stay = self.places.partition_point(|place| place.time <= until);
        let mut later = Batch::default();
        for place in self.places.split_off(stay) {
            later.push(self.sample(place).unwrap_or_default(), &[]);
        }
        later
    }

    /// Drops all hits, and keeps at most enough memory for `most` bytes of them.
    pub(crate) fn clear(&mut self, most: usize) {
        self.bytes.clear();
        self.places.clear();
        if self.bytes.capacity() > most {
            self.bytes.shrink_to(most);
            self.places.shrink_to(most / SMALLEST);
        }
    }
}

/// Bytes of the shortest hit.
const SMALLEST: usize = size_of::<Hit>();

/// Time of the hit that begins at `start`, its first member.
pub(super) fn time(bytes: &[u8], start: u32) -> u64 {
    const { assert!(std::mem::offset_of!(Hit, time) == 0) };
    let time = bytes.get(start as usize..).and_then(<[u8]>::first_chunk);
    time.map_or(0, |time| u64::from_ne_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(times: &[u64]) -> Batch {
        let mut batch = Batch::default();
        for &time in times {
            let mut sample = time.to_ne_bytes().to_vec();
            sample.resize(8 + time as usize, 0);
            batch.push(&sample[..3], &sample[3..]);
        }
        batch
    }

    fn lengths(batch: &Batch) -> Vec<usize> {
        batch.samples().map(<[u8]>::len).collect()
    }

    #[test]
    fn hits_of_all_cpus_are_sorted_by_time() {
        let mut batch = batch(&[1, 4, 6, 2, 3, 5]);
        batch.sort();
        assert_eq!(lengths(&batch), [9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn later_hits_wait() {
        let mut batch = batch(&[1, 4, 6, 2, 3, 5]);
        batch.sort();
        let later = batch.split(4);
        assert_eq!((lengths(&batch), lengths(&later)), (vec![9, 10, 11, 12], vec![13, 14]));
        let none = batch.split(9);
        assert_eq!((lengths(&batch).len(), none.bytes()), (4, 0));
        let all = batch.split(0);
        assert_eq!((lengths(&batch).len(), lengths(&all)), (0, vec![9, 10, 11, 12]));
    }

    #[test]
    fn memory_of_a_flood_is_given_back() {
        let mut batch = Batch::default();
        (0..10_000).for_each(|_| batch.push(&[0; 64], &[]));
        batch.clear(1000);
        assert!(batch.bytes.capacity() <= 1000 && batch.places.capacity() <= 1000 / SMALLEST);
        assert_eq!(batch.samples().count(), 0);
    }
}
