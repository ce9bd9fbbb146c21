//! PVAccess messages: the header, and how plausible it is.
//!
//! A header is 8 bytes: `ca`, version, flags, command, size of the payload (u32, in the byte order that the flags tell).
//! A control message has no payload: its "size" is data.

use crate::net::protocol::Side;

/// Length of the header.
pub const HEADER: usize = 8;

/// Its first byte.
pub const MAGIC: u8 = 0xca;
/// Highest known version: 1 is old, 2 is sent now.
const LAST_VERSION: u8 = 2;

/// Flag: a control message.
pub const CONTROL: u8 = 0x01;
/// Flags that nobody sets.
const NEVER: u8 = 0x0e;
/// Flags of a message's segments: 0 whole, 10 first, 30 middle, 20 last.
pub const SEGMENTS: u8 = 0x30;
/// The first of several.
pub const FIRST: u8 = 0x10;
/// The last of several.
pub const LAST: u8 = 0x20;
/// Flag: from the server.
pub const FROM_SERVER: u8 = 0x40;
/// Flag: numbers have their highest byte first.
pub const BIG_ENDIAN: u8 = 0x80;

/// A server is there.
pub const BEACON: u8 = 0;
/// Who has these names?
pub const SEARCH: u8 = 3;
/// The answer to that.
pub const SEARCH_RESPONSE: u8 = 4;
/// The client's identity; from the server the methods that it accepts.
pub const CONNECTION_VALIDATION: u8 = 1;
/// More of that, which both servers read and pass over.
pub const AUTHNZ: u8 = 5;
/// Channels, and their answers.
pub const CREATE_CHANNEL: u8 = 7;
/// A channel ends, said by either side.
pub const DESTROY_CHANNEL: u8 = 8;
/// The server's judgement of the client's identity.
pub const CONNECTION_VALIDATED: u8 = 9;
/// Get.
pub const GET: u8 = 10;
/// Put, and the value before.
pub const PUT: u8 = 11;
/// Put, and the value afterwards.
pub const PUT_GET: u8 = 12;
/// Monitor.
pub const MONITOR: u8 = 13;
/// Parts of arrays: of pvAccessCPP, which nobody uses.
pub const ARRAY: u8 = 14;
/// A request ends.
pub const DESTROY_REQUEST: u8 = 15;
/// Process.
pub const PROCESS: u8 = 16;
/// The type of a channel.
pub const GET_FIELD: u8 = 17;
/// A text for people.
pub const MESSAGE: u8 = 18;
/// A call.
pub const RPC: u8 = 20;
/// The client does not wait for a request's answer any longer.
pub const CANCEL_REQUEST: u8 = 21;
/// What follows in a datagram was sent to this address before.
pub const ORIGIN_TAG: u8 = 22;
/// Control message: the byte order from now on is that of its flags.
pub const SET_ENDIANNESS: u8 = 2;
/// Highest command.
const LAST_COMMAND: u8 = 22;
/// Highest command of a control message.
const LAST_CONTROL: u8 = SET_ENDIANNESS;

/// Largest plausible payload while resynchronizing: 256 MiB, as for Channel Access.
const MAX_PLAUSIBLE: u32 = 256 << 20;

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol.
    pub version: u8,
    /// Flags.
    pub flags: u8,
    /// Command.
    pub command: u8,
    /// Bytes that follow.
    pub size: u32,
}

impl Header {
    /// Reads a header; `None` if the bytes are too few or don't begin with its mark.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let &[MAGIC, version, flags, command, ref size @ ..] = bytes.first_chunk::<HEADER>()? else {
            return None;
        };
        let size =
            if flags & BIG_ENDIAN != 0 { u32::from_be_bytes(*size) } else { u32::from_le_bytes(*size) };
        let size = if flags & CONTROL != 0 { 0 } else { size };
        Some(Header { version, flags, command, size })
    }

    /// The byte order of the payload.
    pub fn is_big_endian(&self) -> bool {
        self.flags & BIG_ENDIAN != 0
    }

    /// Whether it is a control message.
    pub fn is_control(&self) -> bool {
        self.flags & CONTROL != 0
    }

    /// Whether this side may send it.
    pub fn is_plausible(&self, side: Side) -> bool {
        let known = match self.is_control() {
            true => self.command <= LAST_CONTROL,
            false => self.command <= LAST_COMMAND && self.command != 19 && self.command != ARRAY,
        };
        let continues = self.flags & LAST != 0;
        let least = match (self.command, side) {
            _ if continues || self.is_control() => 0,
            (CONNECTION_VALIDATION, _) => 7,
            (CONNECTION_VALIDATED, _) => 1,
            (CREATE_CHANNEL, _) => 8,
            (DESTROY_CHANNEL | DESTROY_REQUEST | CANCEL_REQUEST, _) => 8,
            (GET..=PROCESS | RPC, Side::Client) => 9,
            (MONITOR, Side::Server) => 6,
            (GET..=PROCESS | RPC, Side::Server) => 6,
            (GET_FIELD | MESSAGE, _) => 5,
            _ => 0,
        };
        (1..=LAST_VERSION).contains(&self.version)
            && self.flags & NEVER == 0
            && (self.flags & FROM_SERVER != 0) == (side == Side::Server)
            && known
            && (least..=MAX_PLAUSIBLE).contains(&self.size)
    }
}
