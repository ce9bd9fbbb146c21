//! One TCP connection: its two streams, its end, and what is believed of it. See [`connections`](crate::net::connections).

use crate::net::awaited::{Awaited, PATIENCE};
use crate::net::connections::Limits;
use crate::net::openings::Opening;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{Bytes, Closing, Protocol, Side, Unbelieved};
use crate::net::stream::{Arrival, Evidence, Gap, Piece, Stream, Verdict};
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;
/// Time to wait for the other side of a half-closed connection, and to distinguish late packets of a closed connection
/// from those of a new one. TCP itself usually waits a minute.
const LINGER: u64 = 60 * SECOND;
/// Time during which packets may still be under way after a reset.
const AFTER_RESET: u64 = 2 * SECOND;
/// Distance up to which a reset may be ahead of the data that came, if they are still to come.
const RESET_AHEAD: i32 = 1 << 20;
/// Acknowledgements older than the last one by this much are those of segments that overtook each other.
const OLD_ACKNOWLEDGEMENT: u32 = 4 << 10;
/// The same as long as none has been seen: bytes that may have been under way when the connection was joined.
const UNDER_WAY: u32 = 256 << 10;
/// Bytes of the other side that may not have been captured yet, if an acknowledgement says so.
const UNSEEN: u32 = 1 << 20;
/// Highest tick rate of time stamps, per millisecond: most count milliseconds (RFC 7323 allows 1 ms to 1 s).
const TICKS: u64 = 2;
/// Ticks by which segments may overtake each other, or be late.
const TICKS_AROUND: u64 = 10_000;

/// A connection. See the module.
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub namespace: Namespace,
    pub client: End,
    pub server: End,
    from_client: Direction,
    from_server: Direction,
    /// The protocol's state of the connection.
    pub state: S,
    /// What its client has sent while nothing shows that it exists; `None` once something has.
    awaited: Option<Awaited>,
    /// Whether it has just begun to wait.
    begins_to_await: bool,
    /// Time at which one side closed.
    half_closed: Option<(u64, Side)>,
    closed: Option<Closed>,
    /// Whether the client's window is closed.
    is_stalled: bool,
    /// Time of the last packet or adoption.
    pub last: u64,
    /// Time of the last adoption; 0 for never.
    pub adopted: u64,
}

#[derive(Debug, Default)]
struct Direction {
    stream: Stream,
    /// The sender's last time stamp, and when it came.
    stamp: Option<(u32, u64)>,
    /// A reset that must wait for data before it, and when it came.
    reset: Option<(u32, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    at: u64,
    reset: bool,
}

/// The parts of the table that a connection needs.
pub(super) struct Shared<'a, P: Protocol> {
    pub limits: &'a Limits,
    pub protocol: &'a mut P,
    pub buffered: &'a mut usize,
    pub out: &'a mut P::Output,
}

impl<S> Connection<S> {
    /// A connection of which nothing has been seen.
    pub fn new(namespace: Namespace, client: End, server: End, state: S) -> Connection<S> {
        Connection {
            namespace,
            client,
            server,
            from_client: Direction::default(),
            from_server: Direction::default(),
            state,
            awaited: None,
            begins_to_await: false,
            half_closed: None,
            closed: None,
            is_stalled: false,
            last: 0,
            adopted: 0,
        }
    }

    /// Its time of closing, if it is closed.
    pub fn closed_at(&self) -> Option<u64> {
        self.closed.map(|closed| closed.at)
    }

    /// From now on holds back what its client sends until its server shows itself.
    pub fn await_server(&mut self) {
        self.awaited = Some(Awaited::default());
    }

    /// Whether it waits for its server.
    pub fn awaits(&self) -> bool {
        self.awaited.is_some()
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
        let (source, destination) = (self.client, self.server);
        for held in awaited.take() {
            if held.fits(acknowledged) {
                self.segment(held.time, &held.segment(source, destination), shared);
            } else {
                shared.protocol.on_unbelieved(&mut self.state, held.time, Unbelieved::Data);
            }
        }
    }

    /// Holds back a segment of the client.
    fn hold<P: Protocol<Connection = S>>(&mut self, time: u64, segment: &Segment, shared: &mut Shared<P>) {
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
    fn give_up_awaited<P: Protocol<Connection = S>>(
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

    /// Whether no byte of it has been seen, and no opening.
    pub fn is_unseen(&self) -> bool {
        self.from_client.stream.next().is_none() && self.from_server.stream.next().is_none()
    }

    /// The stream of one side.
    pub fn stream_of(&self, side: Side) -> &Stream {
        &self.direction(side).stream
    }

    fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Client => &self.from_client,
            Side::Server => &self.from_server,
        }
    }

