//! The records of a context, packed, because records are the most numerous definitions.
//!
//! A record costs 24 bytes and the bytes of its name. Records are in a list in the order of their numbers, with all
//! names in one string and all types in one list. The recorder assigns numbers in rising order. Records whose numbers
//! come late are kept in a tree beside the list, so no order of numbers makes it slow.

use super::budget::Share;
use super::store::{Admission, Owners, Store};
use crate::event::life::{allocated, Ended};
use crate::event::{IocId, Record, RecordId};
use std::collections::BTreeMap;
use std::mem::size_of;

/// A record, as returned by [`Context::record`](super::Context::record).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its number.
    pub id: RecordId,
    /// Its IOC.
    pub ioc: IocId,
    /// Address of its dbCommon in the IOC.
    pub address: u64,
    /// Name.
    pub name: &'a str,
    /// Record type; empty where not known.
    pub rtype: &'a str,
}

impl From<RecordRef<'_>> for Record {
    fn from(record: RecordRef<'_>) -> Self {
        Record {
            id: record.id,
            ioc: record.ioc,
            address: record.address,
            name: record.name.to_owned(),
            rtype: record.rtype.to_owned(),
        }
    }
}

/// A record as kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    address: u64,
    id: RecordId,
    ioc: IocId,
    /// Start of its name in `names`.
    name: u32,
    /// Length of its name, bytes.
    length: u16,
    /// Index in `types`.
    rtype: u16,
}

const _: () = assert!(size_of::<Kept>() == 24);

/// Size of a record in the tree, with its share of the nodes, bytes.
const LATE: usize = 2 * size_of::<Kept>();
/// Names of ended records are freed when they take more than this many bytes and more than half of all bytes.
const MAX_UNUSED: usize = 4096;

/// All records.
#[derive(Clone, Debug, Default)]
pub struct Records {
    in_order: Vec<Kept>,
    late: BTreeMap<RecordId, Kept>,
    names: String,
    /// Number of bytes of `names` that no longer belong to a record.
    unused: usize,
    /// Names of record types, each once; `type_index` gives their indices. An IOC has some tens of them; they are never
    /// freed.
    types: Vec<Box<str>>,
    type_index: BTreeMap<Box<str>, u16>,
    types_weight: usize,
}

impl Store for Records {
    type Of = Record;

    fn begin(&mut self, _: u64, record: &Record, admission: &mut Admission) {
        match self.cost(record) {
            Some(cost) if admission.admits(cost) => self.put(record),
            Some(_) => {}
            None => admission.refuse(),
        }
    }

    fn weight(&self) -> usize {
        self.in_order.len() * size_of::<Kept>()
            + self.late.len() * LATE
            + self.names.len()
            + self.types_weight
    }

    fn again(&self, now: u64) -> impl Iterator<Item = (u64, Record)> {
        self.iter().map(move |record| (now, record.into()))
    }

    fn end_owned(&mut self, ended: Ended, _: &dyn Owners, _: &Share) {
        if let Ended::Ioc(ioc) = ended {
            self.drop_ioc(ioc);
        }
    }
}

impl Records {
    /// Maximum cost of a further record, bytes; `None` if no IOC has such a record: its name is longer than 64 KiB, or
    /// it has one type too many.
    fn cost(&self, record: &Record) -> Option<usize> {
        u16::try_from(record.name.len()).ok()?;
        u32::try_from(self.names.len() + record.name.len()).ok()?;
        let rtype = match self.type_index.contains_key(record.rtype.as_str()) {
            true => 0,
            false => {
                u16::try_from(self.types.len()).ok()?;
                type_weight(&record.rtype)
            }
        };
        Some(LATE + record.name.len() + rtype)
    }

    /// Keeps a record for which [`Records::cost`] returned a cost.
    pub(super) fn put(&mut self, record: &Record) {
        let (Ok(length), Ok(name)) = (u16::try_from(record.name.len()), u32::try_from(self.names.len()))
        else {
            return;
        };
        let rtype = self.intern(&record.rtype);
        make_room(record.name.len(), self.names.len(), self.names.capacity(), |more| {
            self.names.reserve_exact(more);
        });
        self.names.push_str(&record.name);
        let kept = Kept { address: record.address, id: record.id, ioc: record.ioc, name, length, rtype };
        let place = match self.in_order.last() {
            Some(last) if last.id >= kept.id => self.in_order.binary_search_by_key(&kept.id, |kept| kept.id),
            _ => Err(self.in_order.len()),
        };
        let old = match place {
            Ok(at) => self.in_order.get_mut(at).map(|old| std::mem::replace(old, kept)),
            Err(end) if end == self.in_order.len() => {
                make_room(1, self.in_order.len(), self.in_order.capacity(), |more| {
                    self.in_order.reserve_exact(more);
                });
                self.in_order.push(kept);
                // it may have come late when the list was longer
                self.late.remove(&kept.id)
            }
            Err(_) => self.late.insert(kept.id, kept),
        };
        self.unused += old.map_or(0, |old| usize::from(old.length));
        if self.unused > MAX_UNUSED && self.unused > self.names.len() / 2 {
            self.pack();
        }
    }

