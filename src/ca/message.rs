//! Channel Access messages: the header, and how plausible it is.
//!
//! A header is 16 bytes, big-endian: command, payload size, data type, element count (u16 each), two parameters (u32
//! each). A payload size of 0xffff means that the true size and count follow as two u32 (24 bytes in all). The
//! specification also requires a count of 0 there; EPICS Base tests only the size, and sends the long form with a
//! payload of 0 for an array of 65535 elements or more.
//!
//! [`plausible`] is for a decoder that joins mid-stream and must distinguish a header from array data. It accepts what
//! clients and servers really send, not everything that the protocol would allow.

use epics::{Dbf, Dbr};

use crate::net::protocol::Side;

/// Length of the short header.
pub const HEADER: usize = 16;
/// Length of the long header.
pub const LONG_HEADER: usize = 24;

/// VERSION, the first message of a circuit: type = priority, count = minor version.
pub const VERSION: u16 = 0;
/// EVENT_ADD: a subscription; from the server, a monitor update, or with payload 0 its end.
pub const EVENT_ADD: u16 = 1;
/// EVENT_CANCEL: end of a subscription.
pub const EVENT_CANCEL: u16 = 2;
/// READ, long obsolete.
pub const READ: u16 = 3;
/// WRITE: a put without an answer. Parameters: sid, ioid.
pub const WRITE: u16 = 4;
/// SEARCH, on TCP to name servers.
pub const SEARCH: u16 = 6;
/// EVENTS_OFF: flow control.
pub const EVENTS_OFF: u16 = 8;
/// EVENTS_ON: flow control.
pub const EVENTS_ON: u16 = 9;
/// READ_SYNC.
pub const READ_SYNC: u16 = 10;
/// ERROR from the server: parameters cid and ECA status; payload: the request's header, then text.
pub const ERROR: u16 = 11;
/// CLEAR_CHANNEL: parameters sid, cid; the answer repeats them.
pub const CLEAR_CHANNEL: u16 = 12;
/// RSRV_IS_UP: a server's beacon, over UDP: type = minor version, count = TCP port; parameters: number, IP address.
pub const RSRV_IS_UP: u16 = 13;
/// NOT_FOUND, from name servers.
pub const NOT_FOUND: u16 = 14;
/// READ_NOTIFY: a get, or its answer.
pub const READ_NOTIFY: u16 = 15;
/// REPEATER_CONFIRM: a repeater has registered a client.
pub const REPEATER_CONFIRM: u16 = 17;
/// CREATE_CHAN: request: cid, minor version, name; answer: native type and count, cid, sid.
pub const CREATE_CHAN: u16 = 18;
/// WRITE_NOTIFY: a put with an answer. Request: sid, ioid; answer: ECA status, ioid.
pub const WRITE_NOTIFY: u16 = 19;
/// CLIENT_NAME: the user that the client claims to be.
pub const CLIENT_NAME: u16 = 20;
/// HOST_NAME: the host that the client claims to be on.
pub const HOST_NAME: u16 = 21;
/// ACCESS_RIGHTS: parameters cid, rights (1 read, 2 write).
pub const ACCESS_RIGHTS: u16 = 22;
/// ECHO: keeps a circuit alive.
pub const ECHO: u16 = 23;
/// REPEATER_REGISTER: a client asks a repeater for beacons.
pub const REPEATER_REGISTER: u16 = 24;
/// CREATE_CH_FAIL: parameter cid.
pub const CREATE_CH_FAIL: u16 = 26;
/// SERVER_DISCONN: the server ends a channel: parameter cid.
pub const SERVER_DISCONN: u16 = 27;
/// Highest command.
pub const LAST_COMMAND: u16 = 27;

/// Longest user or host name that a server accepts, as a payload size (RSRV: 512).
pub const LONGEST_NAME: u32 = 512;

/// Highest DBR type.
const LAST_DBR: u16 = Dbr::LAST.0;
/// Largest plausible payload while resynchronizing: 256 MiB, larger than any camera image sent through Channel Access.
const MAX_PLAUSIBLE_SIZE: u32 = 256 << 20;
/// Highest plausible ECA status: somewhat above the highest defined one.
const LAST_STATUS: u32 = 0x1ff;
const _: () = assert!(LAST_STATUS >= epics::eca::MAX_CODE);
/// Highest plausible minor version: 13 is the current one.
const LAST_MINOR: u32 = 31;

/// A message's header, short or long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Command.
    pub command: u16,
    /// Payload size in bytes, padding included.
    pub size: u32,
    /// Data type.
    pub dbr: u16,
    /// Element count.
    pub count: u32,
    /// Parameter 1.
    pub p1: u32,
    /// Parameter 2.
    pub p2: u32,
    /// Whether it came in the long form.
    pub long: bool,
}

impl Header {
    /// Length of the header that begins with these bytes; `None` if they are too few.
    pub fn length(bytes: &[u8]) -> Option<usize> {
        match (bytes.get(2)?, bytes.get(3)?) {
            (0xff, 0xff) => Some(LONG_HEADER),
            _ => Some(HEADER),
        }
    }

    /// Reads a header from the first bytes; `None` if they are too few.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let short: &[u8; HEADER] = bytes.first_chunk()?;
        let u16_at = |i: usize| u16::from_be_bytes([short[i], short[i + 1]]);
        let u32_at = |i: usize| u32::from_be_bytes([short[i], short[i + 1], short[i + 2], short[i + 3]]);
        let mut header = Header {
            command: u16_at(0),
            size: u16_at(2).into(),
            dbr: u16_at(4),
            count: u16_at(6).into(),
            p1: u32_at(8),
            p2: u32_at(12),
            long: false,
        };
        if header.size == 0xffff {
            let rest: &[u8; 8] = bytes.get(HEADER..)?.first_chunk()?;
            header.size = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
            header.count = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
            header.long = true;
        }
        Some(header)
    }

    /// Bytes of the header on the wire.
    pub fn bytes(&self) -> usize {
        if self.long {
            LONG_HEADER
        } else {
            HEADER
        }
    }
}

