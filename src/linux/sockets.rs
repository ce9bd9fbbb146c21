//! TCP sockets and the processes that hold them, in the network namespace of a process: in the recorder's own by
//! sock_diag, in others, and where the kernel has no sock_diag, from /proc.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use iocrec_log::event::Address;

use crate::linux::descriptors::is_want;
use crate::linux::sock_diag::{self, Diag};
use crate::linux::{clock, proc, process};

/// States of connections in /proc/net/tcp (TCP_ESTABLISHED, TCP_CLOSE_WAIT, TCP_LISTEN). In CLOSE_WAIT the other end
/// has closed the connection, but its owner still has it.
const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";
const LISTEN: &str = "0A";

/// Connections that are asked for one by one. More cost as much as all connections of a usual machine.
const FEW: usize = 1024;
/// Interfaces that sockets are bound to, on which each connection is asked for.
const MAX_INTERFACES: usize = 8;
/// Descriptors of a process that are looked at where all processes' are: one of EPICS has some hundreds.
pub const MAX_LISTED: usize = 65_536;
/// Processor time that lists of sockets may take at once where others wait, nanoseconds; and the part of all time after that:
/// one in so many.
const MOST_SPENT: u64 = 100_000_000;
const SHARE: u64 = 30;
/// Addresses that are known of a network that is some user's own: there he may have any number, and each packet and circuit is
/// compared with them.
const MAX_OF_USER: usize = 1024;

/// An IPv4 address of this machine, or a range of them, as for loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address; its first byte is the highest.
    pub ip: u32,
    /// Length of the prefix, bits: 32, or 8 for loopback.
    pub bits: u8,
}

impl LocalAddress {
    /// Whether this address is in the range.
    pub fn has(self, ip: u32) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
        (ip ^ self.ip) & mask == 0
    }
}

/// An established connection, as seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// This end.
    pub local: Address,
    /// The other end.
    pub remote: Address,
    /// The socket's inode, which identifies it in descriptors.
    pub inode: u64,
}

/// An established connection of either IP version. IPv4 addresses are the IPv6 addresses that stand for them
/// (::ffff:0:0/96).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyConnection {
    /// This end: address and port.
    pub local: (u128, u16),
    /// The other end.
    pub remote: (u128, u16),
    /// The socket's inode.
    pub inode: u64,
}

/// A socket that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSocket {
    /// It identifies the socket in descriptors.
    pub inode: u64,
    /// Number of the user who has made it. That stays so, whoever holds it: a program that runs as another user may inherit it.
    pub user: u32,
}

/// The IPv6 address that stands for an IPv4 address.
pub fn standing_for(ip: Ipv4Addr) -> u128 {
    u128::from(ip.to_ipv6_mapped())
}

/// A row of /proc/net/tcp.
struct Row<'a> {
    local: Address,
    remote: Address,
    state: &'a str,
    held: HeldSocket,
}

/// Calls `each` for the IPv4 TCP sockets in a process's network namespace, including IPv6 sockets that also serve IPv4.
/// False if some may be missing.
fn rows(pid: u32, each: &mut dyn FnMut(Row)) -> bool {
    rows_of(pid, ["net/tcp", "net/tcp6"], each)
}

/// The UDP sockets in a process's network namespace that may send IPv4, with their addresses, where 0 means any.
pub fn datagram_sockets(pid: u32) -> Vec<(Address, HeldSocket)> {
    let mut sockets = Vec::new();
    rows_of(pid, ["net/udp", "net/udp6"], &mut |row| sockets.push((row.local, row.held)));
    sockets
}

