//! The events of a log: facts that the recorder noted.
//!
//! An [`Event`] is a time and a [`Fact`]. Each fact has a [`Class`]. *Definitions* ([`Host`], [`Ioc`], [`Thread`],
//! [`Record`], [`Field`], [`CallSite`], [`Circuit`], [`Channel`] ...) assign a number to something that lasts; a later
//! definition with the same number replaces the earlier one. *Ends* put definitions out of force. *Hits* ([`CaPut`],
//! [`Put`], [`Process`] ...) record that something happened, and refer to definitions by their numbers. *Notes*
//! ([`Loss`], the operator's mark ...) are for people. The recorder interprets nothing that a reader could interpret
//! later.
//!
//! One recorder run assigns the numbers, and they mean nothing outside it. Every segment of a run repeats the
//! definitions that are in force when it begins, so that it can be read alone.
//!
//! Promises of the encoding (postcard, see docs/format.md): variants are only ever added at the end of an enum, and the
//! members of a struct never change, so logs of every version stay readable.
//!
//! **To add a fact**, write its struct in [`definitions`], [`hits`], [`deaths`] or [`notes`], and add a row at the end of the table
//! in `table.rs` and a row in docs/format.md. For a definition, also implement [`Definition`] beside its struct. The
//! rest follows: its number, keyframes, its end, `iocreplay info`. Then the agent needs a source for it, and the reader
//! a use. The tests demand a strategy that makes it (tests/random_facts/facts.rs) and a golden segment (tests/golden.rs).

pub mod connections;
pub mod deaths;
pub mod definitions;
pub mod files;
pub mod health;
pub mod hits;
mod ids;
pub mod life;
pub mod notes;
pub mod queues;
pub mod resources;
pub mod stuck;
mod table;
pub mod traffic;
mod value;

pub use connections::*;
pub use deaths::*;
pub use definitions::*;
pub use files::{FileHow, IoFile, IoFileEnd, IoUse, Word};
pub use health::*;
pub use hits::*;
pub use ids::*;
pub use life::Definition;
pub use notes::*;
pub use queues::*;
pub use resources::*;
pub use stuck::*;
pub(crate) use table::for_each_fact;
pub use table::{Class, Fact, Kind};
pub use traffic::*;
pub use value::*;

use serde::{Deserialize, Serialize};

/// A fact and the time at which it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the host's CLOCK_MONOTONIC (since boot, not counting sleep). [`Clock`] facts
    /// tie it to the calendar.
    pub time: u64,
    /// The fact.
    pub fact: Fact,
}
