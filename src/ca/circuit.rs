//! Channel Access above [`Connections`](crate::net::connections::Connections): frames each side, passes its messages to
//! the circuit's session, and counts bytes that can't be framed.

use iocrec_log::event::{Address, CircuitClosed, CircuitId, Event, Fact, Origin};

use crate::ca::channels::{ChannelLimits, Channels};
use crate::ca::filter;
use crate::ca::framer::Framer;
use crate::ca::losses::{Kind, Losses};
use crate::ca::message::{self, Header, Plausibility};
use crate::ca::session::{Context, SeedChannel, Session, Shared};
use crate::ca::traffic::{End, Traffic};
use crate::net::protocol::{Bytes, Closing, Ends, Protocol, Side, Start, Unbelieved};
use crate::net::service::Service;
use crate::net::stream::Gap;
use crate::net::Namespace;

/// Bytes without a message after which a connection that was joined mid-stream, and has never shown a message, counts
/// as something other than Channel Access. It is still inspected.
const FOREIGN_AFTER: u64 = 64 << 10;

/// Channel Access, for the capture and its filter.
pub static SERVICE: Service =
    Service { name: "Channel Access", requests: filter::requests, rule: filter::rule, protocol: Some(0) };

/// The state that all circuits share.
#[derive(Debug)]
pub struct ChannelAccess {
    /// Bytes to keep of a put's payload.
    payload: u32,
    /// Whether to report the ends of circuits.
    reports_ends: bool,
    shared: Shared,
    losses: Losses,
    /// Counts of what goes over circuits beside puts; `None` if they are not wanted.
    traffic: Option<Traffic>,
}

/// A client's identity, as it claims.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// User name; empty if unknown.
    pub user: &'a str,
    /// Host name; empty if unknown.
    pub host: &'a str,
    /// Minor version of its protocol; 0 if unknown.
    pub minor: u16,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Circuit {
    namespace: Namespace,
    client: Address,
    server: Address,
    session: Session,
    from_client: Framer,
    from_server: Framer,
    /// Lost bytes of this delivery: not captured, not framed.
    lost: (u64, u64),
    /// Whether the stream begins with something other than Channel Access.
    is_foreign: bool,
    /// Bytes without a message.
    unrecognized: u64,
    /// The circuit's number when it was closed.
    closed_id: Option<CircuitId>,
}

impl Circuit {
    /// The circuit's number, once a message has shown that it is one.
    pub fn id(&self) -> Option<CircuitId> {
        self.session.id()
    }

    /// The circuit's number when it was closed.
    pub fn closed_id(&self) -> Option<CircuitId> {
        self.closed_id
    }

    fn framer(&mut self, side: Side) -> &mut Framer {
        match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        }
    }
}

impl ChannelAccess {
    /// No circuits yet.
    pub fn new(limits: ChannelLimits, payload: u32) -> ChannelAccess {
        let shared = Shared { circuit: 0, channels: Channels::new(limits), notes_ends: false };
        ChannelAccess { payload, reports_ends: false, shared, losses: Losses::default(), traffic: None }
    }

    /// From now on reports the ends of each circuit.
    pub fn report_ends(&mut self) {
        self.reports_ends = true;
    }

    /// From now on counts what goes over circuits beside puts, and notes how they and their channels end.
    pub fn count_traffic(&mut self) {
        self.traffic = Some(Traffic::default());
        self.shared.notes_ends = true;
    }

    /// Reports losses and counts that are due.
    pub fn report_losses(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.report(now, out);
        if let Some(traffic) = &mut self.traffic {
            traffic.tick(now, out);
        }
    }

    /// Reports all losses and counts.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.finish(now, out);
        if let Some(traffic) = &mut self.traffic {
            traffic.finish(now, out);
        }
    }

    /// Adds the state read from the memory of a server or client; returns the circuit's number.
    pub fn seed(
        &mut self,
        circuit: &mut Circuit,
        now: u64,
        client: &Client,
        channels: &[SeedChannel],
        out: &mut Vec<Event>,
    ) -> CircuitId {
        let mut context = Context { shared: &mut self.shared, out };
        circuit.session.seed(now, (client.user, client.host, client.minor), channels, &mut context)
    }

    /// Counts bytes of one side; `looked_at`: they are here.
    fn count(&mut self, circuit: &Circuit, time: u64, side: Side, length: u64, looked_at: bool) {
        if let (Some(traffic), Some(id)) = (&mut self.traffic, circuit.id()) {
            traffic.bytes(id, time, side, length, looked_at);
        }
    }

    /// Passes a piece of one side to its framer, and the messages that this completes to the session.
    fn frame(
        &mut self,
        circuit: &mut Circuit,
        side: Side,
        out: &mut Vec<Event>,
        piece: impl FnOnce(&mut Framer, &mut dyn FnMut(u64, &Header, &[u8])),
    ) {
        let end = End { namespace: circuit.namespace, client: circuit.client, server: circuit.server };
        let Circuit { session, from_client, from_server, .. } = circuit;
        let framer = match side {
            Side::Client => from_client,
            Side::Server => from_server,
        };
        if session.id().is_some() {
            framer.trust();
        }
        let mut context = Context { shared: &mut self.shared, out };
        let traffic = &mut self.traffic;
        piece(framer, &mut |time, header, payload| {
            match side {
                Side::Client => session.request(time, header, payload, &mut context),
                Side::Server => session.answer(time, header, payload, &mut context),
            }
            if let (Some(traffic), Some(id)) = (&mut *traffic, session.id()) {
                let Context { shared, out } = &mut context;
                let message = (time, header, payload);
                match side {
                    Side::Client => traffic.request(id, &end, message, &shared.channels, out),
                    Side::Server => traffic.answer(id, &end, message, &shared.channels, out),
                }
            }
        });
    }
}

