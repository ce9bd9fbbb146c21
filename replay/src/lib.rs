//! Reads logs of iocrec, the flight recorder for EPICS IOCs, and reasons about what was recorded: who wrote to a PV, why a
//! record processed, what that set off. Needs neither root, nor Linux, nor the host that was recorded.
//!
//! [`Logs`] opens logs and gives what is in them, in the order of time, without holding more than a bounded part in memory:
//!
//! - [`Logs::events`]: events as they were recorded, with the definitions in force;
//! - [`Logs::chains`]: process chains, each a tree of spans, across threads, IOCs and hosts;
//! - [`Logs::puts`]: the put log;
//! - [`inventory`] and [`summary`]: which IOCs and records there were, and what is missing.
//!
//! ```
//! # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
//! use iocreplay::{Filter, Logs};
//!
//! let filter = Filter { pv: Some("*".into()), ..Filter::default() };
//! for put in Logs::open([log])?.puts(&filter) {
//!     println!("{} {:?}: {:?} -> {:?}", put.time, put.pv, put.old, put.new);
//! }
//! # Ok::<(), iocreplay::OpenError>(())
//! ```
//!
//! A log is hostile until it has been read: any bytes are read without a panic and in bounded memory. Names and texts are
//! given as they were recorded; escape them ([`iocrec_log::escape`]) before a terminal gets them.
//!
//! Runnable examples are in `replay/examples`. The program is [`program`] with its [`commands`] and [`output`] formats.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod attached;
mod chains;
pub mod commands;
mod events;
pub mod failure;
mod filter;
pub mod inventory;
mod logs;
pub mod model;
pub mod names;
pub mod nothing_found;
mod notices;
pub mod out;
pub mod output;
pub mod program;
mod puts;
pub mod scan;
mod suggest;
pub mod summary;
pub mod terminal;
pub mod time;

pub use chains::Chains;
pub use events::{Events, RunEvent};
pub use filter::{Filter, Pattern};
pub use iocrec_log::{event, value};
pub use logs::{Logs, OpenError, OpenOptions};
pub use model::chain::Chain;
pub use model::putlog::PutLine;
pub use notices::{Notice, Notices};
pub use puts::Puts;
