//! The start times of open chains.
//!
//! Chains begin in order of time, but for few that a message makes earlier, and end in any order. So most are in a list
//! in that order, from which an ended chain is removed when it comes to the front, or when half of the list has ended.

use super::open_chains::ChainKey;
use std::collections::{BTreeSet, VecDeque};

/// Length of the list from which on ended chains are looked for.
const FEW: usize = 1024;

/// A chain and its start.
type Start = (u64, ChainKey);

/// The starts of all open chains, and of some that have ended.
#[derive(Default)]
pub struct Starts {
    in_order: VecDeque<Start>,
    early: BTreeSet<Start>,
    /// Length of the list at which ended chains are removed from it.
    limit: usize,
}

impl Starts {
    /// Adds a chain. `is_open`: whether a chain is open and begins at that time.
    pub fn insert(&mut self, start: u64, chain: ChainKey, is_open: impl Fn(Start) -> bool) {
        if self.in_order.back().is_some_and(|(last, _)| *last > start) {
            self.early.insert((start, chain));
            return;
        }
        if self.in_order.len() >= self.limit {
            self.in_order.retain(|start| is_open(*start));
            self.limit = (2 * self.in_order.len()).max(FEW);
        }
        self.in_order.push_back((start, chain));
    }

    /// Removes a chain.
    pub fn remove(&mut self, start: u64, chain: ChainKey) {
        if !self.early.is_empty() {
            self.early.remove(&(start, chain));
        }
    }

    /// The chain that began first.
    pub fn first(&mut self, is_open: impl Fn(Start) -> bool) -> Option<Start> {
        while self.in_order.front().is_some_and(|start| !is_open(*start)) {
            self.in_order.pop_front();
        }
        match (self.in_order.front(), self.early.first()) {
            (Some(first), Some(early)) => Some(*first.min(early)),
            (first, early) => first.or(early).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    /// As a sorted set, whatever ends when.
    #[test]
    fn the_first_that_is_open() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut starts, mut sorted) = (Starts::default(), BTreeSet::new());
        let mut open: SlotMap<ChainKey, u64> = SlotMap::with_key();
        for now in 0..20_000_u64 {
            let start = if random(20) == 0 { now.saturating_sub(random(50)) } else { now };
            let chain = open.insert(start);
            starts.insert(start, chain, |(start, chain)| open.get(chain) == Some(&start));
            sorted.insert((start, chain));
            while sorted.len() as u64 > random(100) {
                let nth = random(sorted.len() as u64) as usize;
                let (start, chain) = *sorted.iter().nth(nth).unwrap();
                sorted.remove(&(start, chain));
                open.remove(chain);
                starts.remove(start, chain);
            }
            let first = starts.first(|(start, chain)| open.get(chain) == Some(&start));
            assert_eq!(first, sorted.first().copied());
            assert!(starts.in_order.len() <= FEW.max(2 * 150) && starts.early.len() <= sorted.len());
        }
    }
}
