//! What a command is to the program.

use super::options::Reading;
use crate::failure::{Failure, UsageError};
use crate::out::Out;
use crate::Logs;

/// A command with its options.
pub trait Command {
    /// The logs that it reads, and where the answer goes.
    fn reading(&self) -> Reading;

    /// What stands before the logs, as in usage.
    fn operands(&self) -> &'static str {
        ""
    }

    /// What is wrong with the command line, beyond what argh can know.
    ///
    /// # Errors
    /// If the command was called wrongly.
    fn check(&self) -> Result<(), UsageError> {
        Ok(())
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// If there is none, or it can't be written.
    fn run(&self, out: &mut Out) -> Result<Outcome, Failure>;
}

/// How far a command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was read.
    Complete,
    /// Something could not be read; it was reported.
    Incomplete,
}

impl From<&Logs> for Outcome {
    fn from(logs: &Logs) -> Self {
        if logs.is_complete() {
            Outcome::Complete
        } else {
            Outcome::Incomplete
        }
    }
}
