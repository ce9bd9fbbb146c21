//! iocrec, the flight recorder for EPICS IOCs: the agent.
//!
//! It watches running IOCs from outside and writes what it sees as facts into a log; `iocreplay`
//! reasons about them later. The way through it, once: [`kernel`] (uprobes) and [`ca`] (packets) →
//! [`recorder`] (names, numbers) → a sink: the log of crate `iocrec-log`, or the terminal ([`watch`]).
//! [`ioc`] knows IOCs from outside. Whatever is printed passes `terminal`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bpf;
pub mod ca;
#[cfg(test)]
#[path = "../log/tests/common/chance.rs"]
mod chance;
pub mod cli;
pub mod commands;
pub mod control;
pub mod directory;
pub mod inspector;
pub mod ioc;
mod json;
pub mod linux;
pub mod net;
#[cfg(test)]
#[path = "../tests/rig/not_run.rs"]
mod not_run;
pub mod probes;
pub mod recorder;
mod terminal;