    fn direction_mut(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        }
    }

    fn sender(&self, segment: &Segment) -> Side {
        if segment.source == self.client {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Whether it is open, and this segment is the next of its side.
    pub fn expects(&self, segment: &Segment) -> bool {
        self.closed.is_none() && self.stream_of(self.sender(segment)).next() == Some(segment.sequence)
    }

    /// Whether a segment belongs to this connection, and not to another between the same ends: the one that `opening`
    /// began, or one whose opening was missed.
    pub fn takes(&self, time: u64, segment: &Segment, opening: Option<Opening>) -> bool {
        match (self.closed, opening) {
            (None, None) => true,
            (None, Some(_)) => self.is_unseen() && time <= self.adopted,
            (Some(_), Some(_)) => false,
            (Some(closed), None) => {
                let stream = self.stream_of(self.sender(segment));
                let recent = |most: u64| time.saturating_sub(closed.at) < most;
                let old = stream.next().is_some() && stream.ahead(segment.sequence) <= 0;
                recent(LINGER) && (old || closed.reset && recent(AFTER_RESET))
            }
        }
    }

    /// Begins with this opening.
    pub fn open<P: Protocol<Connection = S>>(&mut self, opening: Opening, protocol: &mut P) {
        self.start(Side::Client, opening.client, protocol);
        if let Some(server) = opening.server {
            self.start(Side::Server, server, protocol);
        }
    }

    /// One side's stream begins after this SYN.
    pub fn start<P: Protocol<Connection = S>>(&mut self, side: Side, syn: u32, protocol: &mut P) {
        self.direction_mut(side).stream.start(syn);
        protocol.on_start(&mut self.state, side);
    }

    /// What speaks for a segment, beside its sequence number. `filtered`: what servers send is not captured as a whole.
    fn evidence(&self, side: Side, time: u64, segment: &Segment, filtered: bool) -> Evidence {
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

    /// Whether an acknowledgement fits what this side has sent.
    fn acknowledges(&self, side: Side, acknowledged: Option<u32>) -> Evidence {
        let stream = self.stream_of(side);
        let Some(acknowledged) = acknowledged else { return Evidence::None };
        let before = stream.last_acknowledged();
        let Some(end) = stream.end().or(before) else { return Evidence::Likely };
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

    /// Takes a segment that is no opening and no reset.
    pub fn segment<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) {
        if self.closed.is_some() {
            return;
        }
        self.last = time;
        let side = self.sender(segment);
        if self.awaits() {
            if side == Side::Client {
                return self.hold(time, segment, shared);
            }
            self.confirm(segment.acknowledged, shared);
        }
        let expected = self.stream_of(side).next().is_none_or(|next| next == segment.sequence);
        let filtered = shared.limits.filtered;
        let evidence = if expected { Evidence::Sure } else { self.evidence(side, time, segment, filtered) };
        if evidence == Evidence::Sure {
            if let Some(sequence) = segment.acknowledged {
                self.deliver(side.peer(), shared, |stream, pieces| stream.acknowledged(sequence, pieces));
            }
            if let Some(stamp) = segment.stamp() {
                self.direction_mut(side).stamp = Some((stamp, time));
            }
            if side == Side::Client && (segment.closes_window || self.is_stalled) {
                self.is_stalled = segment.closes_window;
                shared.protocol.on_window(&mut self.state, time, self.is_stalled, shared.out);
            }
        }
        if segment.length > 0 || segment.fin {
            let unneeded = if expected { 0 } else { shared.protocol.unneeded(&self.state, side) };
            let arrival = Arrival {
                time,
                sequence: segment.sequence,
                bytes: segment.payload,
                length: segment.length,
                elided: segment.elided,
                fin: segment.fin,
                evidence,
                place: segment.place,
                // what a client sends matters too much: what the ring lost is not passed over in silence
                follows: segment.place.is_some() && side == Side::Server,
                unneeded,
                leaps: filtered && side == Side::Server,
            };
            let others = shared.buffered.saturating_sub(self.stream_of(side).buffered());
            let limits = shared.limits;
            let limit = limits.buffered.min(limits.all_buffered.saturating_sub(others));
            let verdict = self.deliver(side, shared, |stream, pieces| stream.segment(arrival, limit, pieces));
            let what = match verdict {
                Verdict::Taken => None,
                Verdict::Changed => Some(Unbelieved::Changed),
                Verdict::Unbelieved => Some(Unbelieved::Data),
            };
            if let Some(what) = what {
                shared.protocol.on_unbelieved(&mut self.state, time, what);
            }
        }
        let (client, server) = (self.from_client.stream.is_over(), self.from_server.stream.is_over());
        if client && server {
            // an end that waited for bytes before it, until this segment acknowledged them, came before this one
            let latest = if segment.fin { side.peer() } else { side };
            let (_, first) = self.half_closed.unwrap_or((time, latest));
            self.end(time, Closing::Finished(first), shared);
        } else if client || server {
            let first = if client { Side::Client } else { Side::Server };
            self.half_closed.get_or_insert((time, first));
        }
        if self.direction(side).reset.is_some() {
            self.reset_reached(side, time, shared);
        }
    }

    /// Changes one side's stream, and delivers the pieces that result.
    fn deliver<P: Protocol<Connection = S>, R>(
        &mut self,
        side: Side,
        shared: &mut Shared<P>,
        act: impl FnOnce(&mut Stream, &mut dyn FnMut(u64, Piece)) -> R,
    ) -> R {
        let Shared { limits, protocol, buffered, out } = shared;
        let filtered = limits.filtered && side == Side::Server;
        let stream = match side {
            Side::Client => &mut self.from_client.stream,
            Side::Server => &mut self.from_server.stream,
        };
        let state = &mut self.state;
        let mut latest = 0;
        let before = stream.buffered();
        let result = act(stream, &mut |time, piece| {
            latest = time;
            match piece {
                Piece::Bytes { bytes, starts, ends, place } => {
                    protocol.on_bytes(state, side, time, Bytes { bytes, starts, ends, place }, out);
                }
                Piece::Gap { length, cause: Gap::Lost } if filtered => {
                    protocol.on_gap(state, side, time, length, Gap::Unseen, out);
                }
                Piece::Gap { length, cause } => protocol.on_gap(state, side, time, length, cause, out),
                Piece::End => {}
            }
        });
        **buffered = buffered.saturating_sub(before) + stream.buffered();
        protocol.on_delivered(state, side, latest, out);
        result
    }

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
        let side = self.sender(segment);
        if side == Side::Server
            && self.awaited.as_ref().is_some_and(|held| held.is_refused_by(segment.sequence))
        {
            // the server has no such connection
            return self.give_up_awaited(time, time, shared);
        }
        let stream = self.stream_of(side);
        let sequence = Some(segment.sequence);
        let exact = [stream.next(), stream.end(), stream.last_acknowledged()].contains(&sequence);
        if exact {
            self.flush(shared);
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
    fn reset_reached<P: Protocol<Connection = S>>(&mut self, side: Side, time: u64, shared: &mut Shared<P>) {
        let direction = self.direction(side);
        let Some((sequence, came)) = direction.reset else { return };
        let next = direction.stream.next();
        if next == Some(sequence) {
            self.flush(shared);
            self.end(time, Closing::Reset(side), shared);
        } else if direction.stream.ahead(sequence) < 0 || time.saturating_sub(came) >= LINGER {
            self.direction_mut(side).reset = None;
        }
    }

    /// Gives up all missing bytes.
    pub fn flush<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        if self.closed.is_some() {
            return;
        }
        self.give_up_awaited(u64::MAX, self.last, shared);
        for side in [Side::Client, Side::Server] {
            self.deliver(side, shared, |stream, pieces| stream.flush(pieces));
        }
    }

    /// It is over.
    pub fn end<P: Protocol<Connection = S>>(&mut self, time: u64, closing: Closing, shared: &mut Shared<P>) {
        if self.closed.is_none() {
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
        if self.from_client.stream.buffered() + self.from_server.stream.buffered() > 0 {
            let before = now.saturating_sub(shared.limits.wait);
            for side in [Side::Client, Side::Server] {
                self.deliver(side, shared, |stream, pieces| stream.give_up_before(before, pieces));
                self.reset_reached(side, now, shared);
            }
        }
        if let Some((_, first)) = self.half_closed.filter(|(since, _)| old(*since)) {
            self.flush(shared);
            self.end(now, Closing::HalfClosed(first), shared);
        }
        // A connection that has shown no message is kept while it is busy: it may show one yet.
        let keep = shared.protocol.is_recognized(&self.state) || !old(self.last);
        if !keep {
            self.flush(shared);
        }
        keep
    }
}
