//! Notes for people, and the log's notes about itself.

use super::ids::*;
use serde::{Deserialize, Serialize};

/// Where something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossSource {
    /// Hits, between the kernel and the recorder.
    Hits,
    /// Packets, between the kernel and the recorder.
    Packets,
    /// Bytes of a circuit: a gap in what was captured, or not Channel Access.
    Stream,
    /// Something whose name could not be read from the IOC's memory.
    Names,
    /// Events that could not be stored.
    Storage,
}

/// Something was not recorded. No loss is silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Where.
    pub source: LossSource,
    /// How much: hits, packets, bytes (Stream) or events.
    pub count: u64,
    /// Monotonic time before which none of it was lost.
    pub since: u64,
    /// Why, for people.
    pub cause: String,
}

/// Chains that were left out because of chain sampling ([`ChainSampling`](crate::event::ChainSampling)): always whole
/// chains, and never those that puts from outside began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainsLeftOut {
    /// The record that they began with.
    pub record: RecordId,
    /// How many.
    pub count: u64,
    /// Monotonic time at which the first of them began; the last began before the time of this event.
    pub since: u64,
}

/// The segments of a span of time are kept from now on when older ones are deleted to make room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Beginning of the span, monotonic.
    pub from: u64,
    /// End of the span, mostly in the future.
    pub to: u64,
    /// Why, for people.
    pub cause: String,
}

/// Pinned segments had more than their share of the disk, so the oldest of them are pinned no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpinned {
    /// How many.
    pub segments: u32,
}

/// A segment of this run was closed: everything written to it is on the disk, and nothing more will be written. The segment
/// says so itself in its last block, if there was room; so does the keyframe of the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// Its number in the run.
    pub segment: u32,
    /// How many blocks it has.
    pub blocks: u32,
    /// The latest time in it, monotonic.
    pub last: u64,
}
