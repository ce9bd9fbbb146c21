//! Whose loopback a connection is on.
//!
//! Each machine and network namespace has loopback addresses of its own, and a file does not say whose an interface is. A
//! packet that a program captured on several interfaces counts once; packets of different connections between the same
//! addresses and ports must not become one. Their sequence numbers tell: both sides choose them at random. What does not
//! fit what was seen on another interface counts as another machine's.

use std::collections::HashMap;

use crate::net::packet::{End, Segment};
use crate::net::Namespace;

/// An interface, of a file or several that follow each other.
pub(super) type Place = (u32, u32);

/// Machines that are told apart between the same addresses and ports.
pub(super) const MACHINES: Namespace = 8;
/// Interfaces on which one connection is seen.
const MAX_PLACES: usize = 8;
/// Pairs of ends that are remembered, and for how long after their last packet if there is no room.
const MAX_PAIRS: usize = 4096;
const REMEMBERED: u64 = 60_000_000_000;
/// Time between two searches for room.
const SEARCHES: u64 = 1_000_000_000;
/// Distance of sequence numbers of one connection: interfaces may be behind each other by what waits in their buffers. One in
/// 500 connections of two machines is that near by chance as it opens, one in 250,000 of those that are open.
const NEAR: u32 = 4 << 20;

/// A connection on one machine.
#[derive(Debug, Default)]
struct Stream {
    /// The interfaces on which it was seen.
    places: Vec<Place>,
    /// Sequence numbers that follow what each side has sent; the lower end first.
    next: [Option<u32>; 2],
}

/// Those between two ends.
#[derive(Debug, Default)]
struct Pair {
    streams: Vec<Stream>,
    last: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Machines {
    pairs: HashMap<(End, End), Pair>,
    searched: u64,
}

impl Machines {
    /// The network namespace that stands for the machine that this segment between loopback addresses is of.
    pub fn namespace(&mut self, time: u64, place: Place, segment: &Segment) -> Namespace {
        let (low, high) = (segment.source.min(segment.destination), segment.source.max(segment.destination));
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&(low, high)) {
            if time.saturating_sub(self.searched) >= SEARCHES {
                self.searched = time;
                self.pairs.retain(|_, pair| time.saturating_sub(pair.last) < REMEMBERED);
            }
            if self.pairs.len() >= MAX_PAIRS {
                return 0;
            }
        }
        let pair = self.pairs.entry((low, high)).or_default();
        pair.last = pair.last.max(time);
        let side = usize::from(segment.source != low);
        let own = pair.streams.iter().position(|stream| stream.places.contains(&place));
        // a new connection may have been seen on another interface first
        let opens = segment.syn && own.is_some_and(|own| !is_at(pair, own, side, segment));
        let again = || (0..pair.streams.len()).find(|stream| is_at(pair, *stream, side, segment));
        let known = match own {
            Some(own) => opens.then(again).flatten().or(Some(own)),
            None => pair.streams.iter().position(|stream| stream.fits(side, segment)),
        };
        let number = known.unwrap_or(pair.streams.len());
        let namespace = number as Namespace;
        if namespace >= MACHINES {
            return 0;
        }
        if own != Some(number) {
            if let Some(left) = own.and_then(|own| pair.streams.get_mut(own)) {
                left.places.retain(|other| *other != place);
            }
            if known.is_none() {
                pair.streams.push(Stream::default());
            }
        }
        if let Some(stream) = pair.streams.get_mut(number) {
            if own != Some(number) && stream.places.len() < MAX_PLACES {
                stream.places.push(place);
            }
            stream.take(side, segment);
        }
        namespace
    }
}

/// Whether an opening is the one that this stream began with.
fn is_at(pair: &Pair, stream: usize, side: usize, segment: &Segment) -> bool {
    let next = pair.streams.get(stream).and_then(|stream| *stream.next.get(side)?);
    next == Some(segment.sequence.wrapping_add(1))
}

impl Stream {
    /// Whether this segment may be one of its own.
    fn fits(&self, side: usize, segment: &Segment) -> bool {
        let near = |side: usize, sequence: u32| {
            let next = (*self.next.get(side)?)?;
            Some((sequence.wrapping_sub(next) as i32).unsigned_abs() <= NEAR)
        };
        let own = near(side, segment.sequence);
        let others = segment.acknowledged.and_then(|sequence| near(1 - side.min(1), sequence));
        own != Some(false) && others != Some(false)
    }

    fn take(&mut self, side: usize, segment: &Segment) {
        let end = segment.sequence.wrapping_add(segment.length).wrapping_add(u32::from(segment.syn));
        let Some(next) = self.next.get_mut(side) else { return };
        let ahead = next.map_or(1, |next| end.wrapping_sub(next) as i32);
        if ahead > 0 || ahead.unsigned_abs() > NEAR {
            *next = Some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Address;

    fn segment(to_server: bool, sequence: u32, acknowledged: Option<u32>, length: u32) -> Segment<'static> {
        let [client, server] = [40_000, 5064].map(|port| End::from(Address { ip: 0x7f00_0001, port }));
        let (source, destination) = if to_server { (client, server) } else { (server, client) };
        Segment {
            source,
            destination,
            sequence,
            acknowledged,
            closes_window: false,
            syn: acknowledged.is_none(),
            fin: false,
            reset: false,
            urgent: false,
            payload: b"",
            length,
            options: b"",
            elided: false,
            place: None,
        }
    }

    #[test]
    fn the_same_packets_are_one_machines_and_others_are_not() {
        let mut machines = Machines::default();
        let mut on = |interface, segment: Segment| machines.namespace(1, (0, interface), &segment);
        // an opening on two interfaces, and another connection between the same ports on a third
        for interface in [1, 2] {
            assert_eq!(on(interface, segment(true, 1000, None, 0)), 0);
        }
        assert_eq!(on(3, segment(true, 0x4000_0000, None, 0)), 1);
        for interface in [2, 1] {
            assert_eq!(on(interface, segment(false, 0x7000_0000, Some(1001), 16)), 0);
        }
        assert_eq!(on(3, segment(false, 0x1234, Some(0x4000_0001), 16)), 1);
        // joined in the middle: by the acknowledgement alone, too
        assert_eq!(on(4, segment(true, 1001, Some(0x7000_0010), 16)), 0);
        assert_eq!(on(5, segment(true, 0x4000_0001, Some(0x1244), 16)), 1);
        assert_eq!(on(6, segment(true, 0x9000_0000, Some(0x7000_0010), 16)), 2);
        // the next connection between these ports, first on an interface that was not the first before
        assert_eq!(on(2, segment(true, 0xa000_0000, None, 0)), 0);
        assert_eq!(on(1, segment(true, 0xa000_0000, None, 0)), 0);
        assert_eq!(on(3, segment(true, 0xb000_0000, None, 0)), 1);
    }

    #[test]
    fn many_connections_have_bounds() {
        let mut machines = Machines::default();
        for port in 0..20_000u16 {
            let mut segment = segment(true, 1, None, 0);
            segment.source.port = port;
            for interface in 0..20 {
                segment.sequence = interface * 0x0800_0000;
                assert!(machines.namespace(u64::from(port), (0, interface), &segment) < MACHINES);
            }
        }
        assert!(machines.pairs.len() <= MAX_PAIRS);
        let later = machines.namespace(2 * REMEMBERED, (0, 1), &segment(true, 1, None, 0));
        assert!(later == 0 && machines.pairs.len() == 1);
    }
}
