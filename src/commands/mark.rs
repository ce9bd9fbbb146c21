//! `iocrec mark`: writes an operator's text into the log of the running recorder, which pins the segments around it.

use std::path::Path;

use crate::control::{self, AskError, Reply, Request};

/// Size of the longest mark, bytes.
const MAX_BYTES: usize = 1000;

/// Writes a mark. On return it is on the disk.
///
/// # Errors
/// It is not: why, in words, and what to do.
pub fn run(directory: &Path, words: &[String]) -> Result<(), String> {
    let text = words.join(" ");
    if text.trim().is_empty() {
        return Err("a mark needs a text".into());
    }
    if text.len() > MAX_BYTES {
        return Err(format!("a mark of {} bytes is too long; the limit is {MAX_BYTES}", text.len()));
    }
    match control::ask(directory, &Request::Mark(text)) {
        Ok(Reply::Done(_)) => Ok(()),
        Ok(Reply::Refused(line)) => Err(line),
        Err(AskError::NotRunning(path)) => Err(format!(
            "no recorder writes to {}, so there is nothing to mark; start one with iocrec record",
            path.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}
