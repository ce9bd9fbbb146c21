//! iocrec, the flight recorder for EPICS IOCs: the agent.
//!
//! It watches running IOCs from outside and writes facts into a log; `iocreplay` reasons about them later. Facts flow
//! one way: from [`bpf`] (hits of uprobes) and [`ca`] (packets) through [`recorder`], which numbers and names them, to
//! a sink: the log of crate `iocrec-log`, or the terminal (`iocrec watch`).
//!
//! The rooms, each of which uses only those above it:
//!
//! * [`linux`]: processes, memory, ELF files, sockets, users, capabilities, clocks. No EPICS.
//! * `keyed`: maps whose keys others choose. [`net`]: packet capture, the socket filter, TCP streams. No EPICS.
//! * `owed`: answers that can't be told apart. [`ca`]: Channel Access; [`protocols`]: the list of protocols. [`ioc`]: EPICS Base seen from outside.
//! * [`health`]: what IOCs use of the machine. [`bpf`]: BPF objects, maps, transports and hits. [`deaths`]: signals and crashes. [`files`]: files and devices. [`probes`]: where and how probes are placed.
//! * [`inspector`]: the threads that examine processes. [`directory`] and [`control`]: the log directory, and
//!   requests to a running recorder.
//! * [`recorder`]: the loop. [`commands`] and [`cli`]: the command line.
//!
//! All printed text passes `terminal`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bpf;
pub mod ca;
pub mod cli;
pub mod commands;
pub mod control;
pub mod deaths;
pub mod directory;
mod failure;
pub mod files;
pub mod health;
pub mod inspector;
pub mod ioc;
mod json;
mod keyed;
pub mod linux;
pub mod net;
#[cfg(test)]
#[path = "../tests/rig/not_run.rs"]
mod not_run;
mod owed;
pub mod probes;
pub mod protocols;
pub mod pva;
pub mod recorder;
mod terminal;
