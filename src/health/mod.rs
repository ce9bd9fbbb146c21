//! The health of IOCs: what each uses of the machine, looked at once a second (the *beat*).
//!
//! It needs no BPF, so it works on every tier. It takes nothing that could make the IOC wait, and nothing that could
//! make the recorder wait: the files that it reads (stat and schedstat of /proc) take neither the lock of a process's
//! memory nor its pages, and not the lock that a running exec holds, as `io` and `syscall` do. They are opened once and
//! read again and again: that is a seventh of the cost, and an open file can never show another process or thread that
//! got the same number.
//!
//! What can't be read is unknown. The numbers of open files and threads are bounded.

pub mod text;
pub mod threads;

use crate::health::threads::Threads;

/// What the beat knows of one process.
#[derive(Debug, Default)]
pub struct Health {
    /// Its threads.
    pub threads: Threads,
}