/// False if some may be missing.
fn rows_of(pid: u32, tables: [&str; 2], each: &mut dyn FnMut(Row)) -> bool {
    let mut is_whole = true;
    for table in tables {
        let table = process::text(process::directory(pid).join(table));
        // a kernel without IPv6 has no second table
        is_whole &= match &table {
            Ok(table) => (table.len() as u64) < proc::MAX_FILE,
            Err(error) => !is_want(error),
        };
        for line in table.unwrap_or_default().lines().skip(1) {
            // "sl: local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode", addresses in
            // hexadecimal (proc_pid_net(5))
            let mut words = line.split_ascii_whitespace().skip(1);
            let row = (|| {
                let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
                let state = words.next()?;
                let user = words.nth(3)?.parse().ok()?;
                let inode = words.nth(1)?.parse().ok()?;
                Some(Row { local, remote, state, held: HeldSocket { inode, user } })
            })();
            row.into_iter().for_each(&mut *each);
        }
    }
    is_whole
}

/// The established IPv4 connections in a process's network namespace.
pub fn connections(pid: u32) -> Vec<Connection> {
    if let Some(connections) = own(pid).and_then(|mut diag| established(&mut diag)) {
        return connections;
    }
    let mut connections = Vec::new();
    rows(pid, &mut |row| {
        if row.state == ESTABLISHED {
            connections.push(Connection { local: row.local, remote: row.remote, inode: row.held.inode });
        }
    });
    connections
}

/// The same on a thread that has others to look after; `None` if lists took it too long lately.
pub fn connections_at_once(pid: u32) -> Option<Vec<Connection>> {
    let _spends = Spends::begin()?;
    Some(connections(pid))
}

/// The processor time that this thread spends on lists of sockets, until it is dropped. Any user may have networks of his own with
/// very many, and processes that wait for each of these.
pub struct Spends {
    now: u64,
    left: u64,
    began: u64,
}

thread_local! {
    /// When it was last spent, and what counted then.
    static SPENT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

impl Spends {
    /// `None` if that was too much lately.
    pub fn begin() -> Option<Spends> {
        let now = clock::monotonic();
        let left = still_counts(now, SPENT.get());
        (left < MOST_SPENT).then(|| Spends { now, left, began: clock::thread() })
    }
}

impl Drop for Spends {
    fn drop(&mut self) {
        let took = clock::thread().saturating_sub(self.began);
        SPENT.set((self.now, self.left.saturating_add(took)));
    }
}

/// What still counts at a time of what had been spent by a time before, nanoseconds.
fn still_counts(now: u64, (then, spent): (u64, u64)) -> u64 {
    spent.saturating_sub(now.saturating_sub(then) / SHARE)
}

/// The established TCP connections in a process's network namespace, of both IP versions, whose own end has one of these
/// ports.
pub fn served_connections(pid: u32, ports: &[u16]) -> Vec<AnyConnection> {
    own(pid).and_then(|mut diag| served(&mut diag, ports)).unwrap_or_else(|| read_served(pid, ports))
}

/// The same, from /proc.
fn read_served(pid: u32, ports: &[u16]) -> Vec<AnyConnection> {
    let mut found = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let text = process::text(process::directory(pid).join(table)).unwrap_or_default();
        found.extend(text.lines().skip(1).filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let end = |word| {
                let v4 = |at: Address| (standing_for(Ipv4Addr::from(at.ip)), at.port);
                if table == "net/tcp" {
                    address(word).map(v4)
                } else {
                    address6(word)
                }
            };
            let (local, remote) = (end(words.next()?)?, end(words.next()?)?);
            let state = words.next()?;
            let inode = words.nth(5)?.parse().ok()?;
            (state == ESTABLISHED && ports.contains(&local.1)).then_some(AnyConnection {
                local,
                remote,
                inode,
            })
        }));
    }
    found
}

/// The sockets of a network namespace.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Sockets of the requested connections, by local and remote address.
    pub connections: HashMap<(Address, Address), HeldSocket>,
    /// Listening sockets: address and inode.
    pub listeners: Vec<(Address, u64)>,
    /// Listening sockets of IPv6: address, where 0 means all, port and inode.
    pub listeners6: Vec<(u128, u16, u64)>,
    /// The namespace's own addresses.
    pub local: Vec<LocalAddress>,
    /// Its own IPv6 addresses.
    pub local6: Vec<u128>,
    /// Whether some connections may be missing: not all could be read.
    pub lacks_some: bool,
    /// The user whose own it is, if he is not root: its addresses and connections prove something about his namespaces only.
    pub user: Option<u32>,
}

