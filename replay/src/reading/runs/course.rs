//! The course of a host's time where its clock was set back.
//!
//! Times are shown as the machine's clock had them. Their order can't go by them where the clock was set back: then some
//! come twice. Within a boot the monotonic clock gives the order. [`Course::even`] maps it to a wall clock that never goes
//! back, for comparison with other hosts and for order: it is the machine's own but for the time before it was set back,
//! which is moved to directly before that moment. So the later clock counts as the right one.
//!
//! Each segment's header has both clocks, and the last segment is searched for its last reading, so this costs next to
//! nothing where they agree. A busy recorder may have written a header's two times one after the other, so where they
//! don't agree, the readings at the beginnings of the segments decide. A clock that was set forward and back again within one segment shows only as it is read ([`Course::note`]):
//! what comes then is moved behind what came before.

use super::host;
use super::set::{SetLater, Step, Steps, LEAST_STEP};
use crate::reading::scan::{abouts, Blocks, Part, Scan};
use iocrec_log::clock::can_be_right;
use iocrec_log::event::{Clock, Fact};
use iocrec_log::reader::{Choice, SegmentFile};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of a fact with a reading of the clocks ([`Fact::Clock`]).
const CLOCK: u16 = 1;
/// Blocks that are searched for the last of them: each few seconds there is one.
const LAST_BLOCKS: usize = 8;
/// Steps that are remembered; a bound for hostile logs.
const MAX_STEPS: usize = 10_000;

/// A reading of both clocks: monotonic time, and the wall clock ahead of it by this. Nanoseconds.
type Reading = (u64, i64);

/// The course of time in one boot of a host, for one of its runs.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Readings in order, where the clock was set; empty if it was not.
    epochs: Vec<Reading>,
    /// The least that the wall clock is ahead from the reading with the same number on.
    floors: Vec<i64>,
    /// The end of the boot's last run, monotonic.
    end: u64,
    /// Steps back that no later segment has announced: from then on at least so far ahead.
    raised: RefCell<Vec<Reading>>,
    /// Steps forward: what the clock showed before and after each.
    leaps: Vec<(i64, i64)>,
}

impl Course {
    /// The course of time of each run, whose segments are in order.
    pub fn of_runs(runs: &[Vec<SegmentFile>]) -> Vec<Course> {
        let mut boots: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (number, files) in runs.iter().enumerate() {
            // a run whose boot is not known stands for itself
            let host = host(files).filter(|host| !host.boot_id.is_empty());
            let boot = host.map(|host| format!("{} on {}", host.boot_id, host.name));
            boots.entry(boot.unwrap_or_else(|| format!("run {number}"))).or_default().push(number);
        }
        let mut courses = vec![Course::default(); runs.len()];
        for numbers in boots.values() {
            let of_boot: Vec<&[SegmentFile]> =
                numbers.iter().filter_map(|number| runs.get(*number)).map(Vec::as_slice).collect();
            let found = Course::of_boot(&of_boot);
            for number in numbers {
                courses.get_mut(*number).into_iter().for_each(|course| *course = found.clone());
            }
        }
        courses
    }

    fn of_boot(runs: &[&[SegmentFile]]) -> Course {
        let mut readings: Vec<(Reading, Option<&SegmentFile>)> = Vec::new();
        let mut end = 0;
        for files in runs {
            if SetLater::find(*files).is_some() {
                return Course::default(); // it was set once, and all times follow from that
            }
            for file in *files {
                let Some(header) = &file.header else { continue };
                if can_be_right(header.created_wall) {
                    readings.push((reading(header.created, header.created_wall), Some(file)));
                }
            }
            if let Some((reading, last)) = files.last().and_then(last_reading) {
                readings.push((reading, None));
                end = end.max(last);
            }
        }
        let least = readings.iter().map(|((_, ahead), _)| *ahead).min().unwrap_or(0);
        if readings.iter().any(|((_, ahead), _)| differs(*ahead, least)) {
            for (reading, file) in &mut readings {
                if let Some(file) = file {
                    let Some(exactly) = first_reading(file) else { continue };
                    *reading = exactly;
                }
            }
        }
        readings.sort_by_key(|((time, _), _)| *time);
        let mut epochs: Vec<Reading> = Vec::new();
        for (number, ((time, ahead), file)) in readings.iter().enumerate() {
            if epochs.last().is_none_or(|(_, before)| differs(*before, *ahead)) {
                // it may have been set after the end of a run that was killed
                epochs.push((*time, *ahead));
            }
            let next = readings.get(number + 1).map(|((_, ahead), _)| *ahead);
            if let Some(file) = file.filter(|_| next.is_some_and(|next| differs(*ahead, next))) {
                epochs.extend(steps(file).into_iter().take(MAX_STEPS.saturating_sub(epochs.len())));
            }
        }
        epochs.sort_by_key(|(time, _)| *time);
        epochs.dedup_by(|later, earlier| !differs(later.1, earlier.1));
        let pairs = epochs.iter().zip(epochs.iter().skip(1));
        // two that were read at once tell of no step between them
        let leaps = pairs.filter(|((begun, before), (time, after))| after > before && time > begun);
        let leaps =
            leaps.map(|((_, before), (time, after))| (time_at(*time, *before), time_at(*time, *after)));
        let leaps: Vec<(i64, i64)> = leaps.collect();
        let goes_back =
            epochs.iter().zip(epochs.iter().skip(1)).any(|((_, before), (_, after))| after < before);
        if !goes_back {
            return Course { end, leaps, ..Course::default() };
        }
        let mut floors: Vec<i64> = epochs.iter().map(|(_, ahead)| *ahead).collect();
        let mut least = i64::MAX;
        for floor in floors.iter_mut().rev() {
            least = least.min(*floor);
            *floor = least;
        }
        Course { epochs, floors, end, raised: RefCell::default(), leaps }
    }

