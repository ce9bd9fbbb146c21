//! Channel Access beside puts, counted by circuit and channel: messages and bytes, slow clients, echoes without answer,
//! errors, rights, priorities.
//!
//! What is unusual is noted within a second, the rest once a minute for the busiest circuits and channels; the others
//! are counted on until it is their turn. Each table is bounded.

use std::collections::{BTreeMap, HashMap};

use iocrec_log::event::{
    AccessRights, Address, CaError, ChannelId, ChannelTraffic, CircuitId, CircuitPriority, CircuitTraffic,
    ClientStalled, EchoLate, Event, EventsOff, Fact, Message,
};

use crate::ca::channels::Channels;
use crate::ca::datagrams::FACTS;
use crate::ca::message::{
    self, Header, ACCESS_RIGHTS, CLEAR_CHANNEL, CREATE_CHAN, CREATE_CH_FAIL, ECHO, ERROR, EVENTS_OFF,
    EVENTS_ON, EVENT_ADD, EVENT_CANCEL, NOT_FOUND, READ, READ_NOTIFY, SEARCH, SERVER_DISCONN, VERSION, WRITE,
    WRITE_NOTIFY,
};

use crate::net::protocol::Side;
use crate::net::udp::searches::{self, Answer, Asking, Searches};
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;
/// Time between two notes of what is usual.
const NOTE: u64 = 60 * SECOND;
/// Circuits and channels noted then: the busiest. A note takes some 15 bytes of the log.
const NOTED: usize = 100;
/// A circuit that was open for less is not worth a note.
const BRIEF: u64 = SECOND;
/// Time after which libca calls a server unresponsive that does not answer an ECHO (CA_ECHO_TIMEOUT).
const PATIENCE: u64 = 5 * SECOND;
/// Circuits, channels, and subscriptions of one circuit that are counted. A channel takes some 100 bytes, and only those
/// with gets and new subscriptions are counted.
const MAX_CIRCUITS: usize = 2048;
const MAX_CHANNELS: usize = 4096;
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Time from which on a client's closed window is noted, and between further notes. A closed window is said again only
/// when the server tries to send more.
const STALL: u64 = SECOND;
const STALL_NOTES: u64 = 30 * SECOND;
/// Kinds of errors of one circuit; channels of one circuit with restricted rights; bytes of an error's text.
const MAX_ERRORS: usize = 8;
const MAX_RESTRICTED: usize = 4096;
const MAX_TEXT: usize = 200;
/// Kinds of messages.
const KINDS: usize = 18;

/// What a client's EVENTS_OFF and EVENTS_ON come to.
#[derive(Debug, Default)]
struct Off {
    times: u32,
    off: u64,
    /// Since when updates are off.
    began: Option<u64>,
    since: u64,
    noted: u64,
}

#[derive(Debug)]
struct Errors {
    channel: Option<ChannelId>,
    command: u16,
    status: u32,
    count: u32,
    since: u64,
    text: String,
}

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

/// A circuit.
#[derive(Debug)]
struct Circuit {
    opened: u64,
    since: u64,
    noted: u64,
    /// Bytes from the client and from the server, and of the latter those that were not looked at.
    from_client: u64,
    from_server: u64,
    not_looked_at: u64,
    messages: [u32; KINDS],
    off: Option<Box<Off>>,
    /// When the ECHO was sent that has no answer yet, and whether that was noted.
    echo: Option<(u64, bool)>,
    errors: Vec<Errors>,
    priority: u16,
    /// Channels whose clients may not both read and write.
    restricted: BTreeMap<ChannelId, u16>,
    /// The channels of subscriptions, by the client's numbers.
    subscriptions: HashMap<u32, ChannelId>,
    /// The client's closed window.
    stall: Option<Stall>,
    /// Whether nothing the server sent was left unread so far.
    complete: bool,
}

/// A client's window that is closed.
#[derive(Clone, Copy, Debug)]
struct Stall {
    since: u64,
    /// When it was last seen closed.
    last: u64,
    /// Time of the last note; 0: none yet.
    noted: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    circuit: CircuitId,
    since: u64,
    gets: u32,
    subscriptions: u32,
    updates: u64,
    bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Traffic {
    circuits: HashMap<CircuitId, Circuit>,
    channels: HashMap<ChannelId, Channel>,
    /// Searches on circuits to name servers.
    searches: Searches,
    noted: u64,
    checked: u64,
}

impl Default for Traffic {
    fn default() -> Traffic {
        let searches = Searches::new(searches::Limits::default(), FACTS);
        Traffic { circuits: HashMap::new(), channels: HashMap::new(), searches, noted: 0, checked: 0 }
    }
}

impl Circuit {
    fn new(time: u64) -> Circuit {
        Circuit {
            opened: time,
            since: time,
            noted: time,
            from_client: 0,
            from_server: 0,
            not_looked_at: 0,
            messages: [0; KINDS],
            off: None,
            echo: None,
            errors: Vec::new(),
            priority: 0,
            restricted: BTreeMap::new(),
            subscriptions: HashMap::new(),
            stall: None,
            complete: true,
        }
    }

