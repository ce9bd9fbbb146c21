//! What IOCs use of the machine.

use super::ids::*;
use super::life::{allocated, owned_by_ioc, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// What an IOC has used over a while that ends at the time of the event. Over it the use was much the same, or it was the
/// time between two looks; times that no event covers are unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// The IOC.
    pub ioc: IocId,
    /// Length of the while, microseconds of CLOCK_MONOTONIC.
    pub period: u64,
    /// CPU time of all its threads over it, those included that have ended, microseconds; `None` if unknown.
    pub cpu: Option<u64>,
    /// Time over it that its threads could have run and waited for a CPU, microseconds; `None` if that is not known of
    /// all its threads. A wait counts when it ends.
    pub waiting: Option<u64>,
    /// Page faults over it that needed no disk.
    pub minor_faults: u64,
    /// Page faults over it that needed the disk.
    pub major_faults: u64,
    /// Resident memory at its end, KiB; `None` if unknown.
    pub resident: Option<u64>,
    /// Threads at its end.
    pub threads: u32,
    /// Open descriptors, as last counted; `None` if unknown.
    pub descriptors: Option<u32>,
    /// Datagrams that the kernel dropped since the queues of the IOC's UDP sockets were full, found at a look over this
    /// while; the look before it may have been 10 seconds before. `None` if there was none, or nothing to compare it with.
    pub udp_drops: Option<u64>,
    /// The threads that used or waited for most of it, by name, the most first.
    pub most: Vec<ThreadUse>,
}

/// What the threads of one name have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Number of a [`WatchedThread`].
    pub thread: u32,
    /// CPU time, microseconds.
    pub cpu: u64,
    /// Time that they could have run and waited for a CPU, microseconds. A wait counts when it ends.
    pub waiting: u64,
    /// How often they got a CPU.
    pub times: u64,
}

/// The name of threads in [`Resources`]: those of one name count together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedThread {
    /// Its number, which is none of a [`Thread`](super::Thread).
    pub id: u32,
    /// The IOC.
    pub ioc: IocId,
    /// Their name in the kernel, at most 15 bytes.
    pub name: String,
}

impl Whole for WatchedThread {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}
