//! SIGINT and SIGTERM end following in good order: what was printed is remembered, and a private spool removed. The
//! second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether such a signal came.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on, these signals only set this.
    pub fn catch() -> Stop {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Fails for signals that can't be caught, which these are not. The order counts.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop));
            let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
        }
        Stop(stop)
    }

    /// Whether one came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