    /// A record.
    pub fn get(&self, id: RecordId) -> Option<RecordRef<'_>> {
        self.kept(id).and_then(|kept| self.record(kept))
    }

    /// Whether there is such a record.
    pub fn contains(&self, id: RecordId) -> bool {
        self.kept(id).is_some()
    }

    /// Number of records, with those that have ended and not been forgotten yet.
    #[allow(clippy::len_without_is_empty)] // nobody asks for that
    pub fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// All records, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> + '_ {
        let (mut in_order, mut late) = (self.in_order.iter().peekable(), self.late.values().peekable());
        let next = move || match (in_order.peek(), late.peek()) {
            (Some(one), Some(other)) if one.id > other.id => late.next(),
            (Some(_), _) => in_order.next(),
            (None, _) => late.next(),
        };
        std::iter::from_fn(next).filter_map(|kept| self.record(kept))
    }

    /// Drops the records of an IOC that has ended.
    pub(super) fn drop_ioc(&mut self, ioc: IocId) {
        self.in_order.retain(|kept| kept.ioc != ioc);
        self.late.retain(|_, kept| kept.ioc != ioc);
        self.in_order.shrink_to_fit();
        self.pack();
    }

    fn kept(&self, id: RecordId) -> Option<&Kept> {
        // Most numbers follow each other without a gap.
        let first = self.in_order.first().map_or(0, |first| first.id);
        let place = id.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(kept) = place.and_then(|place| self.in_order.get(place)).filter(|kept| kept.id == id) {
            return Some(kept);
        }
        match self.in_order.binary_search_by_key(&id, |kept| kept.id) {
            Ok(at) => self.in_order.get(at),
            Err(_) => self.late.get(&id),
        }
    }

    fn record(&self, kept: &Kept) -> Option<RecordRef<'_>> {
        let &Kept { address, id, ioc, name, length, rtype } = kept;
        let name = self.names.get(name as usize..name as usize + usize::from(length))?;
        Some(RecordRef { id, ioc, address, name, rtype: self.types.get(usize::from(rtype))? })
    }

    /// Frees names that no longer belong to a record.
    fn pack(&mut self) {
        let length = |kept: &Kept| usize::from(kept.length);
        let needed = self.in_order.iter().chain(self.late.values()).map(length).sum();
        let mut names = String::with_capacity(needed);
        for kept in self.in_order.iter_mut().chain(self.late.values_mut()) {
            let from = kept.name as usize;
            // no longer than before, so it fits
            kept.name = names.len() as u32;
            names.push_str(self.names.get(from..from + usize::from(kept.length)).unwrap_or_default());
        }
        self.names = names;
        self.unused = 0;
    }

    /// The index of a record type's name.
    fn intern(&mut self, rtype: &str) -> u16 {
        if let Some(&index) = self.type_index.get(rtype) {
            return index;
        }
        let index = self.types.len() as u16;
        self.types_weight += type_weight(rtype);
        self.types.push(rtype.into());
        self.type_index.insert(rtype.into(), index);
        index
    }
}

/// Cost of the name of a type, bytes: it is in a list and in a tree.
fn type_weight(rtype: &str) -> usize {
    2 * allocated(rtype.len()) + size_of::<Box<str>>() + 2 * size_of::<(Box<str>, u16)>()
}

/// Makes room for `more`, and at least for an eighth of the present length: doubling would leave much of the recorder's
/// memory limit unused.
fn make_room(more: usize, length: usize, capacity: usize, reserve: impl FnOnce(usize)) {
    if capacity - length < more {
        reserve(more.max(length / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(id: RecordId, ioc: IocId, name: String) -> Record {
        Record { id, ioc, address: id.into(), name, rtype: format!("type{}", id % 3) }
    }

    proptest! {
        /// As a tree would keep them, whatever the order of numbers.
        #[test]
        fn as_a_tree(steps in prop::collection::vec((0u32..40, 0u32..3, 0usize..300, any::<bool>()), 0..300)) {
            let (mut records, mut tree) = (Records::default(), BTreeMap::new());
            for (id, ioc, length, ends) in steps {
                if ends && id == 0 {
                    records.drop_ioc(ioc);
                    tree.retain(|_, record: &mut Record| record.ioc != ioc);
                } else {
                    let new = record(id, ioc, "x".repeat(length));
                    let before = records.weight();
                    let cost = records.cost(&new).unwrap();
                    records.put(&new);
                    prop_assert!(records.weight() <= before + cost);
                    tree.insert(id, new);
                }
                let all: Vec<Record> = records.iter().map(Record::from).collect();
                prop_assert_eq!(all, tree.values().cloned().collect::<Vec<_>>());
                prop_assert_eq!(records.get(id).map(Record::from), tree.get(&id).cloned());
                prop_assert_eq!(records.contains(id), tree.contains_key(&id));
                let names: usize = tree.values().map(|record| record.name.len()).sum();
                prop_assert!(records.names.len() <= 2 * names + MAX_UNUSED + 300);
            }
        }
    }

    #[test]
    fn records_that_no_ioc_has_are_not_kept() {
        let records = Records::default();
        assert!(records.cost(&record(1, 1, "x".repeat(65_535))).is_some());
        assert_eq!(records.cost(&record(1, 1, "x".repeat(65_536))), None);
    }
}
