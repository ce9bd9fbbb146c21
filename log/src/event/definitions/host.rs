//! The machine, and the recorder's way of watching it.

use crate::event::life::Single;
use serde::{Deserialize, Serialize};

/// The machine and the recorder's run on it. Each run has one, and every segment repeats it at its head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine, as `uname -m`.
    pub arch: String,
    /// /proc/sys/kernel/random/boot_id. Monotonic times are comparable within one boot.
    pub boot_id: String,
    /// Version of the recorder.
    pub recorder: String,
    /// Offset of the host's local time from UTC at the start of the run, seconds east.
    pub utc_offset: i32,
}

impl Single for Host {}

/// The wall clock, read together with the monotonic clock in `time` of the event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Nanoseconds since 1970-01-01 UTC, by CLOCK_REALTIME.
    pub wall: i64,
}

/// The path on which events leave the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Uprobes through one BPF ring buffer.
    Ring,
    /// Uprobes through perf buffers, one for each CPU.
    Perf,
    /// No uprobes: packets only.
    Packet,
}

/// The tier in use, and the reasons against better ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierChoice {
    /// The tier in use.
    pub tier: Tier,
    /// Tiers that were refused, each with the reason, for people.
    pub refused: Vec<(Tier, String)>,
}

impl Single for TierChoice {}

/// Number of chains that are kept of those that begin with the same record. A chain is everything that a `dbProcess`
/// sets off on its thread if no recorded function called it, and the completion of its asynchronous records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainSampling {
    /// Number of chains kept in each window; 0 if none is left out.
    pub chains: u32,
    /// Length of the window, nanoseconds.
    pub window: u64,
    /// Why, for people.
    pub cause: String,
}

impl Single for ChainSampling {
    const PLACE: Option<(u16, u16)> = Some((2, 1));
}
