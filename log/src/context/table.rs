//! The definitions of one kind in force: by key, or only the latest.

use super::budget::Share;
use super::slots::Slots;
use super::store::{Admission, Owners, Store};
use crate::event::life::{Begin, Ended, OwnedBy, Single};
use crate::event::{ChannelId, CircuitId, Definition};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

/// Definitions by their keys, and their weight. A tree, not a hash table: it is ordered for keyframes, does not double
/// its memory when it grows, and has no collisions that chosen numbers could cause.
///
/// The tree holds the places of definitions, not these themselves: its code is the same for all kinds, and its nodes are
/// small.
#[derive(Clone, Debug)]
pub struct Table<T: Definition> {
    places: BTreeMap<u32, u32>,
    slots: Slots<T::Kept>,
    weight: usize,
    /// Circuit and key of those that a circuit owns, so that the end of a circuit need not examine all of them.
    of_circuit: BTreeSet<(CircuitId, ChannelId)>,
}

impl<T: Definition> Default for Table<T> {
    fn default() -> Self {
        Table { places: BTreeMap::new(), slots: Slots::default(), weight: 0, of_circuit: BTreeSet::new() }
    }
}

impl<T: Definition> Table<T> {
    const BY_CIRCUIT: bool = matches!(T::OWNED_BY, OwnedBy::Circuit);

    /// Size of a definition, its place in a tree included, bytes. Nodes are half full when keys rise.
    fn weight_of(kept: &T::Kept) -> usize {
        let index = if Self::BY_CIRCUIT { 2 * size_of::<(CircuitId, ChannelId)>() } else { 0 };
        4 * size_of::<u32>() + size_of::<Option<T::Kept>>() + index + T::heap(kept)
    }

    /// The definition in force under a key.
    pub fn get(&self, key: u32) -> Option<&T::Kept> {
        self.slots.get(*self.places.get(&key)?)
    }

    /// All definitions, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T::Kept)> {
        self.places.iter().filter_map(|(&key, &slot)| Some((key, self.slots.get(slot)?)))
    }

    /// All definitions without their keys, in the order of the keys.
    pub fn values(&self) -> impl Iterator<Item = &T::Kept> {
        self.iter().map(|(_, kept)| kept)
    }

    fn take(&mut self, key: u32) {
        let Some(old) = self.places.remove(&key).and_then(|slot| self.slots.take(slot)) else { return };
        self.weight = self.weight.saturating_sub(Self::weight_of(&old));
        if Self::BY_CIRCUIT {
            self.of_circuit.remove(&(T::owner(&old), key));
        }
    }

    fn put(&mut self, key: u32, kept: T::Kept) {
        self.take(key);
        self.weight += Self::weight_of(&kept);
        if Self::BY_CIRCUIT {
            self.of_circuit.insert((T::owner(&kept), key));
        }
        let slot = self.slots.put(kept);
        self.places.insert(key, slot);
    }

    fn keep(&mut self, mut wanted: impl FnMut(u32, &T::Kept) -> bool) {
        let unwanted = self.iter().filter(|&(key, kept)| !wanted(key, kept)).map(|(key, _)| key);
        let unwanted: Vec<u32> = unwanted.collect();
        unwanted.into_iter().for_each(|key| self.take(key));
    }

    /// Ends the definitions that a circuit owns.
    fn end_of_circuit(&mut self, circuit: CircuitId) {
        let whole = (circuit, ChannelId::MIN)..=(circuit, ChannelId::MAX);
        let ended: Vec<u32> = self.of_circuit.range(whole).map(|&(_, key)| key).collect();
        for key in ended {
            self.take(key);
        }
    }
}

impl<T: Definition> Store for Table<T> {
    type Of = T;
    const PLACE: Option<(u16, u16)> = T::PLACE;

    fn begin(&mut self, _: u64, definition: &T, admission: &mut Admission) {
        let key = definition.key();
        match definition.begin(self.get(key)) {
            Begin::Keep(kept) if admission.admits(Self::weight_of(&kept)) => self.put(key, kept),
            Begin::Keep(_) | Begin::AsBefore => {}
            Begin::End => self.take(key),
            Begin::Refuse => admission.refuse(),
        }
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn again(&self, now: u64) -> impl Iterator<Item = (u64, T)> {
        self.iter().flat_map(|(key, kept)| T::again(key, kept)).map(move |definition| (now, definition))
    }

    fn end(&mut self, ended: Ended) {
        if let Some(key) = T::ended_by(ended) {
            self.take(key);
        }
    }

    fn end_owned(&mut self, ended: Ended, owners: &dyn Owners, share: &Share) {
        match (T::OWNED_BY, ended) {
            (OwnedBy::Ioc, Ended::Ioc(ioc)) => self.keep(|_, kept| T::owner(kept) != ioc),
            (OwnedBy::Record, Ended::Ioc(_)) => self.keep(|record, _| owners.has_record(record)),
            (OwnedBy::ThreadAndCircuit, Ended::Ioc(_)) => {
                self.keep(|thread, _| owners.has_thread(thread));
            }
            (OwnedBy::ThreadAndCircuit, Ended::Circuit(circuit)) if share.may_look_at(self.places.len()) => {
                self.keep(|_, kept| T::owner(kept) != circuit);
            }
            (OwnedBy::Circuit, Ended::Circuit(circuit)) => self.end_of_circuit(circuit),
            _ => {}
        }
    }
}

/// The latest definition of a kind that has one in force for the whole run. There is always room for it.
#[derive(Clone, Debug)]
pub struct Latest<T>(Option<T>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Latest(None)
    }
}

impl<T> Latest<T> {
    /// The latest definition, if there was any.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T: Single> Store for Latest<T> {
    type Of = T;
    const PLACE: Option<(u16, u16)> = T::PLACE;

    fn begin(&mut self, _: u64, definition: &T, _: &mut Admission) {
        self.0 = Some(definition.clone());
    }

    fn again(&self, now: u64) -> impl Iterator<Item = (u64, T)> {
        self.0.iter().map(move |latest| (now, latest.clone()))
    }
}
