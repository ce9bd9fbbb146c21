//! Runs of recorders, as lists of their segments: which there are, of which host, and when each began and ended.

pub mod course;
pub mod set;

use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use iocrec_log::clock::can_be_right;
use iocrec_log::context::{Budget, Context};
use iocrec_log::event::{Fact, Host};
use iocrec_log::reader::{About, Choice, Limit, SegmentFile};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

/// The segments of each run, in order; the runs sorted by their start.
pub fn group(files: Vec<SegmentFile>) -> Vec<Vec<SegmentFile>> {
    let mut runs: HashMap<u128, Vec<SegmentFile>> = HashMap::new();
    for file in files {
        if let Some(header) = file.header {
            runs.entry(header.run).or_default().push(file);
        }
    }
    let mut runs: Vec<Vec<SegmentFile>> = runs.into_values().collect();
    for files in &mut runs {
        in_order(files);
        // The same segment twice: named twice, or a copy beside it.
        files.dedup_by_key(|file| file.header.map(|header| header.sequence));
    }
    runs.sort_by_key(|files| (begun(files), files.first().map(|file| file.path.clone())));
    runs
}

/// Puts a run's segments in order. Of several copies of a segment, the one of which most can be read comes first, and of
/// those the longest: segments only grow, so others were copied while it was written, or were cut or damaged since.
pub(crate) fn in_order(files: &mut [SegmentFile]) {
    let sequence = |file: &SegmentFile| file.header.map(|header| header.sequence);
    files.sort_by_key(|file| (sequence(file), Reverse(file.size)));
    for copies in files.chunk_by_mut(|one, other| sequence(one) == sequence(other)) {
        let Some((first, others)) = copies.split_first() else { continue };
        if others.iter().any(|other| other.path != first.path) {
            copies.sort_by_cached_key(|copy| Reverse(sound(copy)));
        }
    }
}

/// Bytes of a segment's sound blocks. Reads all of it, and unpacks next to nothing.
fn sound(file: &SegmentFile) -> u64 {
    let Ok(mut segment) = file.open() else { return 0 };
    segment.choose(|_| Choice::Pass);
    iter::from_fn(|| segment.next_block()).filter_map(Result::ok).map(|block| block.length).sum()
}

/// Wall-clock time of the start of the first segment.
fn begun(files: &[SegmentFile]) -> i64 {
    let walls = || files.iter().filter_map(|file| Some(file.header?.created_wall));
    walls().filter(|&wall| can_be_right(wall)).min().or(walls().min()).unwrap_or(0)
}

/// The host of a run, by its first segment that can be read: a recorder may delete the first one at any time.
pub(crate) fn host(files: &[SegmentFile]) -> Option<Host> {
    files.iter().find_map(host_of)
}

/// The host that a segment names.
fn host_of(file: &SegmentFile) -> Option<Host> {
    for part in Scan::one(file, Blocks::Definitions).ok()? {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            if let Fact::Host(host) = &event.fact {
                return Some(Host::clone(host));
            }
        }
    }
    None
}

/// When the first segment of a run began: monotonic time, and what the clock showed, or would have shown if it was set later.
pub(crate) fn first_clock(files: &[SegmentFile]) -> Option<(u64, i64)> {
    let first = files.first()?;
    for part in Scan::one(first, Blocks::Definitions).ok()? {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            if let Fact::Clock(clock) = &event.fact {
                let set = SetLater::find(files).filter(|_| !can_be_right(clock.wall));
                let wall = set.map_or(clock.wall, |set| set.wall(event.time));
                // the reading may be seconds older: where segments before are gone, it is the last one of these
                let begun = first.header.map_or(event.time, |header| header.created.max(event.time));
                return Some((begun, wall.saturating_add(begun.wrapping_sub(event.time) as i64)));
            }
        }
    }
    None
}

/// Monotonic and wall-clock time of the last event of a run. Reads its last segment, of whose blocks only those with
/// definitions are unpacked: all say when their last event was. Reads those before only if nothing of that one can be read,
/// as if it had just begun when it was copied.
pub(crate) fn last_event(run: &[SegmentFile]) -> Option<(u64, i64)> {
    let choose = |about: &About| match about.defines {
        true => Choice::Only(Arc::new(|_| false)),
        false => Choice::Pass,
    };
    run.iter().rev().find_map(|file| {
        let mut context = Context::default();
        let mut last = None;
        for part in Scan::new([file], Blocks::All).choosing(Arc::new(choose)) {
            let Part::Block(block) = part else { continue };
            for event in &block.events {
                context.apply(event.time, &event.fact);
                last = last.max(Some(event.time));
            }
            last = last.max(block.about.map(|about| about.last));
        }
        Some((last?, context.wall(last?)?))
    })
}

/// The memory budget for the definitions in these files.
pub fn budget<'a>(files: impl IntoIterator<Item = &'a SegmentFile>) -> Arc<Budget> {
    Budget::new(files.into_iter().map(|file| file.size).sum())
}

/// Sets the limits of the files that are read together.
pub(crate) fn set_limit(files: &mut [SegmentFile], no_limit: bool) {
    let limit = if no_limit { Limit::NONE } else { Limit::shared(files.len()) };
    files.iter_mut().for_each(|file| file.limit = limit);
}
