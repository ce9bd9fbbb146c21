//! From packets to facts: tells connections apart and keeps their state within bounds.

use crate::ca::framer::{Framer, Hole};
use crate::ca::losses::{Kind, Losses};
use crate::ca::message::{self, Belief, Header, Speaker};
use crate::ca::session::{Context, Numbers, Room, SeedChannel, Session};
use crate::net::packet::Segment;
use crate::net::served::Served;
use crate::net::stream::{Arrival, Piece, Stream};
use crate::net::Namespace;
use iocrec_log::event::{Address, CircuitId, Event, IocId, Origin};
use std::collections::HashMap;

const SECOND: u64 = 1_000_000_000;
/// How long the other side of a half-closed connection is waited for, and how long late packets of
/// a closed one are told from a new one's. A minute is the usual wait of TCP itself.
const LINGER: u64 = 60 * SECOND;
/// How long packets may still be under way after a reset.
const AFTER_RESET: u64 = 2 * SECOND;
/// Bytes without a message after which a connection that was joined in mid-stream and has never
/// shown one is taken for something else than Channel Access. It is still looked at.
const STRANGE_AFTER: u64 = 64 << 10;
/// How far behind what is expected a reset may lie and still be obeyed.
const OLDEST_RESET: i32 = -(64 << 10);

/// Bounds of the decoder. An open channel takes about 280 bytes: 10,000 are under 3 MiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections.
    pub circuits: usize,
    /// Open channels of one circuit.
    pub channels: usize,
    /// Open channels of all circuits.
    pub all_channels: usize,
    /// Bytes of out-of-order segments that one direction of a connection may hold.
    pub buffered: usize,
    /// The same for all connections together.
    pub all_buffered: usize,
    /// Bytes of a put's payload that are kept.
    pub payload: u32,
    /// How long missing bytes are waited for, in nanoseconds. Longer than a sender waits before it
    /// sends again (200 ms on Linux, doubled at each failure).
    pub wait: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            circuits: 1024,
            channels: 16384,
            all_channels: 16384,
            buffered: 256 << 10,
            all_buffered: 1 << 20,
            payload: 4096,
            wait: SECOND,
        }
    }
}

/// Turns packets into circuits, channels, puts and answers. See [`super`].
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// The servers of each network namespace whose packets are taken.
    served: Vec<Served>,
    /// Whose circuits are is to be said.
    tells: bool,
    connections: HashMap<Key, Box<Connection>>,
    shared: Shared,
}

/// The two ends of a connection, the lower first, in their network namespace: there may be one between the same
/// addresses and ports in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(Namespace, Address, Address);

impl Key {
    fn new(namespace: Namespace, a: Address, b: Address) -> Key {
        Key(namespace, a.min(b), a.max(b))
    }
}

#[derive(Debug)]
struct Connection {
    namespace: Namespace,
    client: Address,
    server: Address,
    session: Session,
    from_client: Direction,
    from_server: Direction,
    /// Begins with something else than Channel Access.
    foreign: bool,
    /// Has never shown a message in so many bytes.
    strange: u64,
    /// When one side closed.
    half_closed: Option<u64>,
    closed: Option<Closed>,
    /// Time of the last packet or seed.
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    at: u64,
    reset: bool,
    /// The number that it had.
    circuit: Option<CircuitId>,
}

#[derive(Debug)]
struct Direction {
    stream: Stream,
    framer: Framer,
}

/// What all connections share.
#[derive(Debug, Default)]
struct Shared {
    numbers: Numbers,
    losses: Losses,
    buffered: usize,
}

impl Decoder {
    /// A decoder that knows nothing yet.
    pub fn new(limits: Limits) -> Decoder {
        Decoder {
            limits,
            served: Vec::new(),
            tells: false,
            connections: HashMap::new(),
            shared: Shared::default(),
        }
    }

    /// Says with each circuit from now on in which namespace it is and who serves it, as far as the sockets that
    /// listen tell that.
    pub fn tell_ends(&mut self) {
        self.tells = true;
    }

