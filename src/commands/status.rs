//! `iocrec status`: is a recorder running on a directory, and how does it do? Where none is, what the directory
//! holds.

use std::path::Path;

use iocrec_log::storage::segments;

use crate::control::{self, AskError, Reply, Request};
use crate::json::string;
use crate::recorder::report::bytes;
use crate::terminal;

/// Prints how the recorder does. The error, if there is one, is for people.
///
/// # Errors
/// No recorder is running, or it does not answer.
pub fn run(directory: &Path, json: bool) -> Result<(), String> {
    let (text, outcome) = match control::ask(directory, &Request::Status { json }) {
        Ok(Reply::Done(text)) => (text, Ok(())),
        Ok(Reply::Refused(line)) => (String::new(), Err(line)),
        Err(error @ AskError::NotRunning(_)) => (at_rest(directory, json)?, Err(error.to_string())),
        Err(error) => (String::new(), Err(error.to_string())),
    };
    terminal::print(&text);
    outcome
}

/// What is in a directory that no recorder writes to.
fn at_rest(directory: &Path, json: bool) -> Result<String, String> {
    let found = segments(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
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
            "running   no\ndisk      {} in {} segments\npins      {kept} segments, {}\n",
            bytes(taken),
            found.len(),
            bytes(kept_taken)
        )
    })
}
