//! Channel Access beside puts, counted by circuit and channel: messages and bytes, slow clients, echoes without answer,
//! errors, rights, priorities.
//!
//! What is unusual is noted within a second, the rest once a minute for the busiest circuits and channels; the others
//! are counted on until it is their turn. Each table is bounded.

mod circuit;
mod counted;
mod messages;
mod sent;
mod stall;

use iocrec_log::event::{Address, ChannelId, ChannelTraffic, CircuitId, EchoLate, Event, Fact};

use crate::ca::channels::Channels;
use crate::ca::datagrams::FACTS;
use crate::keyed::KeyedMap;

use crate::net::protocol::Side;
use crate::net::udp::searches::{self, Searches};
use crate::net::Namespace;

use circuit::Circuit;
use counted::{Ended, Filtered, Source};

const SECOND: u64 = 1_000_000_000;
/// Time between two notes of what is usual.
const NOTE: u64 = 60 * SECOND;
/// Circuits and channels noted then: the busiest. A note takes some 15 bytes of the log.
const NOTED: usize = 100;
/// A circuit that was open for less is not worth a note; nor are its channels, if it was open for less than that.
const BRIEF: u64 = SECOND;
const LONG: u64 = 5 * SECOND;
/// Channels noted when their circuit ends.
const NOTED_AT_END: usize = 20;
/// Circuits and channels that are counted: all circuits that are kept, which take some 400 bytes each. A channel takes some
/// 100 bytes, and only those with gets, updates and new subscriptions are counted.
const MAX_CIRCUITS: usize = 4096;
const MAX_CHANNELS: usize = 4096;
/// Subscriptions of all circuits whose updates are counted. One takes some 50 bytes. A circuit has no more than it leaves to
/// the others.
const MAX_SUBSCRIPTIONS: usize = 8192;

/// The ends of a circuit, and the namespace in which it was captured.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The namespace.
    pub namespace: Namespace,
    /// The client's address.
    pub client: Address,
    /// The server's address.
    pub server: Address,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    circuit: CircuitId,
    since: u64,
    gets: u32,
    subscriptions: u32,
    updates: u64,
    bytes: u64,
    /// Updates that were counted where they were left out, those that were not included.
    filtered: Option<Filtered>,
}

/// See the module.
#[derive(Debug)]
pub struct Traffic {
    circuits: KeyedMap<CircuitId, Circuit>,
    channels: KeyedMap<ChannelId, Channel>,
    /// Subscriptions of all circuits that are counted.
    subscriptions: usize,
    /// Subscriptions for which there was no room, not yet reported.
    pub uncounted: u64,
    /// Counts of updates, by namespace.
    sources: Vec<Source>,
    /// Searches on circuits to name servers.
    searches: Searches,
    noted: u64,
    checked: u64,
}

impl Default for Traffic {
    fn default() -> Traffic {
        let searches = Searches::new(searches::Limits::default(), FACTS);
        Traffic {
            circuits: KeyedMap::default(),
            channels: KeyedMap::default(),
            subscriptions: 0,
            uncounted: 0,
            sources: Vec::new(),
            searches,
            noted: 0,
            checked: 0,
        }
    }
}

impl Traffic {
    /// Counts bytes that a side of a circuit sent. `looked_at`: whether they are here.
    pub fn bytes(&mut self, circuit: CircuitId, time: u64, side: Side, count: u64, looked_at: bool) {
        let Some(circuit) = self.circuit(circuit, time) else { return };
        match side {
            Side::Client => circuit.from_client = circuit.from_client.saturating_add(count),
            Side::Server => {
                circuit.sent.bytes(count, looked_at);
                circuit.complete &= looked_at;
            }
        }
    }

    /// Bytes of the server were not captured: an answer to an ECHO may be among them, and it is not certain from which
    /// message on the server is understood again.
    pub fn unseen(&mut self, id: CircuitId, time: u64, out: &mut Vec<Event>) {
        let Some(circuit) = self.circuits.get_mut(&id) else { return };
        circuit.is_heard = false;
        if let Some((since, true)) = circuit.echo.take() {
            let fact = EchoLate { circuit: id, since, is_answered: true };
            out.push(Event { time, fact: Fact::EchoLate(fact) });
        }
    }

    /// A client's window is closed, or open again.
    pub fn window(&mut self, id: CircuitId, time: u64, is_closed: bool, out: &mut Vec<Event>) {
        if let Some(circuit) = self.circuit(id, time) {
            circuit.window(id, time, is_closed, out);
        }
    }

    /// A circuit is over.
    pub fn end(&mut self, id: CircuitId, time: u64, out: &mut Vec<Event>) {
        self.take_counts(id, Some(Ended::Circuit));
        let is_long = |circuit: &Circuit| time.saturating_sub(circuit.opened) >= LONG;
        if self.circuits.get(&id).is_some_and(|circuit| circuit.has_channels && is_long(circuit)) {
            self.note_channels(time, NOTED_AT_END, Some(id), out);
        }
        let Some(mut circuit) = self.circuits.remove(&id) else { return };
        self.subscriptions = self.subscriptions.saturating_sub(circuit.subscriptions.len());
        circuit.window(id, time, false, out);
        circuit.note_unusual(id, time, true, out);
        if circuit.is_worth_noting() && time.saturating_sub(circuit.opened) >= BRIEF {
            circuit.note(id, time, out);
        }
        // the circuits of scripts, which only put, end many times a second beside an archiver's thousands of channels
        if circuit.has_channels {
            self.channels.retain(|_, channel| channel.circuit != id);
        }
    }

