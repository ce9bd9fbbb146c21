//! The circuit that each thread of a CA server serves.

use crate::recorder::context::Context;
use crate::recorder::sources::Source;

/// Ties threads to circuits as these get their ids.
pub struct ServerThreads;

impl Source for ServerThreads {
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        cx.circuits.tie_threads(&mut cx.env);
        false
    }
}
