//! What the recorder's core asks of /proc, behind a trait: tests answer in its place.
//!
//! Nothing here may block: these files need no lock of the process's memory and none of its pages.

use std::io;

use nix::errno::Errno;

use crate::linux::{ending, process};

/// /proc, as far as the recorder's core needs it.
pub trait Procfs {
    /// The processes there are.
    ///
    /// # Errors
    /// /proc cannot be read.
    fn pids(&self) -> io::Result<Vec<u32>>;

    /// When a process began, nanoseconds after boot; `None` if it is gone. With the pid it names the process for ever.
    fn start(&self, pid: u32) -> Option<u64>;

    /// Where code and stack of its program begin: another pair after an exec. `None` where that is unknown.
    fn image(&self, pid: u32) -> Option<(u64, u64)>;

    /// Has it ended, though its parent has not yet waited for it?
    fn is_zombie(&self, pid: u32) -> bool;

    /// Its threads; none if it is gone.
    fn threads(&self, pid: u32) -> Vec<u32>;

    /// The name of one of its threads; empty if that is gone.
    fn thread_name(&self, pid: u32, tid: u32) -> String;

    /// The inode number of its network namespace; 0 where the kernel has but one.
    ///
    /// # Errors
    /// It is gone or may not be looked at.
    fn namespace(&self, pid: u32) -> Result<u64, Errno>;
}

/// The machine's own /proc.
#[derive(Clone, Copy, Debug)]
pub struct Proc;

impl Procfs for Proc {
    fn pids(&self) -> io::Result<Vec<u32>> {
        process::pids()
    }

    fn start(&self, pid: u32) -> Option<u64> {
        process::start(pid)
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
}
