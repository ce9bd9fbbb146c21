//! Which connections openings (SYN) begin, and which segments continue these.

use super::{Connections, Key};
use crate::net::connection::Connection;
use crate::net::openings::{Noted, Opening};
use crate::net::packet::Segment;
use crate::net::protocol::{Protocol, Side, Start, Unbelieved};
use crate::net::Namespace;

impl<P: Protocol> Connections<P> {
    /// The opening that this segment continues: exactly, if there is a connection that it would replace.
    pub(super) fn continued(&self, key: &Key, time: u64, segment: &Segment) -> Option<Opening> {
        let known = self.table.get(key).filter(|known| known.closed_at().is_none());
        let (opening, from_client) =
            self.openings.find(key, time, segment, |opening, from_client| match known {
                Some(known) if known.is_unseen() && time <= known.adopted => {
                    continues(opening, from_client, segment)
                }
                Some(known) => {
                    let is_own = known.stream_of(Side::Client).first() == Some(opening.client);
                    !is_own
                        && (opening.server.is_some() || known.stream_of(Side::Server).next().is_none())
                        && follows(opening, from_client, segment)
                }
                None => continues(opening, from_client, segment),
            })?;
        let client = if from_client { segment.source } else { segment.destination };
        // The ends of a live connection do not change places.
        known.is_none_or(|known| known.client == client).then_some(opening)
    }

    /// Whether a connection has just been opened and answered between these ends that this segment is not part of.
    pub(super) fn awaits_another(&self, key: &Key, time: u64, segment: &Segment) -> bool {
        let fresh = |opening: &Opening, _| {
            opening.server.is_some() && time.saturating_sub(opening.time) < OPENING_STANDS
        };
        self.openings.find(key, time, segment, fresh).is_some()
    }

    /// A connection that this segment begins, or that it is the first to show.
    pub(super) fn begin(
        &mut self,
        namespace: Namespace,
        time: u64,
        segment: &Segment,
        opening: Option<Opening>,
    ) -> Option<Connection<P::Connection>> {
        let server_of = |client| if client == segment.source { segment.destination } else { segment.source };
        let key = Key::new(namespace, segment.source, segment.destination);
        let opened = opening.and_then(|opening| {
            let same = |other: &Opening, _| *other == opening;
            self.openings.find(&key, time, segment, same)
        });
        if let Some((opening, from_client)) = opened {
            let client = if from_client { segment.source } else { segment.destination };
            let mut connection = self.connection(namespace, client, server_of(client), Start::Opened);
            // What the server says first, before what answers the opening: that is late.
            let begins = !from_client && self.protocol.sender(segment.payload).is_some();
            let server = opening.server.or(begins.then_some(segment.sequence.wrapping_sub(1)));
            let opening = Opening { server, ..opening };
            connection.began = time;
            connection.open(opening, &mut self.protocol);
            if self.confirms && opening.server.is_none() {
                connection.await_server();
            }
            return Some(connection);
        }
        let client = self.client_of(namespace, segment)?;
        let mut connection = self.connection(namespace, client, server_of(client), Start::MidStream);
        if self.confirms {
            connection.await_server();
        }
        Some(connection)
    }

    /// Remembers a SYN, or the SYN that answers it, until data follow. True if it answers that of a connection of which
    /// only the client's data have come.
    pub(super) fn opening(&mut self, key: &Key, time: u64, segment: &Segment) -> bool {
        let Noted { is_new, began } = self.openings.note(key, time, segment);
        if is_new {
            self.note_passage(key, began, segment);
        }
        let Some(known) = self.table.get_mut(key).filter(|known| known.closed_at().is_none()) else {
            return false;
        };
        let (client, server) = match segment.acknowledged {
            None => (Some(segment.sequence), None),
            Some(next) => (Some(next.wrapping_sub(1)), Some(segment.sequence)),
        };
        if known.stream_of(Side::Client).first() == client {
            // Sent again, or seen on two interfaces; or the answer was captured after the data.
            if let (Some(server), None) = (server, known.stream_of(Side::Server).next()) {
                known.start(Side::Server, server, &mut self.protocol);
            }
            self.openings.forget(key);
            return server.is_some();
        } else if is_new && server.is_none() && !known.is_unseen() {
            self.protocol.on_unbelieved(&mut known.state, time, Unbelieved::Opening);
        }
        false
    }
}

/// Time after an answered opening during which data that do not continue it are not taken for a connection that was open
/// before, nanoseconds. Clients send their first message at once.
const OPENING_STANDS: u64 = 2_000_000_000;

/// Distance behind an opening up to which data are taken for its continuation, whose first segments were not captured.
const BEHIND_OPENING: u32 = 1 << 20;

/// Whether a segment may be an early one of the connection that was opened so.
fn continues(opening: &Opening, from_client: bool, segment: &Segment) -> bool {
    let after = |syn: u32| segment.sequence.wrapping_sub(syn.wrapping_add(1)) <= BEHIND_OPENING;
    match (from_client, opening.server) {
        (true, _) => after(opening.client),
        (false, Some(server)) => after(server),
        (false, None) => segment.acknowledged == Some(opening.client.wrapping_add(1)),
    }
}

/// Whether a segment is the first of its side on the connection that was opened so.
fn follows(opening: &Opening, from_client: bool, segment: &Segment) -> bool {
    let next = |syn: u32| syn.wrapping_add(1);
    let has = |syn: u32| segment.acknowledged.is_none_or(|ack| ack.wrapping_sub(next(syn)) <= BEHIND_OPENING);
    match (from_client, opening.server) {
        (true, Some(server)) => segment.sequence == next(opening.client) && has(server),
        (true, None) => segment.sequence == next(opening.client),
        (false, Some(server)) => segment.sequence == next(server) && has(opening.client),
        (false, None) => false,
    }
}