    /// Says which servers there are in each network namespace whose packets come. Circuits of those that are not
    /// among them any more are over: an inode number may come to be another namespace's.
    pub fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut Vec<Event>) {
        let mut gone = std::mem::replace(&mut self.served, served);
        gone.retain(|old| self.served(old.namespace).is_none());
        if gone.is_empty() {
            return;
        }
        let shared = &mut self.shared;
        self.connections.retain(|key, connection| {
            // one that is not known yet may have been told of by a server's memory
            let kept = gone.iter().all(|gone| gone.namespace != key.0);
            if !kept {
                connection.flush(&self.limits, shared, out);
                connection.end(now, false, shared, out);
            }
            kept
        });
    }

    /// Says which namespaces' packets come from now on.
    pub fn set_captured(&mut self, namespaces: &[Namespace]) {
        for served in &mut self.served {
            served.captured = namespaces.contains(&served.namespace);
        }
    }

    /// The number of the circuit between these ends, if it has one and is open.
    pub fn circuit(&self, namespace: Namespace, client: Address, server: Address) -> Option<CircuitId> {
        let connection = self.connections.get(&Key::new(namespace, client, server))?;
        connection.session.id().filter(|_| connection.client == client && connection.closed.is_none())
    }

    /// The same of a circuit that was open at `time` (nanoseconds, monotonic), though it may be closed by now.
    pub fn circuit_then(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
        time: u64,
    ) -> Option<CircuitId> {
        let connection = self.connections.get(&Key::new(namespace, client, server))?;
        if connection.client != client {
            return None;
        }
        match connection.closed {
            None => connection.session.id(),
            Some(closed) => closed.circuit.filter(|_| closed.at >= time),
        }
    }

    /// The network namespace that a circuit is recorded in whose client is in `namespace`: that in which the server's
    /// address is, if its packets are taken.
    pub fn home(&self, namespace: Namespace, server: Address) -> Namespace {
        let here = self.served(namespace).is_some_and(|served| served.has(server.ip));
        let other = self.served.iter().find(|served| served.is_home(server)).map(|served| served.namespace);
        other.filter(|_| !here).unwrap_or(namespace)
    }

    /// Takes a packet that was seen in a network namespace, from its IPv4 header on, captured at `time`
    /// (nanoseconds, monotonic). `original_length` is its length before the capture cut anything off.
    /// Facts go to `out`; their times are those of the packets that completed them, which may be older
    /// than `time`.
    ///
    /// What passes through a namespace on its way to a server in another one whose packets are taken as well is
    /// left to that one, so that it counts once.
    pub fn packet(
        &mut self,
        namespace: Namespace,
        time: u64,
        ipv4: &[u8],
        original_length: usize,
        out: &mut Vec<Event>,
    ) {
        let Some(segment) = Segment::parse(ipv4, original_length) else { return };
        let key = Key::new(namespace, segment.source, segment.destination);
        if !self.connections.contains_key(&key) && self.passes(namespace, &segment) {
            return;
        }
        if segment.syn {
            self.opening(namespace, time, &segment, out);
        } else if segment.reset {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.reset(time, &segment, &self.limits, &mut self.shared, out);
            }
            return;
        }
        if segment.length == 0 && !segment.fin && !self.connections.contains_key(&key) {
            return;
        }
        let part_of = |c: &Connection| c.closed.is_none_or(|closed| c.is_late(time, closed, &segment));
        if !self.connections.get(&key).is_some_and(|c| part_of(c)) {
            if segment.length == 0 {
                return;
            }
            let Some(client) = self.client_of(namespace, &segment) else {
                if self.serves(namespace, segment.source) {
                    let (a, b) = (segment.source, segment.destination);
                    self.shared.losses.add(Kind::Unframed, segment.length.into(), time, a, b);
                }
                return;
            };
            let server = if client == segment.source { segment.destination } else { segment.source };
            self.insert(time, self.connection(namespace, client, server, Origin::MidStream), out);
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.segment(time, &segment, &self.limits, &mut self.shared, out);
        }
    }

    /// Does what time alone makes due: gives up waiting for missing bytes, forgets closed
    /// connections, reports losses. To be called some times a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Event>) {
        let (limits, shared) = (&self.limits, &mut self.shared);
        self.connections.retain(|_, connection| connection.tick(now, limits, shared, out));
        shared.losses.report(now, out);
    }

    /// Gives up all waiting and reports every loss, when recording ends.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        for connection in self.connections.values_mut() {
            connection.flush(&self.limits, &mut self.shared, out);
        }
        self.shared.losses.finish(now, out);
    }

    /// Adds a circuit and channels that were read from the memory of a server or client at `now`.
    /// What is known of them from the network stays; `minor` 0 and empty texts say nothing.
    #[allow(clippy::too_many_arguments)] // what the memory holds
    pub fn seed(
        &mut self,
        namespace: Namespace,
        now: u64,
        client: Address,
        server: Address,
        user: &str,
        host: &str,
        minor: u16,
        channels: &[SeedChannel],
        out: &mut Vec<Event>,
    ) -> CircuitId {
        let key = Key::new(namespace, client, server);
        let usable = |c: &Connection| c.client == client && c.closed.is_none() && !c.foreign;
        if !self.connections.get(&key).is_some_and(|c| usable(c)) {
            self.insert(now, self.connection(namespace, client, server, Origin::Memory), out);
        }
        let room = self.limits.room();
        let mut context = Context { numbers: &mut self.shared.numbers, room, out };
        match self.connections.get_mut(&key) {
            Some(connection) => {
                connection.last = now;
                connection.session.seed(now, (user, host, minor), channels, &mut context)
            }
            // It was put there just now.
            None => 0,
        }
    }

    fn served(&self, namespace: Namespace) -> Option<&Served> {
        self.served.iter().find(|served| served.namespace == namespace)
    }

    fn serves(&self, namespace: Namespace, end: Address) -> bool {
        self.served(namespace).is_some_and(|served| served.ports.binary_search(&end.port).is_ok())
    }

    /// Does the packet belong to a server whose address is not in this namespace, and is in another?
    fn passes(&self, namespace: Namespace, segment: &Segment) -> bool {
        let away = |end| self.home(namespace, end) != namespace;
        self.served.len() > 1 && (away(segment.source) || away(segment.destination))
    }

    /// A connection that begins to be seen where its server is has been seen in passing until then, if the server's
    /// namespace was captured later than another.
    fn end_elsewhere(&mut self, time: u64, key: Key, server: Address, out: &mut Vec<Event>) {
        if self.served.len() < 2 || !self.served(key.0).is_some_and(|served| served.is_home(server)) {
            return;
        }
        let others: Vec<Key> = self
            .served
            .iter()
            .map(|served| Key(served.namespace, key.1, key.2))
            .filter(|other| *other != key && self.home(other.0, server) == key.0)
            .collect();
        for other in others {
            if let Some(mut old) = self.connections.remove(&other) {
                old.flush(&self.limits, &mut self.shared, out);
                old.end(time, false, &mut self.shared, out);
            }
        }
    }

    /// A new connection, whose server is known as far as its sockets tell that.
    fn connection(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
        origin: Origin,
    ) -> Connection {
        let listener = self.served(namespace).and_then(|served| served.server(server));
        let ends = self.tells.then_some((namespace, listener));
        Connection::new(namespace, client, server, origin, self.limits.payload, ends)
    }

    /// Which end of a connection that was joined in mid-stream is the client, if that can be told.
    fn client_of(&self, namespace: Namespace, segment: &Segment) -> Option<Address> {
        let (source, destination) = (segment.source, segment.destination);
        match (self.serves(namespace, source), self.serves(namespace, destination)) {
            (false, true) => return Some(source),
            (true, false) => return Some(destination),
            _ => {}
        }
        // By what it says. Both may begin with VERSION, but a server that speaks without having
        // been seen to be asked is rare.
        let header = Header::parse(segment.payload)?;
        let could = |speaker| message::plausible(speaker, &header) != Belief::No;
        match (could(Speaker::Client), could(Speaker::Server)) {
            (true, false) => Some(source),
            (false, true) => Some(destination),
            (true, true) if header.command == message::VERSION => Some(source),
            _ => None,
        }
    }

    /// A SYN, or the SYN that answers it.
    fn opening(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut Vec<Event>) {
        let answers = segment.acknowledged.map(|ack| ack.wrapping_sub(1));
        let (client, server) = match answers {
            None => (segment.source, segment.destination),
            Some(_) => (segment.destination, segment.source),
        };
        let key = Key::new(namespace, client, server);
        if let Some(known) = self.connections.get_mut(&key).filter(|c| c.client == client) {
            let (from_client, from_server) =
                (known.from_client.stream.first(), known.from_server.stream.first());
            match answers {
                // Sent again, or seen on two interfaces.
                None if from_client == Some(segment.sequence) => return,
                Some(_) if from_server == Some(segment.sequence) => return,
                Some(syn) if from_client == Some(syn) && from_server.is_none() => {
                    known.from_server.start(segment.sequence);
                    return;
                }
                _ => {}
            }
            // Read from the server's memory before its packets were looked at.
            let unseen =
                known.from_client.stream.next().is_none() && known.from_server.stream.next().is_none();
            if unseen && known.closed.is_none() && time <= known.session.seeded() {
                known.open(segment, answers);
                return;
            }
        }
        let mut connection = self.connection(namespace, client, server, Origin::Opened);
        connection.open(segment, answers);
        self.insert(time, connection, out);
    }

    /// Puts a connection in place of what was there, and makes room for it.
    fn insert(&mut self, time: u64, connection: Connection, out: &mut Vec<Event>) {
        let key = Key::new(connection.namespace, connection.client, connection.server);
        self.end_elsewhere(time, key, connection.server, out);
        if let Some(mut old) = self.connections.remove(&key) {
            old.flush(&self.limits, &mut self.shared, out);
            old.end(time, false, &mut self.shared, out);
        }
        if self.connections.len() >= self.limits.circuits {
            // Closed ones go first, then those that have shown no message, then the longest silent.
            let rank = |c: &Connection| (c.closed.is_none(), c.session.id().is_some(), c.last);
            let least = self.connections.iter().min_by_key(|(_, c)| rank(c)).map(|(key, _)| *key);
            if let Some(mut old) = least.and_then(|key| self.connections.remove(&key)) {
                old.flush(&self.limits, &mut self.shared, out);
                if old.session.id().is_some() {
                    self.shared.losses.add(Kind::Circuits, 1, time, old.client, old.server);
                }
                old.end(time, false, &mut self.shared, out);
            }
        }
        self.connections.insert(key, Box::new(Connection { last: time, ..connection }));
    }
}