    /// Where the clock was set forward: what it showed before and after. None of the time in between has passed.
    pub fn leaps(&self) -> &[(i64, i64)] {
        &self.leaps
    }

    /// Whether the clock is known to have been set back.
    pub fn is_set_back(&self) -> bool {
        !self.floors.is_empty() || !self.raised.borrow().is_empty()
    }

    /// By how much the clock was set back at most, nanoseconds; `None` if it was not.
    pub fn back(&self) -> Option<u64> {
        let pairs = self.epochs.iter().zip(self.epochs.iter().skip(1));
        let most = pairs.map(|((_, before), (_, after))| before.saturating_sub(*after)).max()?;
        u64::try_from(most).ok().filter(|_| self.is_set_back())
    }

    /// The even time of a monotonic time at which the machine's clock showed `wall`.
    pub fn even(&self, time: u64, wall: i64) -> i64 {
        let raised = self.raised.borrow();
        if self.floors.is_empty() && raised.is_empty() {
            return wall;
        }
        let ahead = ahead(time, wall);
        let place = self.epochs.partition_point(|(begun, _)| *begun <= time);
        // the least from then on; before the first reading, of all
        let floor = self.floors.get(place.saturating_sub(1)).copied().unwrap_or(i64::MAX);
        let low = if ahead.saturating_sub(floor) >= LEAST_STEP { floor } else { ahead };
        let raised =
            raised.iter().rev().find(|(from, _)| *from <= time).map_or(i64::MIN, |(_, ahead)| *ahead);
        time_at(time, low.max(raised))
    }

    /// Notes a step of the clock that was read. The step back is made up for if nothing announced it.
    pub fn note(&self, time: u64, step: Step) {
        let before = self.even(time.saturating_sub(1), step.from);
        let after = self.even(time, step.to);
        let mut raised = self.raised.borrow_mut();
        if before.saturating_sub(after) >= LEAST_STEP && raised.len() < MAX_STEPS {
            raised.push((time, ahead(time, before)));
        }
    }

    /// The even time of the last moment at which the machine's clock showed `wall`; `wall` itself if it never did. And
    /// whether it showed it at another moment, too.
    pub fn last_shown(&self, wall: i64) -> (i64, bool) {
        let mut next = self.end.saturating_add(1);
        let mut shown = self.epochs.iter().rev().filter_map(|(begun, ahead)| {
            let end = std::mem::replace(&mut next, *begun);
            let time = u64::try_from(wall.checked_sub(*ahead)?).ok()?;
            (*begun..end).contains(&time).then(|| self.even(time, wall))
        });
        match shown.next() {
            Some(even) => (even, shown.next().is_some()),
            None => (wall, false),
        }
    }
}

/// How much of the time from one moment to another of a clock has passed, which was set forward there: `leaps`, what it showed
/// before and after each step.
pub fn passed<'a>((from, to): (i64, i64), leaps: impl IntoIterator<Item = &'a (i64, i64)>) -> i64 {
    let skipped =
        leaps.into_iter().map(|(before, after)| (*after).min(to).saturating_sub((*before).max(from)).max(0));
    to.saturating_sub(from).saturating_sub(skipped.fold(0, i64::saturating_add))
}

fn ahead(time: u64, wall: i64) -> i64 {
    wall.wrapping_sub(time as i64)
}

fn time_at(time: u64, ahead: i64) -> i64 {
    ahead.saturating_add(time as i64)
}

fn reading(time: u64, wall: i64) -> Reading {
    (time, ahead(time, wall))
}

fn differs(one: i64, other: i64) -> bool {
    one.abs_diff(other) >= LEAST_STEP.unsigned_abs()
}

/// The steps of the clock within a segment, each as the reading after it.
fn steps(file: &SegmentFile) -> Vec<Reading> {
    let mut found = Vec::new();
    let mut steps = Steps::default();
    let Ok(scan) = Scan::one(file, Blocks::Definitions) else { return found };
    for part in scan {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            if let Fact::Clock(Clock { wall }) = event.fact {
                if steps.take(event.time, wall).is_some() && found.len() < MAX_STEPS {
                    found.push(reading(event.time, wall));
                }
            }
        }
    }
    found
}

