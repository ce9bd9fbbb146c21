//! The clocks that events are timed by.

use std::time::Duration;

use nix::time::{clock_gettime, ClockId};

fn nanoseconds(clock: ClockId) -> i64 {
    // these clocks exist on every kernel; zero would only misplace an event
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as i64)
}

/// CLOCK_MONOTONIC, nanoseconds: what bpf_ktime_get_ns() reads.
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC).unsigned_abs()
}

/// What is to be added to the monotonic time for nanoseconds since 1970.
pub fn wall_offset() -> i64 {
    // The best of three: a preemption between the two reads would look like a step of the clock.
    let read = || {
        let before = nanoseconds(ClockId::CLOCK_MONOTONIC);
        let wall = nanoseconds(ClockId::CLOCK_REALTIME);
        let after = nanoseconds(ClockId::CLOCK_MONOTONIC);
        (after - before, wall - (before + (after - before) / 2))
    };
    [read(), read(), read()].iter().min().map_or(0, |best| best.1)
}

/// Seconds east of UTC of local time now.
pub fn utc_offset() -> i32 {
    // its type is the C library's: 32 bits in some
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| time.tv_sec());
    // SAFETY: a tm of zeroes is a valid one (its zone pointer may be NULL).
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; localtime_r writes only the second.
    unsafe { libc::localtime_r(&now, &mut local) };
    i32::try_from(local.tm_gmtoff).unwrap_or(0)
}
