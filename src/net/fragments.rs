//! Puts fragments of IP together, within bounds.
//!
//! TCP avoids fragments, but a tunnel with a smaller packet size makes them. A packet is put together once all its parts
//! have come, in any order, whole; until then its first part is held back, too. Parts that overlap are nobody's honest
//! doing, and end it (RFC 5722). What is not complete after a time, or is pushed out, counts; of it, the first part alone
//! is decoded.
//!
//! Bounds: [`PACKETS`] packets of at most 64 KiB, [`HELD`] bytes together.

use std::collections::VecDeque;

use crate::net::frames::{option, Frame, Strange, FRAGMENT};
use crate::net::options::HOP_BY_HOP;
use crate::net::Namespace;

/// Packets that are being put together.
pub const PACKETS: usize = 16;
/// Bytes of all of them.
pub const HELD: usize = 256 << 10;
/// Parts of one: 64 KiB in parts of an Ethernet frame are 45.
const PARTS: usize = 64;
/// Time after which a packet is given up, nanoseconds. Fragments follow each other at once; Linux waits 30 s.
const AGE: u64 = 2_000_000_000;
/// Tunnels within tunnels whose packets are put together.
const DEPTH: u8 = 2;
/// Length of the fixed headers.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// The most that a packet holds.
const LONGEST: usize = 65_535;

/// What a packet's fragments have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    namespace: Namespace,
    source: u128,
    destination: u128,
    number: u32,
    protocol: u8,
    is_ipv6: bool,
}

/// A fragment.
struct Part<'a> {
    key: Key,
    /// Place of its bytes in the packet's.
    at: usize,
    is_last: bool,
    header: &'a [u8],
    bytes: &'a [u8],
}

/// A packet of which some parts have come.
#[derive(Debug)]
struct Packet {
    key: Key,
    since: u64,
    /// The header of its first part.
    header: Vec<u8>,
    /// In order of their places.
    parts: Vec<(usize, Vec<u8>)>,
    /// Its length, once the last part has come.
    length: Option<usize>,
}

/// What became of a fragment.
enum Taken {
    Held,
    Whole(Vec<u8>),
    /// It can't be put together with others.
    Alone,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Fragments {
    packets: VecDeque<Packet>,
    held: usize,
    /// First parts of packets that were given up, to be decoded as far as they go.
    firsts: Vec<(Namespace, Vec<u8>)>,
    /// Packets given up that are not counted yet.
    lost: u64,
}

/// Receives what packets carry, with the namespace of the packet.
pub type Frames<'a> = dyn FnMut(Namespace, Frame<'_>) + 'a;

impl Fragments {
    /// Reads a packet from its network header on, as [`Frame::read`] does; if it is a fragment, together with the others.
    /// Of a packet that was put together, `sink` gets what it carries when the last part has come.
    pub fn read(&mut self, namespace: Namespace, time: u64, packet: &[u8], length: usize, sink: &mut Frames) {
        self.step(namespace, time, (packet, length), DEPTH, sink);
        if !self.packets.is_empty() || self.lost > 0 {
            self.tick(time, sink);
        }
    }

    fn step(
        &mut self,
        namespace: Namespace,
        time: u64,
        (packet, length): (&[u8], usize),
        depth: u8,
        sink: &mut Frames,
    ) {
        let frame = Frame { joined: depth < DEPTH, ..Frame::read(packet, length) };
        let Some((part, length)) = frame.fragment.filter(|_| depth > 0) else {
            return sink(namespace, frame);
        };
        match self.take(namespace, time, part, length) {
            Taken::Held => {}
            Taken::Whole(whole) => self.step(namespace, time, (&whole, whole.len()), depth - 1, sink),
            Taken::Alone => sink(namespace, frame),
        }
    }

    /// Gives up what is old.
    pub fn tick(&mut self, now: u64, sink: &mut Frames) {
        while self.packets.front().is_some_and(|packet| now.saturating_sub(packet.since) >= AGE) {
            self.give_up(0);
        }
        self.hand_over(sink);
    }

    /// Gives up all.
    pub fn finish(&mut self, sink: &mut Frames) {
        while !self.packets.is_empty() {
            self.give_up(0);
        }
        self.hand_over(sink);
    }

