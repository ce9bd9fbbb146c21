//! PVAccess above [`Connections`](crate::net::connections::Connections): frames each side, passes its messages to the
//! circuit's session, and counts bytes that can't be framed.

use iocrec_log::event::{Address, CircuitClosed, Event, Fact, Origin};

use crate::net::protocol::{Bytes, Closing, Ends, Protocol, Side, Start, Unbelieved};
use crate::net::service::Service;
use crate::net::stream::Gap;
use crate::pva::filter;
use crate::pva::framer::{Framer, Message, KEPT};
use crate::pva::losses::{Kind, Losses};
use crate::pva::message::{Header, FROM_SERVER};
use crate::pva::session::{Context, Ids, Session, SessionLimits};
use crate::pva::types::Types;

/// Bytes without a message after which a connection that was joined mid-stream, and has never shown a message, counts
/// as something other than PVAccess. It is still inspected.
const FOREIGN_AFTER: u64 = 64 << 10;
/// First byte of a TLS handshake.
const TLS: u8 = 0x16;
/// Bytes of messages that are being put together, on all circuits; beyond it only the first bytes of each are kept.
const ALL_HELD: usize = 2 << 20;
/// Those first bytes.
const FEW: usize = 4 << 10;

/// PVAccess, for the capture and its filter.
pub static SERVICE: Service =
    Service { name: "PVAccess", requests: |_, _| (), rule: filter::rule, protocol: None };

/// The state that all circuits share.
#[derive(Debug)]
pub struct PvAccess {
    limits: SessionLimits,
    reports_ends: bool,
    ids: Ids,
    types: Types,
    losses: Losses,
    /// Bytes of memory that framers hold.
    held: usize,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    client: Address,
    server: Address,
    session: Session,
    from_client: Framer,
    from_server: Framer,
    /// Lost bytes of this delivery: not captured, not framed.
    lost: (u64, u64),
    is_foreign: bool,
    /// Bytes without a message.
    unrecognized: u64,
}

impl Connection {
    fn framer(&mut self, side: Side) -> &mut Framer {
        match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        }
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
            held: 0,
        }
    }

    /// From now on reports the ends of each circuit.
    pub fn report_ends(&mut self) {
        self.reports_ends = true;
    }

    /// Reports losses that are due; with `all`, all of them.
    pub fn report_losses(&mut self, now: u64, all: bool, out: &mut Vec<Event>) {
        self.losses.report(now, all, out);
    }

    /// Passes a piece of one side to its framer, and the messages that this completes to the session.
    fn frame(
        &mut self,
        connection: &mut Connection,
        side: Side,
        out: &mut Vec<Event>,
        piece: impl FnOnce(&mut Framer, usize, &mut dyn FnMut(u64, Message)),
    ) {
        let Connection { session, from_client, from_server, .. } = connection;
        let framer = match side {
            Side::Client => from_client,
            Side::Server => from_server,
        };
        let most = if self.held < ALL_HELD { KEPT } else { FEW };
        let mut context = Context { ids: &mut self.ids, types: &mut self.types, limits: self.limits, out };
        let before = framer.held();
        piece(framer, most, &mut |time, message| session.message(side, time, &message, &mut context));
        self.held = self.held.saturating_sub(before) + framer.held();
    }
}

impl Protocol for PvAccess {
    const SERVICE: &'static Service = &SERVICE;
    type Connection = Connection;
    type Output = Vec<Event>;

    fn on_open(&mut self, ends: &Ends) -> Connection {
        let origin = match ends.start {
            Start::Opened => Origin::Opened,
            Start::MidStream => Origin::MidStream,
            Start::Adopted => Origin::Memory,
        };
        let reported = self.reports_ends.then_some((ends.namespace, ends.listener));
        Connection {
            client: ends.client,
            server: ends.server,
            session: Session::new(ends.client, ends.server, origin, reported),
            from_client: Framer::new(Side::Client),
            from_server: Framer::new(Side::Server),
            lost: (0, 0),
            is_foreign: false,
            unrecognized: 0,
        }
    }

