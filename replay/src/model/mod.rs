//! What the log means: events merged in the order of time, joined to chains and puts.
//!
//! The way of an event: [`source`] reads it and brings it into the order of its run; [`replay`] merges the runs by the
//! wall clock; [`engine`] makes chains of a run's events; [`order`] brings the chains of all runs into order and follows
//! CA links from one to the other. Everything streams: memory is bounded by what happens within the limits that these
//! pages name, and by their MAX_ constants where that is more, not by the length of the logs.
//!
//! All of it is public so that tests can feed it with events of their own. Programs use [`Logs`](crate::Logs).

pub mod caller;
pub mod chain;
pub mod clock;
pub mod engine;
pub mod enum_strings;
pub mod links;
pub mod open_chains;
pub mod order;
pub mod outcome;
pub mod packets;
pub mod putlog;
mod queue;
pub mod replay;
pub mod requests;
pub mod run;
pub mod source;
pub mod stack;
pub mod value;
