//! Connections that are captured several times, under different addresses.
//!
//! Who translates addresses (NAT: a container's published port, a masquerade) leaves the sequence numbers of a connection
//! as they are. So two connections whose openings have the same numbers, 64 bits that nobody guesses, are one that was
//! captured twice: in two network namespaces, or on two interfaces of one. Each of its packets counts once, nearest to the
//! server, if that is captured, else nearest to the client. Packets come in the order of their times, so all copies of an
//! opening have come before the first data.
//!
//! A connection whose opening was not seen is compared with all others, by where its two sides are.
//!
//! Whoever sends packets with others' addresses must not hide a put by that. So a connection to a server that listens in
//! this namespace is no copy, whatever else has its numbers; and a copy passes for one only as long as the connection that
//! counts shows that it exists.
//!
//! A proxy (Docker's userland proxy, a CA gateway) makes two connections out of one; they stay two.

use super::{Connections, Key};
use crate::net::connection::Connection;
use crate::net::lru::Lru;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{Closing, Protocol, Side};

/// Openings that are remembered until data follow.
const MOST_OPENINGS: usize = 1024;
/// Connections that one is compared with in one second, in all: some 25 ns each. A flood of packets of unknown connections
/// costs no more.
const MOST_COMPARED: usize = 1 << 19;
/// Time within which an opening passes through this machine, nanoseconds.
const TOGETHER: u64 = 100_000_000;
const SECOND: u64 = 1_000_000_000;

/// How near to the ends of its connection a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// The connection passes through.
    Passed,
    /// It has the client's address.
    Client,
    /// It has the server's address. A server may have begun to listen there that is not known yet.
    Address,
    /// The server listens there.
    Server,
}

/// Where an opening was captured nearest to the server.
#[derive(Clone, Copy, Debug)]
struct Passage {
    key: Key,
    nearness: Nearness,
    /// Time of the SYN.
    began: u64,
}

/// The connection that counts instead of a copy, and since when.
#[derive(Clone, Copy, Debug)]
struct Counting {
    key: Key,
    since: u64,
}

/// What is known of a connection whose opening was not seen.
struct Seen {
    client: End,
    server: End,
    /// Sequence numbers that its client and its server have come to.
    places: (u32, u32),
    /// Whether something shows that it exists.
    is_proven: bool,
}

impl Seen {
    /// By this segment of it; `None` if it acknowledges nothing.
    fn by(segment: &Segment, client: End, server: End, is_proven: bool) -> Option<Seen> {
        let acknowledged = segment.acknowledged?;
        let places = match segment.source == client {
            true => (segment.sequence, acknowledged),
            false => (acknowledged, segment.sequence),
        };
        Some(Seen { client, server, places, is_proven })
    }
}

/// What a comparison with all other connections shows.
enum Compared<S> {
    /// None is the same.
    Alone,
    /// There were too many comparisons.
    Later,
    /// It is the same as one that counts instead of it.
    CountsElsewhere,
    /// It counts instead of this other one, if that has told anything of the client.
    CountsHere(Option<Box<Connection<S>>>),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// By the sequence numbers of the SYN and of the one that answers it.
    passages: Lru<(u32, u32), Passage, 1>,
    /// The connections that count instead of these.
    copies: Lru<Key, Counting, 1>,
    /// The second of the last search, and how many connections were compared in it.
    searches: (u64, usize),
}

impl Passing {
    /// `counts`: the connection whose opening was noted has begun already.
    fn note(&mut self, numbers: (u32, u32), new: Passage, counts: bool) {
        let Some(known) = self.passages.get_mut(&numbers) else {
            insert(&mut self.passages, MOST_OPENINGS, numbers, new);
            return;
        };
        if new.began.abs_diff(known.began) > TOGETHER {
            // devices without chance begin with the same numbers after each start
            *known = new;
            return;
        }
        // the answer comes past the server's side first, the SYN past the client's
        let is_first = !counts && new.nearness <= Nearness::Client && new.began < known.began;
        if new.nearness > known.nearness || new.nearness == known.nearness && is_first {
            *known = new;
        }
    }