    fn on_start(&mut self, connection: &mut Connection, side: Side) {
        connection.framer(side).start();
    }

    fn on_bytes(
        &mut self,
        connection: &mut Connection,
        side: Side,
        time: u64,
        bytes: Bytes,
        out: &mut Vec<Event>,
    ) {
        if connection.is_foreign {
            return;
        }
        self.frame(connection, side, out, |framer, most, sink| framer.bytes(time, bytes, most, sink));
        connection.lost.1 += connection.framer(side).take_lost();
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
        if connection.is_foreign {
            return;
        }
        self.frame(connection, side, out, |framer, _, sink| framer.gap(time, length, cause, sink));
        let lost = connection.framer(side).take_lost();
        match cause {
            Gap::Lost | Gap::Unseen => connection.lost.0 += lost,
            Gap::Elided => connection.lost.1 += lost,
        }
    }

    fn unneeded(&self, connection: &Connection, side: Side) -> u64 {
        match side {
            Side::Client => connection.from_client.unneeded(),
            Side::Server => connection.from_server.unneeded(),
        }
    }

    fn on_delivered(&mut self, connection: &mut Connection, side: Side, time: u64, _: &mut Vec<Event>) {
        let (client, server) = (connection.client, connection.server);
        let (gap, unframed) = std::mem::take(&mut connection.lost);
        let losses = &mut self.losses;
        losses.add(Kind::Channels, std::mem::take(&mut self.ids.forgotten), time, client, server);
        losses.add(Kind::Types, std::mem::take(&mut self.types.forgotten), time, client, server);
        losses.add(Kind::Gap, gap, time, client, server);
        let foreign = connection.framer(side).foreign().filter(|_| !connection.is_foreign);
        if connection.session.id().is_some() {
            losses.add(Kind::Unframed, unframed, time, client, server);
        } else if let Some(first) = foreign {
            connection.is_foreign = true;
            let kind = if first == TLS { Kind::Encrypted } else { Kind::Foreign };
            losses.add(kind, unframed, time, client, server);
        } else if connection.unrecognized < FOREIGN_AFTER {
            connection.unrecognized += unframed;
            let kind = if connection.unrecognized < FOREIGN_AFTER { Kind::Unframed } else { Kind::Foreign };
            losses.add(kind, unframed, time, client, server);
        }
    }

    fn on_close(&mut self, connection: &mut Connection, time: u64, closing: Closing, out: &mut Vec<Event>) {
        if closing == Closing::Forgotten && connection.session.id().is_some() {
            self.losses.add(Kind::Circuits, 1, time, connection.client, connection.server);
        }
        if let Some(circuit) = connection.session.id() {
            if let Some((reason, by)) = closing.reason() {
                out.push(Event { time, fact: Fact::CircuitClosed(CircuitClosed { circuit, reason, by }) });
            }
        }
        for side in [Side::Client, Side::Server] {
            self.held = self.held.saturating_sub(connection.framer(side).held());
            *connection.framer(side) = Framer::new(side);
        }
        let end = if closing == Closing::Forgotten { Fact::CircuitForgotten } else { Fact::CircuitEnd };
        connection.session.end(time, end, &mut self.ids, &mut self.types, out);
    }

    fn on_unbelieved(&mut self, connection: &mut Connection, time: u64, _: Unbelieved) {
        if !connection.is_foreign {
            self.losses.add(Kind::Unbelieved, 1, time, connection.client, connection.server);
        }
    }

    fn on_unknown(&mut self, time: u64, length: u32, source: Address, destination: Address) {
        self.losses.add(Kind::Unframed, length.into(), time, source, destination);
    }

    fn is_recognized(&self, connection: &Connection) -> bool {
        connection.session.id().is_some()
    }

    fn is_foreign(&self, connection: &Connection) -> bool {
        connection.is_foreign
    }

    fn sender(&self, payload: &[u8]) -> Option<Side> {
        let header = Header::parse(payload)?;
        let side = if header.flags & FROM_SERVER != 0 { Side::Server } else { Side::Client };
        header.is_plausible(side).then_some(side)
    }
}