    /// The client's window is closed, or open again.
    fn window(&mut self, id: CircuitId, time: u64, is_closed: bool, out: &mut Vec<Event>) {
        let stall = match (&mut self.stall, is_closed) {
            (None, false) => return,
            (stall @ None, true) => {
                *stall = Some(Stall { since: time, last: time, noted: 0 });
                return;
            }
            (Some(stall), _) => stall,
        };
        if is_closed {
            stall.last = stall.last.max(time);
        }
        let lasts = stall.last.saturating_sub(stall.since) >= STALL;
        let is_due = stall.noted == 0 || time.saturating_sub(stall.noted) >= STALL_NOTES;
        if lasts && (is_due || !is_closed) {
            stall.noted = time;
            let Stall { since, last, .. } = *stall;
            let until = if is_closed { last } else { time };
            let fact = ClientStalled { circuit: id, since, until, is_over: !is_closed };
            out.push(Event { time, fact: Fact::ClientStalled(fact) });
        }
        if !is_closed {
            self.stall = None;
        }
    }

    fn count(&mut self, message: Message) {
        if let Some(count) = self.messages.get_mut(message as usize) {
            *count = count.saturating_add(1);
        }
    }

    fn all_bytes(&self) -> u64 {
        self.from_client.saturating_add(self.from_server)
    }

    fn is_worth_noting(&self) -> bool {
        self.all_bytes() > 0
    }

    fn note(&mut self, id: CircuitId, now: u64, out: &mut Vec<Event>) {
        let counts = std::mem::replace(&mut self.messages, [0; KINDS]);
        let messages = MESSAGES.iter().zip(counts).filter(|(_, count)| *count > 0);
        let traffic = CircuitTraffic {
            circuit: id,
            since: self.since,
            from_client: std::mem::take(&mut self.from_client),
            from_server: std::mem::take(&mut self.from_server),
            messages: messages.map(|(message, count)| (*message, count)).collect(),
            not_looked_at: std::mem::take(&mut self.not_looked_at),
        };
        (self.since, self.noted) = (now, now);
        out.push(Event { time: now, fact: Fact::from(traffic) });
    }

    /// Notes what must not wait for long; everything if it `is_over`.
    fn note_unusual(&mut self, id: CircuitId, now: u64, is_over: bool, out: &mut Vec<Event>) {
        for error in self.errors.iter_mut().filter(|error| error.count > 0) {
            let error = CaError {
                circuit: id,
                channel: error.channel,
                command: error.command,
                status: error.status,
                count: std::mem::take(&mut error.count),
                since: error.since,
                text: error.text.clone(),
            };
            out.push(Event { time: now, fact: Fact::CaError(error) });
        }
        if let Some((since, is_noted)) = &mut self.echo {
            if !*is_noted && now.saturating_sub(*since) >= PATIENCE {
                *is_noted = true;
                let late = EchoLate { circuit: id, since: *since, is_answered: false };
                out.push(Event { time: now, fact: Fact::EchoLate(late) });
            }
        }
        if let Some(off) = &mut self.off {
            // at once when it begins and when it ends, and then ever more seldom
            let is_over_now = off.began.is_none() && off.off > 0;
            let is_quiet = now.saturating_sub(off.noted) >= SECOND;
            let pause = if off.noted == 0 || is_over_now && is_quiet { 0 } else { 10 * SECOND };
            let is_due = off.times > 0 || off.began.is_some() || off.off > 0;
            if is_due && (is_over || now.saturating_sub(off.noted) >= pause) {
                if let Some(began) = &mut off.began {
                    off.off = off.off.saturating_add(now.saturating_sub(*began));
                    *began = now;
                }
                let note = EventsOff {
                    circuit: id,
                    since: off.since,
                    times: std::mem::take(&mut off.times),
                    off: std::mem::take(&mut off.off),
                    is_off: off.began.is_some(),
                };
                (off.since, off.noted) = (now, now);
                out.push(Event { time: now, fact: Fact::EventsOff(note) });
            }
        }
    }
}

/// All kinds of messages, in the order of their numbers.
const MESSAGES: [Message; KINDS] = [
    Message::Subscribe,
    Message::Unsubscribe,
    Message::Update,
    Message::Get,
    Message::GetAnswer,
    Message::Put,
    Message::EventsOff,
    Message::EventsOn,
    Message::Error,
    Message::Clear,
    Message::Create,
    Message::CreateFailed,
    Message::Disconnect,
    Message::Echo,
    Message::EchoAnswer,
    Message::Search,
    Message::NotFound,
    Message::Other,
];

impl Traffic {
    /// Counts bytes that a side of a circuit sent. `looked_at`: whether they are here.
    pub fn bytes(&mut self, circuit: CircuitId, time: u64, side: Side, count: u64, looked_at: bool) {
        let Some(circuit) = self.circuit(circuit, time) else { return };
        let bytes = match side {
            Side::Client => &mut circuit.from_client,
            Side::Server => &mut circuit.from_server,
        };
        *bytes = bytes.saturating_add(count);
        if !looked_at && side == Side::Server {
            circuit.not_looked_at = circuit.not_looked_at.saturating_add(count);
            circuit.complete = false;
        }
    }

