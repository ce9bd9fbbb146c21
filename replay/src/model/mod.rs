//! The meaning of the log: events merged in order of time, joined into chains and puts.
//!
//! The path of an event: [`source`] reads it and puts it in order within its run; [`replay`] merges the runs by wall
//! clock; [`engine`] makes chains of a run's events; [`order`] sorts the chains of all runs and follows CA links from
//! one to another. Everything streams: memory depends on the events within the limits that these pages name, and on
//! their MAX_ constants where that is more, not on the length of the logs.
//!
//! All of it is public so that tests can feed it their own events. Programs use [`Logs`](crate::Logs).

pub mod activity;
pub mod alarms;
pub mod asides;
pub mod asked;
pub mod attribute;
pub(crate) mod base_types;
pub mod caller;
pub mod chain;
pub mod client;
pub mod commands;
pub mod contention;
pub mod engine;
pub mod enum_strings;
pub mod episodes;
pub(crate) mod fetched;
pub(crate) mod finder;
mod forwarding;
pub mod history;
mod identities;
pub mod input_links;
pub mod inputs;
pub mod kept_put;
mod link_names;
pub mod links;
pub mod links_seen;
pub mod names;
pub mod naming;
pub mod notes;
pub(crate) mod numbered;
pub mod obstacle;
pub mod open_chains;
pub mod order;
pub mod origins;
pub mod outcome;
pub(crate) mod packed_texts;
pub mod packets;
pub mod peers;
pub mod profile;
pub mod properties;
pub mod putlog;
pub use iocrec_log::pva_value;
mod queue;
pub mod quiet;
pub mod replay;
pub mod requests;
pub mod roots;
pub mod run;
pub mod said;
mod selected;
pub mod selection;
pub mod series;
pub mod setting;
mod shared_texts;
pub mod silence;
pub mod small_value;
pub mod source;
pub mod span_ids;
pub mod spans;
pub mod stack;
mod starts;
mod threads;
pub mod unseen;
pub mod updates;
pub mod value;
pub mod weighing;
pub mod who;
pub mod words;