    /// Whether there may be one more search of so many connections.
    fn may_search(&mut self, time: u64, connections: usize) -> bool {
        let second = time / SECOND;
        if self.searches.0 != second {
            self.searches = (second, 0);
        }
        self.searches.1 = self.searches.1.saturating_add(connections);
        self.searches.1 <= MOST_COMPARED
    }
}

/// Adds an entry, instead of the oldest if there are too many.
fn insert<K: Copy + Eq + std::hash::Hash, V>(table: &mut Lru<K, V, 1>, most: usize, key: K, value: V) {
    if table.len() >= most {
        table.oldest().and_then(|oldest| table.remove(&oldest));
    }
    table.insert(key, value, 0);
}

impl<P: Protocol> Connections<P> {
    fn nearness(&self, key: &Key, client: End, server: End) -> Nearness {
        match self.served(key.0) {
            Some(served) if served.listens_at(server) => Nearness::Server,
            Some(served) if served.has(server) => Nearness::Address,
            Some(served) if served.has(client) => Nearness::Client,
            _ => Nearness::Passed,
        }
    }

    /// Notes where a new opening was captured.
    pub(super) fn note_passage(&mut self, key: &Key, began: u64, segment: &Segment) {
        // who opens a connection anew between these ends is no copy of the last one
        self.passing.copies.remove(key);
        let is_local = segment.source.is_loopback() || segment.destination.is_loopback();
        if let Some(next) = segment.acknowledged.filter(|_| !is_local) {
            let nearness = self.nearness(key, segment.destination, segment.source);
            let numbers = (next.wrapping_sub(1), segment.sequence);
            // in a file, where what opened this one was noted when it was recognized
            let known = self.passing.passages.get(&numbers).and_then(|known| self.table.get(&known.key));
            let begins = |side: Side| known.and_then(|known| known.stream_of(side).first());
            let counts = (begins(Side::Client), begins(Side::Server)) == (Some(numbers.0), Some(numbers.1));
            self.passing.note(numbers, Passage { key: *key, nearness, began }, counts);
        }
    }

    /// Whether a packet belongs to a copy of a connection that counts elsewhere.
    pub(super) fn passes(&mut self, key: &Key, time: u64, segment: &Segment) -> bool {
        if segment.syn || self.passing.copies.is_empty() {
            return false;
        }
        let Some(Counting { key: counting, since }) = self.passing.copies.get(key) else { return false };
        // what a server sends comes to the client's side last: there it may still be to come
        let exists = self.table.get(counting).is_some_and(|counting| !counting.awaits());
        let passes = exists || time.saturating_sub(*since) < SECOND;
        if passes {
            self.passing.copies.touch(key, 0);
        } else {
            self.passing.copies.remove(key);
        }
        passes
    }

    /// Whether a connection that this segment begins is a copy of one that counts elsewhere.
    pub(super) fn is_copy(
        &mut self,
        key: &Key,
        time: u64,
        segment: &Segment,
        new: &mut Connection<P::Connection>,
        out: &mut P::Output,
    ) -> bool {
        let numbers = (new.stream_of(Side::Client).first(), new.stream_of(Side::Server).first());
        if let (Some(client), Some(server)) = numbers {
            let passage = self.passing.passages.get(&(client, server)).filter(|passage| passage.key != *key);
            let is_at_server = self.nearness(key, new.client, new.server) == Nearness::Server;
            let Some(counting) = passage.map(|passage| passage.key).filter(|_| !is_at_server) else {
                return false;
            };
            self.copy_of(*key, Counting { key: counting, since: time });
            return true;
        }
        // nothing shows yet that a connection which waits for its server exists
        let seen = Seen::by(segment, new.client, new.server, segment.source == new.server);
        match seen.map(|seen| self.compare(key, time, &seen, out)) {
            Some(Compared::CountsElsewhere) => true,
            Some(Compared::CountsHere(told)) => {
                new.resume(told.as_ref().map(|told| told.stream_of(Side::Client)));
                false
            }
            Some(Compared::Later) => {
                new.is_uncompared = true;
                false
            }
            Some(Compared::Alone) | None => false,
        }
    }

