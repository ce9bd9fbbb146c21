//! The traced IOCs, with the threads, records, fields, call sites and scan lists of each.
//!
//! Hits carry addresses. The first hit of each address reads its name from the IOC and defines it in the log before its
//! first use; after that a hit costs a look-up in a hash map of its IOC.
//!
//! A [`TracedIoc`] holds everything that belongs to one process, and [`Registry::remove`] drops it. State that lasts
//! longer is in [`Run`].

pub mod after_puts;
pub mod call_sites;
pub mod client_channels;
pub mod console;
mod disabled;
pub mod dying;
pub mod endings;
pub mod fields;
pub mod hash;
pub mod links;
pub mod owner;
mod queues;
pub mod records;
pub mod rereads;
pub mod scan_lists;
pub mod snapshots;
mod spinning;
pub mod states;
pub mod stuck;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod traced_ioc;

use std::collections::HashSet;

use crate::linux::clock::Clock;
use crate::linux::procfs::Procfs;
use crate::recorder::env::Run;
use crate::recorder::registry::endings::Endings;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::traced_ioc::TracedIoc;

/// The traced processes, IOCs and other CA servers, by pid; and those that may be servers of PVAccess, of which nothing is
/// told until packets have shown that.
#[derive(Default)]
pub struct Registry(AddressMap<u32, Box<TracedIoc>>, Endings, Vec<TracedIoc>);

impl Registry {
    /// A traced process.
    pub fn get(&self, pid: u32) -> Option<&TracedIoc> {
        self.0.get(&pid).map(|ioc| &**ioc)
    }

    /// A traced process, mutable.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut TracedIoc> {
        self.0.get_mut(&pid).map(|ioc| &mut **ioc)
    }

    /// Whether a process is traced.
    pub fn has(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    /// Whether no process is traced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All traced processes.
    pub fn iter(&self) -> impl Iterator<Item = &TracedIoc> {
        self.0.values().map(|ioc| &**ioc)
    }

    /// All traced processes, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut TracedIoc> {
        self.0.values_mut().map(|ioc| &mut **ioc)
    }

    /// The processes that may be servers of PVAccess. They are not traced yet.
    pub fn guesses(&mut self) -> &mut Vec<TracedIoc> {
        &mut self.2
    }

    /// Whether a process is one of them.
    pub fn is_guess(&self, pid: u32) -> bool {
        self.2.iter().any(|guess| guess.pid == pid)
    }

    /// All traced processes, and they.
    pub fn all(&mut self) -> impl Iterator<Item = &mut TracedIoc> {
        self.0.values_mut().map(|ioc| &mut **ioc).chain(&mut self.2)
    }

    /// The ends of all traced processes.
    pub fn endings(&self) -> &Endings {
        &self.1
    }

    /// The same, to change what they tell.
    pub fn endings_mut(&mut self) -> &mut Endings {
        &mut self.1
    }

    /// The wait status of a traced process that has ended, as far as anything tells it.
    pub fn status(&mut self, pid: u32) -> Option<i32> {
        let ioc = self.0.get(&pid)?;
        self.1.status(pid, &ioc.ending)
    }

    /// The process that comes after this one if all are visited in turn.
    pub fn after(&self, pid: u32) -> Option<u32> {
        let later = self.0.keys().copied().filter(|&other| other > pid).min();
        later.or_else(|| self.0.keys().copied().min())
    }

    /// Adds a process, in place of any with the same pid.
    pub fn add(&mut self, ioc: TracedIoc, run: &mut Run) {
        let pid = ioc.pid;
        self.remove(pid, run);
        self.2.retain(|guess| guess.pid != pid);
        self.1.watch(pid, &ioc.ending);
        self.0.insert(pid, Box::new(ioc));
    }

    /// Removes a process with everything that belongs to it.
    pub fn remove(&mut self, pid: u32, run: &mut Run) -> Option<Box<TracedIoc>> {
        let gone = self.0.remove(&pid)?;
        self.1.let_go(pid);
        run.limits.call_sites = run.limits.call_sites.saturating_sub(gone.call_sites.count());
        gone.links.give_back(&mut run.limits);
        if let Some(new) = &mut run.new_records {
            new.retain(|record| record.pid != pid);
        }
        Some(gone)
    }

    /// Forgets the threads that have ended. Returns the live threads of all IOCs.
    pub fn sweep_threads(&mut self, procfs: &dyn Procfs, clock: &dyn Clock) -> HashSet<u32> {
        let mut all = HashSet::new();
        for ioc in self.iter_mut().filter(|ioc| ioc.process.is_some()) {
            let pid = ioc.pid;
            let mut alive: HashSet<u32> = procfs.threads(pid).into_iter().collect();
            // while threads end, the kernel leaves others out of the list
            ioc.threads.retain(clock, |tid| {
                alive.contains(&tid) || (!procfs.thread_name(pid, tid).is_empty() && alive.insert(tid))
            });
            all.extend(alive);
        }
        all
    }
}
