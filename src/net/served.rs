//! The servers of a network namespace: their addresses, ports and processes.
//!
//! Two servers may share a port on two addresses, or an address and port in two namespaces. A connection belongs to the
//! server whose socket listens on its address, else to the one that listens on all addresses, as in the kernel. If
//! several processes hold that socket, or several sockets share address and port (SO_REUSEPORT), the server is unknown.

use crate::linux::sockets::LocalAddress;
use crate::net::packet::End;
use crate::net::service::{Ports, Service};
use crate::net::Namespace;
use iocrec_log::event::Address;

/// The recorder's id of a process.
pub type Owner = u32;

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its address; IP address 0 means all.
    pub address: Address,
    /// The recorded process that holds it; `None` if another process holds it, or several do.
    pub owner: Option<Owner>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The namespace.
    pub namespace: Namespace,
    /// TCP ports of the servers, by protocol.
    pub ports: Ports,
    /// All sockets that listen on these ports.
    pub listeners: Vec<Listener>,
    /// The same of IPv6: address, where 0 means all, port and owner.
    pub listeners6: Vec<(u128, u16, Option<Owner>)>,
    /// The namespace's own addresses.
    pub local: Vec<LocalAddress>,
    /// Its own IPv6 addresses.
    pub local6: Vec<u128>,
    /// Since when its packets are captured (nanoseconds, monotonic): those of before count where they passed through. `None`
    /// if they are not captured.
    pub captured: Option<u64>,
    /// Those ports of which nothing has shown yet that a server of the protocol is there.
    pub guessed: Vec<u16>,
}

impl Served {
    /// Whether an end's IP address is one of this namespace's.
    pub fn has(&self, end: End) -> bool {
        match (end.v4(), end.ip6()) {
            (Some(address), _) => self.local.iter().any(|local| local.has(address.ip)),
            (_, Some(ip)) => self.local6.contains(&u128::from_be_bytes(ip)),
            (None, None) => false,
        }
    }

    /// Whether the namespace takes no packet of this kind with these addresses, though an interface shows it: it is for another
    /// host's hardware address, or for many; or says to be from here and comes from outside. If an interface of its own takes
    /// it, as with a bridge, it is captured there once more, unless only some are: then `all` is false.
    pub fn refuses(&self, kind: u8, [source, destination]: [End; 2], all: bool) -> bool {
        match kind {
            libc::PACKET_HOST => self.has(source) && !self.has(destination),
            libc::PACKET_BROADCAST | libc::PACKET_MULTICAST => self.has(destination),
            libc::PACKET_OTHERHOST => all && self.has(destination),
            _ => false,
        }
    }

    /// Whether this end of a connection captured in another namespace is a server in this one. Never true for loopback
    /// addresses: each namespace has its own.
    pub fn is_home(&self, service: &Service, end: End) -> bool {
        self.captured.is_some() && self.ports.has(service, end.port) && !end.is_loopback() && self.has(end)
    }

    /// Whether a socket listens at this address of this namespace.
    pub fn listens_at(&self, end: End) -> bool {
        let at6 = |ip: [u8; 16]| {
            let ip = u128::from_be_bytes(ip);
            self.listeners6.iter().any(|(at, port, _)| *port == end.port && (*at == ip || *at == 0))
        };
        let at = |address: Address| {
            let is_at = |listener: &Listener| [0, address.ip].contains(&listener.address.ip);
            self.listeners.iter().any(|listener| listener.address.port == end.port && is_at(listener))
        };
        self.has(end) && (end.v4().is_some_and(at) || end.ip6().is_some_and(at6))
    }

    /// Whether a socket listens on this port, on any address.
    pub fn listens(&self, port: u16) -> bool {
        self.listeners.iter().any(|listener| listener.address.port == port)
            || self.listeners6.iter().any(|(_, other, _)| *other == port)
    }

    /// The recorded process that serves at this address, if it is certain.
    pub fn server(&self, end: End) -> Option<Owner> {
        if !self.has(end) {
            return None;
        }
        if let Some(ip) = end.ip6() {
            let at = |ip| {
                let there = self.listeners6.iter().filter(move |of| (of.0, of.1) == (ip, end.port));
                only(there.map(|(_, _, owner)| *owner))
            };
            return at(u128::from_be_bytes(ip)).or_else(|| at(0)).flatten();
        }
        let end = end.v4()?;
        let at = |ip| {
            let place = Address { ip, ..end };
            only(self.listeners.iter().filter(move |of| of.address == place).map(|of| of.owner))
        };
        at(end.ip).or_else(|| at(0)).flatten()
    }
}

