//! IPv6 addresses in facts that have room for IPv4 ones: numbers stand for them ([`Ip6`]).
//!
//! Promise: a number that stands in facts for an address stands for no other as long as anything is counted under it.

use std::collections::HashMap;

use iocrec_log::event::{Address, Event, Fact, Ip6};

use crate::net::packet::End;

/// Addresses that have a number: a plant has some hundred hosts. An entry takes some 60 bytes, here and in the log's
/// definitions.
const MOST: u32 = 2048;
/// Time after which the number of an address that was not seen may stand for another, nanoseconds. Nothing is counted
/// for so long: servers without beacons are forgotten after an hour.
const UNUSED: u64 = 2 * 3600 * 1_000_000_000;

/// Numbers from here on are those of TCP; those of UDP begin below.
const OF_TCP: u32 = Ip6::END / 2;

/// See the module.
#[derive(Debug)]
pub struct StandIns {
    /// The number before the first.
    base: u32,
    /// The number of each address, and when it was seen last.
    known: HashMap<[u8; 16], (u32, u64)>,
    /// No number can be taken from an address before this time.
    full_until: u64,
}

impl StandIns {
    /// For what is captured of UDP.
    pub fn of_udp() -> StandIns {
        StandIns { base: Ip6::LOOPBACK, known: HashMap::new(), full_until: 0 }
    }

    /// For what is captured of TCP, apart from that.
    pub fn of_tcp() -> StandIns {
        StandIns { base: OF_TCP, known: HashMap::new(), full_until: 0 }
    }

    /// The address as facts have it, which `out` tells before. IP address 0 if too many have a number.
    pub fn address(&mut self, end: End, time: u64, out: &mut Vec<Event>) -> Address {
        let port = end.port;
        let Some(bytes) = end.ip6() else { return end.address() };
        if let Some((ip, seen)) = self.known.get_mut(&bytes) {
            *seen = time.max(*seen);
            return Address { ip: *ip, port };
        }
        let Some(ip) = self.free(end, time) else { return Address { ip: 0, port } };
        self.known.insert(bytes, (ip, time));
        out.push(Event { time, fact: Fact::Ip6(Ip6 { ip, bytes: bytes.to_vec() }) });
        Address { ip, port }
    }

    /// A number for one more address.
    fn free(&mut self, end: End, time: u64) -> Option<u32> {
        if end.is_loopback() {
            return Some(Ip6::LOOPBACK);
        }
        let count = u32::try_from(self.known.len()).unwrap_or(MOST);
        if count < MOST {
            return Some(self.base.saturating_add(count).saturating_add(1));
        }
        if time < self.full_until {
            return None;
        }
        let others = self.known.iter().filter(|(_, (ip, _))| *ip != Ip6::LOOPBACK);
        let (&oldest, &(ip, seen)) = others.min_by_key(|(_, (_, seen))| *seen)?;
        self.full_until = seen.saturating_add(UNUSED);
        if time < self.full_until {
            return None;
        }
        self.known.remove(&oldest);
        Some(ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(number: u32) -> End {
        End::v6(0xfd00 << 112 | u128::from(number), 5076)
    }

    #[test]
    fn each_address_has_a_number_of_its_own() {
        let (mut of, mut out) = (StandIns::of_udp(), Vec::new());
        let v4 = End::from(Address { ip: 0x0a00_0001, port: 7 });
        assert_eq!(of.address(v4, 1, &mut out), Address { ip: 0x0a00_0001, port: 7 });
        assert_eq!(of.address(End::v6(1, 9), 1, &mut out), Address { ip: Ip6::LOOPBACK, port: 9 });
        let mut ips: Vec<u32> = (0..MOST - 1).map(|n| of.address(end(n), 5, &mut out).ip).collect();
        assert!(ips.iter().all(|ip| (2..OF_TCP).contains(ip)));
        ips.dedup();
        assert_eq!((ips.len(), out.len()), (MOST as usize - 1, MOST as usize), "told once each");
        let again: Vec<u32> = (0..MOST - 1).map(|n| of.address(end(n), 6, &mut out).ip).collect();
        assert_eq!(again, ips);
        // no room: not told rather than wrong
        assert_eq!(of.address(end(MOST), 7, &mut out).ip, 0);
        assert_eq!(out.len(), MOST as usize);
        of.address(end(9), 6 + UNUSED / 2, &mut out);
        let late = of.address(end(MOST), 6 + UNUSED, &mut out).ip;
        assert!(ips.contains(&late) && late != ips[9], "that of one that was not seen for long");
        assert_eq!(out.len(), MOST as usize + 1);
        assert_eq!(of.address(end(9), 6 + UNUSED, &mut out).ip, ips[9]);
    }
}
