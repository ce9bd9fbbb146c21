//! The channels of a circuit.

use epics::pva::{Cursor, Read};
use iocrec_log::event::{Channel, ChannelId, Fact, Origin};

use super::claims::name;
use super::context::Context;
use super::messages::LONGEST_NAME;
use super::Session;

impl Session {
    /// Takes the client's requests for channels.
    pub(super) fn create_all(
        &mut self,
        time: u64,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        for _ in 0..cursor.u16()? {
            let cid = cursor.u32()?;
            let sent = cursor.string()?;
            if sent.is_empty() {
                // neither server makes channels of what follows
                break;
            }
            let pv = if sent.len() <= LONGEST_NAME { name(sent) } else { String::new() };
            if pv.is_empty() {
                // it has no name here, but an answer comes with its number
                if let Some(waiting) = self.waiting(cid) {
                    self.owe(waiting);
                }
                self.owed.add(cid, None);
            } else {
                self.create(time, cid, pv, context);
            }
        }
        Ok(())
    }

    /// Takes the client's request for a channel. Of two that wait with one number, nobody can tell which gets which; one
    /// that is open stays open beside the new one.
    pub(super) fn create(&mut self, time: u64, cid: u32, pv: String, context: &mut Context) {
        if self.is_seeded(cid, &pv) {
            return;
        }
        if let Some(waiting) = self.waiting(cid) {
            self.owe(waiting);
            self.owed.add(cid, Some(&pv));
            return;
        }
        if self.owed.has(cid) {
            self.owed.add(cid, Some(&pv));
        }
        self.add(time, Some(cid), None, pv, Origin::Opened, context);
    }

    /// The channel with this number of the client's that the server has not answered yet.
    pub(super) fn waiting(&self, cid: u32) -> Option<ChannelId> {
        let waits = |id: &ChannelId| self.channels.get(id).is_some_and(|channel| channel.sid.is_none());
        self.by_cid.get(&cid).copied().filter(waits)
    }

    /// The answer to the request for a channel that waits for it is to come.
    fn owe(&mut self, id: ChannelId) {
        let Some(Channel { cid: Some(cid), pv, .. }) = self.channels.get(&id) else { return };
        if !self.owed.has(*cid) {
            self.owed.add(*cid, Some(pv));
        }
        // who asked for which channel is not known any more
        if !self.said.is_empty() {
            self.said = vec![(ChannelId::MAX, String::new(), String::new())];
        }
    }

    /// The client ends a channel. Servers go by their own number alone; the answer that tells it may not be seen yet.
    pub(super) fn destroy(&mut self, time: u64, sid: u32, cid: u32, context: &mut Context) {
        let waiting = self.waiting(cid);
        if let Some(&channel) = self.by_sid.get(&sid) {
            self.close(time, channel, context);
        } else if let Some(channel) = waiting {
            self.owe(channel);
            self.close(time, channel, context);
        }
    }

    /// Takes the server's answer that it has made a channel.
    pub(super) fn created(&mut self, time: u64, cid: u32, sid: u32, context: &mut Context) {
        let owed = self.owed.take(cid);
        let is_doubtful = owed == Some(None);
        let held = self.by_sid.get(&sid).and_then(|id| self.channels.get(id)).cloned();
        let asked = self.waiting(cid).and_then(|id| self.channels.get(&id)).cloned();
        if let Some(asked) = asked.as_ref().filter(|_| is_doubtful && !self.owed.has(cid)) {
            self.close(time, asked.id, context);
        }
        let asked = asked.filter(|_| !is_doubtful);
        let free = !self.by_cid.contains_key(&cid) || asked.is_some() || !is_doubtful;
        let pv = owed.flatten().map(String::from).or(asked.as_ref().map(|asked| asked.pv.clone()));
        match held {
            // requests came before this answer
            Some(held) if held.pv.is_empty() && asked.as_ref().is_none_or(|asked| held.id > asked.id) => {
                if let Some(asked) = asked {
                    self.close(time, asked.id, context);
                }
                let cid = free.then_some(cid).or(held.cid);
                self.replace(time, Channel { cid, pv: pv.unwrap_or_default(), ..held }, context);
            }
            Some(held) if held.cid == Some(cid) && asked.is_none() && !is_doubtful => {}
            held => {
                if let Some(held) = held {
                    // what was prepared for it may be the new one's
                    self.mixes |= self.of_channel.range((held.id, 0)..=(held.id, u32::MAX)).next().is_some();
                    self.close(time, held.id, context);
                }
                match asked {
                    Some(asked) => self.replace(time, Channel { sid: Some(sid), ..asked }, context),
                    None => {
                        let origin = if pv.is_some() { Origin::Opened } else { Origin::MidStream };
                        let pv = pv.unwrap_or_default();
                        self.add(time, free.then_some(cid), Some(sid), pv, origin, context);
                    }
                }
            }
        }
    }

