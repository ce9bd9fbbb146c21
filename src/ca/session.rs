//! The state of one circuit: the client's claimed identity, and the circuit's channels.
//!
//! Takes the messages of both directions, each direction in order, and turns them into facts. CIDs and SIDs belong to
//! the circuit and are reused; channel numbers ([`ChannelId`]) are not.

use crate::ca::message::{
    self, Header, CLEAR_CHANNEL, CLIENT_NAME, CREATE_CHAN, CREATE_CH_FAIL, ERROR, HOST_NAME, LONGEST_NAME,
    SERVER_DISCONN, VERSION, WRITE, WRITE_NOTIFY,
};
use crate::net::Namespace;
use iocrec_log::event::{
    Address, CaAnswer, CaPut, Channel, ChannelId, Circuit, CircuitEnds, CircuitId, Event, Fact, IocId, Origin,
};
use std::collections::{BTreeMap, HashMap};

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

/// Assigns ids to circuits and channels, from 1 on, and counts the channels of all circuits.
#[derive(Debug, Default)]
pub struct Ids {
    circuit: CircuitId,
    channel: ChannelId,
    /// Channels open on all circuits.
    pub open: usize,
    /// Channels that had to be forgotten while open, not yet reported.
    pub forgotten: u64,
}

/// Bounds of the open channels.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// On one circuit.
    pub circuit: usize,
    /// On all.
    pub all: usize,
}

/// The state of one circuit. See the module.
#[derive(Debug)]
pub struct Session {
    id: Option<CircuitId>,
    client: Address,
    server: Address,
    user: String,
    host: String,
    minor: u16,
    origin: Origin,
    /// The namespace of its packets, and the listening process, if known; `None` if ends are not reported.
    ends: Option<(Namespace, Option<IocId>)>,
    channels: BTreeMap<ChannelId, Channel>,
    by_sid: HashMap<u32, ChannelId>,
    by_cid: HashMap<u32, ChannelId>,
    /// Time of the last reading of channels from memory; packets from before may repeat the same.
    seeded: u64,
}

impl Session {
    /// A session of which only the ends are known.
    pub fn new(
        client: Address,
        server: Address,
        origin: Origin,
        ends: Option<(Namespace, Option<IocId>)>,
    ) -> Session {
        Session {
            id: None,
            client,
            server,
            user: String::new(),
            host: String::new(),
            minor: 0,
            origin,
            ends,
            channels: BTreeMap::new(),
            by_sid: HashMap::new(),
            by_cid: HashMap::new(),
            seeded: 0,
        }
    }

    /// The circuit's number, once a message has shown that it is one.
    pub fn id(&self) -> Option<CircuitId> {
        self.id
    }

    /// The circuit was closed.
    pub fn end(&mut self, time: u64, ids: &mut Ids, out: &mut Vec<Event>) {
        ids.open = ids.open.saturating_sub(self.channels.len());
        if let Some(id) = self.id {
            out.push(Event { time, fact: Fact::CircuitEnd(id) });
        }
        *self = Session::new(self.client, self.server, self.origin, self.ends);
    }

