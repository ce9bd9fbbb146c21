//! A disk that obeys: it runs full, fails, loses its power in the middle of anything; and that watches
//! the cap.
//!
//! It keeps apart what programs see and what would survive a power cut: bytes of files sector by sector, and names.

use iocrec_log::storage::{Storage, Stored};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;

/// Bytes that are written as a whole or not at all.
const SECTOR: usize = 512;
/// Bytes in which space is given to files.
const UNIT: u64 = 4096;

#[derive(Clone, Debug, Default)]
struct File {
    data: Vec<u8>,
    synced: usize,
    /// Bytes set aside.
    reserved: u64,
    modified: i64,
}

impl File {
    fn taken(&self) -> u64 {
        (self.data.len() as u64).max(self.reserved).next_multiple_of(UNIT)
    }

    /// Of what was not synced, `keep` says for each sector if it is there.
    fn cut(&mut self, keep: &mut impl FnMut() -> bool) {
        let mut end = self.synced;
        let mut place = self.synced;
        while place < self.data.len() {
            let next = ((place / SECTOR + 1) * SECTOR).min(self.data.len());
            if keep() {
                end = next;
            } else {
                self.data[place..next].fill(0);
            }
            place = next;
        }
        self.data.truncate(end);
        self.synced = end;
    }
}

/// A change of names that was not synced.
#[derive(Clone, Debug)]
enum Change {
    Made(String, u64),
    Renamed(String, String, u64),
    Removed(String),
}

/// When operations fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The first operation that fails, counted from 0.
    pub first: u64,
    /// How many fail.
    pub count: u64,
    pub kind: ErrorKind,
}

#[derive(Clone, Debug, Default)]
struct State {
    files: BTreeMap<u64, File>,
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    unsynced_names: Vec<Change>,
    made: u64,
    open: Option<u64>,
    operations: u64,
    faults: Option<Faults>,
    failed: u64,
    /// Bytes that fit on it.
    capacity: Option<u64>,
    /// Can space be set aside?
    reserves: bool,
    /// What `du` would show may never be more.
    cap: Option<u64>,
    most_used: u64,
    wall: i64,
    syncs: u64,
    /// The operation at which the disk is to be copied, and the copy.
    freeze_at: Option<u64>,
    frozen: Option<Box<State>>,
}

impl State {
    fn length(&self) -> u64 {
        self.names.values().map(|file| self.files[file].data.len() as u64).sum()
    }

    /// Space that files take: also those without a name as long as they are open.
    fn taken(&self) -> u64 {
        self.names.values().map(|file| self.files[file].taken()).sum()
    }

    /// Counts an operation; an error if it is one that shall fail.
    fn operate(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.freeze_at == Some(number) {
            self.frozen = Some(Box::new(State { frozen: None, ..self.clone() }));
        }
        match self.faults {
            Some(Faults { first, count, kind }) if (first..first.saturating_add(count)).contains(&number) => {
                self.failed += 1;
                Err(kind.into())
            }
            _ => Ok(()),
        }
    }

    fn check(&mut self) {
        let used = self.taken() + UNIT; // the directory
        self.most_used = self.most_used.max(used);
        if let Some(cap) = self.cap {
            assert!(used <= cap, "{used} bytes are taken, the cap is {cap}");
        }
    }

    /// Bytes that can be given to files.
    fn free(&self) -> u64 {
        let free = self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.taken()));
        free / UNIT * UNIT
    }

    fn cut_power(&mut self, mut keep: impl FnMut() -> bool) {
        let mut names = self.synced_names.clone();
        for change in std::mem::take(&mut self.unsynced_names) {
            if !keep() {
                continue;
            }
            match change {
                Change::Made(name, file) => _ = names.insert(name, file),
                Change::Renamed(from, to, file) => {
                    names.remove(&from);
                    names.insert(to, file);
                }
                Change::Removed(name) => _ = names.remove(&name),
            }
        }
        self.names = names.clone();
        self.synced_names = names;
        self.files.values_mut().for_each(|file| file.cut(&mut keep));
        self.open = None;
    }
}

/// The disk, and a handle on it: clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Rc<RefCell<State>>);

impl Disk {
    /// Panics from now on when the directory and its files take more than `cap` bytes.
    pub fn watch_cap(&self, cap: u64) {
        self.0.borrow_mut().cap = Some(cap);
        self.0.borrow_mut().check();
    }

