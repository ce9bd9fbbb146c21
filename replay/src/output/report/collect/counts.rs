//! Counts over time in a bounded number of bins, however long the log is.
//!
//! Bins begin narrow and are joined in pairs when the time no longer fits, so that a log of a minute has bins of some
//! tens of milliseconds and one of a month has bins of an hour.

use super::bins::Bins;

/// Width of the narrowest bin, nanoseconds: 2^20, about a millisecond.
const NARROWEST: u32 = 20;
/// Width of the widest bin: 2^62 ns are more than any time.
const WIDEST: u32 = 62;

/// Counts of something.
#[derive(Clone, Debug)]
pub struct Counts {
    total: u64,
    /// Boxed: of most of very many records only the total is kept.
    over_time: Option<Box<OverTime>>,
}

#[derive(Clone, Debug)]
struct OverTime {
    /// log2 of the width of a bin in nanoseconds.
    shift: u32,
    /// Number of the first bin: bins are numbered from 1970.
    first: i64,
    bins: Bins,
    most: usize,
    /// The latest bin that was counted in, and what was counted since that is not in it yet: times come in order, and
    /// the bins of many records are far away in memory.
    latest: i64,
    since: u32,
}

impl Counts {
    /// Counts in at most so many bins; without any, only a total.
    pub fn new(most: usize) -> Self {
        let bins = Bins::new();
        let over_time = OverTime { shift: NARROWEST, first: 0, bins, most, latest: 0, since: 0 };
        Counts { total: 0, over_time: (most > 0).then(|| Box::new(over_time)) }
    }

    /// Counts one at this time.
    #[inline]
    pub fn add(&mut self, wall: i64) {
        self.total += 1;
        self.over_time.iter_mut().for_each(|counts| counts.add(wall));
    }

    /// Makes bins wider until there are at most so many between two times.
    pub fn fit(&mut self, most: usize) {
        let Some(counts) = &mut self.over_time else { return };
        while counts.bins.len() > most && counts.shift < WIDEST {
            counts.widen();
        }
    }

    /// Everything counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// log2 of the width of a bin in nanoseconds.
    pub fn shift(&self) -> u32 {
        self.over_time.as_ref().map_or(NARROWEST, |counts| counts.shift)
    }

    /// Start of the first bin, nanoseconds since 1970.
    pub fn start(&self) -> i64 {
        self.over_time.as_ref().map_or(0, |counts| counts.first << counts.shift)
    }

    /// The counts.
    pub fn bins(&mut self) -> Vec<u32> {
        let Some(counts) = &mut self.over_time else { return Vec::new() };
        counts.catch_up();
        counts.bins.to_vec()
    }

    /// Whether there are no bins: nothing was counted, or only the total.
    pub fn has_no_bins(&self) -> bool {
        self.over_time.as_ref().is_none_or(|counts| counts.bins.is_empty())
    }
}

impl OverTime {
    fn add(&mut self, wall: i64) {
        if wall >> self.shift == self.latest && !self.bins.is_empty() {
            self.since = self.since.saturating_add(1);
            return;
        }
        self.catch_up();
        loop {
            let bin = wall >> self.shift;
            if self.bins.is_empty() {
                self.first = bin;
            }
            if let Ok(place) = usize::try_from(bin.saturating_sub(self.first)) {
                if place < self.most {
                    self.bins.add(place, 1, self.most);
                    self.latest = bin;
                    return;
                }
            } else {
                // Chains come in order of time, but what they hold doesn't quite: room before the first bin.
                let more = usize::try_from(self.first.saturating_sub(bin)).unwrap_or(usize::MAX);
                if more.saturating_add(self.bins.len()) <= self.most {
                    self.bins.begin_earlier(more);
                    self.first = bin;
                    continue;
                }
            }
            if self.shift >= WIDEST {
                return;
            }
            self.widen();
        }
    }

    /// Counts in the latest bin what was counted since.
    fn catch_up(&mut self) {
        let since = std::mem::take(&mut self.since);
        let place = usize::try_from(self.latest.saturating_sub(self.first)).ok();
        if let Some(place) = place.filter(|place| since > 0 && *place < self.bins.len()) {
            self.bins.add(place, since, self.most);
        }
    }

    /// Joins bins in pairs.
    fn widen(&mut self) {
        self.catch_up();
        self.bins.join(self.first & 1 == 1, self.most);
        self.first >>= 1;
        self.latest >>= 1;
        self.shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_bins_are_joined() {
        let mut counts = Counts::new(100);
        let start = 1_790_000_000_000_000_000_i64;
        for number in 0..10_000_i64 {
            counts.add(start + number * 1_000_000_000);
        }
        counts.add(start - 5_000_000_000);
        assert_eq!(counts.total(), 10_001);
        assert!(counts.bins().len() <= 100);
        assert_eq!(counts.bins().iter().map(|count| u64::from(*count)).sum::<u64>(), 10_001);
        assert!(counts.start() <= start - 5_000_000_000);
        counts.fit(7);
        assert!(counts.bins().len() <= 7);
        assert_eq!(counts.bins().iter().map(|count| u64::from(*count)).sum::<u64>(), 10_001);
    }

    #[test]
    fn any_time_is_taken() {
        let mut counts = Counts::new(4);
        for wall in [0, i64::MAX, i64::MIN, -1, 1] {
            counts.add(wall);
        }
        assert_eq!(counts.total(), 5);
        let mut none = Counts::new(0);
        none.add(7);
        assert_eq!((none.total(), none.bins()), (1, vec![]));
    }
}
