//! The time of a recording that is made from capture files: that of the packets.
//!
//! Packets have the wall-clock time of the machine that captured them. The log's monotonic time begins as the same
//! number and never goes back. Where a capture's clock does (it was set while capturing, or a file follows that is
//! older), the monotonic time goes on and the wall clock's offset changes, as on a machine whose clock is set. Packets
//! of several interfaces are often out of order by some milliseconds; up to [`DISORDER`] they keep their times.
//!
//! While a pipe is silent, time passes as it does here, so that what waits for it gets on. Packets that come after that
//! keep their own times.
//!
//! Clones share one value: the log's thread asks it as well.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::poll::PollFd;

use crate::linux::clock::{Clock, System};

/// A packet may be this much older than the one before it, nanoseconds, and count as captured out of order.
pub const DISORDER: i64 = 1_000_000_000;
/// The monotonic time is at least this, nanoseconds: captures without times begin in 1970.
const FIRST: i64 = 1_000_000_000;

/// The time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic, nanoseconds.
    pub time: u64,
    /// By how much the capture's clock went back before it, nanoseconds, if it did.
    pub went_back: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Time of the latest packet; `None` before the first.
    packet: Option<i64>,
    /// Wall-clock time less monotonic time.
    offset: i64,
    /// The time shown.
    shown: i64,
    /// Monotonic time of what is being written to the log, and the wall clock's offset then.
    written: (i64, i64),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CaptureClock(Arc<Mutex<State>>);

impl CaptureClock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet has come with this wall-clock time; without one it counts as captured together with the one before.
    pub fn packet(&self, wall: Option<i64>) -> Moment {
        let mut state = self.state();
        let Some(latest) = state.packet else {
            let wall = wall.unwrap_or(FIRST);
            let time = wall.max(FIRST);
            let offset = wall.saturating_sub(time);
            *state = State { packet: Some(time), offset, shown: time, written: (time, offset) };
            return Moment { time: time.unsigned_abs(), went_back: None };
        };
        let Some(wall) = wall else { return Moment { time: latest.unsigned_abs(), went_back: None } };
        let mut time = wall.saturating_sub(state.offset);
        let mut went_back = None;
        if time < latest.saturating_sub(DISORDER) {
            went_back = Some(latest.abs_diff(time));
            time = latest;
            state.offset = wall.saturating_sub(latest);
        }
        // the first packets may be out of order, too
        time = time.max(0);
        state.packet = Some(latest.max(time));
        state.shown = state.shown.max(time);
        Moment { time: time.unsigned_abs(), went_back }
    }

    /// Nothing has come for this time.
    pub fn silent_for(&self, time: Duration) {
        let mut state = self.state();
        if let Some(packet) = state.packet {
            let time = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            state.shown = state.shown.max(packet.saturating_add(time));
        }
    }

    /// The monotonic time; 0 before the first packet.
    pub fn now(&self) -> u64 {
        self.state().shown.unsigned_abs()
    }

    /// What is written from now on is of this monotonic time or later. A change of the wall clock's offset applies to it.
    pub fn writing(&self, time: u64, offset: Option<i64>) {
        let mut state = self.state();
        let (latest, before) = state.written;
        state.written = (latest.max(i64::try_from(time).unwrap_or(i64::MAX)), offset.unwrap_or(before));
    }

    /// The wall clock's time of what is being written, nanoseconds since 1970. The packets may be far ahead of it.
    pub fn wall(&self) -> i64 {
        let (time, offset) = self.state().written;
        time.saturating_add(offset)
    }
}

impl Clock for CaptureClock {
    fn monotonic(&self) -> u64 {
        self.now()
    }

    fn wall_offset(&self) -> i64 {
        self.state().offset
    }

    fn monotonic_of_boot(&self, boot: u64) -> u64 {
        // no machine is recorded that has booted
        boot
    }

    fn wait(&self, descriptors: &mut [PollFd], longest: Duration) {
        if !descriptors.is_empty() {
            System.wait(descriptors, longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn never_back() {
        let clock = CaptureClock::default();
        assert_eq!((clock.now(), clock.wall()), (0, 0));
        let start = 1_400_000_000 * S;
        let seconds = |moment: Moment| (moment.time as i64 - start, moment.went_back);
        assert_eq!(seconds(clock.packet(Some(start))), (0, None));
        assert_eq!(seconds(clock.packet(Some(start + 5 * S))), (5 * S, None));
        assert_eq!(seconds(clock.packet(Some(start + 4 * S))), (4 * S, None), "out of order");
        assert_eq!(clock.now() as i64 - start, 5 * S);
        assert_eq!(seconds(clock.packet(None)), (5 * S, None));
        assert_eq!(seconds(clock.packet(Some(start + 2 * S))), (5 * S, Some(3 * S as u64)));
        assert_eq!((clock.wall(), clock.wall_offset()), (start, -3 * S), "nothing is written yet");
        clock.writing((start + 5 * S) as u64, Some(-3 * S));
        assert_eq!(clock.wall(), start + 2 * S);
        assert_eq!(seconds(clock.packet(Some(start + 3 * S))), (6 * S, None));
        clock.writing((start + 6 * S) as u64, None);
        assert_eq!(clock.wall(), start + 3 * S);
        clock.silent_for(Duration::from_secs(2));
        assert_eq!(clock.now() as i64 - start, 8 * S);
        assert_eq!(seconds(clock.packet(Some(start + 4 * S))), (7 * S, None), "its own time");
        assert_eq!(clock.now() as i64 - start, 8 * S, "never back");
    }

    #[test]
    fn times_that_cannot_be() {
        for first in [None, Some(0), Some(-5), Some(i64::MIN), Some(i64::MAX)] {
            let clock = CaptureClock::default();
            assert!(clock.packet(first).time >= FIRST as u64);
            let mut before = clock.now();
            for wall in [i64::MAX, i64::MIN, 0, -1, i64::MAX, 7] {
                let moment = clock.packet(Some(wall));
                assert!(moment.time + DISORDER as u64 >= before, "{wall}");
                assert!(clock.now() >= before);
                before = clock.now();
                clock.silent_for(Duration::MAX);
            }
        }
    }
}
