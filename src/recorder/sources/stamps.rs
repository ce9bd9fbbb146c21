//! When a packet passed: the kernel's stamp has the wall clock's time, the log monotonic ones.
//!
//! Promises: no time is later than the moment at which it is asked for. A packet that passes while earlier ones are taken keeps its
//! own time, however long that lasts: the recorder may have to wait for a processor meanwhile. Else an answer would come
//! before what it answers had been done. The clock is read once for all packets that passed before.

use crate::linux::clock::Clock;

/// See the module.
pub(super) struct Stamps<'a> {
    clock: &'a dyn Clock,
    /// Offset from a monotonic time to the wall clock's, nanoseconds.
    offset: i64,
    /// When the clock was last read, monotonic.
    now: u64,
}

impl<'a> Stamps<'a> {
    /// `now`: when the clock was last read.
    pub fn new(clock: &'a dyn Clock, offset: i64, now: u64) -> Stamps<'a> {
        Stamps { clock, offset, now }
    }

    /// The monotonic time of a stamp; now, if there is none.
    pub fn time(&mut self, wall: Option<i64>) -> u64 {
        let stamp = wall.and_then(|wall| u64::try_from(wall.saturating_sub(self.offset)).ok());
        let Some(time) = stamp else { return self.now };
        if time > self.now {
            self.now = self.clock.monotonic().max(self.now);
        }
        time.min(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing::FakeClock;

    #[test]
    fn what_passes_while_earlier_packets_are_taken_keeps_its_time() {
        let clock = FakeClock::default();
        clock.monotonic.set(1_000);
        let mut stamps = Stamps::new(&clock, 50_000, 1_000);
        assert_eq!(stamps.time(Some(50_900)), 900);
        // the recorder has waited for a processor
        clock.monotonic.set(5_000);
        assert_eq!(stamps.time(Some(52_000)), 2_000);
        assert_eq!(stamps.time(Some(54_000)), 4_000);
        assert_eq!(stamps.time(Some(51_500)), 1_500, "out of order");
        // the wall clock was set forward meanwhile
        assert_eq!(stamps.time(Some(99_000)), 5_000, "none is of the future");
        assert_eq!(stamps.time(None), 5_000);
        assert_eq!(
            (stamps.time(Some(7)), stamps.time(Some(i64::MIN))),
            (5_000, 5_000),
            "nor from before the start"
        );
    }
}
