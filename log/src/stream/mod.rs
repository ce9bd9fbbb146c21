//! The stream of a log: its segments as they are written, through a pipe. `iocrec cat` sends it, `iocreplay follow -`
//! receives it. docs/format.md documents the bytes; their lengths are asserted here at compile time.
//!
//! A stream is a header, then frames. Each frame has a checksum over its header, so that its lengths can be trusted, and
//! one over the rest. All numbers are little endian.

mod incoming;
#[cfg(unix)]
mod sender;

pub use crate::name::SegmentName;
pub use incoming::{Frame, Incoming, StreamError};
#[cfg(unix)]
pub use sender::Sender;

use crate::format::{BLOCK_HEADER, MAX_STORED};
use crate::name::SUFFIX;
use std::fmt;

/// First bytes of every stream: no text, and damaged by whatever converts line ends.
pub const MAGIC: [u8; 8] = *b"\x89IOCCAT\n";
/// Version of the stream that this crate sends, and the newest that it receives.
pub const VERSION: u16 = 1;
/// Length of the stream's header.
pub const HEADER: usize = 16;
/// Length of a frame's header.
pub const FRAME_HEADER: usize = 24;
/// Size of the longest name in a frame: those of segments have 40 bytes at most, and new ones may come.
pub const MAX_NAME: usize = 64;
/// Size of the largest payload, bytes: the largest block, which is never sent in parts while its segment is written.
pub const MAX_PAYLOAD: usize = BLOCK_HEADER + MAX_STORED;

/// Kind of a frame: bytes of a segment; none if it was renamed.
pub(crate) const BYTES: u16 = 1;
/// Kind of a frame: something was deleted before it could be sent.
pub(crate) const GAP: u16 = 2;
/// Kind of a frame: the directory is another one.
pub(crate) const REPLACED: u16 = 3;
/// Kind of a frame: the end, as everything that is there was sent.
pub(crate) const END: u16 = 4;
/// Kind of a frame: there is nothing to send for now.
pub(crate) const IDLE: u16 = 5;

const _: () = {
    assert!(HEADER == 8 + 2 + 2 + 4);
    assert!(FRAME_HEADER == 2 + 2 + 4 + 8 + 4 + 4);
    assert!(MAX_PAYLOAD == 263_284);
};

/// A place in a log: a segment, and a number of bytes in it. It stays valid when the segment is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The segment.
    pub segment: SegmentName,
    /// Offset in it.
    pub offset: u64,
}

impl Position {
    /// Reads `20260131T235959Z-0000000042:12345`.
    pub fn parse(text: &str) -> Option<Position> {
        let (segment, offset) = text.split_once(':')?;
        let is_number = !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit());
        let segment = SegmentName::parse(&[segment, SUFFIX].concat())?;
        Some(Position { segment, offset: offset.parse().ok().filter(|_| is_number)? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.segment.pinned(crate::name::Pin::No).to_string();
        write!(f, "{}:{}", name.strip_suffix(SUFFIX).unwrap_or(&name), self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let text = "20260131T235959Z-0000000042:12345";
        let position = Position::parse(text).unwrap();
        assert_eq!((position.to_string().as_str(), position.offset), (text, 12345));
        let pinned = Position::parse("20260131T235959Z-0000000042-mark:0").unwrap();
        assert_eq!(pinned.to_string(), "20260131T235959Z-0000000042:0");
        for wrong in [
            "",
            "oldest",
            "20260131T235959Z-0000000042",
            "20260131T235959Z-0000000042:",
            "20260131T235959Z-0000000042:-1",
            "20260131T235959Z-0000000042:+1",
            "20260131T235959Z-0000000042:1x",
            "20260131T235959Z-0000000042:99999999999999999999",
            "../20260131T235959Z-0000000042:1",
            "20260131T235959Z-0000000042.iocrec:1",
        ] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
