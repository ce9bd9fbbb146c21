//! The state of one circuit: the client's claimed identity, and the circuit's channels.
//!
//! Takes the messages of both directions, each direction in order, and turns them into facts. CIDs and SIDs belong to
//! the circuit and are reused; channel numbers ([`ChannelId`]) are not.

use crate::ca::message::{
    self, Header, CLEAR_CHANNEL, CLIENT_NAME, CREATE_CHAN, CREATE_CH_FAIL, ERROR, HOST_NAME, LONGEST_NAME,
    SERVER_DISCONN, VERSION, WRITE, WRITE_NOTIFY,
};
use crate::net::circuit::Circuit;
use crate::net::protocol::Ends;
use crate::owed::Owed;
use iocrec_log::event::{
    CaAnswer, CaPut, Channel, ChannelClosed, ChannelId, ChannelReason, CircuitId, Event, Fact, Origin,
};

use crate::ca::channels::{Channels, Place};

/// A channel as read from the memory of a server or client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedChannel {
    /// The client's id, where known.
    pub cid: Option<u32>,
    /// The server's id.
    pub sid: u32,
    /// The PV, as named by the client.
    pub pv: String,
    /// Native DBR type, where known.
    pub dbr: Option<u16>,
    /// Native element count, where known.
    pub count: Option<u32>,
}

/// What all circuits share: their numbers, from 1 on, and their channels.
#[derive(Debug)]
pub struct Shared {
    /// The last number given out.
    pub circuit: CircuitId,
    /// The open channels.
    pub channels: Channels,
    /// Whether to note how channels end.
    pub notes_ends: bool,
}

/// The state of one circuit. See the module.
#[derive(Debug)]
pub struct Session {
    /// Its ends, and the client's identity.
    pub circuit: Circuit,
    /// Time of the last reading of channels from memory; packets from before may repeat the same.
    seeded: u64,
    /// A name that counts if there is no channel yet.
    claim: Option<Box<Claim>>,
    /// Answers to requests for channels, by the client's numbers.
    owed: Owed,
    /// Number of the last put with callback.
    notified: Option<u32>,
    /// Number of one whose answer may be that to another put.
    doubtful: Option<u32>,
}

/// A name that the client gave while its requests for channels were not answered: it counts if all are refused.
#[derive(Debug)]
struct Claim {
    user: Option<String>,
    host: Option<String>,
    /// Channels that were not refused yet, and the last one's number.
    left: usize,
    last: ChannelId,
}

impl Session {
    /// A session of which only the ends are known.
    pub fn new(ends: &Ends, reports_ends: bool) -> Session {
        Session {
            circuit: Circuit::new(ends, reports_ends),
            seeded: 0,
            claim: None,
            owed: Owed::default(),
            notified: None,
            doubtful: None,
        }
    }

    /// The last put may have come twice, with other bytes: which of them is answered is not known.
    pub fn doubt(&mut self) {
        self.doubtful = self.notified;
    }

    /// The circuit was closed.
    pub fn end(&mut self, time: u64, shared: &mut Shared, out: &mut Vec<Event>) {
        self.leave(time, Fact::CircuitEnd, shared, out);
    }

    /// The circuit is forgotten, though it is open.
    pub fn forget(&mut self, time: u64, shared: &mut Shared, out: &mut Vec<Event>) {
        self.leave(time, Fact::CircuitForgotten, shared, out);
    }

    fn leave(&mut self, time: u64, fact: fn(CircuitId) -> Fact, shared: &mut Shared, out: &mut Vec<Event>) {
        if let Some(id) = self.circuit.id() {
            shared.channels.end(id);
        }
        self.circuit.end(time, fact, out);
        self.seeded = 0;
        self.claim = None;
        self.owed = Owed::default();
    }

