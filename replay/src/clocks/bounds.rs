//! How far one clock is ahead of another, from messages that both hosts saw.
//!
//! A message arrives after it was sent. So a message from A to B bounds how far B's clock can be ahead of A's: by no more
//! than B's time of arrival less A's time of sending. One from B to A bounds it from the other side. No delay is guessed,
//! so the truth lies between the bounds, and the middle is only the best guess.
//!
//! Clocks drift and are set. Messages within `WINDOW` are taken together, and each such window has bounds of its own;
//! the bounds of all are those that hold in each of them.

use crate::time::SECOND;
use std::collections::BTreeMap;

/// Messages within this time bound one difference, nanoseconds: few enough that clocks hardly drift meanwhile.
const WINDOW: i64 = 2 * SECOND as i64;
/// What two clocks drift apart in that time at the most: 100 millionths, as two bad quartzes do. Bounds are wider by this.
const DRIFT: i64 = WINDOW / 10_000;
/// Windows of two hosts that are kept: more than a day has. A bound for hostile logs.
const MAX_WINDOWS: usize = 20_000;
/// Windows whose bounds are wider than the narrowest by this factor say nothing new, and are left out.
const TIMES_WIDER: i64 = 4;

/// Bounds of how far a clock is ahead of another, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// By at least this; negative if it may be behind.
    pub least: i64,
    /// By at most this.
    pub most: i64,
}

impl Bounds {
    /// No difference at all.
    pub const NONE: Bounds = Bounds { least: 0, most: 0 };

    /// Bounds, if these are not contradictory.
    pub fn new(least: i64, most: i64) -> Option<Bounds> {
        (least <= most).then_some(Bounds { least, most })
    }

    /// The middle.
    pub fn middle(self) -> i64 {
        self.least.saturating_add(self.width() / 2)
    }

    /// Distance of the bounds.
    pub fn width(self) -> i64 {
        self.most.saturating_sub(self.least)
    }

    /// How far the other clock is ahead of this one.
    pub fn reversed(self) -> Bounds {
        Bounds { least: self.most.saturating_neg(), most: self.least.saturating_neg() }
    }

    /// How far a third clock is ahead of the first: it is ahead of the second by this.
    pub fn and(self, of_third: Bounds) -> Bounds {
        Bounds {
            least: self.least.saturating_add(of_third.least),
            most: self.most.saturating_add(of_third.most),
        }
    }
}

/// Bounds in a window, as far as there are any.
#[derive(Clone, Copy, Debug)]
struct Half {
    least: i64,
    most: i64,
}

impl Half {
    const NOTHING: Half = Half { least: i64::MIN, most: i64::MAX };

    fn take(&mut self, bound: Bound) {
        match bound {
            Bound::AtLeast(least) => self.least = self.least.max(least),
            Bound::AtMost(most) => self.most = self.most.min(most),
        }
    }

    fn bounds(self) -> Option<Bounds> {
        if self.least == i64::MIN || self.most == i64::MAX {
            return None;
        }
        Bounds::new(self.least.saturating_sub(DRIFT), self.most.saturating_add(DRIFT))
    }
}

/// What a message shows of how far a clock is ahead, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// No less.
    AtLeast(i64),
    /// No more.
    AtMost(i64),
}

/// The messages between two hosts.
#[derive(Debug, Default)]
pub struct Between {
    /// By window: bounds of the messages whose times are certain, and of all.
    windows: BTreeMap<i64, [Half; 2]>,
    /// Number of messages.
    messages: u64,
}

/// What they show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Bounds at all times.
    pub bounds: Bounds,
    /// The difference has changed by at least this, nanoseconds; 0 if it need not have changed.
    pub changed: i64,
    /// Number of messages that were compared.
    pub messages: u64,
}

impl Between {
    /// Takes what a message of this wall-clock time shows. `certain`: its times at both ends are those of the packet, not
    /// of a look into a process's memory that may have come before it.
    pub fn take(&mut self, wall: i64, bound: Bound, certain: bool) {
        let window = wall.div_euclid(WINDOW);
        if self.windows.len() >= MAX_WINDOWS && !self.windows.contains_key(&window) {
            return;
        }
        self.messages += 1;
        let [sure, all] = self.windows.entry(window).or_insert([Half::NOTHING; 2]);
        all.take(bound);
        if certain {
            sure.take(bound);
        }
    }

