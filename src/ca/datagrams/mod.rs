//! Channel Access over UDP: who searches for which names, who answers, and the servers' beacons.
//!
//! A datagram holds many messages. Searches come from clients by the thousand and say the same again and again, so they
//! are counted by sender and name ([`searches`]); beacons are followed server by server
//! ([`beacons`](crate::net::udp::beacons)).
//!
//! An answer repeats the client's number for the channel, not the name: it is matched with the request that carried it.
//! A datagram that crosses several interfaces, or namespaces, appears on each; it counts once.
//!
//! Promises: no input causes a panic or makes memory grow; counts are exact until a table is full, and what is counted
//! under no name is counted all the same ([`SearchLoad`](iocrec_log::event::SearchLoad)).

use std::collections::HashMap;

use iocrec_log::event::{Address, Event, Fact, Registrations};

use crate::ca::message::{self, Header, NOT_FOUND, REPEATER_CONFIRM, REPEATER_REGISTER, RSRV_IS_UP, SEARCH};
use crate::net::udp::beacons::{Beacon, Manner};
use crate::net::udp::datagram::Datagram;
use crate::net::udp::searches::{self, Answer, Asking};
use crate::net::udp::watched::Watched;
use crate::net::udp::{scope, Scope, Seen, Selected};
use crate::net::Namespace;

/// UDP ports of servers and of repeaters, unless somebody says otherwise.
const PORTS: (u16, u16) = (5064, 5065);
/// Repeaters whose clients are counted: one on each host, and a few on other ports.
const MAX_REPEATERS: usize = 64;
/// Clients whose registrations may be confirmed yet, which takes a repeater some microseconds for each.
const MAX_REGISTERING: usize = 64;
/// REPEATER_CONFIRM without a payload, as the first 32 bits of a datagram.
const CONFIRM: u32 = (REPEATER_CONFIRM as u32) << 16;
/// Time between two reports of a repeater's clients, nanoseconds.
const REGISTRATIONS: u64 = 60_000_000_000;
/// Messages of a datagram that are looked at: more than fit in the longest that Ethernet carries.
const MAX_MESSAGES: usize = 128;

/// The ports at which datagrams of Channel Access are taken: the usual ones, and those of processes' environments.
pub fn selected<'a>(environments: impl Iterator<Item = (&'a str, &'a str)>) -> Selected {
    let (mut asked, mut told) = (vec![PORTS.0], vec![PORTS.1]);
    for (name, value) in environments {
        let port = value.trim().parse::<u16>().ok().filter(|port| *port > 0);
        match name {
            "EPICS_CA_SERVER_PORT" | "EPICS_CAS_SERVER_PORT" => asked.extend(port),
            "EPICS_CA_REPEATER_PORT" | "EPICS_CAS_BEACON_PORT" => told.extend(port),
            "EPICS_CA_ADDR_LIST" => {
                let ports = value.split_ascii_whitespace().filter_map(|host| host.rsplit_once(':'));
                asked.extend(ports.filter_map(|(_, port)| port.parse::<u16>().ok()));
            }
            _ => {}
        }
    }
    for (ports, usual) in [(&mut asked, PORTS.0), (&mut told, PORTS.1)] {
        // the usual one first: a filter takes only so many
        ports.sort_unstable_by_key(|port| (*port != usual, *port));
        ports.dedup();
    }
    Selected { asked, told, answers: &[CONFIRM], begins: &[] }
}

/// How searches are logged.
pub const FACTS: searches::Facts =
    searches::Facts { searches: |searches, _| Fact::from(searches), load: |load| Fact::from(load) };
/// How servers of EPICS Base send beacons: EPICS_CAS_BEACON_PERIOD is 15 s by default.
const MANNER: Manner =
    Manner { period: 15_000_000_000, highest: u32::MAX, fact: |beacons, _, _| Fact::Beacons(beacons) };

/// See the module.
#[derive(Debug)]
pub struct Datagrams {
    /// Searches and beacons.
    pub watched: Watched,
    repeaters: HashMap<(Scope, Address), Registrations>,
    /// The last clients that asked a repeater, and the repeater. That of EPICS Base confirms to each from a port of its own,
    /// so that only the client's address tells which repeater it is.
    registering: [Option<(Namespace, Address, Address)>; MAX_REGISTERING],
    /// Where the next one goes.
    next: usize,
    counted: u64,
}

impl Default for Datagrams {
    fn default() -> Datagrams {
        Datagrams {
            watched: Watched::new(FACTS, MANNER),
            repeaters: HashMap::new(),
            registering: [None; MAX_REGISTERING],
            next: 0,
            counted: 0,
        }
    }
}