impl Limits {
    fn room(&self) -> Room {
        Room { circuit: self.channels.max(1), all: self.all_channels.max(1) }
    }
}

impl Direction {
    fn new(speaker: Speaker, payload: u32) -> Direction {
        Direction { stream: Stream::default(), framer: Framer::new(speaker, payload) }
    }

    fn start(&mut self, syn: u32) {
        self.stream.start(syn);
        self.framer.start();
    }
}

impl Connection {
    fn new(
        namespace: Namespace,
        client: Address,
        server: Address,
        origin: Origin,
        payload: u32,
        ends: Option<(Namespace, Option<IocId>)>,
    ) -> Connection {
        Connection {
            namespace,
            client,
            server,
            session: Session::new(client, server, origin, ends),
            from_client: Direction::new(Speaker::Client, payload),
            from_server: Direction::new(Speaker::Server, payload),
            foreign: false,
            strange: 0,
            half_closed: None,
            closed: None,
            last: 0,
        }
    }

    /// Begins with this SYN; `answers` is the client's, if this one answers it.
    fn open(&mut self, segment: &Segment, answers: Option<u32>) {
        match answers {
            None => self.from_client.start(segment.sequence),
            Some(syn) => {
                self.from_client.start(syn);
                self.from_server.start(segment.sequence);
            }
        }
    }

