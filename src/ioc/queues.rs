//! How full an IOC's callback queues are, and how often they have overflowed (callback.c, dbScan.c).
//!
//! The queues are private variables of Base, so they are found only where the file's symbols are not stripped. Nothing is
//! locked: the numbers of a ring may be of two moments, but each is one that it had.
//!
//! Only Bases with `callbackQueueStatus` (3.16.2, 7.0.2) are read: there the rings count their high-water mark, and the
//! members are where they were compared: in epicscorelibs 7.0.3, 7.0.4, 7.0.6, 7.0.7 (32 bits, too) and 7.0.10.

use crate::ioc::module::addresses;
use crate::ioc::IocProcess;
use crate::linux::memory::{Memory, Ranges};
use crate::linux::width::{u32_at, Width};

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

/// Bytes that were read of some things, each a list of ranges; `None` for those that could not be read.
pub type Read = Vec<Option<Vec<u8>>>;

/// Things that are read of the queues.
const THINGS: usize = 8;

/// What to read of the queues; `rings`: the addresses of their rings as far as they are known from the last time. Rings stay where
/// they are once they are made, so they are read together with what points to them.
pub fn places(ioc: &IocProcess, rings: &[u64; 4]) -> Vec<Ranges> {
    let module = ioc.function(STATUS).map(|(module, _)| module);
    let own = module.map(std::slice::from_ref).unwrap_or_default();
    let place = |name| addresses(own, name).next();
    let bytes = module.and_then(|module| module.elf.symbol("callbackQueue")).map(|symbol| symbol.bytes);
    let once = place("onceQ").zip(place("onceQOverruns"));
    things(ioc.memory.width(), place("callbackQueue").zip(bytes), once, rings)
}

/// The same by the places of the variables: callbackQueue with its size; onceQ and onceQOverruns.
fn things(
    width: Width,
    queues: Option<(u64, u64)>,
    once: Option<(u64, u64)>,
    rings: &[u64; 4],
) -> Vec<Ranges> {
    // semWakeUp, queue, queueOverflow (int), queueOverflows (int), ...
    let (pointer, head) = (width.bytes(), 2 * width.bytes() + 8);
    let set = |number| {
        let (first, all) = queues.filter(|(_, all)| all / 3 >= head as u64)?;
        Some(vec![(first.checked_add(number * (all / 3))?, head)])
    };
    let once = once.map(|(ring, overruns)| vec![(ring, pointer), (overruns, 4)]);
    let heads = [set(0), set(1), set(2), once].map(Option::unwrap_or_default);
    heads.into_iter().chain(rings.iter().map(|ring| at(width, *ring))).collect()
}

/// What to read of a ring at an address; nothing at 0.
fn at(width: Width, ring: u64) -> Ranges {
    if ring == 0 {
        Vec::new()
    } else {
        vec![(ring, width.bytes() + 16)]
    }
}

/// The queues: low, medium, high, scanOnce, by what was read of [`places`]. `None` for those that were not found. Also returns what
/// else was read behind that.
pub fn fills(memory: &Memory, rings: &mut [u64; 4], mut read: Read) -> ([Option<Fill>; 4], Read) {
    let (width, pointer) = (memory.width(), memory.width().bytes());
    let head = 2 * pointer + 8;
    let others = read.split_off(THINGS.min(read.len()));
    let mut read = read.into_iter().map(Option::unwrap_or_default);
    // where in a head the ring and the overflows are, bytes of an entry, and slots that are not used; an entry of onceQ has
    // a record, a function and its argument
    let of_set = (pointer, head - 4, 1, UNUSED[0]);
    let members = [of_set, of_set, of_set, (0, pointer, 3 * pointer as u32, UNUSED[1])];
    let heads = members.map(|members| (read.next().unwrap_or_default(), members));
    let now = [0, 1, 2, 3]
        .map(|queue: usize| heads.get(queue).map_or(0, |(bytes, (ring, ..))| width.pointer(bytes, *ring)));
    let mut contents: Vec<Vec<u8>> = read.collect();
    if now != *rings {
        let read = memory.groups(&now.map(|ring| at(width, ring)));
        contents = read.into_iter().map(Option::unwrap_or_default).collect();
        *rings = now;
    }
    let mut found = [None; 4];
    for ((found, ring), (bytes, (_, overflows, each, unused))) in found.iter_mut().zip(&contents).zip(&heads)
    {
        let words = [0, 4, 8, 12].map(|at| u32_at(ring, pointer + at));
        // a ring that was not read has no size
        *found = fill(words, *each, *unused, u32_at(bytes, *overflows));
    }
    (found, others)
}

