//! `iocrec mark`: writes an operator's text into the log of the running recorder, which pins the segments around it.

use iocrec_cli::command;

use super::options::{log_directory, LogDirectory};
use super::Command;
use crate::control::{self, AskError, Reply, Request};
use crate::failure::{Failure, UsageError};

/// Size of the longest mark, bytes.
const MAX_BYTES: usize = 1000;

command! {
    /// Write a mark into the log of the running recorder; the segments around it are pinned
    #[argh(subcommand, name = "mark")]
    pub struct Mark {
        /// text of the mark, such as "beam lost"
        #[argh(positional)]
        pub text: Vec<String>,
    } with log_directory: LogDirectory
}

impl Command for Mark {
    /// Writes the mark; on return it is on the disk.
    fn run(self) -> Result<(), Failure> {
        let text = self.text.join(" ");
        if text.trim().is_empty() {
            return Err(UsageError::NoText.into());
        }
        if text.len() > MAX_BYTES {
            let line = format!("a mark of {} bytes is too long; the limit is {MAX_BYTES}", text.len());
            return Err(Failure::Failed(line));
        }
        match control::ask(&self.dir, &Request::Mark(text)) {
            Ok(Reply::Done(_)) => Ok(()),
            Ok(Reply::Refused(line)) => Err(Failure::Failed(line)),
            Err(AskError::NotRunning(path)) => Err(Failure::Failed(format!(
                "no recorder writes to {}, so there is nothing to mark; start one with iocrec record",
                path.display()
            ))),
            Err(error @ AskError::Io { .. }) => {
                Err(Failure::Failed(format!("{error}; the mark may be made later, with the time of then")))
            }
            Err(error) => Err(error.into()),
        }
    }
}
