//! Probes in IOCs: the functions to probe, the safe places in them, placing and removing probes, and the tier of BPF
//! programs that serves them.
//!
//! [`tiers`] opens the best tier that works here and tries it on this very program (`self_test`). [`catalog`] lists the
//! functions and the program of each. [`probe`] inspects an IOC's functions and places its probes through [`attacher`];
//! `place`, `instruction` and `lead` decide where a probe may go, [`neighbours`] when. [`removal`], [`deferred_close`] and [`stale_events`]
//! clean up.

pub mod attacher;
pub mod catalog;
pub mod deferred_close;
mod instruction;
pub mod kernel;
pub mod layouts;
mod lead;
pub mod neighbours;
pub mod not_probed;
pub mod place;
pub mod probe;
pub mod removal;
mod self_test;
pub mod stale_events;
pub mod thread;
pub mod tiers;