/// The sockets of a process's network namespace: all listening ones, and those of the `asked` connections.
pub fn look(pid: u32, asked: &HashSet<(Address, Address)>) -> Sockets {
    // first: of a process whose addresses are read afterwards it was there to be read
    let user = process::user_of_network(pid);
    let mut sockets =
        own(pid).and_then(|mut diag| asked_of(&mut diag, asked)).unwrap_or_else(|| read(pid, asked));
    (sockets.local, sockets.local6, sockets.user) = (local_of(pid, user), local6(pid, user), user);
    sockets
}

/// A way to ask the kernel for the sockets of a process's network namespace, if that is the recorder's own and the kernel
/// answers.
fn own(pid: u32) -> Option<Diag> {
    let own = std::process::id();
    let is_own =
        || process::namespace(pid).ok().is_some_and(|there| process::namespace(own).ok() == Some(there));
    (pid == own || is_own()).then(Diag::open).flatten()
}

/// The established connections; `None` if the kernel doesn't tell.
fn established(diag: &mut Diag) -> Option<Vec<Connection>> {
    let mut connections = Vec::new();
    diag.each(libc::IPPROTO_TCP, &[sock_diag::ESTABLISHED], &mut |row| {
        if let (Some(local), Some(remote)) = (row.v4(0), row.v4(1)) {
            connections.push(Connection { local, remote, inode: row.inode });
        }
    })?;
    Some(connections)
}

/// The same of both IP versions, with one of these ports as their own.
fn served(diag: &mut Diag, ports: &[u16]) -> Option<Vec<AnyConnection>> {
    let mut connections = Vec::new();
    diag.each(libc::IPPROTO_TCP, &[sock_diag::ESTABLISHED], &mut |row| {
        let end = |at: usize| {
            let (ip, port) = (row.addresses.get(at)?, *row.ports.get(at)?);
            let v4 = (i32::from(row.family) == libc::AF_INET).then(|| row.v4(at)).flatten();
            let v4 = v4.map(|v4| standing_for(Ipv4Addr::from(v4.ip)));
            Some((v4.unwrap_or(u128::from_be_bytes(*ip)), port))
        };
        if let (Some(local), Some(remote)) = (end(0), end(1)) {
            if ports.contains(&local.1) {
                connections.push(AnyConnection { local, remote, inode: row.inode });
            }
        }
    })?;
    Some(connections)
}

/// What [`look`] finds, without the local addresses; `None` if the kernel doesn't tell. A connection is looked for where
/// its socket is bound to no interface, or to one that a listening socket is bound to, too.
fn asked_of(diag: &mut Diag, asked: &HashSet<(Address, Address)>) -> Option<Sockets> {
    let mut sockets = Sockets::default();
    let mut interfaces = vec![0];
    let states: &[u8] = if asked.len() > FEW {
        &[sock_diag::LISTEN, sock_diag::ESTABLISHED, sock_diag::CLOSE_WAIT]
    } else {
        &[sock_diag::LISTEN]
    };
    diag.each(libc::IPPROTO_TCP, states, &mut |row| {
        if row.state != sock_diag::LISTEN {
            sockets.connections.extend(wanted(&row, asked));
            return;
        }
        if !interfaces.contains(&row.interface) && interfaces.len() <= MAX_INTERFACES {
            interfaces.push(row.interface);
        }
        sockets.listeners.extend(row.v4(0).map(|at| (at, row.inode)));
        if let (libc::AF_INET6, [ip, _], [port, _]) = (i32::from(row.family), row.addresses, row.ports) {
            sockets.listeners6.push((u128::from_be_bytes(ip), port, row.inode));
        }
    })?;
    sockets.lacks_some = !diag.is_whole;
    if asked.len() <= FEW {
        for &(local, remote) in asked {
            for &interface in &interfaces {
                if let Some(row) = diag.find(local, remote, interface)? {
                    sockets.connections.extend(wanted(&row, asked));
                    break;
                }
            }
        }
    }
    Some(sockets)
}

