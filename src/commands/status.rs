//! `iocrec status`: asks the recorder of a directory for its status. If none runs, shows the contents of the directory.

use std::path::Path;

use iocrec_cli::command;
use iocrec_log::storage::segments;

use super::options::{json, log_directory, Json, LogDirectory};
use super::Command;
use crate::control::{self, AskError, Reply, Request};
use crate::failure::Failure;
use crate::json::string;
use crate::recorder::report::bytes;
use crate::terminal::{self, plural};

command! {
    /// Show recorder status
    #[argh(subcommand, name = "status")]
    pub struct Status {} with log_directory: LogDirectory, json: Json
}

impl Command for Status {
    fn run(self) -> Result<(), Failure> {
        let json = self.json;
        let outcome = control::ask(&self.dir, &Request::Status { json });
        let (text, outcome) = match outcome {
            Ok(Reply::Done(text)) => (text, Ok(())),
            Ok(Reply::Refused(line)) => (String::new(), Err(Failure::Failed(line))),
            Err(error @ AskError::NotRunning(_)) => (at_rest(&self.dir, json)?, Err(error.into())),
            Err(error) => (String::new(), Err(error.into())),
        };
        terminal::print(&text)?;
        outcome
    }
}

/// The contents of a directory that no recorder writes to.
fn at_rest(directory: &Path, json: bool) -> Result<String, Failure> {
    let found =
        segments(directory).map_err(|error| Failure::Failed(format!("{}: {error}", directory.display())))?;
    let taken: u64 = found.iter().map(|segment| segment.taken).sum();
    let kept = found.iter().filter(|segment| segment.pinned);
    let (kept, kept_taken) = kept.fold((0, 0), |(count, sum), segment| (count + 1, sum + segment.taken));
    Ok(if json {
        format!(
            "{{\"running\":false,\"dir\":{},\"disk\":{{\"taken\":{taken},\"segments\":{}}},\
             \"pins\":{{\"segments\":{kept},\"taken\":{kept_taken}}}}}\n",
            string(&directory.to_string_lossy()),
            found.len()
        )
    } else {
        format!(
            "running   no\ndisk      {} in {} segment{}\npins      {kept} segment{}, {}\n",
            bytes(taken),
            found.len(),
            plural(found.len() as u64),
            plural(kept),
            bytes(kept_taken)
        )
    })
}
