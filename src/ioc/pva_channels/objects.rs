//! The objects that a server keeps for each connection, and what shows that they are these.
//!
//! | | pvxs (QSRV2, p4p) | pvAccessCPP (QSRV1) |
//! |-|-|-|
//! | connection | `ServerConn`: the peer's address behind the virtual table | `BlockingServerTCPTransportCodec`: the socket's descriptor, then the peer's address |
//! | channels | map from number to `ServerChan` | map from number to `ServerChannel` |
//! | a channel | address of the connection, number, the client's number, name | channel, requester, the client's number, number |
//! | its name | | in the requester, behind the addresses of the channel and of the connection |
//! | the client | `ClientCredentials` | `PeerInfo` |
//!
//! Where members are whose place differs between versions and compilers, they are looked for. They are known by what
//! they hold: each channel has the number under which it is in the map and leads back to its connection, the client's
//! identity begins with the peer's address as a text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ioc::clients::ClientChannel;
use crate::ioc::pva_channels::cpp;
use crate::linux::memory::Memory;
use crate::linux::sockets::standing_for;
use crate::linux::width::{u16_at, u32_at, Width};

/// Bytes of a connection that are looked at: it has up to 1 KiB.
pub const CONNECTION: usize = 1536;
/// Most channels of one connection; the decoder keeps 8192.
const MAX_CHANNELS: usize = 20_000;
/// Bytes of a channel, and of its requester, that are looked at.
const CHANNEL: usize = 64;
const REQUESTER: usize = 256;

/// An end of a connection: an IPv6 address, or one that stands for an IPv4 address, and a port.
pub type End = (u128, u16);

/// Which library an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// pvxs.
    Pvxs,
    /// pvAccessCPP.
    PvAccess,
}

/// What a server knows of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// How the client said who it is.
    pub method: String,
    /// User name that it claims; empty if unknown.
    pub user: String,
}

/// An object of a connection, as read.
pub struct Object<'a> {
    pub memory: &'a Memory,
    pub library: Library,
    pub address: u64,
    pub bytes: Box<[u8]>,
}