/// A socket, if it has one of these connections, and a process has the socket.
fn wanted(
    row: &sock_diag::Row,
    asked: &HashSet<(Address, Address)>,
) -> Option<((Address, Address), HeldSocket)> {
    let ends = (row.v4(0)?, row.v4(1)?);
    let is_open = [sock_diag::ESTABLISHED, sock_diag::CLOSE_WAIT].contains(&row.state);
    let held = HeldSocket { inode: row.inode, user: row.user };
    (is_open && row.inode != 0 && asked.contains(&ends)).then_some((ends, held))
}

/// The same, from /proc.
fn read(pid: u32, asked: &HashSet<(Address, Address)>) -> Sockets {
    let mut sockets = Sockets { listeners6: listeners6(pid), ..Sockets::default() };
    let is_whole = rows(pid, &mut |row| match row.state {
        LISTEN => sockets.listeners.push((row.local, row.held.inode)),
        // 0: nobody has accepted it yet
        ESTABLISHED | CLOSE_WAIT if row.held.inode != 0 && asked.contains(&(row.local, row.remote)) => {
            sockets.connections.insert((row.local, row.remote), row.held);
        }
        _ => {}
    });
    sockets.lacks_some = !is_whole;
    sockets
}

/// The IPv6 addresses of a process's network namespace: `00000000000000000000000000000001 01 80 10 80 lo` (proc_net(5)).
fn local6(pid: u32, user: Option<u32>) -> Vec<u128> {
    let table = process::text(process::directory(pid).join("net/if_inet6")).unwrap_or_default();
    let address = |line: &str| u128::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok();
    table.lines().filter_map(address).take(most_of(user)).collect()
}

/// How many addresses are known of a network of this user's own; `None`: of one of root's.
fn most_of(user: Option<u32>) -> usize {
    user.map_or(usize::MAX, |_| MAX_OF_USER)
}

/// The listening TCP sockets of IPv6 in a process's network namespace.
fn listeners6(pid: u32) -> Vec<(u128, u16, u64)> {
    let table = process::text(process::directory(pid).join("net/tcp6")).unwrap_or_default();
    let listener = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let local = address6(words.next()?)?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?.parse().ok()?;
        (state == LISTEN).then_some((local.0, local.1, inode))
    };
    table.lines().skip(1).filter_map(listener).collect()
}

/// The IPv4 addresses of a process's network namespace, from its routing table.
pub fn local(pid: u32) -> Vec<LocalAddress> {
    local_of(pid, process::user_of_network(pid))
}

fn local_of(pid: u32, user: Option<u32>) -> Vec<LocalAddress> {
    let table = process::text(process::directory(pid).join("net/fib_trie")).unwrap_or_default();
    local_in(&table, most_of(user))
}

/// Parses `|-- 127.0.0.0`, and below it the routes: `/8 host LOCAL` is an address of this machine. Stops when there are so many.
fn local_in(table: &str, most: usize) -> Vec<LocalAddress> {
    let mut local: Vec<LocalAddress> = Vec::new();
    // the table appears twice, as "main" and "local", if both are one: then all come again, in the same order
    let (mut ip, mut again) = (None, 0);
    for line in table.lines() {
        if !line.starts_with(' ') {
            again = 0;
        }
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            ip = address.parse::<Ipv4Addr>().ok().map(u32::from);
        } else if let (Some(ip), Some(bits)) = (ip, line.strip_suffix(" host LOCAL")) {
            let bits = bits.strip_prefix('/').and_then(|bits| bits.parse().ok());
            let Some(new) = bits.map(|bits| LocalAddress { ip, bits }) else { continue };
            if local.get(again) == Some(&new) {
                again += 1;
            } else if local.len() < most {
                local.push(new);
            }
        }
    }
    local
}

/// The server's end of its connection with a client, if it is on one of `ports` and its socket is one of those `held`.
pub fn local_end(
    connections: &[Connection],
    client: Address,
    ports: &[u16],
    held: &HashSet<u64>,
) -> Option<Address> {
    let ours =
        |c: &&Connection| c.remote == client && ports.contains(&c.local.port) && held.contains(&c.inode);
    connections.iter().find(ours).map(|connection| connection.local)
}

