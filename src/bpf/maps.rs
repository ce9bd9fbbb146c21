//! Maps with the BPF programs' input and notes: processes, record types, records.
//!
//! The layout of keys and values is that of [`contract`]. The maps hold nothing about a process before [`Maps::trace`]
//! or after [`Maps::forget`].

use std::collections::{HashMap, HashSet};
use std::io;

use libbpf_rs::{libbpf_sys, AsRawLibbpf, Object, OpenObject};

use crate::bpf::contract::{
    self, map, ConsoleState, ProcessLayout, ProcessPlace, RecordKey, RecordState, ThreadState, TypeKey,
    TypePlace, ValueLayout,
};
use crate::bpf::given;
use crate::bpf::shared::Shared;
use crate::bpf::table::{MapError, Table};
use crate::bpf::transport::Room;

/// The BPF programs' input for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// Its layout. `tag` and the members that limit recording (`window`, `chains`, `selects`) are set here.
    pub process: ProcessLayout,
    /// Its record types.
    pub types: Vec<(TypeKey, ValueLayout)>,
}

/// The lowest bit of [`ProcessLayout::tag`].
const TAG_AT: u32 = 54;

/// Limit on the chains kept that begin with the same record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSampling {
    /// At most this many ...
    pub chains: u32,
    /// ... in this time, nanoseconds.
    pub window: u64,
}

/// Kinds of hits that may be left out, which decide the size of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeavesOut {
    /// Chains beyond a limit.
    pub chains: bool,
    /// Unwanted records.
    pub records: bool,
}

impl LeavesOut {
    /// Whether anything can be left out.
    pub fn any(self) -> bool {
        self.chains || self.records
    }
}

/// Chains that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Process.
    pub pid: u32,
    /// The record with which they began.
    pub record: u64,
    /// Start of the first of them, CLOCK_MONOTONIC in nanoseconds.
    pub since: u64,
    /// Number of chains.
    pub count: u64,
}

/// Most records of all traced processes that the programs can know if something is left out: 100 bytes of kernel memory
/// each. Hits of any others are kept.
const RECORDS: u32 = 131_072;
/// The same for perf buffers, which are for small and old machines.
const RECORDS_PERF: u32 = 32_768;
/// Most threads of all traced processes that cause hits.
const THREADS: u32 = 4096;

/// Gives the maps their sizes before they are made.
///
/// # Errors
/// They are already made.
pub fn size(object: &mut OpenObject, leaves_out: LeavesOut, perf: bool, room: Room) -> io::Result<()> {
    let records = if perf { RECORDS_PERF } else { RECORDS };
    let given = given::entries();
    for map in object.maps_mut() {
        let name = map.name();
        let entries = if name == map::RECORDS && leaves_out.any() {
            records
        } else if name == map::THREADS && leaves_out.chains {
            THREADS
        } else if name == map::GIVEN && perf {
            given
        } else if (name == map::HITS || name == map::PUTS) && !perf {
            map.max_entries() * room.times()
        } else {
            continue;
        };
        // SAFETY: the map belongs to the object, which is open; the call only notes the number.
        let error = unsafe { libbpf_sys::bpf_map__set_max_entries(map.as_libbpf_object().as_ptr(), entries) };
        if error < 0 {
            return Err(io::Error::from_raw_os_error(-error));
        }
    }
    Ok(())
}

/// A traced process.
struct Process {
    layout: ProcessLayout,
    types: Vec<TypeKey>,
    records: Vec<u64>,
}

/// The maps of the loaded programs.
pub struct Maps {
    processes: Table<u32, ProcessLayout>,
    process_places: Table<u32, ProcessPlace>,
    types: Table<TypeKey, ValueLayout>,
    type_places: Table<u32, TypePlace>,
    records: Table<RecordKey, RecordState>,
    threads: Table<u32, ThreadState>,
    consoles: Table<u32, ConsoleState>,
    traced: HashMap<u32, Process>,
    leaves_out: LeavesOut,
    thinning: Option<ChainSampling>,
    /// Number of times that a process was traced.
    tracings: u64,
    /// Number of records that did not fit.
    unknown: u64,
}