    /// The server refuses a channel.
    pub(super) fn refused(&mut self, time: u64, cid: u32, context: &mut Context) {
        self.owed.take(cid);
        if let Some(channel) = self.waiting(cid).filter(|_| !self.owed.has(cid)) {
            self.close(time, channel, context);
        }
    }

    /// The channel with this SID; creates it if it is not known.
    pub(super) fn channel_of(&mut self, time: u64, sid: u32, context: &mut Context) -> ChannelId {
        match self.by_sid.get(&sid) {
            Some(&id) => id,
            None => self.add(time, None, Some(sid), String::new(), Origin::MidStream, context),
        }
    }

    pub(super) fn add(
        &mut self,
        time: u64,
        cid: Option<u32>,
        sid: Option<u32>,
        mut pv: String,
        origin: Origin,
        context: &mut Context,
    ) -> ChannelId {
        let full = context.is_full(self.channels.len());
        if let Some(oldest) = self.channels.keys().next().copied().filter(|_| full) {
            self.remove(time, oldest, Fact::ChannelForgotten, context);
            context.ids.forgotten += 1;
            // what was prepared for it is not known any more
            self.mixes = true;
        }
        pv.shrink_to_fit();
        context.ids.channel = context.ids.channel.wrapping_add(1);
        context.ids.open += 1;
        let id = context.ids.channel;
        let circuit = self.number(time, context);
        self.replace(time, Channel { id, circuit, cid, sid, pv, dbr: None, count: None, origin }, context);
        id
    }

    /// Reports a channel of which nothing is known, and which is not kept.
    pub(super) fn nameless(&mut self, time: u64, context: &mut Context) -> ChannelId {
        context.ids.channel = context.ids.channel.wrapping_add(1);
        let id = context.ids.channel;
        let circuit = self.number(time, context);
        let (pv, origin) = (String::new(), Origin::MidStream);
        let channel = Channel { id, circuit, cid: None, sid: None, pv, dbr: None, count: None, origin };
        context.emit(time, Fact::from(channel));
        id
    }

    /// Stores and reports a channel.
    pub(super) fn replace(&mut self, time: u64, channel: Channel, context: &mut Context) {
        self.by_sid.extend(channel.sid.map(|sid| (sid, channel.id)));
        self.by_cid.extend(channel.cid.map(|cid| (cid, channel.id)));
        context.emit(time, Fact::from(channel.clone()));
        self.channels.insert(channel.id, channel);
    }

    pub(super) fn close(&mut self, time: u64, id: ChannelId, context: &mut Context) {
        self.remove(time, id, Fact::ChannelEnd, context);
    }

    /// A channel is closed or forgotten, which `fact` says.
    fn remove(&mut self, time: u64, id: ChannelId, fact: fn(ChannelId) -> Fact, context: &mut Context) {
        let Some(channel) = self.channels.remove(&id) else { return };
        for (ids, key) in [(&mut self.by_sid, channel.sid), (&mut self.by_cid, channel.cid)] {
            if key.is_some_and(|key| ids.get(&key) == Some(&id)) {
                key.map(|key| ids.remove(&key));
            }
        }
        let own: Vec<u32> = self.of_channel.range((id, 0)..=(id, u32::MAX)).map(|(_, ioid)| *ioid).collect();
        for ioid in own {
            // the number may be that of another channel's request, too
            if self.requests.get(&ioid).is_some_and(|request| request.channel == id) {
                self.forget_request(ioid, context.ids);
            }
            if self.monitors.get(&ioid) == Some(&id) {
                self.forget_monitor(ioid, context.ids);
            }
            self.of_channel.remove(&(id, ioid));
        }
        context.ids.open = context.ids.open.saturating_sub(1);
        context.emit(time, fact(id));
    }
}
