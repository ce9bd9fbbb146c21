//! Snapshots: values and properties of all records, when an IOC has been found and at the start of each segment.
//!
//! Promises: at most one step (`BATCH` records) in 50 ms, over all IOCs.
//! At most 2 % of the disk: a run begins with an allowance of 0.5 % of the cap (`ONCE`), which never grows beyond that;
//! it is refilled with 1.4 % of all bytes written (`STEADILY`). So a log that fills its cap holds 1.9 % of snapshots
//! at most, and 0.1 % is left for the blocks around them. IOCs share the allowance by their numbers of records.

use std::time::Duration;

use crate::recorder::context::Context;
use crate::recorder::sources::{Resting, Source, UNTIL_WOKEN};

/// Part of the cap that snapshots may take at once: a 200th.
const ONCE: u64 = 200;
/// Thousandths of all written bytes that snapshots may take.
const STEADILY: u64 = 14;
/// Nanoseconds between two steps.
const PACE: u64 = 50_000_000;
/// Smallest number of bytes for which a round is begun.
const LEAST: u64 = 256;

/// The bytes that snapshots may take in the log.
#[derive(Debug)]
struct Allowance {
    most: u64,
    level: u64,
    /// Bytes written when it last grew.
    written: u64,
    /// Thousandths of a byte that it has grown beyond whole ones.
    rest: u64,
}

impl Allowance {
    /// For a log of at most `max_disk` bytes.
    fn new(max_disk: u64) -> Allowance {
        let most = max_disk / ONCE;
        Allowance { most, level: most, written: 0, rest: 0 }
    }

    /// Grows with the bytes that the log has written so far.
    fn grow(&mut self, written: u64) {
        let more = written.saturating_sub(self.written).saturating_mul(STEADILY).saturating_add(self.rest);
        (self.written, self.rest) = (written, more % 1000);
        self.level = self.level.saturating_add(more / 1000).min(self.most);
    }

    fn spend(&mut self, bytes: usize) {
        self.level = self.level.saturating_sub(bytes as u64);
    }
}

/// See the module.
pub struct Snapshots {
    allowance: Allowance,
    /// Number of segments begun.
    segments: u32,
    /// Time of the next step, monotonic.
    next: u64,
    /// Whether a round is under way.
    is_under_way: bool,
}

impl Snapshots {
    /// For a log of at most `max_disk` bytes.
    pub fn new(max_disk: u64) -> Snapshots {
        Snapshots { allowance: Allowance::new(max_disk), segments: 0, next: 0, is_under_way: false }
    }

    /// A segment has begun: it needs snapshots of its own.
    fn begin_segment(&mut self, cx: &mut Context<'_>, segments: u32) {
        // the first one is begun by what is recorded of the first IOC
        if std::mem::replace(&mut self.segments, segments) == 0 {
            return;
        }
        for ioc in cx.iocs.iter_mut() {
            self.allowance.spend(ioc.end_snapshot(&mut cx.env));
            ioc.snapshots.due |= ioc.process.is_some();
        }
    }
}

/// Begins the round of the next IOC that is due. Returns the IOC's pid.
fn begin_round(cx: &mut Context<'_>, level: u64) -> Option<u32> {
    let now = cx.env.monotonic();
    let due = || cx.iocs.iter().filter(|ioc| ioc.snapshots.due && ioc.can_be_read(&cx.env, now));
    let all: usize = due().map(|ioc| ioc.records.count()).sum();
    let (pid, records) = due().next().map(|ioc| (ioc.pid, ioc.records.count()))?;
    let share = u128::from(level) * records as u128 / all.max(1) as u128;
    let ioc = cx.iocs.get_mut(pid)?;
    ioc.snapshots.begin(now, &ioc.records, usize::try_from(share).unwrap_or(usize::MAX));
    Some(pid)
}

impl Source for Snapshots {
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let now = cx.env.monotonic();
        if now < self.next {
            return false;
        }
        self.next = now.saturating_add(PACE);
        let (Some(segments), Some(written)) = (cx.env.sink.segments(), cx.env.sink.written()) else {
            return false;
        };
        self.allowance.grow(written);
        if segments != self.segments {
            self.begin_segment(cx, segments);
        }
        let under_way = cx.iocs.iter().find(|ioc| ioc.snapshots.is_under_way()).map(|ioc| ioc.pid);
        let level = Some(self.allowance.level).filter(|level| *level >= LEAST.min(self.allowance.most));
        let pid = under_way.or_else(|| begin_round(cx, level?));
        self.is_under_way = pid.is_some();
        if let Some(ioc) = pid.and_then(|pid| cx.iocs.get_mut(pid)) {
            self.allowance.spend(ioc.step_snapshot(&mut cx.env));
        }
        false
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        // a new segment, or an IOC that has become readable, is noticed in the next second
        if self.is_under_way {
            Duration::from_nanos(self.next.saturating_sub(cx.now))
        } else {
            UNTIL_WOKEN
        }
    }
}

#[cfg(test)]
mod tests;
