//! The open channels of all circuits, within bounds that no client can use up for the others.
//!
//! When a circuit has as many channels as one may have, or all circuits together, a channel is forgotten: of the same
//! circuit, or of the one that has the most. So who opens channels without end, or writes to numbers that nobody has,
//! loses its own. On that circuit goes first a channel that has no name, the one that has been idle for longest, then
//! one with a name. It is forgotten, not ended: the log says so ([`Fact::ChannelForgotten`]).
//!
//! A channel takes about 130 bytes here, its name included.

use std::collections::BTreeSet;

use crate::keyed::KeyedMap;
use iocrec_log::event::{Channel, ChannelId, CircuitId, Event, Fact, Origin};

/// No channel.
const NONE: u32 = u32::MAX;

/// Bounds of the open channels.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// On one circuit.
    pub circuit: usize,
    /// On all.
    pub all: usize,
}

/// The place of an open channel. Valid until a channel is added or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// A channel, packed.
#[derive(Debug)]
struct Slot {
    id: ChannelId,
    circuit: CircuitId,
    cid: u32,
    sid: u32,
    count: u32,
    /// Its neighbours in the list of its circuit; `next` also links empty slots.
    before: u32,
    next: u32,
    dbr: u16,
    /// Which of the numbers are known, and what its client may not do: bits of `CID` and the like; 0 in an empty slot.
    known: u8,
    origin: Origin,
    pv: Box<str>,
}

const CID: u8 = 1;
const SID: u8 = 2;
const DBR: u8 = 4;
const COUNT: u8 = 8;
/// What the client may not do: the two bits of ACCESS_RIGHTS, inverted.
const DENIED: u8 = 3 << 4;
const IN_USE: u8 = 128;

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The channels of a circuit: without and with a name, in the order of their last use.
#[derive(Debug)]
struct OfCircuit {
    lists: [List; 2],
    count: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Channels {
    limits: ChannelLimits,
    slots: Vec<Slot>,
    free: u32,
    by_sid: KeyedMap<(CircuitId, u32), u32>,
    by_cid: KeyedMap<(CircuitId, u32), u32>,
    circuits: KeyedMap<CircuitId, OfCircuit>,
    /// The circuits by their numbers of channels.
    by_count: BTreeSet<(usize, CircuitId)>,
    /// Number of all channels.
    open: usize,
    /// The last number given out.
    last_id: ChannelId,
    /// Channels forgotten while open, not yet reported.
    pub forgotten: u64,
}

impl Slot {
    fn has(&self, what: u8) -> bool {
        self.known & what != 0
    }

    fn cid(&self) -> Option<u32> {
        self.has(CID).then_some(self.cid)
    }

    fn sid(&self) -> Option<u32> {
        self.has(SID).then_some(self.sid)
    }

    fn channel(&self) -> Channel {
        Channel {
            id: self.id,
            circuit: self.circuit,
            cid: self.cid(),
            sid: self.sid(),
            pv: self.pv.to_string(),
            dbr: self.has(DBR).then_some(self.dbr),
            count: self.has(COUNT).then_some(self.count),
            origin: self.origin,
        }
    }

    /// Takes over what is known of a channel; its links stay.
    fn set(&mut self, channel: &Channel) {
        let bit = |known: bool, bit: u8| if known { bit } else { 0 };
        self.known = IN_USE
            | self.known & DENIED
            | bit(channel.cid.is_some(), CID)
            | bit(channel.sid.is_some(), SID)
            | bit(channel.dbr.is_some(), DBR)
            | bit(channel.count.is_some(), COUNT);
        (self.id, self.circuit) = (channel.id, channel.circuit);
        self.cid = channel.cid.unwrap_or(0);
        self.sid = channel.sid.unwrap_or(0);
        self.dbr = channel.dbr.unwrap_or(0);
        self.count = channel.count.unwrap_or(0);
        self.origin = channel.origin;
        if *self.pv != *channel.pv {
            self.pv = channel.pv.as_str().into();
        }
    }
}

impl Channels {
    /// No channels.
    pub fn new(limits: ChannelLimits) -> Channels {
        let limits = ChannelLimits { circuit: limits.circuit.max(1), all: limits.all.max(1) };
        Channels {
            limits,
            slots: Vec::new(),
            free: NONE,
            by_sid: KeyedMap::default(),
            by_cid: KeyedMap::default(),
            circuits: KeyedMap::default(),
            by_count: BTreeSet::new(),
            open: 0,
            last_id: 0,
            forgotten: 0,
        }
    }

