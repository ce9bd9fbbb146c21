//! The TCP connections of one protocol, in all network namespaces, within bounds.
//!
//! [`Connections`] takes captured packets, distinguishes connections and their sides, puts each side back into order
//! ([`Stream`]) and delivers bytes and gaps to the [`Protocol`]. It closes and forgets connections, and evicts one when
//! there are too many.
//!
//! A packet on its way to another namespace is captured in both. It counts in the server's namespace, if that is
//! captured.

use std::collections::HashMap;

use iocrec_log::event::Address;

use crate::net::packet::Segment;
use crate::net::protocol::{Bytes, Ends, Protocol, Side, Start};
use crate::net::served::Served;
use crate::net::stream::{Arrival, Gap, Piece, Stream};
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;
/// Time to wait for the other side of a half-closed connection, and to distinguish late packets of a closed connection
/// from those of a new one. TCP itself usually waits a minute.
const LINGER: u64 = 60 * SECOND;
/// Time during which packets may still be under way after a reset.
const AFTER_RESET: u64 = 2 * SECOND;
/// Oldest reset to obey: distance of its sequence number from the expected one.
const OLDEST_RESET: i32 = -(64 << 10);

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
    table: HashMap<Key, Box<Connection<P::Connection>>>,
    /// The protocol, with the state that its connections share.
    pub protocol: P,
    buffered: usize,
}

/// The two ends of a connection, the lower first, in their network namespace: another namespace may have a connection
/// between the same addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(Namespace, Address, Address);

impl Key {
    fn new(namespace: Namespace, a: Address, b: Address) -> Key {
        Key(namespace, a.min(b), a.max(b))
    }
}

#[derive(Debug)]
struct Connection<S> {
    namespace: Namespace,
    client: Address,
    server: Address,
    from_client: Stream,
    from_server: Stream,
    /// The protocol's state of the connection.
    state: S,
    /// Time at which one side closed.
    half_closed: Option<u64>,
    closed: Option<Closed>,
    /// Time of the last packet or adoption.
    last: u64,
    /// Time of the last adoption; 0 for never.
    adopted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    at: u64,
    reset: bool,
}

impl<P: Protocol> Connections<P> {
    /// No connections yet.
    pub fn new(limits: Limits, protocol: P) -> Connections<P> {
        Connections { limits, served: Vec::new(), table: HashMap::new(), protocol, buffered: 0 }
    }

