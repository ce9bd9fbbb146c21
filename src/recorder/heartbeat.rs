//! Whether the recorder's loop goes round, and what it has put off: what `iocrec status` shows beside the log.
//!
//! Written by the loop, read by the thread that answers requests. So it tells the truth of a loop that hangs, which can't
//! say so itself.

use std::sync::{Arc, Mutex, PoisonError};

/// Times as of [`crate::linux::clock::monotonic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beats {
    /// When the loop last came round; `None` before the first time, while IOCs are looked for.
    pub looped: Option<u64>,
    /// Since when the oldest process waits to be looked at, if any does.
    pub inspecting: Option<u64>,
}

/// The loop's end and the reader's end: clones are the same pulse.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<Beats>>);

impl Pulse {
    /// The loop has come round.
    pub fn beat(&self, now: u64) {
        self.change(|beats| beats.looped = Some(now));
    }

    /// Since when the oldest process waits to be looked at; `None` if none does.
    pub fn inspecting(&self, since: Option<u64>) {
        self.change(|beats| beats.inspecting = since);
    }

    /// As they are.
    pub fn beats(&self) -> Beats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Beats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