    /// Takes a message from the client.
    pub fn request(&mut self, time: u64, header: &Header, payload: &[u8], context: &mut Context) {
        let circuit = self.number(time, context);
        match header.command {
            VERSION if header.count > 0 => {
                let minor = u16::try_from(header.count).unwrap_or(u16::MAX);
                self.identity(time, None, None, minor, context.out);
            }
            // Servers ignore both once there are channels, and if they are longer.
            CLIENT_NAME if self.channels.is_empty() && header.size <= LONGEST_NAME => {
                self.identity(time, Some(message::text(payload)), None, 0, context.out);
            }
            HOST_NAME if self.channels.is_empty() && header.size <= LONGEST_NAME => {
                self.identity(time, None, Some(message::text(payload)), 0, context.out);
            }
            CREATE_CHAN => {
                if self.minor == 0 {
                    let minor = u16::try_from(header.p2).unwrap_or(0);
                    self.identity(time, None, None, minor, context.out);
                }
                self.create(time, header.p1, message::text(payload), context);
            }
            CLEAR_CHANNEL => {
                let (sid, cid) = (header.p1, header.p2);
                let found = [self.by_cid.get(&cid).copied(), self.by_sid.get(&sid).copied()];
                let meant = |c: &Channel| c.sid.is_none_or(|s| s == sid) && c.cid.is_none_or(|c| c == cid);
                let meant = |id: &ChannelId| self.channels.get(id).is_some_and(meant);
                if let Some(id) = found.into_iter().flatten().find(meant) {
                    self.close(time, id, context);
                }
            }
            WRITE | WRITE_NOTIFY => {
                let channel = self.channel_of(time, header.p1, context);
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
            CREATE_CHAN => self.created(time, header, context),
            CREATE_CH_FAIL | SERVER_DISCONN => {
                if let Some(id) = self.by_cid.get(&header.p1).copied() {
                    self.close(time, id, context);
                }
            }
            // The request has closed it already, unless the request was not seen. The ids may be in use again by now,
            // but not both for one channel.
            CLEAR_CHANNEL => {
                if let Some(id) = self.by_sid.get(&header.p1).copied() {
                    if self.by_cid.get(&header.p2) == Some(&id) {
                        self.close(time, id, context);
                    }
                }
            }
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
        self.seeded = time.max(1);
        let known = self.id.is_some();
        let or_none = |new: &str, old: &str| (old.is_empty() && !new.is_empty()).then(|| new.to_owned());
        let (user, host) = (or_none(user, &self.user), or_none(host, &self.host));
        let minor = if self.minor == 0 { minor } else { 0 };
        if known {
            self.identity(time, user, host, minor, context.out);
        } else {
            // Everything in one event.
            self.user = user.unwrap_or_default();
            self.host = host.unwrap_or_default();
            self.minor = minor;
        }
        let circuit = self.number(time, context);
        for seed in channels {
            self.seed_channel(time, seed, context);
        }
        circuit
    }

    fn seed_channel(&mut self, time: u64, seed: &SeedChannel, context: &mut Context) {
        let by_sid = self.by_sid.get(&seed.sid).copied();
        let by_cid = seed.cid.and_then(|cid| self.by_cid.get(&cid)).copied();
        let same = |c: &Channel| c.pv.is_empty() || c.pv == seed.pv;
        // The same channel may be known by its sid, or still be waiting for it.
        let known = by_sid.or(by_cid.filter(|id| self.channels.get(id).is_some_and(|c| c.sid.is_none())));
        match known.and_then(|id| self.channels.get(&id)) {
            Some(channel) if same(channel) => {
                let new = Channel {
                    cid: channel.cid.or(seed.cid),
                    sid: Some(seed.sid),
                    pv: seed.pv.clone(),
                    dbr: channel.dbr.or(seed.dbr),
                    count: channel.count.or(seed.count),
                    ..channel.clone()
                };
                self.replace(time, new, context);
                return;
            }
            // The network's facts are right; memory was read slightly earlier or later.
            Some(channel) if channel.origin == Origin::Opened => return,
            Some(channel) => {
                let id = channel.id;
                self.close(time, id, context);
            }
            None => {}
        }
        let cid = seed.cid.filter(|cid| !self.by_cid.contains_key(cid));
        self.add(time, cid, Some(seed.sid), seed.pv.clone(), Origin::Memory, (seed.dbr, seed.count), context);
    }

    /// The circuit's number; assigns and reports one if it has none yet.
    fn number(&mut self, time: u64, context: &mut Context) -> CircuitId {
        if let Some(id) = self.id {
            return id;
        }
        context.ids.circuit += 1;
        let id = context.ids.circuit;
        self.id = Some(id);
        self.report(time, context.out);
        if let Some((namespace, server)) = self.ends {
            context
                .emit(time, Fact::CircuitEnds(CircuitEnds { circuit: id, namespace, server, client: None }));
        }
        id
    }

    fn report(&self, time: u64, out: &mut Vec<Event>) {
        let Some(id) = self.id else { return };
        let fact = Fact::Circuit(Circuit {
            id,
            client: self.client,
            server: self.server,
            user: self.user.clone(),
            host: self.host.clone(),
            minor: self.minor,
            origin: self.origin,
        });
        out.push(Event { time, fact });
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
        for (new, old) in [(user, &mut self.user), (host, &mut self.host)] {
            if let Some(new) = new.filter(|new| new != old) {
                *old = new;
                changed = true;
            }
        }
        if minor != 0 && minor != self.minor {
            self.minor = minor;
            changed = true;
        }
        if changed {
            self.report(time, out);
        }
    }

    /// Takes the client's request for a channel.
    fn create(&mut self, time: u64, cid: u32, pv: String, context: &mut Context) {
        if pv.is_empty() {
            return;
        }
        if let Some(id) = self.by_cid.get(&cid).copied() {
            // It may be known from memory before its packet is processed.
            let seeded = |c: &Channel| c.origin == Origin::Memory && c.pv == pv && time <= self.seeded;
            if self.channels.get(&id).is_some_and(seeded) {
                return;
            }
            self.close(time, id, context);
        }
        self.add(time, Some(cid), None, pv, Origin::Opened, (None, None), context);
    }

    /// Takes the server's answer that it has made a channel.
    fn created(&mut self, time: u64, header: &Header, context: &mut Context) {
        let (cid, sid) = (header.p1, header.p2);
        let (dbr, count) = (Some(header.dbr), Some(header.count));
        let asked = self.by_cid.get(&cid).and_then(|id| self.channels.get(id));
        let held = self.by_sid.get(&sid).and_then(|id| self.channels.get(id));
        match (asked.cloned(), held.cloned()) {
            (Some(asked), Some(held)) if asked.id == held.id => {
                self.replace(time, Channel { dbr, count, ..held }, context);
            }
            // Puts were seen between the request and this answer: they were for this channel.
            (Some(asked), Some(held)) if held.pv.is_empty() && held.id > asked.id && asked.sid.is_none() => {
                self.close(time, asked.id, context);
                let pv = asked.pv;
                self.replace(time, Channel { cid: Some(cid), pv, dbr, count, ..held }, context);
            }
            (Some(asked), held) => {
                if let Some(held) = held {
                    self.close(time, held.id, context);
                }
                self.replace(time, Channel { sid: Some(sid), dbr, count, ..asked }, context);
            }
            (None, Some(held)) if held.origin == Origin::Memory && time <= self.seeded => {
                self.replace(time, Channel { cid: Some(cid), dbr, count, ..held }, context);
            }
            (None, held) => {
                if let Some(held) = held {
                    self.close(time, held.id, context);
                }
                self.add(time, Some(cid), Some(sid), String::new(), Origin::MidStream, (dbr, count), context);
            }
        }
    }

    /// The channel with this SID; creates it if it is not known.
    fn channel_of(&mut self, time: u64, sid: u32, context: &mut Context) -> ChannelId {
        match self.by_sid.get(&sid) {
            Some(&id) => id,
            None => self.add(time, None, Some(sid), String::new(), Origin::MidStream, (None, None), context),
        }
    }

    #[allow(clippy::too_many_arguments)] // the members of a Channel, by name at each call
    fn add(
        &mut self,
        time: u64,
        cid: Option<u32>,
        sid: Option<u32>,
        mut pv: String,
        origin: Origin,
        (dbr, count): (Option<u16>, Option<u32>),
        context: &mut Context,
    ) -> ChannelId {
        let ChannelLimits { circuit, all } = context.limits;
        if self.channels.len() >= circuit || (context.ids.open >= all && !self.channels.is_empty()) {
            // Forget the oldest; the server's memory may name it again.
            if let Some(oldest) = self.channels.keys().next().copied() {
                self.close(time, oldest, context);
                context.ids.forgotten += 1;
            }
        }
        // It may be kept for a long time.
        pv.shrink_to_fit();
        context.ids.channel += 1;
        context.ids.open += 1;
        let id = context.ids.channel;
        let circuit = self.number(time, context);
        self.replace(time, Channel { id, circuit, cid, sid, pv, dbr, count, origin }, context);
        id
    }

    /// Stores and reports a channel, if anything in it has changed.
    fn replace(&mut self, time: u64, channel: Channel, context: &mut Context) {
        let id = channel.id;
        let old = self.channels.get(&id);
        if old == Some(&channel) {
            return;
        }
        let (old_sid, old_cid) = old.map_or((None, None), |old| (old.sid, old.cid));
        forget(&mut self.by_sid, old_sid, id);
        forget(&mut self.by_cid, old_cid, id);
        self.by_sid.extend(channel.sid.map(|sid| (sid, id)));
        self.by_cid.extend(channel.cid.map(|cid| (cid, id)));
        context.emit(time, Fact::Channel(channel.clone()));
        self.channels.insert(id, channel);
    }

    fn close(&mut self, time: u64, id: ChannelId, context: &mut Context) {
        if let Some(channel) = self.channels.remove(&id) {
            forget(&mut self.by_sid, channel.sid, id);
            forget(&mut self.by_cid, channel.cid, id);
            context.ids.open = context.ids.open.saturating_sub(1);
            context.emit(time, Fact::ChannelEnd(id));
        }
    }
}

/// Removes an id unless it belongs to another channel by now.
fn forget(ids: &mut HashMap<u32, ChannelId>, key: Option<u32>, id: ChannelId) {
    if let Some(key) = key {
        if ids.get(&key) == Some(&id) {
            ids.remove(&key);
        }
    }
}

/// The shared state that a session uses.
#[derive(Debug)]
pub struct Context<'a> {
    /// Assigns ids.
    pub ids: &'a mut Ids,
    /// Bounds.
    pub limits: ChannelLimits,
    /// Receives the facts.
    pub out: &'a mut Vec<Event>,
}

impl Context<'_> {
    fn emit(&mut self, time: u64, fact: Fact) {
        self.out.push(Event { time, fact });
    }
}
