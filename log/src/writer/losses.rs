//! The account of lost events: each loss is reported in exactly one block that was written.

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
    /// Lost events that no written block reports.
    unreported: u64,
    /// Those of them that the batch reports.
    reporting: Option<Report>,
    /// The earliest time of those that the batch does not report.
    since: Option<u64>,
    /// The reason of the last loss or pause; empty if it has been reported.
    cause: String,
}

impl Losses {
    /// Counts events that will not be in the log; `time` is the earliest's.
    pub fn lose(&mut self, count: u64, time: u64) {
        self.unreported = self.unreported.saturating_add(count);
        self.since = Some(self.since.map_or(time, |since| since.min(time)));
    }

    /// Sets why the last events were lost.
    pub fn because(&mut self, cause: &str) {
        cause.clone_into(&mut self.cause);
    }

    /// Lost events that no written block reports.
    pub fn unreported(&self) -> u64 {
        self.unreported
    }

    /// What the batch should report, if there is anything and it reports nothing yet. An interruption is reported even if
    /// no event is known to be lost.
    pub fn to_report(&self, now: u64) -> Option<Loss> {
        let nothing = self.unreported == 0 && self.cause.is_empty();
        (!nothing && self.reporting.is_none()).then(|| Loss {
            source: LossSource::Storage,
            count: self.unreported,
            since: self.since.unwrap_or(now),
            cause: self.cause.clone(),
        })
    }

    /// The batch reports this now.
    pub fn reporting(&mut self, loss: &Loss) {
        self.reporting = Some(Report { count: loss.count, since: loss.since });
        self.since = None;
        self.cause.clear();
    }

    /// What the batch reports: how many, and since when.
    pub fn reported(&self) -> Option<(u64, u64)> {
        self.reporting.as_ref().map(|report| (report.count, report.since))
    }

    /// The batch was written, or given up. Returns how many of its events report losses.
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
