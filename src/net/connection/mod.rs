//! One TCP connection: its two streams, its end, and what is believed of it. See [`connections`](crate::net::connections).

mod closing;
mod evidence;
mod late;
mod unconfirmed;

use crate::net::awaited::Awaited;
use crate::net::connections::Limits;
use crate::net::openings::Opening;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{Bytes, Protocol, Side, Unbelieved};
use crate::net::stream::{Arrival, Evidence, Gap, Piece, Stream, Verdict};
use crate::net::Namespace;

use closing::{AFTER_RESET, LINGER};

const SECOND: u64 = 1_000_000_000;

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
    /// What came before what it acknowledges.
    late: Option<Box<late::Late>>,
    /// Whether it has just begun to wait.
    begins_to_await: bool,
    /// Time at which one side closed.
    half_closed: Option<(u64, Side)>,
    closed: Option<Closed>,
    /// Whether the client's window is closed.
    is_stalled: bool,
    /// Time of the first data, if its opening was captured; else 0.
    pub began: u64,
    /// Time of the last packet or adoption.
    pub last: u64,
    /// Time of the last adoption; 0 for never.
    pub adopted: u64,
    /// No other namespace has a copy of it any more.
    pub is_alone: bool,
    /// It was not compared with the others, since too many were.
    pub is_uncompared: bool,
}

#[derive(Debug, Default)]
struct Direction {
    stream: Stream,
    /// The sender's time stamp in the last segment that was expected, and when it came.
    stamp: Option<(u32, u64)>,
    /// A reset that must wait for data before it, and when it came.
    reset: Option<(u32, u64)>,
    /// When its end came, once all before it has come or was given up.
    ended: Option<u64>,
    /// Whether any segment of it was captured.
    is_captured: bool,
    /// Bytes before this one were waited for in vain.
    vain: Option<u32>,
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
            late: None,
            begins_to_await: false,
            half_closed: None,
            closed: None,
            is_stalled: false,
            began: 0,
            last: 0,
            adopted: 0,
            is_alone: false,
            is_uncompared: false,
        }
    }

    /// Its time of closing, if it is closed.
    pub fn closed_at(&self) -> Option<u64> {
        self.closed.map(|closed| closed.at)
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
        let direction = self.direction_mut(side);
        direction.stream.start(syn);
        direction.ended = None;
        protocol.on_start(&mut self.state, side);
    }

    /// What its client has sent was told up to where this stream of a copy has come to, if nothing of it has been seen here.
    pub fn resume(&mut self, told: Option<&Stream>) {
        if let Some(copy) = told.filter(|_| self.is_unseen()) {
            self.from_client.stream.resume(copy);
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
        self.direction_mut(side).is_captured = true;
        if self.awaits() {
            if side == Side::Client {
                return self.hold(time, segment, shared);
            }
            self.confirm(segment.acknowledged, shared);
        }
        self.take_in_turn(time, segment, shared);
    }

    /// Takes a segment now.
    fn take_now<P: Protocol<Connection = S>>(
        &mut self,
        time: u64,
        segment: &Segment,
        shared: &mut Shared<P>,
    ) {
        if self.closed.is_some() {
            return;
        }
        let side = self.sender(segment);
        let expected = self.stream_of(side).next().is_none_or(|next| next == segment.sequence);
        let filtered = shared.limits.filtered;
        let refused = self.is_refused(side, time, segment);
        let evidence = match (expected, refused) {
            (true, false) => Evidence::Sure,
            (_, false) => self.evidence(side, time, segment, filtered),
            (_, true) => self.evidence(side, time, segment, filtered).min(Evidence::Likely),
        };
        if evidence == Evidence::Sure {
            // a time stamp says nothing of what is acknowledged
            let is_known = expected || self.acknowledges(side.peer(), segment.acknowledged) != Evidence::None;
            if let Some(sequence) = segment.acknowledged.filter(|_| is_known) {
                self.deliver(side.peer(), shared, |stream, pieces| stream.acknowledged(sequence, pieces));
                if side == Side::Server && self.stream_of(Side::Client).ahead(sequence) > 0 {
                    shared.protocol.on_unseen(&mut self.state);
                }
            }
            if let Some(stamp) = segment.stamp().filter(|_| expected) {
                self.direction_mut(side).stamp = Some((stamp, time));
            }
            if side == Side::Client && (segment.closes_window || self.is_stalled) {
                self.is_stalled = segment.closes_window;
                shared.protocol.on_window(&mut self.state, time, self.is_stalled, shared.out);
            }
        }
        if expected && segment.length > 0 {
            // what of it was cut is missing anyway
            let late = self.too_late(side, segment.sequence).min(segment.payload.len() as u32);
            if late > 0 {
                shared.protocol.on_unbelieved(&mut self.state, time, Unbelieved::Late(late));
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
                refused,
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
        self.finish(shared);
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
        let (mut latest, mut ended) = (0, None);
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
                Piece::End => ended = Some(time),
            }
        });
        **buffered = buffered.saturating_sub(before) + stream.buffered();
        protocol.on_delivered(state, side, latest, out);
        if ended.is_some() {
            self.direction_mut(side).ended = ended;
        }
        result
    }
}