    /// Takes a name of the client, its user or its host. Servers ignore them once there are channels.
    fn claim(&mut self, time: u64, user: Option<String>, host: Option<String>, context: &mut Context) {
        // whether all channels are gone is not known then
        let [user, host] =
            [user, host].map(|name| name.map(|name| if self.owed.is_full { String::new() } else { name }));
        let channels = &context.shared.channels;
        let left = self.circuit.id().map_or(0, |id| channels.count(id));
        let last = channels.last_id();
        let before = self.claim.take().filter(|_| left > 0);
        if left == 0 || self.owed.is_full {
            self.identity(time, user, host, 0, context.out);
            return;
        }
        // memory was read later than this came: the channels may be later, too
        if time <= self.seeded {
            let other = |new: Option<String>, old: &str| new.filter(|new| new != old).map(|_| String::new());
            let (user, host) = (other(user, &self.circuit.user), other(host, &self.circuit.host));
            self.identity(time, user, host, 0, context.out);
            return;
        }
        let (old_user, old_host) = before.map_or((None, None), |before| (before.user, before.host));
        let (user, host) = (user.or(old_user), host.or(old_host));
        self.claim = Some(Box::new(Claim { user, host, left, last }));
    }

    /// A channel has been made, or refused.
    fn settle_claim(&mut self, time: u64, cid: u32, is_refused: bool, context: &mut Context) {
        let channels = &context.shared.channels;
        let place = self.circuit.id().and_then(|circuit| channels.by_cid(circuit, cid));
        let id = place.and_then(|place| channels.id(place));
        let Some(mut claim) = self.claim.take_if(|claim| id.is_some_and(|id| id <= claim.last)) else {
            return;
        };
        claim.left -= 1;
        if !is_refused && self.owed.has(cid) {
            // the one that was made may have been asked for after the name
            let unknown = |name: Option<String>| name.map(|_| String::new());
            self.identity(time, unknown(claim.user), unknown(claim.host), 0, context.out);
        } else if is_refused && claim.left == 0 {
            self.identity(time, claim.user, claim.host, 0, context.out);
        } else if is_refused {
            self.claim = Some(claim);
        }
    }

    /// Takes a message from the client.
    pub fn request(&mut self, time: u64, header: &Header, payload: &[u8], context: &mut Context) {
        let circuit = self.number(time, context);
        match header.command {
            VERSION if header.count > 0 => {
                let minor = u16::try_from(header.count).unwrap_or(u16::MAX);
                self.identity(time, None, None, minor, context.out);
            }
            CLIENT_NAME if is_name(header, payload) => {
                self.claim(time, Some(message::text(payload)), None, context);
            }
            HOST_NAME if is_name(header, payload) => {
                self.claim(time, None, Some(message::text(payload)), context);
            }
            CREATE_CHAN => {
                if self.circuit.minor == 0 {
                    let minor = u16::try_from(header.p2).unwrap_or(0);
                    self.identity(time, None, None, minor, context.out);
                }
                self.create(time, header.p1, message::text(message::name(header, payload)), context);
            }
            CLEAR_CHANNEL => {
                let (sid, cid) = (header.p1, header.p2);
                let channels = &context.shared.channels;
                // servers go by their own number alone; the answer that tells it may not be seen yet
                let waits = |place: &Place| channels.get(*place).is_some_and(|c| c.sid.is_none());
                let found = channels.by_sid(circuit, sid);
                if let Some(place) = found.or_else(|| channels.by_cid(circuit, cid).filter(waits)) {
                    self.close(time, place, ChannelReason::Cleared, context);
                }
            }
            WRITE | WRITE_NOTIFY => {
                if header.command == WRITE_NOTIFY {
                    self.notified = Some(header.p2);
                }
                let channel = self.channel_of(time, circuit, header.p1, context);
                context.emit(
                    time,
                    Fact::CaPut(CaPut {
                        circuit,
                        channel,
                        notify: header.command == WRITE_NOTIFY,
                        dbr: header.dbr,
                        count: header.count,
                        ioid: header.p2,
                        length: header.size,
                        payload: payload.to_vec(),
                    }),
                );
            }
            _ => {}
        }
    }

