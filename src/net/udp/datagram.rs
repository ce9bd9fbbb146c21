//! Reads IP and UDP headers.

use crate::net::frames::behind_options;
use crate::net::packet::End;
use iocrec_log::event::Address;

/// UDP's protocol number.
const UDP: u8 = 17;
/// Length of UDP's header.
const HEADER: usize = 8;
/// Length of IPv6's header.
const IP6: usize = 40;

/// A datagram as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sender.
    pub source: End,
    /// Receiver; often a broadcast or multicast address.
    pub destination: End,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// The payload's true length.
    pub length: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a packet from its IP header on. `None` unless it is the first or only fragment of a sound datagram: the
    /// others carry no ports. Over IPv6 only whole ones are read.
    pub fn parse(packet: &'a [u8]) -> Option<Datagram<'a>> {
        if packet.first()? >> 4 == 6 {
            return Datagram::parse6(packet);
        }
        let ip: &[u8; 20] = packet.first_chunk()?;
        let ip_length = usize::from(ip[0] & 0xf) * 4;
        let fragment = u16::from_be_bytes([ip[6], ip[7]]);
        if ip[0] >> 4 != 4 || ip_length < 20 || ip[9] != UDP || fragment & 0x1fff != 0 {
            return None;
        }
        let end = |at: usize| {
            let ip = u32::from_be_bytes(*ip.get(at..)?.first_chunk()?);
            Some(move |port| End::from(Address { ip, port }))
        };
        Datagram::new(packet.get(ip_length..)?, end(12)?, end(16)?)
    }

    fn parse6(packet: &'a [u8]) -> Option<Datagram<'a>> {
        let ip: &[u8; IP6] = packet.first_chunk()?;
        let (UDP, at) = behind_options(packet)? else { return None };
        let end = |at: usize| {
            let ip = u128::from_be_bytes(*ip.get(at..)?.first_chunk()?);
            Some(move |port| End::v6(ip, port))
        };
        Datagram::new(packet.get(at..)?, end(8)?, end(24)?)
    }

    /// Reads what follows the IP header.
    fn new(
        rest: &'a [u8],
        source: impl FnOnce(u16) -> End,
        destination: impl FnOnce(u16) -> End,
    ) -> Option<Datagram<'a>> {
        let (udp, rest) = rest.split_first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([udp[4], udp[5]])).checked_sub(HEADER)?;
        Some(Datagram {
            source: source(u16::from_be_bytes([udp[0], udp[1]])),
            destination: destination(u16::from_be_bytes([udp[2], udp[3]])),
            // Short Ethernet frames are padded after the packet.
            payload: rest.get(..length.min(rest.len()))?,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8], length: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 255];
        packet.extend([0x9c, 0x41, 0x13, 0xc8]);
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn whole_cut_and_padded() {
        let bytes = packet(b"abcdef", 14);
        let found = Datagram::parse(&bytes).unwrap();
        assert_eq!(
            (found.source.to_string(), found.destination.to_string()),
            ("10.0.0.1:40001".into(), "10.0.0.255:5064".into())
        );
        assert_eq!((found.payload, found.length), (&b"abcdef"[..], 6));
        let cut = packet(b"abc", 14);
        assert_eq!(Datagram::parse(&cut).map(|d| (d.payload, d.length)), Some((&b"abc"[..], 6)));
        let padded = packet(b"abcdef", 11);
        assert_eq!(Datagram::parse(&padded).map(|d| d.payload), Some(&b"abc"[..]));
        let empty = packet(b"", 8);
        assert_eq!(Datagram::parse(&empty).map(|d| d.length), Some(0));
    }

    #[test]
    fn over_ipv6() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 11, 17, 1];
        packet.extend([&[0xfd][..], &[0; 14], &[1], &[0xff, 2], &[0; 12], &[0, 1]].concat());
        packet.extend([0x9c, 0x41, 0x13, 0xd4, 0, 11, 0, 0]);
        packet.extend(b"abc");
        let found = Datagram::parse(&packet).unwrap();
        assert_eq!(
            (found.source.to_string(), found.destination.to_string()),
            ("[fd00::1]:40001".into(), "[ff02::1]:5076".into())
        );
        assert_eq!((found.payload, found.length), (&b"abc"[..], 3));
        for length in 0..48 {
            assert_eq!(Datagram::parse(&packet[..length]), None);
        }
        // behind options of each kind, and a route that is over
        for kind in [0, 43, 60] {
            let (padding, length) = if kind == 43 { (0, 0) } else { (1, 4) };
            let header = [17, 0, padding, length, 0, 0, 0, 0];
            let mut behind = [&packet[..6], &[kind], &packet[7..40], &header, &packet[40..]].concat();
            assert_eq!(Datagram::parse(&behind), Some(found), "{kind}");
            for length in 0..56 {
                assert_eq!(Datagram::parse(&behind[..length]), None);
            }
            behind[40] = 6;
            assert_eq!(Datagram::parse(&behind), None, "another protocol");
        }
        packet[6] = 44;
        assert_eq!(Datagram::parse(&packet), None, "a fragment");
    }

    #[test]
    fn what_is_no_datagram() {
        let good = packet(b"abcdef", 14);
        for (at, byte) in [(0, 0x65), (0, 0x44), (9, 6), (7, 1)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert_eq!(Datagram::parse(&bytes), None, "byte {at} is {byte}");
        }
        assert_eq!(Datagram::parse(&packet(b"", 7)), None, "shorter than its header");
        for length in 0..28 {
            assert_eq!(Datagram::parse(&good[..length]), None);
        }
    }
}