    /// Notes what is due. Call it some times a second. `channels`: those that are open.
    pub fn tick(&mut self, now: u64, channels: &Channels, out: &mut Vec<Event>) {
        if now.saturating_sub(self.checked) < SECOND {
            return;
        }
        self.checked = now;
        self.searches.second(now, out);
        for (id, circuit) in &mut self.circuits {
            circuit.note_unusual(*id, now, false, out);
        }
        if now.saturating_sub(self.noted) >= NOTE {
            self.noted = now;
            self.note(now, NOTED, out);
            self.forget_ended(channels);
        }
    }

    /// Forgets subscriptions of channels that have ended: not all clients cancel them, and servers that end channels don't.
    fn forget_ended(&mut self, channels: &Channels) {
        self.subscriptions = 0;
        for (id, circuit) in &mut self.circuits {
            let number = |sid| channels.by_sid(*id, sid).and_then(|place| channels.id(place));
            circuit.subscriptions.retain(|_, of| number(of.sid) == Some(of.channel));
            self.subscriptions += circuit.subscriptions.len();
        }
    }

    /// Notes everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        for (id, circuit) in &mut self.circuits {
            circuit.note_unusual(*id, now, true, out);
        }
        self.note(now, usize::MAX, out);
        self.searches.finish(now, out);
    }

    fn note(&mut self, now: u64, most: usize, out: &mut Vec<Event>) {
        let subscribed: Vec<CircuitId> =
            self.circuits.iter().filter(|(_, circuit)| circuit.place.is_some()).map(|(id, _)| *id).collect();
        subscribed.into_iter().for_each(|id| self.take_counts(id, None));
        self.sweep_counts();
        // The busiest, and those first that have waited for longest.
        let waited = |since: u64| now.saturating_sub(since) / NOTE;
        let mut busy: Vec<(u64, u64, CircuitId)> = self
            .circuits
            .iter()
            .filter(|(_, circuit)| circuit.is_worth_noting())
            .map(|(id, circuit)| (waited(circuit.noted), circuit.all_bytes(), *id))
            .collect();
        busy.sort_unstable_by(|a, b| b.cmp(a));
        for (_, _, id) in busy.into_iter().take(most) {
            if let Some(circuit) = self.circuits.get_mut(&id) {
                circuit.note(id, now, out);
            }
        }
        self.note_channels(now, most.min(NOTED), None, out);
        self.circuits.values_mut().for_each(|circuit| circuit.complete = true);
    }

    /// Notes the busiest channels, of all circuits or of one.
    fn note_channels(&mut self, now: u64, most: usize, of: Option<CircuitId>, out: &mut Vec<Event>) {
        let is_wanted = |channel: &Channel| of.is_none_or(|of| of == channel.circuit);
        let is_busy = |channel: &Channel| {
            let counted = channel.filtered.map_or(0, |filtered| filtered.updates);
            counted.max(channel.updates) + u64::from(channel.gets)
        };
        let wanted = self.channels.iter().filter(|(_, channel)| is_wanted(channel));
        let mut busy: Vec<(u64, ChannelId)> = wanted.map(|(id, channel)| (is_busy(channel), *id)).collect();
        busy.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in busy.into_iter().take(most) {
            let Some(channel) = self.channels.remove(&id) else { continue };
            let Channel { since, gets, subscriptions, updates, bytes, circuit, filtered } = channel;
            let seen = self.circuits.get(&circuit).is_some_and(|circuit| circuit.complete);
            // those that passed are among them
            let (updates, bytes, complete) = filtered.map_or((updates, bytes, seen), |filtered| {
                (filtered.updates, filtered.bytes, filtered.whole)
            });
            let traffic =
                ChannelTraffic { channel: id, since, gets, subscriptions, updates, bytes, complete };
            out.push(Event { time: now, fact: Fact::ChannelTraffic(traffic) });
        }
    }

    fn circuit(&mut self, id: CircuitId, time: u64) -> Option<&mut Circuit> {
        if self.circuits.len() >= MAX_CIRCUITS && !self.circuits.contains_key(&id) {
            return None;
        }
        Some(self.circuits.entry(id).or_insert_with(|| Circuit::new(time)))
    }

    fn channel(&mut self, id: ChannelId, circuit: CircuitId, time: u64) -> Option<&mut Channel> {
        if self.channels.len() >= MAX_CHANNELS && !self.channels.contains_key(&id) {
            return None;
        }
        Some(self.channels.entry(id).or_insert(Channel { circuit, since: time, ..Channel::default() }))
    }
}