    /// Is this a late packet of the connection that was closed, and not of a new one between the
    /// same ends whose SYN was missed?
    fn is_late(&self, time: u64, closed: Closed, segment: &Segment) -> bool {
        let direction = if segment.source == self.client { &self.from_client } else { &self.from_server };
        let recent = |most: u64| time.saturating_sub(closed.at) < most;
        let old = direction.stream.next().is_some() && direction.stream.ahead(segment.sequence) <= 0;
        recent(LINGER) && (old || closed.reset && recent(AFTER_RESET))
    }

    fn segment(
        &mut self,
        time: u64,
        segment: &Segment,
        limits: &Limits,
        shared: &mut Shared,
        out: &mut Vec<Event>,
    ) {
        if self.closed.is_some() {
            return;
        }
        self.last = time;
        let speaker = if segment.source == self.client { Speaker::Client } else { Speaker::Server };
        if let Some(sequence) = segment.acknowledged {
            let listener = match speaker {
                Speaker::Client => Speaker::Server,
                Speaker::Server => Speaker::Client,
            };
            self.run(listener, limits, shared, out, |stream, pieces| stream.acknowledged(sequence, pieces));
        }
        let arrival = Arrival {
            time,
            sequence: segment.sequence.wrapping_add(segment.syn.into()),
            bytes: segment.payload,
            length: segment.length,
            only_headers: segment.only_headers,
            fin: segment.fin,
        };
        if segment.length > 0 || segment.fin {
            let others = shared.buffered.saturating_sub(self.direction(speaker).stream.buffered());
            let limit = limits.buffered.min(limits.all_buffered.saturating_sub(others));
            self.run(speaker, limits, shared, out, |stream, pieces| stream.segment(arrival, limit, pieces));
        }
        let (client, server) = (self.from_client.stream.is_over(), self.from_server.stream.is_over());
        if client && server {
            self.end(time, false, shared, out);
        } else if client || server {
            self.half_closed.get_or_insert(time);
        }
    }

    fn direction(&mut self, speaker: Speaker) -> &mut Direction {
        match speaker {
            Speaker::Client => &mut self.from_client,
            Speaker::Server => &mut self.from_server,
        }
    }