    fn hand_over(&mut self, sink: &mut Frames) {
        for (namespace, first) in std::mem::take(&mut self.firsts) {
            let frame = Frame::read(&first, first.len());
            self.lost = self.lost.saturating_sub(1);
            sink(namespace, Frame { strange: Some(Strange::Fragment), ..frame });
        }
        for _ in 0..std::mem::take(&mut self.lost) {
            sink(0, Frame { strange: Some(Strange::Fragment), ..Frame::default() });
        }
    }

    fn give_up(&mut self, at: usize) {
        let Some(packet) = self.packets.remove(at) else { return };
        self.held = self.held.saturating_sub(packet.held());
        self.lost += 1;
        if let Some((0, bytes)) = packet.parts.first() {
            self.firsts.push((packet.key.namespace, [&packet.header[..], bytes].concat()));
        }
    }

    fn take(&mut self, namespace: Namespace, time: u64, packet: &[u8], length: usize) -> Taken {
        let Some(part) = part(namespace, packet, length) else { return Taken::Alone };
        let at = match self.packets.iter().position(|packet| packet.key == part.key) {
            Some(at) => at,
            None => {
                while self.packets.len() >= PACKETS {
                    self.give_up(0);
                }
                let key = part.key;
                self.packets.push_back(Packet {
                    key,
                    since: time,
                    header: Vec::new(),
                    parts: Vec::new(),
                    length: None,
                });
                self.packets.len() - 1
            }
        };
        let Some(found) = self.packets.get_mut(at) else { return Taken::Alone };
        let before = found.held();
        let fits = found.add(&part);
        self.held = self.held.saturating_sub(before) + found.held();
        if !fits {
            self.give_up(at);
            return Taken::Held;
        }
        if found.is_complete() {
            let whole = self.packets.remove(at).map(|packet| {
                self.held = self.held.saturating_sub(packet.held());
                packet.whole()
            });
            return whole.map_or(Taken::Held, Taken::Whole);
        }
        while self.held > HELD && self.packets.len() > 1 {
            self.give_up(0);
        }
        Taken::Held
    }
}

impl Packet {
    fn held(&self) -> usize {
        self.header.capacity() + self.parts.iter().map(|(_, bytes)| bytes.capacity()).sum::<usize>()
    }

    /// Adds a part. False if it does not go with the others.
    fn add(&mut self, part: &Part) -> bool {
        let end = part.at.saturating_add(part.bytes.len());
        let at = self.parts.partition_point(|(place, _)| *place < part.at);
        if let Some((place, bytes)) = self.parts.get(at) {
            if *place == part.at && bytes == part.bytes {
                // captured twice
                return true;
            }
            if *place < end {
                return false;
            }
        }
        let before = at.checked_sub(1).and_then(|before| self.parts.get(before));
        let overlaps = before.is_some_and(|(place, bytes)| place + bytes.len() > part.at);
        let beyond = self.length.is_some_and(|length| end > length || part.is_last);
        if overlaps || beyond || self.parts.len() >= PARTS {
            return false;
        }
        if part.is_last {
            if self.parts.last().is_some_and(|(place, bytes)| place + bytes.len() > end) {
                return false;
            }
            self.length = Some(end);
        }
        if part.at == 0 {
            self.header = part.header.to_vec();
            // without the header of the fragment: it may have to do alone
            if let (true, Some([a, b, next])) = (self.key.is_ipv6, self.header.get_mut(4..7)) {
                (*a, *b, *next) = (0, 0, self.key.protocol);
            }
        }
        self.parts.insert(at, (part.at, part.bytes.to_vec()));
        true
    }

    fn is_complete(&self) -> bool {
        // parts do not overlap and lie within the length
        let have: usize = self.parts.iter().map(|(_, bytes)| bytes.len()).sum();
        self.length == Some(have)
    }

    /// The packet as it would have come in one.
    fn whole(self) -> Vec<u8> {
        let mut whole = self.header;
        let fixed = if self.key.is_ipv6 { IPV6_HEADER } else { 0 };
        self.parts.iter().for_each(|(_, bytes)| whole.extend_from_slice(bytes));
        let length = u16::try_from(whole.len() - fixed.min(whole.len())).unwrap_or(0).to_be_bytes();
        let set = |whole: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            if let Some(to) = whole.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        if self.key.is_ipv6 {
            set(&mut whole, 4, &length);
            set(&mut whole, 6, &[self.key.protocol]);
        } else {
            set(&mut whole, 2, &length);
            set(&mut whole, 6, &[0, 0]);
        }
        whole
    }
}

