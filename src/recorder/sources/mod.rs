//! Sources of facts, all with one interface. The loop asks them in turn.
//!
//! The order matters: in every round, each source finds the results of those before it. Packets come before hits, since
//! they have the names of channels that puts refer to. Hits come before reports about processes, since an IOC's last
//! hits come before its end. Add a new source in [`super::Recorder::new`], at the place that its facts need.

mod calm;
pub mod capture_files;
pub mod channel_access;
pub mod datagrams;
pub mod deaths;
pub mod files;
pub mod health;
pub mod hits;
pub mod readings;
pub mod sampling;
pub mod server_threads;
pub mod snapshots;
mod stamps;

use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::LossSource;

use crate::recorder::circuits::Circuits;
use crate::recorder::context::Context;
use crate::recorder::error::StartError;
use crate::recorder::registry::Registry;

/// Interval at which waiting hits and packets are taken while some come. The ring holds eight times the hits that a busy IOC (20,000
/// hits/s of 64 bytes) makes in this time; it wakes the recorder earlier when a quarter is full.
pub const ROUND: Duration = Duration::from_millis(50);
/// The same while few hits or datagrams come and none of the hits is a put, if nobody watches: a put wakes the recorder then.
pub const SLOW_ROUND: Duration = Duration::from_millis(100);
/// A source that rests for this long has nothing to do until a descriptor wakes the loop, or another source has changed
/// something.
pub const UNTIL_WOKEN: Duration = Duration::MAX;

/// A loss of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its source.
    pub source: LossSource,
    /// Number lost; 0 means no loss.
    pub count: u64,
    /// Cause.
    pub cause: &'static str,
}

/// What a source may look at before it rests.
pub struct Resting<'a> {
    /// The current time, monotonic, nanoseconds.
    pub now: u64,
    /// Longest time that a hit may wait in the kernel.
    pub patience: Duration,
    /// The traced IOCs.
    pub iocs: &'a Registry,
    /// Channel Access circuits.
    pub circuits: &'a Circuits,
}

/// A source of facts. Its calls never fail: an error becomes a message, a loss or a shortfall. They never wait for
/// other processes, except for bounded reads of their memory.
pub trait Source {
    /// Descriptors that become readable when facts wait. They stay open until the source is changed.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Begins: called once, before anything is taken.
    fn begin(&mut self, _cx: &mut Context<'_>) {}

    /// Ends the start. `is_through`: every IOC that was running has been found.
    ///
    /// # Errors
    /// Nothing of the user's selection can be recorded.
    fn started(&mut self, _cx: &mut Context<'_>, _is_through: bool) -> Result<(), StartError> {
        Ok(())
    }

    /// Takes the waiting facts, at least as often as [`Source::rest`] asks for. True if more may wait.
    fn take(&mut self, cx: &mut Context<'_>) -> bool;

    /// Longest time that it may go without being asked. Called before the loop waits; readable descriptors end the wait
    /// early.
    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        ROUND
    }

    /// Called when a traced process has ended, twice, each time after all waiting facts have been taken.
    fn process_ended(&mut self, _cx: &mut Context<'_>) {}

    /// Looks for started and ended processes, each second, after all waiting facts have been taken.
    fn survey(&mut self, _cx: &mut Context<'_>) {}

    /// Adapts to changes of the traced IOCs: after each change, and each second.
    fn adapt(&mut self, _cx: &mut Context<'_>) {}

    /// Does the work of each second.
    fn second(&mut self, _cx: &mut Context<'_>) {}

    /// Losses since the last call.
    fn lost(&mut self) -> Vec<Lost> {
        Vec::new()
    }

    /// Whether every IOC has been found that was running at the start, and is recorded. The start waits for that, for some seconds.
    fn is_through(&self) -> bool {
        true
    }

    /// Whether all requests that the facts so far have caused are answered. The end waits for that, for a moment.
    fn is_settled(&self) -> bool {
        true
    }

    /// Whether there is nothing left to record: a file has been read to its end. Ends the recording.
    fn is_over(&self) -> bool {
        false
    }

    /// Stops recording; facts on their way are still taken.
    fn stop(&mut self, _cx: &mut Context<'_>) {}

    /// Hands over the rest. Nothing is taken after that.
    fn finish(&mut self, _cx: &mut Context<'_>) {}
}
