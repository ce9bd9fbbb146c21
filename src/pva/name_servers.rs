//! Searches on TCP connections, to servers that are asked by name (EPICS_PVA_NAME_SERVERS), counted as those over UDP are.
//!
//! An answer names the server that has the PV, which need not be the one that was asked. Whoever has no such PV says
//! nothing.

use epics::pva::Cursor;
use iocrec_log::event::Event;

use crate::net::packet::End;
use crate::net::protocol::Side;
use crate::net::udp::searches::{Answer, Asking, Limits, Searches};
use crate::net::udp::stand_ins::StandIns;
use crate::net::Namespace;
use crate::pva::datagrams::FACTS;
use crate::pva::framer::Message;
use crate::pva::message::{SEARCH, SEARCH_RESPONSE};
use crate::pva::searches::{request, response};

const SECOND: u64 = 1_000_000_000;

/// The ends of a circuit, and the namespace in which it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The namespace.
    pub namespace: Namespace,
    /// The client's end.
    pub client: End,
    /// The server's end.
    pub server: End,
}

/// See the module.
#[derive(Debug)]
pub struct NameServers {
    searches: Searches,
    addresses: StandIns,
    checked: u64,
}

impl Default for NameServers {
    fn default() -> NameServers {
        let searches = Searches::new(Limits::default(), FACTS);
        NameServers { searches, addresses: StandIns::of_tcp(), checked: 0 }
    }
}

impl NameServers {
    /// Takes a message of a circuit. Facts that must not wait go to `out`.
    pub fn message(&mut self, asked: Asked, side: Side, time: u64, message: &Message, out: &mut Vec<Event>) {
        let is_request = match (side, message.header.command) {
            (Side::Client, SEARCH) => true,
            (Side::Server, SEARCH_RESPONSE) => false,
            _ => return,
        };
        let NameServers { searches, addresses, .. } = self;
        let cursor = &mut Cursor::new(message.payload, message.header.is_big_endian());
        let namespace = asked.namespace;
        // answers come on the circuit, whatever address a request has
        let client = addresses.address(asked.client, time, out);
        let asking = |cid| Asking { client, tcp: true, cid };
        // what comes after something unreadable is not understood either
        let _ = if is_request {
            request(cursor, asked.client, &mut |cid, _, name| {
                searches.request(namespace, asking(cid), name, time);
            })
        } else {
            response(cursor, asked.server, &mut |cid, answer| {
                let answer = answer.map(|(server, guid)| Answer {
                    server: addresses.address(server, time, out),
                    guid: Some(guid),
                });
                searches.answer(namespace, asking(cid), answer, time);
            })
        };
    }

    /// Reports what is due. Call it some times a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Event>) {
        if now.saturating_sub(self.checked) >= SECOND {
            self.checked = now;
            self.searches.second(now, out);
        }
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.searches.finish(now, out);
    }
}