/// The first reading of the clocks in a segment: the latest before it began, which its keyframe repeats.
fn first_reading(file: &SegmentFile) -> Option<Reading> {
    Scan::one(file, Blocks::Definitions).ok()?.find_map(|part| {
        let Part::Block(block) = part else { return None };
        block.events.iter().find_map(|event| match event.fact {
            Fact::Clock(Clock { wall }) if can_be_right(wall) => Some(reading(event.time, wall)),
            _ => None,
        })
    })
}

/// The last reading of the clocks in a segment, and the time of its last event.
fn last_reading(file: &SegmentFile) -> Option<(Reading, u64)> {
    let abouts = abouts(file)?;
    let last = abouts.iter().map(|about| about.last).max()?;
    let may_hold = abouts.iter().rev().filter(|about| {
        let counts = about.contents.as_ref().map(|contents| &contents.counts);
        about.defines && counts.is_none_or(|counts| counts.iter().any(|(kind, _)| *kind == CLOCK))
    });
    let chosen: Vec<u32> = may_hold.take(LAST_BLOCKS).map(|about| about.sequence).collect();
    let scan = Scan::one_choosing(
        file,
        Arc::new(move |about| match chosen.contains(&about.sequence) {
            true => Choice::Only(Arc::new(|_| false)),
            false => Choice::Skip,
        }),
    );
    let mut found = None;
    for part in scan.ok()? {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            if let Fact::Clock(Clock { wall }) = event.fact {
                if can_be_right(wall) {
                    found = found.max(Some(reading(event.time, wall)));
                }
            }
        }
    }
    Some((found?, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn course(epochs: &[(u64, i64)], end: u64) -> Course {
        let epochs: Vec<Reading> =
            epochs.iter().map(|(time, ahead)| (time * SECOND as u64, ahead * SECOND)).collect();
        let mut floors: Vec<i64> = epochs.iter().map(|(_, ahead)| *ahead).collect();
        let mut least = i64::MAX;
        for floor in floors.iter_mut().rev() {
            least = least.min(*floor);
            *floor = least;
        }
        Course { epochs, floors, end: end * SECOND as u64, ..Course::default() }
    }

    fn even(course: &Course, time: u64, wall: i64) -> i64 {
        course.even(time * SECOND as u64, wall * SECOND) / SECOND
    }

    #[test]
    fn what_was_before_the_clock_was_set_back_comes_before() {
        // an hour ahead until 100 s, then right
        let course = course(&[(0, 10_000), (100, 6400)], 200);
        assert_eq!(
            [even(&course, 90, 10_090), even(&course, 100, 6500), even(&course, 150, 6550)],
            [6490, 6500, 6550]
        );
        // shown twice, once, never
        let shown = |wall: i64| course.last_shown(wall * SECOND);
        assert_eq!(shown(10_050), (6450 * SECOND, false));
        assert_eq!(shown(6550), (6550 * SECOND, false));
        assert_eq!(shown(9000), (9000 * SECOND, false));
    }

    #[test]
    fn a_time_that_came_twice_is_the_later_one() {
        let course = course(&[(0, 10_000), (100, 9950)], 200);
        assert_eq!(course.last_shown(10_060 * SECOND), (10_060 * SECOND, true));
        assert_eq!(even(&course, 60, 10_060), 10_010, "the first one");
        assert_eq!(even(&course, 110, 10_060), 10_060, "the second one");
    }

    #[test]
    fn what_a_clock_skipped_has_not_passed() {
        let leaps = [(100, 160), (200, 205)];
        let told = [(0, 300), (0, 100), (90, 170), (110, 150), (150, 203)].map(|span| passed(span, &leaps));
        assert_eq!(told, [235, 100, 20, 0, 40]);
    }

    #[test]
    fn forward_steps_stay_as_they_were_shown() {
        let course = course(&[(0, 500), (50, 10_000), (100, 6400)], 200);
        assert_eq!(
            [even(&course, 10, 510), even(&course, 60, 10_060), even(&course, 120, 6520)],
            [510, 6460, 6520]
        );
    }

    #[test]
    fn a_step_that_nothing_announced_is_made_up_for() {
        let course = Course::default();
        assert_eq!(even(&course, 40, 1040), 1040);
        course.note(50 * SECOND as u64, Step { from: 1050 * SECOND, to: 850 * SECOND });
        assert_eq!(
            [even(&course, 49, 1049), even(&course, 50, 850), even(&course, 60, 860)],
            [1049, 1050, 1060]
        );
        course.note(70 * SECOND as u64, Step { from: 870 * SECOND, to: 2000 * SECOND });
        assert_eq!([even(&course, 69, 869), even(&course, 70, 2000)], [1069, 2000]);
    }
}