/// How plausible a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plausibility {
    /// No client or server sends this.
    None,
    /// It could be a header, but all except the command is zero, as often in array data.
    Weak,
    /// It could be a header, but so could some arrays of small numbers.
    Fair,
    /// Its fields are consistent.
    Strong,
}

/// Whether the payload size is the padded size of the header's count and type.
fn size_fits(header: &Header) -> bool {
    let dbr = Dbr(header.dbr);
    let (Some(meta), Some(value)) = (dbr.value_offset(), dbr.value_size()) else { return false };
    let (meta, value) = (meta as u64, value as u64);
    let (size, count) = (u64::from(header.size), u64::from(header.count));
    let padded = |n: u64| n.next_multiple_of(8);
    if !size.is_multiple_of(8) || header.size > MAX_PLAUSIBLE_SIZE {
        return false;
    }
    match count {
        // A lone string is sent up to its NUL.
        1 if dbr.element() == Some(Dbf::String) => (padded(meta + 1)..=padded(meta + value)).contains(&size),
        _ => size == padded(meta + count * value),
    }
}

/// How plausible it is that this side sends this header.
pub fn plausible(side: Side, header: &Header) -> Plausibility {
    let empty = header.size == 0;
    let bare = empty && header.count == 0 && header.dbr == 0;
    let blank = bare && header.p1 == 0 && header.p2 == 0;
    let strong = |yes: bool| match yes {
        true if blank => Plausibility::Weak,
        true => Plausibility::Strong,
        false => Plausibility::None,
    };
    let fair = |yes: bool| strong(yes).min(Plausibility::Fair);
    let text =
        |most: u32| header.size >= 8 && header.size.is_multiple_of(8) && header.size <= most && !header.long;
    match (header.command, side) {
        (ECHO, _) => strong(blank),
        (VERSION, _)
            if empty
                && (1..=LAST_MINOR).contains(&header.count)
                && header.dbr < 100
                && header.p1 == 0
                && header.p2 == 0 =>
        {
            Plausibility::Weak
        }
        (EVENTS_ON | EVENTS_OFF | READ_SYNC, Side::Client) => strong(blank),
        (EVENT_ADD, Side::Client) => fair(header.size == 16 && header.dbr <= LAST_DBR),
        (EVENT_CANCEL | READ | READ_NOTIFY, Side::Client) => fair(empty && header.dbr <= LAST_DBR),
        (WRITE | WRITE_NOTIFY, Side::Client) => strong(header.count > 0 && size_fits(header)),
        (CLEAR_CHANNEL, _) => strong(bare),
        (CREATE_CHAN, Side::Client) => {
            strong(text(1024) && header.dbr == 0 && header.count == 0 && header.p2 <= LAST_MINOR)
        }
        (CLIENT_NAME | HOST_NAME, Side::Client) => {
            strong(text(LONGEST_NAME) && header.dbr == 0 && header.p1 == 0 && header.p2 == 0)
        }
        (SEARCH, Side::Client) => strong(text(1024) && header.count <= LAST_MINOR && header.p1 == header.p2),
        (EVENT_ADD | READ_NOTIFY | READ, Side::Server) if empty => fair(header.dbr <= LAST_DBR),
        (EVENT_ADD | READ_NOTIFY | READ, Side::Server) => {
            strong(header.p1 <= LAST_STATUS && size_fits(header))
        }
        (WRITE_NOTIFY, Side::Server) => {
            strong(empty && header.dbr <= LAST_DBR && header.p1 > 0 && header.p1 <= LAST_STATUS)
        }
        (CREATE_CHAN, Side::Server) => fair(empty && header.dbr <= Dbr::LAST_NATIVE.0),
        (ACCESS_RIGHTS, Side::Server) => strong(bare && header.p2 <= 3),
        (CREATE_CH_FAIL | SERVER_DISCONN, Side::Server) => strong(bare && header.p2 == 0),
        (SEARCH | NOT_FOUND, Side::Server) => fair(header.size <= 8),
        (ERROR, Side::Server) => strong(text(1024) && header.size >= 24 && header.p2 <= LAST_STATUS),
        _ => Plausibility::None,
    }
}

/// Whether this is a name as clients send it: some text, then only NULs.
pub fn is_text(payload: &[u8]) -> bool {
    let end = payload.iter().position(|&b| b == 0).unwrap_or(payload.len());
    let (text, padding) = payload.split_at(end);
    !text.is_empty() && text.iter().all(|&b| b >= 0x20 && b != 0x7f) && padding.iter().all(|&b| b == 0)
}

/// Length of the text up to the first NUL.
pub fn text_length(payload: &[u8]) -> usize {
    payload.iter().position(|&b| b == 0).unwrap_or(payload.len())
}

/// A PV's name in a request, up to its first NUL. Servers put one in place of the last byte, which has it in all that is honest
/// (RSRV: camessage.c, cast_server.c).
pub fn name<'a>(header: &Header, payload: &'a [u8]) -> &'a [u8] {
    let is_whole = usize::try_from(header.size) == Ok(payload.len());
    let name = payload.split_last().filter(|_| is_whole).map_or(payload, |(_, name)| name);
    name.get(..text_length(name)).unwrap_or_default()
}

/// The text up to the first NUL. Bytes that are not UTF-8 become `\xNN`.
pub fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|&b| b == 0).unwrap_or(payload.len());
    let mut text = String::new();
    for chunk in payload.get(..end).unwrap_or_default().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
