//! Where events go: into a log, or onto the terminal.

use iocrec_log::event::{CallSite, CallSiteId, Event};

/// Takes events in roughly the order of their times.
pub trait Sink {
    /// Takes one. Never fails: a sink that cannot keep it counts it.
    fn push(&mut self, event: Event);

    /// Called some twenty times a second with the monotonic time.
    fn tick(&mut self, now: u64);

    /// Since when the process that waits longest to be looked at has waited, if any does: `iocrec status` shows it.
    fn inspecting(&mut self, _since: Option<u64>) {}

    /// Takes the definition of a call site whose function and module are still unknown. Later events may refer to it, so a
    /// sink that can holds them back until [`Sink::site`] brings both, or until that takes too long.
    fn await_site(&mut self, time: u64, site: CallSite) {
        self.push(Event { time, fact: iocrec_log::event::Fact::CallSite(site) });
    }

    /// The function and the module of an awaited call site; empty where they are not known.
    fn site(&mut self, _id: CallSiteId, _function: String, _module: String) {}

    /// Does anything wait for a call site?
    fn awaits(&self) -> bool {
        false
    }

    /// Bytes that it has put on a disk so far, where it does.
    fn written(&self) -> Option<u64> {
        None
    }

    /// Something that people should read now, if there is.
    fn notice(&mut self) -> Option<String> {
        None
    }
}
