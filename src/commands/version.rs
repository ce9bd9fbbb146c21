//! `iocrec version`

use iocrec_cli::command;

use super::Command;
use crate::failure::Failure;
use crate::terminal;

/// Name and version.
pub const TEXT: &str = concat!("iocrec ", env!("CARGO_PKG_VERSION"));

command! {
    /// Print the version
    #[argh(subcommand, name = "version")]
    pub struct Version {}
}

impl Command for Version {
    fn run(self) -> Result<(), Failure> {
        Ok(terminal::print(TEXT)?)
    }
}
