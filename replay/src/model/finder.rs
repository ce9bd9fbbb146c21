//! Finds the places of things in a list by what they are: a hash table that holds these places alone.
//!
//! A map of a hundred thousand keys has room for 131,072 and holds two tables while it grows. Where the things are in a list
//! anyway, 4 bytes for each place do, and the list itself grows without waste. A hostile log cannot choose names that collide:
//! the hash depends on a number that each process draws for itself.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};

/// Where no place is.
const FREE: u32 = u32::MAX;
/// Room at first; like all later ones a power of two.
const FIRST: usize = 64;

/// See the module. Places are 0, 1, 2 and so on, in the order in which they were added.
#[derive(Default)]
pub struct Finder {
    /// Places, each at its hash or after it; at least a quarter is [`FREE`].
    places: Vec<u32>,
    count: usize,
    hasher: RandomState,
}

impl Finder {
    /// The place of the thing with this key, the first if there are several. `is`: whether it is the one at a place.
    pub fn find(&self, key: impl Hash, is: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.places.len().checked_sub(1)?;
        // the lower digits suffice: they choose where to look
        let mut at = self.hasher.hash_one(key) as usize & last;
        while let Some(place) = self.places.get(at).filter(|place| **place != FREE) {
            if is(*place as usize) {
                return Some(*place as usize);
            }
            at = (at + 1) & last;
        }
        None
    }

    /// Adds the next place: that of a thing with this key. `keys`: those of the earlier ones, in the order of their places.
    pub fn add<Key: Hash>(&mut self, key: impl Hash, keys: impl Iterator<Item = Key>) {
        if (self.count + 1) * 4 > self.places.len() * 3 {
            let room = (2 * self.places.len()).max(FIRST);
            self.places = Vec::new(); // not both at a time
            self.places.resize(room, FREE);
            for (place, key) in keys.take(self.count).enumerate() {
                self.put(key, place);
            }
        }
        self.put(key, self.count);
        self.count += 1;
    }

    fn put(&mut self, key: impl Hash, place: usize) {
        let Some(last) = self.places.len().checked_sub(1) else { return };
        let mut at = self.hasher.hash_one(key) as usize & last;
        while self.places.get(at).is_some_and(|place| *place != FREE) {
            at = (at + 1) & last;
        }
        let place = u32::try_from(place).unwrap_or(FREE);
        self.places.get_mut(at).into_iter().for_each(|free| *free = place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_many_is_found_at_its_place() {
        let (mut finder, mut list): (Finder, Vec<String>) = Default::default();
        let find =
            |finder: &Finder, list: &[String], text: &str| finder.find(text, |place| list[place] == text);
        for number in 0..20_000 {
            let text = (number * 7).to_string();
            assert_eq!(find(&finder, &list, &text), None);
            finder.add(&*text, list.iter().map(|text| &**text));
            list.push(text);
        }
        for (place, text) in list.iter().enumerate() {
            assert_eq!(find(&finder, &list, text), Some(place));
        }
        assert_eq!(find(&finder, &list, "1"), None);
        assert!(finder.places.len() <= 1 << 15, "{}", finder.places.len());
    }
}
