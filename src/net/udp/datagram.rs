//! Reads IPv4 and UDP headers.

use iocrec_log::event::Address;

/// UDP's protocol number.
const UDP: u8 = 17;
/// Length of UDP's header.
const HEADER: usize = 8;

/// A datagram as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sender.
    pub source: Address,
    /// Receiver; often a broadcast or multicast address.
    pub destination: Address,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// The payload's true length.
    pub length: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a packet from its IPv4 header on. `None` unless it is the first or only fragment of a sound datagram: the
    /// others carry no ports.
    pub fn parse(packet: &'a [u8]) -> Option<Datagram<'a>> {
        let ip: &[u8; 20] = packet.first_chunk()?;
        let ip_length = usize::from(ip[0] & 0xf) * 4;
        let fragment = u16::from_be_bytes([ip[6], ip[7]]);
        if ip[0] >> 4 != 4 || ip_length < 20 || ip[9] != UDP || fragment & 0x1fff != 0 {
            return None;
        }
        let udp: &[u8; HEADER] = packet.get(ip_length..)?.first_chunk()?;
        let u32_at = |i: usize| Some(u32::from_be_bytes(*ip.get(i..)?.first_chunk()?));
        let length = usize::from(u16::from_be_bytes([udp[4], udp[5]])).checked_sub(HEADER)?;
        let rest = packet.get(ip_length + HEADER..)?;
        Some(Datagram {
            source: Address { ip: u32_at(12)?, port: u16::from_be_bytes([udp[0], udp[1]]) },
            destination: Address { ip: u32_at(16)?, port: u16::from_be_bytes([udp[2], udp[3]]) },
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
