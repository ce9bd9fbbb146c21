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

mod answers;
pub mod clocks;
pub mod collector;
pub mod commands;
mod destination;
pub mod failure;
mod filter;
pub mod follow;
pub mod found;
mod in_place;
pub mod live;
mod logs;
pub mod model;
pub mod names;
pub mod nothing_found;
mod notices;
pub mod operands;
pub mod out;
pub mod output;
pub mod pattern;
pub mod pods;
pub mod program;
pub mod progress;
mod reading;
mod recent;
pub mod redact;
mod room;
pub mod shown_names;
mod suggest;
pub mod tables;
pub mod terminal;
pub mod time;
mod unfinished;
mod width;
pub mod wording;
pub mod words;
mod writing;

pub use answers::alarms::Alarms;
pub use answers::chains::Chains;
pub use answers::events::{Events, RunEvent};
pub use answers::puts::Puts;
pub use answers::values::{Entry, History, Values};
pub use answers::{
    attached, clients, console, files, hangs, happened, inputs, inventory, last, network, processes,
    recorded, resources, snapshots, states, summary, undo,
};
pub use filter::Filter;
pub use iocrec_log::{event, value};
pub use logs::{Logs, OpenError, OpenOptions};
pub use model::alarms::AlarmLine;
pub use model::chain::Chain;
pub use model::history::ValueLine;
pub use model::putlog::PutLine;
pub use notices::{Notice, Notices};
pub use pattern::Pattern;
pub use reading::{namesakes, runs, scan};
pub use recent::Recent;
