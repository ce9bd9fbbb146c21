//! Reads logs of iocrec, the flight recorder for EPICS IOCs, and explains the recorded events: who wrote to a PV, why a
//! record processed, and what that set off. Needs neither root, nor Linux, nor the recorded host.
//!
//! [`Logs`] opens logs and returns their contents in order of time, with only a bounded part in memory:
//!
//! - [`Logs::events`]: events as recorded, with the definitions in effect;
//! - [`Logs::chains`]: process chains, each a tree of spans, across threads, IOCs and hosts;
//! - [`Logs::puts`]: the put log;
//! - [`Logs::values`]: values of PVs over time;
//! - [`Logs::alarms`]: how alarms changed, and why;
//! - [`Logs::console`]: what IOCs printed;
//! - [`Logs::happened`]: puts, alarms, what IOCs printed, marks, ends and losses in one;
//! - [`Logs::resources`]: what IOCs used of the machine;
//! - [`inventory`] and [`summary`]: the IOCs and records, and what is missing.
//!
//! ```
//! # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
//! use iocreplay::{Filter, Logs};
//!
//! let filter = Filter { pv: vec!["*".into()], ..Filter::default() };
//! for put in Logs::open([log])?.puts(&filter) {
//!     println!("{} {:?}: {:?} -> {:?}", put.time, put.pv, put.old, put.new);
//! }
//! # Ok::<(), iocreplay::OpenError>(())
//! ```
//!
//! Logs are untrusted input: any bytes are read without a panic and in bounded memory. Names and texts are returned as
//! recorded; escape them ([`iocrec_log::escape`]) before you write them to a terminal.
//!
//! Runnable examples are in `replay/examples`. The program is [`program`] with its [`commands`] and [`output`] formats.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod alarms;
mod aliases;
pub mod attached;
mod between;
mod chains;
pub mod clocks;
pub mod collector;
pub mod commands;
pub mod console;
mod ended_unseen;
mod events;
pub mod failure;
pub mod files;
mod filter;
pub mod follow;
pub mod hangs;
pub mod happened;
mod in_place;
pub mod inputs;
pub mod inventory;
pub mod live;
mod logs;
pub mod model;
pub mod names;
pub mod namesakes;
pub mod nothing_found;
mod notices;
pub mod out;
pub mod output;
pub mod pods;
pub mod processes;
pub mod program;
pub mod progress;
mod puts;
mod read_until;
mod recent;
pub mod redact;
pub mod resources;
mod room;
pub mod scan;
mod served;
pub mod snapshots;
pub mod states;
mod suggest;
pub mod summary;
pub mod tables;
pub mod terminal;
pub mod time;
pub mod undo;
mod values;
mod width;

pub use alarms::Alarms;
pub use chains::Chains;
pub use events::{Events, RunEvent};
pub use filter::{Filter, Pattern};
pub use iocrec_log::{event, value};
pub use logs::{Logs, OpenError, OpenOptions};
pub use model::alarms::AlarmLine;
pub use model::chain::Chain;
pub use model::history::ValueLine;
pub use model::putlog::PutLine;
pub use notices::{Notice, Notices};
pub use puts::Puts;
pub use recent::Recent;
pub use values::{Entry, History, Values};
