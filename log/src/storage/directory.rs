//! A real directory. One recorder at a time: it holds an advisory lock (flock) on the directory
//! itself, which the kernel drops when the process ends, however it ends.

use super::{nanoseconds_since_1970, Storage, Stored};
use crate::name::{Pin, SegmentName};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{error, fmt};

/// Name of the file made and deleted to see whether the directory can be written to. Not a segment's.
const TRIAL: &str = ".iocrec-trial";

/// Bounds of the unit in which a file system is taken to give its space: pages of 4096 bytes everywhere, and
/// no more than the clusters of a FAT; network file systems call a megabyte a unit and don't mean it.
const UNIT: (u64, u64) = (4096, 65536);
/// How long a look at the lock may last.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a block in `st_blocks`, whatever the file system's own (stat(2)).
const STAT_BLOCK: u64 = 512;

/// Sets space aside for a file that will have so many bytes, without changing its length. An error of
/// kind `Unsupported` says that this file system can't.
pub type Reserve = fn(&File, u64) -> io::Result<()>;

/// A directory that holds segments.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    reserve: Option<Reserve>,
    /// The directory itself: holds the lock, and is synced after names change.
    handle: File,
    /// The open file and its name.
    open: Option<(String, File)>,
}

/// Why a directory can't be used. Displays as one line that names it and the remedy.
#[derive(Debug)]
pub enum DirectoryError {
    /// It is something else than a directory.
    NotADirectory(PathBuf),
    /// Another recorder has it.
    Locked(PathBuf),
    /// It could not be made, opened or written to.
    Io {
        /// The directory.
        path: PathBuf,
        /// What was tried: "make", "open", "write to".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::NotADirectory(path) => {
                write!(f, "{} is not a directory; name a directory for the log", path.display())
            }
            DirectoryError::Locked(path) => write!(
                f,
                "another recorder is writing to {}; stop it or name another directory",
                path.display()
            ),
            DirectoryError::Io { path, doing, source } => {
                let remedy = match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "run as root or choose a directory that you may write to"
                    }
                    io::ErrorKind::ReadOnlyFilesystem => "remount the file system writable or choose another",
                    io::ErrorKind::StorageFull => "free some space or choose another file system",
                    io::ErrorKind::NotFound => "make its parent directory first",
                    _ => "check the file system or choose another directory",
                };
                write!(f, "can't {doing} {}: {source}; {remedy}", path.display())
            }
        }
    }
}

impl error::Error for DirectoryError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            DirectoryError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Directory {
    /// Opens a directory for the log. Makes it (mode 0750) if it is missing and its parent exists.
    ///
    /// # Errors
    /// If it can't be made, is no directory, can't be written to, or is another recorder's.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |doing| move |source| DirectoryError::Io { path: path.to_owned(), doing, source };
        match DirBuilder::new().mode(0o750).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if path.is_dir() => drop(error), // a mount point on a read-only parent, say
            Err(error) => return Err(failed("make")(error)),
        }
        if !path.is_dir() {
            return Err(DirectoryError::NotADirectory(path.to_owned()));
        }
        let handle = File::open(path).map_err(failed("open"))?;
        let locked = match handle.try_lock() {
            Err(TryLockError::WouldBlock) => {
                // Somebody may only be looking whether it is locked.
                std::thread::sleep(LOOK);
                handle.try_lock()
            }
            other => other,
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let directory = Directory { path: path.to_owned(), reserve: None, handle, open: None };
        directory.try_out().map_err(failed("write to"))?;
        Ok(directory)
    }

    /// Sets space aside for files by this: systems do it differently, so it is the caller's.
    pub fn reserving(self, reserve: Reserve) -> Self {
        Directory { reserve: Some(reserve), ..self }
    }

    /// The directory's path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Permission bits don't tell whether a directory can be written to (root, read-only mounts,
    /// access control lists); a file does. One left by a crash is in nobody's way.
    fn try_out(&self) -> io::Result<()> {
        let trial = self.path.join(TRIAL);
        match fs::remove_file(&trial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o640).open(&trial) {
            Ok(_) => fs::remove_file(&trial),
            // A full file system is a state that the recorder waits out.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn current(&mut self) -> io::Result<&mut File> {
        let open = self.open.as_mut().map(|(_, file)| file);
        open.ok_or_else(|| io::Error::other("no file is open"))
    }

    fn make(&self, path: &Path, bytes: u64) -> io::Result<File> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o640).open(path)?;
        let reserved = self.reserve.map_or(Ok(()), |reserve| reserve(&file, bytes));
        match reserved {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                // If it can't be deleted either, the next look at the directory finds it, empty.
                let _ = fs::remove_file(path);
                Err(error)
            }
            _ => Ok(file),
        }
    }
}

/// Gives back the space behind a file's end. Its bytes and times stay as they are.
fn trim(file: &File) -> io::Result<()> {
    let about = file.metadata()?;
    let needed = about.len().next_multiple_of(UNIT.0);
    if about.blocks().saturating_mul(STAT_BLOCK) > needed {
        file.set_len(about.len())?;
        file.set_modified(about.modified()?)?;
    }
    Ok(())
}

/// What a segment's file tells without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the disk that it takes.
    pub taken: u64,
    /// Is it kept when older ones are deleted?
    pub kept: bool,
}

/// The segments in a directory by their names, whoever writes to it.
///
/// # Errors
/// It can't be listed.
pub fn segments(path: &Path) -> io::Result<Vec<Segment>> {
    let files = list(path)?.into_iter();
    let segment = |file: Stored| {
        let name = SegmentName::parse(&file.name)?;
        Some(Segment { taken: file.taken, kept: name.pin != Pin::No })
    };
    Ok(files.filter_map(segment).collect())
}

fn list(path: &Path) -> io::Result<Vec<Stored>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Names that are not UTF-8 are not ours.
        let Ok(name) = entry.file_name().into_string() else { continue };
        match entry.metadata() {
            Ok(about) if about.is_file() => files.push(Stored {
                name,
                length: about.len(),
                taken: about.blocks().saturating_mul(STAT_BLOCK),
                modified: about.modified().map_or(0, nanoseconds_since_1970),
            }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // deleted just now
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

impl Storage for Directory {
    fn list(&mut self) -> io::Result<Vec<Stored>> {
        list(&self.path)
    }

    fn unit(&self) -> u64 {
        self.handle.metadata().map_or(UNIT.0, |about| about.blksize().clamp(UNIT.0, UNIT.1))
    }

    fn own_size(&mut self) -> u64 {
        let taken = self.handle.metadata().map_or(0, |about| about.blocks().saturating_mul(STAT_BLOCK));
        taken.max(self.unit())
    }

    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
        self.open = None;
        let file = self.make(&self.path.join(name), reserve)?;
        self.open = Some((name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.current()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.current()?.sync_data()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, file)| trim(&file))
    }

    fn trim(&mut self, name: &str) -> io::Result<()> {
        trim(&OpenOptions::new().write(true).open(self.path.join(name))?)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        // Only one recorder writes here, so nobody makes it in between.
        if self.path.join(to).try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(self.path.join(from), self.path.join(to))?;
        if let Some((name, _)) = self.open.as_mut().filter(|(name, _)| name == from) {
            to.clone_into(name);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| open == name) {
            self.open = None; // or it would keep its space
        }
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }
}
