//! Where facts come from: each source is one thing with one interface, which the loop asks in turn.
//!
//! The order of the sources matters. In every round the loop asks all of them, and each finds what those before it have
//! brought: packets come before hits, since they have the names of channels that puts refer to; hits before what helper
//! threads have found out of processes, since what an IOC did last comes before its end. A new source goes where its
//! facts are needed, in [`super::Recorder::new`].

pub mod channel_access;
pub mod hits;
pub mod readings;
pub mod sampling;
pub mod server_threads;

use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::LossSource;

use crate::recorder::context::Context;
use crate::recorder::error::StartError;

/// How often waiting hits and packets are taken over. The ring holds eight times what a busy IOC (20,000
/// hits/s of 64 bytes) makes in this time; it wakes the recorder earlier when a quarter has filled.
pub const ROUND: Duration = Duration::from_millis(50);

/// What a source has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where.
    pub source: LossSource,
    /// How much; nothing is said of 0.
    pub count: u64,
    /// Why.
    pub cause: &'static str,
}

/// A source of facts. None of its calls may wait for anything but memory, and none may fail: what goes wrong becomes a
/// message, a loss or a shortfall.
pub trait Source {
    /// Descriptors that can be read when there is something to take. They stay open as long as the source is not changed.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Begins: called once, before anything is taken.
    fn begin(&mut self, _cx: &mut Context<'_>) {}

    /// The start is over, and IOCs that come from now on have not been there at first. `is_through`: all that was there has
    /// been found.
    ///
    /// # Errors
    /// What the user asked for cannot be recorded at all.
    fn started(&mut self, _cx: &mut Context<'_>, _is_through: bool) -> Result<(), StartError> {
        Ok(())
    }

    /// Takes over what waits, some twenty times a second. True if there may be more.
    fn take(&mut self, cx: &mut Context<'_>) -> bool;

    /// A traced process has ended: what it did last has been taken.
    fn process_ended(&mut self, _cx: &mut Context<'_>) {}

    /// Looks for processes that came and went, each second: what those that went did last has been taken.
    fn survey(&mut self, _cx: &mut Context<'_>) {}

    /// Adapts to what has become known of traced IOCs: after a change, and each second.
    fn adapt(&mut self, _cx: &mut Context<'_>) {}

    /// Does what is to be done each second.
    fn second(&mut self, _cx: &mut Context<'_>) {}

    /// What was lost since last asked.
    fn lost(&mut self) -> Vec<Lost> {
        Vec::new()
    }

    /// Has all been found that was there when the recorder began? The start waits for that, for some seconds.
    fn is_through(&self) -> bool {
        true
    }

    /// Has all been answered that was asked for the facts so far? The end waits for that, for a moment.
    fn is_settled(&self) -> bool {
        true
    }

    /// Nothing new is recorded from now on; what is on its way is still taken.
    fn stop(&mut self, _cx: &mut Context<'_>) {}

    /// Hands over what is left. Nothing is taken after that.
    fn finish(&mut self, _cx: &mut Context<'_>) {}
}
