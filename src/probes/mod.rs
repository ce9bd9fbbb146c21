//! Probes in IOCs: which functions, where in them, whether it is safe there, and how they are placed and taken out.
//!
//! [`catalog`] lists the functions and the program of each; `place`, `instruction` and `lead` decide where a probe may stand;
//! [`probe`] looks at an IOC and places its probes by way of [`attacher`].

pub mod attacher;
pub mod catalog;
pub mod deferred_close;
mod instruction;
pub mod kernel;
pub mod layouts;
mod lead;
pub mod not_probed;
pub mod place;
pub mod probe;
pub mod removal;
mod self_test;
pub mod stale_events;
pub mod thread;
pub mod tiers;
