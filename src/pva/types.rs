//! The types that all circuits share, and those that one side of a circuit has defined.
//!
//! A server sends few types, but pvxs sends them whole for each put, and pvAccessCPP sends each once per connection and
//! refers to it afterwards. So descriptions are kept once, whole, and get numbers in the log when a put first needs them.
//!
//! Descriptions come from the network, so their room is bounded: where it is full, the one that has not been used for
//! longest (nearly) is forgotten, and its number goes to another. Whatever still refers to it then has no type.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use epics::pva::types::{describe, ANY, ARRAY, LONGEST, REFERS};
use epics::pva::{Cursor, Fault, Read, Registry};
use iocrec_log::event::{Event, Fact, PvaType, PvaTypeId};

/// Descriptions that are kept. A big IOC has a few dozen, and one for each group.
const MOST: usize = 1024;
/// Their bytes, all together.
const MOST_BYTES: usize = 1 << 20;
/// Numbers that one side of a circuit may define.
const MOST_IDS: usize = 1024;
/// The same for all circuits together; beyond it a side still has room for its own.
const MOST_ALL_IDS: usize = 32 << 10;
/// So many. Servers of pvAccessCPP define one for each structure in the types of an IOC, some dozens.
const OWN_IDS: usize = 64;

/// Bytes by which one side of a circuit may have its descriptions grow, in that they refer to others. A server of pvAccessCPP
/// takes some hundred for each structure that it defines.
const MOST_GROWN: usize = 16 << 20;

/// Time that a step of a walk over a value counts for, nanoseconds, beyond one for each byte: some tens of percent of a
/// processor. For so long walks may be ahead of what they count for.
const STEP: u64 = 200;
const AHEAD: u64 = 1_000_000_000;

/// A description that is kept, unless it has been forgotten meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRef {
    slot: u16,
    generation: u32,
}

/// What a number stands for that has been defined as two: nothing.
const UNCERTAIN: TypeRef = TypeRef { slot: u16::MAX, generation: 0 };

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    description: Box<[u8]>,
    hash: u64,
    /// Whether it has been used since the last search for one to forget.
    used: bool,
    /// Whether the log has it.
    logged: bool,
    /// Whether a value of it may have anys.
    has_any: bool,
}

/// The types of all circuits. See the module.
#[derive(Debug, Default)]
pub struct Types {
    slots: Vec<Slot>,
    by_hash: HashMap<u64, u16>,
    hasher: RandomState,
    bytes: usize,
    /// The slot at which the next search for one to forget begins.
    hand: usize,
    /// Numbers defined on all circuits.
    ids: usize,
    /// Types that had to be forgotten, not yet reported.
    pub forgotten: u64,
    /// Until when the walks over values so far count.
    walked: u64,
}

impl Types {
    /// Keeps a description.
    fn keep(&mut self, description: &[u8]) -> TypeRef {
        let hash = self.hasher.hash_one(description);
        if let Some((&number, slot)) = self.by_hash.get(&hash).and_then(|number| {
            let slot = self.slots.get_mut(usize::from(*number))?;
            (*slot.description == *description).then_some((number, slot))
        }) {
            slot.used = true;
            return TypeRef { slot: number, generation: slot.generation };
        }
        while self.bytes + description.len() > MOST_BYTES {
            if self.forget_one(true).is_none() {
                break;
            }
        }
        let free = match self.slots.len() < MOST {
            true => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
            false => self.forget_one(false).unwrap_or(0),
        };
        self.bytes += description.len();
        if let Some(slot) = self.slots.get_mut(free) {
            let generation = slot.generation.wrapping_add(1);
            let has_any = description.iter().any(|code| code & !ARRAY == ANY);
            let description = description.into();
            *slot = Slot { generation, description, hash, used: false, logged: false, has_any };
            self.by_hash.insert(hash, free as u16);
            return TypeRef { slot: free as u16, generation };
        }
        TypeRef { slot: 0, generation: 0 }
    }

    /// Forgets a type that has not been used lately, if there is one by which nobody has put; its slot is free.
    /// `passes_free`: not for a free slot.
    fn forget_one(&mut self, passes_free: bool) -> Option<usize> {
        let count = self.slots.len();
        for step in 0..=4 * count {
            let at = self.hand;
            self.hand = (self.hand + 1) % count.max(1);
            let Some(slot) = self.slots.get_mut(at) else { continue };
            let stays = slot.logged && step < 2 * count;
            if stays || std::mem::take(&mut slot.used) || passes_free && slot.description.is_empty() {
                continue;
            }
            let old = std::mem::take(&mut slot.description);
            slot.generation = slot.generation.wrapping_add(1);
            slot.logged = false;
            if self.by_hash.get(&slot.hash) == Some(&(at as u16)) {
                self.by_hash.remove(&slot.hash);
            }
            self.bytes = self.bytes.saturating_sub(old.len());
            self.forgotten += u64::from(!old.is_empty());
            return Some(at);
        }
        None
    }

