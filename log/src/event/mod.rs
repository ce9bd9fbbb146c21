//! The events of a log: what the recorder noted, as facts.
//!
//! An [`Event`] is a time and a [`Fact`]. Each fact is of a [`Class`]. *Definitions* ([`Host`], [`Ioc`], [`Thread`],
//! [`Record`], [`Field`], [`CallSite`], [`Circuit`], [`Channel`] ...) give a number to something that lasts; a later
//! definition with the same number replaces the earlier one. *Ends* put definitions out of force. *Hits* ([`CaPut`],
//! [`Put`], [`Process`] ...) say that something happened, and refer to definitions by their numbers. *Notes* ([`Loss`],
//! the operator's mark ...) are for people. The recorder interprets nothing that a reader could interpret later.
//!
//! One recorder run gives out the numbers, and they mean nothing outside of it. Every segment of a run repeats the
//! definitions that are in force when it begins, so that it can be read alone.
//!
//! Promises of the encoding (postcard, see docs/format.md): variants are only ever added at the end of an enum, and the
//! members of a struct never change, so logs of every version stay readable.
//!
//! **A new fact** is its struct in [`definitions`], [`hits`] or [`notes`], a row at the end of the table in `table.rs`,
//! and a row in docs/format.md; a definition also says there how it lives ([`Definition`]). The rest follows: its number,
//! keyframes, what ends it, `iocreplay info`. Then the agent needs a source for it, and the reader a use. The tests ask
//! for a strategy that makes it (tests/common/facts.rs) and for a golden segment (tests/golden.rs).

pub mod definitions;
pub mod hits;
mod ids;
pub mod life;
pub mod notes;
mod table;
mod value;

pub use definitions::*;
pub use hits::*;
pub use ids::*;
pub use life::Definition;
pub use notes::*;
pub(crate) use table::for_each_fact;
pub use table::{Class, Fact, Kind};
pub use value::*;

use serde::{Deserialize, Serialize};

/// A fact and when it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the host's CLOCK_MONOTONIC (since boot, not counting sleep). [`Clock`] facts
    /// tie it to the calendar.
    pub time: u64,
    /// What was seen.
    pub fact: Fact,
}
