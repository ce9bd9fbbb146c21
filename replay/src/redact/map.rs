//! What was replaced by what, for the owner of the log: the one file that undoes a redaction.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Most bytes of names that are remembered: some million.
const MOST_BYTES: usize = 256 << 20;
/// Bytes that an entry takes beside its texts.
const ENTRY: usize = 96;

/// Originals with their replacements.
#[derive(Default)]
pub struct Map {
    entries: BTreeMap<(&'static str, String), String>,
    bytes: usize,
    left_out: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    kind: &'a str,
    original: &'a str,
    replacement: &'a str,
}

impl Map {
    pub(super) fn note(&mut self, of: &'static str, original: &str, replacement: &str) {
        let key = (of, original.to_owned());
        if self.entries.contains_key(&key) {
            return;
        }
        let bytes = original.len() + replacement.len() + ENTRY;
        if self.bytes + bytes > MOST_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.entries.insert(key, replacement.to_owned());
    }

    /// Number of replacements that it has no room for.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes a JSON object on each line.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        for ((kind, original), replacement) in &self.entries {
            serde_json::to_writer(&mut *to, &Line { kind, original, replacement })?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }
}