    /// The description, unless it has been forgotten.
    pub fn get(&self, at: TypeRef) -> Option<&[u8]> {
        let slot = self.slots.get(usize::from(at.slot))?;
        (slot.generation == at.generation).then_some(&slot.description)
    }

    /// Whether another value may be walked over at this time: few bytes can make a long walk.
    pub fn may_walk(&mut self, time: u64) -> bool {
        // they are never that far ahead, but the clock of a file may go back
        if self.walked > time.saturating_add(2 * AHEAD) {
            self.walked = 0;
        }
        self.walked <= time.saturating_add(AHEAD)
    }

    /// Counts a walk by its steps beyond one for each byte.
    pub fn count_walk(&mut self, time: u64, steps: usize) {
        self.walked = self.walked.max(time).saturating_add(steps as u64 * STEP);
    }

    /// Whether a value of this type may have anys.
    pub fn has_any(&self, at: TypeRef) -> bool {
        let slot = self.slots.get(usize::from(at.slot));
        slot.is_some_and(|slot| slot.has_any && slot.generation == at.generation)
    }

    /// Uses a type; false if it has been forgotten.
    fn uses(&mut self, at: TypeRef) -> bool {
        match self.slots.get_mut(usize::from(at.slot)) {
            Some(slot) if slot.generation == at.generation => {
                slot.used = true;
                true
            }
            _ => false,
        }
    }

    /// The type's number in the log, which gets it now if it does not have it yet; 0 if it has been forgotten.
    pub fn number(&mut self, time: u64, at: Option<TypeRef>, out: &mut Vec<Event>) -> PvaTypeId {
        let Some(at) = at else { return 0 };
        let Some(slot) = self.slots.get_mut(usize::from(at.slot)) else { return 0 };
        if slot.generation != at.generation {
            return 0;
        }
        slot.used = true;
        let id = PvaTypeId::from(at.slot) + 1;
        if !std::mem::replace(&mut slot.logged, true) {
            let description = slot.description.to_vec();
            out.push(Event { time, fact: Fact::PvaType(PvaType { id, description }) });
        }
        id
    }
}

/// The types that one side of a circuit has defined, by its numbers.
#[derive(Debug, Default)]
pub struct Known {
    ids: HashMap<u16, TypeRef>,
    /// Bytes by which descriptions were longer than they were sent.
    grown: usize,
}

impl Known {
    /// Forgets them: bytes were lost, or the circuit is over.
    pub fn forget(&mut self, types: &mut Types) {
        types.ids = types.ids.saturating_sub(self.ids.len());
        self.ids = HashMap::new();
    }

    /// Reads a type from the wire and keeps it; `None` for the null type.
    ///
    /// # Errors
    /// It can't be read, or is not known.
    pub fn read(&mut self, wire: &mut Cursor<'_>, types: &mut Types) -> Read<Option<TypeRef>> {
        // servers of pvAccessCPP, and its clients, send hardly anything else
        if wire.peek() == Ok(REFERS) {
            wire.u8()?;
            let of = self.ids.get(&wire.u16()?).copied().filter(|of| types.uses(*of));
            return of.map(Some).ok_or(Fault::UnknownType);
        }
        let mut description = Vec::new();
        let before = wire.rest().len();
        let some = describe(wire, &mut Defining { known: self, types }, &mut description);
        self.grown += (description.len() + wire.rest().len()).saturating_sub(before);
        if some == Err(Fault::TooMuch) {
            // what others refer to is walked over before it is found to be too deep
            self.grown += LONGEST;
        }
        Ok(some?.then(|| types.keep(&description)))
    }
}

/// A side's types while a description is read.
struct Defining<'a> {
    known: &'a mut Known,
    types: &'a mut Types,
}