    /// Takes a message from the server.
    pub fn answer(&mut self, time: u64, header: &Header, payload: &[u8], context: &mut Context) {
        let circuit = self.number(time, context);
        match header.command {
            CREATE_CHAN => {
                self.settle_claim(time, header.p1, false, context);
                self.created(time, header, context);
            }
            CREATE_CH_FAIL => {
                // those that were refused before the last of several change nothing yet
                self.owed.take(header.p1);
                if self.owed.has(header.p1) {
                    return;
                }
                self.settle_claim(time, header.p1, true, context);
                if let Some(place) = context.shared.channels.by_cid(circuit, header.p1) {
                    context.close(time, place, ChannelReason::Refused);
                }
            }
            SERVER_DISCONN => {
                self.settle_claim(time, header.p1, false, context);
                if let Some(place) = context.shared.channels.by_cid(circuit, header.p1) {
                    self.close(time, place, ChannelReason::Disconnected, context);
                }
            }
            // The request has closed it already, unless the request was not seen. The ids may be in use again by now,
            // but not both for one channel.
            CLEAR_CHANNEL => {
                let channels = &context.shared.channels;
                let by_sid = channels.by_sid(circuit, header.p1);
                if let Some(place) = by_sid.filter(|_| by_sid == channels.by_cid(circuit, header.p2)) {
                    context.close(time, place, ChannelReason::Cleared);
                }
            }
            WRITE_NOTIFY if self.doubtful.take_if(|number| *number == header.p2).is_some() => {}
            WRITE_NOTIFY => context.emit(
                time,
                Fact::CaAnswer(CaAnswer {
                    circuit,
                    ioid: header.p2,
                    notify: true,
                    status: header.p1,
                    text: String::new(),
                }),
            ),
            ERROR => {
                let Some(request) = Header::parse(payload) else { return };
                if matches!(request.command, WRITE | WRITE_NOTIFY) {
                    let text = payload.get(request.bytes()..).unwrap_or_default();
                    context.emit(
                        time,
                        Fact::CaAnswer(CaAnswer {
                            circuit,
                            ioid: request.p2,
                            notify: request.command == WRITE_NOTIFY,
                            status: header.p2,
                            text: message::text(text),
                        }),
                    );
                }
            }
            _ => {}
        }
    }

    /// Adds the state read from a process's memory.
    pub fn seed(
        &mut self,
        time: u64,
        (user, host, minor): (&str, &str, u16),
        channels: &[SeedChannel],
        context: &mut Context,
    ) -> CircuitId {
        self.seeded = self.seeded.max(time).max(1);
        let known = self.circuit.id().is_some();
        let or_none = |new: &str, old: &str| (old.is_empty() && !new.is_empty()).then(|| new.to_owned());
        let (user, host) = (or_none(user, &self.circuit.user), or_none(host, &self.circuit.host));
        let minor = if self.circuit.minor == 0 { minor } else { 0 };
        if known {
            self.identity(time, user, host, minor, context.out);
        } else {
            // Everything in one event.
            self.circuit.user = user.unwrap_or_default();
            self.circuit.host = host.unwrap_or_default();
            self.circuit.minor = minor;
        }
        let circuit = self.number(time, context);
        for seed in channels {
            self.seed_channel(time, circuit, seed, context);
        }
        circuit
    }

    fn seed_channel(&self, time: u64, circuit: CircuitId, seed: &SeedChannel, context: &mut Context) {
        let channels = &context.shared.channels;
        let by_sid = channels.by_sid(circuit, seed.sid);
        let by_cid = seed.cid.and_then(|cid| channels.by_cid(circuit, cid));
        let channel = |place: Place| channels.get(place).map(|channel| (place, channel));
        let same = |c: &Channel| c.pv.is_empty() || c.pv == seed.pv;
        // The same channel may be known by its sid, or still be waiting for it; or both, if its answer was not seen, but a put:
        // of such a one the client's number is not known.
        let waiting = by_cid.and_then(channel).filter(|(_, c)| c.sid.is_none());
        let asked = waiting.as_ref().filter(|(_, c)| c.pv == seed.pv).map(|(place, _)| *place);
        match by_sid.and_then(channel).or(waiting) {
            Some((place, channel)) if same(&channel) => {
                if let Some(asked) = asked.filter(|asked| *asked != place && channel.cid.is_none()) {
                    context.close(time, asked, ChannelReason::Replaced);
                }
                let new = Channel {
                    cid: channel.cid.or(seed.cid),
                    sid: Some(seed.sid),
                    pv: seed.pv.clone(),
                    dbr: channel.dbr.or(seed.dbr),
                    count: channel.count.or(seed.count),
                    ..channel
                };
                context.replace(time, place, new);
                return;
            }
            // The network's facts are right; memory was read slightly earlier or later.
            Some((_, channel)) if channel.origin == Origin::Opened => return,
            Some((place, _)) => context.close(time, place, ChannelReason::Replaced),
            None => {}
        }
        let cid = seed.cid.filter(|cid| context.shared.channels.by_cid(circuit, *cid).is_none());
        let numbers = (cid, Some(seed.sid));
        self.add(time, numbers, seed.pv.clone(), Origin::Memory, (seed.dbr, seed.count), context);
    }

