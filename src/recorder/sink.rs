//! Destinations of events: a log, or the terminal.

use std::time::Duration;

use iocrec_log::event::{CallSite, CallSiteId, Event};

use crate::recorder::sources::{ROUND, UNTIL_WOKEN};

/// Takes events in roughly the order of their times.
pub trait Sink {
    /// Takes an event. Never fails: a sink that cannot keep the event counts it.
    fn push(&mut self, event: Event);

    /// Called with the monotonic time after each round of the loop, at least as often as [`Sink::rest`] asks for.
    fn tick(&mut self, now: u64);

    /// Longest time from `now` on until it wants the next tick, if no event comes.
    fn rest(&self, _now: u64) -> Duration {
        UNTIL_WOKEN
    }

    /// Longest time that a hit may wait in the kernel before it is taken: people who watch see it by then.
    fn patience(&self) -> Duration {
        ROUND
    }

    /// Sets since when the process that has waited longest for inspection has waited, if any waits: `iocrec status`
    /// shows it.
    fn inspecting(&mut self, _since: Option<u64>) {}

    /// Takes the definition of a call site whose function and module are still unknown. Later events may refer to it,
    /// so a sink that can holds them back until [`Sink::site`] supplies both, or until that takes too long.
    fn await_site(&mut self, time: u64, site: CallSite) {
        self.push(Event { time, fact: iocrec_log::event::Fact::from(site) });
    }

    /// Supplies the function and the module of an awaited call site; empty if unknown.
    fn site(&mut self, _id: CallSiteId, _function: String, _module: String) {}

    /// Whether anything waits for a call site.
    fn awaits(&self) -> bool {
        false
    }

    /// Number of bytes written to a disk so far, if it writes to one.
    fn written(&self) -> Option<u64> {
        None
    }

    /// Number of segments begun so far, if it writes segments.
    fn segments(&self) -> Option<u32> {
        None
    }

    /// A line that people should read now, if there is one.
    fn notice(&mut self) -> Option<String> {
        None
    }
}
