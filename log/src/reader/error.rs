//! The faults of a log, and their messages.

use crate::format::VERSION;
use std::path::PathBuf;
use std::{error, fmt, io};

/// The reason why a log or a segment can't be read at all. Displays as one line that names the file and the remedy.
#[derive(Debug)]
pub enum ReadError {
    /// There is no such file or directory.
    NotFound(PathBuf),
    /// The system refused to read it.
    Io(PathBuf, io::Error),
    /// Not a regular file, but of this kind.
    NotAFile(PathBuf, &'static str),
    /// A directory without segments.
    NoSegments(PathBuf),
    /// An empty file.
    Empty(PathBuf),
    /// A file that is not a segment.
    Foreign(PathBuf),
    /// A segment that is cut within its header.
    Cut(PathBuf),
    /// A segment with both copies of its header damaged.
    Damaged(PathBuf),
    /// A segment of an unknown version, or with unknown incompatible flags.
    Newer(PathBuf, u16, u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotFound(path) => {
                write!(f, "{} does not exist; name a segment (.iocrec) or a directory of them", path.display())
            }
            ReadError::Io(path, error) => {
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied => "root and its group may read logs, on some file systems not even root: copy it or use sudo",
                    _ => "copy it again or check the disk",
                };
                write!(f, "can't read {}: {error}; {remedy}", path.display())
            }
            ReadError::NotAFile(path, what) => write!(
                f,
                "{} is {what}, not a file; name a segment file (.iocrec), or copy the data into one",
                path.display()
            ),
            ReadError::NoSegments(path) => write!(
                f,
                "{} holds no segments (files ending in .iocrec); name the directory given to iocrec record --dir",
                path.display()
            ),
            ReadError::Empty(path) => write!(
                f,
                "{} is empty: the recorder stopped, or the copy was made, before anything was written; \
                 try the other segments",
                path.display()
            ),
            ReadError::Foreign(path) => {
                write!(f, "{} is not an iocrec segment; name a file that iocrec record wrote", path.display())
            }
            ReadError::Cut(path) => {
                write!(f, "{} is cut off within its header; copy it again or leave it out", path.display())
            }
            ReadError::Damaged(path) => {
                write!(f, "{} has a damaged header; copy it again or leave it out", path.display())
            }
            ReadError::Newer(path, version, flags) => write!(
                f,
                "{} was written by a newer iocrec (format {version}, flags {flags:#x}; this one reads format \
                 {VERSION}); use a newer iocreplay",
                path.display()
            ),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ReadError::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

/// A part of a segment that gave no events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length in bytes; 0 where blocks are missing without a trace.
    pub length: u64,
    /// Number of blocks known to be missing with it, from the numbers of the blocks around it.
    pub blocks: u32,
    /// The earliest and latest monotonic time of the missing events, where a header states them.
    pub times: Option<(u64, u64)>,
    /// The fault.
    pub cause: Cause,
}

/// The fault of a part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One of the two copies of the segment's header is damaged. The other was used.
    Header,
    /// The bytes are not a block.
    Garbage,
    /// The file ends within a block: the recorder was writing it, or stopped, or the copy is short.
    Cut,
    /// A block's body does not match the checksum in its header.
    Checksum,
    /// A block that belongs to another segment.
    Stray,
    /// A block that already came.
    Repeated,
    /// Blocks are not where they should be.
    Missing,
    /// A block whose checksum is right but whose content makes no sense.
    Content,
    /// A block that this version does not understand. A newer one may.
    Newer,
    /// The segment holds more than any recorder would have put into its bytes. The rest was not read.
    Inflated {
        /// Number of events so far.
        events: u64,
    },
    /// The system could not read on.
    Io(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}, {} bytes", self.offset, self.length)?;
        if self.blocks > 0 {
            write!(f, ", {} block{}", self.blocks, if self.blocks == 1 { "" } else { "s" })?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Header => "a copy of the header is damaged, the other was used",
            Cause::Garbage => "not a block",
            Cause::Cut => "the file ends within a block",
            Cause::Checksum => "wrong checksum",
            Cause::Stray => "a block of another segment",
            Cause::Repeated => "a repeated block",
            Cause::Missing => "blocks are missing",
            Cause::Content => "the checksum is right, but the content makes no sense",
            Cause::Newer => "written by a newer version",
            Cause::Inflated { events } => {
                return write!(
                    f,
                    "{events} events so far, far more than a recorder writes into so few bytes; the rest is not read \
                     (--no-limit reads it)"
                )
            }
            Cause::Io(error) => return write!(f, "can't be read: {error}"),
        })
    }
}

impl error::Error for Damage {}
