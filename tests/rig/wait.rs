//! Waiting for conditions, with a limit for what never comes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Long, since a busy machine is no defect.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between two looks: first, and after a second.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(100);

/// Waits for a condition; fails the test when it does not come.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        // most conditions run the reader: asked all the time, they would take the time that they wait for
        thread::sleep((begin.elapsed() / 10).clamp(SOON, LATER));
    }
}

/// How late the machine itself is: the time for which a thread that only sleeps was not woken.
///
/// Requirements such as "exits within a second" hold for a machine that runs its processes. Tests of them allow for this
/// delay, so that they hold on a busy machine, too, and are as strict as the requirement on an idle one.
pub struct Delays {
    nanoseconds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Delays {
    /// Starts to measure.
    pub fn measure() -> Delays {
        const STEP: Duration = Duration::from_millis(2);
        let delays = Delays { nanoseconds: Arc::default(), stop: Arc::default() };
        let (nanoseconds, stop) = (delays.nanoseconds.clone(), delays.stop.clone());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let begin = Instant::now();
                thread::sleep(STEP);
                // an idle machine is late by less than a step
                let late = begin.elapsed().saturating_sub(STEP * 2).as_nanos();
                nanoseconds.fetch_add(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        delays
    }

    /// The delay since the start, all together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

impl Drop for Delays {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
