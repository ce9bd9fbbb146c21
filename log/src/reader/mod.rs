//! Reads segments, whatever happened to them.
//!
//! Promises for any input: no panic; less than 16 MiB of memory for each open segment; time in proportion to the file's
//! length; every event is read as it was written (three checksums and the segment's tag protect it); every part of the
//! file that gives no events is reported as [`Damage`], in order. A damaged block costs only that block.
//!
//! [`find()`] finds the segments that a path denotes; [`Segment`] reads one; [`Ahead`] reads one on a thread of its
//! own, while its caller works on others; [`verify()`] checks that a run's log is sound.

mod about;
mod ahead;
mod error;
mod find;
mod segment;
mod verify;
mod window;

pub use crate::block::{
    fit, give_back, Classes, Contents, Glance, LeftOut, Set, Shape, Shapes, ThreadContents, Wanted,
};
pub use about::{About, Choice};
pub use ahead::Ahead;
pub use error::{Cause, Damage, ReadError};
pub use find::{find, renamed, SegmentFile, Shown};
pub use segment::{Block, Limit, Segment};
pub use verify::{verify, Fault, Finding, Findings};
