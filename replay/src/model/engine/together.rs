//! Requests that came at the same time: one packet may hold several, also for one channel.

use iocrec_log::event::CircuitId;
use std::collections::HashMap;

/// The requests of the latest time.
#[derive(Default)]
pub(super) struct Together {
    time: u64,
    counts: HashMap<CircuitId, u16>,
}

impl Together {
    /// How many came before this one, at its time and in its circuit.
    pub fn count(&mut self, time: u64, circuit: CircuitId) -> u16 {
        if time != self.time {
            self.time = time;
            self.counts.clear();
        }
        let count = self.counts.entry(circuit).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        before
    }
}
