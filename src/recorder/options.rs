//! What to record.

use std::time::Duration;

use crate::linux::user::Users;
use crate::probes::tiers::TierRequest;
use crate::recorder::chain_sampling::Retain;
use crate::recorder::selection::Selection;

/// What the user wants recorded, and how.
pub struct Options {
    /// The tier asked for.
    pub tier: TierRequest,
    /// Interfaces to capture on; `any` for all.
    pub interfaces: Vec<String>,
    /// CA server ports besides those that are found.
    pub ports: Vec<u16>,
    /// Only these processes; all where empty.
    pub pids: Vec<u32>,
    /// Whose processes.
    pub users: Users,
    /// Which records and PVs.
    pub selection: Selection,
    /// Leave the IOCs' command lines out of the log.
    pub no_command_lines: bool,
    /// Record puts?
    pub puts: bool,
    /// Record processing?
    pub process: bool,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Keep at most this many chains a second of each record that begins them.
    pub thin: Option<u32>,
    /// Sample chains as sparsely as needed for the log to reach back this long.
    pub retain: Option<Retain>,
}