/// PLACE of bpf/hits.h: the place of a number's entry in an array of this many entries.
fn place(number: u32, entries: u32) -> u32 {
    let bits = entries.trailing_zeros();
    number.wrapping_mul(contract::PLACE_FACTOR).checked_shr(32 - bits).unwrap_or(0)
}

/// The key of a record.
fn record_key(pid: u32, record: u64) -> RecordKey {
    RecordKey { record, pid: pid.into() }
}

impl Maps {
    /// The maps of a loaded object.
    ///
    /// # Errors
    /// One is missing or differs from the contract, or there are no more descriptors.
    pub fn open(object: &Object, leaves_out: LeavesOut) -> io::Result<Maps> {
        Ok(Maps {
            processes: Table::open(object, map::PROCESSES)?,
            process_places: Table::open(object, map::PROCESS_PLACES)?,
            types: Table::open(object, map::TYPES)?,
            type_places: Table::open(object, map::TYPE_PLACES)?,
            records: Table::open(object, map::RECORDS)?,
            threads: Table::open(object, map::THREADS)?,
            consoles: Table::open(object, map::CONSOLES)?,
            traced: HashMap::new(),
            leaves_out,
            thinning: None,
            tracings: 0,
            unknown: 0,
        })
    }

    /// Kinds of hits that may be left out.
    pub fn leaves_out(&self) -> LeavesOut {
        self.leaves_out
    }

    /// Starts recording hits of a process.
    ///
    /// # Errors
    /// A map is full.
    pub fn trace(&mut self, pid: u32, layouts: &Layouts) -> Result<(), MapError> {
        self.forget_hits(pid);
        // what the programs have noted of another process's records, or of those of this one before, counts no more
        self.tracings = self.tracings.wrapping_add(1);
        let layout = ProcessLayout { tag: self.tracings << TAG_AT, ..layouts.process };
        self.traced.insert(pid, Process { layout, types: Vec::new(), records: Vec::new() });
        self.extend(pid, layouts)?;
        self.set(pid)
    }

    /// Adds record types that a traced process has loaded since.
    ///
    /// # Errors
    /// A map is full.
    pub fn extend(&mut self, pid: u32, layouts: &Layouts) -> Result<(), MapError> {
        let Some(process) = self.traced.get_mut(&pid) else { return Ok(()) };
        let known: HashSet<TypeKey> = process.types.iter().copied().collect();
        let new: Vec<_> = layouts.types.iter().filter(|(key, _)| !known.contains(key)).collect();
        process.types.extend(new.iter().map(|(key, _)| *key));
        for &(key, layout) in new {
            self.types.set(key, layout)?;
            let at = self.type_place(key);
            if self.type_places.get(at).is_some_and(|there| there == TypePlace::zeroed()) {
                self.type_places.set(at, TypePlace { layout, key })?;
            }
        }
        Ok(())
    }

    /// TYPE_PLACE of bpf/hits.h.
    fn type_place(&self, key: TypeKey) -> u32 {
        place((key.rdes >> 4) as u32 ^ key.pid as u32, self.type_places.entries())
    }

    /// PROCESS_PLACE of bpf/hits.h.
    fn process_place(&self, pid: u32) -> u32 {
        place(pid, self.process_places.entries())
    }

    /// Gives the programs the layout of a process, or updates it.
    fn set(&self, pid: u32) -> Result<(), MapError> {
        let Some(process) = self.traced.get(&pid) else { return Ok(()) };
        let ChainSampling { chains, window } =
            self.thinning.unwrap_or(ChainSampling { chains: 0, window: 0 });
        let layout =
            ProcessLayout { window, chains, selects: self.leaves_out.records.into(), ..process.layout };
        self.processes.set(pid, layout)?;
        let at = self.process_place(pid);
        let there = self.process_places.get(at);
        if there.is_some_and(|there| there.pid == pid || there == ProcessPlace::zeroed()) {
            self.process_places.set(at, ProcessPlace { layout, pid, unused: 0 })?;
        }
        Ok(())
    }

    /// Begins to record what a process prints, at most this number of `writes` a second, and what it dies of. Its layout
    /// need not be known.
    ///
    /// # Errors
    /// The map is full.
    pub fn listen(&mut self, pid: u32, writes: u32) -> Result<(), MapError> {
        self.consoles.set(pid, ConsoleState { limit: writes, ..ConsoleState::zeroed() })
    }