    /// Sets the servers of each network namespace whose packets are captured. Closes connections in namespaces that are
    /// no longer among them: an inode number may become another namespace's.
    pub fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut P::Output) {
        let mut gone = std::mem::replace(&mut self.served, served);
        gone.retain(|old| self.served(old.namespace).is_none());
        if gone.is_empty() {
            return;
        }
        let mut shared =
            Shared { limits: &self.limits, protocol: &mut self.protocol, buffered: &mut self.buffered, out };
        self.table.retain(|key, connection| {
            // keep one that was adopted in a namespace that is not known yet
            let kept = gone.iter().all(|gone| gone.namespace != key.0);
            if !kept {
                connection.flush(&mut shared);
                connection.end(now, false, &mut shared);
            }
            kept
        });
    }

    /// Sets the namespaces whose packets are captured from now on.
    pub fn set_captured(&mut self, namespaces: &[Namespace]) {
        for served in &mut self.served {
            served.captured = namespaces.contains(&served.namespace);
        }
    }

    /// The state of the connection between these ends, and its time of closing if it is closed.
    pub fn find(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
    ) -> Option<(&P::Connection, Option<u64>)> {
        let connection = self.table.get(&Key::new(namespace, client, server))?;
        (connection.client == client).then(|| (&connection.state, connection.closed.map(|closed| closed.at)))
    }

    /// The network namespace in which a connection counts if its client is in `namespace`: that of the server's
    /// address, if it is captured.
    pub fn home(&self, namespace: Namespace, server: Address) -> Namespace {
        let here = self.served(namespace).is_some_and(|served| served.has(server.ip));
        let other = self
            .served
            .iter()
            .find(|served| served.is_home(P::SERVICE, server))
            .map(|served| served.namespace);
        other.filter(|_| !here).unwrap_or(namespace)
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
        if !self.table.contains_key(&key) && self.passes(namespace, segment) {
            return;
        }
        if segment.syn {
            self.opening(namespace, time, segment, out);
        } else if segment.reset {
            let (mut shared, table) = self.shared(out);
            if let Some(connection) = table.get_mut(&key) {
                connection.reset(time, segment, &mut shared);
            }
            return;
        }
        if segment.length == 0 && !segment.fin && !self.table.contains_key(&key) {
            return;
        }
        let part_of = |c: &Connection<_>| c.closed.is_none_or(|closed| c.is_late(time, closed, segment));
        if !self.table.get(&key).is_some_and(|c| part_of(c)) {
            if segment.length == 0 {
                return;
            }
            let Some(client) = self.client_of(namespace, segment) else {
                if self.serves(namespace, segment.source) {
                    self.protocol.on_unknown(time, segment.length, segment.source, segment.destination);
                }
                return;
            };
            let server = if client == segment.source { segment.destination } else { segment.source };
            let connection = self.connection(namespace, client, server, Start::MidStream);
            self.insert(time, connection, out);
        }
        let (mut shared, table) = self.shared(out);
        if let Some(connection) = table.get_mut(&key) {
            connection.segment(time, segment, &mut shared);
        }
    }

    /// Does the work that is due by time alone: gives up waiting for missing bytes, forgets closed connections. Call it
    /// several times a second.
    pub fn tick(&mut self, now: u64, out: &mut P::Output) {
        let (mut shared, table) = self.shared(out);
        table.retain(|_, connection| connection.tick(now, &mut shared));
    }

    /// Gives up all waiting, when recording ends.
    pub fn finish(&mut self, out: &mut P::Output) {
        let (mut shared, table) = self.shared(out);
        for connection in table.values_mut() {
            connection.flush(&mut shared);
        }
    }

    /// The protocol and the state of the connection between these ends, which the recorder knows of from elsewhere at
    /// `now`. Adds the connection if it is unknown.
    pub fn adopt(
        &mut self,
        namespace: Namespace,
        now: u64,
        client: Address,
        server: Address,
        out: &mut P::Output,
    ) -> Option<(&mut P, &mut P::Connection)> {
        let key = Key::new(namespace, client, server);
        let usable = |c: &Connection<P::Connection>| {
            c.client == client && c.closed.is_none() && !self.protocol.is_foreign(&c.state)
        };
        if !self.table.get(&key).is_some_and(|c| usable(c)) {
            let connection = self.connection(namespace, client, server, Start::Adopted);
            self.insert(now, connection, out);
        }
        let connection = self.table.get_mut(&key)?;
        connection.last = now;
        connection.adopted = now.max(1);
        Some((&mut self.protocol, &mut connection.state))
    }

    fn served(&self, namespace: Namespace) -> Option<&Served> {
        self.served.iter().find(|served| served.namespace == namespace)
    }

    /// Whether a server in this namespace has the port of this end.
    pub fn serves(&self, namespace: Namespace, end: Address) -> bool {
        self.served(namespace).is_some_and(|served| served.ports.has(P::SERVICE, end.port))
    }

    /// The parts of the table that connections need while it is borrowed.
    #[allow(clippy::type_complexity)] // a pair
    fn shared<'a>(
        &'a mut self,
        out: &'a mut P::Output,
    ) -> (Shared<'a, P>, &'a mut HashMap<Key, Box<Connection<P::Connection>>>) {
        let Connections { limits, protocol, buffered, table, .. } = self;
        (Shared { limits, protocol, buffered, out }, table)
    }

    /// Whether the packet belongs to a server whose address is not in this namespace, but in another.
    fn passes(&self, namespace: Namespace, segment: &Segment) -> bool {
        let away = |end| self.home(namespace, end) != namespace;
        self.served.len() > 1 && (away(segment.source) || away(segment.destination))
    }

    /// Closes the copies of a connection in the namespaces that it passes through, once its packets are captured where
    /// the server is: the others were captured first.
    fn end_elsewhere(&mut self, time: u64, key: Key, server: Address, out: &mut P::Output) {
        if self.served.len() < 2
            || !self.served(key.0).is_some_and(|served| served.is_home(P::SERVICE, server))
        {
            return;
        }
        let others: Vec<Key> = self
            .served
            .iter()
            .map(|served| Key(served.namespace, key.1, key.2))
            .filter(|other| *other != key && self.home(other.0, server) == key.0)
            .collect();
        for other in others {
            self.remove(time, &other, out);
        }
    }

    /// Closes and forgets a connection, if it exists.
    fn remove(&mut self, time: u64, key: &Key, out: &mut P::Output) {
        if let Some(mut old) = self.table.remove(key) {
            let (mut shared, _) = self.shared(out);
            old.flush(&mut shared);
            old.end(time, false, &mut shared);
        }
    }

    /// A new connection, with its server as far as the listening sockets show it.
    fn connection(
        &mut self,
        namespace: Namespace,
        client: Address,
        server: Address,
        start: Start,
    ) -> Connection<P::Connection> {
        let listener = self.served(namespace).and_then(|served| served.server(server));
        let state = self.protocol.on_open(&Ends { namespace, client, server, start, listener });
        Connection {
            namespace,
            client,
            server,
            from_client: Stream::default(),
            from_server: Stream::default(),
            state,
            half_closed: None,
            closed: None,
            last: 0,
            adopted: 0,
        }
    }

    /// The client's end of a connection joined mid-stream, if it can be determined.
    fn client_of(&self, namespace: Namespace, segment: &Segment) -> Option<Address> {
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

    /// Takes a SYN, or the SYN that answers it.
    fn opening(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut P::Output) {
        let answers = segment.acknowledged.map(|ack| ack.wrapping_sub(1));
        let (client, server) = match answers {
            None => (segment.source, segment.destination),
            Some(_) => (segment.destination, segment.source),
        };
        let key = Key::new(namespace, client, server);
        let protocol = &mut self.protocol;
        if let Some(known) = self.table.get_mut(&key).filter(|c| c.client == client) {
            let (from_client, from_server) = (known.from_client.first(), known.from_server.first());
            match answers {
                // Sent again, or seen on two interfaces.
                None if from_client == Some(segment.sequence) => return,
                Some(_) if from_server == Some(segment.sequence) => return,
                Some(syn) if from_client == Some(syn) && from_server.is_none() => {
                    known.start(Side::Server, segment.sequence, protocol);
                    return;
                }
                _ => {}
            }
            // Adopted before its packets were looked at.
            let unseen = known.from_client.next().is_none() && known.from_server.next().is_none();
            if unseen && known.closed.is_none() && time <= known.adopted {
                known.open(segment, answers, protocol);
                return;
            }
        }
        let mut connection = self.connection(namespace, client, server, Start::Opened);
        connection.open(segment, answers, &mut self.protocol);
        self.insert(time, connection, out);
    }

    /// Adds a connection, replacing an older one between the same ends, and makes room for it.
    fn insert(&mut self, time: u64, connection: Connection<P::Connection>, out: &mut P::Output) {
        let key = Key::new(connection.namespace, connection.client, connection.server);
        self.end_elsewhere(time, key, connection.server, out);
        self.remove(time, &key, out);
        if self.table.len() >= self.limits.connections {
            // Closed ones first, then those that have shown no message, then the longest silent.
            let recognized = |c: &Connection<P::Connection>| self.protocol.is_recognized(&c.state);
            let rank = |c: &Connection<P::Connection>| (c.closed.is_none(), recognized(c), c.last);
            let least = self.table.iter().min_by_key(|(_, c)| rank(c)).map(|(key, _)| *key);
            if let Some(mut old) = least.and_then(|key| self.table.remove(&key)) {
                let (mut shared, _) = self.shared(out);
                old.flush(&mut shared);
                shared.protocol.on_eviction(&mut old.state, time);
                old.end(time, false, &mut shared);
            }
        }
        self.table.insert(key, Box::new(Connection { last: time, ..connection }));
    }
}

