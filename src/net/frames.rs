//! What a captured packet carries: from tags of VLANs, tunnels and IP to the TCP segment.
//!
//! | carried by | |
//! |---|---|
//! | IPv4 | decoded |
//! | tags of VLANs that the kernel left in place (802.1Q, 802.1ad), up to [`MAX_LAYERS`] | passed over |
//! | GRE and IP in IP, with IPv4 or IPv6 inside | decoded |
//! | IPv6, also with headers of options; addresses that stand for IPv4 ones (::ffff:0:0/96) are those | decoded |
//! | options that a receiver may refuse (`options.rs`) | counted |
//! | fragments of IP | put together ([`fragments`](crate::net::fragments)); what can't be is counted |
//!
//! A packet socket says which protocol a packet belongs to, but not in the packet, and leaves a second tag in place. Tag
//! and IP header are told apart by what they hold.

use crate::net::options::{passes, DESTINATION, HOP_BY_HOP, ROUTE};
use crate::net::packet::{Ends, Segment, TCP};

/// Tags and tunnels that may lie around a segment.
pub const MAX_LAYERS: usize = 4;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
/// Length of IPv6's fixed header.
const IPV6_HEADER: usize = 40;
/// Tags: customer's, provider's, and the number that was used for it before.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Protocols within IP.
pub(super) const IP_IN_IP: u8 = 4;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const GRE: u8 = 47;
/// Headers within IPv6: of a fragment; of authentication (RFC 4302), whose length counts words.
pub const FRAGMENT: u8 = 44;
pub(super) const AUTHENTICATION: u8 = 51;
/// Those of options, of routes, for the destination, and the one above.
const OPTIONS: [u8; 4] = [HOP_BY_HOP, ROUTE, DESTINATION, AUTHENTICATION];
/// How many of them are passed over.
const MAX_OPTIONS: usize = 16;

/// A packet of a kind that is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strange {
    /// TCP over IPv6 on a port of Channel Access, which has IPv4 only.
    Ip6,
    /// A fragment of IP.
    Fragment,
    /// A tunnel with something else than IP inside, or too many layers.
    Tunnel,
    /// A header that can't be one, or too little of it was captured.
    Unsound,
    /// A checksum that is wrong.
    Damaged,
}

impl Strange {
    /// All kinds.
    pub const ALL: [Strange; 5] =
        [Strange::Ip6, Strange::Fragment, Strange::Tunnel, Strange::Unsound, Strange::Damaged];

