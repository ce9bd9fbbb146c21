//! Removes probes in the background, while none is being placed.
//!
//! Removing a probe takes the kernel a grace period, 0.02 to 0.2 s, during which none can be placed. Recording of a
//! restarted IOC would begin seconds late if the 13 probes of its former process were removed first. Those do no harm
//! meanwhile, since they are bound to a process that has ended. So their removal waits, but not for ever.
//!
//! Two threads do it: where IOCs start again and again, as one that fails at once under procServ does, one would remove
//! fewer than are placed, until no more files may be open. More would gain nothing ([`crate::probes::deferred_close`]).

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::probes::neighbours;

/// Removal waits until no probe has been placed for this long: IOCs that start together do so within it.
const QUIET: Duration = Duration::from_secs(1);
/// A removal waits at most this long, which bounds the number of probes and descriptors.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Placing and removal in progress.
struct State {
    /// Number of probes that are being placed.
    placing: usize,
    /// Time of the last placing.
    last: Option<Instant>,
    /// Number of places that must be released before a probe can be placed there.
    wanted: usize,
}

static STATE: Mutex<State> = Mutex::new(State { placing: 0, last: None, wanted: 0 });
static CHANGED: Condvar = Condvar::new();
/// Number of removals that wait, or are being carried out.
static WAITING: AtomicU64 = AtomicU64::new(0);
/// Threads that remove.
const THREADS: usize = 2;

/// A value to drop, and the time of the request.
type Order = (Instant, Box<dyn Any + Send>);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes probes in the background.
pub fn aside<T: Any + Send>(probes: impl IntoIterator<Item = T>) {
    for probe in probes {
        order(Box::new(probe));
    }
}

fn order(probe: Box<dyn Any + Send>) {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    // without a thread it is dropped here
    if let Some(orders) = orders(&ORDERS, start) {
        WAITING.fetch_add(1, Ordering::Relaxed);
        let _ = orders.send((Instant::now(), probe));
    }
}

/// Where orders go. If the system has no thread to spare nowhere: the next one asks again.
fn orders(
    known: &'static OnceLock<Sender<Order>>,
    start: fn(Receiver<Order>) -> bool,
) -> Option<&'static Sender<Order>> {
    known.get().or_else(|| {
        let (orders, received) = channel();
        if start(received) {
            // if another thread has begun one meanwhile, this one's has nothing to do and ends
            let _ = known.set(orders);
        }
        known.get()
    })
}

/// Number of probes that wait to be removed. Each holds its descriptors until then.
pub fn waiting() -> u64 {
    WAITING.load(Ordering::Relaxed)
}

fn start(received: Receiver<Order>) -> bool {
    let received = Arc::new(Mutex::new(received));
    let mut has_started = false;
    for _ in 0..THREADS {
        let received = received.clone();
        let work = move || carry_out(&received);
        has_started |= crate::linux::aside::start("detach", Box::new(work)).is_ok();
    }
    has_started
}

fn carry_out(orders: &Mutex<Receiver<Order>>) {
    loop {
        // whoever waits here has nothing else to do
        let order = orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((since, probe)) = order else { return };
        let mut state = state();
        while let Some(pause) = pause(&state, since, Instant::now()) {
            state = CHANGED.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        neighbours::wait();
        drop(probe);
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time to wait before the removal requested at `since`; `None` for no wait.
fn pause(state: &State, since: Instant, now: Instant) -> Option<Duration> {
    let left = MAX_WAIT.checked_sub(now.duration_since(since)).filter(|left| !left.is_zero())?;
    let quiet = match state.last {
        _ if state.wanted > 0 => return None,
        _ if state.placing > 0 => QUIET,
        Some(last) => QUIET.checked_sub(now.duration_since(last)).filter(|quiet| !quiet.is_zero())?,
        None => return None,
    };
    Some(quiet.min(left))
}

/// Marks a probe as being placed while this lives.
pub struct Placing(());

/// Begins to place a probe.
pub fn placing() -> Placing {
    state().placing += 1;
    Placing(())
}

impl Drop for Placing {
    fn drop(&mut self) {
        let mut state = state();
        state.placing = state.placing.saturating_sub(1);
        state.last = Some(Instant::now());
    }
}

/// Marks a wait for removals while this lives.
pub struct Wanted(());

/// Begins to wait for removals.
pub fn wanted() -> Wanted {
    state().wanted += 1;
    CHANGED.notify_all();
    Wanted(())
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = state();
        state.wanted = state.wanted.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_waits_while_others_are_placed() {
        let since = Instant::now();
        let after = |state: &State, seconds: u64| pause(state, since, since + Duration::from_secs(seconds));
        let of = |placing, last: Option<u64>, wanted| State {
            placing,
            last: last.map(|seconds| since + Duration::from_secs(seconds)),
            wanted,
        };
        assert_eq!(after(&of(0, None, 0), 0), None, "none was ever placed");
        assert_eq!(after(&of(1, None, 0), 0), Some(QUIET));
        assert_eq!(after(&of(0, Some(5), 0), 5), Some(QUIET));
        assert_eq!(after(&of(0, Some(5), 0), 6), None);
        assert_eq!(after(&of(1, Some(5), 1), 5), None, "it is in the way");
        assert_eq!(after(&of(1, Some(9), 0), 10), None, "it has waited long enough");
    }

    /// An inspection that removes probes itself takes seconds.
    #[test]
    fn a_thread_that_could_not_be_started_is_started_later() {
        static KNOWN: OnceLock<Sender<Order>> = OnceLock::new();
        let fails: fn(Receiver<Order>) -> bool = |_| false;
        assert!(orders(&KNOWN, fails).is_none());
        assert!(orders(&KNOWN, start).is_some());
        assert!(orders(&KNOWN, fails).is_some(), "it runs");
    }

    #[test]
    fn probes_are_removed() {
        let (sender, receiver) = channel::<()>();
        aside([sender.clone(), sender]);
        assert!(receiver.recv_timeout(Duration::from_secs(30)).is_err(), "both were dropped");
    }

    /// The kernel takes up to 0.2 s for one, and an IOC has dozens.
    #[test]
    fn one_that_takes_long_does_not_hold_up_the_next() {
        struct Slow(Receiver<()>);
        impl Drop for Slow {
            fn drop(&mut self) {
                let _ = self.0.recv_timeout(Duration::from_secs(60));
            }
        }
        let (done, until) = channel::<()>();
        let (sender, receiver) = channel::<()>();
        aside([Slow(until)]);
        aside([sender]);
        let found = receiver.recv_timeout(Duration::from_secs(30));
        assert_eq!(found, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "it was dropped");
        assert!(waiting() > 0, "the other is not gone yet");
        drop(done);
    }
}
