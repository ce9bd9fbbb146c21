//! Limits shared by all traced IOCs: on the recorder's memory, and on reads of IOCs' memory. Any program may be one of
//! them: of what is left, each may take as much as it has, so that there is always something for the others.

/// Call sites to define, half of them for one IOC alone. A program calls the probed functions from a handful of places; code
/// that calls them from everywhere (generated code) is not worth a definition for each.
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
    /// Counts one more at a time in nanoseconds, of an IOC that has had `own`. False, and not counted: the IOC has had as much
    /// in that second as is left for all, which is so many for one that is alone.
    pub fn share(&mut self, own: &mut PerSecond, time: u64, alone: u64) -> bool {
        let second = time / 1_000_000_000;
        for of in [&mut *self, &mut *own] {
            if second != of.second {
                (of.second, of.count) = (second, 0);
            }
        }
        let is_free = self.count + own.count < 2 * alone;
        self.count += u64::from(is_free);
        own.count += u64::from(is_free);
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_counts_anew() {
        let (mut all, mut own) = (PerSecond::default(), PerSecond::default());
        let mut shared = |time| all.share(&mut own, time, 2);
        assert_eq!([1, 2, 999_999_999].map(&mut shared), [true, true, false]);
        assert!(shared(1_000_000_000));
        assert!(shared(5), "a hit that was held back");
    }

    /// However many take what they can get.
    #[test]
    fn something_is_left_for_the_others() {
        let mut all = PerSecond::default();
        let mut taken = |times: u64| {
            let mut own = PerSecond::default();
            (0..times).filter(|_| all.share(&mut own, 7, 60)).count()
        };
        assert_eq!([1000, 1000, 1000, 5].map(&mut taken), [60, 30, 15, 5]);
    }
}
