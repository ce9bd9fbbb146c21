//! The reasons why tables can't be written, each with its remedy.

use super::sheets::Unwritten;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The reason why tables can't be written.
#[derive(Debug)]
pub enum Refused {
    /// The directory is in use for something else.
    Foreign(PathBuf),
    /// It has another format.
    Format {
        /// The directory.
        directory: PathBuf,
        /// Its format.
        has: String,
    },
    /// It has another selection of rows.
    Selection {
        /// The directory.
        directory: PathBuf,
        /// Its selection.
        has: String,
    },
    /// It was written by a newer iocreplay.
    Newer(PathBuf),
    /// This program can't write Parquet.
    NotBuiltIn,
    /// A file can't be written.
    Unwritten(Unwritten),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Foreign(directory) => {
                write!(f, "{} has other files in it; name a new or an empty directory", directory.display())
            }
            Refused::Format { directory, has } => {
                write!(f, "{} has tables as {has}; name another directory, or use --{has}", directory.display())
            }
            Refused::Selection { directory, has } => {
                let has = if has.is_empty() { "all rows" } else { has };
                write!(f, "{} has tables of {has}; name another directory, or select the same", directory.display())
            }
            Refused::Newer(directory) => {
                write!(f, "{} was written by a newer iocreplay; use that, or name another directory", directory.display())
            }
            Refused::NotBuiltIn => {
                f.write_str("this iocreplay was built without Parquet; use --ndjson or --csv, or build it with the feature parquet")
            }
            Refused::Unwritten(Unwritten { file, error }) => {
                let remedy = match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, and export again",
                    _ => "name a directory that can be written to",
                };
                write!(f, "can't write {}: {error}; {remedy}", file.display())
            }
        }
    }
}

impl From<Unwritten> for Refused {
    fn from(unwritten: Unwritten) -> Self {
        Refused::Unwritten(unwritten)
    }
}
