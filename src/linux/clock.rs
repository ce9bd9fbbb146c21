//! The clocks that time events.
//!
//! The recorder's core asks a [`Clock`], which tests replace with one that they set; helper threads and the kernel's
//! side of the buffers use the functions.

use std::time::Duration;

use nix::poll::{poll, PollFd, PollTimeout};
use nix::time::{clock_gettime, ClockId};

/// The machine's time, and waiting for time to pass.
pub trait Clock {
    /// CLOCK_MONOTONIC, nanoseconds.
    fn monotonic(&self) -> u64;

    /// Add this to the monotonic time to get nanoseconds since 1970.
    fn wall_offset(&self) -> i64;

    /// The monotonic time of a moment given in nanoseconds after boot: see [`monotonic_of_boot`].
    fn monotonic_of_boot(&self, boot: u64) -> u64;

    /// Waits until one of the descriptors is readable, at most for `longest`. The descriptors' `revents` show which.
    fn wait(&self, descriptors: &mut [PollFd], longest: Duration);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Clock for System {
    fn monotonic(&self) -> u64 {
        monotonic()
    }

    fn wall_offset(&self) -> i64 {
        wall_offset()
    }

    fn monotonic_of_boot(&self, boot: u64) -> u64 {
        monotonic_of_boot(boot)
    }

    fn wait(&self, descriptors: &mut [PollFd], longest: Duration) {
        // interrupted by a signal, or out of memory: either way the caller looks at everything
        // whole milliseconds, rounded up: a wait that is cut short would be followed by others of no time at all
        let whole = longest.as_nanos().div_ceil(1_000_000);
        let _ = poll(descriptors, PollTimeout::try_from(whole).unwrap_or(PollTimeout::MAX));
    }
}

fn nanoseconds(clock: ClockId) -> i64 {
    // these clocks exist on every kernel; zero would only misplace an event
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as i64)
}

/// CLOCK_MONOTONIC, nanoseconds: what bpf_ktime_get_ns() reads.
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC).unsigned_abs()
}

/// Whether the clocks of this program, or of what it starts, are not the kernel's own, by which the kernel stamps what it
/// tells: in a time namespace they may be ahead or behind (time_namespaces(7)).
pub fn is_set_apart() -> bool {
    // a line for each clock: its name, seconds, nanoseconds; missing before Linux 5.6
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    offsets.lines().any(|line| line.split_ascii_whitespace().skip(1).any(|number| number != "0"))
}

/// Processor time that this thread has used, nanoseconds.
pub fn thread() -> u64 {
    nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID).unsigned_abs()
}

/// The monotonic time of a moment given in nanoseconds after boot, suspended time included, as in /proc's start times
/// of processes. Too early if the machine has been suspended since; by how much is unknown.
pub fn monotonic_of_boot(boot: u64) -> u64 {
    let ahead = nanoseconds(ClockId::CLOCK_BOOTTIME).saturating_sub(nanoseconds(ClockId::CLOCK_MONOTONIC));
    boot.saturating_sub(ahead.unsigned_abs())
}

/// Time that the machine has been suspended since it started, nanoseconds: the difference of two clocks that are read one
/// after the other, so it may be too large by what came between.
pub fn suspended() -> u64 {
    let monotonic = nanoseconds(ClockId::CLOCK_MONOTONIC);
    nanoseconds(ClockId::CLOCK_BOOTTIME).saturating_sub(monotonic).max(0).unsigned_abs()
}

/// Add this to the monotonic time to get nanoseconds since 1970.
pub fn wall_offset() -> i64 {
    // The best of three: preemption between the two reads would look like a step of the clock.
    let read = || {
        let before = nanoseconds(ClockId::CLOCK_MONOTONIC);
        let wall = nanoseconds(ClockId::CLOCK_REALTIME);
        let after = nanoseconds(ClockId::CLOCK_MONOTONIC);
        (after - before, wall - (before + (after - before) / 2))
    };
    [read(), read(), read()].iter().min().map_or(0, |best| best.1)
}

/// Current offset of local time from UTC, seconds; positive to the east.
pub fn utc_offset() -> i32 {
    i32::try_from(local(nanoseconds(ClockId::CLOCK_REALTIME)).tm_gmtoff).unwrap_or(0)
}

/// Calendar date and time in the local time zone, from nanoseconds since 1970.
#[allow(clippy::useless_conversion)] // on some machines nothing is converted
fn local(wall: i64) -> libc::tm {
    // a 32-bit time_t cannot hold years after 2038
    let time = wall.div_euclid(1_000_000_000).try_into().unwrap_or(0);
    // SAFETY: an all-zero tm is valid (its zone pointer may be NULL).
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; localtime_r writes only the second.
    unsafe { libc::localtime_r(&time, &mut local) };
    local
}

/// Nanoseconds since 1970 as ISO 8601 in local time, to the second.
pub fn iso(wall: i64) -> String {
    iso_with(wall, "")
}

/// The same, to the nanosecond.
pub fn iso_nanoseconds(wall: i64) -> String {
    iso_with(wall, &format!(".{:09}", wall.rem_euclid(1_000_000_000)))
}

fn iso_with(wall: i64, fraction: &str) -> String {
    let local = local(wall);
    let minutes = local.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{sign}{:02}:{:02}",
        i64::from(local.tm_year) + 1900,
        local.tm_mon + 1,
        local.tm_mday,
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        minutes.abs() / 60,
        minutes.abs() % 60
    )
}
