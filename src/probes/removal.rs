//! Probes are taken out one after the other, on a thread of their own, while none is being placed.
//!
//! The kernel lets nobody else place a probe while one is taken out, which takes it a grace period, 0.02 to 0.2 s: an IOC
//! that is started again would be recorded seconds later if the 13 probes of what it was before went first. Those
//! of a process that has ended harm nobody meanwhile: they are bound to it. So they wait, though not for ever.

use std::any::Any;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// So long after the last probe was placed no other follows at once: IOCs that start together do so within this.
const CALM: Duration = Duration::from_secs(1);
/// So long a probe waits at most: their number, and that of their descriptors, has a bound.
const LONGEST: Duration = Duration::from_secs(10);

/// What goes on.
struct State {
    /// Probes that are being placed.
    placing: usize,
    /// When one was last.
    last: Option<Instant>,
    /// Places that must be free before a probe can be placed there.
    wanted: usize,
}

static STATE: Mutex<State> = Mutex::new(State { placing: 0, last: None, wanted: 0 });
static CHANGED: Condvar = Condvar::new();

/// Something that is dropped, and when that was asked for.
type Order = (Instant, Box<dyn Any + Send>);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes probes out without waiting for it.
pub fn aside<T: Any + Send>(probes: impl IntoIterator<Item = T>) {
    static ORDERS: OnceLock<Option<Sender<Order>>> = OnceLock::new();
    let start = || {
        let (orders, received) = channel();
        let thread = std::thread::Builder::new().name("detach".into());
        thread.spawn(move || carry_out(&received)).ok().map(|_| orders)
    };
    let orders = ORDERS.get_or_init(start);
    for probe in probes {
        // where there can be no thread they are dropped here
        let _ = orders.as_ref().map(|orders| orders.send((Instant::now(), Box::new(probe))));
    }
}

fn carry_out(orders: &Receiver<Order>) {
    for (since, probe) in orders {
        let mut state = state();
        while let Some(pause) = pause(&state, since, Instant::now()) {
            state = CHANGED.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        drop(probe);
    }
}

/// How long to wait with a probe that is to go since then; `None`: not at all.
fn pause(state: &State, since: Instant, now: Instant) -> Option<Duration> {
    let left = LONGEST.checked_sub(now.duration_since(since)).filter(|left| !left.is_zero())?;
    let calm = match state.last {
        _ if state.wanted > 0 => return None,
        _ if state.placing > 0 => CALM,
        Some(last) => CALM.checked_sub(now.duration_since(last)).filter(|calm| !calm.is_zero())?,
        None => return None,
    };
    Some(calm.min(left))
}

/// A probe is being placed until this is dropped.
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

/// Probes are waited for that are to go until this is dropped.
pub struct Wanted(());

/// Begins to wait until probes are gone.
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
    fn they_wait_while_others_are_placed() {
        let since = Instant::now();
        let after = |state: &State, seconds: u64| pause(state, since, since + Duration::from_secs(seconds));
        let of = |placing, last: Option<u64>, wanted| State {
            placing,
            last: last.map(|seconds| since + Duration::from_secs(seconds)),
            wanted,
        };
        assert_eq!(after(&of(0, None, 0), 0), None, "none was ever placed");
        assert_eq!(after(&of(1, None, 0), 0), Some(CALM));
        assert_eq!(after(&of(0, Some(5), 0), 5), Some(CALM));
        assert_eq!(after(&of(0, Some(5), 0), 6), None);
        assert_eq!(after(&of(1, Some(5), 1), 5), None, "it is in the way");
        assert_eq!(after(&of(1, Some(9), 0), 10), None, "it has waited long enough");
    }

    #[test]
    fn they_go() {
        let (tell, told) = channel::<()>();
        aside([tell.clone(), tell]);
        assert!(told.recv_timeout(Duration::from_secs(30)).is_err(), "both were dropped");
    }
}
