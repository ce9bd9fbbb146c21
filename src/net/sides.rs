//! The two directions of a connection, cut into messages, and what can't be.

use crate::net::protocol::Side;
use crate::net::stream::Gap;

/// Bytes without a message after which a connection that was joined mid-stream, and has never shown a message, counts
/// as something of another protocol. It is still inspected.
const FOREIGN_AFTER: u64 = 64 << 10;

/// How many bytes are missing at least in a gap that seems to have this length. Where a stream went back, since it had gone on
/// at what was not its sender's, or has come round, the length says only that.
pub fn at_least(length: u64) -> u64 {
    if length > i32::MAX as u64 {
        1
    } else {
        length
    }
}

/// Cuts one direction into a protocol's messages.
pub trait Direction {
    /// The next byte is the first of the stream.
    fn start(&mut self);

    /// The first byte of the stream, if it begins with something else than the protocol.
    fn foreign(&self) -> Option<u8>;

    /// Bytes that could not be framed, and gaps that mattered, since the last call.
    fn take_lost(&mut self) -> u64;

    /// Number of the next bytes that are not needed: if they are missing, nothing is lost.
    fn unneeded(&self) -> u64;
}

/// Bytes that could not be framed, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unframed {
    /// Of the protocol, or nothing else is known.
    Own(u64),
    /// Of something else; the connection's first byte, if its beginning was seen.
    Foreign(u64, Option<u8>),
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct Sides<F> {
    client: F,
    server: F,
    /// Lost bytes of this delivery: not captured, not framed.
    lost: (u64, u64),
    is_foreign: bool,
    /// Bytes without a message.
    unrecognized: u64,
}

impl<F: Direction> Sides<F> {
    /// A connection that is joined mid-stream.
    pub fn new(client: F, server: F) -> Sides<F> {
        Sides { client, server, lost: (0, 0), is_foreign: false, unrecognized: 0 }
    }

    /// One direction.
    pub fn of(&mut self, side: Side) -> &mut F {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// One direction, and the other.
    pub fn both(&mut self, side: Side) -> (&mut F, &mut F) {
        match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }

    /// Whether the stream begins with another protocol.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Number of a side's next bytes that are not needed: if they are missing, nothing is lost.
    pub fn unneeded(&self, side: Side) -> u64 {
        match side {
            Side::Client => self.client.unneeded(),
            Side::Server => self.server.unneeded(),
        }
    }

    /// Counts what could not be framed of bytes that a side's framer took; of a gap, if it has a cause.
    pub fn count(&mut self, side: Side, gap: Option<Gap>) {
        let lost = self.of(side).take_lost();
        match gap {
            Some(Gap::Lost | Gap::Unseen) => self.lost.0 += at_least(lost),
            Some(Gap::Elided) | None => self.lost.1 += lost,
        }
    }

    /// All of one delivery has been framed: its bytes that were not captured, and those that could not be framed.
    /// `is_recognized`: the connection has shown a message.
    pub fn delivered(&mut self, side: Side, is_recognized: bool) -> (u64, Unframed) {
        let (gap, unframed) = std::mem::take(&mut self.lost);
        let foreign = self.of(side).foreign().filter(|_| !self.is_foreign);
        let unframed = if is_recognized {
            Unframed::Own(unframed)
        } else if foreign.is_some() {
            self.is_foreign = true;
            Unframed::Foreign(unframed, foreign)
        } else if self.unrecognized >= FOREIGN_AFTER {
            Unframed::Own(0)
        } else {
            self.unrecognized += unframed;
            match self.unrecognized < FOREIGN_AFTER {
                true => Unframed::Own(unframed),
                false => Unframed::Foreign(unframed, None),
            }
        };
        (gap, unframed)
    }
}
