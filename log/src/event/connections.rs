//! TCP connections of IOCs, as the kernel shows them at a look each second.

use super::ids::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A TCP connection of an IOC, noted when it is seen for the first time, when its state has changed, and when segments
/// had to be sent again. What lies between two looks is not seen: a connection that begins and ends there is not noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpConnection {
    /// The IOC.
    pub ioc: IocId,
    /// Inode number of the socket: the same in all events of a connection.
    pub socket: u32,
    /// The IOC's end.
    pub local: TcpEnd,
    /// The other end.
    pub remote: TcpEnd,
    /// What it is now.
    pub state: TcpState,
    /// The circuit that it is, if the recorder knew one by these ends.
    pub circuit: Option<CircuitId>,
    /// Monotonic time of the look before, which showed it otherwise, or not at all; 0: there was none.
    pub after: u64,
    /// Monotonic time of the first look that showed it connected; 0: none did.
    pub opened: u64,
    /// Monotonic time of the last look before that, which did not show it connected; 0: there was none.
    pub opened_after: u64,
    /// Segments that the IOC's side has sent again since the connection began, as of the last look that showed it.
    pub retransmitted: u32,
    /// Bytes that the IOC has sent and the other end has not acknowledged, as of that look.
    pub unsent: u32,
}

/// A client for which data waits that it does not take: its window is closed, or updates for it were replaced meanwhile.
/// Noted when that is found, each ten seconds while it goes on, and when nothing waits any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowClient {
    /// The IOC, which is its server.
    pub ioc: IocId,
    /// The client's end.
    pub client: TcpEnd,
    /// The server's end.
    pub server: TcpEnd,
    /// The circuit, if the recorder knew one by these ends.
    pub circuit: Option<CircuitId>,
    /// Monotonic time of the first look at which data waited; it did so at all looks since then.
    pub since: u64,
    /// Whether nothing waits any more: the client has read, or the connection has ended, since the look before.
    pub is_over: bool,
    /// Bytes that wait in the server's socket; `window_closed`: the client has no room for any.
    pub unsent: u32,
    /// See `unsent`.
    pub window_closed: bool,
    /// Its subscriptions with updates that wait or were replaced, those replaced most often first; from the IOC's memory.
    /// `None` if that could not be read.
    pub updates: Option<Vec<Updates>>,
    /// Whether these are all: not too many.
    pub is_whole: bool,
}

/// The updates of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updates {
    /// The PV, as the client wrote it.
    pub pv: String,
    /// Updates that wait in the server's queue.
    pub pending: u64,
    /// Updates since the client subscribed that were replaced by later ones before they were sent; `None`: the server does
    /// not count them, as with arrays.
    pub replaced: Option<u64>,
}

/// An end of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TcpEnd {
    /// The IP address: 4 bytes, or the 16 of IPv6. IPv6 addresses that stand for IPv4 ones are written as those.
    pub ip: Vec<u8>,
    /// Port.
    pub port: u16,
}

impl fmt::Display for TcpEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip.first_chunk::<4>(), self.ip.first_chunk::<16>()) {
            (_, Some(ip)) => write!(f, "[{}]:{}", Ipv6Addr::from(*ip), self.port),
            (Some(ip), None) => write!(f, "{}:{}", Ipv4Addr::from(*ip), self.port),
            (None, None) => write!(f, "?:{}", self.port),
        }
    }
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TcpState {
    /// The IOC has asked for it, and no answer has come.
    Opening,
    /// It is open.
    Open,
    /// The other end has closed it, before the IOC did.
    PeerClosed,
    /// The IOC has closed it, before the other end did.
    Closed,
    /// It is no more, but the IOC still has the socket: a reset or a time-out ended it, or the IOC shut it down.
    Aborted,
    /// It is no more; who ended it is not known.
    Gone,
}

impl TcpConnection {
    /// What it is, for people: with "the connection" as what it is about.
    pub fn sentence(&self) -> &'static str {
        match self.state {
            TcpState::Opening => "was not answered yet",
            TcpState::Open => "is open",
            TcpState::PeerClosed => "was closed by the other end",
            TcpState::Closed => "was closed by the IOC",
            _ if self.opened == 0 => "did not come about",
            TcpState::Aborted => "broke off: a reset, a time-out, or shut down by the IOC",
            TcpState::Gone => "ended, and by whom is not known",
        }
    }

    /// Whether it is a circuit of Channel Access or PVAccess, not a connection with a device: one that the recorder knew,
    /// or one with the ports that servers have by default.
    pub fn is_circuit(&self) -> bool {
        self.circuit.is_some() || matches!(self.remote.port, 5064 | 5075)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        !matches!(self.state, TcpState::Opening | TcpState::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_both_versions_and_of_garbage() {
        let end = |ip: &[u8]| TcpEnd { ip: ip.to_vec(), port: 5025 }.to_string();
        assert_eq!(end(&[10, 0, 0, 7]), "10.0.0.7:5025");
        let mut six = [0; 16];
        six[15] = 1;
        assert_eq!(end(&six), "[::1]:5025");
        assert_eq!(end(&[1, 2]), "?:5025");
        assert_eq!(end(&[]), "?:5025");
    }
}
