//! Maps by the numbers that a log gives to threads, records and other things.
//!
//! Every event looks several of them up, so they are hashed fast. A hostile log cannot choose numbers, or names, that
//! collide: the hash depends on a number that each process draws for itself.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A map by anything else that events look up: names, or several numbers.
pub type Keyed<Key, Value> = HashMap<Key, Value, RandomState>;

/// A map by number.
pub type Numbered<Number, Value> = HashMap<Number, Value, RandomState>;

/// Numbers below this one are found by index: a recorder counts from 0, and few IOCs have more records.
const DENSE: usize = 1 << 16;

/// A map by number for what is looked up at every event. Takes at most 65,536 places for numbers that are not in it.
pub struct Dense<Value> {
    low: Vec<Option<Value>>,
    high: Numbered<u32, Value>,
    length: usize,
}

impl<Value> Default for Dense<Value> {
    fn default() -> Self {
        Dense { low: Vec::new(), high: Numbered::default(), length: 0 }
    }
}

impl<Value> Dense<Value> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The one with this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&Value> {
        match number as usize {
            low if low < DENSE => self.low.get(low)?.as_ref(),
            _ => self.high.get(&number),
        }
    }

    /// The one with this number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Value> {
        match number as usize {
            low if low < DENSE => self.low.get_mut(low)?.as_mut(),
            _ => self.high.get_mut(&number),
        }
    }

    /// Whether there is one with this number.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Adds one. Returns the one that had its number.
    #[inline]
    pub fn insert(&mut self, number: u32, value: Value) -> Option<Value> {
        let place = number as usize;
        let before = if place < DENSE {
            if place >= self.low.len() {
                self.low.resize_with(place + 1, || None);
            }
            self.low.get_mut(place).and_then(|slot| slot.replace(value))
        } else {
            self.high.insert(number, value)
        };
        self.length += usize::from(before.is_none());
        before
    }

    /// Takes out the one with this number.
    #[inline]
    pub fn remove(&mut self, number: u32) -> Option<Value> {
        let taken = match number as usize {
            low if low < DENSE => self.low.get_mut(low)?.take(),
            _ => self.high.remove(&number),
        };
        self.length -= usize::from(taken.is_some());
        taken
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Dense::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_and_high_numbers_are_kept_alike() {
        let mut dense = Dense::default();
        for number in [0, 7, 65_535, 65_536, u32::MAX] {
            assert_eq!(dense.insert(number, 1), None);
            assert_eq!(dense.insert(number, number), Some(1));
            assert!(dense.contains(number) && !dense.contains(number ^ 3));
        }
        assert_eq!(
            (dense.len(), dense.get(65_535), dense.get(u32::MAX)),
            (5, Some(&65_535), Some(&u32::MAX))
        );
        assert_eq!(
            (dense.remove(7), dense.remove(7), dense.remove(u32::MAX)),
            (Some(7), None, Some(u32::MAX))
        );
        assert_eq!(dense.len(), 3);
        dense.clear();
        assert_eq!((dense.len(), dense.get(0)), (0, None));
    }
}