    /// Takes a message from a client.
    pub fn request(
        &mut self,
        id: CircuitId,
        end: &End,
        (time, header, payload): (u64, &Header, &[u8]),
        channels: &Channels,
        out: &mut Vec<Event>,
    ) {
        if header.command == SEARCH {
            let asking = Asking { client: end.client, tcp: true, cid: header.p1 };
            let name = payload.get(..message::text_length(payload)).unwrap_or_default();
            self.searches.request(end.namespace, asking, name, time);
        }
        let channel = |sid| channels.by_sid(id, sid).and_then(|place| channels.id(place));
        let Some(circuit) = self.circuit(id, time) else { return };
        let mut used = None;
        let message = match header.command {
            EVENT_ADD => {
                used = channel(header.p1);
                if let Some(used) = used.filter(|_| circuit.subscriptions.len() < MAX_SUBSCRIPTIONS) {
                    circuit.subscriptions.insert(header.p2, used);
                }
                Message::Subscribe
            }
            EVENT_CANCEL => {
                circuit.subscriptions.remove(&header.p2);
                Message::Unsubscribe
            }
            READ | READ_NOTIFY => {
                used = channel(header.p1);
                Message::Get
            }
            WRITE | WRITE_NOTIFY => Message::Put,
            EVENTS_OFF => {
                let off = circuit.off.get_or_insert_with(|| Box::new(Off { since: time, ..Off::default() }));
                if off.began.is_none() {
                    off.times = off.times.saturating_add(1);
                    off.began = Some(time);
                }
                Message::EventsOff
            }
            EVENTS_ON => {
                if let Some(off) = &mut circuit.off {
                    let began = off.began.take();
                    off.off = off.off.saturating_add(began.map_or(0, |began| time.saturating_sub(began)));
                }
                Message::EventsOn
            }
            CLEAR_CHANNEL => Message::Clear,
            CREATE_CHAN => Message::Create,
            ECHO => {
                // the first that has no answer counts
                circuit.echo.get_or_insert((time, false));
                Message::Echo
            }
            SEARCH => Message::Search,
            VERSION => {
                let priority = header.dbr;
                if (1..100).contains(&priority) && circuit.priority != priority {
                    circuit.priority = priority;
                    let fact = Fact::CircuitPriority(CircuitPriority { circuit: id, priority });
                    out.push(Event { time, fact });
                }
                Message::Other
            }
            _ => Message::Other,
        };
        circuit.count(message);
        if let Some(used) = used {
            if let Some(channel) = self.channel(used, id, time) {
                let count = match message {
                    Message::Get => &mut channel.gets,
                    _ => &mut channel.subscriptions,
                };
                *count = count.saturating_add(1);
            }
        }
    }