    /// What it is, for people.
    pub fn name(self) -> &'static str {
        match self {
            Strange::Ip6 => "TCP over IPv6, which Channel Access does not use",
            Strange::Fragment => "fragments of IP, perhaps of others, whose other parts are missing",
            Strange::Tunnel => "tunnels without IP inside",
            Strange::Unsound => "headers that are cut or unsound",
            Strange::Damaged => "wrong checksums, so that receivers drop them",
        }
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The segment.
    pub segment: Option<Segment<'a>>,
    /// What of it is not decoded.
    pub strange: Option<Strange>,
    /// A fragment that may be of a segment, from its IP header on, and its length before it was cut. If it is the first,
    /// `segment` has what it holds.
    pub fragment: Option<(&'a [u8], usize)>,
    /// Whether it was put together from fragments: no filter has looked at its ports.
    pub joined: bool,
}

impl<'a> Frame<'a> {
    /// Reads a packet from its network header on. `original_length` is its length before it was cut. A packet that carries
    /// no TCP is neither a segment nor strange.
    pub fn read(mut packet: &'a [u8], mut original_length: usize) -> Frame<'a> {
        let strange = |kind| Frame { strange: Some(kind), ..Frame::default() };
        for _ in 0..=MAX_LAYERS {
            // Most packets are plain IPv4.
            if let Some(segment) = Segment::parse(packet, original_length) {
                let in_parts = matches!(packet, [_, _, _, _, _, _, flags, ..] if flags & 0x20 != 0);
                let strange = in_parts.then_some(Strange::Fragment);
                let fragment = in_parts.then_some((packet, original_length));
                return Frame { segment: Some(segment), strange, fragment, joined: false };
            }
            let skip = match *packet {
                // the VLAN, then the protocol within
                _ if is_tag(packet, original_length) => 4,
                [first, ..] if first >> 4 == 4 => match ipv4(packet) {
                    Ok(Some(skip)) => skip,
                    Ok(None) => return Frame::default(),
                    Err(Strange::Fragment) => return Frame::of_fragment(packet, original_length),
                    Err(kind) => return strange(kind),
                },
                [first, ..] if first >> 4 == 6 => match ipv6(packet, original_length) {
                    Inside::Frame(frame) => return frame,
                    Inside::Ip(skip) => skip,
                },
                _ => return strange(Strange::Unsound),
            };
            let Some(inner) = packet.get(skip..) else { return strange(Strange::Unsound) };
            (packet, original_length) = (inner, original_length.saturating_sub(skip));
        }
        strange(Strange::Tunnel)
    }

    fn of_fragment(packet: &'a [u8], length: usize) -> Frame<'a> {
        Frame {
            segment: None,
            strange: Some(Strange::Fragment),
            fragment: Some((packet, length)),
            joined: false,
        }
    }
}

/// Whether a packet of this length begins with a tag: what is within has its number at byte 2. One of priority 3 begins as IPv6
/// does, which has there a label that may be any number: Linux draws it by lot for each direction of a connection. Then it
/// is IPv6 if it is as long as that says; or if no number of a protocol follows a tag's number, but IPv6's next header. One of
/// priority 2 begins as IPv4 does, which has its length there.
pub(super) fn is_tag(packet: &[u8], length: usize) -> bool {
    let Some(&[first, _, a, b, next, low, kind, _]) = packet.first_chunk::<8>() else { return false };
    let may_be_ip6 = first >> 4 == 6;
    let protocol = u16::from_be_bytes([a, b]);
    let fits = match protocol {
        IPV4 | IPV6 => {
            let version = if protocol == IPV4 { 4 } else { 6 };
            let is_as_long = length == IPV6_HEADER + usize::from(u16::from_be_bytes([next, low]));
            next >> 4 == version && !(may_be_ip6 && is_as_long)
        }
        _ => TAGS.contains(&protocol) && (!may_be_ip6 || matches!(kind, 0x08 | 0x81 | 0x86 | 0x88 | 0x91)),
    };
    fits && (first >> 4 != 4 || length != usize::from(protocol))
}

/// Length of the headers of a tunnel through IPv4; `None` if it is something else than TCP or a tunnel. A tunnel's first
/// fragment is a fragment, too: what is inside is not all there.
fn ipv4(packet: &[u8]) -> Result<Option<usize>, Strange> {
    let ip: &[u8; 20] = packet.first_chunk().ok_or(Strange::Unsound)?;
    let header = usize::from(ip[0] & 0xf) * 4;
    let fragment = u16::from_be_bytes([ip[6], ip[7]]);
    match ip[9] {
        TCP if fragment & 0x1fff != 0 => Err(Strange::Fragment),
        GRE | IP_IN_IP | IPV6_IN_IP if fragment & 0x3fff != 0 => Err(Strange::Fragment),
        // it would have been read
        TCP => Err(Strange::Unsound),
        IP_IN_IP | IPV6_IN_IP => Ok(Some(header.max(20))),
        GRE => {
            let gre: &[u8; 4] =
                packet.get(header..).and_then(|rest| rest.first_chunk()).ok_or(Strange::Unsound)?;
            let protocol = u16::from_be_bytes([gre[2], gre[3]]);
            // Version 0, no routing; checksum, key and number have four bytes each if they are there.
            if !matches!(protocol, IPV4 | IPV6) || gre[1] & 7 != 0 || gre[0] & 0x40 != 0 {
                return Err(Strange::Tunnel);
            }
            let fields = (gre[0] & 0b1011_0000).count_ones() as usize;
            Ok(Some(header.max(20) + 4 + 4 * fields))
        }
        _ => Ok(None),
    }
}

/// What an IPv6 packet holds.
enum Inside<'a> {
    Frame(Frame<'a>),
    /// Another IP packet begins after this number of bytes.
    Ip(usize),
}

/// What an IPv6 packet carries behind its headers of options, and where that begins; `None` if a receiver may refuse them, or if
/// they are too many.
pub(super) fn behind_options(packet: &[u8]) -> Option<(u8, usize)> {
    let ip = packet.first_chunk::<IPV6_HEADER>()?;
    let (mut next, mut at) = (ip[6], IPV6_HEADER);
    for _ in 0..=MAX_OPTIONS {
        if !OPTIONS.contains(&next) {
            return Some((next, at));
        }
        let rest = packet.get(at..)?;
        let header = rest.get(..option(next, *rest.get(1)?))?;
        if !passes(next, header, at == IPV6_HEADER, ip[4..6] == [0, 0]) {
            return None;
        }
        at += header.len();
        next = *header.first()?;
    }
    None
}

/// A packet from its IPv6 header on.
fn ipv6(packet: &[u8], original_length: usize) -> Inside<'_> {
    let strange = |kind| Inside::Frame(Frame { strange: Some(kind), ..Frame::default() });
    let (Some(ip), Some((next, at))) = (packet.first_chunk::<IPV6_HEADER>(), behind_options(packet)) else {
        return strange(Strange::Unsound);
    };
    match next {
        TCP => {}
        IP_IN_IP | IPV6_IN_IP => return Inside::Ip(at),
        FRAGMENT => {
            let of_segment =
                |part: &u8| matches!(*part, TCP | IP_IN_IP | IPV6_IN_IP | GRE) || OPTIONS.contains(part);
            return match packet.get(at).is_some_and(of_segment) {
                true => Inside::Frame(Frame::of_fragment(packet, original_length)),
                false => Inside::Frame(Frame::default()),
            };
        }
        _ => return Inside::Frame(Frame::default()),
    }
    let total = match u16::from_be_bytes([ip[4], ip[5]]) {
        // joined to more than 64 KiB: it carries no length
        0 => original_length,
        length => IPV6_HEADER + usize::from(length),
    };
    if total > original_length {
        return strange(Strange::Unsound);
    }
    let number = |from: usize| {
        ip.get(from..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |bytes: &[u8; 16]| u128::from_be_bytes(*bytes))
    };
    match Segment::tcp(packet, at, total, Ends { source: number(8), destination: number(24) }) {
        Some(segment) => Inside::Frame(Frame { segment: Some(segment), ..Frame::default() }),
        None => strange(Strange::Unsound),
    }
}

/// Bytes of a header of options within IPv6, from the length that it says.
pub(super) fn option(kind: u8, length: u8) -> usize {
    8 + usize::from(length) * if kind == AUTHENTICATION { 4 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::packet::End;
    use iocrec_log::event::Address;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x9c, 0x41, 0x13, 0xc8, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 16, 1, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(payload);
        bytes
    }

    fn ipv4(protocol: u8, fragment: u16, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + inside.len() as u16).to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend_from_slice(inside);
        bytes
    }