/// Inode of the socket behind a process's descriptor.
pub fn inode(pid: u32, descriptor: u32) -> Option<u64> {
    socket(&fs::read_link(process::directory(pid).join(format!("fd/{descriptor}"))).ok()?)
}

/// Inodes of a process's open sockets, among so many descriptors at most. `process`: its directory in /proc.
///
/// # Errors
/// As for [`descriptors`].
pub fn known_held(process: &Path, limit: usize) -> io::Result<Vec<u64>> {
    Ok(descriptors(process)?.take(limit).flatten().collect())
}

/// The same; none if they are unknown.
pub fn held(process: &Path, limit: usize) -> Vec<u64> {
    known_held(process, limit).unwrap_or_default()
}

/// A process's open descriptors: of each socket the inode. `process`: its directory in /proc.
///
/// # Errors
/// The process has ended, or its descriptors may not be read.
pub fn descriptors(process: &Path) -> io::Result<impl Iterator<Item = Option<u64>>> {
    let descriptors = fs::read_dir(process.join("fd"))?.flatten();
    Ok(descriptors.map(|descriptor| socket(&fs::read_link(descriptor.path()).ok()?)))
}

/// The processes that hold any of these sockets, each with the sockets it holds. Reads all processes' descriptors, which may take
/// minutes: not for the recorder's loop.
///
/// # Errors
/// They could not be read, for want of descriptors or memory.
pub fn holders(inodes: &HashSet<u64>) -> io::Result<HashMap<u32, Vec<u64>>> {
    let mut holders = HashMap::new();
    for pid in process::pids()? {
        let held = match known_held(&process::directory(pid), MAX_LISTED) {
            Err(error) if is_want(&error) => return Err(error),
            // it has ended, or may not be read
            held => held.unwrap_or_default(),
        };
        let held: Vec<u64> = held.into_iter().filter(|inode| inodes.contains(inode)).collect();
        if !held.is_empty() {
            holders.insert(pid, held);
        }
    }
    Ok(holders)
}

/// Parses `socket:[1234]`.
fn socket(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Parses `0100007F:13C8`: the IP address as the kernel holds it, in network order but read as a number of this
/// machine; the port as a number. For IPv6, four such numbers: accepts only those that denote IPv4 addresses, and `::`,
/// which counts as 0.0.0.0.
fn address(text: &str) -> Option<Address> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok();
    let ip = match ip.len() {
        8 => word(0)?,
        32 => match (word(0)?, word(8)?, u32::from_be(word(16)?), word(24)?) {
            (0, 0, 0xffff, ip) | (0, 0, 0, ip @ 0) => ip,
            _ => return None,
        },
        _ => return None,
    };
    Some(Address::new(Ipv4Addr::from(ip.to_ne_bytes()), u16::from_str_radix(port, 16).ok()?))
}