    /// Remembers a copy: as many as there may be connections, else those that are forgotten would count once more.
    fn copy_of(&mut self, copy: Key, counting: Counting) {
        insert(&mut self.passing.copies, self.limits.connections.max(1), copy, counting);
    }

    /// Whether a segment shows that its connection is a copy of another: one of the server, if the connection waits for it;
    /// the first one, if the connection was adopted; any, if it was not compared in time. Forgets it then.
    pub(super) fn proves_a_copy(
        &mut self,
        key: &Key,
        time: u64,
        segment: &Segment,
        out: &mut P::Output,
    ) -> bool {
        let Some(known) = self.table.get(key) else { return false };
        let is_shown = match known.awaits() {
            true => known.server == segment.source,
            false => known.is_unseen() || known.is_uncompared,
        };
        let seen = Seen::by(segment, known.client, known.server, true).filter(|_| is_shown);
        seen.is_some_and(|seen| self.ends_as_copy(key, time, &seen, out))
    }

    /// Whether a connection that waits for its server, and of which a socket is known, is a copy of another. Forgets it
    /// then.
    pub(super) fn is_known_copy(&mut self, key: &Key, out: &mut P::Output) -> bool {
        let seen = self.table.get(key).filter(|known| known.awaits()).and_then(|known| {
            let (time, client, server) = known.last_waiting()?;
            let places = (client, server?);
            Some((time, Seen { client: known.client, server: known.server, places, is_proven: true }))
        });
        seen.is_some_and(|(time, seen)| self.ends_as_copy(key, time, &seen, out))
    }

    fn ends_as_copy(&mut self, key: &Key, time: u64, seen: &Seen, out: &mut P::Output) -> bool {
        let compared = self.compare(key, time, seen, out);
        let is_uncompared = matches!(compared, Compared::Later);
        self.table.get_mut(key).into_iter().for_each(|known| known.is_uncompared = is_uncompared);
        match compared {
            Compared::CountsElsewhere => {
                self.end_copy(time, key, out);
                true
            }
            Compared::CountsHere(told) => {
                let told = told.as_ref().map(|told| told.stream_of(Side::Client));
                self.table.get_mut(key).into_iter().for_each(|known| known.resume(told));
                false
            }
            Compared::Alone | Compared::Later => false,
        }
    }

    /// Looks for another connection that is the same one, and ends it if it counts here.
    fn compare(&mut self, key: &Key, time: u64, seen: &Seen, out: &mut P::Output) -> Compared<P::Connection> {
        let &Seen { client, server, places, is_proven } = seen;
        // each namespace has its own loopback
        if client.is_loopback() || server.is_loopback() {
            return Compared::Alone;
        }
        if !self.passing.may_search(time, self.table.len()) {
            return Compared::Later;
        }
        let is_same = |other: &Connection<P::Connection>| {
            let shares_an_end =
                other.client == client || other.server == server || other.client.port == client.port;
            let exists = is_proven || !other.awaits();
            shares_an_end && exists && other.closed_at().is_none() && other.is_at(places)
        };
        let found = self.table.iter().find(|(other, connection)| *other != key && is_same(connection));
        let Some((other, ends)) = found.map(|(other, found)| (*other, (found.client, found.server))) else {
            return Compared::Alone;
        };
        let nearness = self.nearness(key, client, server);
        let its_nearness = self.nearness(&other, ends.0, ends.1);
        if nearness == Nearness::Server && its_nearness == Nearness::Server {
            return Compared::Alone;
        }
        if nearness <= its_nearness {
            self.copy_of(*key, Counting { key: other, since: time });
            return Compared::CountsElsewhere;
        }
        self.copy_of(other, Counting { key: *key, since: time });
        Compared::CountsHere(self.end_copy(time, &other, out))
    }

    /// Forgets a copy; returns it if it has told anything.
    fn end_copy(
        &mut self,
        time: u64,
        key: &Key,
        out: &mut P::Output,
    ) -> Option<Box<Connection<P::Connection>>> {
        if self.table.get(key).is_some_and(|copy| !copy.awaits()) {
            return self.remove(time, key, Closing::Elsewhere, out);
        }
        let dropped = self.table.remove(key)?;
        self.buffered = self.buffered.saturating_sub(dropped.held_back());
        None
    }
}
