//! The beat: what each recorded IOC uses of the machine, once a second.
//!
//! It reads files of /proc that never block ([`crate::health`]), before the loop looks for processes that have ended.

use std::time::Duration;

use crate::recorder::context::Context;
use crate::recorder::sources::{Resting, Source, UNTIL_WOKEN};

/// Descriptors that the beats of all IOCs may hold: those of 100 IOCs of 20 threads. A quarter of what this process may
/// open at most, since the probes need some, too.
const MAX_DESCRIPTORS: u64 = 2048;

/// See the module.
pub struct Health {
    /// Descriptors that may be open.
    allowed: usize,
}

impl Health {
    /// Creates it.
    pub fn new() -> Health {
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit fills the struct, which outlives the call.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) } == 0;
        // the type of the limit has 32 bits on some targets
        #[allow(clippy::useless_conversion)]
        let limit = if known { u64::from(files.rlim_cur) } else { 0 };
        Health { allowed: (limit / 4).min(MAX_DESCRIPTORS) as usize }
    }
}

impl Source for Health {
    fn take(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        UNTIL_WOKEN
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.monotonic();
        let mut open: usize = cx.iocs.iter().map(|ioc| ioc.health.threads.descriptors()).sum();
        for ioc in cx.iocs.iter_mut().filter(|ioc| !ioc.end_noticed) {
            let before = ioc.health.threads.descriptors();
            ioc.health.threads.beat(ioc.pid, now, None, self.allowed.saturating_sub(open));
            ioc.judge_threads(&mut cx.env, now);
            open = open.saturating_sub(before) + ioc.health.threads.descriptors();
        }
    }
}
