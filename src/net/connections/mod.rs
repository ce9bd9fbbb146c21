//! The TCP connections of one protocol, in all network namespaces, within bounds.
//!
//! [`Connections`] takes captured packets, distinguishes connections and their sides, puts each side back into order
//! ([`Stream`](crate::net::stream::Stream)) and delivers bytes and gaps to the [`Protocol`]. It closes and forgets
//! connections. When there are too many, it forgets the one whose loss costs least: a closed one, else one that has shown
//! no message, else the one that has been silent for longest.
//!
//! Addresses are easily forged, so a segment changes a connection only if it proves to belong to it:
//!
//! - data by their sequence number and more ([`Evidence`](crate::net::stream::Evidence));
//! - a reset by the very sequence number that the receiver demands too (RFC 5961);
//! - an opening (SYN) by the answer of the other side, and by data that continue both ([`Openings`]).
//!
//! What does not prove it is counted ([`Unbelieved`](crate::net::protocol::Unbelieved)).
//!
//! A packet on its way to another namespace is captured in both. It counts in the server's namespace, if that is
//! captured; so does one whose addresses are changed on its way (`passing.rs`).

mod opened;
mod passing;
mod places;
mod unconfirmed;

use std::collections::VecDeque;

use crate::net::connection::{Connection, Shared};
use crate::net::lru::Lru;
use crate::net::openings::Openings;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{Closing, Ends, Protocol, Side, Start};
use crate::net::served::Served;
use crate::net::Namespace;
use passing::Passing;
use unconfirmed::MAX_UNCONFIRMED;

/// Classes of connections: closed ones, those that have shown no message, those that have.
const CLASSES: usize = 3;
const CLOSED: u8 = 0;
const SILENT: u8 = 1;
const RECOGNIZED: u8 = 2;

/// Connections in whose place another one is that are remembered: of ports that are used again at once.
const MAX_REPLACED: usize = 256;

type Table<S> = Lru<Key, Box<Connection<S>>, CLASSES>;

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections.
    pub connections: usize,
    /// Bytes of out-of-order segments that one direction of a connection may hold.
    pub buffered: usize,
    /// The same for all connections together.
    pub all_buffered: usize,
    /// Time to wait for missing bytes, nanoseconds. Longer than a sender waits before it sends again (200 ms on Linux,
    /// doubled at each failure).
    pub wait: u64,
    /// Whether a socket filter leaves out bytes from servers that do not matter. Then missing bytes from a server are no
    /// loss that is counted here: what passed the filter and was lost, the kernel counts.
    pub filtered: bool,
}

/// The connections of a protocol. See the module.
#[derive(Debug)]
pub struct Connections<P: Protocol> {
    limits: Limits,
    /// The servers of each network namespace whose packets are captured.
    served: Vec<Served>,
    table: Table<P::Connection>,
    openings: Openings,
    passing: Passing,
    /// The last ones in whose place another one is, the oldest first.
    replaced: VecDeque<Replaced>,
    /// The protocol, with the state that its connections share.
    pub protocol: P,
    buffered: usize,
    /// Whether clients' data waits for a sign that their connection exists.
    confirms: bool,
    /// Connections on which it has begun to wait.
    unconfirmed: Vec<Key>,
}

/// The two ends of a connection, the lower first, in their network namespace: another namespace may have a connection
/// between the same addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(Namespace, End, End);

impl Key {
    fn new(namespace: Namespace, a: End, b: End) -> Key {
        Key(namespace, a.min(b), a.max(b))
    }
}

/// A connection in whose place another one is.
#[derive(Debug)]
struct Replaced {
    key: Key,
    client: End,
    /// See [`Connection::began`].
    began: u64,
    ended: u64,
    number: u32,
}

impl<P: Protocol> Connections<P> {
    /// No connections yet.
    pub fn new(limits: Limits, protocol: P) -> Connections<P> {
        Connections {
            limits,
            served: Vec::new(),
            table: Lru::default(),
            openings: Openings::default(),
            passing: Passing::default(),
            replaced: VecDeque::new(),
            protocol,
            buffered: 0,
            confirms: false,
            unconfirmed: Vec::new(),
        }
    }

    /// From now on expects that a socket filter leaves out what does not matter: see [`Limits::filtered`].
    pub fn expect_filter(&mut self) {
        self.limits.filtered = true;
    }

    /// The state of the connection between these ends, and its time of closing if it is closed.
    pub fn find(
        &self,
        namespace: Namespace,
        client: impl Into<End>,
        server: impl Into<End>,
    ) -> Option<(&P::Connection, Option<u64>)> {
        let (client, server) = (client.into(), server.into());
        let connection = self.table.get(&Key::new(namespace, client, server))?;
        (connection.client == client).then(|| (&connection.state, connection.closed_at()))
    }

