//! What a server's memory tells of a circuit that is older than the recorder. Facts from the network take precedence.

use iocrec_log::event::{Channel, CircuitId, Origin};

use super::messages::LONGEST_NAME;
use super::{Context, Session, ENCRYPTED};

/// A circuit as read from a server's memory; an empty text is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a> {
    /// User name that the client claims.
    pub user: &'a str,
    /// How the client said who it is.
    pub method: &'a str,
    /// Channels: the client's number, the server's number, the name.
    pub channels: &'a [(u32, u32, &'a str)],
}

impl Session {
    /// Adds the state read from the server's memory; returns the circuit's number. `None` if packets show the circuit
    /// from its beginning, and can be read: then they have named all, and memory may be that of an earlier one between the
    /// same ends.
    pub fn seed(&mut self, time: u64, seed: &Seed<'_>, context: &mut Context) -> Option<CircuitId> {
        if self.circuit.is_opened() && self.method != ENCRYPTED {
            return None;
        }
        let is_new = self.circuit.id().is_none();
        let learns = self.circuit.user.is_empty() && !seed.user.is_empty();
        if learns {
            self.circuit.user = seed.user.to_owned();
        }
        let circuit = self.number(time, context);
        if learns && !is_new {
            self.circuit.report(time, context.out);
        }
        if self.method.is_empty() && !seed.method.is_empty() {
            self.method = seed.method.to_owned();
            self.describe(time, context.out);
        }
        for &(cid, sid, pv) in seed.channels {
            if !pv.is_empty() && pv.len() <= LONGEST_NAME {
                self.seed_channel(time, (cid, sid), pv, context);
            }
        }
        Some(circuit)
    }

    fn seed_channel(&mut self, time: u64, (cid, sid): (u32, u32), pv: &str, context: &mut Context) {
        let known = self.by_sid.get(&sid).and_then(|id| self.channels.get(id)).cloned();
        match known {
            // seen in packets without its name
            Some(channel) if channel.pv.is_empty() => {
                let free = !self.by_cid.contains_key(&cid);
                let cid = channel.cid.or(free.then_some(cid));
                let named = Channel { cid, pv: pv.to_owned(), origin: Origin::Memory, ..channel };
                self.replace(time, named, context);
            }
            Some(_) => {}
            // waits for the server's answer, which packets will show
            None if self.by_cid.contains_key(&cid) => {}
            None => _ = self.add(time, Some(cid), Some(sid), pv.to_owned(), Origin::Memory, context),
        }
    }

    /// Whether memory has shown the channel that the client is seen to ask for: it was read before its packets.
    pub(super) fn is_seeded(&self, cid: u32, pv: &str) -> bool {
        let known = self.by_cid.get(&cid).and_then(|id| self.channels.get(id));
        known.is_some_and(|channel| channel.origin == Origin::Memory && channel.pv == pv)
    }
}
