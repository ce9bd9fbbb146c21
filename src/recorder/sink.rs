//! Where events go: into a log, or onto the terminal.

use iocrec_log::event::Event;

/// Takes events in roughly the order of their times.
pub trait Sink {
    /// Takes one. Never fails: what cannot be kept is counted by whoever could not keep it.
    fn push(&mut self, event: Event);

    /// Called some twenty times a second with the monotonic time.
    fn tick(&mut self, now: u64);

    /// Since when the oldest process waits to be looked at, if any does: for those who ask how the recorder does.
    fn inspecting(&mut self, _since: Option<u64>) {}

    /// Bytes that it has put on a disk so far, where it does.
    fn written(&self) -> Option<u64> {
        None
    }

    /// Something that a person should read now, if there is.
    fn notice(&mut self) -> Option<String> {
        None
    }
}