    /// The circuit's number; assigns and reports one if it has none yet.
    fn number(&mut self, time: u64, context: &mut Context) -> CircuitId {
        self.circuit.number(time, &mut context.shared.circuit, context.out)
    }

    /// Takes the client's identity, as far as it has become known (minor version 0: unknown).
    fn identity(
        &mut self,
        time: u64,
        user: Option<String>,
        host: Option<String>,
        minor: u16,
        out: &mut Vec<Event>,
    ) {
        let mut changed = false;
        for (new, old) in [(user, &mut self.circuit.user), (host, &mut self.circuit.host)] {
            if let Some(new) = new.filter(|new| new != old) {
                *old = new;
                changed = true;
            }
        }
        if minor != 0 && minor != self.circuit.minor {
            self.circuit.minor = minor;
            changed = true;
        }
        if changed {
            self.circuit.report(time, out);
        }
    }

    /// Takes the client's request for a channel.
    fn create(&mut self, time: u64, cid: u32, pv: String, context: &mut Context) {
        if pv.is_empty() {
            return;
        }
        let circuit = self.number(time, context);
        if let Some(place) = context.shared.channels.by_cid(circuit, cid) {
            // It may be known from memory before its packet is processed.
            let seeded = |c: &Channel| c.origin == Origin::Memory && c.pv == pv && time <= self.seeded;
            let Some(channel) = context.shared.channels.get(place) else { return };
            if seeded(&channel) {
                return;
            }
            // A channel that has the server's number stays open beside the new one. Of two that wait for it, nobody
            // can tell which gets which.
            if channel.sid.is_none() {
                self.owe(cid, &channel.pv);
                self.owed.add(cid, Some(&pv));
                return;
            }
        }
        if self.owed.has(cid) {
            self.owed.add(cid, Some(&pv));
        }
        self.add(time, (Some(cid), None), pv, Origin::Opened, (None, None), context);
    }

    /// The answer to the request for a channel that waits for it is to come.
    fn owe(&mut self, cid: u32, pv: &str) {
        if !self.owed.has(cid) {
            self.owed.add(cid, Some(pv));
        }
    }

    /// A channel is closed. If it was not answered yet, that answer is to come.
    fn close(&mut self, time: u64, place: Place, reason: ChannelReason, context: &mut Context) {
        if let Some(Channel { cid: Some(cid), sid: None, pv, .. }) = context.shared.channels.get(place) {
            self.owe(cid, &pv);
        }
        context.close(time, place, reason);
    }