/// Parses the address of an IPv6 socket as [`address`] does, whatever it denotes.
fn address6(text: &str) -> Option<(u128, u16)> {
    let (ip, port) = text.split_once(':').filter(|(ip, _)| ip.len() == 32)?;
    let mut number = 0;
    for at in [0, 8, 16, 24] {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        number = number << 32 | u128::from(u32::from_be(word));
    }
    Some((number, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::descriptors::without_any;
    use crate::not_run::{not_run, Needs};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// However many processes wait for connections of networks that have very many.
    #[test]
    fn lists_take_a_part_of_the_time_where_others_wait() {
        const SECOND: u64 = 1_000_000_000;
        assert!(connections_at_once(std::process::id()).is_some());
        // each takes 60 ms, and is tried 100 times a second
        let (mut spent, mut lists) = ((0, 0), 0);
        for now in (0..10 * SECOND).step_by(10_000_000) {
            let left = still_counts(now, spent);
            if left < MOST_SPENT {
                (spent, lists) = ((now, left + 60_000_000), lists + 1);
            }
        }
        assert!((5..9).contains(&lists), "{lists} of 1000");
    }

    #[test]
    fn both_ends_of_a_connection_of_our_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _accepted = listener.accept().unwrap();
        let ours = |address: SocketAddr| match address {
            SocketAddr::V4(address) => Address::new(*address.ip(), address.port()),
            SocketAddr::V6(_) => unreachable!(),
        };
        let server = ours(listener.local_addr().unwrap());
        let client = ours(stream.local_addr().unwrap());
        let pid = std::process::id();
        let asked = HashSet::from([(client, server)]);
        let sockets = look(pid, &asked);
        assert_eq!(sockets.connections.len(), 1, "what was asked for");
        // both ways tell the same, of sockets that other tests do not open and close
        let told = |from: &Sockets| {
            (from.connections.clone(), from.listeners.iter().copied().find(|(at, _)| *at == server))
        };
        assert_eq!(told(&read(pid, &asked)), told(&sockets));
        let many: HashSet<_> =
            (1..=FEW as u16).map(|port| (server, Address { port, ..client })).chain(asked.clone()).collect();
        assert_eq!(look(pid, &many).connections, sockets.connections, "among many");
        let listening = sockets.listeners.iter().find(|(address, _)| *address == server).unwrap();
        assert_eq!(holders(&HashSet::from([listening.1])).unwrap()[&pid], [listening.1]);
        assert!(sockets.local.iter().any(|local| local.has(0x7f00_0007)), "{:?}", sockets.local);
        assert!(!sockets.local.iter().any(|local| local.has(0x0808_0808)));
        let connections = connections(pid);
        let ours: HashSet<u64> = held(Path::new("/proc/self"), usize::MAX).into_iter().collect();
        assert_eq!(local_end(&connections, client, &[server.port], &ours), Some(server));
        assert_eq!(local_end(&connections, client, &[1], &ours), None);
        assert_eq!(local_end(&connections, client, &[server.port], &HashSet::new()), None, "another's");
        let found = connections.into_iter().find(|c| c.local == client).unwrap();
        assert_eq!(found.remote, server);
        let descriptor = stream.as_raw_fd().cast_unsigned();
        assert_eq!(inode(pid, descriptor), Some(found.inode));
        assert_eq!(inode(pid, u32::MAX), None);
        assert_eq!(holders(&HashSet::from([found.inode])).unwrap()[&pid], [found.inode]);
    }

    /// A process may have a million that are no sockets.
    #[test]
    fn descriptors_that_are_no_sockets_count_too() {
        use std::process::{Command, Stdio};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::os::fd::OwnedFd::from(listener))
            .spawn()
            .unwrap();
        let found = [2, 3].map(|limit| known_held(&process::directory(child.id()), limit).unwrap());
        let socket = inode(child.id(), 2).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [vec![], vec![socket]]);
    }

    #[test]
    fn holders_that_cannot_be_read_are_not_none() {
        let Some(found) = without_any(|| holders(&HashSet::from([1])).is_ok()) else {
            let name = "sockets::holders_that_cannot_be_read_are_not_none";
            return not_run(name, Needs::Kernel("close_range".into()));
        };
        assert!(!found);
    }

    /// Connections of IPv4, of IPv6, and of IPv4 on an IPv6 socket: told by the kernel and read from /proc.
    #[test]
    fn both_ways_find_the_same_connections() {
        for (listens, connects) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"), ("[::]", "127.0.0.1")] {
            // a machine may have no IPv6
            let Ok(listener) = TcpListener::bind(format!("{listens}:0")) else { continue };
            let port = listener.local_addr().unwrap().port();
            let stream = TcpStream::connect(format!("{connects}:{port}")).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let pid = std::process::id();
            let found = read_served(pid, &[port]);
            let [connection] = found[..] else { panic!("{found:?}") };
            assert_eq!(
                (connection.local.1, connection.remote.1),
                (port, stream.local_addr().unwrap().port())
            );
            assert_eq!(Some(connection.inode), inode(pid, accepted.as_raw_fd().cast_unsigned()));
            let ip = if connects == "[::1]" { 1 } else { standing_for(Ipv4Addr::LOCALHOST) };
            assert_eq!((connection.local.0, connection.remote.0), (ip, ip));
            let Some(mut diag) = Diag::open() else { continue };
            assert_eq!(served(&mut diag, &[port]), Some(found));
            assert_eq!(served(&mut diag, &[1]), Some(Vec::new()));
        }
    }

    #[test]
    fn listeners_of_ipv6() {
        let word = u32::from_ne_bytes([0, 0, 0, 1]);
        assert_eq!(address6(&format!("{:024}{word:08X}:13D3", 0)), Some((1, 5075)), "::1");
        let first = u32::from_ne_bytes([0xfd, 0, 0, 7]);
        assert_eq!(address6(&format!("{first:08X}{:024}:13D3", 0)), Some((0xfd00_0007 << 96, 5075)));
        for wrong in ["", ":", "0100007F:13C8", "ÄÖÜÄÖÜÄÖÄÖÜÄÖÜÄÖ:1"] {
            assert_eq!(address6(wrong), None);
        }
        // a machine may have no IPv6
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        assert!(read(std::process::id(), &HashSet::new())
            .listeners6
            .iter()
            .any(|found| (found.0, found.1) == (1, port)));
        let sockets = look(std::process::id(), &HashSet::new());
        assert!(sockets.listeners6.iter().any(|found| (found.0, found.1) == (1, port)), "{sockets:?}");
        assert!(sockets.local6.contains(&1));
    }

    #[test]
    fn addresses_of_ipv4_in_both_tables() {
        let at = |ip: [u8; 4]| Some(Address::new(ip.into(), 5064));
        let text = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let v6 = |ip| format!("0000000000000000{:08X}{}:13C8", 0xffff_u32.to_be(), text(ip));
        assert_eq!(address(&format!("{}:13C8", text([127, 0, 0, 2]))), at([127, 0, 0, 2]));
        assert_eq!(address(&v6([10, 0, 0, 7])), at([10, 0, 0, 7]));
        assert_eq!(address(&format!("{:032}:13C8", 0)), at([0, 0, 0, 0]));
        assert_eq!(address("00000000000000000000000001000000:13C8"), None, "::1");
        for wrong in ["", ":", "7F:1", "0100007F", "0100007F:XYZ", "ÄÖÜÄÖÜÄÖ:1"] {
            assert_eq!(address(wrong), None);
        }
    }

    #[test]
    fn a_table_of_routes() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
                     +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.0\n              /8 host LOCAL\n           \
                     |-- 127.0.0.1\n              /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n\
                     Local:\n           |-- 127.0.0.0\n              /8 host LOCAL\njunk\n /x host LOCAL\n";
        let expected =
            [LocalAddress { ip: 0x7f00_0000, bits: 8 }, LocalAddress { ip: 0x7f00_0001, bits: 32 }];
        assert_eq!(local_in(table, usize::MAX), expected);
        assert_eq!(local_in(&table.replace("Local:", "Other:\nLocal:"), usize::MAX), expected);
        assert_eq!(local_in(table, 1), expected[..1]);
    }

    /// In a network of his own anybody has as many addresses as he likes.
    #[test]
    fn a_table_of_very_many_addresses_takes_no_longer_for_each() {
        use std::fmt::Write;
        const COUNT: u32 = 100_000;
        let mut table = String::new();
        for name in ["Main", "Local"] {
            table += name;
            table += ":\n";
            for ip in 0..COUNT {
                let ip = Ipv4Addr::from(0x0a00_0000 + ip);
                writeln!(table, "           |-- {ip}\n              /32 host LOCAL").unwrap();
            }
        }
        let begin = std::time::Instant::now();
        assert_eq!(local_in(&table, usize::MAX).len(), COUNT as usize);
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
        assert_eq!(local_in(&table, most_of(Some(1000))).len(), MAX_OF_USER);
        assert_eq!(most_of(None), usize::MAX);
    }
}