    fn ipv6_of(next: u8, mapped: bool, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((inside.len() as u16).to_be_bytes());
        bytes.extend([next, 64]);
        for last in [1, 2] {
            bytes.extend([0; 10]);
            bytes.extend(if mapped { [0xff, 0xff] } else { [0, 5] });
            bytes.extend([10, 0, 0, last]);
        }
        bytes.extend_from_slice(inside);
        bytes
    }

    fn tagged(priority: u8, protocol: u16, inside: &[u8]) -> Vec<u8> {
        [&[priority << 5 | 5, 0x2a][..], &protocol.to_be_bytes(), inside].concat()
    }

    #[test]
    fn layers_are_passed_over() {
        let plain = ipv4(TCP, 0x4000, &tcp(b"a put"));
        let key_and_number = [&[0x30, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8], &plain[..]].concat();
        let options = [&[TCP, 0, 0, 0, 0, 0, 0, 0], &tcp(b"a put")[..]].concat();
        for packet in [
            plain.clone(),
            tagged(0, 0x0800, &plain),
            // with priority 2 the tag begins as IPv4 does
            tagged(2, 0x0800, &plain),
            tagged(3, 0x8100, &tagged(2, 0x0800, &plain)),
            ipv4(GRE, 0, &[&[0, 0, 8, 0], &plain[..]].concat()),
            ipv4(GRE, 0, &key_and_number),
            ipv4(IP_IN_IP, 0, &plain),
            tagged(1, 0x0800, &ipv4(GRE, 0, &[&[0, 0, 8, 0], &plain[..]].concat())),
            ipv6_of(TCP, true, &tcp(b"a put")),
            ipv6_of(0, true, &options),
            tagged(3, 0x86dd, &ipv6_of(TCP, true, &tcp(b"a put"))),
            // Ethernet's padding
            [&plain[..], &[0; 6]].concat(),
        ] {
            let Frame { segment: Some(segment), strange: None, .. } = Frame::read(&packet, packet.len())
            else {
                panic!("{packet:02x?}")
            };
            assert_eq!(segment.source.v4(), Some(Address { ip: 0x0a00_0001, port: 40001 }));
            assert_eq!(segment.destination, Address { ip: 0x0a00_0002, port: 5064 }.into());
            assert_eq!(
                (segment.payload, segment.length, segment.sequence),
                (&b"a put"[..], 5, 7),
                "{packet:02x?}"
            );
        }
    }

