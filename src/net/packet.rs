//! Reads IPv4 and TCP headers, and names the ends of connections.

use std::fmt;
use std::net::Ipv6Addr;

use iocrec_log::event::Address;

use crate::net::options::pass_ipv4;

/// TCP's protocol number.
pub(super) const TCP: u8 = 6;
/// ::ffff:0:0.
const STANDS_FOR_IPV4: u128 = 0xffff_0000_0000;
/// TCP flags.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;

/// An end of a TCP connection: an IP address of either version, and a port. IPv6 addresses that stand for IPv4 ones
/// (::ffff:0:0/96) are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The IPv6 address; its first byte is the most significant. That of an IPv4 address is the one that stands for it.
    ip: u128,
    /// Port.
    pub port: u16,
}

impl End {
    /// The end at this IPv6 address.
    pub fn v6(ip: u128, port: u16) -> End {
        End { ip, port }
    }

    /// Its IPv4 address, if it has one.
    pub fn v4(self) -> Option<Address> {
        let ip = u32::try_from(self.ip ^ STANDS_FOR_IPV4).ok()?;
        Some(Address { ip, port: self.port })
    }

    /// Its IPv6 address, or the one that stands for its IPv4 address, and its port.
    pub fn any(self) -> (u128, u16) {
        (self.ip, self.port)
    }

    /// Its address as the log has it: IP address 0 if it is one of IPv6, which is told elsewhere.
    pub fn address(self) -> Address {
        self.v4().unwrap_or(Address { ip: 0, port: self.port })
    }

    /// Its IPv6 address, if it has no IPv4 address.
    pub fn ip6(self) -> Option<[u8; 16]> {
        self.v4().is_none().then_some(self.ip.to_be_bytes())
    }

    /// Another port at the same address.
    pub fn at(self, port: u16) -> End {
        End { port, ..self }
    }

    /// Whether its address means none: all bits are zero, of either version.
    pub fn is_unspecified(self) -> bool {
        self.ip == 0 || self.ip == STANDS_FOR_IPV4
    }

    /// Whether only its own machine can be meant.
    pub fn is_loopback(self) -> bool {
        self.v4().map_or(self.ip == 1, |address| address.ip >> 24 == 127)
    }
}

/// Source and destination of a packet, without ports.
pub fn addresses(packet: &[u8]) -> Option<[End; 2]> {
    let v4 = |ip: &[u8; 4]| Address::new((*ip).into(), 0).into();
    let v6 = |ip: &[u8; 16]| End::v6(u128::from_be_bytes(*ip), 0);
    match packet.first()? >> 4 {
        4 => Some([v4(packet.get(12..)?.first_chunk()?), v4(packet.get(16..)?.first_chunk()?)]),
        6 => Some([v6(packet.get(8..)?.first_chunk()?), v6(packet.get(24..)?.first_chunk()?)]),
        _ => None,
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.v4() {
            Some(address) => write!(f, "{address}"),
            None => write!(f, "[{}]:{}", Ipv6Addr::from(self.ip), self.port),
        }
    }
}

impl From<Address> for End {
    fn from(address: Address) -> End {
        End { ip: STANDS_FOR_IPV4 | u128::from(address.ip), port: address.port }
    }
}

/// A TCP segment as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sender.
    pub source: End,
    /// Receiver.
    pub destination: End,
    /// Sequence number of the first payload byte, or of the SYN.
    pub sequence: u32,
    /// The sender has received all bytes before this sequence number, if it says so.
    pub acknowledged: Option<u32>,
    /// Whether the sender takes nothing more at present: its window is closed.
    pub closes_window: bool,
    /// Whether it opens the stream.
    pub syn: bool,
    /// Whether it ends the stream.
    pub fin: bool,
    /// Whether it resets the connection.
    pub reset: bool,
    /// Whether one of its bytes is urgent: its receiver takes that one out of the stream.
    pub urgent: bool,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// The payload's true length.
    pub length: u32,
    /// The options of its TCP header, as they came.
    pub options: &'a [u8],
    /// Whether every byte of the headers was captured and none of the payload: the socket filter left it out
    /// ([`crate::net::filter`]).
    pub elided: bool,
    /// What the socket filter knows of its place in the stream: the number of its bytes before the first header, and
    /// that every byte that matters between the last packet of this direction and this one has passed.
    pub place: Option<u32>,
}

