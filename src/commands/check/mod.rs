//! `iocrec check`: reports the tiers that this machine allows, and the IOCs that run on it. Changes nothing.

mod finding;
mod report;
mod survey;

use iocrec_cli::command;

use super::options::{json, process_choice, Json, ProcessChoice};
use super::Command;
use crate::failure::Failure;
use crate::linux::clock;
use crate::recorder::error::StartError;
use crate::terminal;

command! {
    /// Report which tier this machine allows, with reasons, and which IOCs run on it
    #[argh(subcommand, name = "check")]
    pub struct Check {} with process_choice: ProcessChoice, json: Json
}

impl Command for Check {
    fn run(self) -> Result<(), Failure> {
        let chosen = ProcessChoice::from(&self).chosen()?;
        if clock::is_set_apart() {
            return Err(StartError::TimeNamespace.into());
        }
        let found = survey::machine(&chosen)?;
        terminal::print(&if self.json { report::json(&found) } else { report::text(&found) })?;
        Ok(())
    }
}
