//! The channels of PVAccess clients, read from the memory of the server.
//!
//! A server keeps an object for each connection, which begins with the address of its class's virtual table, a number
//! that appears nowhere else; so a search of the process's heap finds all connections, as it does for the clients of
//! Channel Access ([`channels`](crate::ioc::channels)), with the same promises. Known are pvxs (QSRV2, p4p) and
//! pvAccessCPP from 6.0 on (QSRV1), in 64-bit processes that use GNU's C++ library. No lock is taken: what is found may
//! be old or half changed. So a connection counts if the process holds the socket of that very connection, and a channel
//! if all that leads to it agrees. Whatever doesn't has no name.

mod cpp;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::ioc::channels::search;
use crate::ioc::clients::ClientChannel;
use crate::ioc::files::LibraryFiles;
pub use crate::ioc::pva_channels::objects::{End, Identity};
use crate::ioc::pva_channels::objects::{Library, Object, CONNECTION};
use crate::linux::memory::Memory;
use crate::linux::process::{self, Mapping};
use crate::linux::sockets::{self, AnyConnection};
use crate::linux::width::Width;

/// Virtual tables of the classes of connections.
const PVXS: &str = "_ZTVN4pvxs4impl10ServerConnE";
const PV_ACCESS: &str = "_ZTVN5epics8pvAccess6detail31BlockingServerTCPTransportCodecE";
/// Bytes of a virtual table before the address that objects hold (Itanium C++ ABI: offset to top, type information).
const TABLE_HEAD: u64 = 16;
/// Time limit for the search of a server's heap: 100 MB take 0.1 s on a PC, and ten times as long on a small board.
/// Unoptimized builds take ten times longer again.
const MAX_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 3 });

/// A connection of a server, with the client's channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCircuit {
    /// Client's end.
    pub client: End,
    /// Server's end.
    pub server: End,
    /// What the client said of itself.
    pub identity: Identity,
    /// Its channels.
    pub channels: Vec<ClientChannel>,
}

/// Reader of servers. Remembers which files hold their libraries.
#[derive(Default)]
pub struct Libraries {
    files: LibraryFiles,
}

/// Addresses of the virtual tables in a process.
type Tables = Vec<(u64, Library)>;

impl Libraries {
    /// The connections of a process to its `ports` that are not among those `known`, by client and server; none if it
    /// serves no PVAccess, has ended or can't be read.
    pub fn circuits(&mut self, pid: u32, ports: &[u16], known: &HashSet<(End, End)>) -> Vec<OpenCircuit> {
        let mut connections = sockets::served_connections(pid, ports);
        connections.retain(|connection| !known.contains(&(connection.remote, connection.local)));
        if connections.is_empty() {
            return Vec::new();
        }
        let held: HashSet<u64> =
            sockets::held(&process::directory(pid), sockets::MAX_LISTED).into_iter().collect();
        connections.retain(|connection| held.contains(&connection.inode));
        let mappings = process::mappings(pid).unwrap_or_default();
        let tables = self.tables(pid, &mappings);
        if connections.is_empty() || tables.is_empty() {
            return Vec::new();
        }
        let memory = Memory::of(pid, Width::Bits64);
        let wanted: Vec<u64> = tables.iter().map(|(table, _)| *table).collect();
        let objects = search(pid, &memory, &process::writable(pid), &wanted, MAX_TIME);
        read(&memory, &objects, &tables, &connections, &|descriptor| sockets::inode(pid, descriptor))
    }

    fn tables(&mut self, pid: u32, mappings: &[Mapping]) -> Tables {
        let mut tables = Tables::new();
        self.files.each(pid, mappings, &[PVXS, PV_ACCESS], &mut |elf, bias| {
            for (name, library) in [(PVXS, Library::Pvxs), (PV_ACCESS, Library::PvAccess)] {
                let table = elf.symbol(name).filter(|symbol| elf.is_64bit && !symbol.function);
                let first = table.map(|table| table.address.wrapping_add(bias).wrapping_add(TABLE_HEAD));
                tables.extend(first.map(|first| (first, library)));
            }
        });
        tables
    }
}

/// Reads the objects and keeps those of these connections. `inode`: that of the socket behind a descriptor.
fn read(
    memory: &Memory,
    objects: &[u64],
    tables: &Tables,
    connections: &[AnyConnection],
    inode: &dyn Fn(u32) -> Option<u64>,
) -> Vec<OpenCircuit> {
    // by the ends and the number; `None` where two names claim the same channel
    type Channels = BTreeMap<u32, Option<ClientChannel>>;
    let mut circuits: BTreeMap<(End, End), (Identity, Channels)> = BTreeMap::new();
    for &address in objects {
        let mut bytes = vec![0; CONNECTION].into_boxed_slice();
        let have = memory.read_some(address, &mut bytes);
        let table = Width::Bits64.pointer(&bytes, 0);
        let Some(&(_, library)) = tables.iter().find(|(first, _)| *first == table && have > 0) else {
            continue;
        };
        let object = Object { memory, library, address, bytes };
        let own = object.peers().into_iter().find_map(|(peer, descriptor)| {
            let mut to_peer = connections.iter().filter(|connection| connection.remote == peer);
            let is_own = |connection: &&AnyConnection| {
                descriptor.is_none_or(|descriptor| inode(descriptor) == Some(connection.inode))
            };
            to_peer.find(is_own).filter(|_| to_peer.next().is_none())
        });
        let Some(connection) = own else { continue };
        let Some((map, channels)) = object.channels() else { continue };
        let ends = (connection.remote, connection.local);
        let identity = object.identity(map, connection.remote);
        match circuits.entry(ends) {
            Entry::Vacant(place) => {
                let channels = channels.into_iter().map(|channel| (channel.sid, Some(channel))).collect();
                place.insert((identity, channels));
            }
            Entry::Occupied(mut place) => {
                // one of the two is an old one, but which one is unknown
                let (known, before) = place.get_mut();
                if *known != identity {
                    *known = Identity::default();
                }
                for channel in channels {
                    let other = before.get(&channel.sid).cloned();
                    let agrees = other.is_none_or(|other| other.as_ref() == Some(&channel));
                    before.insert(channel.sid, Some(channel).filter(|_| agrees));
                }
            }
        }
    }
    let circuit = |((client, server), (identity, channels)): (_, (Identity, Channels))| OpenCircuit {
        client,
        server,
        identity,
        channels: channels.into_values().flatten().collect(),
    };
    circuits.into_iter().map(circuit).collect()
}
