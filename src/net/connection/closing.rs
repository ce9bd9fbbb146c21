//! The end of a connection: resets, and time.

use super::{Closed, Connection, Shared, SECOND};
use crate::net::awaited::PATIENCE;
use crate::net::packet::Segment;
use crate::net::protocol::{Closing, Protocol, Side, Unbelieved};
use std::cmp::Ordering;

/// Time to wait for the other side of a half-closed connection, and to distinguish late packets of a closed connection
/// from those of a new one. TCP itself usually waits a minute.
pub(super) const LINGER: u64 = 60 * SECOND;

/// Time during which packets may still be under way after a reset.
pub(super) const AFTER_RESET: u64 = 2 * SECOND;

/// Distance up to which a reset may be ahead of the data that came, if they are still to come.
const RESET_AHEAD: i32 = 1 << 20;

impl<S> Connection<S> {
    /// Takes a reset. It counts at once if it has the sequence number that its receiver expects, or the end of what
    /// waits here for missing bytes; a little ahead, once the data before it have come.
    pub fn reset<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) {
        if self.closed.is_some() {
            return;
        }
        self.wait_no_longer(shared);
        let side = self.sender(segment);
        if side == Side::Server
            && self.awaited.as_ref().is_some_and(|held| held.is_refused_by(segment.sequence))
        {
            // the server has no such connection
            return self.give_up_awaited(time, time, shared);
        }
        let stream = self.stream_of(side);
        let sequence = segment.sequence;
        let exact = [stream.end(), stream.last_acknowledged()].contains(&Some(sequence));
        // after its end, too, of which the acknowledgement may not be captured
        if exact || stream.is_next(sequence) {
            if let Some(sequence) = segment.acknowledged {
                self.deliver(side.peer(), shared, |stream, pieces| stream.acknowledged(sequence, pieces));
            }
            self.give_up_missing(shared);
            self.end(time, Closing::Reset(side), shared);
            return;
        }
        let ahead = stream.ahead(segment.sequence);
        if stream.next().is_some() && (1..=RESET_AHEAD).contains(&ahead) {
            // At most one waits: a flood leaves the last.
            self.direction_mut(side).reset = Some((segment.sequence, time));
        }
        shared.protocol.on_unbelieved(&mut self.state, time, Unbelieved::Reset);
    }

    /// Ends the connection if the data before a waiting reset have come.
    pub(super) fn reset_reached<P: Protocol<Connection = S>>(
        &mut self,
        side: Side,
        time: u64,
        shared: &mut Shared<P>,
    ) {
        let direction = self.direction(side);
        let Some((sequence, came)) = direction.reset else { return };
        if direction.stream.is_next(sequence) {
            self.give_up_missing(shared);
            self.end(time, Closing::Reset(side), shared);
        } else if direction.stream.ahead(sequence) < 0 || time.saturating_sub(came) >= LINGER {
            self.direction_mut(side).reset = None;
        }
    }

    /// Gives up all missing bytes, and ends the connection if only they kept it open.
    pub fn flush<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        self.give_up_missing(shared);
        self.finish(shared);
    }

    /// Ends the connection if both sides have ended their streams: when the second end came, however long that waited here
    /// for bytes before it. The socket filter leaves out what a client has fetched last, and the acknowledgement of the
    /// server's end.
    pub(super) fn finish<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        match (self.from_client.ended, self.from_server.ended) {
            (Some(client), Some(server)) => {
                let first = match client.cmp(&server) {
                    Ordering::Less => Side::Client,
                    Ordering::Greater => Side::Server,
                    Ordering::Equal => self.half_closed.map_or(Side::Client, |(_, first)| first),
                };
                self.end(client.max(server), Closing::Finished(first), shared);
            }
            (Some(since), None) => self.half_closed = self.half_closed.or(Some((since, Side::Client))),
            (None, Some(since)) => self.half_closed = self.half_closed.or(Some((since, Side::Server))),
            (None, None) => {}
        }
    }

    /// Ends the connection if one side alone has ended its stream, so long ago.
    fn end_half_closed<P: Protocol<Connection = S>>(&mut self, now: u64, age: u64, shared: &mut Shared<P>) {
        let is_old = |since: u64| now.saturating_sub(since) >= age;
        if let Some((_, first)) = self.half_closed.filter(|(since, _)| is_old(*since)) {
            self.flush(shared);
            // a filter leaves out the other side's mere acknowledgements
            let is_captured = shared.limits.filtered || self.direction(first.peer()).is_captured;
            let closing = if is_captured { Closing::HalfClosed(first) } else { Closing::OneSided };
            self.end(now, closing, shared);
        }
    }

    /// Recording ends: nothing more comes. Who has not answered the other side's end for a second has not closed.
    pub fn finish_recording<P: Protocol<Connection = S>>(&mut self, now: u64, shared: &mut Shared<P>) {
        self.flush(shared);
        self.end_half_closed(now, SECOND, shared);
    }

    /// Whether all that waits of a side is believed in time: of a client, whose address others may use, once the server has
    /// ended, too.
    fn trusts(&self, side: Side) -> bool {
        side == Side::Server || self.from_server.ended.is_some()
    }

    fn give_up_missing<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        if self.closed.is_some() {
            return;
        }
        self.give_up_awaited(u64::MAX, self.last, shared);
        self.wait_no_longer(shared);
        for side in [Side::Client, Side::Server] {
            let all = self.trusts(side);
            self.deliver(side, shared, |stream, pieces| stream.flush(all, pieces));
        }
    }

    /// It is over.
    pub fn end<P: Protocol<Connection = S>>(&mut self, time: u64, closing: Closing, shared: &mut Shared<P>) {
        if self.closed.is_none() {
            let left_out = match closing {
                // the client's end acknowledges what it has received
                Closing::Finished(_) | Closing::Reset(Side::Client) if shared.limits.filtered => {
                    self.from_server.stream.received_beyond()
                }
                _ => 0,
            };
            if left_out > 0 {
                shared.protocol.on_left_out(&mut self.state, Side::Server, time, left_out.into());
            }
            self.closed = Some(Closed { at: time, reset: matches!(closing, Closing::Reset(_)) });
            shared.protocol.on_close(&mut self.state, time, closing, shared.out);
        }
    }

    /// Does the work that is due; false if the connection can be forgotten.
    pub fn tick<P: Protocol<Connection = S>>(&mut self, now: u64, shared: &mut Shared<P>) -> bool {
        let old = |since: u64| now.saturating_sub(since) >= LINGER;
        if let Some(closed) = self.closed {
            return !old(closed.at);
        }
        self.give_up_awaited(now.saturating_sub(PATIENCE), now, shared);
        self.end_old_wait(now, shared);
        if self.from_client.stream.buffered() + self.from_server.stream.buffered() > 0 {
            let before = now.saturating_sub(shared.limits.wait);
            for side in [Side::Client, Side::Server] {
                let all = self.trusts(side);
                self.deliver(side, shared, |stream, pieces| stream.give_up_before(before, all, pieces));
                self.reset_reached(side, now, shared);
            }
            self.finish(shared);
        }
        self.end_half_closed(now, LINGER, shared);
        // A connection that has shown no message is kept while it is busy: it may show one yet.
        let keep = shared.protocol.is_recognized(&self.state) || !old(self.last);
        if !keep {
            self.flush(shared);
        }
        keep
    }
}
