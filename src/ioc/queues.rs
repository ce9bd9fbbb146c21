//! How full an IOC's callback queues are, and how often they have overflowed (callback.c, dbScan.c).
//!
//! The queues are private variables of Base, so they are found only where the file's symbols are not stripped. Nothing is
//! locked: the numbers of a ring may be of two moments, but each is one that it had.
//!
//! Only Bases with `callbackQueueStatus` (3.16.2, 7.0.2) are read: there the rings count their high-water mark, and the
//! members are where they were compared: in epicscorelibs 7.0.3, 7.0.4, 7.0.6, 7.0.7 (32 bits, too) and 7.0.10.

use crate::ioc::module::addresses;
use crate::ioc::IocProcess;
use crate::linux::width::u32_at;

/// The function by which such a Base is known.
pub const STATUS: &str = "callbackQueueStatus";
/// The private variables: `static cbQueueSet callbackQueue[3]`, `static epicsRingBytesId onceQ`, `static int
/// onceQOverruns`.
pub const VARIABLES: [&str; 3] = ["callbackQueue", "onceQ", "onceQOverruns"];
/// Slots of a ring that are never used: one entry of epicsRingPointer, SLOP bytes of epicsRingBytes.
const UNUSED: [u32; 2] = [1, 16];
/// Most slots of a ring: `callbackSetQueueSize` takes any number, and a wild one is no ring.
const MOST: u32 = 1 << 28;

/// What was read of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Entries that it has room for.
    pub size: u32,
    /// Entries in it.
    pub used: u32,
    /// The most that were in it since the mark was set back.
    pub high: u32,
    /// Entries for which there was no room, since the IOC began.
    pub overflows: u32,
}

/// Reads the queues: low, medium, high, scanOnce. `None` for those that were not found.
pub fn read(ioc: &IocProcess) -> [Option<Fill>; 4] {
    let (memory, width) = (&ioc.memory, ioc.memory.width());
    let pointer = width.bytes();
    let mut found = [None; 4];
    let Some((module, _)) = ioc.function(STATUS) else { return found };
    let own = std::slice::from_ref(module);
    let place = |name| addresses(own, name).next();
    let set = module.elf.symbol("callbackQueue").zip(place("callbackQueue"));
    // semWakeUp, queue, queueOverflow (int), queueOverflows (int), ...
    let rings = set.map_or([None; 3], |(symbol, first)| {
        [0, 1, 2].map(|number| {
            let each = symbol.bytes / 3;
            let is_set = each >= (2 * pointer + 8) as u64;
            let bytes: [u8; 24] = memory.head(first + number * each, 2 * pointer + 8)?;
            is_set.then(|| (width.pointer(&bytes, pointer), u32_at(&bytes, 2 * pointer + 4)))
        })
    });
    let once = || {
        let overruns = memory.bytes::<4>(place("onceQOverruns")?)?;
        Some((memory.pointer(place("onceQ")?)?, u32::from_ne_bytes(overruns)))
    };
    let all = rings.into_iter().map(|ring| (ring, 1, UNUSED[0]));
    // an entry of onceQ has a record, a function and its argument
    let all = all.chain([(once(), 3 * pointer as u32, UNUSED[1])]);
    for (found, (ring, each, unused)) in found.iter_mut().zip(all) {
        *found = ring.and_then(|(ring, overflows)| {
            let bytes: [u8; 24] = memory.head(ring, pointer + 16)?;
            fill([0, 4, 8, 12].map(|at| u32_at(&bytes, pointer + at)), each, unused, overflows)
        });
    }
    found
}

/// The fill of a ring, by its members: where to put, where to get, size, high-water mark.
fn fill([put, get, size, high]: [u32; 4], each: u32, unused: u32, overflows: u32) -> Option<Fill> {
    let is_ring = size > unused && size < MOST && put < size && get < size && high < size;
    let used = if put >= get { put - get } else { (put + size).checked_sub(get)? };
    let room = size.checked_sub(unused)?;
    is_ring.then_some(Fill { size: room / each, used: used / each, high: high / each, overflows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings() {
        let of = |words| fill(words, 1, 1, 7);
        assert_eq!(of([5, 2, 11, 4]), Some(Fill { size: 10, used: 3, high: 4, overflows: 7 }));
        assert_eq!(of([2, 5, 11, 9]).map(|fill| fill.used), Some(8), "around the end");
        assert_eq!(
            fill([48, 0, 24 * 1000 + 16, 240], 24, 16, 0).map(|fill| (fill.size, fill.used, fill.high)),
            Some((1000, 2, 10))
        );
        for wild in
            [[11, 0, 11, 0], [0, 11, 11, 0], [0, 0, 0, 0], [0, 0, 11, 11], [0, 0, u32::MAX, 0], [u32::MAX; 4]]
        {
            assert_eq!(of(wild), None, "{wild:?}");
        }
    }
}
