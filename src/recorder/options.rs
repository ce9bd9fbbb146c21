//! Options of a recording.

use std::time::Duration;

use crate::bpf::transport::Room;
use crate::linux::chosen::Chosen;
use crate::probes::tiers::TierRequest;
use crate::recorder::chain_sampling::Retain;
use crate::recorder::selection::Selection;

/// The user's choice of what to record, and how.
pub struct Options {
    /// Tier requested.
    pub tier: TierRequest,
    /// Room for the hits that wait for the recorder.
    pub room: Room,
    /// Interfaces to capture on; `any` for all.
    pub interfaces: Vec<String>,
    /// CA server ports in addition to those found.
    pub ports: Vec<u16>,
    /// Only these processes; all if empty.
    pub pids: Vec<u32>,
    /// The processes that may be recorded.
    pub chosen: Chosen,
    /// Records and PVs to record.
    pub selection: Selection,
    /// Whether to leave the IOCs' command lines out of the log.
    pub no_command_lines: bool,
    /// Whether to record puts.
    pub puts: bool,
    /// Whether to record searches, beacons, and other Channel Access traffic beside puts.
    pub net: bool,
    /// Whether to record processing.
    pub process: bool,
    /// Whether to record what the IOCs print.
    pub console: bool,
    /// Lines that each may print in a second; the others are counted.
    pub console_rate: u32,
    /// Whether to record what the IOCs use of the machine.
    pub resources: bool,
    /// Whether to record what the IOCs do with files, sockets and devices.
    pub io: bool,
    /// Whether to record snapshots, and the cap of the log, of which they may take a part.
    pub snapshots: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Keep at most this many chains a second of each record that begins them.
    pub thin: Option<u32>,
    /// Sample chains as sparsely as needed for the log to reach back this long.
    pub retain: Option<Retain>,
}