    /// Takes a message from a server.
    pub fn answer(
        &mut self,
        id: CircuitId,
        end: &End,
        (time, header, payload): (u64, &Header, &[u8]),
        channels: &Channels,
        out: &mut Vec<Event>,
    ) {
        if matches!(header.command, SEARCH | NOT_FOUND) {
            let is_there = header.command == SEARCH;
            let cid = if is_there { header.p2 } else { header.p1 };
            let ip = if header.p1 == u32::MAX { end.server.ip } else { header.p1 };
            let server = is_there.then_some(Address { ip, port: header.dbr });
            let asking = Asking { client: end.client, tcp: true, cid };
            let answer = server.map(|server| Answer { server, guid: None });
            self.searches.answer(end.namespace, asking, answer, time);
        }
        let by_cid = |cid| channels.by_cid(id, cid).and_then(|place| channels.id(place));
        let by_sid = |sid| channels.by_sid(id, sid).and_then(|place| channels.id(place));
        let Some(circuit) = self.circuit(id, time) else { return };
        let mut updated = None;
        let message = match header.command {
            // without a payload it ends a subscription
            EVENT_ADD if header.size > 0 => {
                updated = circuit.subscriptions.get(&header.p2).copied();
                Message::Update
            }
            READ | READ_NOTIFY => Message::GetAnswer,
            ERROR => {
                if let Some(request) = Header::parse(payload) {
                    if !matches!(request.command, WRITE | WRITE_NOTIFY) {
                        let channel = by_sid(request.p1).or_else(|| by_cid(header.p1));
                        circuit.error(time, &request, header.p2, channel, payload);
                    }
                }
                Message::Error
            }
            CREATE_CH_FAIL => Message::CreateFailed,
            SERVER_DISCONN => Message::Disconnect,
            NOT_FOUND => Message::NotFound,
            ACCESS_RIGHTS => {
                if let Some(channel) = by_cid(header.p1) {
                    circuit.rights(id, time, channel, header.p2, out);
                }
                Message::Other
            }
            ECHO => {
                if let Some((since, true)) = circuit.echo.take() {
                    let fact = Fact::EchoLate(EchoLate { circuit: id, since, is_answered: true });
                    out.push(Event { time, fact });
                }
                Message::EchoAnswer
            }
            _ => Message::Other,
        };
        circuit.count(message);
        if let Some(channel) = updated.and_then(|channel| self.channel(channel, id, time)) {
            channel.updates = channel.updates.saturating_add(1);
            let bytes = u64::from(header.size).saturating_add(header.bytes() as u64);
            channel.bytes = channel.bytes.saturating_add(bytes);
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
        let Some(mut circuit) = self.circuits.remove(&id) else { return };
        circuit.window(id, time, false, out);
        circuit.note_unusual(id, time, true, out);
        if circuit.is_worth_noting() && time.saturating_sub(circuit.opened) >= BRIEF {
            circuit.note(id, time, out);
        }
        self.channels.retain(|_, channel| channel.circuit != id);
    }

    /// Notes what is due. Call it some times a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Event>) {
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
        let mut busy: Vec<(u64, ChannelId)> = self
            .channels
            .iter()
            .map(|(id, channel)| (channel.updates + u64::from(channel.gets), *id))
            .collect();
        busy.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in busy.into_iter().take(most.min(NOTED)) {
            let Some(channel) = self.channels.remove(&id) else { continue };
            let Channel { since, gets, subscriptions, updates, bytes, circuit } = channel;
            let complete = self.circuits.get(&circuit).is_some_and(|circuit| circuit.complete);
            let traffic =
                ChannelTraffic { channel: id, since, gets, subscriptions, updates, bytes, complete };
            out.push(Event { time: now, fact: Fact::ChannelTraffic(traffic) });
        }
        self.circuits.values_mut().for_each(|circuit| circuit.complete = true);
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

impl Circuit {
    fn error(
        &mut self,
        time: u64,
        request: &Header,
        status: u32,
        channel: Option<ChannelId>,
        payload: &[u8],
    ) {
        let same = |error: &&mut Errors| {
            error.command == request.command && error.status == status && error.channel == channel
        };
        let has_room = self.errors.len() < MAX_ERRORS;
        match self.errors.iter_mut().find(same) {
            Some(error) => {
                if error.count == 0 {
                    error.since = time;
                }
                error.count = error.count.saturating_add(1);
            }
            None if has_room => {
                let text = payload.get(request.bytes()..).unwrap_or_default();
                let text = message::text(text.get(..MAX_TEXT.min(text.len())).unwrap_or_default());
                let command = request.command;
                self.errors.push(Errors { channel, command, status, count: 1, since: time, text });
            }
            // still counted as messages
            None => {}
        }
    }

    fn rights(&mut self, id: CircuitId, time: u64, channel: ChannelId, rights: u32, out: &mut Vec<Event>) {
        let rights = u16::try_from(rights & 3).unwrap_or(3);
        let before = self.restricted.get(&channel).copied().unwrap_or(3);
        if rights == before || self.restricted.len() >= MAX_RESTRICTED {
            return;
        }
        if rights == 3 {
            self.restricted.remove(&channel);
        } else {
            self.restricted.insert(channel, rights);
        }
        let fact = Fact::AccessRights(AccessRights { channel, circuit: id, rights });
        out.push(Event { time, fact });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_numbers() {
        for (number, message) in MESSAGES.iter().enumerate() {
            assert_eq!(*message as usize, number);
        }
    }
}
