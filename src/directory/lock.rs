//! The file that is locked if another process has the directory's lock, and reasons why a directory cannot be locked.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use nix::errno::Errno;
use nix::fcntl::{openat, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{unlinkat, UnlinkatFlags};

use crate::directory::holder::{holders, is_trusted, Holder, HolderKind};

/// Name of the file. It is not a segment name.
pub(super) const NAME: &str = ".iocrec-lock";

/// Why a directory could not be locked. Displays as a line that says what to do.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process has the lock; the process, if it can be seen.
    Held(PathBuf, Option<Holder>),
    /// The system refuses the lock.
    Io(PathBuf, io::Error),
}

impl LockError {
    pub fn held(path: &Path, by: Option<&Holder>) -> LockError {
        LockError::Held(path.to_owned(), by.cloned())
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held(path, Some(holder)) if holder.kind == HolderKind::Ending => write!(
                f,
                "{holder} is ending, but still has the lock of {}; try again, and if that goes on find out what it \
                 waits for",
                path.display()
            ),
            LockError::Held(path, Some(holder)) => write!(
                f,
                "another recorder is writing to {}: {holder}; stop it or name another directory",
                path.display()
            ),
            LockError::Held(path, None) => write!(
                f,
                "another recorder is writing to {}, or a process that cannot be seen from here has locked it; stop \
                 it or name another directory",
                path.display()
            ),
            LockError::Io(path, error) => {
                let path = path.display();
                match error.raw_os_error() {
                    // flock(2): over NFS a lock needs a file that is open for writing, which a directory can't be
                    Some(libc::EBADF | libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => write!(
                        f,
                        "can't lock {path}: {error}; its file system (NFS?) cannot lock directories: choose a \
                         directory on a local disk"
                    ),
                    _ => write!(f, "can't lock {path}: {error}; check the file system or choose another directory"),
                }
            }
        }
    }
}

impl std::error::Error for LockError {}

/// Call this after locking the directory: makes sure that no recorder has locked the file instead, and removes it.
pub(super) fn check_free(path: &Path, directory: &File) -> Result<(), LockError> {
    match lock_file(directory, false) {
        Ok(Some(_)) => {
            remove(directory);
            Ok(())
        }
        Ok(None) => Err(LockError::held(path, None)),
        // it does not exist, or cannot be examined
        Err(_) => Ok(()),
    }
}

/// Removes the file. It may have gone with its directory.
pub(super) fn remove(directory: &File) {
    let _ = unlinkat(directory, NAME, UnlinkatFlags::NoRemoveDir);
}

/// Opens and locks the file; `None` if a recorder has locked it. With `make`, creates it if it does not exist.
pub(super) fn lock_file(directory: &File, make: bool) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let new = OFlag::O_CREAT | OFlag::O_EXCL;
    let owner = directory.metadata()?.uid();
    // if another process has put something in its place, remove that once
    for _ in 0..2 {
        let opened = match openat(directory, NAME, flags, Mode::empty()) {
            Err(Errno::ENOENT) if make => {
                openat(directory, NAME, flags | new, Mode::from_bits_truncate(0o600))
            }
            other => other,
        };
        let file = match opened {
            Ok(opened) => File::from(opened),
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => {
                unlinkat(directory, NAME, UnlinkatFlags::NoRemoveDir)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let metadata = file.metadata()?;
        let is_of = |holder: &Holder| holder.kind == HolderKind::Recorder;
        // a further name of a file that others use: its lock is theirs; unless the directory was copied by links (cp -al)
        let is_own = metadata.is_file() && (metadata.nlink() < 2 || holders(&file).iter().any(is_of));
        if !is_own || !(is_trusted(metadata.uid()) || metadata.uid() == owner) {
            unlinkat(directory, NAME, UnlinkatFlags::NoRemoveDir)?;
            continue;
        }
        return match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        };
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
