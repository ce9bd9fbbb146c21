//! The order of packets: those of all rings, by their times.
//!
//! A packet of one ring waits until every other ring has handed over all that is older: until that is empty, or hands over
//! something newer, or as long as a ring may keep a block to itself ([`handed_over`]).
//!
//! Whatever comes from servers, what clients send is taken out of its ring in time: while a slow machine passes on the bulk of
//! servers for longer than the other ring lasts, puts would be lost.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::net::capture::Packet;
use crate::net::protocol::Side;
use crate::net::ring::RETIRE;
use crate::net::tap::Tap;

/// Time within which the kernel hands over a packet of a ring whose blocks it hands over after so many milliseconds. It looks
/// after these whether a block is still the one of its last look, so it may take twice that; timers are late at times. A packet
/// does not wait for other rings any longer.
pub(super) fn handed_over(retire: u32) -> Duration {
    Duration::from_millis(u64::from(2 * retire.max(RETIRE) + 20))
}

/// Time within which the kernel has written a packet to all rings: it takes microseconds, unless the processor is taken
/// from it.
const WRITTEN: Duration = Duration::from_millis(5);

/// After so many packets the rings of what clients send are looked at: a slow machine takes a few milliseconds for them.
const OFTEN: usize = 64;

/// A round that lasts longer ends, for the sake of those who wait for their turn. They have rings, too.
const LONGEST: Duration = Duration::from_millis(250);

/// A ring without a packet.
const NONE: i64 = i64::MAX;

/// Passes on waiting packets with the index of their tap, at most what the rings hold, so that a flood can't hold the caller
/// for ever; keeps those that still wait. `behind` is how long they may wait.
pub(super) fn pass_on(taps: &mut [&mut Tap], behind: Duration, f: &mut dyn FnMut(usize, Packet)) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let before = |time: Duration| i64::try_from(now.saturating_sub(time).as_nanos()).unwrap_or(i64::MAX);
    let (old, written) = (before(behind), before(WRITTEN));
    taps.iter_mut().for_each(|tap| tap.look());
    let mut next: Vec<i64> = taps.iter_mut().map(|tap| tap.next().unwrap_or(NONE)).collect();
    let (begin, mut passed) = (Instant::now(), 0);
    while let Some((at, time)) = earliest(&next) {
        if !may_pass(taps, &next, time, old, written) {
            // rings that had nothing may have something by now
            let mut has_more = false;
            for (tap, next) in taps.iter_mut().zip(&mut next).filter(|(_, next)| **next == NONE) {
                *next = tap.next().unwrap_or(NONE);
                has_more |= *next != NONE;
            }
            if has_more {
                continue;
            }
            break;
        }
        if let (Some(tap), Some(next)) = (taps.get_mut(at), next.get_mut(at)) {
            tap.take(&mut |packet| f(at, packet));
            *next = tap.next().unwrap_or(NONE);
        }
        passed += 1;
        if passed % OFTEN == 0 {
            let now = Instant::now();
            let is_late = now.duration_since(begin) > LONGEST;
            for (tap, next) in taps.iter_mut().zip(&mut next).filter(|(tap, _)| tap.side() == Side::Client) {
                tap.make_room(now);
                *next = tap.next().unwrap_or(NONE);
            }
            if is_late {
                return;
            }
        }
    }
    taps.iter_mut().for_each(|tap| tap.hold(behind));
}

/// The ring with the earliest packet, and its time.
fn earliest(next: &[i64]) -> Option<(usize, i64)> {
    let (at, time) = next.iter().copied().enumerate().min_by_key(|(_, time)| *time)?;
    (time != NONE).then_some((at, time))
}

/// Whether the earliest packet needs to wait for no ring that has none, or can't wait.
fn may_pass(taps: &[&mut Tap], next: &[i64], time: i64, old: i64, written: i64) -> bool {
    let without = taps.iter().zip(next).filter(|(_, next)| **next == NONE);
    let mut others = without.map(|(tap, _)| tap);
    others.all(|tap| time <= tap.through().max(old) || time <= written && tap.is_idle())
        || taps.iter().any(|tap| tap.is_full())
}
