//! How a circuit begins, by which it is recognized on any port; and datagrams that name a server's port.
//!
//! The first message of each side is VERSION: no payload, a priority of 0 to 99 where other messages have a type, the
//! minor version where they have a count. Servers before 3.14.12 send none, clients always do.

use iocrec_log::event::Address;

use crate::ca::message::{self, plausible, Header, Plausibility, RSRV_IS_UP, SEARCH, VERSION};
use crate::net::flows::Beginning;
use crate::net::protocol::Side;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::Selected;

/// Servers of one datagram that are looked at.
const MAX_SERVERS: usize = 32;
/// Servers use no port below this; where an answer has one, requests have a small number.
const FIRST_PORT: u16 = 1024;
/// Highest priority of a circuit.
const MAX_PRIORITY: u16 = 99;
/// Minor versions that servers accept, with some to come: 4 to 13 are in use.
const MINOR: std::ops::RangeInclusive<u32> = 4..=31;

/// Whether these bytes begin a circuit, or one side of it. Where the connection's opening was not captured, another
/// message must follow, one that only a client sends.
pub fn begins_circuit(bytes: &[u8], at: Beginning) -> bool {
    let Some(first) = Header::parse(bytes) else { return false };
    let is_version = first.command == VERSION
        && first.size == 0
        && first.dbr <= MAX_PRIORITY
        && MINOR.contains(&first.count)
        && (first.p1, first.p2) == (0, 0);
    if !is_version || at == Beginning::Certain {
        return is_version;
    }
    let Some(second) = bytes.get(message::HEADER..).and_then(Header::parse) else { return false };
    let could = |side| plausible(side, &second) != Plausibility::None;
    could(Side::Client) && !could(Side::Server)
}

/// The servers that a datagram names: in beacons, and in answers to searches. `ports` are those of [`selected`].
///
/// [`selected`]: crate::ca::datagrams::selected
pub fn servers_in(datagram: &Datagram, ports: &Selected) -> Vec<Address> {
    // Channel Access has IPv4 only
    let Some(from) = datagram.source.v4() else { return Vec::new() };
    let from_server = ports.asked.contains(&datagram.source.port);
    let to_repeater = ports.told.contains(&datagram.destination.port);
    let (mut rest, mut found) = (datagram.payload, Vec::new());
    while let Some(header) = Header::parse(rest).filter(|_| found.len() < MAX_SERVERS) {
        let server = |ip, none, port: u32| Address {
            ip: if ip == none { from.ip } else { ip },
            port: u16::try_from(port).unwrap_or(0),
        };
        let server = match header.command {
            RSRV_IS_UP if to_repeater => Some(server(header.p2, 0, header.count)),
            // a request has a small number there
            SEARCH if from_server && header.size == 8 => Some(server(header.p1, u32::MAX, header.dbr.into())),
            _ => None,
        };
        found.extend(server.filter(|server| server.port >= FIRST_PORT));
        rest = rest.get(header.bytes().saturating_add(header.size as usize)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: [u16; 4], p1: u32, p2: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend([p1, p2].iter().flat_map(|word| word.to_be_bytes()));
        bytes
    }

    #[test]
    fn circuits_and_other_things() {
        let certain = |bytes: &[u8]| begins_circuit(bytes, Beginning::Certain);
        assert!(certain(&message([0, 0, 0, 13], 0, 0)) && certain(&message([0, 0, 99, 4], 0, 0)));
        for wrong in [
            message([0, 0, 0, 0], 0, 0),
            message([0, 0, 0, 13], 0, 1),
            message([0, 0, 0, 13], 1, 0),
            message([0, 0, 100, 13], 0, 0),
            message([0, 8, 0, 13], 0, 0),
            message([1, 0, 0, 13], 0, 0),
            message([0, 0, 0, 32], 0, 0),
        ] {
            assert!(!certain(&wrong), "{wrong:?}");
        }
        assert!(
            !certain(&message([0, 0, 0, 13], 0, 0)[..15])
                && !certain(b"")
                && !certain(b"GET / HTTP/1.1\r\n\r\n")
        );
        let midstream = |second: Vec<u8>| {
            begins_circuit(&[message([0, 0, 0, 13], 0, 0), second].concat(), Beginning::MidStream)
        };
        let named = |command| [message([command, 8, 0, 0], 0, 0), b"operator".to_vec()].concat();
        assert!(midstream(named(20)), "a client's name");
        assert!(!midstream(Vec::new()) && !midstream(vec![0; 16]));
    }
}