    /// The channel of a circuit with this server's number.
    pub fn by_sid(&self, circuit: CircuitId, sid: u32) -> Option<Place> {
        self.by_sid.get(&(circuit, sid)).map(|at| Place(*at))
    }

    /// The channel of a circuit with this client's number.
    pub fn by_cid(&self, circuit: CircuitId, cid: u32) -> Option<Place> {
        self.by_cid.get(&(circuit, cid)).map(|at| Place(*at))
    }

    /// A channel.
    pub fn get(&self, place: Place) -> Option<Channel> {
        self.slot(place.0).map(Slot::channel)
    }

    /// The number of the channel in a place.
    pub fn id(&self, place: Place) -> Option<ChannelId> {
        self.slot(place.0).map(|slot| slot.id)
    }

    /// The last number given out.
    pub fn last_id(&self) -> ChannelId {
        self.last_id
    }

    /// Number of a circuit's channels.
    pub fn count(&self, circuit: CircuitId) -> usize {
        self.circuits.get(&circuit).map_or(0, |of| of.count)
    }

    /// The number of the channel in a place, which is used just now.
    pub fn touch(&mut self, place: Place) -> Option<ChannelId> {
        let slot = self.slot(place.0)?;
        let id = slot.id;
        if slot.next != NONE {
            self.unlink(place.0);
            self.link(place.0);
        }
        Some(id)
    }

    /// Takes the rights that a server tells of a channel (1: to read, 2: to write; a client has both until it is told).
    /// Returns the channel's number if they are others than before.
    pub fn restrict(&mut self, place: Place, rights: u16) -> Option<ChannelId> {
        let slot = self.slots.get_mut(place.0 as usize)?;
        let denied = (!rights as u8) << 4 & DENIED;
        let is_new = slot.known & DENIED != denied;
        slot.known = slot.known & !DENIED | denied;
        is_new.then_some(slot.id)
    }

