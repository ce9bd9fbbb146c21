//! Whether records are locked: an IOC holds the lock of a record's lock set from before it processes the record, or puts
//! to it, until it is done.
//!
//! Only the lock's word is read; nothing is locked. The way to it is checked at each step: the lock record must lead
//! back to the record, and the mutex must be a recursive one of the GNU C library, as EPICS Base makes them, whose members
//! agree. What is not as expected (another C library, an IOC before iocInit) is unknown.

use crate::ioc::layout::Layout;
use crate::ioc::offsets::Lock as Offsets;
use crate::linux::memory::Memory;
use crate::linux::width::u32_at;

/// Bits of `__kind` that hold a mutex's type; the others are flags such as priority inheritance (nptl, pthreadP.h).
const TYPE: u32 = 3;
/// PTHREAD_MUTEX_RECURSIVE_NP.
const RECURSIVE: u32 = 1;
/// All flags of `__kind`; among them priority inheritance, with which EPICS Base makes its mutexes if it can.
const FLAGS: u32 = 0x3FC;
const INHERITS: u32 = 0x20;
/// The owner's thread id in a lock word (linux/futex.h, FUTEX_TID_MASK).
const OWNER: u32 = 0x3FFF_FFFF;

/// Bytes from a pthread_mutex_t of musl to its lock word; the GNU C library's begins with it.
pub const MUSL_LOCK: u64 = 4;
/// Flags of musl's `_m_type`: robust, priority inheritance, shared by processes.
const MUSL_FLAGS: u32 = 4 | 8 | 128;

/// The state of a record's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nobody holds it: the record is not being processed.
    Free,
    /// Somebody holds it.
    Held,
    /// It was not found.
    Unknown,
}

/// The locks of the records at these addresses.
pub fn locks(memory: &Memory, layout: &Layout, records: &[u64]) -> Vec<Lock> {
    let width = memory.width();
    let offsets = Offsets::of(width);
    // LSET is in dbCommon, so at the same place in all types
    let lset = layout.types.values().next().and_then(|rtype| rtype.shown.lock);
    let Some(lset) = lset.filter(|place| usize::from(place.size) == width.bytes()) else {
        return vec![Lock::Unknown; records.len()];
    };
    let pointers = |addresses: &[Option<u64>]| -> Vec<Option<u64>> {
        let read = heads(memory, addresses, width.bytes()).into_iter();
        read.map(|bytes| Some(width.pointer(&bytes?, 0)).filter(|to| *to != 0)).collect()
    };
    let lock_records: Vec<Option<u64>> =
        records.iter().map(|record| record.checked_add(lset.offset.into())).collect();
    let sets = heads(memory, &pointers(&lock_records), offsets.record_bytes);
    let mutexes = records.iter().zip(sets).map(|(record, bytes)| {
        let bytes = bytes.filter(|bytes| width.pointer(bytes, offsets.record) == *record)?;
        width.pointer(&bytes, offsets.set).checked_add(offsets.mutex)
    });
    let mutexes: Vec<Option<u64>> = mutexes.collect();
    let read = heads(memory, &pointers(&mutexes), offsets.mutex_bytes);
    let mut locks: Vec<Lock> = read
        .iter()
        .map(|bytes| bytes.as_ref().map_or(Lock::Unknown, |bytes| state(offsets, bytes, offsets.inner)))
        .collect();
    let outer = read.iter().zip(&locks).map(|(bytes, lock)| {
        let bytes = bytes.as_ref().filter(|_| *lock == Lock::Unknown)?;
        Some(width.pointer(bytes, offsets.outer)).filter(|outer| *outer != 0)
    });
    let outer: Vec<Option<u64>> = outer.collect();
    for behind in offsets.in_outer {
        let addresses: Vec<Option<u64>> =
            outer.iter().map(|outer| outer.as_ref()?.checked_add(behind)).collect();
        for (lock, bytes) in locks.iter_mut().zip(heads(memory, &addresses, offsets.outer_bytes)) {
            if let (Lock::Unknown, Some(bytes)) = (*lock, bytes) {
                *lock = state(offsets, &bytes, 0);
            }
        }
    }
    locks
}

