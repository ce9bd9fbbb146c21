//! Starts and stops of monitors.

use iocrec_log::event::{ChannelId, Fact, PvaMonitor};

use super::context::{Context, Ids};
use super::{Session, LAST};

/// Subcommands of MONITOR.
const MONITOR_START: u8 = 0x44;
const MONITOR_STOP: u8 = 0x04;

impl Session {
    pub(super) fn monitor(
        &mut self,
        time: u64,
        subcommand: u8,
        (sid, ioid): (u32, u32),
        context: &mut Context,
    ) {
        if subcommand & MONITOR_START == MONITOR_START {
            let channel = self.channel_of(time, sid, context);
            if !self.monitors.contains_key(&ioid) {
                self.make_room(self.monitors.len(), context, |session, ids| {
                    let old = session.monitors.keys().next().copied();
                    old.is_some_and(|old| session.forget_monitor(old, ids).is_some())
                });
                context.ids.open += 1;
                self.monitors.insert(ioid, channel);
                self.of_channel.insert((channel, ioid));
            }
            self.report_monitor(time, channel, ioid, true, context);
        } else if subcommand & (MONITOR_STOP | LAST) != 0 {
            self.stop(time, ioid, context);
        }
    }

    pub(super) fn stop(&mut self, time: u64, ioid: u32, context: &mut Context) {
        if let Some(channel) = self.forget_monitor(ioid, context.ids) {
            self.report_monitor(time, channel, ioid, false, context);
        }
    }

    fn report_monitor(
        &mut self,
        time: u64,
        channel: ChannelId,
        ioid: u32,
        starts: bool,
        context: &mut Context,
    ) {
        let circuit = self.number(time, context);
        context.emit(time, Fact::PvaMonitor(PvaMonitor { circuit, channel, ioid, starts }));
    }

    pub(super) fn forget_monitor(&mut self, ioid: u32, ids: &mut Ids) -> Option<ChannelId> {
        let channel = self.monitors.remove(&ioid)?;
        if !self.requests.contains_key(&ioid) {
            self.of_channel.remove(&(channel, ioid));
        }
        ids.open = ids.open.saturating_sub(1);
        Some(channel)
    }
}
