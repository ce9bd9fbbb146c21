//! The health of IOCs: what each uses of the machine, looked at once a second (the *beat*).
//!
//! It needs no BPF, so it works on every tier. It takes nothing that could make the IOC wait, and nothing that could
//! make the recorder wait: the files that it reads (stat and schedstat of /proc, the list of descriptors, the table of UDP
//! sockets) take neither the lock of a process's memory nor its pages, and not the lock that a running exec holds, as
//! `io` and `syscall` do. stat and schedstat are opened once and read again and again: that is a seventh of the cost, and
//! an open file can never show another process or thread that got the same number.
//!
//! What can't be read is unknown. The numbers of open files and threads are bounded.

pub mod connections;
pub mod descriptors;
pub mod known;
pub mod piece;
pub mod process;
pub mod text;
pub mod threads;

use std::collections::BTreeMap;

use crate::health::descriptors::{Descriptors, Tables};
use crate::health::known::Known;
use crate::health::piece::{Piece, Pieces, Share};
use crate::health::process::{Process, Used};
use crate::health::text::Counts;
use crate::health::threads::{Thread, Threads};

/// A beat this long after the one before it is recorded for itself, nanoseconds: the recorder was kept from running.
const LATE: u64 = 2_500_000_000;

/// The machine was suspended if that time has grown by more than this, nanoseconds: it is read with some error.
const SUSPENDED: u64 = 50_000_000;

/// When a beat is, and what it may take.
#[derive(Debug)]
pub struct Beat<'a> {
    /// Monotonic time.
    pub now: u64,
    /// Time that the machine has been suspended since it started, nanoseconds.
    pub suspended: u64,
    /// Descriptors that may still be opened.
    pub spare: usize,
    /// Tables of UDP sockets; `None` if they are not due.
    pub tables: Option<&'a mut Tables>,
}

/// What the beat knows of one process.
#[derive(Debug, Default)]
pub struct Health {
    /// Its threads.
    pub threads: Threads,
    /// Their names.
    pub known: Known,
    process: Option<Process>,
    descriptors: Descriptors,
    pieces: Pieces,
    /// The last beat: its time, how long the machine had been suspended, and what was used.
    last: Option<(u64, u64, Used)>,
}

impl Health {
    /// Looks at a process, which began at `start`, nanoseconds after boot. Returns what is worth recording now.
    pub fn beat(&mut self, pid: u32, start: u64, beat: Beat<'_>) -> Vec<Piece> {
        let Beat { now, suspended, spare, tables } = beat;
        let used = self.used(pid, start);
        let Some(used) = used else {
            // it has ended, or begins to
            self.last = None;
            return self.end();
        };
        let count = usize::try_from(used.threads).ok();
        let listed = self.threads.beat(pid, now, count, spare.saturating_sub(1));
        let looks = tables.is_some();
        let drops = tables.and_then(|tables| self.descriptors.look(pid, tables));
        if (listed || looks) && !self.is_alive() {
            // what was opened just now may be of another process with its number
            *self = Health { known: std::mem::take(&mut self.known), ..Health::default() };
            return Vec::new();
        }
        let Some((then, was_suspended, before)) = self.last.replace((now, suspended, used)) else {
            return Vec::new();
        };
        let period = now.saturating_sub(then);
        if period == 0 {
            return Vec::new();
        }
        let since = then.saturating_add(was_suspended);
        let piece = Piece {
            end: now,
            period,
            cpu: used.cpu.zip(before.cpu).and_then(|(now, before)| now.checked_sub(before)),
            waiting: self.waiting(used.threads, since),
            minor_faults: used.minor_faults.saturating_sub(before.minor_faults),
            major_faults: used.major_faults.saturating_sub(before.major_faults),
            resident: used.resident,
            threads: used.threads,
            descriptors: self.descriptors.count(),
            drops,
            shares: self.shares(since),
        };
        let apart = period > LATE || suspended.abs_diff(was_suspended) > SUSPENDED;
        self.pieces.add(piece, apart).collect()
    }

    /// What was held back, at the end.
    pub fn end(&mut self) -> Vec<Piece> {
        self.pieces.end().into_iter().collect()
    }

    /// The number of descriptors that are open.
    pub fn open(&self) -> usize {
        self.threads.descriptors() + usize::from(self.process.is_some())
    }

    /// Whether the last beat saw the process alive.
    pub fn was_seen(&self) -> bool {
        self.last.is_some()
    }

    fn used(&mut self, pid: u32, start: u64) -> Option<Used> {
        let again = self.process.as_ref().and_then(Process::used);
        if again.is_some() {
            return again;
        }
        self.process = Process::open(pid, start);
        self.process.as_ref().and_then(Process::used)
    }

    /// Whether it is still the process that was looked at.
    pub fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.used().is_some())
    }

    /// Time that all threads waited; `None` if that of one is unknown.
    fn waiting(&self, threads: u64, since: u64) -> Option<u64> {
        if self.threads.unwatched().is_some() || self.threads.descriptors() as u64 != threads {
            return None;
        }
        self.threads.iter().map(|thread| Some(difference(thread, since)?.waiting)).sum()
    }

    /// What the threads of each name used.
    fn shares(&mut self, since: u64) -> BTreeMap<u32, Share> {
        let mut shares: BTreeMap<u32, Share> = BTreeMap::new();
        for thread in self.threads.iter() {
            let Some(share) = difference(thread, since).filter(|share| *share != Share::default()) else {
                continue;
            };
            if let Some(place) = self.known.place(&thread.name) {
                shares.entry(place).or_default().add(share);
            }
        }
        shares
    }
}

/// What a thread used since the last beat, which was at `since`, nanoseconds after boot; `None` if unknown.
fn difference(thread: &Thread, since: u64) -> Option<Share> {
    /// Starts are rounded down to this, nanoseconds.
    const TICK: u64 = 10_000_000;
    // a thread that began since then has used all that is counted
    let began = thread.start.saturating_add(TICK) > since && thread.start > 0;
    let (now, before) = (thread.now?, thread.before.or(began.then(Counts::default))?);
    Some(Share {
        run: now.run.checked_sub(before.run)?,
        waiting: now.waiting.checked_sub(before.waiting)?,
        times: now.times.checked_sub(before.times)?,
    })
}

/// What can't be told on this machine: CPU time of threads, or connections.
pub fn lacks() -> Option<&'static str> {
    match std::fs::read("/proc/thread-self/schedstat").or_else(|_| std::fs::read("/proc/self/schedstat")) {
        Err(_) => Some("the kernel has no schedstat (CONFIG_SCHED_INFO): CPU time of threads is unknown"),
        Ok(text) if text::counts(&text).is_none() => {
            Some("the kernel does not count in schedstat: CPU time of threads is unknown")
        }
        Ok(_) => connections::lacks(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::process::start;
    use std::process::{Command, Stdio};

    #[test]
    fn one_that_has_ended_is_not_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (pid, began) = (child.id(), start(child.id()).unwrap());
        let mut health = Health::default();
        assert!(!health.was_seen());
        let beat = |now| Beat { now, suspended: 0, spare: 10, tables: None };
        health.beat(pid, began, beat(1));
        assert!(health.was_seen());
        child.kill().unwrap();
        child.wait().unwrap();
        health.beat(pid, began, beat(2));
        assert!(!health.was_seen());
    }
}
