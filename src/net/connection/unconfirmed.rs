//! A connection of which nothing shows that it exists: what its client has sent waits.

use super::{Connection, Shared};
use crate::net::awaited::Awaited;
use crate::net::packet::Segment;
use crate::net::protocol::{Protocol, Side, Unbelieved};

/// Distance of the sequence numbers of one connection that is captured in two places: what is under way between them. Two
/// connections are as near in both directions with a probability of 10^-8.
const ABOUT: u32 = 1 << 18;

impl<S> Connection<S> {
    /// From now on holds back what its client sends until its server shows itself.
    pub fn await_server(&mut self) {
        self.awaited = Some(Awaited::default());
    }

    /// Whether it waits for its server.
    pub fn awaits(&self) -> bool {
        self.awaited.is_some()
    }

    /// Bytes of memory that what waits takes.
    pub fn held_back(&self) -> usize {
        self.awaited.as_ref().map_or(0, Awaited::bytes)
    }

    /// Of the last segment that waits: its time, its end, and what it acknowledges.
    pub fn last_waiting(&self) -> Option<(u64, u32, Option<u32>)> {
        self.awaited.as_ref().and_then(Awaited::last)
    }

    /// Whether its sides are about at these sequence numbers: of the client's next byte, of the server's.
    pub fn is_at(&self, (client, server): (u32, u32)) -> bool {
        let waiting = self.last_waiting();
        let answers = self.stream_of(Side::Server);
        let known = [self.stream_of(Side::Client).end(), waiting.map(|(_, end, _)| end)];
        // a filter may leave out much of what a server sends, but its client acknowledges it
        let known_answers = [
            answers.end(),
            answers.last_acknowledged(),
            waiting.and_then(|(_, _, acknowledged)| acknowledged),
        ];
        let near = |known: &[Option<u32>], at: u32| {
            known.iter().flatten().any(|known| (known.wrapping_sub(at) as i32).unsigned_abs() <= ABOUT)
        };
        near(&known, client) && near(&known_answers, server)
    }

    /// Whether it has begun to wait since the last call.
    pub fn begins_to_await(&mut self) -> bool {
        std::mem::take(&mut self.begins_to_await) && self.awaits()
    }

    /// It exists: passes on what waits, as far as it fits what the server acknowledges.
    pub fn confirm<P: Protocol<Connection = S>>(
        &mut self,
        acknowledged: Option<u32>,
        shared: &mut Shared<P>,
    ) {
        let Some(mut awaited) = self.awaited.take() else { return };
        *shared.buffered = shared.buffered.saturating_sub(awaited.bytes());
        for held in awaited.take() {
            if held.fits(acknowledged) {
                self.segment(held.time, &held.segment(), shared);
            } else {
                shared.protocol.on_unbelieved(&mut self.state, held.time, Unbelieved::Data);
            }
        }
    }

    /// Holds back a segment of the client.
    pub(super) fn hold<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) {
        let Some(awaited) = &mut self.awaited else { return };
        if segment.length == 0 && !segment.fin {
            return;
        }
        self.begins_to_await |= awaited.bytes() == 0;
        let others = shared.buffered.saturating_sub(awaited.bytes());
        let room = shared.limits.buffered.min(shared.limits.all_buffered.saturating_sub(others));
        let gone = awaited.hold(time, segment, room);
        *shared.buffered = others + awaited.bytes();
        self.count_unconfirmed(gone, time, shared);
    }

    /// Drops what has waited since `before` or longer.
    pub(super) fn give_up_awaited<P: Protocol<Connection = S>>(
        &mut self,
        before: u64,
        now: u64,
        shared: &mut Shared<P>,
    ) {
        let Some(awaited) = self.awaited.as_mut().filter(|awaited| awaited.bytes() > 0) else { return };
        let others = shared.buffered.saturating_sub(awaited.bytes());
        let gone = awaited.drop_before(before);
        *shared.buffered = others + awaited.bytes();
        self.count_unconfirmed(gone, now, shared);
    }

    fn count_unconfirmed<P: Protocol<Connection = S>>(
        &mut self,
        count: u64,
        time: u64,
        shared: &mut Shared<P>,
    ) {
        for _ in 0..count {
            shared.protocol.on_unbelieved(&mut self.state, time, Unbelieved::Unconfirmed);
        }
        if count > 0 {
            shared.protocol.on_delivered(&mut self.state, Side::Client, time, shared.out);
        }
    }
}
