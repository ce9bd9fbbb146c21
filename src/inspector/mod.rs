//! Threads that look at processes and place probes, so that the recorder's loop waits for neither.
//!
//! [`worker`] is what they do, `queue` whose turn it is, [`arrivals`] which processes are new.

pub mod arrivals;
mod queue;
pub mod worker;
