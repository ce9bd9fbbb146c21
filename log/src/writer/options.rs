//! What a user can set, and the lines that say why it can't work.

use std::time::Duration;
use std::{error, fmt, io};

/// The smallest segment. Smaller ones would hold little but their keyframe (4 KiB for a hundred
/// records).
pub const MIN_SEGMENT: u64 = 64 << 10;
/// The smallest cap: one segment to write and one to keep.
pub const MIN_DISK: u64 = 2 * MIN_SEGMENT;
/// The largest segment that is chosen when none is asked for: larger ones lose more at once when the
/// oldest is deleted, and save nothing.
const MAX_SEGMENT: u64 = 8 << 20;

/// How to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes that all segments in the directory may have together.
    pub max_disk: u64,
    /// How long an event may stay in memory: what kill -9 loses.
    pub flush: Duration,
    /// How long a block may stay unsynced: what a power cut loses.
    pub sync: Duration,
    /// Bytes of a segment; `None` for a sixteenth of `max_disk`, between 64 KiB and 8 MiB.
    pub segment: Option<u64>,
    /// Compression level of zstd.
    pub level: i32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_disk: 64 << 20,
            flush: Duration::from_secs(1),
            sync: Duration::from_secs(5),
            segment: None,
            level: 1,
        }
    }
}

impl Options {
    /// Bytes that a segment is to have.
    pub fn segment_size(&self) -> u64 {
        self.segment.unwrap_or_else(|| (self.max_disk / 16).clamp(MIN_SEGMENT, MAX_SEGMENT))
    }

    pub(super) fn check(&self) -> Result<(), WriteError> {
        if self.max_disk < MIN_DISK {
            return Err(WriteError::DiskTooSmall(self.max_disk));
        }
        let allowed = MIN_SEGMENT..=self.max_disk / 2;
        match self.segment {
            Some(size) if !allowed.contains(&size) => Err(WriteError::SegmentSize(size, *allowed.end())),
            _ => Ok(()),
        }
    }
}

/// Why a writer can't begin. Displays as one line with the remedy.
#[derive(Debug)]
pub enum WriteError {
    /// `max_disk` is less than can work.
    DiskTooSmall(u64),
    /// `segment` is out of bounds: what was asked for and the most that is allowed.
    SegmentSize(u64, u64),
    /// zstd would not start: not enough memory.
    Compressor(io::Error),
    /// The directory could not be listed.
    List(io::Error),
    /// Segments beyond the cap could not be deleted.
    Delete(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::DiskTooSmall(size) => write!(
                f,
                "a log of at most {size} bytes can't work; give --max-disk at least {MIN_DISK} ({}K)",
                MIN_DISK >> 10
            ),
            WriteError::SegmentSize(size, most) => {
                write!(f, "a segment can't have {size} bytes; choose between {MIN_SEGMENT} and {most}")
            }
            WriteError::Compressor(error) => write!(f, "zstd can't start: {error}; free some memory"),
            WriteError::List(error) => {
                write!(f, "can't list the log directory: {error}; check the file system")
            }
            WriteError::Delete(error) => write!(
                f,
                "the log is over --max-disk and its oldest segment can't be deleted: {error}; \
                 delete it by hand or raise --max-disk"
            ),
        }
    }
}

impl error::Error for WriteError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            WriteError::Compressor(error) | WriteError::List(error) | WriteError::Delete(error) => {
                Some(error)
            }
            WriteError::DiskTooSmall(_) | WriteError::SegmentSize(..) => None,
        }
    }
}
