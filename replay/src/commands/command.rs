//! The interface between a command and the program.

use super::options::Reading;
use crate::failure::{Failure, UsageError};
use crate::out::Out;
use crate::Logs;

/// A command with its options.
pub trait Command {
    /// The logs to read, and the destination of the answer.
    fn reading(&self) -> Reading;

    /// Operands before the logs, as in usage.
    fn operands(&self) -> &'static str {
        ""
    }

    /// Whether it follows a log that grows, and so writes to standard output alone.
    fn follows(&self) -> bool {
        false
    }

    /// Checks the command line beyond what argh can.
    ///
    /// # Errors
    /// If the command was called wrongly.
    fn check(&self) -> Result<(), UsageError> {
        Ok(())
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// If there is no answer, or it can't be written.
    fn run(&self, out: &mut Out) -> Result<Outcome, Failure>;
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was read.
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
