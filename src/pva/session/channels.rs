//! The channels of a circuit.

use iocrec_log::event::{Channel, ChannelId, Fact, Origin};

use super::context::Context;
use super::Session;

impl Session {
    /// Takes the client's request for a channel.
    pub(super) fn create(&mut self, time: u64, cid: u32, pv: String, context: &mut Context) {
        if self.is_seeded(cid, &pv) {
            return;
        }
        if let Some(id) = self.by_cid.get(&cid).copied() {
            self.close(time, id, context);
        }
        self.add(time, Some(cid), None, pv, Origin::Opened, context);
    }

    /// Takes the server's answer that it has made a channel.
    pub(super) fn created(&mut self, time: u64, cid: u32, sid: u32, context: &mut Context) {
        if let Some(held) = self.by_sid.get(&sid).copied().filter(|held| self.by_cid.get(&cid) != Some(held))
        {
            self.close(time, held, context);
        }
        match self.by_cid.get(&cid).and_then(|id| self.channels.get(id)).cloned() {
            Some(asked) => self.replace(time, Channel { sid: Some(sid), ..asked }, context),
            None => _ = self.add(time, Some(cid), Some(sid), String::new(), Origin::MidStream, context),
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
        let full = self.channels.len() >= context.limits.circuit || context.ids.open >= context.limits.all;
        if let Some(oldest) = self.channels.keys().next().copied().filter(|_| full) {
            self.close(time, oldest, context);
            context.ids.forgotten += 1;
        }
        pv.shrink_to_fit();
        context.ids.channel = context.ids.channel.wrapping_add(1);
        context.ids.open += 1;
        let id = context.ids.channel;
        let circuit = self.number(time, context);
        self.replace(time, Channel { id, circuit, cid, sid, pv, dbr: None, count: None, origin }, context);
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
        let Some(channel) = self.channels.remove(&id) else { return };
        for (ids, key) in [(&mut self.by_sid, channel.sid), (&mut self.by_cid, channel.cid)] {
            if key.is_some_and(|key| ids.get(&key) == Some(&id)) {
                key.map(|key| ids.remove(&key));
            }
        }
        let own: Vec<u32> = self.of_channel.range((id, 0)..=(id, u32::MAX)).map(|(_, ioid)| *ioid).collect();
        for ioid in own {
            self.forget_request(ioid, context.ids);
            self.forget_monitor(ioid, context.ids);
            self.of_channel.remove(&(id, ioid));
        }
        context.ids.open = context.ids.open.saturating_sub(1);
        context.emit(time, Fact::ChannelEnd(id));
    }
}
