//! PVAccess above [`Connections`](crate::net::connections::Connections): frames each side, passes its messages to the
//! circuit's session, and counts bytes that can't be framed.

use iocrec_log::event::{CircuitId, Event, Fact};

use crate::net::losses::Losses;
use crate::net::packet;
use crate::net::protocol::{Bytes, Closing, Ends, Protocol, Side, Unbelieved};
use crate::net::service::Service;
use crate::net::sides::{Direction, Sides, Unframed};
use crate::net::stream::Gap;
use crate::net::Namespace;
use crate::pva::filter;
use crate::pva::framer::{Framer, Sink, FEW, KEPT};
use crate::pva::losses::Kind;
use crate::pva::message::{Header, FROM_SERVER};
use crate::pva::name_servers::{Asked, NameServers};
use crate::pva::session::{Context, Ids, Seed, Session, SessionLimits};
use crate::pva::types::Types;

/// First byte of a TLS handshake.
const TLS: u8 = 0x16;
/// What a client of PVAccess says in that it wants to speak (ALPN), with its length.
const WANTED: &[u8] = b"\x05pva/1";
/// Bytes of messages of one side that are being put together, on all circuits; beyond it only the first bytes of each are
/// kept. Who begins messages without end leaves the servers' types as they are.
const ALL_HELD: usize = 1 << 20;

/// A hole in what a client sent that is longer than this may hide that another connection has begun between the same ends.
/// Then the types that the server has defined are others, too.
const FAR: u32 = 1 << 20;

/// PVAccess, for the capture and its filter.
pub static SERVICE: Service =
    Service { name: "PVAccess", requests: filter::requests, rule: filter::rule, protocol: Some(1) };

/// The state that all circuits share.
#[derive(Debug)]
pub struct PvAccess {
    limits: SessionLimits,
    reports_ends: bool,
    ids: Ids,
    types: Types,
    losses: Losses<Kind>,
    /// Searches on circuits.
    name_servers: NameServers,
    /// Bytes of memory that framers hold, those of clients and of servers.
    held: (usize, usize),
    /// Servers that have shown themselves at ports of which it was a guess, since that was last asked.
    pub shown: Vec<(Namespace, packet::End)>,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    namespace: Namespace,
    session: Session,
    sides: Sides<Framer>,
    /// Whether nothing has shown that a server of PVAccess is at its port. Until then nothing of it is a loss.
    is_guess: bool,
    /// Whether its client wants to speak PVAccess over TLS.
    wants_tls: bool,
}

impl Connection {
    /// The circuit's number, once a message has shown that it is one.
    pub fn id(&self) -> Option<CircuitId> {
        self.session.circuit.id()
    }

    fn ends(&self) -> (packet::End, packet::End) {
        (self.session.circuit.client, self.session.circuit.server)
    }
}

impl PvAccess {
    /// No circuits yet.
    pub fn new(limits: SessionLimits) -> PvAccess {
        PvAccess {
            limits,
            reports_ends: false,
            ids: Ids::default(),
            types: Types::default(),
            losses: Losses::default(),
            name_servers: NameServers::default(),
            held: (0, 0),
            shown: Vec::new(),
        }
    }

    /// From now on reports the ends of each circuit.
    pub fn report_ends(&mut self) {
        self.reports_ends = true;
    }

    /// Adds the state read from the server's memory. See [`Session::seed`].
    pub fn seed(
        &mut self,
        connection: &mut Connection,
        now: u64,
        seed: &Seed<'_>,
        out: &mut Vec<Event>,
    ) -> Option<CircuitId> {
        let mut context = Context { ids: &mut self.ids, types: &mut self.types, limits: self.limits, out };
        connection.session.seed(now, seed, &mut context)
    }

    /// The connection is an encrypted circuit.
    fn encrypted(&mut self, connection: &mut Connection, time: u64, out: &mut Vec<Event>) {
        let mut context = Context { ids: &mut self.ids, types: &mut self.types, limits: self.limits, out };
        connection.session.encrypted(time, &mut context);
    }

