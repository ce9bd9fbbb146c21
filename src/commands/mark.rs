//! `iocrec mark`: an operator's words go into the log of the running recorder, and what is around them is kept.

use std::path::Path;

use crate::control::{self, NoAnswer, Request};

/// Bytes of a mark at most.
const MOST_BYTES: usize = 1000;

/// Writes a mark. On return it is on the disk.
///
/// # Errors
/// It is not: why, in words, and what to do.
pub fn run(directory: &Path, words: &[String]) -> Result<(), String> {
    let text = words.join(" ");
    if text.trim().is_empty() {
        return Err("a mark needs a text".into());
    }
    if text.len() > MOST_BYTES {
        return Err(format!("a mark of {} bytes is too long; the most are {MOST_BYTES}", text.len()));
    }
    match control::ask(directory, &Request::Mark(text)) {
        Ok(outcome) => outcome.map(drop),
        Err(NoAnswer::NotRunning) => Err(format!(
            "no recorder writes to {}, so there is nothing to mark; start one with iocrec record",
            directory.display()
        )),
        Err(NoAnswer::Failed(line)) => Err(line),
    }
}