    /// What is as long as the number of a protocol is IPv4 only if it begins so.
    #[test]
    fn tags_of_packets_of_any_length() {
        for (priority, length) in [(0, 2048), (1, 2048), (3, 2048), (2, 2047)] {
            let plain = ipv4(TCP, 0x4000, &tcp(&vec![7; length - 4 - 40]));
            let packet = tagged(priority, IPV4, &plain);
            assert_eq!(packet.len(), length);
            let segment = Frame::read(&packet, length).segment;
            assert_eq!(
                segment.map(|segment| segment.payload.len()),
                Some(length - 44),
                "{priority} {length}"
            );
        }
        // a datagram of that length, whose number begins as IP behind a tag does
        let mut packet = ipv4(17, 0x4000, &[0; 2028]);
        packet[4] = 0x45;
        assert_eq!(Frame::read(&packet, packet.len()), Frame::default());
    }

    /// Nothing of a connection was decoded that had drawn such a label.
    #[test]
    fn no_label_of_ipv6_is_a_tag() {
        let labelled = |label: u16, payload: usize| {
            let mut packet = ipv6_of(TCP, false, &tcp(&vec![7; payload]));
            packet[2..4].copy_from_slice(&label.to_be_bytes());
            packet
        };
        for label in 0..=u16::MAX {
            let packet = labelled(label, 5);
            let frame = Frame::read(&packet, packet.len());
            assert!(frame.segment.is_some() && frame.strange.is_none(), "{label:#x}");
        }
        // long ones, whose length begins as IP does behind a tag
        for label in [IPV4, IPV6, TAGS[0]] {
            for payload in [0x4000, 0x4500, 0x4fff, 0x6000, 0x6e10] {
                let packet = labelled(label, payload - 20);
                let segment = Frame::read(&packet, packet.len()).segment.expect("a segment");
                assert_eq!(segment.payload.len(), payload - 20, "{label:#x}");
                // the filter has cut it
                let cut = Frame::read(&packet[..100], packet.len()).segment.expect("a segment");
                assert_eq!((cut.payload.len(), cut.length as usize), (40, payload - 20), "{label:#x}");
            }
        }
        let options = [&[TCP, 0, 1, 4, 0, 0, 0, 0], &tcp(b"a put")[..]].concat();
        for kind in [0, 43, 60] {
            let mut packet = ipv6_of(kind, false, &options);
            packet[2..4].copy_from_slice(&TAGS[1].to_be_bytes());
            let is_read = Frame::read(&packet, packet.len()).segment.is_some();
            assert_eq!(is_read, kind != 43, "{kind}");
        }
    }