impl Object<'_> {
    fn word(&self, at: usize) -> u64 {
        Width::Bits64.pointer(&self.bytes, at)
    }

    /// The peers that it may be connected to, each with the socket's descriptor if that stands before it.
    pub fn peers(&self) -> Vec<(End, Option<u32>)> {
        match self.library {
            Library::Pvxs => self.peer(8).map(|peer| (peer, None)).into_iter().collect(),
            Library::PvAccess => {
                let places = (64..self.bytes.len()).step_by(4);
                places.filter_map(|at| Some((self.peer(at)?, Some(u32_at(&self.bytes, at - 4))))).collect()
            }
        }
    }

    /// The address in a sockaddr_in or sockaddr_in6.
    fn peer(&self, at: usize) -> Option<End> {
        let family = i32::from(u16_at(&self.bytes, at));
        let port = u16::from_be(u16_at(&self.bytes, at + 2));
        let ip = match family {
            libc::AF_INET => standing_for(Ipv4Addr::from(*self.bytes.get(at + 4..)?.first_chunk::<4>()?)),
            libc::AF_INET6 => u128::from_be_bytes(*self.bytes.get(at + 8..)?.first_chunk::<16>()?),
            _ => return None,
        };
        (port != 0 && ip != standing_for(Ipv4Addr::UNSPECIFIED)).then_some((ip, port))
    }

    /// Its channels, and where in it their map is; none unless one shows that the map is theirs.
    pub fn channels(&self) -> Option<(usize, Vec<ClientChannel>)> {
        let places = (64..self.bytes.len().saturating_sub(cpp::HEAD)).step_by(8);
        places.into_iter().find_map(|at| {
            let head = self.address.checked_add(at as u64)?;
            let count = cpp::map_at(self.memory, &self.bytes, at, head, MAX_CHANNELS)?;
            let entries = cpp::entries(self.memory, head, count);
            let channels = match self.library {
                Library::Pvxs => self.of_pvxs(&entries),
                Library::PvAccess => self.of_pv_access(&entries),
            };
            (!channels.is_empty()).then_some((at, channels))
        })
    }

    /// Channels with the addresses of their names.
    fn named(&self, found: Vec<(u32, u32, u64)>) -> Vec<ClientChannel> {
        let names: Vec<u64> = found.iter().map(|(_, _, name)| *name).collect();
        let named = found.into_iter().zip(cpp::texts(self.memory, &names));
        let channel = |((sid, cid, _), pv): (_, Option<String>)| {
            Some(ClientChannel { cid, sid, pv: pv.filter(|pv| !pv.is_empty())? })
        };
        named.filter_map(channel).collect()
    }

    fn of_pvxs(&self, entries: &[(u32, u64)]) -> Vec<ClientChannel> {
        let channels = self.memory.each_some::<CHANNEL>(&values(entries));
        let found = entries.iter().zip(channels).filter_map(|(&(sid, at), channel)| {
            let is_own = Width::Bits64.pointer(&channel, 0) == self.address && u32_at(&channel, 16) == sid;
            is_own.then(|| (sid, u32_at(&channel, 20), at.saturating_add(24)))
        });
        self.named(found.collect())
    }

    fn of_pv_access(&self, entries: &[(u32, u64)]) -> Vec<ClientChannel> {
        let channels = self.memory.each_some::<CHANNEL>(&values(entries));
        let own: Vec<(u32, u32, u64, u64)> = entries
            .iter()
            .zip(channels)
            .filter(|((sid, _), channel)| u32_at(channel, 36) == *sid)
            .map(|(&(sid, at), channel)| (sid, u32_at(&channel, 32), at, Width::Bits64.pointer(&channel, 16)))
            .collect();
        let requesters: Vec<u64> = own.iter().map(|(.., requester)| *requester).collect();
        let requesters = self.memory.each_some::<REQUESTER>(&requesters);
        let found = own.into_iter().zip(requesters).filter_map(|((sid, cid, channel, at), requester)| {
            let word = |at| Width::Bits64.pointer(&requester, at);
            let back =
                (8..160).step_by(8).find(|&back| word(back) == channel && word(back + 16) == self.address)?;
            let name = back + 32;
            let is_own = cpp::STRINGS.iter().any(|bytes| u32_at(&requester, name + bytes) == cid);
            is_own.then(|| (sid, cid, at.saturating_add(name as u64)))
        });
        self.named(found.collect())
    }

    /// Who the client says to be. `map`: where the map of the channels is.
    pub fn identity(&self, map: usize, peer: End) -> Identity {
        // virtual tables; strings from the peer's address to the method, and to the user
        let (begin, near, method, user) = match self.library {
            Library::Pvxs => (0, map.saturating_sub(64), 2, 3),
            Library::PvAccess => (8, map.saturating_sub(256), 2, 4),
        };
        let candidates = (near..map).step_by(8).map(|at| self.word(at)).filter(|&at| cpp::may_point(at));
        for candidate in candidates {
            let text = |number: usize, each: usize| {
                cpp::text(self.memory, candidate.saturating_add((begin + number * each) as u64))
            };
            if !text(0, 0).is_some_and(|text| is_address(&text, peer)) {
                continue;
            }
            for each in cpp::STRINGS {
                let (Some(method), Some(user)) = (text(method, each), text(user, each)) else { continue };
                if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    continue;
                }
                // the server's own name for one who did not say
                let user = if method == "anonymous" { String::new() } else { user };
                return Identity { method, user };
            }
        }
        Identity::default()
    }
}

fn values(entries: &[(u32, u64)]) -> Vec<u64> {
    entries.iter().map(|(_, value)| *value).collect()
}

/// Whether a text is this address.
fn is_address(text: &str, end: End) -> bool {
    let Ok(address) = text.parse::<SocketAddr>() else { return false };
    let ip = match address.ip() {
        IpAddr::V4(ip) => standing_for(ip),
        IpAddr::V6(ip) => u128::from(ip),
    };
    (ip, address.port()) == end && Ipv6Addr::from(ip) != Ipv6Addr::UNSPECIFIED
}
