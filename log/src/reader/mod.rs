//! Reads segments, whatever happened to them.
//!
//! What it promises for any bytes at all: no panic; less than 16 MiB of memory for each open segment; time in proportion
//! to the file's length; every event was written as it is read (three checksums and the segment's tag protect it); every
//! part of the file that gives no events is reported as [`Damage`], in order. A damaged block costs only that block.
//!
//! [`find()`] finds the segments that a path stands for; [`Segment`] reads one; [`Ahead`] reads one on a thread of its own,
//! while its caller works on others; [`verify()`] checks whether a run's log is sound.

mod ahead;
mod error;
mod find;
mod segment;
mod verify;
mod window;

pub use ahead::Ahead;
pub use error::{Cause, Damage, ReadError};
pub use find::{find, SegmentFile};
pub use segment::{Block, Limit, Segment};
pub use verify::{verify, Fault, Finding, Findings};
