//! Pairs of monotonic and wall time, and what time it was by them.

use super::store::{Admission, Store};
use crate::clock::can_be_right;
use crate::event::Clock;
use std::collections::VecDeque;

/// How many pairs of clocks are remembered. The recorder notes one every few seconds to minutes, and
/// events are looked up near to when they were written, so a few are enough; 64 cost 1 KiB.
const MAX_CLOCKS: usize = 64;

/// The latest pairs.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// In the order in which they were noted: those that can be right, if there are any, else all.
    pairs: VecDeque<(u64, i64)>,
}

impl Clocks {
    /// Wall-clock time of a monotonic time; see [`Context::wall`](super::Context::wall).
    pub fn wall(&self, time: u64) -> Option<i64> {
        let before = self.pairs.iter().rev().find(|(noted, _)| *noted <= time);
        let &(noted, wall) = before.or(self.pairs.front())?;
        Some(wall.saturating_add(time.wrapping_sub(noted) as i64))
    }
}

impl Store for Clocks {
    type Of = Clock;

    fn begin(&mut self, time: u64, clock: &Clock, _: &mut Admission) {
        match self.pairs.back().map(|&(_, held)| can_be_right(held)) {
            Some(true) if !can_be_right(clock.wall) => return,
            Some(false) if can_be_right(clock.wall) => self.pairs.clear(),
            _ => {}
        }
        if self.pairs.len() == MAX_CLOCKS {
            self.pairs.pop_front();
        }
        self.pairs.push_back((time, clock.wall));
    }

    /// The latest pair, with its own time.
    fn again(&self, _: u64) -> impl Iterator<Item = (u64, Clock)> {
        self.pairs.back().map(|&(time, wall)| (time, Clock { wall })).into_iter()
    }
}
