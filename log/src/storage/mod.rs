//! The few operations that the writer needs of a disk. Tests can replace the disk with one that is full, broken or
//! read-only, or that loses its power.

mod clocked;
#[cfg(unix)]
mod directory;

pub use clocked::Clocked;
#[cfg(unix)]
pub(crate) use directory::{names, open_directory, open_to_read};
#[cfg(unix)]
pub use directory::{
    segments, Directory, DirectoryError, Keeper, Reserve, Segment, WallClock, DIRECTORY_MODE,
};

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its length, bytes.
    pub length: u64,
    /// Bytes that it takes on the disk: may be more than its length, or (compressed, sparse) fewer.
    pub taken: u64,
    /// Time of the last write: wall clock, nanoseconds since 1970 UTC.
    pub modified: i64,
}

/// A report that the files are no longer where people look for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Astray {
    /// The cause, for people, with the path.
    pub reason: String,
    /// Whether the open file is lost, and with it all missing files: nobody can reach them any longer.
    pub lost: bool,
}

/// A directory of files, one of them open for appending.
///
/// When a method returns, its effect survives the end of the process. The effect survives a power cut once a later call
/// of [`sync`](Storage::sync) (for bytes) or [`sync_names`](Storage::sync_names) (for everything else) has returned;
/// until then any part of it may be undone, in any order.
pub trait Storage {
    /// All files. The writer leaves files alone if their names are not of its own form.
    fn list(&mut self) -> io::Result<Vec<Stored>>;

    /// The disk's unit of allocation, in bytes.
    fn unit(&self) -> u64 {
        4096
    }

    /// Bytes that the directory itself takes.
    fn own_size(&mut self) -> u64 {
        self.unit()
    }

    /// Makes an empty file and opens it for appending, in place of any open one. Fails if the name exists. Preallocates
    /// `reserve` bytes if the disk supports it, and fails if there is not enough space. Writing that many bytes then
    /// does not fail for lack of space.
    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()>;

    /// Appends to the open file. After an error any part of `bytes` may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// On return everything appended to the open file survives a power cut.
    fn sync(&mut self) -> io::Result<()>;

    /// Closes the open file, if any, and frees preallocated space that it did not use. The file is closed even on
    /// error.
    fn finish(&mut self) -> io::Result<()>;

    /// Frees preallocated space of a file whose recorder was killed. Not for the open file.
    fn trim(&mut self, name: &str) -> io::Result<()>;

    /// Renames a file. The new name must be free. The open file stays open.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file, and closes it if it is the open one. On return its space is free.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// On return all that was created, renamed and removed survives a power cut.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Checks that the files are where people look for them: a directory may be deleted or moved, and another directory
    /// or file system may take its place. `length`: minimum length of the open file, bytes. `None` if all is well or
    /// the state is unknown.
    fn astray(&mut self, _length: u64) -> Option<Astray> {
        None
    }

    /// Moves to the place where people look for the files, after [`astray`](Storage::astray) or an error. Makes it if
    /// it is missing. Returns whether the place is a new one. No file is open afterwards.
    fn settle(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, for the names and headers of new segments.
    fn wall_clock(&self) -> i64 {
        nanoseconds_since_1970(SystemTime::now())
    }
}

/// A time as nanoseconds since 1970 UTC; 0 for earlier times.
fn nanoseconds_since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