    /// Takes the server's answer that it has made a channel.
    fn created(&mut self, time: u64, header: &Header, context: &mut Context) {
        let circuit = self.number(time, context);
        let (cid, sid) = (header.p1, header.p2);
        let (dbr, count) = (Some(header.dbr), Some(header.count));
        let owed = self.owed.take(cid);
        let channels = &context.shared.channels;
        let known = |place: Place| channels.get(place).map(|channel| (place, channel));
        let asked = channels.by_cid(circuit, cid).and_then(known);
        let held = channels.by_sid(circuit, sid).and_then(known);
        let waiting = asked
            .filter(|(place, asked)| asked.sid.is_none() || channels.by_sid(circuit, sid) == Some(*place));
        let pv = owed.clone().flatten().map_or(String::new(), String::from);
        let is_doubtful = owed.is_some() && pv.is_empty();
        match (waiting, held) {
            (Some((asked, _)), Some((place, held))) if asked == place => {
                context.replace(time, place, Channel { dbr, count, ..held });
            }
            // one of several channels, nobody can tell which
            (waiting, held) if is_doubtful => {
                if let Some((place, _)) = waiting.filter(|_| !self.owed.has(cid)) {
                    context.close(time, place, ChannelReason::Replaced);
                }
                // a put came before this answer, or memory tells which it is
                if held.as_ref().is_some_and(|(_, held)| held.pv.is_empty() || time <= self.seeded) {
                    return;
                }
                if let Some((held, _)) = held {
                    context.close(time, held, ChannelReason::Replaced);
                }
                let free = context.shared.channels.by_cid(circuit, cid).is_none();
                let numbers = (free.then_some(cid), Some(sid));
                self.add(time, numbers, pv, Origin::MidStream, (dbr, count), context);
            }
            // memory was read later than this came, and knows which of several channels it is
            (Some((closed, asked)), Some((place, held)))
                if held.origin == Origin::Memory && time <= self.seeded =>
            {
                if asked.pv == held.pv {
                    context.close(time, closed, ChannelReason::Replaced);
                    context.replace(time, place, Channel { cid: Some(cid), dbr, count, ..held });
                }
            }
            // Puts were seen between the request and this answer: they were for this channel.
            (Some((closed, asked)), Some((place, held))) if held.pv.is_empty() && held.id > asked.id => {
                context.close(time, closed, ChannelReason::Replaced);
                context.replace(time, place, Channel { cid: Some(cid), pv: asked.pv, dbr, count, ..held });
            }
            (Some((place, asked)), held) => {
                if let Some((held, _)) = held {
                    context.close(time, held, ChannelReason::Replaced);
                }
                context.replace(time, place, Channel { sid: Some(sid), dbr, count, ..asked });
            }
            (None, Some((place, held))) if held.origin == Origin::Memory && time <= self.seeded => {
                context.replace(time, place, Channel { cid: Some(cid), dbr, count, ..held });
            }
            // the request was not seen, or is one of several for the same
            (None, held) => {
                if let Some((held, _)) = held {
                    context.close(time, held, ChannelReason::Replaced);
                }
                let origin = if pv.is_empty() { Origin::MidStream } else { Origin::Opened };
                self.add(time, (Some(cid), Some(sid)), pv, origin, (dbr, count), context);
            }
        }
    }

    /// The channel with this SID; creates it if it is not known.
    fn channel_of(&self, time: u64, circuit: CircuitId, sid: u32, context: &mut Context) -> ChannelId {
        let channels = &mut context.shared.channels;
        match channels.by_sid(circuit, sid).and_then(|place| channels.touch(place)) {
            Some(id) => id,
            None => {
                let numbers = (None, Some(sid));
                self.add(time, numbers, String::new(), Origin::MidStream, (None, None), context)
            }
        }
    }

    /// Adds a channel with its cid and sid, its native type and count, as far as they are known.
    fn add(
        &self,
        time: u64,
        (cid, sid): (Option<u32>, Option<u32>),
        pv: String,
        origin: Origin,
        (dbr, count): (Option<u16>, Option<u32>),
        context: &mut Context,
    ) -> ChannelId {
        // a circuit has its number before its first channel
        let circuit = self.circuit.id().unwrap_or(0);
        let channel = Channel { id: 0, circuit, cid, sid, pv, dbr, count, origin };
        context.shared.channels.add(time, channel, context.out)
    }
}

/// Whether a name is no longer than servers accept, whatever follows it. Of a payload its first bytes are here.
fn is_name(header: &Header, payload: &[u8]) -> bool {
    header.size <= LONGEST_NAME || payload.contains(&0)
}

/// The shared state that a session uses.
#[derive(Debug)]
pub struct Context<'a> {
    /// What all circuits share.
    pub shared: &'a mut Shared,
    /// Receives the facts.
    pub out: &'a mut Vec<Event>,
}

impl Context<'_> {
    fn emit(&mut self, time: u64, fact: Fact) {
        self.out.push(Event { time, fact });
    }

    fn close(&mut self, time: u64, place: Place, reason: ChannelReason) {
        if let Some(channel) = self.shared.channels.id(place).filter(|_| self.shared.notes_ends) {
            self.emit(time, Fact::ChannelClosed(ChannelClosed { channel, reason }));
        }
        self.shared.channels.close(time, place, self.out);
    }

    fn replace(&mut self, time: u64, place: Place, channel: Channel) {
        self.shared.channels.replace(time, place, channel, self.out);
    }
}
