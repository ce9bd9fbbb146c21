//! The parts of a run in which its IOCs said nothing: whoever asks what they said needs no hits of these.
//!
//! A first pass over the few blocks that can hold something said, by what blocks say of themselves, finds the times. The
//! record that was being processed then is known by hits not long before and after: chains are given out after
//! [`open_chains::LIMIT`] at most.

use super::open_chains;
use crate::reading::scan::{Blocks, Choose, Part, Scan};
use crate::time::SECOND;
use iocrec_log::event::Fact;
use iocrec_log::reader::{About, Choice, SegmentFile};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Time around something said in which hits can matter to it: the longest that a chain is followed, and what blocks may
/// overlap.
const AROUND: u64 = open_chains::LIMIT + 30 * SECOND;
/// A shorter silence is read: the stacks of threads are forgotten within this time.
const LEAST: u64 = AROUND;
/// Times remembered; a bound for hostile logs. With more, everything is read.
const MAX_TIMES: usize = 100_000;

/// The kinds of facts that are something said, or stand for it.
const SAID: [&str; 4] = ["ConsoleLine", "ConsoleLeftOut", "ErrlogCall", "GivingUp"];

/// Whether a block may hold something said.
fn may_hold(about: &About) -> bool {
    let Some(classes) = about.classes else { return true };
    if !classes.health() && !classes.notes() {
        return false;
    }
    // kinds that this program doesn't know are none of these
    let said =
        |number: u16| Fact::KINDS.get(usize::from(number)).is_some_and(|kind| SAID.contains(&kind.variant));
    about.contents.as_ref().is_none_or(|contents| contents.counts.iter().any(|(kind, _)| said(*kind)))
}

/// The times around what was said: from and to, in order, without overlaps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sayings(Vec<(u64, u64)>);

impl Sayings {
    /// Looks through these blocks of a run's segments. `None` if everything must be read, as in old logs.
    pub fn of(files: &[SegmentFile], blocks: Blocks) -> Option<Sayings> {
        let is_old = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_old);
        let choose = move |about: &About| {
            if about.classes.is_none() {
                seen.store(true, Ordering::Relaxed);
            }
            if about.classes.is_some() && may_hold(about) {
                Choice::Only(Arc::new(|_| false))
            } else {
                Choice::Pass
            }
        };
        let mut times = Vec::new();
        for part in Scan::new(files, blocks).choosing(Arc::new(choose)) {
            if is_old.load(Ordering::Relaxed) {
                return None;
            }
            let Part::Block(block) = part else { continue };
            let said = block.events.iter().filter(|event| SAID.contains(&event.fact.kind().variant));
            // most are within the time of one before
            for event in said {
                if times.last().is_none_or(|last| event.time.abs_diff(*last) > SECOND) {
                    times.push(event.time);
                }
            }
            if times.len() > MAX_TIMES {
                return None;
            }
        }
        (!is_old.load(Ordering::Relaxed)).then(|| Sayings::at(times))
    }

    /// The times around these.
    fn at(mut times: Vec<u64>) -> Sayings {
        times.sort_unstable();
        let mut around: Vec<(u64, u64)> = Vec::new();
        for time in times {
            let (from, to) = (time.saturating_sub(AROUND), time.saturating_add(AROUND + SECOND));
            match around.last_mut() {
                Some(last) if from <= last.1.saturating_add(LEAST) => last.1 = to.max(last.1),
                _ => around.push((from, to)),
            }
        }
        Sayings(around)
    }

    /// Whether any of a time from one to another is around something said.
    fn are_near(&self, from: u64, to: u64) -> bool {
        let first = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(first).is_some_and(|(begin, _)| *begin <= to)
    }

    /// Decides about each block of the run: of silent ones only what the recorder noted, and definitions.
    pub fn choose(self) -> Arc<Choose> {
        Arc::new(move |about: &About| match about.classes {
            Some(classes) if !self.are_near(about.first, about.last) => {
                if about.defines || classes.notes() || classes.health() {
                    Choice::Only(Arc::new(|_| false))
                } else {
                    Choice::Pass
                }
            }
            _ => Choice::Read,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_are_far_from_what_was_said() {
        let second = |number: u64| number * SECOND;
        assert!(!Sayings::at(Vec::new()).are_near(0, u64::MAX));
        let sayings = Sayings::at(vec![second(2000), second(1000), second(1250)]);
        assert_eq!(sayings.0.len(), 2, "the first two are near each other: {sayings:?}");
        assert!(sayings.are_near(second(1000), second(1000)));
        assert!(sayings.are_near(second(906), second(906)), "a chain may have begun long before");
        assert!(sayings.are_near(second(0), second(906)), "a block that is near in part");
        assert!(sayings.are_near(second(1130), second(1140)), "a short silence");
        assert!(!sayings.are_near(second(0), second(904)));
        assert!(!sayings.are_near(second(1347), second(1904)));
        assert!(sayings.are_near(second(1346), second(1904)));
        assert!(!sayings.are_near(second(2097), u64::MAX));
    }

    #[test]
    fn the_kinds_of_sayings_exist() {
        assert!(SAID.iter().all(|name| Fact::KINDS.iter().any(|kind| kind.variant == *name)), "{SAID:?}");
    }
}
