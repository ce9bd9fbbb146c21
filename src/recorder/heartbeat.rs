//! The loop's last round and its oldest backlog, for `iocrec status`.
//!
//! The loop writes it, the thread that answers requests reads it. So it is right even of a loop that hangs and can't
//! say so itself.

use std::sync::{Arc, Mutex, PoisonError};

/// Times as of [`crate::linux::clock::monotonic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When the loop last came round; `None` before the first time, while IOCs are looked for.
    pub looped: Option<u64>,
    /// Since when the oldest process waits to be looked at, if any does.
    pub inspecting: Option<u64>,
}

/// The loop's end and the reader's end: clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<Mutex<Times>>);

impl Heartbeat {
    /// The loop has come round.
    pub fn beat(&self, now: u64) {
        self.change(|times| times.looped = Some(now));
    }

    /// Since when the oldest process waits to be looked at; `None` if none does.
    pub fn inspecting(&self, since: Option<u64>) {
        self.change(|times| times.inspecting = since);
    }

    /// The times as they are now.
    pub fn times(&self) -> Times {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
