//! The commands, one file each: its options, and what it does. A new one is a file beside these and a row in `commands!`
//! below.

mod options;
mod recording;
mod values;

use argh::{ArgsInfo, FromArgs};

use crate::failure::Failure;

/// A command with its options.
trait Command {
    /// Does it.
    ///
    /// # Errors
    /// It could not be done, or makes no sense.
    fn run(self) -> Result<(), Failure>;
}

/// The commands: module and struct.
macro_rules! commands {
    ($($module:ident: $Options:ident;)*) => {
        $(pub mod $module;)*

        /// A command with its options.
        #[derive(Debug, FromArgs, ArgsInfo)]
        #[argh(subcommand)]
        #[allow(missing_docs)] // each is documented where it is
        pub enum AnyCommand {
            $($Options($module::$Options),)*
        }

        impl AnyCommand {
            /// Runs the command.
            ///
            /// # Errors
            /// It could not be done, or makes no sense.
            pub fn run(self) -> Result<(), Failure> {
                match self {
                    $(AnyCommand::$Options(command) => command.run(),)*
                }
            }
        }
    };
}

// In the order of `--help`.
commands! {
    record: Record;
    watch: Watch;
    check: Check;
    mark: Mark;
    status: Status;
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
