//! Takes UDP datagrams off the network: a packet socket of its own in each network namespace, apart from TCP's ring, so
//! that a flood of datagrams costs no put.
//!
//! Unlike TCP, datagrams are few and mean something each alone, so they are queued by the kernel and read when the
//! recorder comes by; they wake nobody. The queue is bounded, and what does not fit is counted. When more come than are
//! worth reading, the filter passes one in so many, chosen by chance, and cuts it: [`Taking`].
//!
//! What the protocols' datagrams have in common is counted here: [`searches`], [`beacons`].

pub mod beacons;
mod busiest;
pub mod copies;
pub mod datagram;
mod filter;
pub mod places;
pub mod searches;
mod socket;
pub mod stand_ins;
pub mod watched;

pub use filter::{Selected, Taking};
pub use socket::{Received, Socket};

use crate::net::Namespace;
use iocrec_log::event::Ip6;

/// Where something was seen: addresses of loopback interfaces mean something else in each namespace, all others are
/// taken for the same everywhere.
pub type Scope = Namespace;

/// The scope of an address that was seen in a namespace.
pub fn scope(namespace: Namespace, ip: u32) -> Scope {
    if ip >> 24 == 127 || ip == Ip6::LOOPBACK {
        namespace
    } else {
        0
    }
}

/// A datagram's place and time.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The namespace in which it was captured.
    pub namespace: Namespace,
    /// The interface's index there.
    pub interface: i32,
    /// Monotonic time, nanoseconds.
    pub time: u64,
}
