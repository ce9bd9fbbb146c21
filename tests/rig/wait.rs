//! Waiting for conditions, with a limit for what never comes.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Long, since a busy machine is no defect.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition; fails the test when it does not come.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
