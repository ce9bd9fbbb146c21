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
            let running = self.monitors.get(&ioid).copied();
            if running == Some(channel) {
                return;
            }
            if running.is_none() {
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
        if self.requests.get(&ioid).is_none_or(|request| request.channel != channel) {
            self.of_channel.remove(&(channel, ioid));
        }
        ids.open = ids.open.saturating_sub(1);
        Some(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::packet::End;
    use crate::net::protocol::{Ends, Start};
    use crate::pva::message::PUT;
    use crate::pva::session::SessionLimits;
    use crate::pva::types::Types;
    use epics::pva::Cursor;

    /// A client may have a monitor and a request of two channels with one number, over and over again.
    #[test]
    fn nothing_is_left_of_what_has_ended() {
        let end = End::v6(1, 5075);
        let (start, listener) = (Start::Opened, None);
        let ends = Ends { namespace: 0, client: end, server: end, start, listener, is_guess: false };
        let (mut ids, mut types, mut out) = (Ids::default(), Types::default(), Vec::new());
        let limits = SessionLimits { circuit: 100, all: 100, own: 1, payload: 64 };
        let mut context = Context { ids: &mut ids, types: &mut types, limits, out: &mut out };
        let mut session = Session::new(&ends, false);
        for ioid in 0..1000 {
            let options = &mut Cursor::new(b"\x80\x00\x00", false);
            session.prepare(1, PUT, (2, ioid), options, &mut context).expect("it can be read");
            session.monitor(1, MONITOR_START, (1, ioid), &mut context);
            let stop = |session: &mut Session, context: &mut Context| {
                session.monitor(1, MONITOR_STOP, (1, ioid), context);
            };
            if ioid % 2 == 0 {
                stop(&mut session, &mut context);
                session.give_up(1, ioid, true, &mut context);
            } else {
                session.forget_request(ioid, context.ids);
                stop(&mut session, &mut context);
            }
        }
        assert!(session.of_channel.is_empty(), "{} entries", session.of_channel.len());
        assert_eq!(context.ids.open, session.channels.len());
    }
}
