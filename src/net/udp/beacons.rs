//! Follows the beacons of each server: first ones, restarts, gaps, and their end.
//!
//! A server of EPICS Base sends beacons 20 ms apart when it starts, then at twice the interval each time up to
//! EPICS_CAS_BEACON_PERIOD, 15 s by default, and counts them. One of PVAccess sends some every 15 s, then every 180 s, and
//! has a GUID that is new at each start. A server sends each beacon to several addresses; they carry the same number. What
//! is unusual is noted at once, the rest every ten minutes.

use std::collections::HashMap;

use iocrec_log::event::{Address, Beacons, BeaconsNoted, Event, Fact, Loss, LossSource};

use super::searches::Guid;
use super::{scope, Scope, Seen};
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;
/// Servers to follow. A plant has some hundred on a network.
const MAX_SERVERS: usize = 1024;
/// Time between two notes of beacons that are in step.
const NOTE: u64 = 600 * SECOND;
/// Time without beacons after which a server is forgotten.
const FORGOTTEN: u64 = 3600 * SECOND;
/// Time within which the same number is another copy of the same beacon.
const COPY: u64 = SECOND;
/// Time between two reports of servers that are not followed.
const LOST: u64 = 60 * SECOND;
/// Notes of what is unusual about one server that may follow each other at once, and the time after which one more
/// may: two servers behind one address are out of step with each beacon.
const NOTES: u32 = 4;
const REST: u64 = 60 * SECOND;

/// How the servers of a protocol send beacons.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// The longest time between two of them, nanoseconds, unless somebody says otherwise.
    pub period: u64,
    /// The highest number, after which they begin at 0.
    pub highest: u32,
    /// How counts become facts: with the server's GUID, and the one that it had before.
    pub fact: fn(Beacons, Guid, Guid) -> Fact,
}

/// A beacon.
#[derive(Clone, Copy, Debug)]
pub struct Beacon {
    /// The server.
    pub server: Address,
    /// Its number.
    pub number: u32,
    /// The protocol's version.
    pub version: u16,
    /// The server's GUID, in PVAccess.
    pub guid: Guid,
}

#[derive(Debug)]
struct Server {
    namespace: Namespace,
    version: u16,
    guid: Guid,
    /// The GUID before that.
    before: Guid,
    last: u32,
    seen: u64,
    /// Longest gap since the count began anew: the period, once it has settled.
    period: u64,
    gap: u64,
    expected: u32,
    count: u32,
    since: u64,
    noted: u64,
    is_overdue: bool,
    /// Notes of what is unusual that are left, since when.
    notes: (u32, u64),
}

impl Server {
    /// Time without a beacon that is longer than usual.
    fn patience(&self, manner: &Manner) -> u64 {
        self.period.max(manner.period).saturating_mul(5) / 2
    }

    /// Whether something unusual may be noted.
    fn may_note(&mut self, now: u64) -> bool {
        let (left, since) = self.notes;
        let more = u32::try_from(now.saturating_sub(since) / REST).unwrap_or(u32::MAX);
        let left = left.saturating_add(more).min(NOTES);
        self.notes = (left.saturating_sub(1), if more > 0 || left == NOTES { now } else { since });
        left > 0
    }

    fn note(
        &mut self,
        address: Address,
        noted: BeaconsNoted,
        now: u64,
        manner: &Manner,
        out: &mut Vec<Event>,
    ) {
        let beacons = Beacons {
            namespace: self.namespace,
            server: address,
            noted,
            count: std::mem::take(&mut self.count),
            since: self.since,
            seen: self.seen,
            last: self.last,
            expected: self.expected,
            gap: self.gap,
            version: self.version,
        };
        self.noted = now;
        out.push(Event { time: now, fact: (manner.fact)(beacons, self.guid, self.before.take()) });
    }
}

