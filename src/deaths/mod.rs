//! What kills processes: signals sent to them, and crashes, from the programs of bpf/death.bpf.c.
//!
//! [`Deaths::open`] loads the best programs that work here, tries them on a child that it makes and kills ([`self_test`]),
//! and tells what is missing. It has nothing to do with probes: where those are refused, it may work, and the other way
//! round. Nothing here outlives the process.

pub mod contract;
mod event;
mod programs;
pub mod self_test;

pub use event::{parse, Delivered, Event, Sent, What};
pub use programs::{Deaths, Lacks};
