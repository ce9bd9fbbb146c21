//! What was read, counted.

use std::collections::BTreeMap;

use crate::net::capture_file::FileError;
use crate::net::frames::{Frame, Strange};

/// What was read.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets.
    pub packets: u64,
    /// Those of connections of Channel Access, and of PVAccess.
    pub decoded: [u64; 2],
    /// Those on ports that may be of both, as ports that were named are: counted as of Channel Access.
    pub shared: u64,
    /// Whether any of those went to a server: clients at least acknowledge what it sends.
    pub has_clients: bool,
    /// TCP of other connections.
    pub other_tcp: u64,
    /// Datagrams of both.
    pub datagrams: u64,
    /// Other UDP.
    pub udp: u64,
    /// UDP over IPv6 in fragments, of which nothing is read.
    pub hidden_udp: u64,
    /// Other IP packets: other protocols, later fragments of those.
    pub other_ip: u64,
    /// Not IP.
    pub not_ip: u64,
    /// Cut so short that nobody can tell, or unsound.
    pub too_short: u64,
    /// Packets whose other fragments are missing: of those that carry a segment or a tunnel.
    pub fragments: u64,
    /// Tunnels that are not decoded.
    pub tunnels: u64,
    /// Interfaces, or files that overlap in time, whose connections between loopback addresses count as of one machine.
    pub loopbacks: usize,
    /// Packets by link types that are not known.
    pub unknown_links: BTreeMap<u16, u64>,
    /// Packets that were cut, of those decoded.
    pub cut: u64,
    /// Without a time of their own.
    pub timeless: u64,
    /// Lost by the capturing program, as it says.
    pub dropped: u64,
    /// How often the capture's clock went back, and by how much at most, nanoseconds.
    pub went_back: (u64, u64),
    /// Servers recognized on other ports.
    pub servers: usize,
    /// Monotonic times of the first packet and the last.
    pub span: Option<(u64, u64)>,
    /// Files that could not be read, or not to their ends.
    pub errors: Vec<FileError>,
    /// Whether reading was ended before the end of the files.
    pub is_part: bool,
}

/// The number that a packet of a strange kind counts in.
pub(super) fn outcome_of(frame: &Frame) -> Option<fn(&mut Outcome) -> &mut u64> {
    Some(match frame.strange? {
        Strange::Fragment => |outcome| &mut outcome.fragments,
        Strange::Tunnel => |outcome| &mut outcome.tunnels,
        Strange::Unsound => |outcome| &mut outcome.too_short,
        // told when it is decoded; seen live only
        Strange::Ip6 | Strange::Damaged => return None,
    })
}