    /// Does something with one direction's stream; what comes out of it is framed and understood.
    fn run(
        &mut self,
        speaker: Speaker,
        limits: &Limits,
        shared: &mut Shared,
        out: &mut Vec<Event>,
        act: impl FnOnce(&mut Stream, &mut dyn FnMut(u64, Piece)),
    ) {
        let (client, server) = (self.client, self.server);
        let direction = match speaker {
            Speaker::Client => &mut self.from_client,
            Speaker::Server => &mut self.from_server,
        };
        let Direction { stream, framer } = direction;
        let (session, foreign) = (&mut self.session, self.foreign);
        if session.id().is_some() {
            framer.trust();
        }
        let mut context = Context { numbers: &mut shared.numbers, room: limits.room(), out };
        let mut sink = |time: u64, header: &Header, payload: &[u8]| match speaker {
            Speaker::Client => session.request(time, header, payload, &mut context),
            Speaker::Server => session.answer(time, header, payload, &mut context),
        };
        let (mut latest, mut gap, mut unframed) = (0, 0, 0);
        let before = stream.buffered();
        act(stream, &mut |time, piece| {
            latest = time;
            if foreign {
                return;
            }
            match piece {
                Piece::Bytes { bytes, starts, ends } => framer.bytes(time, bytes, starts, ends, &mut sink),
                Piece::OnlyHeaders(length) => framer.hole(time, length, Hole::Updates, &mut sink),
                Piece::Lost(length) => {
                    framer.hole(time, length, Hole::Lost, &mut sink);
                    gap += framer.take_lost();
                }
                Piece::End => {}
            }
            unframed += framer.take_lost();
        });
        shared.buffered = shared.buffered.saturating_sub(before) + stream.buffered();
        let forgotten = std::mem::take(&mut shared.numbers.forgotten);
        shared.losses.add(Kind::Channels, forgotten, latest, client, server);
        shared.losses.add(Kind::Gap, gap, latest, client, server);
        if self.session.id().is_some() {
            shared.losses.add(Kind::Unframed, unframed, latest, client, server);
        } else if self.direction(speaker).framer.is_foreign() && !self.foreign {
            self.foreign = true;
            shared.losses.add(Kind::Foreign, unframed, latest, client, server);
        } else if self.strange < STRANGE_AFTER {
            self.strange += unframed;
            let kind = if self.strange < STRANGE_AFTER { Kind::Unframed } else { Kind::Foreign };
            shared.losses.add(kind, unframed, latest, client, server);
        }
    }

    fn reset(
        &mut self,
        time: u64,
        segment: &Segment,
        limits: &Limits,
        shared: &mut Shared,
        out: &mut Vec<Event>,
    ) {
        let speaker = if segment.source == self.client { Speaker::Client } else { Speaker::Server };
        if self.closed.is_none() && self.direction(speaker).stream.ahead(segment.sequence) >= OLDEST_RESET {
            self.flush(limits, shared, out);
            self.end(time, true, shared, out);
        }
    }

    /// Gives up all that is missing.
    fn flush(&mut self, limits: &Limits, shared: &mut Shared, out: &mut Vec<Event>) {
        if self.closed.is_some() {
            return;
        }
        for speaker in [Speaker::Client, Speaker::Server] {
            self.run(speaker, limits, shared, out, |stream, pieces| stream.flush(pieces));
        }
    }

    fn end(&mut self, time: u64, reset: bool, shared: &mut Shared, out: &mut Vec<Event>) {
        if self.closed.is_none() {
            self.closed = Some(Closed { at: time, reset, circuit: self.session.id() });
            self.session.end(time, &mut shared.numbers, out);
        }
    }

    /// Does what is due; false when the connection can be forgotten.
    fn tick(&mut self, now: u64, limits: &Limits, shared: &mut Shared, out: &mut Vec<Event>) -> bool {
        let old = |since: u64| now.saturating_sub(since) >= LINGER;
        if let Some(closed) = self.closed {
            return !old(closed.at);
        }
        if self.from_client.stream.buffered() + self.from_server.stream.buffered() > 0 {
            let before = now.saturating_sub(limits.wait);
            for speaker in [Speaker::Client, Speaker::Server] {
                self.run(speaker, limits, shared, out, |s, pieces| s.give_up_before(before, pieces));
            }
        }
        if self.half_closed.is_some_and(old) {
            self.flush(limits, shared, out);
            self.end(now, false, shared, out);
        }
        // One that has shown no message is kept while it is busy: it may yet.
        let keep = self.session.id().is_some() || !old(self.last);
        if !keep {
            self.flush(limits, shared, out);
        }
        keep
    }
}
