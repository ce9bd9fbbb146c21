//! PVAccess over UDP: who searches for which names, who answers, and the servers' beacons.
//!
//! All goes to one port, 5076. A server answers from whatever port it likes, so answers and beacons are taken by how they
//! begin. A server that is asked alone passes the question on to others on its host, by multicast behind a tag of where
//! it came from; they may answer twice. Both count once.
//!
//! Promises: those of [`ca::datagrams`](crate::ca::datagrams).

use std::hash::{BuildHasher, RandomState};

use epics::pva::{Cursor, Read};
use iocrec_log::event::{Event, Fact, PvaBeacons, PvaSearches};

use crate::net::packet::End;
use crate::net::udp::beacons::{Beacon, Manner};
use crate::net::udp::datagram::Datagram;
use crate::net::udp::searches::{self, Answer, Asking, Guid};
use crate::net::udp::stand_ins::StandIns;
use crate::net::udp::watched::Watched;
use crate::net::udp::{Seen, Selected};
use crate::net::Namespace;
use crate::pva::message::{Header, BEACON, FROM_SERVER, HEADER, MAGIC, ORIGIN_TAG, SEARCH, SEARCH_RESPONSE};
use crate::pva::searches::{beacon, request, response};

/// UDP port of searches and beacons, unless somebody says otherwise.
const PORT: u16 = 5076;
/// Messages of a datagram that are looked at.
const MAX_MESSAGES: usize = 32;
/// Longest time between two answers of one server to one question that it got twice, nanoseconds.
const SOON: u64 = 20_000_000;
/// Answers that are remembered for this.
const KEPT: usize = 64;
/// Ports of servers that are kept until they are taken.
const MAX_ANSWERED: usize = 64;

/// How searches are logged.
pub const FACTS: searches::Facts = searches::Facts {
    searches: |searches, guids| {
        let bytes = |guid: Guid| guid.map_or(Vec::new(), Vec::from);
        Fact::from(PvaSearches { searches, guids: guids.into_iter().map(bytes).collect() })
    },
    load: |load| Fact::PvaSearchLoad(Box::new(load)),
};
/// How servers send beacons: each 15 s at first, later each 180 s.
const MANNER: Manner = Manner {
    period: 180_000_000_000,
    highest: 255,
    fact: |beacons, guid, before| {
        let bytes = |guid: Guid| guid.map_or(Vec::new(), Vec::from);
        Fact::from(PvaBeacons { beacons, guid: bytes(guid), before: bytes(before) })
    },
};

/// First 32 bits of beacons and answers: mask and value. Both come from servers.
const fn begins(command: u8) -> (u32, u32) {
    let flags = FROM_SERVER;
    (u32::from_be_bytes([0xff, 0, flags, 0xff]), u32::from_be_bytes([MAGIC, 0, flags, command]))
}

/// The ports at which datagrams are taken: the usual one, and those of processes' environments.
pub fn selected<'a>(environments: impl Iterator<Item = (&'a str, &'a str)>) -> Selected {
    let mut asked = vec![PORT];
    for (name, value) in environments {
        match name {
            "EPICS_PVA_BROADCAST_PORT" | "EPICS_PVAS_BROADCAST_PORT" => {
                asked.extend(value.trim().parse::<u16>().ok().filter(|port| *port > 0));
            }
            "EPICS_PVA_ADDR_LIST" => {
                // the last colon of an IPv6 address is none of a port
                let hosts = value.split_ascii_whitespace().filter_map(|host| host.rsplit_once(':'));
                let ports = hosts.filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
                asked.extend(ports.filter_map(|(_, port)| port.parse::<u16>().ok()));
            }
            _ => {}
        }
    }
    asked.sort_unstable_by_key(|port| (*port != PORT, *port));
    asked.dedup();
    const BEGINS: &[(u32, u32)] = &[begins(SEARCH_RESPONSE), begins(BEACON)];
    Selected { asked, begins: BEGINS, ..Selected::default() }
}

/// See the module.
#[derive(Debug)]
pub struct Datagrams {
    /// Searches and beacons.
    pub watched: Watched,
    addresses: StandIns,
    hasher: RandomState,
    /// The last answers, and when they came.
    answers: Vec<(u64, u64)>,
    next: usize,
    /// TCP ports of servers that have answered, and where, since they were last taken.
    answered: Vec<(Namespace, u16)>,
}

