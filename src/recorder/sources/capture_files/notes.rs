//! What the log says of the capture itself.

use iocrec_log::event::{Clock, Fact, Host, Loss, LossSource, Tier, TierChoice};

use super::machines::MACHINES;
use super::CaptureFiles;
use crate::linux::clock::{self, Clock as _};
use crate::net::capture_file::{FileError, Problem};
use crate::recorder::context::Context;

impl CaptureFiles {
    /// Begins the log, at the time of the first packet.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, time: u64) {
        self.until = self.duration.map(|all| time.saturating_add(all.as_nanos() as u64));
        let unknown = String::new;
        // nothing is known of the machine that captured; times are shown as this one's zone has them
        let host = Host {
            name: unknown(),
            kernel: unknown(),
            arch: unknown(),
            boot_id: unknown(),
            recorder: env!("CARGO_PKG_VERSION").into(),
            utc_offset: clock::utc_offset(),
        };
        cx.env.push(time, Fact::from(host));
        self.note_clock(cx, time);
        let reason = || "packets are read from a capture file".to_owned();
        let refused = vec![(Tier::Ring, reason()), (Tier::Perf, reason())];
        cx.env.push(time, Fact::Tier(TierChoice { tier: Tier::Packet, refused }));
        if cx.env.options.net {
            cx.circuits.count_traffic();
        }
        cx.circuits.serve(time, self.flows.ports(), MACHINES);
        self.counted = time;
        let selected = [(0, self.selected.clone())].into();
        self.datagrams.set_selected(time, &selected, &mut self.facts);
    }

    pub(super) fn note_clock(&self, cx: &mut Context<'_>, time: u64) {
        let wall = self.clock.wall_offset().saturating_add_unsigned(time);
        cx.env.push(time, Fact::Clock(Clock { wall }));
    }

    /// The capturing program says that it lost packets.
    pub(super) fn dropped(&mut self, cx: &mut Context<'_>, count: u64) {
        self.outcome.borrow_mut().dropped += count;
        self.note_lost(cx, count, "the capturing program lost packets, as the file says".into());
    }

    /// A file can't be read to its end.
    pub(super) fn failed(&mut self, cx: &mut Context<'_>, error: FileError) {
        if matches!(error.problem, Problem::Cut { .. } | Problem::Damaged { .. } | Problem::Read { .. }) {
            self.note_lost(cx, 1, format!("at least one packet, since {error}"));
        }
        self.outcome.borrow_mut().errors.push(error);
    }

    fn note_lost(&self, cx: &mut Context<'_>, count: u64, cause: String) {
        let span = self.outcome.borrow().span;
        self.note_loss(cx, span, count, cause);
    }

    pub(super) fn note_loss(
        &self,
        cx: &mut Context<'_>,
        span: Option<(u64, u64)>,
        count: u64,
        cause: String,
    ) {
        let Some((since, _)) = span else { return };
        let loss = Loss { source: LossSource::Packets, count, since, cause };
        cx.env.push(self.clock.now(), Fact::Loss(loss));
    }
}
