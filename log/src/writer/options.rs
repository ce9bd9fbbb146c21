//! The writer's options, their checks, and the errors that can result.

use std::time::Duration;
use std::{error, fmt, io};

/// The smallest segment, bytes. Smaller ones would hold little but their keyframe (4 KiB for a hundred records).
pub const MIN_SEGMENT: u64 = 32 << 10;
/// The smallest cap, bytes: one segment to write and two to keep, on a disk that allocates pages of 4096 bytes.
pub const MIN_DISK: u64 = 128 << 10;
/// Units of the disk in the smallest cap: the directory, and for two segments one and a half beside their bytes.
const UNITS_IN_MIN_DISK: u64 = 4;
/// The largest share of the cap that pins may have, percent: new events need room.
const MAX_PIN_SHARE: u8 = 75;
/// log2 of the coarsest step of times: 2^20 ns, a millisecond. Coarser steps would save nothing more.
const MAX_TIME_BITS: u32 = 20;
/// The largest default segment, bytes. Larger ones lose more at once when the oldest is deleted, and save nothing.
const MAX_SEGMENT: u64 = 8 << 20;

/// Options of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes that the directory and all its segments may take on the disk together.
    pub max_disk: u64,
    /// Segments are deleted when their last event is older, unless they are pinned.
    pub max_age: Option<Duration>,
    /// Maximum time that an event stays in memory: kill -9 loses this much.
    pub flush: Duration,
    /// Maximum time that a block stays unsynced: a power cut loses this much.
    pub sync: Duration,
    /// Size of a segment in bytes; `None` for a sixteenth of `max_disk`, between 32 KiB and 8 MiB. Segments are smaller
    /// if two would not fit, and larger if their keyframe needs it.
    pub segment: Option<u64>,
    /// Time before its moment that a pin keeps.
    pub pin_before: Duration,
    /// Time after its moment that a pin keeps.
    pub pin_after: Duration,
    /// Percent of `max_disk` that pinned segments may take, at most 75; 0 pins nothing.
    pub pin_share: u8,
    /// Times are rounded down to multiples of this many nanoseconds, or of the next smaller power of two; 1 or 0 keeps
    /// them unrounded. The bits left out are noise that does not compress: 1.1 bytes per hit (docs/benchmarks.md).
    pub time_step: u64,
    /// Compression level of zstd. Binaries from cross/build have only the search of level 1, and use it at any level.
    pub level: i32,
    /// A block's list of its contents takes at most one byte for this many of the block, so that small blocks have none.
    /// The default, 64, is what a log should spend on it; tests take 1.
    pub contents_share: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_disk: 64 << 20,
            max_age: None,
            flush: Duration::from_secs(1),
            sync: Duration::from_secs(5),
            segment: None,
            pin_before: Duration::from_secs(300),
            pin_after: Duration::from_secs(60),
            pin_share: 25,
            time_step: 1,
            level: 1,
            contents_share: 64,
        }
    }
}

impl Options {
    /// Bytes that a segment should have.
    pub fn segment_size(&self) -> u64 {
        self.segment.unwrap_or_else(|| (self.max_disk / 16).clamp(MIN_SEGMENT, MAX_SEGMENT))
    }

    /// log2 of the step of times, ns.
    pub(super) fn time_bits(&self) -> u32 {
        self.time_step.checked_ilog2().unwrap_or(0).min(MAX_TIME_BITS)
    }

    /// Checks that the options can work. `unit`: the disk's unit of allocation, bytes.
    pub(super) fn check(&self, unit: u64) -> Result<(), WriteError> {
        let least = MIN_DISK.max(2 * MIN_SEGMENT + UNITS_IN_MIN_DISK * unit);
        if self.max_disk < least {
            return Err(WriteError::DiskTooSmall(self.max_disk, least));
        }
        if self.pin_share > MAX_PIN_SHARE {
            return Err(WriteError::PinShare(self.pin_share));
        }
        match self.segment {
            Some(size) if size < MIN_SEGMENT => Err(WriteError::SegmentSize(size)),
            _ => Ok(()),
        }
    }
}

/// The reason why a writer can't start. Displays as one line with the remedy.
#[derive(Debug)]
pub enum WriteError {
    /// `max_disk` is too small: the requested size and the minimum.
    DiskTooSmall(u64, u64),
    /// `segment` is too small.
    SegmentSize(u64),
    /// `pin_share` leaves too little for new events.
    PinShare(u8),
    /// zstd did not start: not enough memory.
    Compressor(io::Error),
    /// The directory could not be listed.
    List(io::Error),
    /// Segments beyond the cap could not be deleted.
    Delete(io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::DiskTooSmall(size, least) => write!(
                f,
                "a log of at most {size} bytes can't work here; --max-disk must be at least {least} ({}K)",
                least >> 10
            ),
            WriteError::SegmentSize(size) => {
                write!(f, "a segment can't have {size} bytes; it must have at least {MIN_SEGMENT}")
            }
            WriteError::PinShare(share) => write!(
                f,
                "pins can't have {share} percent of the log; --pin-share must be at most {MAX_PIN_SHARE}"
            ),
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

/// The reason why a mark is not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkError {
    /// The mark waits until events can be stored again. Displays as the reason why they can't.
    Waits {
        /// The reason of [`State::Paused`](super::State::Paused).
        reason: String,
    },
}

impl fmt::Display for MarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MarkError::Waits { reason } => f.write_str(reason),
        }
    }
}

impl error::Error for MarkError {}

impl error::Error for WriteError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            WriteError::Compressor(error) | WriteError::List(error) | WriteError::Delete(error) => {
                Some(error)
            }
            WriteError::DiskTooSmall(..) | WriteError::SegmentSize(_) | WriteError::PinShare(_) => None,
        }
    }
}
