//! The loop's last round and its oldest backlog, for `iocrec status`.
//!
//! The loop writes it; the thread that answers requests reads it. So it is right even if the loop hangs and cannot
//! report it.

use std::sync::{Arc, Mutex, PoisonError};

/// Times as of [`crate::linux::clock::monotonic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time of the loop's last round; `None` before the first, while it looks for IOCs.
    pub looped: Option<u64>,
    /// Since when the oldest process has waited for inspection, if any waits.
    pub inspecting: Option<u64>,
}

/// The loop's end and the reader's end: clones share one value.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<Mutex<Times>>);

impl Heartbeat {
    /// Notes a round of the loop.
    pub fn beat(&self, now: u64) {
        self.change(|times| times.looped = Some(now));
    }

    /// Sets since when the oldest process has waited; `None` if none waits.
    pub fn inspecting(&self, since: Option<u64>) {
        self.change(|times| times.inspecting = since);
    }

    /// The current times.
    pub fn times(&self) -> Times {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
