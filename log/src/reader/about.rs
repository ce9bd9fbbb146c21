//! What is known of a block before it is unpacked, and what a reader makes of that.

use crate::block::{Classes, Contents, Wanted};
use std::sync::Arc;

/// What is known of a block before it is unpacked: by its header, and by the list of contents at its front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length in the file in bytes, header included.
    pub length: u64,
    /// Its number in the segment, from 0.
    pub sequence: u32,
    /// Whether it belongs to the keyframe.
    pub keyframe: bool,
    /// Whether it holds definitions or ends.
    pub defines: bool,
    /// Earliest time in it.
    pub first: u64,
    /// Latest time in it.
    pub last: u64,
    /// Number of its events.
    pub count: u32,
    /// The kinds of facts in it; `None` if the recorder did not note them, so that it may hold any.
    pub classes: Option<Classes>,
    /// What they concern; `None` likewise, as in all small blocks.
    pub contents: Option<Contents>,
}

/// What to do with a block.
pub enum Choice {
    /// Give all events.
    Read,
    /// Give all events but hits that are not wanted.
    Only(Arc<Wanted>),
    /// Give the shapes of its hits and no event; all events if it is an old block, whose hits have no shapes.
    Shapes,
    /// Give none.
    Pass,
    /// Give none, and don't look at it: damage in it is not found.
    Skip,
}

/// Decides about each block.
pub(super) type Choose = dyn Fn(&About) -> Choice + Send;
