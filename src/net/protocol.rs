//! A protocol above TCP, as [`Connections`](crate::net::connections::Connections) serves it.
//!
//! To add a protocol, implement [`Protocol`] in a room of its own, and add its
//! [`Decoder`](crate::net::decoder::Decoder) to the list in `src/protocols.rs`. `ca/` is the model. What protocols share
//! is here: [`Circuit`](crate::net::circuit::Circuit), [`Sides`](crate::net::sides::Sides),
//! [`Losses`](crate::net::losses::Losses).

use iocrec_log::event::{CircuitSide, CloseReason};

use crate::net::packet::{End, Segment};
use crate::net::served::{Owner, Served};
use crate::net::service::Service;
use crate::net::stream::Gap;
use crate::net::Namespace;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client, which opened the connection.
    Client,
    /// The server, which listened.
    Server,
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// How a connection became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Its opening was captured.
    Opened,
    /// It was joined mid-stream.
    MidStream,
    /// The recorder knew of it from elsewhere ([`Connections::adopt`](crate::net::connections::Connections::adopt)).
    Adopted,
}

/// A connection: its ends and how it became known.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The network namespace in which it was captured.
    pub namespace: Namespace,
    /// The client's end.
    pub client: End,
    /// The server's end.
    pub server: End,
    /// How it became known.
    pub start: Start,
    /// The recorded process that listens at the server's address, where that is certain.
    pub listener: Option<Owner>,
    /// Whether nothing has shown yet that a server of the protocol is at its port.
    pub is_guess: bool,
}

/// How a connection ended, as far as packets show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Both sides closed it, this one first.
    Finished(Side),
    /// This side closed it, and the other has not for a minute.
    HalfClosed(Side),
    /// One side closed it. Nothing of the other was captured, so it is not known which was first, or whether both did.
    OneSided,
    /// This side broke it off.
    Reset(Side),
    /// Another connection has begun between the same ends.
    Replaced,
    /// It counts in another namespace from now on, or its namespace is captured no longer.
    Elsewhere,
    /// It is open, but more are open than are kept.
    Forgotten,
}

impl Closing {
    /// How the log puts it, and the side that did it; `None` if the log has a fact of its own for it.
    pub fn reason(self) -> Option<(CloseReason, Option<CircuitSide>)> {
        let by = |side| match side {
            Side::Client => Some(CircuitSide::Client),
            Side::Server => Some(CircuitSide::Server),
        };
        Some(match self {
            Closing::Finished(first) => (CloseReason::Closed, by(first)),
            Closing::HalfClosed(first) => (CloseReason::HalfClosed, by(first)),
            Closing::OneSided => (CloseReason::Closed, None),
            Closing::Reset(side) => (CloseReason::Reset, by(side)),
            Closing::Replaced => (CloseReason::Replaced, None),
            Closing::Elsewhere => (CloseReason::NotCaptured, None),
            Closing::Forgotten => return None,
        })
    }
}

/// A segment that is not taken for what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbelieved {
    /// Data that neither follow what the side has sent nor fit what the other has. They are not delivered; if they turn
    /// out to be right they count as a gap as well.
    Data,
    /// Data that were sent before, with other bytes. The first ones count.
    Changed,
    /// A reset that does not have the sequence number that a reset must have.
    Reset,
    /// Data of a client on a connection of which its server has shown nothing: not even that it received them.
    Unconfirmed,
    /// The opening of a connection that is open already, and that goes on until the opening is answered.
    Opening,
    /// So many bytes that are delivered, but were captured too late: what the other side sent once it had them was delivered
    /// before.
    Late(u32),
}

/// Bytes of one segment, in order.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// The bytes; none if only their place is known.
    pub bytes: &'a [u8],
    /// Whether they begin their segment.
    pub starts: bool,
    /// Whether they end their segment.
    pub ends: bool,
    /// Number of bytes from the first of these to the first header, if the socket filter knows it.
    pub place: Option<u32>,
}

/// A protocol. It holds the state that all its connections share; `Connection` is that of one.
///
/// All times are in nanoseconds (monotonic). Those of one side's bytes and gaps never decrease. `Output` takes the
/// protocol's events.
pub trait Protocol {
    /// Its name, and its rule for the socket filter.
    const SERVICE: &'static Service;
    /// State of one connection.
    type Connection;
    /// Receives the events.
    type Output;

    /// A connection became known.
    fn on_open(&mut self, ends: &Ends) -> Self::Connection;

    /// The next byte of this side is the first of its stream: its SYN was captured.
    fn on_start(&mut self, connection: &mut Self::Connection, side: Side);