    fn framer(&self, side: Side) -> Framer {
        Framer::new(side, self.limits.payload)
    }

    /// Bytes that the framers of one side hold.
    fn held(&mut self, side: Side) -> &mut usize {
        match side {
            Side::Client => &mut self.held.0,
            Side::Server => &mut self.held.1,
        }
    }

    /// One of them holds so many now.
    fn holds(&mut self, side: Side, before: usize, now: usize) {
        let held = self.held(side);
        *held = held.saturating_sub(before) + now;
    }

    /// Passes a piece of one side to its framer, and the messages that this completes to the session.
    fn frame(
        &mut self,
        connection: &mut Connection,
        side: Side,
        out: &mut Vec<Event>,
        piece: &mut dyn FnMut(&mut Framer, usize, &mut Sink),
    ) {
        let most = if *self.held(side) < ALL_HELD { KEPT } else { FEW };
        let Connection { namespace, session, sides, is_guess, .. } = connection;
        let (client, server) = (session.circuit.client, session.circuit.server);
        let asked = Asked { namespace: *namespace, client, server };
        let name_servers = &mut self.name_servers;
        let (framer, other) = sides.both(side);
        let mut context = Context { ids: &mut self.ids, types: &mut self.types, limits: self.limits, out };
        let before = (framer.held(), other.held());
        let mut speaks = false;
        piece(framer, most, &mut |time, message| {
            speaks |= side == Side::Server;
            if let Some(ioid) = session.unasked(side, &message) {
                // QSRV1 carries a put out once all that it needs has come, whatever is still to come
                other
                    .answered(ioid, &mut |time, put| session.message(Side::Client, time, &put, &mut context));
            }
            name_servers.message(asked, side, time, &message, context.out);
            session.message(side, time, &message, &mut context);
        });
        let now = (framer.held(), other.held());
        // what begins as something else may repeat what it was sent
        if speaks && framer.foreign().is_none() && std::mem::take(is_guess) {
            self.shown.push((*namespace, server));
        }
        self.holds(side, before.0, now.0);
        self.holds(side.peer(), before.1, now.1);
        if let Some(order) = session.order.take() {
            sides.of(Side::Client).order = Some(order);
        }
    }
}

impl Protocol for PvAccess {
    const SERVICE: &'static Service = &SERVICE;
    type Connection = Connection;
    type Output = Vec<Event>;

    fn on_open(&mut self, ends: &Ends) -> Connection {
        Connection {
            namespace: ends.namespace,
            session: Session::new(ends, self.reports_ends),
            sides: Sides::new(self.framer(Side::Client), self.framer(Side::Server)),
            is_guess: ends.is_guess,
            wants_tls: false,
        }
    }

    fn on_start(&mut self, connection: &mut Connection, side: Side) {
        connection.sides.of(side).start();
    }

    fn on_bytes(
        &mut self,
        connection: &mut Connection,
        side: Side,
        time: u64,
        bytes: Bytes,
        out: &mut Vec<Event>,
    ) {
        if connection.is_guess {
            let mut parts = bytes.bytes.windows(WANTED.len());
            connection.wants_tls |= side == Side::Client && parts.any(|part| part == WANTED);
            let answers = side == Side::Server && bytes.bytes.first() == Some(&TLS);
            if answers && connection.wants_tls && connection.sides.is_foreign() {
                connection.is_guess = false;
                self.shown.push((connection.namespace, connection.ends().1));
                self.encrypted(connection, time, out);
            }
        }
        if connection.sides.is_foreign() {
            return;
        }
        self.frame(connection, side, out, &mut |framer, most, sink| {
            if let Some(before) = bytes.place {
                framer.place(before, sink);
            }
            framer.bytes(time, bytes, most, sink);
        });
        connection.sides.count(side, None);
    }

