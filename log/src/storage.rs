//! What the writer needs of a disk, and nothing more: so that tests can put a disk in its place that
//! is full, broken, read-only, or loses its power.

#[cfg(unix)]
mod directory;

#[cfg(unix)]
pub use directory::{Directory, DirectoryError};

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory of files, one of them open for appending.
pub trait Storage {
    /// Names and lengths in bytes of all files. The writer leaves those alone whose names it
    /// would not have given.
    fn list(&mut self) -> io::Result<Vec<(String, u64)>>;

    /// Makes an empty file and opens it for appending in place of the one before, if any. Fails if
    /// the name exists. On return the name survives a power cut.
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Appends to the open file. After an error any part of `bytes` may have been written. What was
    /// written survives the end of the process.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// On return all that was appended to the open file survives a power cut.
    fn sync(&mut self) -> io::Result<()>;

    /// Deletes a file, and closes it if it is the open one. On return its space is free.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Wall-clock time, nanoseconds since 1970 UTC: what new segments are named and marked with.
    fn wall_clock(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}
