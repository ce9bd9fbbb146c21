//! State of a process that the inspector keeps between inspections.

use std::time::Duration;

use crate::inspector::queue::Glance;
use crate::ioc::IocProcess;
use crate::linux::gauge::Gauge;
use crate::linux::reader::budget::Refused;
use crate::probes::probe::Probes;

/// A process.
#[derive(Default)]
pub(super) struct Known {
    /// Size of its address space at the last inspection, pages.
    pub size: Option<u64>,
    /// Whether it did not answer and that was reported.
    pub unanswered: bool,
    /// Inspections in a row that took longer than was allowed, up to [`LATE`].
    late: u32,
    /// Whether it must be examined again though its size is the same. Here, since another thread may do that.
    pub undecided: bool,
    /// Its state if it is an IOC.
    pub ioc: Option<Followed>,
    /// Shows whether its size has changed, and the thread by which it does: that of the probes, which must live as long
    /// as the process, or else the first.
    gauge: Option<(Gauge, u32)>,
}

/// How often the time for an inspection doubles: from 5 s to 40 s for finding an IOC. A machine that is slow, or busy for
/// long, would otherwise never get to the end; one thread of a user's inspections is all that it costs.
const LATE: u32 = 3;

impl Known {
    /// The time that an inspection of it may take, if it is this for one that was never late.
    pub fn allowed(&self, time: Duration) -> Duration {
        time * (1 << self.late)
    }

    /// Notes how an inspection ended.
    pub fn ended(&mut self, refused: Option<Refused>) {
        self.late = match refused {
            Some(Refused::Time) => (self.late + 1).min(LATE),
            _ => 0,
        };
    }

    /// Makes the next inspection a full one, even if the size has not changed.
    pub fn forget_size(&mut self) {
        self.size = None;
    }

    /// Looks whether the process has changed or ended since its last inspection: some 0.5 µs.
    pub fn glance(&self) -> Glance {
        let Some((gauge, _)) = &self.gauge else { return Glance::Same };
        match gauge.size() {
            // the thread of an IOC's probes may end before the IOC
            None if self.ioc.is_some() => Glance::Changed,
            None => Glance::Ended,
            size if size == self.size => Glance::Same,
            Some(_) => Glance::Changed,
        }
    }

    /// Makes sure that [`Known::glance`] notices changes from now on; false if it can't.
    pub fn watch(&mut self, pid: u32) -> bool {
        let thread = self.ioc.as_ref().and_then(|followed| followed.probes.thread()).unwrap_or(pid);
        if self.gauge.as_ref().is_none_or(|(_, of)| *of != thread) {
            self.gauge = Gauge::open(pid, thread).map(|gauge| (gauge, thread));
        }
        self.gauge.is_some()
    }

    /// Stops noticing changes: the process is inspected each second anyway.
    pub fn unwatch(&mut self) {
        self.gauge = None;
    }
}

/// An IOC.
pub(super) struct Followed {
    pub ioc: IocProcess,
    /// What its record lists claimed when they were last walked: their number of nodes, and which are the last.
    pub claimed: (u64, u64),
    pub probes: Probes,
    /// Monotonic time when its probes were last known to be in place, nanoseconds; 0: they are gone.
    pub held: u64,
    /// Number of record types whose process routines are probed.
    pub routines: usize,
    /// Whether functions were left out because a debugger was attached, or a process held up the placing.
    pub debugged: bool,
    /// Whether `Finding::Ready` was reported.
    pub ready: bool,
    /// Inspections that may still try to read its name and environment; 0 once they have been read.
    pub unidentified: u8,
}

/// Inspections that try to read a name: a process that is busy, or begins, may not let it be read at once.
pub(super) const IDENTIFIED_WITHIN: u8 = 10;

impl Followed {
    /// Whether all has been read that an inspection reads.
    pub fn is_settled(&self) -> bool {
        self.ready && !self.debugged && (self.unidentified == 0 || self.claimed.0 == 0)
    }

    /// What an inspection finds changed if it finds anything: its records, probes, layout.
    pub fn state(&self) -> ((u64, u64), usize, u64, bool, bool) {
        let is_held = self.held != 0;
        (
            self.claimed,
            self.routines,
            self.ioc.layout.as_ref().map_or(0, |layout| layout.base()),
            self.ready,
            is_held,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_late_gets_more_time() {
        let mut known = Known::default();
        let five = Duration::from_secs(5);
        let mut next = |refused| {
            known.ended(refused);
            known.allowed(five).as_secs()
        };
        let late = Some(Refused::Time);
        assert_eq!([next(late), next(late), next(late), next(late)], [10, 20, 40, 40]);
        assert_eq!(next(None), 5);
        // a read that hangs gets no more
        assert_eq!(next(Some(Refused::NoAnswer)), 5);
    }
}
