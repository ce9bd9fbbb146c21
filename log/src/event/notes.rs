//! Notes.

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
    /// Something whose name could not be read from the IOC.
    Names,
    /// Events that could not be stored.
    Storage,
}

/// A loss. None is silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Where.
    pub source: LossSource,
    /// How many (hits, packets, bytes for Stream, events).
    pub count: u64,
    /// Monotonic time before which nothing of it was lost.
    pub since: u64,
    /// In words, for people.
    pub cause: String,
}

/// Chains that were left out as [`ChainSampling`] says; as wholes, and not those that puts from outside began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainsLeftOut {
    /// The record that they began with.
    pub record: RecordId,
    /// How many.
    pub count: u64,
    /// Monotonic time at which the first of them began; the last began before the time of this event.
    pub since: u64,
}

/// From now on the segments of a span of time are kept when older ones are deleted to make room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Begin of the span, monotonic.
    pub from: u64,
    /// Its end, mostly to come.
    pub to: u64,
    /// Why, in words, for people.
    pub cause: String,
}

/// Kept segments had more than their share of the disk, so the oldest of them are kept no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpinned {
    /// How many.
    pub segments: u32,
}

/// A segment of this run was closed: all that was written to it is on the disk, and nothing more will be. It says so
/// itself in its last block, if there was room; and the keyframe of the segment that follows it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// Its number in the run.
    pub segment: u32,
    /// How many blocks it has.
    pub blocks: u32,
    /// The latest time in it, monotonic.
    pub last: u64,
}