/// The parts of the table that a connection needs.
struct Shared<'a, P: Protocol> {
    limits: &'a Limits,
    protocol: &'a mut P,
    buffered: &'a mut usize,
    out: &'a mut P::Output,
}

impl<S> Connection<S> {
    /// Begins with this SYN; `answers` is the client's, if this one answers it.
    fn open<P: Protocol<Connection = S>>(
        &mut self,
        segment: &Segment,
        answers: Option<u32>,
        protocol: &mut P,
    ) {
        match answers {
            None => self.start(Side::Client, segment.sequence, protocol),
            Some(syn) => {
                self.start(Side::Client, syn, protocol);
                self.start(Side::Server, segment.sequence, protocol);
            }
        }
    }

    fn start<P: Protocol<Connection = S>>(&mut self, side: Side, syn: u32, protocol: &mut P) {
        self.stream(side).start(syn);
        protocol.on_start(&mut self.state, side);
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        }
    }

    fn sender(&self, segment: &Segment) -> Side {
        if segment.source == self.client {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Whether this is a late packet of the closed connection, and not one of a new connection between the same ends
    /// whose SYN was missed.
    fn is_late(&self, time: u64, closed: Closed, segment: &Segment) -> bool {
        let stream = if segment.source == self.client { &self.from_client } else { &self.from_server };
        let recent = |most: u64| time.saturating_sub(closed.at) < most;
        let old = stream.next().is_some() && stream.ahead(segment.sequence) <= 0;
        recent(LINGER) && (old || closed.reset && recent(AFTER_RESET))
    }

    fn segment<P: Protocol<Connection = S>>(&mut self, time: u64, segment: &Segment, shared: &mut Shared<P>) {
        if self.closed.is_some() {
            return;
        }
        self.last = time;
        let side = self.sender(segment);
        if let Some(sequence) = segment.acknowledged {
            self.deliver(side.peer(), shared, |stream, pieces| stream.acknowledged(sequence, pieces));
        }
        let unneeded = shared.protocol.unneeded(&self.state, side);
        let arrival = Arrival {
            time,
            sequence: segment.sequence.wrapping_add(segment.syn.into()),
            bytes: segment.payload,
            length: segment.length,
            elided: segment.elided,
            fin: segment.fin,
            place: segment.place,
            // what a client sends matters too much: what the ring lost is not passed over in silence
            follows: segment.place.is_some() && side == Side::Server,
            unneeded,
        };
        if segment.length > 0 || segment.fin {
            let others = shared.buffered.saturating_sub(self.stream(side).buffered());
            let limits = shared.limits;
            let limit = limits.buffered.min(limits.all_buffered.saturating_sub(others));
            self.deliver(side, shared, |stream, pieces| stream.segment(arrival, limit, pieces));
        }
        let (client, server) = (self.from_client.is_over(), self.from_server.is_over());
        if client && server {
            self.end(time, false, shared);
        } else if client || server {
            self.half_closed.get_or_insert(time);
        }
    }

    /// Changes one side's stream, and delivers the pieces that result.
    fn deliver<P: Protocol<Connection = S>>(
        &mut self,
        side: Side,
        shared: &mut Shared<P>,
        act: impl FnOnce(&mut Stream, &mut dyn FnMut(u64, Piece)),
    ) {
        let Shared { limits, protocol, buffered, out, .. } = shared;
        let filtered = limits.filtered && side == Side::Server;
        let stream = match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        };
        let state = &mut self.state;
        let mut latest = 0;
        let before = stream.buffered();
        act(stream, &mut |time, piece| {
            latest = time;
            match piece {
                Piece::Bytes { bytes, starts, ends, place } => {
                    protocol.on_bytes(state, side, time, Bytes { bytes, starts, ends, place }, out);
                }
                Piece::Gap { length, cause: Gap::Lost } if filtered => {
                    protocol.on_gap(state, side, time, length, Gap::Unseen, out);
                }
                Piece::Gap { length, cause } => protocol.on_gap(state, side, time, length, cause, out),
                Piece::End => {}
            }
        });
        **buffered = buffered.saturating_sub(before) + stream.buffered();
        protocol.on_delivered(state, side, latest, out);
    }

    fn reset<P: Protocol<Connection = S>>(&mut self, time: u64, segment: &Segment, shared: &mut Shared<P>) {
        let side = self.sender(segment);
        if self.closed.is_none() && self.stream(side).ahead(segment.sequence) >= OLDEST_RESET {
            self.flush(shared);
            self.end(time, true, shared);
        }
    }

    /// Gives up all missing bytes.
    fn flush<P: Protocol<Connection = S>>(&mut self, shared: &mut Shared<P>) {
        if self.closed.is_some() {
            return;
        }
        for side in [Side::Client, Side::Server] {
            self.deliver(side, shared, |stream, pieces| stream.flush(pieces));
        }
    }

    fn end<P: Protocol<Connection = S>>(&mut self, time: u64, reset: bool, shared: &mut Shared<P>) {
        if self.closed.is_none() {
            self.closed = Some(Closed { at: time, reset });
            shared.protocol.on_close(&mut self.state, time, shared.out);
        }
    }

    /// Does the work that is due; false if the connection can be forgotten.
    fn tick<P: Protocol<Connection = S>>(&mut self, now: u64, shared: &mut Shared<P>) -> bool {
        let old = |since: u64| now.saturating_sub(since) >= LINGER;
        if let Some(closed) = self.closed {
            return !old(closed.at);
        }
        if self.from_client.buffered() + self.from_server.buffered() > 0 {
            let before = now.saturating_sub(shared.limits.wait);
            for side in [Side::Client, Side::Server] {
                self.deliver(side, shared, |stream, pieces| stream.give_up_before(before, pieces));
            }
        }
        if self.half_closed.is_some_and(old) {
            self.flush(shared);
            self.end(now, false, shared);
        }
        // A connection that has shown no message is kept while it is busy: it may show one yet.
        let keep = shared.protocol.is_recognized(&self.state) || !old(self.last);
        if !keep {
            self.flush(shared);
        }
        keep
    }
}
