//! The account of events that are not in the log and of what the log says about them: each loss is told
//! by exactly one block that was written.

use crate::event::{Loss, LossSource};

/// Losses that a batch tells of.
#[derive(Debug)]
struct Told {
    count: u64,
    since: u64,
}

/// The account.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Events that no written block tells of.
    untold: u64,
    /// Those of them that the batch tells of.
    telling: Option<Told>,
    /// The earliest time of those that the batch does not tell of.
    since: Option<u64>,
    /// The reason of the last loss or pause; empty if that has been told.
    cause: String,
}

impl Losses {
    /// Counts events that will not be in the log; `time` is that of the earliest.
    pub fn lose(&mut self, count: u64, time: u64) {
        self.untold = self.untold.saturating_add(count);
        self.since = Some(self.since.map_or(time, |since| since.min(time)));
    }

    /// Why the last were lost.
    pub fn because(&mut self, cause: &str) {
        cause.clone_into(&mut self.cause);
    }

    /// How many no written block tells of.
    pub fn untold(&self) -> u64 {
        self.untold
    }

    /// What the batch should tell, if there is anything and it tells of nothing yet. An interruption
    /// is told even if nothing is known to be lost by it.
    pub fn to_tell(&self, now: u64) -> Option<Loss> {
        let nothing = self.untold == 0 && self.cause.is_empty();
        (!nothing && self.telling.is_none()).then(|| Loss {
            source: LossSource::Storage,
            count: self.untold,
            since: self.since.unwrap_or(now),
            cause: self.cause.clone(),
        })
    }

    /// The batch tells that now.
    pub fn telling(&mut self, loss: &Loss) {
        self.telling = Some(Told { count: loss.count, since: loss.since });
        self.since = None;
        self.cause.clear();
    }

    /// What the batch tells: how many, and since when.
    pub fn told(&self) -> Option<(u64, u64)> {
        self.telling.as_ref().map(|told| (told.count, told.since))
    }

    /// The batch was written, or given up. Gives how many of its events tell of losses.
    pub fn settle(&mut self, written: bool) -> u64 {
        let Some(told) = self.telling.take() else { return 0 };
        if written {
            self.untold = self.untold.saturating_sub(told.count);
        } else {
            self.lose(0, told.since);
        }
        1
    }
}