/// The fill of a ring, by its members: where to put, where to get, size, high-water mark.
fn fill([put, get, size, high]: [u32; 4], each: u32, unused: u32, overflows: u32) -> Option<Fill> {
    let is_ring = size > unused && size < MOST && put < size && get < size && high < size;
    let used = if put >= get { put - get } else { put.checked_add(size)?.checked_sub(get)? };
    let room = size.checked_sub(unused)?;
    let is_ring = is_ring && used <= room;
    is_ring.then_some(Fill { size: room / each, used: used / each, high: high / each, overflows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use iocrec_testing::chance::fuzz;

    /// The places of callbackQueue, with its size, and of onceQ and onceQOverruns.
    type Places = ((u64, u64), (u64, u64));

    /// Queues in which 10, 11, 12 of 2000 and 3 of 1000 entries wait, as 7.0.10 has them.
    fn queues(width: Width) -> (Image, Places) {
        let mut image = Image::new(width);
        let (pointer, each) = (width.bytes(), width.pick(32, 48));
        let ring = |image: &mut Image, words: [u32; 4]| {
            let ring = image.room(pointer + 24);
            for (number, word) in words.into_iter().enumerate() {
                image.put(ring + pointer + 4 * number, &word.to_ne_bytes());
            }
            ring
        };
        let sets = image.room(3 * each);
        for number in 0..3 {
            let ring = ring(&mut image, [10 + number as u32, 0, 2001, 100]);
            image.point(sets + number * each + pointer, ring);
            image.put(sets + number * each + 2 * pointer + 4, &(7 + number as u32).to_ne_bytes());
        }
        let entry = 3 * pointer as u32;
        let once = ring(&mut image, [2 * entry, 1000 * entry + 15, 1000 * entry + 16, 20 * entry]);
        let (variable, overruns) = (image.room(8), image.room(8));
        image.point(variable, once);
        image.put(overruns, &5u32.to_ne_bytes());
        let places = [sets, variable, overruns].map(|at| image.address(at));
        (image, ((places[0], 3 * each as u64), (places[1], places[2])))
    }

    /// Reads them, and something else with them.
    fn read(
        memory: &Memory,
        queues: Option<(u64, u64)>,
        once: Option<(u64, u64)>,
        rings: &mut [u64; 4],
        others: Vec<Ranges>,
    ) -> ([Option<Fill>; 4], Read) {
        let mut all = things(memory.width(), queues, once, rings);
        assert_eq!(all.len(), THINGS);
        all.extend(others);
        fills(memory, rings, memory.groups(&all))
    }

    #[test]
    fn queues_of_each_width() {
        for width in [Width::Bits64, Width::Bits32] {
            let (image, (set, once)) = queues(width);
            let memory = image.memory();
            let of = |set, once, rings: &mut [u64; 4]| read(&memory, set, once, rings, Vec::new()).0;
            let mut rings = [0; 4];
            let found = of(Some(set), Some(once), &mut rings);
            assert!(rings.iter().all(|ring| *ring > 0));
            assert_eq!(of(Some(set), Some(once), &mut rings), found, "they are known");
            let fill = |size, used, high, overflows| Some(Fill { size, used, high, overflows });
            let expected = [10, 11, 12].map(|used| fill(2000, used, 100, used - 3));
            assert_eq!(found[..3], expected, "{width:?}");
            assert_eq!(found[3], fill(1000, 2, 20, 5), "{width:?}");
            // beside something else, and something that is not there
            let others = vec![vec![(once.1, 4)], vec![(8, 4)], Vec::new()];
            let there = [Some(5u32.to_ne_bytes().to_vec()), None, Some(Vec::new())];
            for mut rings in [rings, [0; 4]] {
                let (beside, told) = read(&memory, Some(set), Some(once), &mut rings, others.clone());
                assert_eq!((beside, told), (found, there.to_vec()), "{width:?}");
            }
            assert_eq!(of(None, None, &mut rings), [None; 4]);
            // of a file that was made to mislead
            for (at, bytes) in [(u64::MAX - 8, u64::MAX), (set.0, 2), (8, set.1)] {
                let mut rings = [at; 4];
                assert_eq!(of(Some((at, bytes)), Some((at, 8)), &mut rings), [None; 4]);
            }
        }
    }

    /// Whatever the memory holds, no queue is fuller than it can be.
    #[test]
    fn images_that_were_changed() {
        let mut believed = 0;
        fuzz(500, |random| {
            let (mut image, (set, once)) =
                queues(if random.below(2) == 0 { Width::Bits64 } else { Width::Bits32 });
            image.change(random, 6);
            let set = if random.below(8) == 0 { (random.next(), random.next()) } else { set };
            let mut rings = [0; 4].map(|ring| if random.below(8) == 0 { random.next() } else { ring });
            let found = read(&image.memory(), Some(set), Some(once), &mut rings, Vec::new()).0;
            for fill in found.into_iter().flatten() {
                assert!(fill.used <= fill.size && fill.size < MOST, "{fill:?}");
                believed += 1;
            }
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || believed > 100);
    }

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
            [[11, 0, 11, 0], [0, 11, 11, 0], [0, 0, 0, 0], [0, 0, 11, 11], [5, 6, u32::MAX, 0], [u32::MAX; 4]]
        {
            assert_eq!(of(wild), None, "{wild:?}");
        }
        assert_eq!(fill([1000, 10, 1001, 0], 24, 16, 0), None, "more than there is room for");
    }
}