    /// Of the connection between these ends: when it began, 0 if its opening was not captured; and the time of its last packet,
    /// or of its adoption.
    pub fn times(
        &self,
        namespace: Namespace,
        client: impl Into<End>,
        server: impl Into<End>,
    ) -> Option<(u64, u64)> {
        let connection = self.table.get(&Key::new(namespace, client.into(), server.into()))?;
        Some((connection.began, connection.last))
    }

    /// The number of the connection that was there between these ends at `time`, if another one is in its place by now.
    pub fn replaced(
        &self,
        namespace: Namespace,
        client: impl Into<End>,
        server: impl Into<End>,
        time: u64,
    ) -> Option<u32> {
        let (client, server) = (client.into(), server.into());
        let key = Key::new(namespace, client, server);
        let was_there = |old: &&Replaced| {
            (old.key, old.client) == (key, client) && (old.began..=old.ended).contains(&time)
        };
        self.replaced.iter().find(was_there).map(|old| old.number)
    }

    /// How certain it is that a segment with data is of this protocol: 3 if its connection has shown a message, 2 if it begins
    /// as a message does, 1 if its connection is open, else 0.
    pub fn claim(&self, namespace: Namespace, segment: &Segment) -> u8 {
        let known = self.table.get(&Key::new(namespace, segment.source, segment.destination));
        match known.map_or(CLOSED, |known| known.class(&self.protocol)) {
            RECOGNIZED => 3,
            _ if self.protocol.sender(segment.payload).is_some() => 2,
            class => class,
        }
    }

    /// Takes a packet captured in a network namespace, from its IPv4 header on, at `time` (nanoseconds, monotonic).
    /// `original_length` is its length before the capture cut anything off. Events go to `out`; their times are those
    /// of the packets that completed them, which may be older than `time`.
    pub fn packet(
        &mut self,
        namespace: Namespace,
        time: u64,
        ipv4: &[u8],
        original_length: usize,
        out: &mut P::Output,
    ) {
        if let Some(segment) = Segment::parse(ipv4, original_length) {
            self.segment(namespace, time, &segment, out);
        }
    }

    /// The same for a packet's segment.
    pub fn segment(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut P::Output) {
        let key = Key::new(namespace, segment.source, segment.destination);
        if self.counts_elsewhere(&key, time, segment) || self.passes(&key, time, segment) {
            return;
        }
        let known = self.table.get(&key);
        if segment.syn {
            // TCP Fast Open: what it carries is not decoded, since nobody has confirmed it yet
            if segment.length > 0 && self.serves(namespace, segment.destination) {
                self.unknown(time, segment);
            }
            if self.opening(&key, time, segment) {
                let (mut shared, table) = self.shared(out);
                table
                    .get_mut(&key)
                    .into_iter()
                    .for_each(|known| known.confirm(segment.acknowledged, &mut shared));
            }
            return;
        }
        // Openings are rare, so the usual segment is compared with none.
        let expected = known.is_some_and(|known| known.expects(segment));
        let opening = if expected || segment.reset { None } else { self.continued(&key, time, segment) };
        if !self.table.get(&key).is_some_and(|known| known.takes(time, segment, opening)) {
            if segment.length == 0 || segment.reset {
                return;
            }
            if opening.is_none() && self.awaits_another(&key, time, segment) {
                self.unknown(time, segment);
                return;
            }
            let Some(mut connection) = self.begin(namespace, time, segment, opening) else {
                if self.serves(namespace, segment.source) {
                    self.unknown(time, segment);
                }
                return;
            };
            self.openings.forget(&key);
            if self.is_copy(&key, time, segment, &mut connection, out) {
                return;
            }
            self.insert(time, connection, out);
        } else if let Some(opening) = opening {
            // Adopted before its packets were looked at.
            if let Some(known) = self.table.get_mut(&key) {
                known.open(opening, &mut self.protocol);
            }
            self.openings.forget(&key);
        }
        if self.proves_a_copy(&key, time, segment, out) {
            return;
        }
        self.end_copies(time, key, out);
        let (mut shared, table) = self.shared(out);
        let Some(connection) = table.get_mut(&key) else { return };
        if segment.reset {
            connection.reset(time, segment, &mut shared);
        } else {
            connection.segment(time, segment, &mut shared);
        }
        let class = connection.class(shared.protocol);
        let begins = connection.begins_to_await();
        table.touch(&key, class);
        if begins && self.unconfirmed.len() < MAX_UNCONFIRMED {
            self.unconfirmed.push(key);
        }
    }

    /// Does the work that is due by time alone: gives up waiting for missing bytes, forgets closed connections. Call it
    /// several times a second.
    pub fn tick(&mut self, now: u64, out: &mut P::Output) {
        let (mut shared, table) = self.shared(out);
        table.retain(|_, connection| connection.tick(now, &mut shared));
    }

    /// Gives up all waiting, when recording ends.
    pub fn finish(&mut self, now: u64, out: &mut P::Output) {
        let (mut shared, table) = self.shared(out);
        for (_, connection) in table.iter_mut() {
            connection.finish_recording(now, &mut shared);
        }
    }