impl Datagrams {
    /// Takes a datagram. Facts that must not wait go to `out`.
    pub fn datagram(&mut self, seen: Seen, datagram: &Datagram, out: &mut Vec<Event>) {
        let Some(selected) = self.watched.selected(&seen) else { return };
        let has = |ports: &[u16], end: Address| ports.contains(&end.port);
        // Channel Access has IPv4 only
        let (Some(from), Some(to)) = (datagram.source.v4(), datagram.destination.v4()) else { return };
        let to_server = has(&selected.asked, to);
        let from_server = has(&selected.asked, from);
        let to_repeater = has(&selected.told, to);
        let from_repeater = has(&selected.told, from);
        if self.watched.is_copy(&seen, datagram) {
            return;
        }
        if to_server || from_server {
            self.watched.count(&seen, datagram);
        }
        if to_repeater && datagram.length == 0 {
            // How clients of EPICS Base register.
            self.registers(seen, from, to);
        }
        let mut rest = datagram.payload;
        for _ in 0..MAX_MESSAGES {
            let Some(header) = Header::parse(rest) else { return };
            let size = header.size as usize;
            let payload = rest.get(header.bytes()..).unwrap_or_default();
            let payload = payload.get(..size.min(payload.len())).unwrap_or_default();
            match header.command {
                // The rest of a name that was cut off is not known.
                SEARCH if to_server && is_request(&header, payload) && payload.len() == size => {
                    let asking = Asking { client: from, tcp: false, cid: header.p1 };
                    let name = message::name(&header, payload);
                    self.watched.searches.request(seen.namespace, asking, name, seen.time);
                }
                SEARCH if from_server && !is_request(&header, payload) => {
                    let ip = if header.p1 == u32::MAX { from.ip } else { header.p1 };
                    let server = Address { ip, port: header.dbr };
                    let asking = Asking { client: to, tcp: false, cid: header.p2 };
                    let answer = Answer { server, guid: None };
                    self.watched.searches.answer(seen.namespace, asking, Some(answer), seen.time);
                }
                NOT_FOUND if from_server => {
                    let asking = Asking { client: to, tcp: false, cid: header.p1 };
                    self.watched.searches.answer(seen.namespace, asking, None, seen.time);
                }
                RSRV_IS_UP if to_repeater && !from_repeater => {
                    let ip = if header.p2 == 0 { from.ip } else { header.p2 };
                    let server = Address { ip, port: u16::try_from(header.count).unwrap_or(0) };
                    let (number, version) = (header.p1, header.dbr);
                    let beacon = Beacon { server, number, version, guid: None };
                    self.watched.servers.beacon(seen, beacon, out);
                }
                REPEATER_REGISTER if to_repeater => self.registers(seen, from, to),
                REPEATER_CONFIRM => self.confirmed(seen, to),
                _ => {}
            }
            rest = rest.get(header.bytes().saturating_add(size)..).unwrap_or_default();
        }
    }

    /// Reports what is due. Call it each second.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.watched.second(now, out);
        if now.saturating_sub(self.counted) >= REGISTRATIONS {
            self.counted = now;
            self.report_registrations(now, out);
        }
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.watched.finish(now, out);
        self.report_registrations(now, out);
    }

    /// A client asks a repeater for beacons.
    fn registers(&mut self, seen: Seen, client: Address, repeater: Address) {
        let next = self.next % MAX_REGISTERING;
        self.registering[next] = Some((seen.namespace, client, repeater));
        self.next = next + 1;
        self.registration(seen, repeater, false);
    }

    /// A client is told that a repeater has registered it: once for each time that it asked, since anybody can say so.
    fn confirmed(&mut self, seen: Seen, client: Address) {
        let is_its = |asked: &&mut Option<(Namespace, Address, Address)>| {
            asked.is_some_and(|(namespace, by, _)| (namespace, by) == (seen.namespace, client))
        };
        let asked = self.registering.iter_mut().find(is_its);
        if let Some((.., repeater)) = asked.and_then(Option::take) {
            self.registration(seen, repeater, true);
        }
    }

    fn registration(&mut self, seen: Seen, repeater: Address, confirmed: bool) {
        let key = (scope(seen.namespace, repeater.ip), repeater);
        if self.repeaters.len() >= MAX_REPEATERS && !self.repeaters.contains_key(&key) {
            return;
        }
        let new = Registrations {
            namespace: seen.namespace,
            repeater,
            requests: 0,
            confirmed: 0,
            since: seen.time,
        };
        let counted = self.repeaters.entry(key).or_insert(new);
        let count = if confirmed { &mut counted.confirmed } else { &mut counted.requests };
        *count = count.saturating_add(1);
    }

    fn report_registrations(&mut self, now: u64, out: &mut Vec<Event>) {
        let all = self.repeaters.drain();
        out.extend(all.map(|(_, counted)| Event { time: now, fact: Fact::Registrations(counted) }));
    }
}

/// Whether this is a request for a name: an answer to a search has the same command.
fn is_request(header: &Header, payload: &[u8]) -> bool {
    header.p1 == header.p2 && header.size >= 8 && message::text_length(payload) > 0
}

#[cfg(test)]
mod tests;
