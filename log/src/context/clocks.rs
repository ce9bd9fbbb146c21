//! Pairs of monotonic and wall time, and the conversion between the two.

use super::store::{Admission, Store};
use crate::clock::can_be_right;
use crate::event::Clock;
use std::collections::VecDeque;

/// Number of remembered pairs of clocks. The recorder notes one every few seconds to minutes, and lookups concern
/// events written at about the same time, so a few are enough; 64 cost 1 KiB.
const MAX_CLOCKS: usize = 64;

/// The latest pairs.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// In the order of noting: those that can be right, if there are any; otherwise all.
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

impl Clocks {
    /// See [`Context::clocks_at`](super::Context::clocks_at).
    pub fn at(&self, time: u64) -> Option<(u64, i64, u64)> {
        let place = self.pairs.iter().rposition(|(noted, _)| *noted <= time)?;
        // Times may have been noted in any order: only as long as no later pair is older.
        let next = self.pairs.iter().skip(place + 1).map(|(noted, _)| *noted).min().unwrap_or(u64::MAX);
        self.pairs.get(place).map(|(noted, wall)| (*noted, *wall, next))
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