    /// The protocol and the state of the connection between these ends, which the recorder knows of from elsewhere at
    /// `now`. Adds the connection if it is unknown.
    pub fn adopt(
        &mut self,
        namespace: Namespace,
        now: u64,
        client: impl Into<End>,
        server: impl Into<End>,
        out: &mut P::Output,
    ) -> Option<(&mut P, &mut P::Connection)> {
        let (client, server) = (client.into(), server.into());
        let key = Key::new(namespace, client, server);
        let usable = |c: &Connection<P::Connection>| {
            c.client == client && c.closed_at().is_none() && !self.protocol.is_foreign(&c.state)
        };
        if !self.table.get(&key).is_some_and(|c| usable(c)) {
            let connection = self.connection(namespace, client, server, Start::Adopted);
            self.insert(now, connection, out);
        }
        let (mut shared, table) = self.shared(out);
        table.get_mut(&key).into_iter().for_each(|known| known.confirm(None, &mut shared));
        // It is a circuit, whatever its packets have shown.
        self.table.touch(&key, RECOGNIZED);
        let connection = self.table.get_mut(&key)?;
        // it may have been adopted later than this
        connection.last = connection.last.max(now);
        connection.adopted = connection.adopted.max(now).max(1);
        Some((&mut self.protocol, &mut connection.state))
    }

    /// The parts of the table that connections need while it is borrowed.
    #[allow(clippy::type_complexity)] // a pair
    fn shared<'a>(&'a mut self, out: &'a mut P::Output) -> (Shared<'a, P>, &'a mut Table<P::Connection>) {
        let Connections { limits, protocol, buffered, table, .. } = self;
        (Shared { limits, protocol, buffered, out }, table)
    }

    /// Closes and forgets a connection, if it exists; returns it.
    fn remove(
        &mut self,
        time: u64,
        key: &Key,
        closing: Closing,
        out: &mut P::Output,
    ) -> Option<Box<Connection<P::Connection>>> {
        let mut old = self.table.remove(key)?;
        let (mut shared, _) = self.shared(out);
        old.flush(&mut shared);
        old.end(time, closing, &mut shared);
        Some(old)
    }

    /// A new connection, with its server as far as the listening sockets show it.
    fn connection(
        &mut self,
        namespace: Namespace,
        client: End,
        server: End,
        start: Start,
    ) -> Connection<P::Connection> {
        let served = self.served(namespace);
        let listener = served.and_then(|served| served.server(server));
        let is_guess = served.is_some_and(|served| served.guessed.contains(&server.port));
        let state = self.protocol.on_open(&Ends { namespace, client, server, start, listener, is_guess });
        Connection::new(namespace, client, server, state)
    }

    /// The client's end of a connection joined mid-stream, if it can be determined.
    fn client_of(&self, namespace: Namespace, segment: &Segment) -> Option<End> {
        let (source, destination) = (segment.source, segment.destination);
        match (self.serves(namespace, source), self.serves(namespace, destination)) {
            (false, true) => Some(source),
            (true, false) => Some(destination),
            _ => self.protocol.sender(segment.payload).map(|sender| match sender {
                Side::Client => source,
                Side::Server => destination,
            }),
        }
    }

    /// Counts what belongs to no connection.
    fn unknown(&mut self, time: u64, segment: &Segment) {
        self.protocol.on_unknown(time, segment.length, segment.source, segment.destination);
    }

    /// Remembers a connection in whose place another one comes.
    fn note_replaced(&mut self, key: Key, old: &Connection<P::Connection>) {
        let (Some(number), Some(ended)) = (self.protocol.number(&old.state), old.closed_at()) else { return };
        if self.replaced.len() >= MAX_REPLACED {
            self.replaced.pop_front();
        }
        self.replaced.push_back(Replaced { key, client: old.client, began: old.began, ended, number });
    }

    /// Adds a connection, replacing an older one between the same ends, and makes room for it.
    fn insert(&mut self, time: u64, mut connection: Connection<P::Connection>, out: &mut P::Output) {
        let key = Key::new(connection.namespace, connection.client, connection.server);
        self.end_elsewhere(time, key, connection.server, out);
        if let Some(old) = self.remove(time, &key, Closing::Replaced, out) {
            self.note_replaced(key, &old);
        }
        while self.table.len() >= self.limits.connections.max(1) {
            let Some(oldest) = self.table.oldest() else { break };
            self.remove(time, &oldest, Closing::Forgotten, out);
        }
        connection.last = time;
        self.table.insert(key, Box::new(connection), SILENT);
    }
}

impl<S> Connection<S> {
    /// Its class in the table.
    fn class<P: Protocol<Connection = S>>(&self, protocol: &P) -> u8 {
        match self.closed_at() {
            Some(_) => CLOSED,
            None if protocol.is_recognized(&self.state) => RECOGNIZED,
            None => SILENT,
        }
    }
}