/// Reads a fragment from its IP header on. `None` if not all of it is there, or it can't be one.
fn part(namespace: Namespace, packet: &[u8], length: usize) -> Option<Part<'_>> {
    let number = |at: usize| Some(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    let word = |at: usize| Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let (key, at, is_last, header, begin, end);
    if packet.first()? >> 4 == 4 {
        begin = usize::from(packet.first()? & 15) * 4;
        end = half(2)?;
        header = packet.get(..begin)?;
        (at, is_last) = ((half(6)? & 0x1fff) * 8, half(6)? & 0x2000 == 0);
        let (source, destination) = (word(12)?.into(), word(16)?.into());
        let (id, protocol) = (half(4)? as u32, *packet.get(9)?);
        key = Key { namespace, source, destination, number: id, protocol, is_ipv6: false };
        if begin < IPV4_HEADER {
            return None;
        }
    } else {
        let mut next = *packet.get(6)?;
        let mut from = IPV6_HEADER;
        end = IPV6_HEADER + half(4)?;
        while next != FRAGMENT {
            let length = *packet.get(from + 1)?;
            (next, from) = (*packet.get(from)?, from + option(next, length));
        }
        // options before it concern the way, not the segment
        header = packet.get(..IPV6_HEADER)?;
        begin = from + 8;
        (at, is_last) = (half(from + 2)? & 0xfff8, half(from + 2)? & 1 == 0);
        let protocol = *packet.get(from)?;
        key = Key {
            namespace,
            source: number(8)?,
            destination: number(24)?,
            number: word(from + 4)?,
            protocol,
            is_ipv6: true,
        };
    }
    let bytes = packet.get(begin..end).filter(|_| end <= length)?;
    // all but the last are of eight bytes each
    let sound = !bytes.is_empty()
        // options for each hop come before a fragment's header
        && (!key.is_ipv6 || key.protocol != HOP_BY_HOP)
        && (is_last || bytes.len().is_multiple_of(8))
        && at + bytes.len() + IPV6_HEADER <= LONGEST;
    sound.then_some(Part { key, at, is_last, header, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_testing::chance::{fuzz, Random};

    fn tcp(payload: &[u8]) -> Vec<u8> {
        [&[0x9c, 0x41, 0x13, 0xc8, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 16, 1, 0, 0, 0, 0, 0], payload].concat()
    }

    fn ipv4(protocol: u8, number: u8, place: usize, more: bool, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + inside.len() as u16).to_be_bytes());
        bytes.extend([0, number]);
        bytes.extend(((place as u16 / 8) | (u16::from(more) << 13)).to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend_from_slice(inside);
        bytes
    }

    fn ipv6(number: u8, place: usize, more: bool, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((8 + inside.len() as u16).to_be_bytes());
        bytes.extend([FRAGMENT, 64]);
        bytes.extend([[0xfd; 16], [0xfe; 16]].concat());
        bytes.extend([6, 0]);
        bytes.extend((place as u16 | u16::from(more)).to_be_bytes());
        bytes.extend([0, 0, 0, number]);
        bytes.extend_from_slice(inside);
        bytes
    }

    /// Parts of this size.
    fn parts(bytes: &[u8], size: usize, make: impl Fn(usize, bool, &[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
        let all = bytes.chunks(size).enumerate();
        all.map(|(at, part)| make(at * size, at * size + part.len() < bytes.len(), part)).collect()
    }

    /// Payloads found, and packets that are not all there.
    fn read(fragments: &mut Fragments, time: u64, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
        let (mut found, mut strange) = (Vec::new(), 0);
        let mut sink = |_: Namespace, frame: Frame<'_>| {
            found.extend(frame.segment.map(|segment| segment.payload.to_vec()));
            strange += usize::from(frame.strange.is_some());
        };
        for packet in packets {
            fragments.read(0, time, packet, packet.len(), &mut sink);
        }
        (found, strange)
    }

    #[test]
    fn parts_in_any_order_are_one_segment() {
        let payload: Vec<u8> = (0..3000_u32).map(|n| n as u8).collect();
        let whole = tcp(&payload);
        // through a tunnel that is itself cut, and one whose inside is
        let inner = [&[0, 0, 8, 0][..], &ipv4(6, 1, 0, false, &whole)].concat();
        let around = |part: Vec<u8>| ipv4(4, 0, 0, false, &part);
        let behind_options = |at: usize, more: bool, part: &[u8]| {
            let mut packet = ipv6(1, at, more, part);
            packet[IPV6_HEADER] = 60;
            packet
        };
        for mut packets in [
            parts(&whole, 1480, |at, more, part| ipv4(6, 1, at, more, part)),
            parts(&whole, 1232, |at, more, part| ipv6(1, at, more, part)),
            parts(&[&[6, 0, 1, 4, 0, 0, 0, 0], &whole[..]].concat(), 1232, behind_options),
            parts(&inner, 1400, |at, more, part| ipv4(47, 9, at, more, part)),
            parts(&whole, 1000, |at, more, part| around(ipv4(6, 1, at, more, part))),
        ] {
            let wanted = (vec![payload.clone()], 0);
            assert_eq!(read(&mut Fragments::default(), 1, &packets), wanted);
            packets.reverse();
            packets.insert(1, packets[0].clone());
            let mut fragments = Fragments::default();
            assert_eq!(read(&mut fragments, 1, &packets), wanted, "in reverse, one of them twice");
            assert_eq!((fragments.held, fragments.packets.len()), (0, 0));
        }
    }

    #[test]
    fn what_is_missing_counts_and_the_first_part_is_read() {
        let whole = tcp(&[7; 3000]);
        let packets = parts(&whole, 1480, |at, more, part| ipv4(6, 1, at, more, part));
        let mut fragments = Fragments::default();
        assert_eq!(read(&mut fragments, 1, &packets[..2]), (vec![], 0));
        let other = ipv4(6, 2, 0, false, &tcp(b"x"));
        assert_eq!(read(&mut fragments, 1 + AGE, &[other]), (vec![b"x".to_vec(), vec![7; 1460]], 1));
        // no first part: nothing can be said of it
        assert_eq!(read(&mut fragments, 1, &packets[1..2]), (vec![], 0));
        let mut strange = 0;
        fragments.finish(&mut |_, frame| strange += usize::from(frame.strange.is_some()));
        assert_eq!((strange, fragments.held), (1, 0));
        // a part that overlaps another
        let forged = ipv4(6, 1, 1472, true, &[9; 16]);
        let (found, strange) = read(&mut fragments, 1, &[packets[0].clone(), forged]);
        assert_eq!((found, strange), (vec![vec![7; 1460]], 1));
        // cut when it was captured
        let mut frames = Vec::new();
        fragments.read(0, 1, &packets[0][..100], 1500, &mut |_, frame| {
            frames.push((frame.segment.map(|segment| segment.length), frame.strange));
        });
        assert_eq!(frames, [(Some(1460), Some(Strange::Fragment))]);
    }

    #[test]
    fn over_ipv6_the_first_part_is_read_too() {
        let packets = parts(&tcp(&[7; 3000]), 1480, |at, more, part| ipv6(1, at, more, part));
        let mut fragments = Fragments::default();
        assert_eq!(read(&mut fragments, 1, &packets[..2]), (vec![], 0));
        let other = ipv6(2, 0, false, &tcp(b"x"));
        assert_eq!(read(&mut fragments, 1 + AGE, &[other]), (vec![b"x".to_vec(), vec![7; 1460]], 1));
    }

    /// Whatever comes: memory is bounded, and no packet is made of others' parts.
    #[test]
    fn a_flood_is_bounded() {
        fuzz(200, |random: &mut Random| {
            let mut fragments = Fragments::default();
            for time in 0..300 {
                let size = [8, 64, 1480, 40_000][random.below(4)];
                let at = random.below(9000) * 8;
                let number = random.below(40) as u8;
                let part = ipv4(6, number, at % 65_536, random.below(3) > 0, &vec![number; size.min(60_000)]);
                fragments.read(0, time, &part, part.len(), &mut |_, frame| {
                    let payload = frame.segment.map_or(&[][..], |segment| segment.payload);
                    assert!(payload.windows(2).all(|pair| pair[0] == pair[1]));
                });
                assert!(fragments.held <= HELD + LONGEST && fragments.packets.len() <= PACKETS);
            }
        });
    }
}
