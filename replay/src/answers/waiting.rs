//! What waits until nothing earlier can come.
//!
//! Nearly everything comes in order of time, or overtakes a few, as the records of a chain do: those are in a list, which costs
//! a fraction of a tree. What comes later than that is in a tree.

use std::collections::{BTreeMap, VecDeque};

/// Place in the order of time, and a number that makes it unique.
pub type Key = (i64, u64);

/// Items of the list that one may come before and still be put among them.
const OVERTAKEN: usize = 16;

/// See the module.
pub struct Waiting<T> {
    in_order: VecDeque<(Key, T)>,
    late: BTreeMap<Key, T>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting { in_order: VecDeque::new(), late: BTreeMap::new() }
    }
}

impl<T> Waiting<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// The place of the first.
    pub fn first(&self) -> Option<Key> {
        let in_order = self.in_order.front().map(|(key, _)| *key);
        in_order.into_iter().chain(self.late.first_key_value().map(|(key, _)| *key)).min()
    }

    /// Adds an item.
    pub fn insert(&mut self, key: Key, item: T) {
        let later = self.in_order.iter().rev().take(OVERTAKEN).take_while(|(other, _)| *other > key).count();
        match self.in_order.len() - later {
            place if later < OVERTAKEN || place == 0 => self.in_order.insert(place, (key, item)),
            _ => _ = self.late.insert(key, item),
        }
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<T> {
        let first = self.first()?;
        match self.in_order.front() {
            Some((key, _)) if *key == first => self.in_order.pop_front().map(|(_, item)| item),
            _ => self.late.pop_first().map(|(_, item)| item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As from a sorted map, in whatever order they come.
    #[test]
    fn the_first_comes_first() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for spread in [1, 5, 100, 10_000] {
            let (mut waiting, mut sorted) = (Waiting::default(), BTreeMap::new());
            for now in 0..3000_u64 {
                let key = ((now + random(spread)) as i64, now);
                waiting.insert(key, now);
                sorted.insert(key, now);
                assert_eq!((waiting.len(), waiting.first()), (sorted.len(), sorted.keys().next().copied()));
                if random(3) == 0 {
                    for _ in 0..random(5) {
                        assert_eq!(waiting.pop(), sorted.pop_first().map(|(_, item)| item));
                    }
                }
            }
            while let Some((_, item)) = sorted.pop_first() {
                assert_eq!(waiting.pop(), Some(item));
            }
            assert_eq!((waiting.pop(), waiting.len()), (None, 0));
        }
    }
}
