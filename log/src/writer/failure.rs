//! The reasons why something could not be stored, and their messages.

use crate::storage::Astray;
use std::{fmt, io};

/// The action that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    PackDefinitions,
    PackBlock,
    PackSegmentEnd,
    CreateSegment,
    Write,
    Sync,
    SyncDirectory,
    ListDirectory,
    OpenDirectory,
    DeleteOldest,
    DeleteExpired,
    RenamePinned,
}

impl Doing {
    fn name(self) -> &'static str {
        match self {
            Doing::PackDefinitions => "packing the definitions",
            Doing::PackBlock => "packing a block",
            Doing::PackSegmentEnd => "packing the end of a segment",
            Doing::CreateSegment => "creating a segment",
            Doing::Write => "writing",
            Doing::Sync => "syncing",
            Doing::SyncDirectory => "syncing the directory",
            Doing::ListDirectory => "listing the directory",
            Doing::OpenDirectory => "the log's directory",
            Doing::DeleteOldest => "deleting the oldest segment",
            Doing::DeleteExpired => "deleting an old segment",
            Doing::RenamePinned => "renaming a pinned segment",
        }
    }

    /// Makes a failure from an error, for `map_err`.
    pub fn failed(self, error: io::Error) -> Failure {
        Failure::Io(self, error)
    }
}

/// The reason why something could not be stored. Displays as a line without a line feed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The system refused.
    Io(Doing, io::Error),
    /// The definitions in force need segments of at least `least` bytes, more than the cap allows.
    KeyframeTooBig { least: u64, max_disk: u64 },
    /// The place was taken away, which caused this failure.
    Astray(Astray, Box<Failure>),
}

impl Failure {
    /// Whether the file system is full.
    pub fn is_full(&self) -> bool {
        match self {
            Failure::Io(_, error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Failure::KeyframeTooBig { .. } => false,
            Failure::Astray(_, failure) => failure.is_full(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(doing, error) => write!(f, "{}: {error}", doing.name()),
            Failure::KeyframeTooBig { least, max_disk } => write!(
                f,
                "the names in use need segments of at least {least} bytes, more than fit into --max-disk {max_disk}; \
                 raise it"
            ),
            Failure::Astray(astray, failure) => write!(f, "{}; {failure}", astray.reason),
        }
    }
}
