//! PVAccess over UDP: who searches for which names, who answers, and the servers' beacons.
//!
//! All goes to one port, 5076. A server answers from whatever port it likes, so answers and beacons are taken by how they
//! begin. A server that is asked alone passes the question on to others on its host, by multicast behind a tag of where
//! it came from; they may answer twice. Both count once.
//!
//! Promises: those of [`ca::datagrams`](crate::ca::datagrams). Searches over IPv6 are not seen.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use epics::pva::{Cursor, Read};
use iocrec_log::event::{Address, Event, Fact, PvaBeacons, PvaSearches};

use crate::net::udp::beacons::{Beacon, Manner, Servers};
use crate::net::udp::copies::Copies;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::searches::{self, Answer, Asking, Guid, Searches};
use crate::net::udp::{Seen, Selected};
use crate::net::Namespace;
use crate::pva::message::{Header, BEACON, FROM_SERVER, HEADER, MAGIC, ORIGIN_TAG, SEARCH, SEARCH_RESPONSE};

/// UDP port of searches and beacons, unless somebody says otherwise.
const PORT: u16 = 5076;
/// Messages of a datagram that are looked at.
const MAX_MESSAGES: usize = 32;
/// Names of a message that are looked at: more than fit in a datagram.
const MAX_NAMES: usize = 8192;
/// Longest time between two answers of one server to one question that it got twice, nanoseconds.
const SOON: u64 = 20_000_000;
/// Answers that are remembered for this.
const KEPT: usize = 64;

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
    /// The ports in each namespace.
    selected: HashMap<Namespace, Selected>,
    /// Searches over UDP.
    pub searches: Searches,
    servers: Servers,
    copies: Copies,
    hasher: RandomState,
    /// The last answers, and when they came.
    answers: Vec<(u64, u64)>,
    next: usize,
}

impl Default for Datagrams {
    fn default() -> Datagrams {
        Datagrams {
            selected: HashMap::new(),
            searches: Searches::new(searches::Limits::default(), FACTS),
            servers: Servers::new(MANNER),
            copies: Copies::default(),
            hasher: RandomState::new(),
            answers: Vec::new(),
            next: 0,
        }
    }
}

impl Datagrams {
    /// Sets the namespaces in which datagrams are read from now on, and the ports there.
    pub fn set_selected(&mut self, now: u64, selected: HashMap<Namespace, Selected>, out: &mut Vec<Event>) {
        if self.selected != selected {
            let namespaces: Vec<Namespace> = selected.keys().copied().collect();
            self.searches.set_places(&namespaces, now, out);
            self.selected = selected;
        }
    }

