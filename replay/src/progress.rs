//! How far the reading of logs has come.
//!
//! All commands read logs through [`Scan`](crate::reading::scan::Scan), one or several at a time. Each counts here the bytes that
//! it has passed, whether read or skipped; a single observer sees the sum. When no scan is left, counting begins anew.

use std::cell::RefCell;

/// A position in the logs that are being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes passed.
    pub read: u64,
    /// Bytes of all segments to be read.
    pub total: u64,
    /// Wall-clock time of the latest events, nanoseconds since 1970 UTC, where known.
    pub time: Option<i64>,
}

type Observer = Box<dyn FnMut(&Position)>;

#[derive(Default)]
struct State {
    position: Position,
    scans: usize,
    observer: Option<Observer>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Calls `observer` in this thread after each block that is read.
pub fn watch(observer: impl FnMut(&Position) + 'static) {
    STATE.with_borrow_mut(|state| state.observer = Some(Box::new(observer)));
}

/// The part of one scan.
#[derive(Debug)]
pub struct Share {
    read: u64,
}

impl Share {
    /// Begins a scan of so many bytes.
    pub fn begin(total: u64) -> Share {
        STATE.with_borrow_mut(|state| {
            state.scans += 1;
            state.position.total = state.position.total.saturating_add(total);
        });
        Share { read: 0 }
    }

    /// Notes that the scan has passed `read` bytes in all, and has come to this time.
    pub fn passed(&mut self, read: u64, time: Option<i64>) {
        let more = read.saturating_sub(self.read);
        self.read = self.read.max(read);
        STATE.with_borrow_mut(|state| {
            state.position.read = state.position.read.saturating_add(more);
            state.position.time = time.or(state.position.time);
            if let Some(observer) = &mut state.observer {
                observer(&state.position);
            }
        });
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A thread that ends has nothing to show.
        let _ = STATE.try_with(|state| {
            let Ok(mut state) = state.try_borrow_mut() else { return };
            state.scans = state.scans.saturating_sub(1);
            if state.scans == 0 {
                state.position = Position::default();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn scans_at_the_same_time_add_up() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let noted = Rc::clone(&seen);
        watch(move |position| noted.borrow_mut().push((position.read, position.total, position.time)));
        let (mut one, mut other) = (Share::begin(100), Share::begin(50));
        one.passed(10, Some(1));
        other.passed(5, None);
        one.passed(10, Some(2));
        drop(one);
        other.passed(50, Some(3));
        drop(other);
        Share::begin(7).passed(7, None);
        let expected =
            [(10, 150, Some(1)), (15, 150, Some(1)), (15, 150, Some(2)), (60, 150, Some(3)), (7, 7, None)];
        assert_eq!(*seen.borrow(), expected);
    }
}
