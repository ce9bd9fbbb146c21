//! Channel Access above [`Connections`](crate::net::connections::Connections): frames each side, passes its messages to
//! the circuit's session, and counts bytes that can't be framed.

use std::sync::Weak;

use epics::eca;
use iocrec_log::event::{CircuitId, Event};

use crate::ca::channels::{ChannelLimits, Channels};
use crate::ca::filter;
use crate::ca::framer::Framer;
use crate::ca::losses::Kind;
use crate::ca::message::{self, Header, Plausibility, ERROR};
use crate::ca::session::{Context, SeedChannel, Session, Shared};
use crate::ca::traffic::{End, Traffic};
use crate::net::counts::Counts;
use crate::net::losses::Losses;
use crate::net::packet;
use crate::net::protocol::{Bytes, Closing, Ends, Protocol, Side, Unbelieved};
use crate::net::service::Service;
use crate::net::sides::{at_least, Direction, Sides, Unframed};
use crate::net::stream::Gap;
use crate::net::Namespace;

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
    losses: Losses<Kind>,
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
    end: End,
    session: Session,
    sides: Sides<Framer>,
    /// The circuit's number when it was closed.
    closed_id: Option<CircuitId>,
}

impl Circuit {
    /// The circuit's number, once a message has shown that it is one.
    pub fn id(&self) -> Option<CircuitId> {
        self.session.circuit.id()
    }