    #[test]
    fn ipv6_has_ends_of_its_own() {
        let options = [&[TCP, 1, 1, 4, 0, 0, 0, 0, 0x1e, 6], &[7; 6][..], &tcp(b"a put")].concat();
        let headers = |nexts: &[u8]| {
            let each = nexts.iter().flat_map(|next| [*next, 0, 1, 4, 0, 0, 0, 0]);
            each.chain(tcp(b"a put")).collect::<Vec<u8>>()
        };
        let route = [&[TCP, 0, 0, 0, 0, 0, 0, 0], &tcp(b"a put")[..]].concat();
        let plain = ipv6_of(TCP, false, &tcp(b"a put"));
        let mut joined = plain.clone();
        joined[4..6].copy_from_slice(&[0, 0]);
        for packet in [
            plain.clone(),
            joined,
            ipv6_of(60, false, &options),
            ipv6_of(ROUTE, false, &route),
            ipv6_of(0, false, &headers(&[60, 60, 60, 60, 60, 60, TCP])),
            tagged(2, 0x86dd, &plain),
            ipv4(IPV6_IN_IP, 0, &plain),
            ipv4(GRE, 0, &[&[0, 0, 0x86, 0xdd], &plain[..]].concat()),
            ipv6_of(IPV6_IN_IP, false, &plain),
        ] {
            let Frame { segment: Some(segment), strange: None, .. } = Frame::read(&packet, packet.len())
            else {
                panic!("{packet:02x?}")
            };
            assert_eq!((segment.payload, segment.length), (&b"a put"[..], 5));
            let ip = segment.source.ip6().expect("IPv6");
            assert_eq!((&ip[10..], segment.source.port), (&[0, 5, 10, 0, 0, 1][..], 40001));
            assert_eq!(segment.source.address(), Address { ip: 0, port: 40001 });
        }
        let mapped = End::v6(0xffff_0a00_0001, 7);
        assert_eq!((mapped.v4(), mapped.ip6()), (Some(Address { ip: 0x0a00_0001, port: 7 }), None));
        assert!(End::v6(1, 7).is_loopback() && End::from(Address { ip: 0x7f00_0001, port: 7 }).is_loopback());
        assert!(!mapped.is_loopback() && !End::v6(2, 7).is_loopback());
    }