impl Protocol for ChannelAccess {
    const SERVICE: &'static Service = &SERVICE;
    type Connection = Circuit;
    type Output = Vec<Event>;

    fn on_open(&mut self, ends: &Ends) -> Circuit {
        let origin = match ends.start {
            Start::Opened => Origin::Opened,
            Start::MidStream => Origin::MidStream,
            Start::Adopted => Origin::Memory,
        };
        let reported = self.reports_ends.then_some((ends.namespace, ends.listener));
        Circuit {
            namespace: ends.namespace,
            client: ends.client,
            server: ends.server,
            session: Session::new(ends.client, ends.server, origin, reported),
            from_client: Framer::new(Side::Client, self.payload),
            from_server: Framer::new(Side::Server, self.payload),
            lost: (0, 0),
            is_foreign: false,
            unrecognized: 0,
            closed_id: None,
        }
    }

    fn on_start(&mut self, circuit: &mut Circuit, side: Side) {
        circuit.framer(side).start();
    }

    fn on_bytes(&mut self, circuit: &mut Circuit, side: Side, time: u64, bytes: Bytes, out: &mut Vec<Event>) {
        if circuit.is_foreign {
            return;
        }
        let Bytes { bytes, starts, ends, place } = bytes;
        let length = bytes.len() as u64;
        self.frame(circuit, side, out, |framer, sink| {
            if let Some(before) = place {
                framer.place(before, sink);
            }
            framer.bytes(time, bytes, starts, ends, sink);
        });
        self.count(circuit, time, side, length, true);
        circuit.lost.1 += circuit.framer(side).take_lost();
    }

    fn on_gap(
        &mut self,
        circuit: &mut Circuit,
        side: Side,
        time: u64,
        length: u32,
        cause: Gap,
        out: &mut Vec<Event>,
    ) {
        if circuit.is_foreign {
            return;
        }
        self.frame(circuit, side, out, |framer, sink| framer.gap(time, length, cause, sink));
        self.count(circuit, time, side, length.into(), false);
        let lost = circuit.framer(side).take_lost();
        match cause {
            Gap::Lost | Gap::Unseen => circuit.lost.0 += lost,
            Gap::Elided => circuit.lost.1 += lost,
        }
    }

    fn unneeded(&self, circuit: &Circuit, side: Side) -> u64 {
        match side {
            Side::Client => circuit.from_client.unneeded(),
            Side::Server => circuit.from_server.unneeded(),
        }
    }

    fn on_delivered(&mut self, circuit: &mut Circuit, side: Side, time: u64, _: &mut Vec<Event>) {
        let (client, server) = (circuit.client, circuit.server);
        let (gap, unframed) = std::mem::take(&mut circuit.lost);
        let forgotten = std::mem::take(&mut self.shared.channels.forgotten);
        let losses = &mut self.losses;
        losses.add(Kind::Channels, forgotten, time, client, server);
        losses.add(Kind::Gap, gap, time, client, server);
        if circuit.id().is_some() {
            losses.add(Kind::Unframed, unframed, time, client, server);
        } else if circuit.framer(side).is_foreign() && !circuit.is_foreign {
            circuit.is_foreign = true;
            losses.add(Kind::Foreign, unframed, time, client, server);
        } else if circuit.unrecognized < FOREIGN_AFTER {
            circuit.unrecognized += unframed;
            let kind = if circuit.unrecognized < FOREIGN_AFTER { Kind::Unframed } else { Kind::Foreign };
            losses.add(kind, unframed, time, client, server);
        }
    }

    fn on_close(&mut self, circuit: &mut Circuit, time: u64, closing: Closing, out: &mut Vec<Event>) {
        circuit.closed_id = circuit.id();
        if let (Some(traffic), Some(id)) = (&mut self.traffic, circuit.id()) {
            traffic.end(id, time, out);
            if let Some((reason, by)) = closing.reason() {
                let closed = CircuitClosed { circuit: id, reason, by };
                out.push(Event { time, fact: Fact::CircuitClosed(closed) });
            }
        }
        if closing == Closing::Forgotten && circuit.id().is_some() {
            self.losses.add(Kind::Circuits, 1, time, circuit.client, circuit.server);
            circuit.session.forget(time, &mut self.shared, out);
        } else {
            circuit.session.end(time, &mut self.shared, out);
        }
    }

    fn on_unbelieved(&mut self, circuit: &mut Circuit, time: u64, what: Unbelieved) {
        let kind = match what {
            Unbelieved::Data => Kind::ForgedData,
            Unbelieved::Changed => Kind::ChangedData,
            Unbelieved::Reset => Kind::ForgedResets,
            Unbelieved::Opening => Kind::ForgedOpenings,
        };
        if !circuit.is_foreign {
            self.losses.add(kind, 1, time, circuit.client, circuit.server);
        }
    }

    fn on_unknown(&mut self, time: u64, length: u32, source: Address, destination: Address) {
        self.losses.add(Kind::Unframed, length.into(), time, source, destination);
    }

    fn is_recognized(&self, circuit: &Circuit) -> bool {
        circuit.id().is_some()
    }

    fn is_foreign(&self, circuit: &Circuit) -> bool {
        circuit.is_foreign
    }

    fn sender(&self, payload: &[u8]) -> Option<Side> {
        // Both may begin with VERSION, but a server's is rarely captured when its client's was not.
        let header = Header::parse(payload)?;
        let could = |side| message::plausible(side, &header) != Plausibility::None;
        match (could(Side::Client), could(Side::Server)) {
            (true, false) => Some(Side::Client),
            (false, true) => Some(Side::Server),
            (true, true) if header.command == message::VERSION => Some(Side::Client),
            _ => None,
        }
    }
}