/// The places where the mutex of a record's lock set may be: in its parameters, or in one of two places behind them.
/// Empty if the record's lock does not lead back to it.
pub fn mutexes(memory: &Memory, layout: &Layout, record: u64) -> Vec<u64> {
    let find = || {
        let width = memory.width();
        let offsets = Offsets::of(width);
        let lset = layout.types.values().next()?.shown.lock?;
        let lock = memory.pointer(record.checked_add(lset.offset.into())?)?;
        let bytes: [u8; Offsets::MAX_BYTES] = memory.head(lock, offsets.record_bytes)?;
        if width.pointer(&bytes, offsets.record) != record {
            return None;
        }
        let set = width.pointer(&bytes, offsets.set);
        let parameters = memory.pointer(set.checked_add(offsets.mutex)?).filter(|at| *at != 0)?;
        let mut places = vec![parameters.checked_add(offsets.inner as u64)?];
        let outer = memory.pointer(parameters.checked_add(offsets.outer as u64)?).unwrap_or_default();
        places.extend(offsets.in_outer.iter().filter_map(|behind| outer.checked_add(*behind)));
        Some(places)
    };
    find().unwrap_or_default()
}

/// The number of the thread that holds the pthread_mutex_t at an address, in the process's own pid namespace. `None` if
/// nobody holds it, or it is none of the GNU C library or of musl.
pub fn owner(memory: &Memory, mutex: u64) -> Option<u32> {
    let offsets = Offsets::of(memory.width());
    let bytes: [u8; Offsets::MAX_BYTES] = memory.head(mutex, offsets.outer_bytes)?;
    if state(offsets, &bytes, 0) == Lock::Held {
        return Some(u32_at(&bytes, 8));
    }
    // musl: `_m_type` and `_m_lock`; a recursive mutex has its owner in the latter
    let (kind, lock) = (u32_at(&bytes, 0), u32_at(&bytes, MUSL_LOCK as usize));
    let is_recursive = kind & TYPE == RECURSIVE && kind & !(TYPE | MUSL_FLAGS) == 0;
    Some(lock & OWNER).filter(|owner| is_recursive && *owner != 0)
}

/// The number of the thread that holds the mutex for whose lock word a thread waits. `priority`: the kernel knows the
/// holder (FUTEX_LOCK_PI).
pub fn owner_by_word(memory: &Memory, word: u64, priority: bool) -> Option<u32> {
    let bytes: [u8; 12] = memory.bytes(word)?;
    let [lock, owner] = [0, 8].map(|at| u32_at(&bytes, at));
    // the GNU C library's plain locks are 2 while others wait; musl's have their owner, and a flag for those who wait
    let found = match lock {
        _ if priority => lock & OWNER,
        2 => owner,
        _ if lock >> 31 == 1 => lock & OWNER,
        _ => 0,
    };
    (found != 0).then_some(found)
}

/// The first bytes at these addresses.
fn heads(memory: &Memory, addresses: &[Option<u64>], bytes: usize) -> Vec<Option<[u8; Offsets::MAX_BYTES]>> {
    let known = addresses.iter().flatten().copied();
    let mut read = memory.each_head(known, bytes).into_iter();
    addresses.iter().map(|address| address.and_then(|_| read.next().flatten())).collect()
}

