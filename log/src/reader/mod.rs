//! Reads segments, whatever happened to them.
//!
//! What it promises for any bytes at all: no panic; memory below 16 MiB a segment that is open; time in
//! proportion to the file's length; every event it gives was written as such (three checksums and the
//! segment's tag stand before it); every stretch of the file that it gives no events of is reported as
//! [`Damage`], in order. A damaged block costs that block.
//!
//! [`find()`] tells which segments a path stands for; [`Segment`] reads one; [`Ahead`] reads one on a thread of
//! its own, while others are worked on; [`verify()`] tells whether a run's log is sound.

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
