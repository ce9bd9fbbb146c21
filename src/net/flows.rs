//! Which TCP connections of a capture file are of a known protocol.
//!
//! A live capture asks the kernel for the ports of servers that it finds on the machine. A file has the packets of all
//! connections, and nobody knows the servers. So a connection is one of ours if one of its ends has a known port, or if
//! it begins as the protocol does ([`Mark`]). A server recognized by a mark is remembered, with its address, and all
//! its connections count from then on, unless one begins as another protocol does: then the port is of both; so do those of
//! servers that datagrams name. The packets that opened a connection wait for the mark, so that it is decoded
//! from its first byte.
//!
//! Bounds: [`MAX_SERVERS`] servers; the openings of the last 4096 to 8192 connections, some 2 MiB.

use std::collections::{HashMap, HashSet};

use crate::net::packet::{End, Segment};
use crate::net::service::{Ports, Service};

/// Servers on unknown ports that are remembered.
pub const MAX_SERVERS: usize = 4096;
/// Openings in each of the two generations: when one is full, the older is dropped.
const OPENINGS: usize = 4096;
/// Longest headers of IP and TCP, with all options, and of tags and a tunnel around them.
const HEADERS: usize = 200;

/// How certain it is that bytes are the first of their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The connection's opening was captured.
    Certain,
    /// It was not: they may be any.
    MidStream,
}

/// How the connections of a protocol begin.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The protocol.
    pub service: &'static Service,
    /// Whether a stream of this protocol begins with these bytes. Mid-stream only a client's may count.
    pub begins: fn(&[u8], Beginning) -> bool,
}

/// A packet that opens a connection, its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Time of capture.
    pub time: u64,
    /// From the IP header on.
    pub headers: Vec<u8>,
}

/// What has been seen of a connection before its first bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Its opening.
    pub openings: Vec<Opening>,
    /// Packets, with those that only acknowledge.
    pub packets: u64,
}

/// What a packet's connection is.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One of a known protocol.
    Known,
    /// One that has just been recognized. Its opening, if that was captured, comes first.
    Recognized(Started),
    /// It opens a connection on an unknown port; it may be recognized later.
    Opens,
    /// Something else.
    Other,
}

/// A connection's ends, the lower first.
type Key = (End, End);

/// The packets that opened a connection, and its server.
type Openings = HashMap<Key, (End, Started)>;

/// See the module.
#[derive(Debug)]
pub struct Flows {
    marks: &'static [Mark],
    /// The ports known from the start.
    known: Ports,
    ports: Ports,
    servers: HashSet<End>,
    new: Openings,
    old: Openings,
}

impl Flows {
    /// Knows these servers' ports.
    pub fn new(marks: &'static [Mark], ports: Ports) -> Flows {
        let known = ports.clone();
        Flows { marks, known, ports, servers: HashSet::new(), new: HashMap::new(), old: HashMap::new() }
    }

    /// The servers' ports: those known from the start, and those of recognized servers.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Servers recognized on unknown ports.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Somebody names a server of a protocol. True if its port is new.
    pub fn learn(&mut self, service: &'static Service, server: impl Into<End>) -> bool {
        let server = server.into();
        if self.is_server(server) || self.servers.len() >= MAX_SERVERS {
            return false;
        }
        self.servers.insert(server);
        let is_new = !self.ports.has(service, server.port);
        self.ports.add(service, &[server.port]);
        is_new
    }

    /// Judges a segment, which was captured at `time` in this packet.
    pub fn judge(&mut self, time: u64, packet: &[u8], segment: &Segment) -> Verdict {
        let ends = [segment.source, segment.destination];
        if ends.iter().any(|end| self.known.has_any(end.port)) {
            return Verdict::Known;
        }
        // another server may have its place by now
        let is_server = ends.iter().any(|end| self.servers.contains(end));
        let otherwise = |other| if is_server { Verdict::Known } else { other };
        let key = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        if segment.syn {
            let server = if segment.acknowledged.is_some() { ends[0] } else { ends[1] };
            self.opens(key, server, time, packet);
            return otherwise(Verdict::Opens);
        }
        if segment.payload.is_empty() {
            let Some((_, started)) = self.new.get_mut(&key) else { return otherwise(Verdict::Other) };
            started.packets += 1;
            return otherwise(Verdict::Opens);
        }
        let opening = self.new.remove(&key).or_else(|| self.old.remove(&key));
        if is_server && opening.is_none() {
            return Verdict::Known;
        }
        let at = if opening.is_some() { Beginning::Certain } else { Beginning::MidStream };
        let Some(mark) = self.marks.iter().find(|mark| (mark.begins)(segment.payload, at)) else {
            return otherwise(Verdict::Other);
        };
        if is_server && ends.iter().any(|end| self.ports.has(mark.service, end.port)) {
            return Verdict::Known;
        }
        let (server, mut started) = opening.unwrap_or((segment.destination, Started::default()));
        if is_server {
            // they counted as its own
            started.packets = 0;
        } else if self.servers.len() >= MAX_SERVERS {
            return Verdict::Other;
        }
        self.servers.insert(server);
        self.ports.add(mark.service, &[server.port]);
        Verdict::Recognized(started)
    }

    /// Whether this end is a server of a known protocol. A recognized server's port counts only at its address: others
    /// may use the number for something else.
    fn is_server(&self, end: End) -> bool {
        self.known.has_any(end.port) || self.servers.contains(&end)
    }

    fn opens(&mut self, key: Key, server: End, time: u64, packet: &[u8]) {
        let headers = packet.get(..packet.len().min(HEADERS)).unwrap_or_default().to_vec();
        if self.new.len() >= OPENINGS && !self.new.contains_key(&key) {
            self.old = std::mem::take(&mut self.new);
        }
        let earlier = self.old.remove(&key);
        let (known, started) =
            self.new.entry(key).or_insert_with(|| earlier.unwrap_or((server, Started::default())));
        // another connection between the same ends
        if *known != server || started.openings.len() >= 2 {
            *started = Started::default();
            *known = server;
        }
        started.packets += 1;
        started.openings.push(Opening { time, headers });
    }
}