/// The IPv6 addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub source: u128,
    pub destination: u128,
}

impl<'a> Segment<'a> {
    /// Reads a packet from its IPv4 header on. `original_length` is its length before anything was cut off. `None`
    /// unless it is the first or only fragment of a sound TCP segment: other fragments carry no ports. Their bytes show
    /// up as missing when the stream continues.
    pub fn parse(packet: &'a [u8], original_length: usize) -> Option<Segment<'a>> {
        let ip: &[u8; 20] = packet.first_chunk()?;
        let ip_length = usize::from(ip[0] & 0xf) * 4;
        let fragment = u16::from_be_bytes([ip[6], ip[7]]);
        if ip[0] >> 4 != 4 || ip_length < 20 || ip[9] != TCP || fragment & 0x1fff != 0 {
            return None;
        }
        let total = match u16::from_be_bytes([ip[2], ip[3]]) {
            // Segments that the network stack joins to more than 64 KiB (BIG TCP) carry no length.
            0 => original_length,
            n => n.into(),
        };
        if total > original_length {
            // Its end is missing on the wire: the receiver drops it.
            return None;
        }
        if ip_length > ip.len() && !pass_ipv4(packet.get(ip.len()..ip_length)?) {
            return None;
        }
        let at = |i: usize| {
            STANDS_FOR_IPV4 | u128::from(u32::from_be_bytes([ip[i], ip[i + 1], ip[i + 2], ip[i + 3]]))
        };
        Segment::tcp(packet, ip_length, total, Ends { source: at(12), destination: at(16) })
    }

    /// Reads a packet of `total` bytes whose TCP header begins at `ip_length`.
    pub(super) fn tcp(packet: &'a [u8], ip_length: usize, total: usize, ends: Ends) -> Option<Segment<'a>> {
        let tcp: &[u8; 20] = packet.get(ip_length..)?.first_chunk()?;
        let tcp_length = usize::from(tcp[12] >> 4) * 4;
        let headers = ip_length + tcp_length;
        if tcp_length < 20 || total < headers || packet.len() < headers {
            return None;
        }
        // Short Ethernet frames are padded after the packet.
        let payload = packet.get(headers..total.min(packet.len()))?;
        let length = u32::try_from(total - headers).ok()?;
        let u16_at = |b: &[u8; 20], i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
        let u32_at = |b: &[u8; 20], i: usize| u32::from_be_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let flags = tcp[13];
        Some(Segment {
            source: End::v6(ends.source, u16_at(tcp, 0)),
            destination: End::v6(ends.destination, u16_at(tcp, 2)),
            sequence: u32_at(tcp, 4),
            acknowledged: (flags & ACK != 0).then(|| u32_at(tcp, 8)),
            closes_window: u16_at(tcp, 14) == 0,
            syn: flags & SYN != 0,
            fin: flags & FIN != 0,
            reset: flags & RST != 0,
            urgent: flags & URG != 0,
            payload,
            length,
            options: packet.get(ip_length + 20..headers).unwrap_or_default(),
            elided: payload.is_empty() && length > 0,
            place: None,
        })
    }

    /// The sender's clock, from the option of RFC 7323: a 32-bit number that grows by 1 to 1000 a second, or faster.
    pub fn stamp(&self) -> Option<u32> {
        const STAMPS: u8 = 8;
        match *self.option(STAMPS)? {
            [_, 10, a, b, c, d, ..] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// Whether it is signed (RFC 2385): a receiver that expects no signature drops it.
    pub fn is_signed(&self) -> bool {
        const SIGNATURE: u8 = 19;
        self.option(SIGNATURE).is_some()
    }

    /// The options from the first one of this kind on.
    fn option(&self, kind: u8) -> Option<&'a [u8]> {
        const END: u8 = 0;
        const NOTHING: u8 = 1;
        let mut rest = self.options;
        loop {
            rest = match *rest {
                [first, ..] if first == kind => return Some(rest),
                [NOTHING, ref rest @ ..] => rest,
                [END, ..] | [_] | [] => return None,
                // a length below 2 is none: it would not end
                [_, length, ..] => rest.get(usize::from(length).max(2)..)?,
            };
        }
    }
}
