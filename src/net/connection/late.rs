//! Segments that acknowledge what has not come yet: it may only be late in the capture, since several processors write to it,
//! and one may be held up behind the time stamp that it gave. So what acknowledges it waits for a moment, and all that
//! follows: both sides stay in order, and a server's answer does not come before the request. What comes all the same after
//! that counts as lost, though it is decoded: the other side's decoder has not known what was answered.

use super::{Connection, Shared};
use crate::net::awaited::Awaited;
use crate::net::packet::Segment;
use crate::net::protocol::{Protocol, Side};
use crate::net::stream::Evidence;

/// Bytes of a server's stream from its beginning on, of which socket filters leave out little: they don't know it yet. Later it is
/// mostly they who leave out what is missing.
const BEGINNING: u32 = 4 << 10;

/// Bytes that may be late, at most: about a window.
const MOST: u32 = 4 << 20;

/// Time to wait, nanoseconds: the kernel hands over packets when they are up to 420 ms old.
const PATIENCE: u64 = 500_000_000;

/// What waits.
#[derive(Debug)]
pub(super) struct Late {
    /// The side of which bytes are missing, and where these end.
    side: Side,
    end: u32,
    /// Since when.
    since: u64,
    held: Awaited,
}

impl<S> Connection<S> {
    /// End of what waits of a side.
    pub(super) fn late_end(&self, side: Side) -> Option<u32> {
        let source = if side == Side::Client { self.client } else { self.server };
        self.late.as_ref()?.held.end_of(source)
    }

    /// Whether bytes of a side before this one are missing.
    fn misses<P: Protocol<Connection = S>>(&self, side: Side, end: u32, shared: &Shared<P>) -> bool {
        let stream = self.stream_of(side);
        let Some(next) = stream.next().filter(|_| !stream.is_over()) else { return false };
        let missing = end.wrapping_sub(next);
        (1..=MOST).contains(&missing) && u64::from(missing) > shared.protocol.unneeded(&self.state, side)
    }

    /// Whether a segment acknowledges bytes that may be late; where they end.
    fn awaits_late<P: Protocol<Connection = S>>(
        &self,
        time: u64,
        segment: &Segment,
        shared: &Shared<P>,
    ) -> Option<(Side, u32)> {
        let (missing, end) = (self.sender(segment).peer(), segment.acknowledged?);
        let stream = self.stream_of(missing);
        let came = || stream.first().zip(stream.next()).map(|(first, next)| next.wrapping_sub(first));
        let vain = self.direction(missing).vain;
        let may_come = match shared.limits.filtered && missing == Side::Server {
            true => vain.is_none() && came().is_some_and(|came| came <= BEGINNING),
            false => vain.is_none_or(|vain| end.wrapping_sub(vain) as i32 > 0),
        };
        let is_believed = || {
            let evidence = self.evidence(missing.peer(), time, segment, shared.limits.filtered);
            self.expects(segment) || evidence == Evidence::Sure
        };
        (may_come && self.misses(missing, end, shared) && is_believed()).then_some((missing, end))
    }

    /// How many of a side's next bytes, which begin here, were waited for in vain: then what answers them was taken before.
    pub(super) fn too_late(&mut self, side: Side, sequence: u32) -> u32 {
        let Some(vain) = &mut self.direction_mut(side).vain else { return 0 };
        let late = vain.wrapping_sub(sequence);
        if late as i32 > 0 {
            return late;
        }
        // it goes along, since numbers begin anew after 4 GiB
        *vain = sequence;
        0
    }

    /// Takes a segment, once what it acknowledges has come.
    pub(super) fn take_in_turn<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) {
        if !self.waits(time, segment, shared) {
            self.take_now(time, segment, shared);
            self.end_wait(shared);
        }
    }

    /// Whether a segment must wait; keeps it then.
    fn waits<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) -> bool {
        self.end_old_wait(time, shared);
        if self.late.is_none() {
            let Some((side, end)) = self.awaits_late(time, segment, shared) else { return false };
            self.late = Some(Box::new(Late { side, end, since: time, held: Awaited::default() }));
        }
        let is_of = self.sender(segment);
        let Some(late) = &mut self.late else { return false };
        if late.side == is_of && (segment.sequence.wrapping_sub(late.end) as i32) < 0 {
            return false;
        }
        let others = shared.buffered.saturating_sub(late.held.bytes());
        let room = shared.limits.buffered.min(shared.limits.all_buffered.saturating_sub(others));
        if late.held.is_full() || late.held.bytes() + segment.payload.len() > room {
            self.wait_no_longer(shared);
            return false;
        }
        late.held.hold(time, segment, usize::MAX);
        *shared.buffered = others + late.held.bytes();
        true
    }

    /// Takes what waits, if what was missing has come.
    fn end_wait<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        if self.late.as_ref().is_some_and(|late| !self.misses(late.side, late.end, shared)) {
            self.wait_no_longer(shared);
        }
    }

    /// Takes what has waited for long enough.
    pub(super) fn end_old_wait<P: Protocol<Connection = S>>(&mut self, now: u64, shared: &mut Shared<P>) {
        if self.late.as_ref().is_some_and(|late| now.saturating_sub(late.since) >= PATIENCE) {
            self.wait_no_longer(shared);
        }
    }

    /// Takes what waits, whatever is missing.
    pub(super) fn wait_no_longer<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        let Some(mut late) = self.late.take() else { return };
        *shared.buffered = shared.buffered.saturating_sub(late.held.bytes());
        let is_vain = self.misses(late.side, late.end, shared);
        if is_vain {
            self.direction_mut(late.side).vain = Some(late.end);
        }
        for held in late.held.take() {
            match is_vain {
                true => self.take_now(held.time, &held.segment(), shared),
                // more may be late
                false => self.take_in_turn(held.time, &held.segment(), shared),
            }
        }
    }
}
