//! The few things that the writer needs of a disk, so that tests can replace it with one that is full, broken,
//! read-only, or loses its power.

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
    /// Bytes of the disk that it takes: may be more or (compressed, sparse) fewer.
    pub taken: u64,
    /// When it was last written to: wall-clock time, nanoseconds since 1970 UTC.
    pub modified: i64,
}

/// The files are no longer where people look for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Astray {
    /// What happened, for people, with the path.
    pub reason: String,
    /// The open file is lost, and with it all files that are missing: nobody can reach them any more.
    pub lost: bool,
}

/// A directory of files, one of them open for appending.
///
/// What a method has done when it returns survives the end of the process. It survives a power cut when
/// [`sync`](Storage::sync) (for bytes) or [`sync_names`](Storage::sync_names) (for everything else) has returned after
/// it; until then any part of it may be undone, in any order.
pub trait Storage {
    /// All files. The writer leaves files alone whose names it would not have given.
    fn list(&mut self) -> io::Result<Vec<Stored>>;

    /// Bytes that the disk allocates at once.
    fn unit(&self) -> u64 {
        4096
    }

    /// Bytes that the directory itself takes.
    fn own_size(&mut self) -> u64 {
        self.unit()
    }

    /// Makes an empty file and opens it for appending in place of the one before, if any. Fails if
    /// the name exists. Where the disk can, preallocates `reserve` bytes, and fails if there are not as
    /// many: then writing that many does not fail for lack of space.
    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()>;

    /// Appends to the open file. After an error any part of `bytes` may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// On return everything appended to the open file survives a power cut.
    fn sync(&mut self) -> io::Result<()>;

    /// Closes the open file, if any, and frees preallocated space that it did not use. After an error the file is closed,
    /// too.
    fn finish(&mut self) -> io::Result<()>;

    /// Frees preallocated space of a file, not the open one, whose recorder was killed.
    fn trim(&mut self, name: &str) -> io::Result<()>;

    /// Renames a file. The new name must be free. The open file stays open.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file, and closes it if it is the open one. On return its space is free.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// On return all that was created, renamed and removed survives a power cut.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Checks that the files are where people look for them: a directory may be deleted or moved, and another one, or
    /// another file system, may take its place. `length`: bytes that the open file must have. `None` if all is well, or if
    /// that is unknown.
    fn astray(&mut self, _length: u64) -> Option<Astray> {
        None
    }

    /// Goes to the place where people look for the files, after [`astray`](Storage::astray) or an error, and makes it if it
    /// is missing. True if it is another one than before. No file is open then.
    fn settle(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, for the names and headers of new segments.
    fn wall_clock(&self) -> i64 {
        nanoseconds_since_1970(SystemTime::now())
    }
}

/// Zero for times before 1970.
fn nanoseconds_since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
