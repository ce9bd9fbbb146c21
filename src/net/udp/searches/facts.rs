//! Requests and answers, and how their counts become facts.

use iocrec_log::event::{self, Address, Fact, SearchLoad};

/// A request: its sender and its number for the channel.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The sender.
    pub client: Address,
    /// Whether it came on a circuit.
    pub tcp: bool,
    /// The client's number for the channel, which answers repeat.
    pub cid: u32,
}

/// An answer that a server has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The server.
    pub server: Address,
    /// Its GUID, in PVAccess.
    pub guid: Guid,
}

/// A server's GUID; PVAccess alone has them.
pub type Guid = Option<[u8; 12]>;

/// How a protocol's counts become facts.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Searches, with the GUID of each server that answered.
    pub searches: fn(event::Searches, Vec<Guid>) -> Fact,
    /// A load.
    pub load: fn(SearchLoad) -> Fact,
}
