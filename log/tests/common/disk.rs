//! A disk that does what it is told: runs full, fails, loses its power; and that watches the cap.

use iocrec_log::storage::Storage;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;

#[derive(Clone, Debug, Default)]
struct File {
    data: Vec<u8>,
    synced: usize,
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

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, File>,
    open: Option<String>,
    operations: u64,
    faults: Option<Faults>,
    failed: u64,
    /// Bytes that fit on it.
    capacity: Option<u64>,
    /// The sum of all lengths may never be more.
    cap: Option<u64>,
    wall: i64,
    syncs: u64,
}

impl State {
    fn used(&self) -> u64 {
        self.files.values().map(|file| file.data.len() as u64).sum()
    }

    /// Counts an operation; an error if it is one that shall fail.
    fn operate(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        match self.faults {
            Some(Faults { first, count, kind }) if (first..first.saturating_add(count)).contains(&number) => {
                self.failed += 1;
                Err(kind.into())
            }
            _ => Ok(()),
        }
    }

    fn check(&self) {
        if let Some(cap) = self.cap {
            assert!(self.used() <= cap, "{} bytes on disk, the cap is {cap}", self.used());
        }
    }
}

/// The disk, and a handle on it: clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Rc<RefCell<State>>);

impl Disk {
    /// Panics from now on when all files together have more than `cap` bytes.
    pub fn watch_cap(&self, cap: u64) {
        self.0.borrow_mut().cap = Some(cap);
        self.0.borrow().check();
    }

    pub fn set_faults(&self, faults: Option<Faults>) {
        self.0.borrow_mut().faults = faults;
    }

    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.0.borrow_mut().capacity = capacity;
    }

    pub fn set_wall(&self, wall: i64) {
        self.0.borrow_mut().wall = wall;
    }

    pub fn put(&self, name: &str, data: Vec<u8>) {
        let synced = data.len();
        self.0.borrow_mut().files.insert(name.into(), File { data, synced });
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

    pub fn used(&self) -> u64 {
        self.0.borrow().used()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.borrow().files.contains_key(name)
    }

    /// Names and contents of the segments, in the order of their names.
    pub fn segments(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.0.borrow();
        let segments = state.files.iter().filter(|(name, _)| name.ends_with(".iocrec"));
        segments.map(|(name, file)| (name.clone(), file.data.clone())).collect()
    }

    /// Takes the power away: of what was not synced, every file keeps as much as `keep` says, of
    /// so many bytes.
    pub fn cut_power(&self, mut keep: impl FnMut(usize) -> usize) {
        for file in self.0.borrow_mut().files.values_mut() {
            let unsynced = file.data.len() - file.synced;
            file.data.truncate(file.synced + keep(unsynced).min(unsynced));
        }
    }
}

impl Storage for Disk {
    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        Ok(state.files.iter().map(|(name, file)| (name.clone(), file.data.len() as u64)).collect())
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        if state.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.files.insert(name.into(), File::default());
        state.open = Some(name.into());
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let mut outcome = state.operate();
        let mut length = if outcome.is_err() { bytes.len() / 2 } else { bytes.len() };
        if let Some(capacity) = state.capacity {
            let free = capacity.saturating_sub(state.used()) as usize;
            if free < length {
                length = free;
                outcome = Err(ErrorKind::StorageFull.into());
            }
        }
        let open = state.open.clone().ok_or(ErrorKind::NotFound)?;
        let file = state.files.get_mut(&open).ok_or(ErrorKind::NotFound)?;
        file.data.extend_from_slice(&bytes[..length]);
        state.check();
        outcome
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let open = state.open.clone().ok_or(ErrorKind::NotFound)?;
        let file = state.files.get_mut(&open).ok_or(ErrorKind::NotFound)?;
        file.synced = file.data.len();
        state.syncs += 1;
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        if state.open.as_deref() == Some(name) {
            state.open = None;
        }
        state.files.remove(name).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn wall_clock(&self) -> i64 {
        self.0.borrow().wall
    }
}