    fn on_gap(
        &mut self,
        connection: &mut Connection,
        side: Side,
        time: u64,
        length: u32,
        cause: Gap,
        out: &mut Vec<Event>,
    ) {
        if connection.sides.is_foreign() {
            return;
        }
        if side == Side::Client && cause == Gap::Lost && length > FAR {
            connection.sides.of(Side::Server).miss();
        }
        connection.session.misses_requests |= side == Side::Client && cause != Gap::Elided;
        self.frame(connection, side, out, &mut |framer, _, sink| framer.gap(time, length, cause, sink));
        connection.sides.count(side, Some(cause));
    }

    fn on_unseen(&mut self, connection: &mut Connection) {
        connection.session.misses_requests = true;
    }

    fn unneeded(&self, connection: &Connection, side: Side) -> u64 {
        connection.sides.unneeded(side)
    }

    fn on_delivered(&mut self, connection: &mut Connection, side: Side, time: u64, out: &mut Vec<Event>) {
        let (client, server) = connection.ends();
        let is_recognized = connection.id().is_some();
        let (gap, unframed) = connection.sides.delivered(side, is_recognized);
        let (kind, unframed) = match unframed {
            Unframed::Own(bytes) => (Kind::Unframed, bytes),
            Unframed::Foreign(bytes, Some(TLS)) => {
                if !connection.is_guess {
                    self.encrypted(connection, time, out);
                }
                (Kind::Encrypted, bytes)
            }
            Unframed::Foreign(bytes, _) => (Kind::Foreign, bytes),
        };
        let (gap, unframed) = if connection.is_guess { (0, 0) } else { (gap, unframed) };
        let channels = std::mem::take(&mut self.ids.forgotten);
        let types = std::mem::take(&mut self.types.forgotten);
        for (kind, count) in
            [(Kind::Channels, channels), (Kind::Types, types), (Kind::Gap, gap), (kind, unframed)]
        {
            self.losses.add(kind, count, time, client, server);
        }
    }

    fn on_close(&mut self, connection: &mut Connection, time: u64, closing: Closing, out: &mut Vec<Event>) {
        let (client, server) = connection.ends();
        if closing == Closing::Forgotten && connection.id().is_some() {
            self.losses.add(Kind::Circuits, 1, time, client, server);
        }
        self.frame(connection, Side::Client, out, &mut |framer, _, sink| framer.end(time, sink));
        connection.session.circuit.report_closing(time, closing, out);
        for side in [Side::Client, Side::Server] {
            let held = connection.sides.of(side).held();
            self.holds(side, held, 0);
            *connection.sides.of(side) = self.framer(side);
        }
        let end = if closing == Closing::Forgotten { Fact::CircuitForgotten } else { Fact::CircuitEnd };
        connection.session.end(time, end, &mut self.ids, &mut self.types, out);
    }

    fn on_unbelieved(&mut self, connection: &mut Connection, time: u64, what: Unbelieved) {
        if what == Unbelieved::Changed {
            connection.session.doubt();
        }
        if !connection.sides.is_foreign() && !connection.is_guess {
            let (client, server) = connection.ends();
            let (kind, count) = match what {
                Unbelieved::Unconfirmed => (Kind::Unconfirmed, 1),
                Unbelieved::Late(bytes) => (Kind::Gap, u64::from(bytes)),
                _ => (Kind::Unbelieved, 1),
            };
            self.losses.add(kind, count, time, client, server);
        }
    }

    fn on_unknown(&mut self, time: u64, length: u32, source: packet::End, destination: packet::End) {
        self.losses.add(Kind::Unframed, length.into(), time, source, destination);
    }

    fn on_tick(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.report(now, out);
        self.name_servers.tick(now, out);
    }

    fn on_finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.finish(now, out);
        self.name_servers.finish(now, out);
    }

    fn is_recognized(&self, connection: &Connection) -> bool {
        connection.id().is_some()
    }

    fn is_foreign(&self, connection: &Connection) -> bool {
        // an encrypted circuit is one all the same
        connection.sides.is_foreign() && connection.id().is_none()
    }

    fn sender(&self, payload: &[u8]) -> Option<Side> {
        let header = Header::parse(payload)?;
        let side = if header.flags & FROM_SERVER != 0 { Side::Server } else { Side::Client };
        header.is_plausible(side).then_some(side)
    }
}
