//! The busiest senders, found with a fixed number of counters ("space saving", Metwally and others 2005): a newcomer
//! takes over the lowest counter with its count. So a count is at most too high by the lowest one, and whoever sent more
//! than that is among them.

use std::hash::Hash;

/// Counters.
const COUNTERS: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Busiest<T> {
    counters: Vec<(T, u64)>,
}

impl<T> Default for Busiest<T> {
    fn default() -> Busiest<T> {
        Busiest { counters: Vec::new() }
    }
}

impl<T: Copy + Eq + Hash + Ord> Busiest<T> {
    /// Counts.
    pub fn add(&mut self, of: T, count: u64) {
        if let Some((_, counter)) = self.counters.iter_mut().find(|(known, _)| *known == of) {
            *counter = counter.saturating_add(count);
        } else if self.counters.len() < COUNTERS {
            self.counters.push((of, count));
        } else if let Some(lowest) = self.counters.iter_mut().min_by_key(|(_, counter)| *counter) {
            *lowest = (of, lowest.1.saturating_add(count));
        }
    }

    /// Those with the highest counts, at most `most`, the highest first.
    pub fn first(&self, most: usize) -> Vec<(T, u64)> {
        let mut all = self.counters.clone();
        all.sort_unstable_by_key(|&(of, count)| (std::cmp::Reverse(count), of));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Counts are exact while there are counters for all; never too low; and a sender of more than the lowest count is
        /// there.
        #[test]
        fn bounds_hold(sent in proptest::collection::vec((0..200_u32, 1..5_u64), 0..600)) {
            let (mut found, mut truth) = (Busiest::default(), HashMap::new());
            for (of, count) in sent {
                found.add(of, count);
                *truth.entry(of).or_insert(0) += count;
            }
            let all = found.first(usize::MAX);
            let lowest = all.last().map_or(0, |(_, count)| *count);
            let exact = truth.len() <= COUNTERS;
            for (of, count) in &all {
                let is = truth.get(of).copied().unwrap_or(0);
                let excess = count.checked_sub(is);
                let most = if exact { 0 } else { lowest };
                prop_assert!(excess.is_some_and(|excess| excess <= most));
            }
            for (of, count) in truth {
                prop_assert!(count <= lowest && !exact || all.iter().any(|(known, _)| *known == of));
            }
        }
    }
}
