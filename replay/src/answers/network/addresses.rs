//! Addresses of both IP versions, from several runs: each run has numbers of its own that stand for IPv6 addresses.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use iocrec_log::context::Context;
use iocrec_log::event::{Address, CircuitId, Ip6};

/// IPv6 addresses; a bound for hostile logs.
const MAX: usize = 200_000;
/// The first number that stands for an address other than ::1.
const FIRST: usize = 2;

/// IPv6 addresses by numbers that are the same for all runs.
#[derive(Default)]
pub struct Addresses {
    numbers: HashMap<[u8; 16], u32>,
    list: Vec<[u8; 16]>,
}

impl Addresses {
    /// An address of a fact, with a number that stands for it in all runs; IP address 0 if it is not told.
    pub fn of(&mut self, context: &Context, address: Address) -> Address {
        if address.ip >= Ip6::END {
            return address;
        }
        let known = context.in_force().ip6.get(address.ip).map(|known| known.bytes.as_slice());
        self.numbered(known.unwrap_or_default(), address.port)
    }

    /// The addresses of a circuit's client and server.
    pub fn of_circuit(&mut self, context: &Context, id: CircuitId) -> Option<[Address; 2]> {
        let circuit = context.circuit(id)?;
        let pva = context.in_force().pva_circuits.get(id);
        let ends = [
            (circuit.client, pva.map(|pva| pva.client_ip.as_slice())),
            (circuit.server, pva.map(|pva| pva.server_ip.as_slice())),
        ];
        Some(ends.map(|(address, bytes)| match bytes {
            Some(bytes) if address.ip == 0 => self.numbered(bytes, address.port),
            _ => address,
        }))
    }

    fn numbered(&mut self, bytes: &[u8], port: u16) -> Address {
        let Ok(bytes) = <[u8; 16]>::try_from(bytes) else { return Address { ip: 0, port } };
        if Ipv6Addr::from(bytes).is_loopback() {
            return Address { ip: Ip6::LOOPBACK, port };
        }
        if let Some(&ip) = self.numbers.get(&bytes) {
            return Address { ip, port };
        }
        if self.list.len() >= MAX {
            return Address { ip: 0, port };
        }
        let ip = u32::try_from(self.list.len() + FIRST).unwrap_or(0);
        self.numbers.insert(bytes, ip);
        self.list.push(bytes);
        Address { ip, port }
    }

    /// An address as text, with `?` for one that is not told.
    pub fn text(&self, address: Address) -> String {
        let ip6 = |ip: Ipv6Addr| format!("[{ip}]:{}", address.port);
        match address.ip {
            0 => format!("?:{}", address.port),
            Ip6::LOOPBACK => ip6(Ipv6Addr::LOCALHOST),
            ip if ip < Ip6::END => {
                let known = (ip as usize).checked_sub(FIRST).and_then(|at| self.list.get(at));
                known.map_or_else(|| format!("?:{}", address.port), |bytes| ip6(Ipv6Addr::from(*bytes)))
            }
            _ => address.to_string(),
        }
    }
}
