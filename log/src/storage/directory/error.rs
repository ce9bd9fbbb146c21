//! The reasons why a directory can't be used.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// The reason why a directory can't be used. Displays as one line that names the directory and the remedy.
#[derive(Debug)]
pub enum DirectoryError {
    /// It is not a directory.
    NotADirectory(PathBuf),
    /// Another recorder is using it.
    Locked(PathBuf),
    /// It could not be made, opened or written to.
    Io {
        /// The directory.
        path: PathBuf,
        /// The failed action: "make", "open", "write to".
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Its [keeper](super::Keeper) refuses it for this reason. Displays as the reason.
    Refused(Box<dyn error::Error + Send + Sync>),
}

impl DirectoryError {
    /// A keeper's refusal.
    pub fn refused(reason: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        DirectoryError::Refused(reason.into())
    }

    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        DirectoryError::Io { path: path.to_owned(), doing, source }
    }

    /// The kind of system error that comes closest.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            DirectoryError::NotADirectory(_) => ErrorKind::NotADirectory,
            DirectoryError::Locked(_) => ErrorKind::ResourceBusy,
            DirectoryError::Io { source, .. } => source.kind(),
            DirectoryError::Refused(_) => ErrorKind::PermissionDenied,
        }
    }
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
                    // EPERM, which root gets, too: rights alone are EACCES
                    ErrorKind::PermissionDenied if source.raw_os_error() == Some(1) => {
                        "look at its attributes (lsattr) or choose another directory"
                    }
                    ErrorKind::PermissionDenied => "run as root or choose a directory that you may write to",
                    ErrorKind::ReadOnlyFilesystem => "remount the file system writable or choose another",
                    ErrorKind::StorageFull => "free some space or choose another file system",
                    ErrorKind::NotFound => "make its parent directory first",
                    _ => "check the file system or choose another directory",
                };
                write!(f, "can't {doing} {}: {source}; {remedy}", path.display())
            }
            DirectoryError::Refused(reason) => reason.fmt(f),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_be_root() {
        // the errors of a directory with chattr +i, and of another user's
        for (number, is_told) in [(1, false), (13, true)] {
            let error =
                DirectoryError::io("write to", Path::new("/log"), io::Error::from_raw_os_error(number));
            let said = error.to_string();
            assert_eq!(said.contains("run as root"), is_told, "{said}");
            assert_eq!(said.contains("lsattr"), !is_told, "{said}");
        }
    }
}
