//! A storage whose wall clock its owner sets, for tests and for logs of events that never happened.

use super::{Storage, Stored};
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// Another storage, with another wall clock.
pub struct Clocked<S> {
    /// The storage.
    pub storage: S,
    /// Its wall clock, nanoseconds since 1970 UTC.
    pub wall: Rc<Cell<i64>>,
}

impl<S: Storage> Storage for Clocked<S> {
    fn list(&mut self) -> io::Result<Vec<Stored>> {
        self.storage.list()
    }

    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
        self.storage.create(name, reserve)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.storage.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.storage.sync()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.storage.finish()
    }

    fn trim(&mut self, name: &str) -> io::Result<()> {
        self.storage.trim(name)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.storage.remove(name)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.storage.sync_names()
    }

    fn wall_clock(&self) -> i64 {
        self.wall.get()
    }
}
