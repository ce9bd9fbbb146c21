//! The commands, one file each, with their options and their work. To add a command, add a file beside these and a row
//! in `commands!` below.

mod options;
mod reading;
mod recording;
mod values;

use argh::{ArgsInfo, FromArgs};

use crate::failure::Failure;

/// A command with its options.
trait Command {
    /// Runs the command.
    ///
    /// # Errors
    /// It failed, or its options make no sense.
    fn run(self) -> Result<(), Failure>;
}

/// The commands: module and struct.
macro_rules! commands {
    ($($module:ident: $Options:ident;)*) => {
        $(pub mod $module;)*

        /// A command with its options.
        #[derive(Debug, FromArgs, ArgsInfo)]
        #[argh(subcommand)]
        #[allow(missing_docs)] // each is documented in its own file
        pub enum AnyCommand {
            $($Options($module::$Options),)*
        }

        impl AnyCommand {
            /// Runs the command.
            ///
            /// # Errors
            /// It failed, or its options make no sense.
            pub fn run(self) -> Result<(), Failure> {
                match self {
                    $(AnyCommand::$Options(command) => command.run(),)*
                }
            }
        }
    };
}

// in the order of `--help`
commands! {
    record: Record;
    watch: Watch;
    check: Check;
    mark: Mark;
    status: Status;
    cat: Cat;
    version: Version;
}

/// A flight recorder for EPICS IOCs: watches running IOCs from outside, without changing them.
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