impl Registry for Defining<'_> {
    fn define(&mut self, id: u16, description: &[u8]) {
        let kept = self.types.keep(description);
        if let Some(known) = self.known.ids.get_mut(&id) {
            // QSRV1 goes by the newer one, pvxs by the older
            if *known != kept {
                *known = UNCERTAIN;
            }
            return;
        }
        let own = self.known.ids.len();
        if own >= MOST_IDS || self.types.ids >= MOST_ALL_IDS && own >= OWN_IDS {
            self.types.forgotten += 1;
        } else {
            self.types.ids += 1;
            self.known.ids.insert(id, kept);
        }
    }

    fn find(&self, id: u16) -> Option<&[u8]> {
        self.types.get(*self.known.ids.get(&id)?).filter(|_| self.known.grown < MOST_GROWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(types: &mut Types, number: u32, length: usize) -> TypeRef {
        let mut description = number.to_le_bytes().to_vec();
        description.resize(length, 7);
        types.keep(&description)
    }

    #[test]
    fn what_is_used_stays_and_the_room_is_bounded() {
        let mut types = Types::default();
        let mut out = Vec::new();
        let own = keep(&mut types, 0, 100);
        assert_eq!(types.number(5, Some(own), &mut out), 1);
        assert_eq!((types.number(6, Some(own), &mut out), out.len()), (1, 1), "logged once");
        assert_eq!(keep(&mut types, 0, 100), own);
        let first = keep(&mut types, 1, 100);
        for number in 2..10_000 {
            keep(&mut types, number, 4 + number as usize % 5000);
            types.number(7, Some(own), &mut out);
        }
        assert!(types.bytes <= MOST_BYTES && types.slots.len() <= MOST && types.by_hash.len() <= MOST);
        assert_eq!(types.bytes, types.slots.iter().map(|slot| slot.description.len()).sum::<usize>());
        assert!(types.get(own).is_some(), "in use");
        assert_eq!(types.get(first), None);
        assert_eq!(types.number(8, Some(first), &mut out), 0);
        assert!(types.forgotten > 5000);
    }

    /// Who makes types up, and puts nothing by them, drives out none by which others put now and then.
    #[test]
    fn what_is_logged_stays_for_longer() {
        let (mut types, mut out) = (Types::default(), Vec::new());
        let own = keep(&mut types, 0, 100);
        types.number(5, Some(own), &mut out);
        (1..10_000).for_each(|number| _ = keep(&mut types, number, 100));
        assert!(types.get(own).is_some());
        // unless there is nothing else
        for number in 10_000..20_000 {
            let other = keep(&mut types, number, 100);
            types.number(6, Some(other), &mut out);
        }
        assert!(types.get(own).is_none() && types.slots.len() <= MOST && types.bytes <= MOST_BYTES);
    }

    #[test]
    fn numbers_of_one_side_are_bounded() {
        let (mut types, mut known) = (Types::default(), Known::default());
        for id in 0..5000u16 {
            let [low, high] = id.to_le_bytes();
            let wire = [0xfd, low, high, 0x80, 2, low, high, 0];
            known.read(&mut Cursor::new(&wire, false), &mut types).unwrap();
        }
        assert_eq!((known.ids.len(), types.ids), (MOST_IDS, MOST_IDS));
        known.forget(&mut types);
        assert_eq!(types.ids, 0);
        let refers = known.read(&mut Cursor::new(&[0xfe, 1, 0], false), &mut types);
        assert_eq!(refers, Err(Fault::UnknownType));
    }

    /// Circuits that define all the numbers that there may be leave some to another.
    #[test]
    fn nobody_defines_the_numbers_of_others() {
        let mut types = Types::default();
        let define = |types: &mut Types, known: &mut Known, number: u16| {
            let [low, high] = number.to_le_bytes();
            known.read(&mut Cursor::new(&[0xfd, low, high, 0x22], false), types).expect("a type");
        };
        let mut greedy: Vec<Known> = (0..40).map(|_| Known::default()).collect();
        for known in &mut greedy {
            (0..2000).for_each(|number| define(&mut types, known, number));
        }
        let mut known = Known::default();
        (0..20).for_each(|number| define(&mut types, &mut known, number));
        assert!(known.read(&mut Cursor::new(&[0xfe, 19, 0], false), &mut types).is_ok());
        let all: usize = greedy.iter().map(|known| known.ids.len()).sum();
        assert!(all <= MOST_ALL_IDS + 40 * OWN_IDS, "{all}");
    }

    #[test]
    fn few_bytes_do_not_make_work_without_end() {
        let (mut types, mut known) = (Types::default(), Known::default());
        // 60,000 bytes, and structures with that in them
        let mut large = vec![0xfd, 1, 0, 0x80, 0, 120];
        for field in 0..120 {
            large.extend([0xfe, 0xf4, 1, 0, 0]);
            large.extend([b'a' + field % 26; 500]);
            large.push(0x22);
        }
        assert!(known.read(&mut Cursor::new(&large, false), &mut types).is_ok());
        let mut read = |wire: &[u8]| {
            (0..5000).filter(|_| known.read(&mut Cursor::new(wire, false), &mut types).is_ok()).count()
        };
        let grown = read(&[0x80, 0, 1, 1, b'a', 0xfe, 1, 0]);
        assert!((100..1000).contains(&grown), "{grown}");
        // what is not written out costs nothing
        assert_eq!(read(&[0xfe, 1, 0]), 5000);
    }

    /// A structure with so many in each other that a known one has no place in them.
    #[test]
    fn what_is_too_deep_is_not_walked_over_without_end() {
        let (mut types, mut known) = (Types::default(), Known::default());
        let own = b"\xfd\x01\x00\x80\x00\x01\x01a\x22";
        assert!(known.read(&mut Cursor::new(own, false), &mut types).is_ok());
        let deep = [&b"\x80\x00\x01\x01a".repeat(20)[..], b"\xfe\x01\x00"].concat();
        let walked = (0..5000)
            .filter(|_| known.read(&mut Cursor::new(&deep, false), &mut types) == Err(Fault::TooMuch))
            .count();
        assert!((100..1000).contains(&walked), "{walked}");
        // each time it is not known then
        assert_eq!(known.read(&mut Cursor::new(&deep, false), &mut types), Err(Fault::UnknownType));
        assert!(known.read(&mut Cursor::new(b"\xfe\x01\x00", false), &mut types).is_ok());
    }
}
