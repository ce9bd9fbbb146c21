//! Runs that began before their machine's clock was set, and clocks that were set while a run lasted.
//!
//! A box without a battery-backed clock boots in 1970 and learns the time later. Its monotonic clock runs evenly
//! throughout, so once the wall clock was right, the times of all earlier events are known. But a log is read from its
//! beginning, so this module looks for the first right time beforehand. That costs nothing if the first segment's
//! header already has a plausible time, which is almost always so; otherwise it costs reading the definitions of one
//! segment.

use crate::reading::scan::{Blocks, Part, Scan};
use iocrec_log::clock::can_be_right;
use iocrec_log::context::Context;
use iocrec_log::event::{Clock, Fact};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::SegmentFile;

/// The moment when the clock of a run was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLater {
    /// Monotonic time.
    pub time: u64,
    /// The wall clock at that time, right for the first time.
    pub wall: i64,
}

impl SetLater {
    /// Finds it in a run's segments, which are in order; `None` if the clock was right from the beginning, or never.
    pub fn find<'a>(files: impl IntoIterator<Item = &'a SegmentFile>) -> Option<SetLater> {
        let mut before = None;
        for file in files {
            let Some(header) = &file.header else { continue };
            if can_be_right(header.created_wall) {
                let first = SetLater { time: header.created, wall: header.created_wall };
                return before.map(|before| in_segment(before).unwrap_or(first));
            }
            before = Some(file);
        }
        in_segment(before?)
    }

    /// Applies it to a context that has not seen a fact yet.
    pub fn apply_to(&self, context: &mut Context) {
        context.apply(self.time, &Fact::Clock(Clock { wall: self.wall }));
    }

    /// Wall-clock time of an earlier monotonic time.
    pub fn wall(&self, time: u64) -> i64 {
        self.wall.saturating_add(time.wrapping_sub(self.time) as i64)
    }
}

/// Smallest step of a wall clock that is noted. The kernel slews it and the monotonic clock alike, so what changes the
/// difference of the two is a step; less than this is what reading them one after the other costs on a busy machine.
pub const LEAST_STEP: i64 = crate::time::SECOND as i64 / 10;

/// A wall clock that was set while it was recorded. Times are nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it would have shown.
    pub from: i64,
    /// What it showed.
    pub to: i64,
}

impl Step {
    /// By how much it was set back, if it was: times from then on come twice.
    pub fn back(&self) -> Option<u64> {
        u64::try_from(self.from.saturating_sub(self.to)).ok().filter(|by| *by > 0)
    }
}

/// Finds the steps of a run's wall clock.
#[derive(Default)]
pub struct Steps {
    /// The latest reading that can be right: monotonic time and wall clock.
    latest: Option<(u64, i64)>,
}

impl Steps {
    /// Takes a reading of the clock; returns the step that it shows.
    pub fn take(&mut self, time: u64, wall: i64) -> Option<Step> {
        if !can_be_right(wall) {
            return None;
        }
        let (noted, before) = self.latest.replace((time, wall))?;
        let from = before.saturating_add(time.wrapping_sub(noted) as i64);
        (from.abs_diff(wall) >= LEAST_STEP.unsigned_abs()).then_some(Step { from, to: wall })
    }
}

/// Wall-clock time of the start of a segment.
pub fn created(header: &SegmentHeader, set: Option<SetLater>) -> i64 {
    set.filter(|_| !can_be_right(header.created_wall))
        .map_or(header.created_wall, |set| set.wall(header.created))
}

fn in_segment(file: &SegmentFile) -> Option<SetLater> {
    // Damage is reported when the segment's events are read.
    Scan::one(file, Blocks::Definitions).ok()?.find_map(|part| match part {
        Part::Block(block) => block.events.iter().find_map(|event| match event.fact {
            Fact::Clock(Clock { wall }) if can_be_right(wall) => Some(SetLater { time: event.time, wall }),
            _ => None,
        }),
        _ => None,
    })
}