    #[test]
    fn what_is_not_decoded_has_a_name() {
        let kind = |packet: &[u8]| {
            let frame = Frame::read(packet, packet.len());
            (frame.segment.is_some(), frame.strange)
        };
        let whole = tcp(b"a put");
        let part = |of: u8| ipv6_of(FRAGMENT, false, &[&[of, 0, 0, 1, 0, 0, 0, 9], &whole[..]].concat());
        assert_eq!(kind(&part(TCP)), (false, Some(Strange::Fragment)));
        assert_eq!(kind(&part(17)), (false, None), "a datagram's");
        assert_eq!(kind(&part(60)), (false, Some(Strange::Fragment)), "it may be of a segment");
        let more = ipv6_of(60, false, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(MAX_OPTIONS));
        assert_eq!(kind(&more), (false, Some(Strange::Unsound)));
        // what a receiver refuses, or may refuse
        for (of, header) in [
            (AUTHENTICATION, [TCP, 4, 0, 0, 0, 0, 0, 0].repeat(3)),
            (0, vec![0, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 1, 4, 0, 0, 0, 0]),
            (60, vec![0, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 1, 4, 0, 0, 0, 0]),
            (60, vec![TCP, 0, 0x5e, 4, 0, 0, 0, 0]),
            (60, vec![TCP, 0, 1, 20, 0, 0, 0, 0]),
            (60, vec![TCP, 0, 1, 4, 0, 0, 0, 1]),
            (60, vec![TCP, 0, 0x1e, 3, 0, 0, 0, 1]),
            (60, [&[TCP, 1, 1, 12][..], &[0; 12]].concat()),
            (60, [&[TCP, 2, 1, 2, 0, 0][..], &[0x1e, 0].repeat(9)].concat()),
            (0, vec![TCP, 0, 5, 1, 0, 0, 0, 0]),
            (0, vec![TCP, 0, 0xc2, 4, 0, 1, 0, 0]),
            (ROUTE, vec![TCP, 0, 0, 1, 0, 0, 0, 0]),
            (ROUTE, vec![TCP, 0, 4, 0, 0, 0, 0, 0]),
        ] {
            let packet = ipv6_of(of, false, &[&header[..], &whole].concat());
            assert_eq!(kind(&packet), (false, Some(Strange::Unsound)), "{of} {header:?}");
        }
        let optional = |options: &[u8]| {
            let mut packet = ipv4(TCP, 0, &[options, &whole].concat());
            packet[0] += options.len() as u8 / 4;
            kind(&packet)
        };
        for good in [
            &[1, 1, 1, 0][..],
            &[148, 4, 0, 0],
            &[0, 7, 7, 7],
            &[158, 4, 0, 0],
            &[7, 7, 4, 0, 0, 0, 0, 0],
            &[7, 7, 8, 0, 0, 0, 0, 0],
            &[68, 8, 5, 0, 0, 0, 0, 0],
            &[68, 4, 5, 0xe0],
        ] {
            assert_eq!(optional(good), (true, None), "{good:?}");
        }
        for bad in [
            &[7, 255, 4, 0][..],
            &[131, 3, 4, 0],
            &[137, 3, 4, 0],
            &[134, 4, 0, 0],
            &[1, 1, 1, 148],
            &[148, 3, 0, 0],
            &[158, 1, 0, 0],
            &[7, 7, 3, 0, 0, 0, 0, 0],
            &[7, 7, 5, 0, 0, 0, 0, 0],
            &[7, 3, 4, 7, 3, 4, 0, 0],
            &[68, 8, 5, 1, 0, 0, 0, 0],
            &[68, 4, 5, 0xf0],
        ] {
            assert_eq!(optional(bad), (false, Some(Strange::Unsound)), "{bad:?}");
        }
        assert_eq!(kind(&ipv4(GRE, 0x2000, &whole)), (false, Some(Strange::Fragment)));
        assert_eq!(kind(&ipv4(TCP, 0x2000, &whole)), (true, Some(Strange::Fragment)));
        assert_eq!(kind(&ipv4(TCP, 3, &whole)), (false, Some(Strange::Fragment)));
        assert_eq!(kind(&ipv4(GRE, 0, &[0, 0, 0x65, 0x58, 1, 2])), (false, Some(Strange::Tunnel)));
        assert_eq!(kind(&ipv4(TCP, 0, &whole[..19])), (false, Some(Strange::Unsound)));
        assert_eq!(kind(&[0x45]), (false, Some(Strange::Unsound)));
        assert_eq!(kind(&[]), (false, Some(Strange::Unsound)));
        // other protocols are nothing to us
        assert_eq!(kind(&ipv4(17, 0, &whole)), (false, None));
        assert_eq!(kind(&ipv6_of(58, false, &whole)), (false, None));
        let mut deep = ipv4(TCP, 0, &whole);
        for _ in 0..=MAX_LAYERS {
            deep = ipv4(IP_IN_IP, 0, &deep);
        }
        assert_eq!(kind(&deep), (false, Some(Strange::Tunnel)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..120), length in 0usize..200) {
            Frame::read(&bytes, length);
        }
    }
}
