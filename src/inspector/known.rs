//! State of a process that the inspector keeps between inspections.

use crate::ioc::IocProcess;
use crate::probes::probe::Probes;

/// A process.
#[derive(Default)]
pub(super) struct Known {
    /// Size of its address space at the last inspection, pages.
    pub size: Option<u64>,
    /// Whether it did not answer and that was reported.
    pub unanswered: bool,
    /// Its state if it is an IOC.
    pub ioc: Option<Followed>,
}

impl Known {
    /// Makes the next inspection a full one, even if the size has not changed.
    pub fn forget_size(&mut self) {
        self.size = None;
    }
}

/// An IOC.
pub(super) struct Followed {
    pub ioc: IocProcess,
    /// Number of nodes that its record lists claimed to have when they were last walked.
    pub claimed: u64,
    pub probes: Probes,
    /// Monotonic time when its probes were last known to be in place, nanoseconds; 0: they are gone.
    pub held: u64,
    /// Number of record types whose process routines are probed.
    pub routines: usize,
    /// Whether `Finding::Ready` was reported.
    pub ready: bool,
}