impl Default for Datagrams {
    fn default() -> Datagrams {
        Datagrams {
            watched: Watched::new(FACTS, MANNER),
            addresses: StandIns::of_udp(),
            hasher: RandomState::new(),
            answers: Vec::new(),
            next: 0,
            answered: Vec::new(),
        }
    }
}

impl Datagrams {
    /// Takes a datagram. Facts that must not wait go to `out`.
    pub fn datagram(&mut self, seen: Seen, datagram: &Datagram, out: &mut Vec<Event>) {
        let Some(selected) = self.watched.selected(&seen).filter(|of| of.takes(datagram)) else {
            return;
        };
        let asks = selected.asked.contains(&datagram.destination.port);
        if self.watched.is_copy(&seen, datagram) {
            return;
        }
        self.watched.count(&seen, datagram);
        for (header, payload) in messages(datagram.payload) {
            let cursor = &mut Cursor::new(payload, header.is_big_endian());
            // what comes after something unreadable is not understood either
            let _ = match header.command {
                // what follows was asked elsewhere
                ORIGIN_TAG => return,
                SEARCH if asks => request(cursor, datagram.source, &mut |cid, client, name| {
                    let client = self.addresses.address(client, seen.time, out);
                    let asking = Asking { client, tcp: false, cid };
                    self.watched.searches.request(seen.namespace, asking, name, seen.time);
                }),
                SEARCH_RESPONSE => self.answer(&seen, datagram, payload, cursor, out),
                BEACON => beacon(cursor, datagram.source).map(|(server, guid, number)| {
                    let (server, version) =
                        (self.addresses.address(server, seen.time, out), header.version.into());
                    let beacon = Beacon { server, number, version, guid: Some(guid) };
                    self.watched.servers.beacon(seen, beacon, out);
                }),
                _ => Ok(()),
            };
        }
    }

    fn answer(
        &mut self,
        seen: &Seen,
        datagram: &Datagram,
        payload: &[u8],
        cursor: &mut Cursor<'_>,
        out: &mut Vec<Event>,
    ) -> Read<()> {
        let hash = self.hasher.hash_one((datagram.destination, payload));
        let soon = |(known, time): &(u64, u64)| *known == hash && seen.time.abs_diff(*time) < SOON;
        if self.answers.iter().any(soon) {
            return Ok(());
        }
        match self.answers.get_mut(self.next) {
            Some(old) => *old = (hash, seen.time),
            None => self.answers.push((hash, seen.time)),
        }
        self.next = (self.next + 1) % KEPT;
        let client = self.addresses.address(datagram.destination, seen.time, out);
        response(cursor, datagram.source, &mut |cid, answer| {
            let asking = Asking { client, tcp: false, cid };
            if let Some((server, _)) = answer {
                let place = (seen.namespace, server.port);
                if self.answered.len() < MAX_ANSWERED && !self.answered.contains(&place) {
                    self.answered.push(place);
                }
            }
            let answer = answer.map(|(server, guid)| Answer {
                server: self.addresses.address(server, seen.time, out),
                guid: Some(guid),
            });
            self.watched.searches.answer(seen.namespace, asking, answer, seen.time);
        })
    }

    /// TCP ports that servers have named in answers to searches since the last call, and the namespaces of these.
    pub fn take_answered(&mut self) -> Vec<(Namespace, u16)> {
        std::mem::take(&mut self.answered)
    }
}

/// The servers that a datagram names: in beacons, and in answers to searches.
pub fn servers_in(datagram: &Datagram) -> Vec<End> {
    let mut found = Vec::new();
    for (header, payload) in messages(datagram.payload).filter(|(header, _)| header.flags & FROM_SERVER != 0)
    {
        let cursor = &mut Cursor::new(payload, header.is_big_endian());
        match header.command {
            BEACON => found.extend(beacon(cursor, datagram.source).ok().map(|(server, ..)| server)),
            SEARCH_RESPONSE => {
                let _ = response(cursor, datagram.source, &mut |_, answer| {
                    found.extend(answer.map(|(server, _)| server));
                });
            }
            _ => {}
        }
    }
    found.dedup();
    found.retain(|server| server.port > 0);
    found
}

/// The messages of a datagram, with as much of their payloads as is there.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = Header::parse(rest)?;
        let payload = rest.get(HEADER..)?;
        let size = usize::try_from(header.size).unwrap_or(usize::MAX).min(payload.len());
        let (payload, after) = payload.split_at_checked(size)?;
        rest = after;
        Some((header, payload))
    })
    .take(MAX_MESSAGES)
}

#[cfg(test)]
mod tests;
