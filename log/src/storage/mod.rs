//! What the writer needs of a disk, and nothing more: so that tests can put a disk in its place that
//! is full, broken, read-only, or loses its power.

#[cfg(unix)]
mod directory;

#[cfg(unix)]
pub use directory::{segments, Directory, DirectoryError, Keeper, Reserve, Segment};

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its length, bytes.
    pub length: u64,
    /// Bytes of the disk that it takes, which may be more or (compressed, sparse) fewer.
    pub taken: u64,
    /// When it was last written to: wall-clock time, nanoseconds since 1970 UTC.
    pub modified: i64,
}

/// Files are no longer kept where people look for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Astray {
    /// What has happened, in words, with the path.
    pub reason: String,
    /// The open file is lost, and with it other files that are missing: nobody can get at them any more.
    pub lost: bool,
}

/// A directory of files, one of them open for appending.
///
/// What a method did survives the end of the process when it returns. It survives a power cut when
/// [`sync`](Storage::sync) (of bytes) or [`sync_names`](Storage::sync_names) (of everything else) has returned
/// after it; until then, any part of it may be undone, in any order.
pub trait Storage {
    /// All files. The writer leaves those alone whose names it would not have given.
    fn list(&mut self) -> io::Result<Vec<Stored>>;

    /// Bytes in which the disk gives its space to files.
    fn unit(&self) -> u64 {
        4096
    }

    /// Bytes that the directory itself takes.
    fn own_size(&mut self) -> u64 {
        self.unit()
    }

    /// Makes an empty file and opens it for appending in place of the one before, if any. Fails if
    /// the name exists. Where the disk can, sets `reserve` bytes aside for it, and fails if there are not as
    /// many: then writing that many does not fail for want of space.
    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()>;

    /// Appends to the open file. After an error any part of `bytes` may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// On return all that was appended to the open file survives a power cut.
    fn sync(&mut self) -> io::Result<()>;

    /// Closes the open file, if any, and gives back what was set aside for it and not used. After an error the
    /// file is closed, too.
    fn finish(&mut self) -> io::Result<()>;

    /// Gives back what was set aside for a file, not the open one, whose recorder did not come to it.
    fn trim(&mut self, name: &str) -> io::Result<()>;

    /// Gives a file another name, which must be free. It stays open if it is the open one.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file, and closes it if it is the open one. On return its space is free.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// On return what was created, renamed and removed survives a power cut.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Looks whether the files are where people look for them: a directory may be deleted or moved, and another one, or
    /// another file system, be put in its place. `length`: bytes that the open file must have. `None` also where
    /// that can't be told.
    fn astray(&mut self, _length: u64) -> Option<Astray> {
        None
    }

    /// Goes where people look for the files, after [`astray`](Storage::astray) or an error, and makes that place if it is
    /// missing. True if it is another one than before. No file is open then.
    fn settle(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC: what new segments are named and marked with.
    fn wall_clock(&self) -> i64 {
        nanoseconds_since_1970(SystemTime::now())
    }
}

/// Zero for times before 1970.
fn nanoseconds_since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
