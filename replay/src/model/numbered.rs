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

/// Runs whose records are found by index. Where more are read, those of the others are hashed.
const QUICK_RUNS: usize = 8;

/// A map by run (as an address) and record for what is looked up at every span.
pub struct OfRecords<Value> {
    quick: Vec<(usize, Dense<Value>)>,
    /// The run that was asked for last.
    latest: usize,
    others: Keyed<(usize, u32), Value>,
    length: usize,
}

impl<Value> Default for OfRecords<Value> {
    fn default() -> Self {
        OfRecords { quick: Vec::new(), latest: 0, others: Keyed::default(), length: 0 }
    }
}

impl<Value: Copy> OfRecords<Value> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// That of a record.
    #[inline]
    pub fn get(&mut self, run: usize, record: u32) -> Option<Value> {
        match self.quick.get(self.latest) {
            Some((latest, values)) if *latest == run => values.get(record).copied(),
            _ => {
                self.latest = self.quick.iter().position(|(of, _)| *of == run).unwrap_or(usize::MAX);
                match self.quick.get(self.latest) {
                    Some((_, values)) => values.get(record).copied(),
                    None => self.others.get(&(run, record)).copied(),
                }
            }
        }
    }

    /// Sets that of a record.
    pub fn insert(&mut self, run: usize, record: u32, value: Value) {
        let mut place = self.quick.iter().position(|(of, _)| *of == run);
        if place.is_none() && self.quick.len() < QUICK_RUNS {
            self.quick.push((run, Dense::default()));
            place = Some(self.quick.len() - 1);
        }
        let before = match place.and_then(|place| self.quick.get_mut(place)) {
            Some((_, values)) => values.insert(record, value),
            None => self.others.insert((run, record), value),
        };
        self.length += usize::from(before.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_runs_are_kept_apart() {
        let mut map = OfRecords::default();
        for run in 0..20_usize {
            for record in [0, 9, u32::MAX] {
                assert_eq!(map.get(run, record), None);
                map.insert(run, record, 1);
                map.insert(run, record, run as u32 ^ record);
            }
        }
        assert_eq!(map.len(), 60);
        for run in (0..20_usize).rev() {
            assert_eq!((map.get(run, 9), map.get(run, 8)), (Some(run as u32 ^ 9), None));
            assert_eq!(map.get(run, u32::MAX), Some(run as u32 ^ u32::MAX));
        }
    }

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
