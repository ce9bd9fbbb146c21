//! What the BPF programs are told, and what they note, in maps: processes, record types, records.
//!
//! Mirrors bpf/hits.h by offsets, in the byte order of the machine. Nothing here is known to the programs before
//! [`Tables::trace`], and nothing of a process is left after [`Tables::forget`].

use std::collections::{HashMap, HashSet};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, OpenObject};

/// What the BPF programs are told of a process; the bytes of bpf/hits.h.
pub struct Told {
    /// `struct process_layout` as far as the process itself decides it.
    pub process: [u8; 32],
    /// `struct type_key` and `struct value_layout` of each record type.
    pub types: Vec<([u8; 16], [u8; 32])>,
}

/// How many chains that begin with the same record are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSampling {
    /// So many.
    pub chains: u32,
    /// In so long, nanoseconds.
    pub window: u64,
}

/// What may be left out; decides how large the maps are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeavesOut {
    /// Chains, beyond a number.
    pub chains: bool,
    /// Records that are not wanted.
    pub records: bool,
}

impl LeavesOut {
    /// May anything be left out?
    pub fn any(self) -> bool {
        self.chains || self.records
    }
}

/// Chains that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Process.
    pub pid: u32,
    /// The record that they began with.
    pub record: u64,
    /// When the first of them began, CLOCK_MONOTONIC in nanoseconds.
    pub since: u64,
    /// How many.
    pub count: u64,
}

/// Records of all traced processes that are told of, where something is left out: 100 bytes of the kernel's
/// memory each. Those beyond are kept.
const RECORDS: u32 = 131_072;
/// The same for perf buffers, which are for small and old machines.
const RECORDS_PERF: u32 = 32_768;
/// Threads of all traced processes that hits come from.
const THREADS: u32 = 4096;

/// Gives the maps their sizes before they are made.
pub fn size(object: &mut OpenObject, leaves_out: LeavesOut, perf: bool) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        if map.name() == "records" && leaves_out.any() {
            map.set_max_entries(if perf { RECORDS_PERF } else { RECORDS })?;
        } else if map.name() == "threads" && leaves_out.chains {
            map.set_max_entries(THREADS)?;
        }
    }
    Ok(())
}

/// A traced process.
struct Process {
    told: [u8; 32],
    types: Vec<[u8; 16]>,
    records: Vec<u64>,
}

/// The maps.
pub struct Tables {
    processes: MapHandle,
    process_places: MapHandle,
    types: MapHandle,
    type_places: MapHandle,
    records: MapHandle,
    threads: MapHandle,
    traced: HashMap<u32, Process>,
    leaves_out: LeavesOut,
    thinning: Option<ChainSampling>,
    /// Records for which there was no room.
    unknown: u64,
}

/// PLACE of bpf/hits.h: where in an array the entry of a number is kept.
fn place(number: u32, map: &MapHandle) -> u32 {
    let bits = map.max_entries().trailing_zeros();
    number.wrapping_mul(0x9e37_79b1).checked_shr(32 - bits).unwrap_or(0)
}

/// What `struct process_place` ends with: a PID and four bytes of nothing.
fn pid_word(pid: u32) -> [u8; 8] {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&pid.to_ne_bytes());
    word
}

/// `struct record_key`.
fn record_key(pid: u32, record: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&record.to_ne_bytes());
    key[8..].copy_from_slice(&u64::from(pid).to_ne_bytes());
    key
}

