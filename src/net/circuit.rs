//! What the log tells of a circuit, whatever its protocol: its ends, who its client says to be, and how it is closed.

use iocrec_log::event::{self, CircuitClosed, CircuitEnds, CircuitId, Event, Fact, IocId, Origin};

use crate::net::packet::End;
use crate::net::protocol::{Closing, Ends, Start};
use crate::net::Namespace;

/// A circuit. It gets its number, and is logged, once a message has shown that it is one.
#[derive(Debug)]
pub struct Circuit {
    id: Option<CircuitId>,
    /// The client's end.
    pub client: End,
    /// The server's end.
    pub server: End,
    /// The client's user, as it claims; empty if unknown.
    pub user: String,
    /// The client's host, as it claims; empty if unknown.
    pub host: String,
    /// Minor version of Channel Access; 0 if unknown.
    pub minor: u16,
    origin: Origin,
    /// The namespace of its packets, and the listening process, if known; `None` if ends are not reported.
    ends: Option<(Namespace, Option<IocId>)>,
}

impl Circuit {
    /// A circuit of which only the ends are known. `reports_ends`: the log gets its namespace and server as well.
    pub fn new(ends: &Ends, reports_ends: bool) -> Circuit {
        Circuit {
            id: None,
            client: ends.client,
            server: ends.server,
            user: String::new(),
            host: String::new(),
            minor: 0,
            origin: match ends.start {
                Start::Opened => Origin::Opened,
                Start::MidStream => Origin::MidStream,
                Start::Adopted => Origin::Memory,
            },
            ends: reports_ends.then_some((ends.namespace, ends.listener)),
        }
    }

    /// Its number, once a message has shown that it is one.
    pub fn id(&self) -> Option<CircuitId> {
        self.id
    }

    /// Whether its opening was captured.
    pub fn is_opened(&self) -> bool {
        self.origin == Origin::Opened
    }

    /// Its number; the next after `last` and a report if it has none yet.
    pub fn number(&mut self, time: u64, last: &mut CircuitId, out: &mut Vec<Event>) -> CircuitId {
        if let Some(id) = self.id {
            return id;
        }
        *last = last.wrapping_add(1);
        let circuit = *last;
        self.id = Some(circuit);
        self.report(time, out);
        if let Some((namespace, server)) = self.ends {
            let fact = Fact::CircuitEnds(CircuitEnds { circuit, namespace, server, client: None });
            out.push(Event { time, fact });
        }
        circuit
    }

    /// Reports what is known now, if the circuit has a number. Clients open a circuit with several messages in one packet:
    /// what was reported at the same time, and nothing refers to yet, is replaced.
    pub fn report(&self, time: u64, out: &mut Vec<Event>) {
        let Some(id) = self.id else { return };
        let fact = Fact::from(event::Circuit {
            id,
            client: self.client.address(),
            server: self.server.address(),
            user: self.user.clone(),
            host: self.host.clone(),
            minor: self.minor,
            origin: self.origin,
        });
        let is_ends = |event: &Event| matches!(&event.fact, Fact::CircuitEnds(ends) if ends.circuit == id);
        let is_same =
            |event: &Event| event.time == time && matches!(&event.fact, Fact::Circuit(old) if old.id == id);
        match out.iter_mut().rev().find(|event| !is_ends(event)).filter(|event| is_same(event)) {
            Some(before) => before.fact = fact,
            None => out.push(Event { time, fact }),
        }
    }

    /// Reports how its connection ended, as far as packets show.
    pub fn report_closing(&self, time: u64, closing: Closing, out: &mut Vec<Event>) {
        if let (Some(circuit), Some((reason, by))) = (self.id, closing.reason()) {
            out.push(Event { time, fact: Fact::CircuitClosed(CircuitClosed { circuit, reason, by }) });
        }
    }

    /// The same circuit, of which only the ends are known.
    pub fn bare(&self) -> Circuit {
        let (id, user, host, minor) = (None, String::new(), String::new(), 0);
        Circuit { id, user, host, minor, ..*self }
    }

    /// It is over, or forgotten, which `fact` says: nothing is known of it any more but its ends.
    pub fn end(&mut self, time: u64, fact: fn(CircuitId) -> Fact, out: &mut Vec<Event>) {
        if let Some(id) = self.id {
            out.push(Event { time, fact: fact(id) });
        }
        *self = self.bare();
    }
}
