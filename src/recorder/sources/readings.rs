//! Readings of traced IOCs' memory: fields after puts, scan lists, names of states, PACT of records that
//! seem to hang.

use std::time::Duration;

use crate::recorder::context::Context;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::sources::{Resting, Source, ROUND, UNTIL_WOKEN};

/// Nanoseconds that a record may take to process before it is checked.
const PROCESSING: u64 = 1_000_000_000;

/// See the module.
pub struct Readings;

impl Source for Readings {
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let now = cx.env.monotonic();
        cx.iocs.iter_mut().for_each(|ioc| ioc.read_due(&mut cx.env, now));
        false
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        if cx.iocs.iter().any(TracedIoc::has_reads) {
            ROUND
        } else {
            UNTIL_WOKEN
        }
    }

    fn second(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.now;
        cx.iocs.iter_mut().for_each(|ioc| ioc.look_for_scan_lists(&mut cx.env, now));
        cx.iocs.iter_mut().for_each(|ioc| ioc.read_states(&mut cx.env, now, false));
        cx.iocs.iter_mut().for_each(|ioc| ioc.check_pact(&mut cx.env, now.saturating_sub(PROCESSING)));
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.monotonic();
        cx.iocs.iter_mut().for_each(|ioc| ioc.check_pact(&mut cx.env, now));
        cx.iocs.iter_mut().for_each(|ioc| ioc.read_states(&mut cx.env, now, true));
    }
}