    /// The circuit's number when it was closed.
    pub fn closed_id(&self) -> Option<CircuitId> {
        self.closed_id
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

    /// From now on takes the counts of updates in a namespace from there, if traffic is counted.
    pub fn watch_counts(&mut self, namespace: Namespace, now: u64, counts: Weak<Counts>) {
        if let Some(traffic) = &mut self.traffic {
            traffic.watch_counts(namespace, now, counts);
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
        let Circuit { end, session, sides, .. } = circuit;
        let (framer, other) = sides.both(side);
        if session.circuit.id().is_some() {
            framer.trust();
        }
        let mut context = Context { shared: &mut self.shared, out };
        let traffic = &mut self.traffic;
        let mut tell = |side: Side, time: u64, header: &Header, payload: &[u8]| {
            match side {
                Side::Client => session.request(time, header, payload, &mut context),
                Side::Server => session.answer(time, header, payload, &mut context),
            }
            if let (Some(traffic), Some(id)) = (&mut *traffic, session.circuit.id()) {
                let Context { shared, out } = &mut context;
                let message = (time, header, payload);
                match side {
                    Side::Client => traffic.request(id, end, message, &shared.channels, out),
                    Side::Server => traffic.answer(id, end, message, &mut shared.channels, out),
                }
            }
        };
        piece(framer, &mut |time, header, payload| {
            let is_refusal = side == Side::Server && header.command == ERROR && header.p2 == eca::TOLARGE;
            let refused = is_refusal.then(|| Header::parse(payload)).flatten();
            if let Some(request) = refused {
                other.refused(time, &request, &mut |time, header, payload| {
                    tell(Side::Client, time, header, payload);
                });
            }
            tell(side, time, header, payload);
        });
    }
}

impl Protocol for ChannelAccess {
    const SERVICE: &'static Service = &SERVICE;
    type Connection = Circuit;
    type Output = Vec<Event>;

    fn on_open(&mut self, ends: &Ends) -> Circuit {
        Circuit {
            end: End {
                namespace: ends.namespace,
                client: ends.client.address(),
                server: ends.server.address(),
            },
            session: Session::new(ends, self.reports_ends),
            sides: Sides::new(
                Framer::new(Side::Client, self.payload),
                Framer::new(Side::Server, self.payload),
            ),
            closed_id: None,
        }
    }

    fn on_start(&mut self, circuit: &mut Circuit, side: Side) {
        circuit.sides.of(side).start();
    }

    fn on_bytes(&mut self, circuit: &mut Circuit, side: Side, time: u64, bytes: Bytes, out: &mut Vec<Event>) {
        if circuit.sides.is_foreign() {
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
        circuit.sides.count(side, None);
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
        if circuit.sides.is_foreign() {
            return;
        }
        self.frame(circuit, side, out, |framer, sink| framer.gap(time, length, cause, sink));
        self.count(circuit, time, side, at_least(length.into()), false);
        if let (Side::Server, Gap::Lost | Gap::Unseen, Some(traffic), Some(id)) =
            (side, cause, &mut self.traffic, circuit.id())
        {
            traffic.unseen(id, time, out);
        }
        circuit.sides.count(side, Some(cause));
    }

    fn unneeded(&self, circuit: &Circuit, side: Side) -> u64 {
        circuit.sides.unneeded(side)
    }

    fn on_delivered(&mut self, circuit: &mut Circuit, side: Side, time: u64, _: &mut Vec<Event>) {
        let End { client, server, .. } = circuit.end;
        let is_recognized = circuit.id().is_some();
        let (gap, unframed) = circuit.sides.delivered(side, is_recognized);
        let forgotten = std::mem::take(&mut self.shared.channels.forgotten);
        let uncounted = self.traffic.as_mut().map_or(0, |traffic| std::mem::take(&mut traffic.uncounted));
        let (kind, unframed) = match unframed {
            Unframed::Own(bytes) => (Kind::Unframed, bytes),
            Unframed::Foreign(bytes, _) => (Kind::Foreign, bytes),
        };
        let (forgotten, uncounted) = ((Kind::Channels, forgotten), (Kind::Uncounted, uncounted));
        for (kind, count) in [forgotten, uncounted, (Kind::Gap, gap), (kind, unframed)] {
            self.losses.add(kind, count, time, client, server);
        }
    }

    fn on_left_out(&mut self, circuit: &mut Circuit, side: Side, time: u64, length: u64) {
        self.count(circuit, time, side, length, false);
    }

    fn on_window(&mut self, circuit: &mut Circuit, time: u64, is_closed: bool, out: &mut Vec<Event>) {
        if let (Some(traffic), Some(id)) = (&mut self.traffic, circuit.id()) {
            traffic.window(id, time, is_closed, out);
        }
    }

    fn number(&self, circuit: &Circuit) -> Option<u32> {
        circuit.closed_id
    }

    fn on_close(&mut self, circuit: &mut Circuit, time: u64, closing: Closing, out: &mut Vec<Event>) {
        circuit.closed_id = circuit.id();
        if let (Some(traffic), Some(id)) = (&mut self.traffic, circuit.id()) {
            traffic.end(id, time, out);
            circuit.session.circuit.report_closing(time, closing, out);
        }
        if closing == Closing::Forgotten && circuit.id().is_some() {
            self.losses.add(Kind::Circuits, 1, time, circuit.end.client, circuit.end.server);
            circuit.session.forget(time, &mut self.shared, out);
        } else {
            circuit.session.end(time, &mut self.shared, out);
        }
    }

    fn on_unbelieved(&mut self, circuit: &mut Circuit, time: u64, what: Unbelieved) {
        let (kind, count) = match what {
            Unbelieved::Data => (Kind::ForgedData, 1),
            Unbelieved::Unconfirmed => (Kind::Unconfirmed, 1),
            Unbelieved::Changed => (Kind::ChangedData, 1),
            Unbelieved::Reset => (Kind::ForgedResets, 1),
            Unbelieved::Opening => (Kind::ForgedOpenings, 1),
            Unbelieved::Late(bytes) => (Kind::Gap, u64::from(bytes)),
        };
        if what == Unbelieved::Changed {
            circuit.session.doubt();
        }
        if !circuit.sides.is_foreign() {
            self.losses.add(kind, count, time, circuit.end.client, circuit.end.server);
        }
    }

    fn on_unknown(&mut self, time: u64, length: u32, source: packet::End, destination: packet::End) {
        self.losses.add(Kind::Unframed, length.into(), time, source, destination);
    }

    fn on_tick(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.report(now, out);
        if let Some(traffic) = &mut self.traffic {
            traffic.tick(now, &self.shared.channels, out);
        }
    }

    fn on_finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.losses.finish(now, out);
        if let Some(traffic) = &mut self.traffic {
            traffic.finish(now, out);
        }
    }

    fn is_recognized(&self, circuit: &Circuit) -> bool {
        circuit.id().is_some()
    }

    fn is_foreign(&self, circuit: &Circuit) -> bool {
        circuit.sides.is_foreign()
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
