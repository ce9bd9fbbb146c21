//! Memory of events that have been read, for those that are read next.
//!
//! The events of a block take a megabyte and live for a moment. Some allocators give so much back to the kernel at once
//! and have to fetch it anew page by page: that was a sixth of the time of reading with musl's.

use crate::event::Event;
use std::sync::Mutex;

/// Vectors that are kept: as many as threads may wait for, 5 MB with the recorder's blocks.
const KEPT: usize = 4;
/// The largest that is kept, events: what the recorder's largest blocks need.
const LARGEST: usize = 1 << 15;

static SPARE: Mutex<Vec<Vec<Event>>> = Mutex::new(Vec::new());

/// An empty vector with room for this many.
pub fn take(count: usize) -> Vec<Event> {
    let spare = SPARE.try_lock().ok().and_then(|mut spare| {
        let place = spare.iter().position(|events| events.capacity() >= count)?;
        Some(spare.swap_remove(place))
    });
    // Small blocks would keep the memory of large ones busy.
    spare.filter(|_| count > 0).unwrap_or_else(|| Vec::with_capacity(count))
}

/// The events in memory that suits their number: where few of a block's are wanted, or kept, dozens of blocks wait.
pub fn fit(mut events: Vec<Event>) -> Vec<Event> {
    if events.capacity() / 3 <= events.len() / 2 {
        return events;
    }
    let mut fitting = Vec::with_capacity(events.len());
    fitting.append(&mut events);
    give_back(events);
    fitting
}

/// Takes the memory of events that have been read.
pub fn give_back(mut events: Vec<Event>) {
    if !(1..=LARGEST).contains(&events.capacity()) {
        return;
    }
    events.clear();
    if let Ok(mut spare) = SPARE.try_lock() {
        if spare.len() < KEPT {
            spare.push(events);
        }
    }
}