    /// Calls of `write` of a process that were left out so far.
    pub fn writes_left_out(&self, pid: u32) -> Option<u64> {
        self.consoles.get(pid).map(|state| state.left_out)
    }

    /// Stops recording a process. Returns those of its chains that were left out and not yet reported.
    pub fn forget(&mut self, pid: u32) -> Vec<LeftOut> {
        self.consoles.remove(pid);
        self.forget_hits(pid)
    }

    fn forget_hits(&mut self, pid: u32) -> Vec<LeftOut> {
        let Some(process) = self.traced.remove(&pid) else { return Vec::new() };
        let at = self.process_place(pid);
        if self.process_places.get(at).is_some_and(|there| there.pid == pid) {
            // the entry is there, here and below
            let _ = self.process_places.set(at, ProcessPlace::zeroed());
        }
        self.processes.remove(pid);
        for key in process.types {
            let at = self.type_place(key);
            if self.type_places.get(at).is_some_and(|there| there.key == key) {
                let _ = self.type_places.set(at, TypePlace::zeroed());
            }
            self.types.remove(key);
        }
        let left_out = process.records.iter().filter_map(|&record| {
            let key = record_key(pid, record);
            let state = self.records.get(key)?;
            self.records.remove(key);
            Some(LeftOut { pid, record, since: state.since, count: state.left_out })
                .filter(|left| left.count > 0)
        });
        left_out.collect()
    }

    /// Stops recording hits of all processes, as [`Maps::forget`] does for one.
    pub fn forget_all(&mut self) -> Vec<LeftOut> {
        let pids: Vec<u32> = self.traced.keys().copied().collect();
        pids.into_iter().flat_map(|pid| self.forget(pid)).collect()
    }

    /// Keeps only chains within this limit from now on; all if `None`.
    ///
    /// # Errors
    /// A map is full.
    pub fn thin(&mut self, thinning: Option<ChainSampling>) -> Result<(), MapError> {
        self.thinning = thinning;
        self.traced.keys().try_for_each(|&pid| self.set(pid))
    }

    /// Gives the programs a record, in place of one that was deleted there; false if its process is not traced. Hits of
    /// records that they never got are kept.
    pub fn record(&mut self, pid: u32, record: u64, wanted: bool) -> bool {
        let Some(process) = self.traced.get_mut(&pid) else { return false };
        // a wanted record has a state only for the sake of its chains
        let key = record_key(pid, record);
        if !(self.leaves_out.chains || self.leaves_out.records && !wanted) {
            self.records.remove(key);
            return true;
        }
        let state = RecordState { unwanted: u8::from(!wanted), ..RecordState::zeroed() };
        if self.records.set(key, state).is_ok() {
            process.records.push(record);
        } else {
            self.unknown += 1;
        }
        true
    }

    /// Number of records that did not fit since the last call.
    pub fn unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown)
    }

    /// Forgets threads that have ended, since the kernel reuses their numbers.
    pub fn sweep(&self, alive: &HashSet<u32>) {
        if self.leaves_out.chains {
            let threads = self.threads.keys().into_iter();
            threads.filter(|tid| !alive.contains(tid)).for_each(|tid| self.threads.remove(tid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::load::load;
    use crate::not_run::{is_root, not_run, Needs};
    use iocrec_log::event::Tier;

    /// An IOC may delete records while it loads its database, and load others into their memory.
    #[test]
    fn a_record_in_the_place_of_another() {
        if !is_root() {
            return not_run("maps::a_record_in_the_place_of_another", Needs::Root);
        }
        let leaves_out = LeavesOut { chains: false, records: true };
        let size = |object: &mut _| size(object, leaves_out, false, Room::default());
        let object = load(contract::OBJECT, Tier::Ring, size).unwrap();
        let mut maps = Maps::open(&object, leaves_out).unwrap();
        let (pid, record) = (7, 0x1000);
        maps.trace(pid, &Layouts { process: ProcessLayout::zeroed(), types: Vec::new() }).unwrap();
        for wanted in [true, false, true, false, false] {
            assert!(maps.record(pid, record, wanted));
            let state = maps.records.get(record_key(pid, record));
            assert_eq!(state.is_some_and(|state| state.unwanted == 1), !wanted);
        }
        assert_eq!(maps.unknown(), 0);
    }
}
