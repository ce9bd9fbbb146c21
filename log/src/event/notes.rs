//! Notes for people, and the log's notes about itself.

use super::ids::*;
use serde::{Deserialize, Serialize};

/// The place where something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossSource {
    /// Hits, between the kernel and the recorder.
    Hits,
    /// Packets, between the kernel and the recorder.
    Packets,
    /// Bytes of a circuit: a gap in the captured stream, or bytes that are not Channel Access.
    Stream,
    /// Things whose names could not be read from the IOC's memory.
    Names,
    /// Events that could not be stored.
    Storage,
}

/// Something was not recorded. No loss is silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Where it was lost.
    pub source: LossSource,
    /// Number of hits, packets, bytes (Stream) or events lost.
    pub count: u64,
    /// Monotonic time before which nothing of it was lost.
    pub since: u64,
    /// Why, for people.
    pub cause: String,
}

/// Chains that chain sampling ([`ChainSampling`](crate::event::ChainSampling)) left out. It always leaves out whole
/// chains, and never those that puts from outside began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainsLeftOut {
    /// The record with which they began.
    pub record: RecordId,
    /// Number of chains.
    pub count: u64,
    /// Monotonic time at which the first of them began; the last began before the time of this event.
    pub since: u64,
}

/// From now on the segments of a time span are kept when older ones are deleted to free space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Beginning of the span, monotonic.
    pub from: u64,
    /// End of the span, mostly in the future.
    pub to: u64,
    /// Why, for people.
    pub cause: String,
}

/// Pinned segments exceeded their share of the disk, so the oldest of them are no longer pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpinned {
    /// Number of segments.
    pub segments: u32,
}

/// A segment of this run was closed: everything written to it is on disk, and nothing more will be written. The last
/// block of the segment records this, if it had room; so does the keyframe of the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// Its number in the run.
    pub segment: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// The latest time in it, monotonic.
    pub last: u64,
}

/// A PVAccess server's message: why it refused something, or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaMessage {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The channel that it concerns, where known.
    pub channel: Option<ChannelId>,
    /// The message that it answers or is: 7 a channel was refused, 9 a user, 11 to 20 the preparation of a request (as
    /// PVAccess numbers its commands), 17 a question for a type, 18 a message.
    pub command: u16,
    /// 1 warning, 2 error, 3 fatal error; of a message 0 information.
    pub level: u16,
    /// The text.
    pub text: String,
}
