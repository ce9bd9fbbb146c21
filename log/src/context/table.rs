//! Definitions in force, of one kind: by their keys, or the latest.

use super::budget::Share;
use super::store::{Admission, Owners, Store};
use crate::event::life::{Begin, Ended, OwnedBy, Single};
use crate::event::{ChannelId, CircuitId, Definition};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

/// Definitions by their keys, and what they weigh. A tree and not a hash table: in order for keyframes,
/// no doubling of all it holds when it grows, and no numbers that can be chosen to collide.
#[derive(Clone, Debug)]
pub struct Table<T: Definition> {
    map: BTreeMap<u32, T::Kept>,
    weight: usize,
    /// Where a circuit owns them: circuit and key, so that the end of a circuit need not look at all of them.
    of_circuit: BTreeSet<(CircuitId, ChannelId)>,
}

impl<T: Definition> Default for Table<T> {
    fn default() -> Self {
        Table { map: BTreeMap::new(), weight: 0, of_circuit: BTreeSet::new() }
    }
}

impl<T: Definition> Table<T> {
    const BY_CIRCUIT: bool = matches!(T::OWNED_BY, OwnedBy::Circuit);

    /// Bytes that a definition takes, its place in a tree included: nodes are half full when keys rise.
    fn weight_of(kept: &T::Kept) -> usize {
        let index = if Self::BY_CIRCUIT { 2 * size_of::<(CircuitId, ChannelId)>() } else { 0 };
        2 * (size_of::<u32>() + size_of::<T::Kept>()) + index + T::heap(kept)
    }

    /// The definition in force under a key.
    pub fn get(&self, key: u32) -> Option<&T::Kept> {
        self.map.get(&key)
    }

    /// All, by their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T::Kept)> {
        self.map.iter().map(|(&key, kept)| (key, kept))
    }

    /// All without their keys, in the order of these.
    pub fn values(&self) -> impl Iterator<Item = &T::Kept> {
        self.map.values()
    }

    fn take(&mut self, key: u32) {
        let Some(old) = self.map.remove(&key) else { return };
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
        self.map.insert(key, kept);
    }

    fn keep(&mut self, mut wanted: impl FnMut(u32, &T::Kept) -> bool) {
        let weight = &mut self.weight;
        self.map.retain(|key, kept| {
            let stays = wanted(*key, kept);
            if !stays {
                *weight = weight.saturating_sub(Self::weight_of(kept));
            }
            stays
        });
    }

    /// Of those that a circuit owns.
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
            (OwnedBy::ThreadAndCircuit, Ended::Circuit(circuit)) if share.may_look_at(self.map.len()) => {
                self.keep(|_, kept| T::owner(kept) != circuit);
            }
            (OwnedBy::Circuit, Ended::Circuit(circuit)) => self.end_of_circuit(circuit),
            _ => {}
        }
    }
}

/// The latest definition of a kind of which one is in force for the whole run. There is always room for it.
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
