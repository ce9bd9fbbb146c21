//! The servers of a network namespace: their addresses, ports and processes.
//!
//! Two servers may share a port on two addresses, or an address and port in two namespaces. A connection belongs to the
//! server whose socket listens on its address, else to the one that listens on all addresses, as in the kernel. If
//! several processes hold that socket, or several sockets share address and port (SO_REUSEPORT), the server is unknown.

use crate::linux::sockets::LocalAddress;
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
    /// The namespace's own addresses.
    pub local: Vec<LocalAddress>,
    /// Whether its packets are captured.
    pub captured: bool,
}

impl Served {
    /// Whether an IP address is one of this namespace's.
    pub fn has(&self, ip: u32) -> bool {
        self.local.iter().any(|local| local.has(ip))
    }

    /// Whether this end of a connection captured in another namespace is a server in this one. Never true for loopback
    /// addresses: each namespace has its own.
    pub fn is_home(&self, service: &Service, end: Address) -> bool {
        const LOOPBACK: LocalAddress = LocalAddress { ip: 0x7f00_0000, bits: 8 };
        self.captured && self.ports.has(service, end.port) && !LOOPBACK.has(end.ip) && self.has(end.ip)
    }

    /// The recorded process that serves at this address, if it is certain.
    pub fn server(&self, end: Address) -> Option<Owner> {
        if !self.has(end.ip) {
            return None;
        }
        let at = |ip| {
            let place = Address { ip, ..end };
            let mut there = self.listeners.iter().filter(move |listener| listener.address == place);
            let first = there.next()?;
            Some(first.owner.filter(|_| there.all(|other| other.owner == first.owner)))
        };
        at(end.ip).or_else(|| at(0)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SERVICE: Service = Service { name: "test", requests: |_, _| (), rule: |_, _| (), protocol: None };

    fn at(ip: [u8; 4], port: u16) -> Address {
        Address::new(ip.into(), port)
    }

    #[test]
    fn the_socket_on_the_address_goes_before_the_one_on_all() {
        let listener = |ip, owner| Listener { address: at(ip, 5064), owner };
        let served = Served {
            ports: Ports::of(&SERVICE, &[5064]),
            captured: true,
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
        let shut = Served { captured: false, ..served };
        assert!(!shut.is_home(&SERVICE, at([10, 0, 0, 1], 5064)), "nobody else would take its packets");
    }
}
