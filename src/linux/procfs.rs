//! The recorder core's queries of /proc, behind a trait so that tests can answer instead.
//!
//! Nothing here may block: these files need no lock of the process's memory and none of its pages.

use std::io;

use nix::errno::Errno;

use crate::linux::{ending, process};

/// /proc, as far as the recorder's core needs it.
pub trait Procfs {
    /// The existing processes.
    ///
    /// # Errors
    /// /proc cannot be read.
    fn pids(&self) -> io::Result<Vec<u32>>;

    /// Start time of a process, nanoseconds after boot. With the pid it names the process for ever.
    ///
    /// # Errors
    /// ESRCH if the process has ended; anything else says nothing about it.
    fn known_start(&self, pid: u32) -> Result<u64, Errno>;

    /// The same; `None` if the process has ended, or its start is unknown.
    fn start(&self, pid: u32) -> Option<u64> {
        self.known_start(pid).ok()
    }

    /// Whether the process of this number and start is known to have ended.
    fn has_ended(&self, pid: u32, start: u64) -> bool {
        match self.known_start(pid) {
            Ok(other) => other != start || self.is_zombie(pid),
            Err(errno) => errno == Errno::ESRCH,
        }
    }

    /// The addresses at which code and stack of its program begin: another pair after an exec. `None` if unknown.
    fn image(&self, pid: u32) -> Option<(u64, u64)>;

    /// Whether it has ended but its parent has not reaped it yet.
    fn is_zombie(&self, pid: u32) -> bool;

    /// Its threads; none if it has ended.
    fn threads(&self, pid: u32) -> Vec<u32>;

    /// The name of one of its threads; empty if the thread has ended.
    fn thread_name(&self, pid: u32, tid: u32) -> String;

    /// The inode number of its network namespace; 0 if the kernel has no network namespaces.
    ///
    /// # Errors
    /// The process has ended or may not be read.
    fn namespace(&self, pid: u32) -> Result<u64, Errno>;

    /// What one of its descriptors refers to, as /proc names it; empty if unknown.
    fn descriptor(&self, pid: u32, number: u32) -> String;
}

/// The machine's own /proc.
#[derive(Clone, Copy, Debug)]
pub struct Proc;

impl Procfs for Proc {
    fn pids(&self) -> io::Result<Vec<u32>> {
        process::pids()
    }

    fn known_start(&self, pid: u32) -> Result<u64, Errno> {
        process::known_start(pid)
    }

    fn image(&self, pid: u32) -> Option<(u64, u64)> {
        process::image(pid)
    }

    fn is_zombie(&self, pid: u32) -> bool {
        ending::is_zombie(pid)
    }

    fn threads(&self, pid: u32) -> Vec<u32> {
        process::threads(pid)
    }

    fn thread_name(&self, pid: u32, tid: u32) -> String {
        process::thread_name(pid, tid)
    }

    fn namespace(&self, pid: u32) -> Result<u64, Errno> {
        process::namespace(pid)
    }

    fn descriptor(&self, pid: u32, number: u32) -> String {
        process::link(pid, &format!("fd/{number}"))
    }
}
