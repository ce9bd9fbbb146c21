//! Runs that began before their machine's clock was set.
//!
//! A box without a clock of its own boots in 1970 and learns the time later. Its monotonic clock runs evenly
//! throughout, so once the wall clock was right, it is known when everything before happened. But a log is read from its
//! beginning: so the first right time is looked for here before. That costs nothing where the first segment's header already has
//! a time that can be right, which is almost always, and else the definitions of one segment.

use crate::scan::{Blocks, Part, Scan};
use iocrec_log::clock::can_be_right;
use iocrec_log::context::Context;
use iocrec_log::event::{Clock, Fact};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::SegmentFile;

/// When the clock of a run was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLater {
    /// Monotonic time.
    pub time: u64,
    /// What the wall clock showed then, rightly for the first time.
    pub wall: i64,
}

impl SetLater {
    /// Looks for it in a run's segments, which are in order; `None` if the clock was right from the beginning, or never.
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

    /// Wall-clock time of a monotonic time before.
    pub fn wall(&self, time: u64) -> i64 {
        self.wall.saturating_add(time.wrapping_sub(self.time) as i64)
    }
}

/// Wall-clock time when a segment was begun.
pub fn created(header: &SegmentHeader, set: Option<SetLater>) -> i64 {
    set.filter(|_| !can_be_right(header.created_wall))
        .map_or(header.created_wall, |set| set.wall(header.created))
}

fn in_segment(file: &SegmentFile) -> Option<SetLater> {
    // Damage is reported when the segment is read for what is in it.
    Scan::one(file, Blocks::Definitions).ok()?.find_map(|part| match part {
        Part::Block(block) => block.events.iter().find_map(|event| match event.fact {
            Fact::Clock(Clock { wall }) if can_be_right(wall) => Some(SetLater { time: event.time, wall }),
            _ => None,
        }),
        _ => None,
    })
}
