//! A bounded table that knows which of its entries has been idle for longest.
//!
//! Entries are in classes, by what it costs to lose them. [`Lru::oldest`] is the one of the cheapest class that has not
//! been used for longest. Finding, using, adding and removing take constant time, however full the table is: who floods
//! it costs the recorder no more than who does not.

use std::cell::Cell;
use std::hash::Hash;

use crate::keyed::KeyedMap;

/// No entry.
const NONE: u32 = u32::MAX;

/// See the module. `CLASSES` is the number of classes; 0 is the cheapest.
#[derive(Debug)]
pub struct Lru<K, V, const CLASSES: usize> {
    index: KeyedMap<K, u32>,
    /// The slot that was found last: a packet's connection is looked up several times.
    found: Cell<u32>,
    slots: Vec<Slot<K, V>>,
    /// Empty slots, linked by `next`.
    free: u32,
    /// The entries of each class, in the order of their last use.
    lists: [List; CLASSES],
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

#[derive(Debug)]
struct Slot<K, V> {
    entry: Option<(K, V)>,
    class: u8,
    before: u32,
    next: u32,
}

impl<K: Copy + Eq + Hash, V, const CLASSES: usize> Default for Lru<K, V, CLASSES> {
    fn default() -> Self {
        let empty = List { first: NONE, last: NONE };
        Lru {
            index: KeyedMap::default(),
            found: Cell::new(NONE),
            slots: Vec::new(),
            free: NONE,
            lists: [empty; CLASSES],
        }
    }
}

impl<K: Copy + Eq + Hash, V, const CLASSES: usize> Lru<K, V, CLASSES> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The slot of this key.
    fn find(&self, key: &K) -> Option<u32> {
        let found = self.found.get();
        let entry = self.slots.get(found as usize).and_then(|slot| slot.entry.as_ref());
        if entry.is_some_and(|(of, _)| of == key) {
            return Some(found);
        }
        let at = *self.index.get(key)?;
        self.found.set(at);
        Some(at)
    }

    /// The entry of this key, as it is.
    pub fn get(&self, key: &K) -> Option<&V> {
        let slot = self.slots.get(self.find(key)? as usize)?;
        slot.entry.as_ref().map(|(_, value)| value)
    }

    /// The entry of this key. This is no use of it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key)?;
        let slot = self.slots.get_mut(at as usize)?;
        slot.entry.as_mut().map(|(_, value)| value)
    }

    /// Uses an entry: it becomes the last of this class to be given up.
    pub fn touch(&mut self, key: &K, class: u8) {
        let Some(at) = self.find(key) else { return };
        let is_last = self.lists.get(usize::from(class)).is_some_and(|list| list.last == at);
        if !is_last {
            self.unlink(at);
            self.link(at, class);
        }
    }

    /// Adds an entry, and returns the one that it replaces.
    pub fn insert(&mut self, key: K, value: V, class: u8) -> Option<V> {
        let old = self.remove(&key);
        let slot = Slot { entry: Some((key, value)), class, before: NONE, next: NONE };
        let at = match self.slots.get_mut(self.free as usize) {
            Some(empty) => {
                let at = self.free;
                self.free = empty.next;
                *empty = slot;
                at
            }
            None => {
                let at = self.slots.len() as u32;
                self.slots.push(slot);
                at
            }
        };
        self.index.insert(key, at);
        self.link(at, class);
        old
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index.remove(key)?;
        self.unlink(at);
        let slot = self.slots.get_mut(at as usize)?;
        slot.next = self.free;
        self.free = at;
        slot.entry.take().map(|(_, value)| value)
    }

    /// The key of the entry to give up first.
    pub fn oldest(&self) -> Option<K> {
        let first = self.lists.iter().find_map(|list| self.slots.get(list.first as usize))?;
        first.entry.as_ref().map(|(key, _)| *key)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref().map(|(key, value)| (key, value)))
    }

    /// All entries. This is no use of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut().map(|(key, value)| (&*key, value)))
    }

    /// Removes the entries for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let gone: Vec<K> =
            self.iter_mut().filter_map(|(key, value)| (!keep(key, value)).then_some(*key)).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    fn link(&mut self, at: u32, class: u8) {
        let Some(list) = self.lists.get_mut(usize::from(class)) else { return };
        let before = std::mem::replace(&mut list.last, at);
        if list.first == NONE {
            list.first = at;
        }
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.class, slot.before, slot.next) = (class, before, NONE);
        }
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.next = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slots.get(at as usize) else { return };
        let (class, before, next) = (slot.class, slot.before, slot.next);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.next = next;
        }
        if let Some(slot) = self.slots.get_mut(next as usize) {
            slot.before = before;
        }
        if let Some(list) = self.lists.get_mut(usize::from(class)) {
            if list.first == at {
                list.first = next;
            }
            if list.last == at {
                list.last = before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list that is searched from one end to the other.
        #[test]
        fn it_is_as_a_plain_list(acts in vec((0u8..5, 0u8..12, 0u8..3), 0..200)) {
            let mut table: Lru<u8, usize, 3> = Lru::default();
            let mut plain: Vec<(u8, u8, usize)> = Vec::new();
            for (number, (act, key, class)) in acts.into_iter().enumerate() {
                let at = plain.iter().position(|(_, other, _)| *other == key);
                match act {
                    0 | 1 => {
                        let old = at.map(|at| plain.remove(at).2);
                        prop_assert_eq!(table.insert(key, number, class), old);
                        plain.push((class, key, number));
                    }
                    2 => prop_assert_eq!(table.remove(&key), at.map(|at| plain.remove(at).2)),
                    3 => {
                        table.touch(&key, class);
                        if let Some(at) = at {
                            let (_, key, value) = plain.remove(at);
                            plain.push((class, key, value));
                        }
                    }
                    _ => {
                        table.retain(|other, _| other % 4 != key % 4);
                        plain.retain(|(_, other, _)| other % 4 != key % 4);
                    }
                }
                let oldest = plain.iter().min_by_key(|(class, ..)| *class).map(|(_, key, _)| *key);
                prop_assert_eq!(table.oldest(), oldest);
                prop_assert_eq!(table.len(), plain.len());
                prop_assert_eq!(table.iter().count(), plain.len());
                for (_, key, value) in &plain {
                    prop_assert_eq!(table.get(key), Some(value));
                }
            }
        }
    }
}
