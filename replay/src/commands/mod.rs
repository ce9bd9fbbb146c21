//! The commands, one file each, with options and code. To add one, add a file here and a row in `commands!` below.

pub mod command;
pub mod options;
mod sending;

use argh::{ArgsInfo, FromArgs};
use command::Command;

/// The commands: module, struct, name.
macro_rules! commands {
    ($($module:ident: $Options:ident, $name:literal;)*) => {
        $(mod $module;)*

        /// A command with its options.
        #[derive(Debug, FromArgs, ArgsInfo)]
        #[argh(subcommand)]
        #[allow(missing_docs)] // each is documented in its module
        pub enum AnyCommand {
            $($Options($module::$Options),)*
        }

        impl AnyCommand {
            /// The names of all commands.
            pub const NAMES: &[&str] = &[$($name,)*];

            /// The command and its name.
            pub fn get(&self) -> (&'static str, &dyn Command) {
                match self {
                    $(AnyCommand::$Options(command) => ($name, command),)*
                }
            }
        }
    };
}

// In the order of `--help`.
commands! {
    info: Info, "info";
    verify: Verify, "verify";
    puts: Puts, "puts";
    traces: Traces, "traces";
    why: Why, "why";
    top: Top, "top";
    profile: Profile, "profile";
    graph: Graph, "graph";
    values: Values, "values";
    at: At, "at";
    diff: Diff, "diff";
    undo: Undo, "undo";
    alarms: Alarms, "alarms";
    last: Last, "last";
    console: Console, "console";
    logs: WhatHappened, "logs";
    health: Health, "health";
    metrics: Metrics, "metrics";
    io: Io, "io";
    stuck: StuckThreads, "stuck";
    clients: Clients, "clients";
    net: Net, "net";
    iocs: Iocs, "iocs";
    records: Records, "records";
    report: Report, "report";
    export: Export, "export";
    follow: Follow, "follow";
    redact: Redact, "redact";
}

/// Read logs of iocrec, the flight recorder for EPICS IOCs: who changed a PV, why a record processed, what an IOC was
/// doing.
/// LOG is a segment, a directory of segments, or a directory of such directories, one for each host. Several logs are
/// merged in time order.
#[derive(Debug, FromArgs, ArgsInfo)]
pub struct Arguments {
    /// print the version
    #[argh(switch, short = 'V')]
    #[allow(dead_code)] // handled before argh: with it no command is needed
    version: bool,
    /// what to do
    #[argh(subcommand)]
    pub command: AnyCommand,
}
