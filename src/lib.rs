//! iocrec, the flight recorder for EPICS IOCs: the agent.
//!
//! It watches running IOCs from outside and writes what it sees as facts into a log; `iocreplay`
//! reasons about them later. The way through it, once: [`kernel`] (uprobes) and [`ca`] (packets) →
//! [`recorder`] (names, numbers) → a sink: the log of crate `iocrec-log`, or the terminal ([`watch`]).
//! [`ioc`] knows IOCs from outside. Whatever is printed passes `terminal`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod ca;
#[cfg(test)]
#[path = "../log/tests/common/chance.rs"]
mod chance;
pub mod check;
pub mod cli;
pub mod clock;
pub mod control;
pub mod directory;
pub mod inspect;
pub mod ioc;
mod json;
pub mod kernel;
pub mod mark;
#[cfg(test)]
mod not_run;
pub mod privileges;
pub mod recorder;
pub mod signals;
pub mod status;
mod terminal;
pub mod watch;