impl Tables {
    /// The maps of a loaded object.
    pub fn open(object: &Object, leaves_out: LeavesOut) -> libbpf_rs::Result<Tables> {
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            MapHandle::try_from(&map.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?)
        };
        Ok(Tables {
            processes: map("processes")?,
            process_places: map("process_places")?,
            types: map("types")?,
            type_places: map("type_places")?,
            records: map("records")?,
            threads: map("threads")?,
            traced: HashMap::new(),
            leaves_out,
            thinning: None,
            unknown: 0,
        })
    }

    /// What may be left out.
    pub fn leaves_out(&self) -> LeavesOut {
        self.leaves_out
    }

    /// Begins to record hits of a process.
    ///
    /// # Errors
    /// A reason in words: the maps are full.
    pub fn trace(&mut self, pid: u32, told: &Told) -> Result<(), String> {
        self.forget(pid);
        self.traced.insert(pid, Process { told: told.process, types: Vec::new(), records: Vec::new() });
        self.extend(pid, told)?;
        self.tell(pid)
    }

    /// Takes in record types that a traced process has loaded since.
    ///
    /// # Errors
    /// A reason in words: the maps are full.
    pub fn extend(&mut self, pid: u32, told: &Told) -> Result<(), String> {
        let Some(process) = self.traced.get_mut(&pid) else { return Ok(()) };
        let known: HashSet<[u8; 16]> = process.types.iter().copied().collect();
        let new: Vec<_> = told.types.iter().filter(|(key, _)| !known.contains(key)).collect();
        process.types.extend(new.iter().map(|(key, _)| *key));
        for (key, layout) in new {
            update(&self.types, "types", key, layout)?;
            let at = self.type_place(key);
            if self.is_free(&self.type_places, at) {
                update(&self.type_places, "type_places", &at, &[&layout[..], key].concat())?;
            }
        }
        Ok(())
    }

    /// TYPE_PLACE.
    fn type_place(&self, key: &[u8; 16]) -> [u8; 4] {
        let [rdes, pid] = [0, 8].map(|at| {
            let bytes = key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_ne_bytes(bytes.unwrap_or_default())
        });
        place((rdes >> 4) as u32 ^ pid as u32, &self.type_places).to_ne_bytes()
    }

    /// Is this process at that place of `process_places`?
    fn is_at(&self, pid: u32, at: &[u8; 4]) -> bool {
        let entry = self.process_places.lookup(at, MapFlags::ANY).ok().flatten();
        entry.is_some_and(|entry| entry.ends_with(&pid_word(pid)))
    }

    /// Is nobody at that place of an array?
    fn is_free(&self, map: &MapHandle, at: [u8; 4]) -> bool {
        let entry = map.lookup(&at, MapFlags::ANY).ok().flatten();
        entry.is_some_and(|entry| entry.iter().all(|&byte| byte == 0))
    }

    /// Tells what there is to tell about a process, again if it has changed.
    fn tell(&self, pid: u32) -> Result<(), String> {
        let Some(process) = self.traced.get(&pid) else { return Ok(()) };
        let thinning = self.thinning.unwrap_or(ChainSampling { chains: 0, window: 0 });
        let mut layout = process.told.to_vec();
        layout.extend_from_slice(&thinning.window.to_ne_bytes());
        layout.extend_from_slice(&thinning.chains.to_ne_bytes());
        layout.extend_from_slice(&u32::from(self.leaves_out.records).to_ne_bytes());
        update(&self.processes, "processes", &pid.to_ne_bytes(), &layout)?;
        let at = place(pid, &self.process_places).to_ne_bytes();
        if self.is_at(pid, &at) || self.is_free(&self.process_places, at) {
            let mut entry = layout;
            entry.extend_from_slice(&pid_word(pid));
            update(&self.process_places, "process_places", &at, &entry)?;
        }
        Ok(())
    }

    /// Stops recording hits of a process. Gives back which of its chains have been left out and not told of.
    pub fn forget(&mut self, pid: u32) -> Vec<LeftOut> {
        let Some(process) = self.traced.remove(&pid) else { return Vec::new() };
        let at = place(pid, &self.process_places).to_ne_bytes();
        if self.is_at(pid, &at) {
            empty(&self.process_places, &at);
        }
        // a key that is not there is what we want, here and below
        let _ = self.processes.delete(&pid.to_ne_bytes());
        for key in process.types {
            let at = self.type_place(&key);
            let entry = self.type_places.lookup(&at, MapFlags::ANY).ok().flatten();
            if entry.is_some_and(|entry| entry.ends_with(&key)) {
                empty(&self.type_places, &at);
            }
            let _ = self.types.delete(&key);
        }
        let left_out = process.records.iter().filter_map(|&record| {
            let key = record_key(pid, record);
            let state = self.records.lookup(&key, MapFlags::ANY).ok().flatten()?;
            let _ = self.records.delete(&key);
            let word = |at: usize| Some(u64::from_ne_bytes(state.get(at..at + 8)?.try_into().ok()?));
            Some(LeftOut { pid, record, since: word(8)?, count: word(16)? }).filter(|left| left.count > 0)
        });
        left_out.collect()
    }

    /// Stops recording hits of all processes; as [`Tables::forget`].
    pub fn forget_all(&mut self) -> Vec<LeftOut> {
        let pids: Vec<u32> = self.traced.keys().copied().collect();
        pids.into_iter().flat_map(|pid| self.forget(pid)).collect()
    }

    /// Keeps so many chains from now on; all for `None`.
    ///
    /// # Errors
    /// A reason in words.
    pub fn thin(&mut self, thinning: Option<ChainSampling>) -> Result<(), String> {
        self.thinning = thinning;
        self.traced.keys().try_for_each(|&pid| self.tell(pid))
    }

    /// Tells of a record; false if its process is not traced. Those that are never told of are kept.
    pub fn record(&mut self, pid: u32, record: u64, wanted: bool) -> bool {
        let Some(process) = self.traced.get_mut(&pid) else { return false };
        // a record that is wanted has a state only for the sake of its chains
        if !(self.leaves_out.chains || self.leaves_out.records && !wanted) {
            return true;
        }
        // struct record_state: `unwanted` is behind three words and the count of chains
        let mut state = [0; 32];
        state[28] = u8::from(!wanted);
        if self.records.update(&record_key(pid, record), &state, MapFlags::NO_EXIST).is_ok() {
            process.records.push(record);
        } else {
            self.unknown += 1;
        }
        true
    }

    /// Records that there was no room for since last asked.
    pub fn unknown(&mut self) -> u64 {
        std::mem::take(&mut self.unknown)
    }

    /// Forgets threads that have ended: the kernel gives their numbers out again.
    pub fn sweep(&self, alive: &HashSet<u32>) {
        if self.leaves_out.chains {
            let tid = |key: &Vec<u8>| Some(u32::from_ne_bytes(key.as_slice().try_into().ok()?));
            let ended: Vec<_> =
                self.threads.keys().filter(|key| !tid(key).is_some_and(|tid| alive.contains(&tid))).collect();
            ended.iter().for_each(|key| _ = self.threads.delete(key));
        }
    }
}

/// Empties an array's entry.
fn empty(map: &MapHandle, at: &[u8; 4]) {
    // the entry is there, and all its bytes
    let _ = map.update(at, &vec![0; map.value_size() as usize], MapFlags::ANY);
}

fn update(map: &MapHandle, name: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
    map.update(key, value, MapFlags::ANY).map_err(|e| format!("the BPF map of {name} takes no more: {e}"))
}