    /// What all messages show; `None` if there were none in one of the directions, or they contradict each other.
    pub fn difference(&self) -> Option<Difference> {
        let windows: Vec<Bounds> =
            self.windows.values().filter_map(|[sure, all]| all.bounds().or(sure.bounds())).collect();
        let messages = self.messages;
        let Some(narrowest) = windows.iter().map(|bounds| bounds.width()).min() else {
            // no window has both directions: of all together
            let mut whole = Half::NOTHING;
            for [_, all] in self.windows.values() {
                whole.take(Bound::AtLeast(all.least));
                whole.take(Bound::AtMost(all.most));
            }
            return Some(Difference { bounds: whole.bounds()?, changed: 0, messages });
        };
        let widest = narrowest.saturating_mul(TIMES_WIDER);
        let close = || windows.iter().filter(|bounds| bounds.width() <= widest);
        let bounds = Bounds {
            least: close().map(|bounds| bounds.least).min()?,
            most: close().map(|bounds| bounds.most).max()?,
        };
        let changed =
            close().map(|bounds| bounds.least).max()?.saturating_sub(close().map(|b| b.most).min()?);
        Some(Difference { bounds, changed: changed.max(0), messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn between(bounds: &[(i64, Bound)]) -> Option<Difference> {
        let mut between = Between::default();
        bounds.iter().for_each(|(second, bound)| between.take(second * SECOND as i64, *bound, true));
        between.difference()
    }

    #[test]
    fn both_directions_bound_a_difference() {
        use Bound::{AtLeast, AtMost};
        let found = between(&[(2, AtMost(7 * MS)), (3, AtLeast(3 * MS)), (3, AtMost(9 * MS))]).unwrap();
        assert_eq!(found.bounds, Bounds { least: 3 * MS - DRIFT, most: 7 * MS + DRIFT });
        assert_eq!((found.bounds.middle(), found.changed, found.messages), (5 * MS, 0, 3));
        assert_eq!(between(&[(1, AtMost(7 * MS))]), None, "one direction alone");
        assert_eq!(between(&[(0, AtMost(2 * MS)), (0, AtLeast(3 * MS))]), None, "contradictory");
        // in different windows
        let apart = between(&[(1, AtMost(7 * MS)), (99, AtLeast(3 * MS))]).unwrap();
        assert_eq!(apart.bounds, Bounds { least: 3 * MS - DRIFT, most: 7 * MS + DRIFT });
    }

    #[test]
    fn a_clock_that_was_set_shows() {
        use Bound::{AtLeast, AtMost};
        let found = between(&[
            (0, AtMost(7 * MS)),
            (1, AtLeast(5 * MS)),
            (50, AtMost(207 * MS)),
            (51, AtLeast(205 * MS)),
            // one that says little
            (90, AtMost(900 * MS)),
            (91, AtLeast(-900 * MS)),
        ])
        .unwrap();
        assert_eq!(found.bounds, Bounds { least: 5 * MS - DRIFT, most: 207 * MS + DRIFT });
        assert_eq!(found.changed, 198 * MS - 2 * DRIFT);
    }

    #[test]
    fn times_that_are_less_certain_yield_to_others() {
        let mut between = Between::default();
        between.take(0, Bound::AtLeast(5 * MS), true);
        between.take(0, Bound::AtMost(6 * MS), true);
        between.take(0, Bound::AtLeast(80 * MS), false);
        assert_eq!(
            between.difference().unwrap().bounds,
            Bounds { least: 5 * MS - DRIFT, most: 6 * MS + DRIFT }
        );
    }

    #[test]
    fn sums_and_extremes() {
        let one = Bounds { least: MS, most: 2 * MS };
        assert_eq!(one.and(one.reversed()), Bounds { least: -MS, most: MS });
        let far = Bounds { least: i64::MIN, most: i64::MAX };
        assert_eq!(far.and(far).reversed().width(), i64::MAX);
    }
}
