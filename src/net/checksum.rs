//! Checksums of captured packets. A packet whose checksum is wrong is dropped by its receiver, and its sender sends again:
//! whoever believes it logs a put that nobody carried out.
//!
//! A packet that has just been sent, or put together by the network stack, carries no checksum yet. The kernel says so beside
//! the packet, and where the hardware has verified it. Only the others are looked at.

use crate::net::frames::is_tag;
use crate::net::packet::TCP;

/// Whether a packet's IP header or TCP segment has a wrong checksum. False where that can't be known: only a part was
/// captured, or it is a fragment, a tunnel's, or tagged.
pub fn is_wrong(packet: &[u8]) -> bool {
    let Some(ip) = packet.first_chunk::<20>() else { return false };
    let at = |place: usize| u16::from_be_bytes([ip[place], ip[place + 1]]);
    if is_tag(packet, packet.len()) {
        return false;
    }
    let (header, total, addresses) = match ip[0] >> 4 {
        4 if ip[9] == TCP => {
            let header = usize::from(ip[0] & 15) * 4;
            let Some(whole) = packet.get(..header) else { return false };
            if sum(whole) != 0xffff {
                return true;
            }
            if at(6) & 0x3fff != 0 {
                return false;
            }
            (header, usize::from(at(2)), 12..20)
        }
        6 if ip[6] == TCP => (40, 40 + usize::from(at(4)), 8..40),
        _ => return false,
    };
    let (Some(segment), Some(addresses)) = (packet.get(header..total), packet.get(addresses)) else {
        return false;
    };
    let about = u64::from(TCP) + segment.len() as u64;
    !segment.is_empty() && fold(u64::from(sum(segment)) + u64::from(sum(addresses)) + about) != 0xffff
}

/// The sum of 16-bit words by which checksums are reckoned (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    fold(words + rest.iter().map(|byte| u64::from(*byte) << 8).sum::<u64>())
}

fn fold(sum: u64) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packets as Linux sent them: 5 bytes over IPv4, with a time stamp, and 3 over IPv6.
    fn packets() -> [Vec<u8>; 2] {
        let mut ip4 = vec![0x45, 0, 0, 45, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut ip6 = vec![0x60, 0, 0, 0, 0, 23, 6, 64];
        ip6.extend([[0; 15].as_slice(), &[1], &[0; 15], &[1]].concat());
        let tcp = [0x9c, 0x41, 0x13, 0xc8, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 16, 1, 0, 0, 0, 0, 0];
        for (packet, payload) in [(&mut ip4, &b"a put"[..]), (&mut ip6, b"abc")] {
            packet.extend(tcp);
            packet.extend(payload);
        }
        let header = !sum(&ip4[..20]);
        ip4[10..12].copy_from_slice(&header.to_be_bytes());
        for (packet, header, addresses) in [(&mut ip4, 20, 12..20), (&mut ip6, 40, 8..40)] {
            let length = (packet.len() - header) as u64;
            let parts = u64::from(sum(&packet[header..])) + u64::from(sum(&packet[addresses])) + 6 + length;
            let checksum = !fold(parts);
            packet[header + 16..header + 18].copy_from_slice(&checksum.to_be_bytes());
        }
        [ip4, ip6]
    }

    #[test]
    fn every_changed_byte_is_found() {
        for packet in packets() {
            assert!(!is_wrong(&packet), "{packet:02x?}");
            // behind what says which protocol it is, and how long
            let first = if packet[0] >> 4 == 4 { 10 } else { 8 };
            for place in first..packet.len() {
                let mut changed = packet.clone();
                changed[place] ^= 0x10;
                assert!(is_wrong(&changed), "byte {place} of {packet:02x?}");
            }
        }
    }

    /// Whoever chooses such a label hides no checksum behind it.
    #[test]
    fn a_label_of_ipv6_is_no_tag() {
        let [_, mut packet] = packets();
        for label in [0x0800_u16, 0x8100, 0x88a8, 0x9100, 0x86dd] {
            packet[2..4].copy_from_slice(&label.to_be_bytes());
            assert!(!is_wrong(&packet), "{label:#x}");
            let mut changed = packet.clone();
            changed[61] ^= 1;
            assert!(is_wrong(&changed), "{label:#x}");
        }
    }

    #[test]
    fn what_can_not_be_known_is_not_wrong() {
        for mut packet in packets() {
            // Ethernet's padding is no part of it
            let whole = [packet.clone(), vec![7; 6]].concat();
            assert!(!is_wrong(&whole));
            let last = packet.len() - 1;
            packet[last] ^= 1;
            assert!(is_wrong(&packet));
            assert!(!is_wrong(&packet[..last]), "cut");
            let tagged = [
                &[0x60, 5, if packet[0] >> 4 == 4 { 8 } else { 0x86 }][..],
                &[if packet[0] >> 4 == 4 { 0 } else { 0xdd }],
                &packet,
            ]
            .concat();
            assert!(!is_wrong(&tagged), "tagged");
        }
        let [mut fragment, _] = packets();
        fragment[6] = 0x20;
        fragment[10..12].copy_from_slice(&[0, 0]);
        let header = !sum(&fragment[..20]);
        fragment[10..12].copy_from_slice(&header.to_be_bytes());
        fragment[44] ^= 1;
        assert!(!is_wrong(&fragment), "a fragment: the checksum is that of the whole");
        assert!(!is_wrong(&[]) && !is_wrong(&[0x45; 19]));
    }
}