/// The state of the pthread_mutex_t at an offset in these bytes; unknown if they are none, or it is changing.
fn state(offsets: &Offsets, bytes: &[u8], at: usize) -> Lock {
    let word = |member: usize| u32_at(bytes, at.saturating_add(member));
    let (kind, users) = (word(offsets.kind), word(offsets.users));
    if kind & TYPE != RECURSIVE || kind & !(TYPE | FLAGS) != 0 {
        return Lock::Unknown;
    }
    let [lock, count, owner] = [0, 4, 8].map(word);
    match (lock, count, owner, users) {
        (0, 0, 0, 0) => Lock::Free,
        (0, ..) | (_, 0, ..) | (_, _, 0, _) | (.., 0) => Lock::Unknown,
        // with priority inheritance the word has the owner, too
        _ if kind & INHERITS != 0 && lock & OWNER != owner => Lock::Unknown,
        _ => Lock::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::{FieldLine, Image};
    use crate::linux::width::Width;
    use iocrec_testing::chance::fuzz;

    /// The place of a record's mutex: in its parameters, behind them, or behind attributes as in 3.14.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Place {
        Inner,
        Outer(usize),
    }

    #[test]
    fn holders_by_the_lock_word() {
        let mut image = Image::new(Width::Bits64);
        let at = image.room(48);
        let mut with = |words: [u32; 3], priority| {
            for (number, word) in words.iter().enumerate() {
                image.put(at + 4 * number, &word.to_ne_bytes());
            }
            (
                owner_by_word(&image.memory(), image.address(at), priority),
                owner(&image.memory(), image.address(at)),
            )
        };
        assert_eq!(with([2, 1, 777], false).0, Some(777), "the GNU C library's");
        assert_eq!(with([1, 1, 777], false).0, None, "nobody waits");
        assert_eq!(with([0x8000_0000 | 777, 0, 0], false).0, Some(777), "musl's");
        assert_eq!(with([0x8000_0000 | 777, 1, 777], true).0, Some(777), "priority inheritance");
        assert_eq!(with([0, 0, 0], true).0, None);
        // musl: type, lock
        assert_eq!(with([1, 0x8000_0000 | 777, 1], false).1, Some(777));
        assert_eq!(with([1, 0, 0], false).1, None, "free");
        assert_eq!(with([0, 777, 0], false).1, None, "not recursive");
        assert_eq!(owner_by_word(&image.memory(), 8, true), None);
    }

    /// A record, its lock record, the set and the parameters of its mutex, and what is behind them, all in an image.
    struct World {
        image: Image,
        base: usize,
        record: usize,
        /// A record whose lock record leads to the first one.
        other: usize,
        parameters: usize,
        outer: usize,
    }

    /// The offsets of a width: LSET, record of the lock record, lock of its set, mutex, outer, kind, users.
    fn places(width: Width) -> [usize; 7] {
        width.pick([440, 12, 20, 16, 8, 12, 16], [576, 24, 40, 32, 16, 16, 12])
    }

    fn world(width: Width) -> World {
        let pointer = width.bytes();
        let [lset, back, mutex, ..] = places(width);
        let mut image = Image::new(width);
        let fields: [FieldLine; 5] = [
            ("STAT", 12, 410, 2),
            ("PACT", 2, 412, 1),
            ("RDES", 17, 420, pointer as i16),
            ("LSET", 17, lset as u16, pointer as i16),
            ("VAL", 10, 700, 8),
        ];
        let (base, first) = image.base();
        let rtype = image.record_type(first, "calc", &fields);
        let record = image.record(rtype, 420, "A");
        let other = image.record(rtype, 420, "B");
        let (lock_record, set, parameters, outer) =
            (image.room(64), image.room(64), image.room(96), image.room(96));
        image.point(record + lset, lock_record);
        image.point(other + lset, lock_record);
        image.point(lock_record + 2 * pointer, set);
        image.point(lock_record + back, record);
        image.point(set + mutex, parameters);
        World { image, base, record, other, parameters, outer }
    }

    #[test]
    fn locks_of_every_generation() {
        for width in [Width::Bits64, Width::Bits32] {
            let [_, _, _, inner, outer, kind, users] = places(width);
            for place in [Place::Inner, Place::Outer(0), Place::Outer(width.bytes())] {
                let World { mut image, base, record, other, parameters, outer: osd } = world(width);
                let at = match place {
                    Place::Inner => parameters + inner,
                    Place::Outer(behind) => {
                        image.point(parameters + outer, osd);
                        // what follows the parameters on the heap looks like a mutex, but for its owner
                        image.put(parameters + inner, &86u32.to_ne_bytes());
                        image.put(parameters + inner + kind, &1u32.to_ne_bytes());
                        osd + behind
                    }
                };
                let memory = image.memory();
                let layout = Layout::read(&memory, image.address(base)).unwrap();
                let addresses = [image.address(record), image.address(other), 8];
                let look = || locks(&memory, &layout, &addresses);
                assert_eq!(look(), [Lock::Unknown; 3], "{width:?} {place:?}: no mutex yet");
                image.put(at + kind, &0x21u32.to_ne_bytes());
                assert_eq!(look(), [Lock::Free, Lock::Unknown, Lock::Unknown], "{width:?} {place:?}");
                for (member, value) in [(0, 0x8000_0000 | 777u32), (4, 1), (8, 777), (users, 1)] {
                    assert_ne!(look()[0], Lock::Held);
                    image.put(at + member, &value.to_ne_bytes());
                }
                assert_eq!(look(), [Lock::Held, Lock::Unknown, Lock::Unknown], "{width:?} {place:?}");
                let places = mutexes(&memory, &layout, addresses[0]);
                assert!(places.contains(&image.address(at)), "{width:?} {place:?}");
                let owners: Vec<u32> = places.iter().filter_map(|place| owner(&memory, *place)).collect();
                assert!(owners.contains(&777) && owners.iter().all(|owner| *owner == 777), "{owners:?}");
                assert_eq!(owner_by_word(&memory, image.address(at), true), Some(777));
                assert!(mutexes(&memory, &layout, addresses[1]).is_empty(), "of another record");
                assert!(
                    mutexes(&memory, &layout, 8).is_empty() && mutexes(&memory, &layout, u64::MAX).is_empty()
                );
                image.put(at, &778u32.to_ne_bytes());
                assert_eq!(look()[0], Lock::Unknown, "word and owner differ");
            }
        }
    }
    /// Whatever the memory holds: a lock that is held has an owner, and nothing panics.
    #[test]
    fn images_that_were_changed() {
        let mut held = 0;
        fuzz(300, |random| {
            let width = if random.below(2) == 0 { Width::Bits64 } else { Width::Bits32 };
            let [_, _, _, inner, outer, kind, users] = places(width);
            let World { mut image, base, record, other, parameters, outer: osd } = world(width);
            let at = if random.below(2) == 0 { parameters + inner } else { osd };
            image.point(parameters + outer, osd);
            image.put(at + kind, &0x21u32.to_ne_bytes());
            for (member, value) in [(0, 0x8000_0000 | 777u32), (4, 1), (8, 777), (users, 1)] {
                image.put(at + member, &value.to_ne_bytes());
            }
            let memory = image.memory();
            let layout = Layout::read(&memory, image.address(base)).unwrap();
            image.change(random, 8);
            let used = image.used();
            let records = [image.address(record), image.address(other), random.next(), image.address(used)];
            for (record, lock) in records.iter().zip(locks(&memory, &layout, &records)) {
                let places = mutexes(&memory, &layout, *record);
                assert!(places.len() <= 3);
                let owner = places.into_iter().find_map(|place| owner(&memory, place));
                assert!(lock != Lock::Held || owner.is_some_and(|owner| owner != 0), "{owner:?}");
                held += usize::from(lock == Lock::Held);
            }
            let word = if random.below(2) == 0 { image.address(random.below(used)) } else { random.next() };
            assert_ne!(owner_by_word(&memory, word, random.below(2) == 0), Some(0));
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || held > 50, "{held}");
    }
}
