//! Limits shared by all traced IOCs: on the recorder's memory, and on reads of IOCs' memory.

/// Call sites to define. A program calls the probed functions from a handful of places; code that calls them from
/// everywhere (generated code) is not worth a definition for each.
pub const MAX_CALL_SITES: usize = 4096;

/// Links whose records are remembered, and records whose CP links are. Any more are looked up each time.
pub const MAX_LINKS: usize = 100_000;

/// Use of the limits by all traced IOCs.
#[derive(Debug, Default)]
pub struct Limits {
    /// Call sites that are remembered.
    pub call_sites: usize,
    /// Remembered links.
    pub link_owners: usize,
    /// Records whose CP links are in the log.
    pub linked_records: usize,
    /// Records whose CP links were read.
    pub cp_links: PerSecond,
    /// Puts after which the field was to be read.
    pub puts: PerSecond,
}

/// Counts events within a second of monotonic time.
#[derive(Debug, Default)]
pub struct PerSecond {
    second: u64,
    count: u64,
}

impl PerSecond {
    /// Counts one more at a time in nanoseconds. Returns the number in that second.
    pub fn count(&mut self, time: u64) -> u64 {
        let second = time / 1_000_000_000;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count += 1;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_counts_anew() {
        let mut count = PerSecond::default();
        assert_eq!([1, 2, 999_999_999].map(|time| count.count(time)), [1, 2, 3]);
        assert_eq!(count.count(1_000_000_000), 1);
        assert_eq!(count.count(5), 1, "a hit that was held back");
    }
}
