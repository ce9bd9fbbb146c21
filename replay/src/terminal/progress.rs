//! The line that shows how far the reading has come.
//!
//! It appears on standard error when that is a terminal, a second after the start, and is gone at the end. It must not
//! disturb what is printed: it ends for good when output begins that may go to the same terminal, by itself or through
//! a pager.

use super::standard_error;
use super::style::is_dumb;
use crate::progress::{watch, Position};
use crate::time::Zone;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What takes no longer needs no line.
const AFTER: Duration = Duration::from_secs(1);
/// Time between two updates.
const EVERY: Duration = Duration::from_millis(200);

/// Held while the line is shown or removed: output may begin on another thread.
static LINE: Mutex<()> = Mutex::new(());
/// Whether the line is shown now.
static SHOWN: AtomicBool = AtomicBool::new(false);
/// Whether it may be shown no more.
static ENDED: AtomicBool = AtomicBool::new(false);
/// Whether times are in UTC.
static UTC: AtomicBool = AtomicBool::new(false);

/// Shows progress from now on, if there is somebody to see it.
pub fn start() {
    if !standard_error().is_terminal() || is_dumb() {
        return;
    }
    let mut next = Instant::now() + AFTER;
    let mut zone = None;
    watch(move |position| {
        let now = Instant::now();
        if position.read >= position.total {
            return clear(); // all is read, and a log that grows is only waited for
        }
        if now >= next && !ENDED.load(Relaxed) {
            next = now + EVERY;
            let zone = zone.get_or_insert_with(|| match UTC.load(Relaxed) {
                true => Zone::utc(),
                false => Zone::local().0,
            });
            show(&describe(position, zone));
        }
    });
}

/// Sets whether times are in UTC.
pub fn in_utc(utc: bool) {
    UTC.store(utc, Relaxed);
}

/// Removes the line until it is next due.
pub fn clear() {
    let _held = hold();
    remove();
}

/// Removes the line for good.
pub fn end() {
    let _held = hold();
    ENDED.store(true, Relaxed);
    remove();
}

fn hold() -> MutexGuard<'static, ()> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the line. Call it while [`LINE`] is held.
fn remove() {
    if SHOWN.swap(false, Relaxed) {
        // If standard error is closed, nobody sees the line.
        let _ = standard_error().write_all(b"\r\x1b[K");
    }
}

/// Shows the line in the place of the one before. It is cut at the edge of the terminal, not continued below, since only
/// one line can be removed.
fn show(text: &str) {
    let _held = hold();
    if ENDED.load(Relaxed) {
        return; // output has begun meanwhile
    }
    SHOWN.store(true, Relaxed);
    let line = format!("\r\x1b[?7l{text}\x1b[K\x1b[?7h");
    let _ = standard_error().write_all(line.as_bytes());
}

fn describe(position: &Position, zone: &Zone) -> String {
    let Position { read, total, time } = *position;
    let percent = u128::from(read.min(total)) * 100 / u128::from(total.max(1));
    let mut text = match total {
        0..1_000_000 => format!("iocreplay: {percent:>2} % of {} kB read", total.div_ceil(1000)),
        _ => format!("iocreplay: {percent:>2} % of {:.1} MB read", total as f64 / 1e6),
    };
    if let Some(time) = time {
        text.push_str(", at ");
        zone.push(&mut text, time, 0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_and_which_time() {
        let text = |read, total, time| describe(&Position { read, total, time }, &Zone::utc());
        assert_eq!(text(0, 0, None), "iocreplay:  0 % of 0 kB read");
        let time = Some(1_790_000_000_000_000_000);
        assert_eq!(
            text(32_000_000, 67_100_000, time),
            "iocreplay: 47 % of 67.1 MB read, at 2026-09-21T14:13:20+00:00"
        );
        assert_eq!(text(u64::MAX, 10, None), "iocreplay: 100 % of 1 kB read");
    }
}