    /// Takes a datagram. Facts that must not wait go to `out`.
    pub fn datagram(&mut self, seen: Seen, datagram: &Datagram, out: &mut Vec<Event>) {
        let Some(selected) = self.selected.get(&seen.namespace).filter(|of| of.takes(datagram)) else {
            return;
        };
        let asks = selected.asked.contains(&datagram.destination.port);
        if self.copies.is_copy(&seen, datagram) {
            return;
        }
        self.searches.datagram(seen.namespace, datagram.payload.len() < datagram.length);
        for (header, payload) in messages(datagram.payload) {
            let cursor = &mut Cursor::new(payload, header.is_big_endian());
            // what comes after something unreadable is not understood either
            let _ = match header.command {
                // what follows was asked elsewhere
                ORIGIN_TAG => return,
                SEARCH if asks => {
                    let to = |cid, client| Asking { client, tcp: false, cid };
                    request(cursor, datagram.source, &mut |cid, client, name| {
                        self.searches.request(seen.namespace, to(cid, client), name, seen.time);
                    })
                }
                SEARCH_RESPONSE => self.answer(&seen, datagram, payload, cursor),
                BEACON => beacon(cursor, datagram.source).map(|(server, guid, number)| {
                    let version = header.version.into();
                    let beacon = Beacon { server, number, version, guid: Some(guid) };
                    self.servers.beacon(seen, beacon, out);
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
        let client = datagram.destination;
        response(cursor, datagram.source, &mut |cid, answer| {
            let asking = Asking { client, tcp: false, cid };
            self.searches.answer(seen.namespace, asking, answer, seen.time);
        })
    }

    /// Takes what the last second's reading of a namespace left out: one datagram in `one_in` was read, `lost` were lost.
    pub fn left_out(&mut self, namespace: Namespace, one_in: u32, lost: u64) {
        self.searches.left_out(namespace, one_in, lost);
    }

    /// Reports what is due. Call it each second.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.searches.second(now, out);
        self.servers.second(now, out);
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.searches.finish(now, out);
        self.servers.finish(now, out);
    }
}

/// The servers that a datagram names: in beacons, and in answers to searches.
pub fn servers_in(datagram: &Datagram) -> Vec<Address> {
    let mut found = Vec::new();
    for (header, payload) in messages(datagram.payload).filter(|(header, _)| header.flags & FROM_SERVER != 0)
    {
        let cursor = &mut Cursor::new(payload, header.is_big_endian());
        match header.command {
            BEACON => found.extend(beacon(cursor, datagram.source).ok().map(|(server, ..)| server)),
            SEARCH_RESPONSE => {
                let _ = response(cursor, datagram.source, &mut |_, answer| {
                    found.extend(answer.map(|answer| answer.server));
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

/// Reads a request from this sender: for each name its number, who wants the answer, and the name.
pub(super) fn request(
    cursor: &mut Cursor<'_>,
    from: Address,
    found: &mut dyn FnMut(u32, Address, &[u8]),
) -> Read<()> {
    // sequence number; flags and three bytes to spare
    cursor.take(4 + 4)?;
    let ip = ip(cursor, from)?;
    let client = Address { ip, port: cursor.u16()? };
    for _ in 0..cursor.size()?.unwrap_or(0).min(MAX_NAMES) {
        cursor.string()?;
    }
    for _ in 0..usize::from(cursor.u16()?).min(MAX_NAMES) {
        let cid = cursor.u32()?;
        found(cid, client, cursor.string()?);
    }
    Ok(())
}

/// Reads an answer from this sender: for each name its number, and the server if there is one.
pub(super) fn response(
    cursor: &mut Cursor<'_>,
    from: Address,
    found: &mut dyn FnMut(u32, Option<Answer>),
) -> Read<()> {
    let guid = guid(cursor)?;
    // sequence number
    cursor.take(4)?;
    let ip = ip(cursor, from)?;
    let server = Address { ip, port: cursor.u16()? };
    // protocol
    cursor.string()?;
    let has = cursor.u8()? != 0;
    for _ in 0..usize::from(cursor.u16()?).min(MAX_NAMES) {
        found(cursor.u32()?, has.then_some(Answer { server, guid: Some(guid) }));
    }
    Ok(())
}

/// Reads a beacon from this sender: the server, its GUID, and the beacon's number.
fn beacon(cursor: &mut Cursor<'_>, from: Address) -> Read<(Address, [u8; 12], u32)> {
    let guid = guid(cursor)?;
    // flags
    cursor.u8()?;
    let number = cursor.u8()?;
    // number of changes of the server's PVs
    cursor.u16()?;
    let ip = ip(cursor, from)?;
    Ok((Address { ip, port: cursor.u16()? }, guid, number.into()))
}

fn guid(cursor: &mut Cursor<'_>) -> Read<[u8; 12]> {
    cursor.take(12)?.first_chunk().copied().ok_or(epics::pva::Fault::Short)
}

/// An IPv4 address, written as one of IPv6: the sender's if it is none.
fn ip(cursor: &mut Cursor<'_>, from: Address) -> Read<u32> {
    let bytes = cursor.take(16)?;
    let ip = match bytes {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ip @ ..] => {
            ip.first_chunk().copied().map(u32::from_be_bytes)
        }
        _ => None,
    };
    Ok(ip.filter(|ip| *ip != 0).unwrap_or(from.ip))
}

#[cfg(test)]
mod tests;
