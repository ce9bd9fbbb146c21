//! Messages of either side: what each counts as.

use iocrec_log::event::{AccessRights, Address, CircuitId, CircuitPriority, EchoLate, Event, Fact, Message};

use super::circuit::{Off, PATIENCE};
use super::counted::{Ended, Place, Subscription};
use super::{End, Traffic, MAX_SUBSCRIPTIONS};
use crate::ca::channels::Channels;
use crate::ca::message::{
    self, Header, ACCESS_RIGHTS, CLEAR_CHANNEL, CREATE_CHAN, CREATE_CH_FAIL, ECHO, ERROR, EVENTS_OFF,
    EVENTS_ON, EVENT_ADD, EVENT_CANCEL, NOT_FOUND, READ, READ_NOTIFY, SEARCH, SERVER_DISCONN, VERSION, WRITE,
    WRITE_NOTIFY,
};
use crate::net::udp::searches::{Answer, Asking};

impl Traffic {
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
            let name = message::name(header, payload);
            self.searches.request(end.namespace, asking, name, time);
        }
        let channel = |sid| channels.by_sid(id, sid).and_then(|place| channels.id(place));
        if header.command == EVENT_CANCEL {
            self.take_counts(id, Some(Ended::Subscription(header.p2)));
        }
        let left = MAX_SUBSCRIPTIONS.saturating_sub(self.subscriptions);
        let Some(circuit) = self.circuit(id, time) else { return };
        let before = circuit.subscriptions.len();
        let mut uncounted = false;
        let mut used = None;
        let message = match header.command {
            EVENT_ADD => {
                used = channel(header.p1);
                let has_room = before < left || circuit.subscriptions.contains_key(&header.p2);
                uncounted = used.is_some() && !has_room;
                if let Some(channel) = used.filter(|_| has_room) {
                    circuit.place.get_or_insert_with(|| Place::of(end));
                    let subscription = Subscription { channel, sid: header.p1, counted: None };
                    circuit.subscriptions.insert(header.p2, subscription);
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
                    if began.is_some() {
                        off.ended = time;
                    }
                    off.off = off.off.saturating_add(began.map_or(0, |began| time.saturating_sub(began)));
                }
                Message::EventsOn
            }
            CLEAR_CHANNEL => Message::Clear,
            CREATE_CHAN => Message::Create,
            ECHO => {
                // the first that has no answer counts; a message that was held back may come after its answer
                if circuit.is_heard && circuit.echoed < time {
                    circuit.echo.get_or_insert((time, false));
                }
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
        circuit.has_channels |= used.is_some();
        let after = circuit.subscriptions.len();
        self.subscriptions = (self.subscriptions + after).saturating_sub(before);
        self.uncounted += u64::from(uncounted);
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
        channels: &mut Channels,
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
        circuit.is_heard = true;
        let mut updated = None;
        let message = match header.command {
            // without a payload it ends a subscription
            EVENT_ADD if header.size > 0 => {
                updated = circuit.subscriptions.get(&header.p2).map(|subscription| subscription.channel);
                if updated.is_some() {
                    circuit.sent.passed(header.bytes() as u64 + u64::from(header.size));
                }
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
                let rights = u16::try_from(header.p2 & 3).unwrap_or(3);
                let place = channels.by_cid(id, header.p1);
                if let Some(channel) = place.and_then(|place| channels.restrict(place, rights)) {
                    let fact = Fact::AccessRights(AccessRights { channel, circuit: id, rights });
                    out.push(Event { time, fact });
                }
                Message::Other
            }
            ECHO => {
                circuit.echoed = circuit.echoed.max(time);
                // not noted yet, if this program stood still, too, and sees both at once
                let late =
                    |&(since, is_noted): &(u64, bool)| is_noted || time.saturating_sub(since) >= PATIENCE;
                if let Some((since, _)) = circuit.echo.take().filter(late) {
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
}
