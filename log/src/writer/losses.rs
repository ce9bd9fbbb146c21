//! The account of lost events. Exactly one written block reports each loss.

use crate::event::{Loss, LossSource};

/// Losses that a batch reports.
#[derive(Debug)]
struct Report {
    count: u64,
    since: u64,
}

/// The account.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Number of lost events that no written block reports.
    unreported: u64,
    /// The losses that the batch reports.
    reporting: Option<Report>,
    /// The earliest time of the losses that the batch does not report.
    since: Option<u64>,
    /// The reason for the last loss or pause; empty once it has been reported.
    cause: String,
}

impl Losses {
    /// Counts events that will not be in the log. `time` is that of the earliest.
    pub fn lose(&mut self, count: u64, time: u64) {
        self.unreported = self.unreported.saturating_add(count);
        self.since = Some(self.since.map_or(time, |since| since.min(time)));
    }

    /// Sets the reason for the last loss.
    pub fn because(&mut self, cause: &str) {
        cause.clone_into(&mut self.cause);
    }

    /// Number of lost events that no written block reports.
    pub fn unreported(&self) -> u64 {
        self.unreported
    }

    /// The loss that the batch should report, if there is one and the batch reports none yet. An interruption is
    /// reported even if no event is known to be lost.
    pub fn to_report(&self, now: u64) -> Option<Loss> {
        let nothing = self.unreported == 0 && self.cause.is_empty();
        (!nothing && self.reporting.is_none()).then(|| Loss {
            source: LossSource::Storage,
            count: self.unreported,
            since: self.since.unwrap_or(now),
            cause: self.cause.clone(),
        })
    }

    /// The batch now reports this loss.
    pub fn reporting(&mut self, loss: &Loss) {
        self.reporting = Some(Report { count: loss.count, since: loss.since });
        self.since = None;
        self.cause.clear();
    }

    /// The losses that the batch reports: their number and their earliest time.
    pub fn reported(&self) -> Option<(u64, u64)> {
        self.reporting.as_ref().map(|report| (report.count, report.since))
    }

    /// The batch was written or given up. Returns the number of its events that report losses.
    pub fn settle(&mut self, written: bool) -> u64 {
        let Some(report) = self.reporting.take() else { return 0 };
        if written {
            self.unreported = self.unreported.saturating_sub(report.count);
        } else {
            self.lose(0, report.since);
        }
        1
    }
}
