//! What speaks for a segment.

use super::Connection;
use crate::net::packet::Segment;
use crate::net::protocol::Side;
use crate::net::stream::Evidence;

/// Acknowledgements older than the last one by this much are those of segments that overtook each other.
const OLD_ACKNOWLEDGEMENT: u32 = 4 << 10;

/// The same as long as none has been seen: bytes that may have been under way when the connection was joined.
const UNDER_WAY: u32 = 256 << 10;

/// Bytes of the other side that may not have been captured yet, if an acknowledgement says so.
const UNSEEN: u32 = 1 << 20;

/// Highest tick rate of time stamps, per millisecond: most count milliseconds (RFC 7323 allows 1 ms to 1 s).
const TICKS: u64 = 2;

/// Acknowledgements older than the last one by more than this are refused: no receiver had so large a window.
const OLDEST_ACKNOWLEDGEMENT: i32 = 64 << 20;

/// Time for which a time stamp can be compared: they count to 2^31 in 24.8 days (RFC 7323, 5.5).
const STAMPS_LAST: u64 = 24 * 86_400 * 1_000_000_000;

/// Ticks by which segments may overtake each other, or be late.
const TICKS_AROUND: u64 = 10_000;

impl<S> Connection<S> {
    /// What speaks for a segment, beside its sequence number. `filtered`: what servers send is not captured as a whole.
    pub(super) fn evidence(&self, side: Side, time: u64, segment: &Segment, filtered: bool) -> Evidence {
        let mut by_acknowledgement = self.acknowledges(side.peer(), segment.acknowledged);
        if filtered && side == Side::Client && by_acknowledgement == Evidence::None {
            let last = self.from_server.stream.last_acknowledged();
            let grows = |ack: u32| last.is_none_or(|last| ack.wrapping_sub(last) as i32 >= 0);
            if segment.acknowledged.is_some_and(grows) {
                by_acknowledgement = Evidence::Likely;
            }
        }
        let Some((last, then)) = self.direction(side).stamp else { return by_acknowledgement };
        // Who sends time stamps sends them in every segment but resets.
        let Some(stamp) = segment.stamp() else { return Evidence::None };
        let most = time.saturating_sub(then) / 1_000_000 * TICKS + TICKS_AROUND;
        let ticks = i64::from(stamp.wrapping_sub(last) as i32);
        let fits = ticks >= -(TICKS_AROUND as i64) && ticks <= i64::try_from(most).unwrap_or(i64::MAX);
        match (fits, by_acknowledgement) {
            (true, _) => Evidence::Sure,
            (false, Evidence::Sure) => Evidence::Likely,
            (false, _) => Evidence::None,
        }
    }

    /// Whether a segment's receiver must drop it: it acknowledges nothing, or what was acknowledged long ago, or its time
    /// stamp is older than that of data that came before (RFC 9293, 3.10.7.4; RFC 7323, 5.3). Or takes other bytes than it
    /// has, or is signed: clients of the protocols here do neither.
    pub(super) fn is_refused(&self, side: Side, time: u64, segment: &Segment) -> bool {
        let Some(acknowledged) = segment.acknowledged.filter(|_| !segment.urgent && !segment.is_signed())
        else {
            return true;
        };
        let old = |before: u32| before.wrapping_sub(acknowledged) as i32 > OLDEST_ACKNOWLEDGEMENT;
        let stale = |(last, then): (u32, u64)| {
            time.saturating_sub(then) < STAMPS_LAST
                && segment.stamp().is_some_and(|stamp| (stamp.wrapping_sub(last) as i32) < 0)
        };
        self.stream_of(side.peer()).last_acknowledged().is_some_and(old)
            || self.direction(side).stamp.is_some_and(stale)
    }

    /// Whether an acknowledgement fits what this side has sent.
    pub(super) fn acknowledges(&self, side: Side, acknowledged: Option<u32>) -> Evidence {
        let stream = self.stream_of(side);
        let Some(acknowledged) = acknowledged else { return Evidence::None };
        let before = stream.last_acknowledged();
        let Some(end) = self.late_end(side).or(stream.end()).or(before) else { return Evidence::Likely };
        // the end of a stream is acknowledged like a byte
        let end = end.wrapping_add(stream.is_over().into());
        let least = match before {
            Some(before) => before.wrapping_sub(OLD_ACKNOWLEDGEMENT),
            None => stream.first().unwrap_or(end.wrapping_sub(UNDER_WAY)),
        };
        let above = acknowledged.wrapping_sub(least);
        // What was acknowledged may be more than what was captured.
        let ends = [Some(end), before].into_iter().flatten().map(|end| end.wrapping_sub(least));
        let most = ends.filter(|end| *end as i32 >= 0).max().unwrap_or(0);
        if above <= most {
            Evidence::Sure
        } else if above <= most.saturating_add(UNSEEN) {
            Evidence::Likely
        } else {
            Evidence::None
        }
    }
}
