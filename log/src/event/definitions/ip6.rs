//! IPv6 addresses where facts have room for IPv4 ones only.

use crate::event::life::{allocated, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// An [`Address`](super::Address) with this IP address stands for one of IPv6. Such IP addresses are below 1.0.0.0, which
/// no host has; 0.0.0.1 stands for ::1 only. 0.0.0.0 stands for one that is not told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ip6 {
    /// The IP address in other facts of this run.
    pub ip: u32,
    /// The IPv6 address, 16 bytes.
    pub bytes: Vec<u8>,
}

impl Ip6 {
    /// IP addresses from here on stand for nothing.
    pub const END: u32 = 1 << 24;
    /// The IP address that stands for ::1.
    pub const LOOPBACK: u32 = 1;
}

impl Whole for Ip6 {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.ip
    }

    fn heap(&self) -> usize {
        allocated(self.bytes.len())
    }
}