/// The owner of the sockets, if there are any, and if all have the same.
fn only(mut owners: impl Iterator<Item = Option<Owner>>) -> Option<Option<Owner>> {
    let first = owners.next()?;
    Some(first.filter(|_| owners.all(|other| other == first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    static SERVICE: Service = Service { name: "test", requests: |_, _| (), rule: |_, _| (), protocol: None };

    fn at(ip: [u8; 4], port: u16) -> End {
        Address::new(ip.into(), port).into()
    }

    #[test]
    fn the_socket_on_the_address_goes_before_the_one_on_all() {
        let listener = |ip: [u8; 4], owner| Listener { address: Address::new(ip.into(), 5064), owner };
        let served = Served {
            ports: Ports::of(&SERVICE, &[5064]),
            captured: Some(0),
            local: vec![
                LocalAddress { ip: 0x7f00_0000, bits: 8 },
                LocalAddress { ip: 0x0a00_0001, bits: 32 },
            ],
            listeners: vec![
                listener([127, 0, 0, 1], Some(1)),
                listener([127, 0, 0, 2], None),
                listener([127, 0, 0, 3], Some(3)),
                listener([127, 0, 0, 3], Some(4)),
                listener([0, 0, 0, 0], Some(2)),
            ],
            listeners6: vec![(0, 5064, Some(2)), (7, 5064, Some(1)), (7, 5064, None), (8, 5064, Some(3))],
            local6: vec![1, 7, 8],
            ..Served::default()
        };
        assert_eq!(served.server(at([127, 0, 0, 1], 5064)), Some(1));
        assert_eq!(served.server(at([127, 0, 0, 2], 5064)), None, "somebody else's");
        assert_eq!(served.server(at([127, 0, 0, 3], 5064)), None, "one of two");
        assert_eq!(served.server(at([127, 0, 0, 4], 5064)), Some(2));
        assert_eq!(served.server(at([10, 0, 0, 1], 5064)), Some(2));
        assert_eq!(served.server(at([10, 0, 0, 2], 5064)), None, "another machine");
        assert_eq!(served.server(at([10, 0, 0, 1], 5065)), None);
        assert!(
            served.is_home(&SERVICE, at([10, 0, 0, 1], 5064))
                && !served.is_home(&SERVICE, at([127, 0, 0, 1], 5064))
        );
        assert!(!served.is_home(&SERVICE, at([10, 0, 0, 1], 40000)));
        let six = |ip, port| End::v6(ip, port);
        assert_eq!(served.server(six(1, 5064)), Some(2));
        assert_eq!((served.server(six(7, 5064)), served.server(six(8, 5064))), (None, Some(3)));
        assert_eq!((served.server(six(9, 5064)), served.server(six(1, 1))), (None, None));
        assert!(served.is_home(&SERVICE, six(7, 5064)) && !served.is_home(&SERVICE, six(1, 5064)));
        let shut = Served { captured: None, ..served };
        assert!(!shut.is_home(&SERVICE, at([10, 0, 0, 1], 5064)), "nobody else would take its packets");
    }

    #[test]
    fn what_its_host_does_not_take() {
        use libc::{PACKET_BROADCAST, PACKET_HOST, PACKET_MULTICAST, PACKET_OTHERHOST, PACKET_OUTGOING};
        let local = vec![LocalAddress { ip: 0x0a00_0001, bits: 32 }];
        let served = Served { local, local6: vec![7], ..Served::default() };
        let (own, other) = (at([10, 0, 0, 1], 0), at([10, 0, 0, 2], 0));
        let (own6, other6) = (End::v6(7, 0), End::v6(8, 0));
        for (to, from) in [([other, own], [own, other]), ([other6, own6], [own6, other6])] {
            let refused = |kind, ends, all| served.refuses(kind, ends, all);
            assert!(!refused(PACKET_HOST, to, true) && !refused(PACKET_OUTGOING, from, true));
            assert!(!refused(PACKET_HOST, [own, own], true), "to itself");
            assert!(refused(PACKET_HOST, from, true), "it says to be from here");
            assert!(refused(PACKET_BROADCAST, to, false) && refused(PACKET_MULTICAST, to, false));
            assert!(refused(PACKET_OTHERHOST, to, true));
            assert!(!refused(PACKET_OTHERHOST, to, false), "no interface above it shows it again");
            let passes =
                if to == [other, own] { [other, at([10, 0, 0, 3], 0)] } else { [other6, End::v6(9, 0)] };
            let kinds = [PACKET_HOST, PACKET_BROADCAST, PACKET_MULTICAST, PACKET_OTHERHOST];
            assert!(!kinds.iter().any(|kind| refused(*kind, passes, true)), "it passes, or is mirrored");
        }
    }
}