    pub fn set_faults(&self, faults: Option<Faults>) {
        self.0.borrow_mut().faults = faults;
    }

    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.0.borrow_mut().capacity = capacity;
    }

    /// From now on space can be set aside.
    pub fn reserving(self) -> Self {
        self.0.borrow_mut().reserves = true;
        self
    }

    pub fn set_wall(&self, wall: i64) {
        self.0.borrow_mut().wall = wall;
    }

    /// A file that is there, last written to now.
    pub fn put(&self, name: &str, data: Vec<u8>) {
        let mut state = self.0.borrow_mut();
        let (number, modified, synced) = (state.made, state.wall, data.len());
        state.made += 1;
        state.files.insert(number, File { data, synced, modified, reserved: 0 });
        state.names.insert(name.into(), number);
        state.synced_names.insert(name.into(), number);
    }

    pub fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    pub fn syncs(&self) -> u64 {
        self.0.borrow().syncs
    }

    pub fn failed(&self) -> u64 {
        self.0.borrow().failed
    }

    /// Length of all files.
    pub fn used(&self) -> u64 {
        self.0.borrow().length()
    }

    /// What `du` shows.
    pub fn taken(&self) -> u64 {
        self.0.borrow().taken() + UNIT
    }

    /// The most that `du` would ever have shown.
    pub fn most_taken(&self) -> u64 {
        self.0.borrow().most_used
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.borrow().names.contains_key(name)
    }

    /// Names and contents of the segments, in the order of their names.
    pub fn segments(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.0.borrow();
        let segments = state.names.iter().filter(|(name, _)| name.ends_with(".iocrec"));
        segments.map(|(name, file)| (name.clone(), state.files[file].data.clone())).collect()
    }

    /// Removes a file behind the writer's back.
    pub fn lose(&self, name: &str) {
        let mut state = self.0.borrow_mut();
        state.names.remove(name);
        state.synced_names.remove(name);
    }

    /// Takes the power away: of what was not synced (sectors, names), `keep` says what is there all the same.
    pub fn cut_power(&self, keep: impl FnMut() -> bool) {
        self.0.borrow_mut().cut_power(keep);
    }

    /// The disk is copied when this operation begins.
    pub fn freeze_at(&self, operation: u64) {
        self.0.borrow_mut().freeze_at = Some(operation);
    }

    /// The copy, if it has come to that: what there is if the recorder is killed at this moment.
    pub fn frozen(&self) -> Option<Disk> {
        let frozen = self.0.borrow().frozen.clone()?;
        Some(Disk(Rc::new(RefCell::new(State { faults: None, freeze_at: None, open: None, ..*frozen }))))
    }

    /// A disk of its own with the same on it.
    pub fn copy(&self) -> Disk {
        Disk(Rc::new(RefCell::new(self.0.borrow().clone())))
    }
}

impl Storage for Disk {
    fn list(&mut self) -> io::Result<Vec<Stored>> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let stored = |(name, number): (&String, &u64)| {
            let file = &state.files[number];
            let (length, taken) = (file.data.len() as u64, file.taken());
            Stored { name: name.clone(), length, taken, modified: file.modified }
        };
        Ok(state.names.iter().map(stored).collect())
    }

    fn unit(&self) -> u64 {
        UNIT
    }

    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        if state.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let reserved = if state.reserves { reserve } else { 0 };
        if reserved.next_multiple_of(UNIT) > state.free() {
            return Err(ErrorKind::StorageFull.into());
        }
        let (number, modified) = (state.made, state.wall);
        state.made += 1;
        state.files.insert(number, File { reserved, modified, ..File::default() });
        state.names.insert(name.into(), number);
        state.unsynced_names.push(Change::Made(name.into(), number));
        state.open = Some(number);
        state.check();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let mut outcome = state.operate();
        let mut length = if outcome.is_err() { bytes.len() / 2 } else { bytes.len() };
        let number = state.open.ok_or(ErrorKind::NotFound)?;
        let (free, wall) = (state.free(), state.wall);
        let file = state.files.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        let fits = file.taken().saturating_add(free).saturating_sub(file.data.len() as u64);
        if fits < length as u64 {
            length = fits as usize;
            outcome = Err(ErrorKind::StorageFull.into());
        }
        file.data.extend_from_slice(&bytes[..length]);
        file.modified = wall;
        state.check();
        outcome
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let number = state.open.ok_or(ErrorKind::NotFound)?;
        let file = state.files.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        file.synced = file.data.len();
        state.syncs += 1;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let Some(number) = state.open.take() else { return Ok(()) };
        state.operate()?;
        if let Some(file) = state.files.get_mut(&number) {
            file.reserved = 0;
        }
        Ok(())
    }

    fn trim(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let number = *state.names.get(name).ok_or(ErrorKind::NotFound)?;
        if let Some(file) = state.files.get_mut(&number) {
            file.reserved = 0;
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        if state.names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let number = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
        state.names.insert(to.into(), number);
        state.unsynced_names.push(Change::Renamed(from.into(), to.into(), number));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let number = state.names.remove(name).ok_or(ErrorKind::NotFound)?;
        if state.open == Some(number) {
            state.open = None;
        }
        state.unsynced_names.push(Change::Removed(name.into()));
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        state.synced_names = state.names.clone();
        state.unsynced_names.clear();
        state.syncs += 1;
        Ok(())
    }

    fn wall_clock(&self) -> i64 {
        self.0.borrow().wall
    }
}
