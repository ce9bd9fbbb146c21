//! A real directory. One recorder at a time: it holds an advisory lock (flock) on the directory
//! itself, which the kernel drops when the process ends, however it ends.

use super::Storage;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// Name of the file made and deleted to see whether the directory can be written to. Not a segment's.
const TRIAL: &str = ".iocrec-trial";

/// A directory that holds segments.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
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
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let directory = Directory { path: path.to_owned(), handle, open: None };
        directory.try_out().map_err(failed("write to"))?;
        Ok(directory)
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
}

impl Storage for Directory {
    fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Names that are not UTF-8 are not ours.
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.metadata() {
                Ok(about) if about.is_file() => files.push((name, about.len())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // deleted just now
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.open = None;
        let path = self.path.join(name);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o640).open(&path)?;
        if let Err(error) = self.handle.sync_all() {
            // The caller takes it for not made. If it can't be deleted either, the next look at
            // the directory finds it, empty.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        self.open = Some((name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.current()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.current()?.sync_data()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| open == name) {
            self.open = None; // or it would keep its space
        }
        fs::remove_file(self.path.join(name))?;
        self.handle.sync_all()
    }
}
