//! Threads of an IOC: the kernel's id of an epicsThreadId, and in Base 3.14 the thread's name.
//!
//! Since Base 3.15 the kernel knows the name of each thread, and the structure behind an epicsThreadId (`struct
//! epicsThreadOSD`, osi/os/posix) holds the kernel's id. Base 3.14 does not name its threads, and its structure has
//! only the C library's handle, a pthread_t: the address of a structure that holds the id. All threads are on a list
//! whose nodes begin these structures, so one of them, a CA server's thread, leads to all.
//!
//! No lock is taken, so the list may change while it is read. The walk is therefore bounded, and an id is accepted only
//! if the process has such a thread.

use std::collections::{HashMap, HashSet};

use crate::ioc::module::addresses;
use crate::ioc::offsets::{Generation, Thread};
use crate::ioc::process::IocProcess;
use crate::linux::memory::Memory;
use crate::linux::width::u32_at;

/// Bytes of an epicsThreadOSD of 3.15 and later in which the kernel's id is searched for.
const ID_BYTES: usize = 96;
/// More threads than an IOC has.
const MAX_THREADS: usize = 2000;
/// Names given to epicsThreadCreate are short.
const MAX_NAME: usize = 60;

/// Returns the kernel's id of the thread with an epicsThreadId; it is one of `threads`, the ids of the process's
/// threads.
pub fn kernel_id(memory: &Memory, generation: Generation, id: u64, threads: &HashSet<u32>) -> Option<u32> {
    if generation == Generation::Base314 {
        let at = Thread::of(memory.width()).handle as u64;
        return by_handle(memory, memory.pointer(id.checked_add(at)?)?, threads);
    }
    let bytes: [u8; ID_BYTES] = memory.bytes(id)?;
    (0..ID_BYTES).step_by(4).map(|at| u32_at(&bytes, at)).find(|tid| threads.contains(tid))
}

fn by_handle(memory: &Memory, handle: u64, threads: &HashSet<u32>) -> Option<u32> {
    Thread::of(memory.width()).kernel_ids.iter().find_map(|place| {
        let tid = u32::from_ne_bytes(memory.bytes(handle.checked_add(*place)?)?);
        threads.contains(&tid).then_some(tid)
    })
}

/// Returns the names of a Base 3.14 IOC's threads by their ids. Empty if Base names its threads itself, no CA server
/// runs, or the data is implausible.
pub fn names(ioc: &IocProcess, threads: &HashSet<u32>) -> HashMap<u32, String> {
    if !ioc.abi.is_3_14() {
        return HashMap::new();
    }
    // the client that receives UDP searches exists as long as the server
    let one = addresses(&ioc.modules, "prsrv_cast_client").chain(addresses(&ioc.modules, "clientQ"));
    one.map(|variable| names_from(&ioc.memory, variable, threads))
        .find(|names| !names.is_empty())
        .unwrap_or_default()
}

/// The same for the list of the thread that serves a client; `variable` points to that client.
fn names_from(memory: &Memory, variable: u64, threads: &HashSet<u32>) -> HashMap<u32, String> {
    let offsets = Thread::of(memory.width());
    let first = memory
        .pointer(variable)
        .and_then(|client| memory.pointer(client.checked_add(offsets.of_client as u64)?))
        .filter(|&first| kernel_id(memory, Generation::Base314, first, threads).is_some());
    let mut names = HashMap::new();
    // from it to the end, then to the beginning
    for link in [0, memory.width().bytes()] {
        let mut at = first.unwrap_or_default();
        for _ in 0..MAX_THREADS {
            let node: Option<[u8; Thread::MAX_BYTES]> = memory.head(at, offsets.bytes);
            let Some(node) = node.filter(|_| at != 0) else { break };
            let width = memory.width();
            let tid = by_handle(memory, width.pointer(&node, offsets.handle), threads);
            let name = memory.string(width.pointer(&node, offsets.name), MAX_NAME);
            if let (Some(tid), Some(name)) = (tid, name.filter(|name| !name.is_empty())) {
                names.entry(tid).or_insert(name);
            }
            at = width.pointer(&node, link);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use crate::linux::width::Width::{self, Bits32, Bits64};
    use iocrec_testing::chance::fuzz;

    const TID: u32 = 4711;

    /// Three threads on a list; the second serves the client to which a variable points.
    fn list(width: Width, place: u64) -> (Image, usize) {
        let mut image = Image::new(width);
        let offsets = Thread::of(width);
        let variable = image.room(8);
        let mut before = None;
        for (number, name) in ["_main_", "CAS-UDP", "cbLow"].into_iter().enumerate() {
            let thread = image.room(offsets.bytes);
            let handle = image.room(800);
            image.put(handle + place as usize, &(TID + number as u32).to_ne_bytes());
            image.point(thread + offsets.handle, handle);
            image.point_to_string(thread + offsets.name, name);
            if let Some(before) = before {
                image.point(before, thread);
                image.point(thread + width.bytes(), before);
            }
            before = Some(thread);
            if number == 1 {
                let client = image.room(offsets.of_client + 8);
                image.point(variable, client);
                image.point(client + offsets.of_client, thread);
            }
        }
        (image, variable)
    }

    #[test]
    fn all_threads_are_found_from_one() {
        let threads = HashSet::from([TID, TID + 1, TID + 2, 1, 2]);
        for (width, place) in [(Bits64, 720), (Bits64, 208), (Bits32, 104)] {
            let (image, variable) = list(width, place);
            let names = names_from(&image.memory(), image.address(variable), &threads);
            let name = |number| names.get(&(TID + number)).map(String::as_str);
            assert_eq!([name(0), name(1), name(2)], [Some("_main_"), Some("CAS-UDP"), Some("cbLow")]);
            assert_eq!(names.len(), 3, "{width:?} {place}");
            // another process's threads
            let none = names_from(&image.memory(), image.address(variable), &HashSet::from([1, 2]));
            assert!(none.is_empty());
        }
    }

    #[test]
    fn circles_end() {
        let (mut image, variable) = list(Bits64, 720);
        let threads = HashSet::from([TID, TID + 1, TID + 2]);
        let memory = image.memory();
        let client = memory.pointer(image.address(variable)).unwrap();
        let thread = memory.pointer(client + Thread::of(Bits64).of_client as u64).unwrap();
        let at = (thread - image.address(0)) as usize;
        image.put_pointer(at, thread);
        let names = names_from(&image.memory(), image.address(variable), &threads);
        assert_eq!(names.len(), 2, "those before it");
    }

    #[test]
    fn images_that_were_changed() {
        let threads = HashSet::from([TID, TID + 1, TID + 2]);
        let mut found = 0;
        fuzz(300, |random| {
            let (mut image, variable) =
                [list(Bits64, 720), list(Bits32, 104)].into_iter().nth(random.below(2)).unwrap();
            image.change(random, 10);
            let memory = image.memory();
            let names = names_from(&memory, image.address(variable), &threads);
            assert!(names.len() <= 3 && names.values().all(|name| name.len() <= MAX_NAME));
            found += names.len();
            for generation in [Generation::Base314, Generation::Base315] {
                let id = if random.below(4) == 0 {
                    random.next()
                } else {
                    image.address(random.below(image.used()))
                };
                let tid = kernel_id(&memory, generation, id, &threads);
                assert!(tid.is_none_or(|tid| threads.contains(&tid)));
            }
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || found > 100, "{found}");
    }
}