    /// Adds a channel and reports it; its number is given here. Forgets another if there are too many.
    pub fn add(&mut self, time: u64, mut channel: Channel, out: &mut Vec<Event>) -> ChannelId {
        let circuit = channel.circuit;
        if self.count(circuit) >= self.limits.circuit {
            self.forget_one(time, circuit, out);
        }
        while self.open >= self.limits.all {
            let Some(&(_, most)) = self.by_count.last() else { break };
            self.forget_one(time, most, out);
        }
        self.last_id = self.last_id.wrapping_add(1);
        channel.id = self.last_id;
        let mut slot = Slot {
            id: 0,
            circuit,
            cid: 0,
            sid: 0,
            count: 0,
            before: NONE,
            next: NONE,
            dbr: 0,
            known: 0,
            origin: channel.origin,
            pv: Box::default(),
        };
        slot.set(&channel);
        let at = match self.slots.get_mut(self.free as usize) {
            Some(empty) => {
                let at = self.free;
                self.free = empty.next;
                *empty = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.link(at);
        self.counted(circuit, 1);
        self.name(at);
        let id = channel.id;
        out.push(Event { time, fact: Fact::from(channel) });
        id
    }

    /// Puts a channel in the place of what is known of it, and reports it if anything has changed.
    pub fn replace(&mut self, time: u64, place: Place, channel: Channel, out: &mut Vec<Event>) {
        let Some(slot) = self.slot(place.0) else { return };
        if slot.channel() == channel {
            return;
        }
        self.unname(place.0);
        self.unlink(place.0);
        if let Some(slot) = self.slots.get_mut(place.0 as usize) {
            slot.set(&channel);
        }
        self.link(place.0);
        self.name(place.0);
        out.push(Event { time, fact: Fact::from(channel) });
    }

    /// A channel was closed.
    pub fn close(&mut self, time: u64, place: Place, out: &mut Vec<Event>) {
        if let Some(id) = self.remove(place.0) {
            out.push(Event { time, fact: Fact::ChannelEnd(id) });
        }
    }

    /// A circuit is over, and its channels with it.
    pub fn end(&mut self, circuit: CircuitId) {
        let first = |channels: &Channels| {
            let of = channels.circuits.get(&circuit)?;
            of.lists.iter().map(|list| list.first).find(|first| *first != NONE)
        };
        while let Some(at) = first(self) {
            if self.remove(at).is_none() {
                break;
            }
        }
    }

    fn slot(&self, at: u32) -> Option<&Slot> {
        self.slots.get(at as usize).filter(|slot| slot.has(IN_USE))
    }

    fn forget_one(&mut self, time: u64, circuit: CircuitId, out: &mut Vec<Event>) {
        let lists = self.circuits.get(&circuit).map(|of| of.lists).unwrap_or([EMPTY; 2]);
        let first = lists.iter().map(|list| list.first).find(|first| *first != NONE);
        if let Some(id) = first.and_then(|first| self.remove(first)) {
            self.forgotten += 1;
            out.push(Event { time, fact: Fact::ChannelForgotten(id) });
        }
    }

    fn remove(&mut self, at: u32) -> Option<ChannelId> {
        let circuit = self.slot(at)?.circuit;
        self.unname(at);
        self.unlink(at);
        self.counted(circuit, -1);
        let slot = self.slots.get_mut(at as usize)?;
        slot.known = 0;
        slot.pv = Box::default();
        slot.next = std::mem::replace(&mut self.free, at);
        Some(slot.id)
    }

    /// Makes a channel known by its numbers, in place of an older one.
    fn name(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (circuit, sid, cid) = (slot.circuit, slot.sid(), slot.cid());
        self.by_sid.extend(sid.map(|sid| ((circuit, sid), at)));
        self.by_cid.extend(cid.map(|cid| ((circuit, cid), at)));
    }

    /// Takes its numbers from a channel, unless they are another's by now.
    fn unname(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (circuit, sid, cid) = (slot.circuit, slot.sid(), slot.cid());
        for (of, number) in [(&mut self.by_sid, sid), (&mut self.by_cid, cid)] {
            if let Some(number) = number {
                if of.get(&(circuit, number)) == Some(&at) {
                    of.remove(&(circuit, number));
                }
            }
        }
    }

    fn counted(&mut self, circuit: CircuitId, by: isize) {
        let Some(of) = self.circuits.get_mut(&circuit) else { return };
        self.open = self.open.saturating_add_signed(by);
        self.by_count.remove(&(of.count, circuit));
        of.count = of.count.saturating_add_signed(by);
        if of.count > 0 {
            self.by_count.insert((of.count, circuit));
        } else {
            self.circuits.remove(&circuit);
        }
    }

    /// Makes a channel the last to be forgotten of its kind.
    fn link(&mut self, at: u32) {
        let Some(slot) = self.slots.get(at as usize) else { return };
        let (circuit, named) = (slot.circuit, usize::from(!slot.pv.is_empty()));
        let of = self.circuits.entry(circuit).or_insert(OfCircuit { lists: [EMPTY; 2], count: 0 });
        let Some(list) = of.lists.get_mut(named) else { return };
        let before = std::mem::replace(&mut list.last, at);
        if list.first == NONE {
            list.first = at;
        }
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.before, slot.next) = (before, NONE);
        }
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.next = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slots.get(at as usize) else { return };
        let (circuit, named) = (slot.circuit, usize::from(!slot.pv.is_empty()));
        let (before, next) = (slot.before, slot.next);
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.next = next;
        }
        if let Some(slot) = self.slots.get_mut(next as usize) {
            slot.before = before;
        }
        let of = self.circuits.get_mut(&circuit);
        if let Some(list) = of.and_then(|of| of.lists.get_mut(named)) {
            if list.first == at {
                list.first = next;
            }
            if list.last == at {
                list.last = before;
            }
        }
    }
}
