//! Decides when hits have ceased, so that the loop need not look for them but is woken by the next one.
//!
//! To be woken costs the IOC a microsecond or two, and the recorder two rounds: that in which it is woken, and the next
//! one, which takes the rest of the burst. So hits that come again and again are looked for in every round instead.

use crate::recorder::sources::ROUND;

/// Rounds without a hit after which the loop rests: at first, and at most.
const FEWEST: u32 = 1;
const MOST: u32 = 10;
/// If a hit ends a rest earlier than this, nanoseconds, it was not worth it.
const SHORT: u64 = (ROUND.as_nanos() * MOST as u128) as u64;

/// See the module.
#[derive(Debug)]
pub struct Calm {
    /// Rounds without a hit, the latest ones.
    empty: u32,
    /// Number of them after which the loop rests.
    enough: u32,
    /// Time when the last rest began, until a hit ends it.
    since: Option<u64>,
    /// Time of the last round that was counted.
    counted: u64,
}

impl Default for Calm {
    fn default() -> Calm {
        Calm { empty: 0, enough: FEWEST, since: None, counted: 0 }
    }
}

impl Calm {
    /// Notes a round: whether there were hits in it.
    pub fn took(&mut self, any: bool, now: u64) {
        if !any {
            // rounds follow each other at once when other work is due
            if now.saturating_sub(self.counted) >= ROUND.as_nanos() as u64 / 2 {
                self.empty = self.empty.saturating_add(1);
                self.counted = now;
            }
            return;
        }
        (self.empty, self.counted) = (0, now);
        if let Some(since) = self.since.take() {
            let was_short = now.saturating_sub(since) < SHORT;
            self.enough = if was_short { (self.enough * 2).min(MOST) } else { FEWEST };
        }
    }

    /// Whether the loop may rest.
    pub fn is_calm(&self) -> bool {
        self.empty >= self.enough
    }

    /// Notes that the loop rests until the next hit.
    pub fn rests(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Rounds of a second in which hits come every `period` milliseconds, at first after a rest: those that the timer
    /// began, and those that a hit began.
    fn rounds(period: u64) -> (u32, u32) {
        let (mut calm, round) = (Calm::default(), ROUND.as_millis() as u64);
        let (mut timed, mut woken, mut now, mut next) = (0, 0, 0, 0);
        let seconds = 20;
        while now < seconds * 1000 {
            let any = next <= now;
            next += if any { period.max(1) * ((now - next) / period.max(1) + 1) } else { 0 };
            calm.took(any, now * MILLISECOND);
            if calm.is_calm() {
                calm.rests(now * MILLISECOND);
                now = next.max(now);
                woken += 1;
            } else {
                now += round;
                timed += 1;
            }
        }
        (timed / seconds as u32, woken / seconds as u32)
    }

    #[test]
    fn rare_hits_wake_and_frequent_ones_are_looked_for() {
        let (timed, woken) = rounds(1000);
        assert!(timed + woken <= 3 && woken == 1, "{timed} and {woken}");
        for period in [1, 10, 49, 60, 100, 200, 400] {
            let (timed, woken) = rounds(period);
            assert!((19..=20).contains(&timed) && woken == 0, "{period} ms: {timed} and {woken}");
        }
    }

    #[test]
    fn a_round_that_follows_at_once_does_not_count() {
        let mut calm = Calm::default();
        calm.took(true, 100 * MILLISECOND);
        calm.took(false, 101 * MILLISECOND);
        assert!(!calm.is_calm());
        calm.took(false, 151 * MILLISECOND);
        assert!(calm.is_calm());
        calm.took(true, 152 * MILLISECOND);
        assert!(!calm.is_calm());
    }

    #[test]
    fn after_a_long_rest_it_rests_soon_again() {
        let mut calm = Calm::default();
        let mut now = 0;
        let mut after = |calm: &mut Calm, rest: u64| {
            calm.rests(now);
            now += rest * MILLISECOND;
            calm.took(true, now);
            let mut rounds = 0;
            while !calm.is_calm() {
                now += ROUND.as_nanos() as u64;
                calm.took(false, now);
                rounds += 1;
            }
            rounds
        };
        assert_eq!([1, 50, 400, 499, 100].map(|rest| after(&mut calm, rest)), [2, 4, 8, 10, 10]);
        assert_eq!(after(&mut calm, 500), 1);
    }
}