    /// The next bytes of a side.
    fn on_bytes(
        &mut self,
        connection: &mut Self::Connection,
        side: Side,
        time: u64,
        bytes: Bytes,
        out: &mut Self::Output,
    );

    /// Bytes of a side are missing here.
    fn on_gap(
        &mut self,
        connection: &mut Self::Connection,
        side: Side,
        time: u64,
        length: u32,
        cause: Gap,
        out: &mut Self::Output,
    );

    /// The server has received bytes of the client's that have not come here: what it sends may answer these.
    fn on_unseen(&mut self, _connection: &mut Self::Connection) {}

    /// Number of a side's next bytes that it does not need: if they are missing, nothing is lost.
    fn unneeded(&self, _connection: &Self::Connection, _side: Side) -> u64 {
        0
    }

    /// Everything that one segment or timeout made available has been delivered, the last at `time`; 0 if nothing was.
    fn on_delivered(
        &mut self,
        connection: &mut Self::Connection,
        side: Side,
        time: u64,
        out: &mut Self::Output,
    );

    /// The other side has received so many bytes of this side, which were left out before the connection ended, so that
    /// nothing that came after them tells of them.
    fn on_left_out(&mut self, _connection: &mut Self::Connection, _side: Side, _time: u64, _length: u64) {}

    /// The client's window was closed at `time`: it takes nothing more at present. Called for each segment that says so,
    /// and for the first that does no longer.
    fn on_window(
        &mut self,
        _connection: &mut Self::Connection,
        _time: u64,
        _is_closed: bool,
        _out: &mut Self::Output,
    ) {
    }

    /// The connection is over; nothing more is delivered to it.
    fn on_close(
        &mut self,
        connection: &mut Self::Connection,
        time: u64,
        closing: Closing,
        out: &mut Self::Output,
    );

    /// The number of a connection that is over, if it was told with one.
    fn number(&self, _connection: &Self::Connection) -> Option<u32> {
        None
    }

    /// A segment of the connection is not believed. To be counted.
    fn on_unbelieved(&mut self, connection: &mut Self::Connection, time: u64, what: Unbelieved);

    /// Bytes from a server's port that belong to no connection, since client and server can't be distinguished.
    fn on_unknown(&mut self, time: u64, length: u32, source: End, destination: End);

    /// Reports what is due by time alone. Called some times a second.
    fn on_tick(&mut self, now: u64, out: &mut Self::Output);

    /// Reports everything, when recording ends.
    fn on_finish(&mut self, now: u64, out: &mut Self::Output);

    /// Whether the connection has shown a message of the protocol. If so it is kept while it is open.
    fn is_recognized(&self, connection: &Self::Connection) -> bool;

    /// Whether the connection uses another protocol.
    fn is_foreign(&self, connection: &Self::Connection) -> bool;

    /// The side that sends a payload like this, if it can be determined.
    fn sender(&self, payload: &[u8]) -> Option<Side>;
}

/// A protocol's decoder, as the recorder drives it beside those of other protocols. `Output` takes all their events.
pub trait Decoder {
    /// Receives the events.
    type Output;

    /// Sets the servers of each network namespace whose packets are captured.
    fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut Self::Output);

    /// Sets the namespaces whose packets are captured; those that were not before, since that time.
    fn set_captured(&mut self, since: u64, namespaces: &[Namespace]);

    /// Whether the segment comes from or goes to a port of this protocol's servers.
    fn serves(&self, namespace: Namespace, segment: &Segment) -> bool;

    /// How certain it is that a segment with data is of this protocol: see
    /// [`Connections::claim`](crate::net::connections::Connections::claim).
    fn claim(&self, namespace: Namespace, segment: &Segment) -> u8;

    /// From now on, what a client is said to send on a connection whose opening was not seen waits for a sign that the
    /// connection exists.
    fn expect_confirmation(&mut self);

    /// The connections whose clients' data has begun to wait for that: namespace, client and server.
    fn take_unconfirmed(&mut self) -> Vec<(Namespace, End, End)>;

    /// This connection exists: the kernel has a socket for it.
    fn confirm(&mut self, namespace: Namespace, client: End, server: End, out: &mut Self::Output);

    /// Takes a segment that was captured at `time`.
    fn segment(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut Self::Output);

    /// Does the work that is due by time alone.
    fn tick(&mut self, now: u64, out: &mut Self::Output);

    /// Gives up all waiting, when recording ends.
    fn finish(&mut self, now: u64, out: &mut Self::Output);
}