/// See the module.
#[derive(Debug)]
pub struct Servers {
    manner: Manner,
    servers: HashMap<(Scope, Address), Server>,
    /// Beacons of servers that are not followed, since when.
    lost: (u64, u64),
}

impl Servers {
    /// No servers yet.
    pub fn new(manner: Manner) -> Servers {
        Servers { manner, servers: HashMap::new(), lost: (0, 0) }
    }

    /// Takes a beacon.
    pub fn beacon(&mut self, seen: Seen, beacon: Beacon, out: &mut Vec<Event>) {
        let Seen { namespace, time, .. } = seen;
        let Beacon { server: address, number, version, guid } = beacon;
        let manner = &self.manner;
        let key = (scope(namespace, address.ip), address);
        let is_full = self.servers.len() >= MAX_SERVERS;
        let Some(server) = self.servers.get_mut(&key) else {
            if is_full {
                self.lost = (self.lost.0 + 1, if self.lost.0 == 0 { time } else { self.lost.1 });
                return;
            }
            let mut server = Server {
                namespace,
                version,
                guid,
                before: None,
                last: number,
                seen: time,
                period: 0,
                gap: 0,
                expected: number,
                count: 1,
                since: time,
                noted: 0,
                is_overdue: false,
                notes: (NOTES, time),
            };
            server.note(address, BeaconsNoted::First, time, manner, out);
            self.servers.insert(key, server);
            return;
        };
        let gap = time.saturating_sub(server.seen);
        let is_restarted = server.guid != guid;
        if !is_restarted && number == server.last && gap < COPY {
            return;
        }
        let next = if server.last >= manner.highest { 0 } else { server.last + 1 };
        let expected = if is_restarted { number } else { next };
        let noted = if is_restarted {
            Some(BeaconsNoted::Restarted)
        } else if number != expected {
            Some(BeaconsNoted::OutOfStep)
        } else if std::mem::take(&mut server.is_overdue) {
            Some(BeaconsNoted::Again)
        } else if gap < server.period / 3 {
            Some(BeaconsNoted::Early)
        } else {
            None
        };
        let noted = noted.filter(|_| server.may_note(time));
        if noted.is_some() && server.count > 0 {
            server.note(address, BeaconsNoted::InStep, time, manner, out);
        }
        if server.count == 0 {
            server.since = time;
        }
        server.count = server.count.saturating_add(1);
        server.period = if number == expected && !is_restarted { server.period.max(gap) } else { 0 };
        (server.gap, server.expected, server.last) = (gap, expected, number);
        (server.seen, server.version, server.is_overdue) = (time, version, false);
        if is_restarted {
            server.before = std::mem::replace(&mut server.guid, guid);
        }
        if let Some(noted) = noted {
            server.note(address, noted, time, manner, out);
        }
    }

    /// Notes what is due.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        let manner = &self.manner;
        for ((_, address), server) in &mut self.servers {
            let silent = now.saturating_sub(server.seen);
            if silent > server.patience(manner) && !server.is_overdue {
                server.is_overdue = true;
                server.note(*address, BeaconsNoted::Overdue, now, manner, out);
            } else if now.saturating_sub(server.noted) >= NOTE && server.count > 0 {
                server.note(*address, BeaconsNoted::InStep, now, manner, out);
            }
        }
        self.servers.retain(|_, server| now.saturating_sub(server.seen) < FORGOTTEN);
        let (count, since) = self.lost;
        if count > 0 && now.saturating_sub(since) >= LOST {
            self.lost = (0, 0);
            let cause = "beacons of servers that are not followed: there are too many".to_owned();
            let loss = Loss { source: LossSource::Packets, count, since, cause };
            out.push(Event { time: now, fact: Fact::Loss(loss) });
        }
    }

    /// Notes all beacons that are not noted yet.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        let manner = &self.manner;
        for ((_, address), server) in &mut self.servers {
            if server.count > 0 {
                server.note(*address, BeaconsNoted::InStep, now, manner, out);
            }
        }
    }
}
