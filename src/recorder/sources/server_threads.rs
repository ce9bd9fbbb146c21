//! The circuit that each thread of a CA server serves.

use std::time::Duration;

use crate::recorder::context::Context;
use crate::recorder::sources::{Resting, Source, ROUND, UNTIL_WOKEN};

/// Ties threads to circuits as these get their ids.
pub struct ServerThreads;

impl Source for ServerThreads {
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        cx.circuits.tie_threads(&mut cx.env, false);
        false
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        if cx.circuits.server_threads.unknown.is_empty() {
            UNTIL_WOKEN
        } else {
            ROUND
        }
    }
}
