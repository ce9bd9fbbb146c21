//! The machine, and how the recorder watches it.

use crate::event::life::Single;
use serde::{Deserialize, Serialize};

/// The machine and the recorder's run on it. There is one for each run, repeated at the head of each segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine, as `uname -m`.
    pub arch: String,
    /// /proc/sys/kernel/random/boot_id: monotonic times of one boot can be compared.
    pub boot_id: String,
    /// Version of the recorder.
    pub recorder: String,
    /// Seconds east of UTC of the host's local time when the run began.
    pub utc_offset: i32,
}

impl Single for Host {}

/// A pair of clocks read together: `time` of the event and this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Nanoseconds since 1970-01-01 UTC, by CLOCK_REALTIME.
    pub wall: i64,
}

/// How events leave the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Uprobes through one BPF ring buffer.
    Ring,
    /// Uprobes through perf buffers, one for each CPU.
    Perf,
    /// No uprobes: packets only.
    Packet,
}

/// The tier in use and why better ones are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierChoice {
    /// The tier in use.
    pub tier: Tier,
    /// Tiers that were refused, each with the reason, for people.
    pub refused: Vec<(Tier, String)>,
}

impl Single for TierChoice {}

/// How many of the chains that begin with the same record are kept. A chain is everything that a `dbProcess` sets off on
/// its thread if no recorded function has called it, and the completion of its asynchronous records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainSampling {
    /// This many in each window; 0 if none is left out.
    pub chains: u32,
    /// Length of the window, nanoseconds.
    pub window: u64,
    /// Why, for people.
    pub cause: String,
}

impl Single for ChainSampling {
    const PLACE: Option<(u16, u16)> = Some((2, 1));
}
