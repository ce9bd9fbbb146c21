//! Which TCP connections there are and whose, from /proc of a process's own network namespace.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use iocrec_log::event::Address;

use super::process;

/// State of an established connection in /proc/net/tcp (TCP_ESTABLISHED).
const ESTABLISHED: &str = "01";

/// An established connection, as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// This end.
    pub local: Address,
    /// The other.
    pub remote: Address,
    /// The socket's inode, by which descriptors name it.
    pub inode: u64,
}

/// The established IPv4 connections in a process's network namespace.
pub fn connections(pid: u32) -> Vec<Connection> {
    let table = process::text(process::directory(pid).join("net/tcp")).unwrap_or_default();
    let connection = |line: &str| {
        // "sl: local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode", addresses in
        // hexadecimal (proc_pid_net(5))
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        let established = words.next()? == ESTABLISHED;
        let inode = words.nth(5)?.parse().ok()?;
        established.then_some(Connection { local, remote, inode })
    };
    table.lines().skip(1).filter_map(connection).collect()
}

/// The server's end of its connection with a client, if it is on one of `ports`.
pub fn local_end(connections: &[Connection], client: Address, ports: &[u16]) -> Option<Address> {
    let ours = |c: &&Connection| c.remote == client && ports.contains(&c.local.port);
    connections.iter().find(ours).map(|connection| connection.local)
}

/// Inode of the socket that a descriptor of a process is.
pub fn inode(pid: u32, descriptor: u32) -> Option<u64> {
    socket(&fs::read_link(process::directory(pid).join(format!("fd/{descriptor}"))).ok()?)
}

/// Inodes of the sockets that a process has open. `process`: its directory in /proc.
pub fn held(process: &Path) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| socket(&fs::read_link(descriptor.path()).ok()?))
}

/// The processes that hold one of these sockets, with those they hold. Reads all processes' descriptors.
pub fn holders(inodes: &HashSet<u64>) -> HashMap<u32, Vec<u64>> {
    let mut holders = HashMap::new();
    for pid in process::pids().unwrap_or_default() {
        let held = held(&process::directory(pid));
        let held: Vec<u64> = held.filter(|inode| inodes.contains(inode)).collect();
        if !held.is_empty() {
            holders.insert(pid, held);
        }
    }
    holders
}

/// `socket:[1234]`
fn socket(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// `0100007F:13C8`: the IP address as the kernel holds it, that is in network order read as a number of this
/// machine; the port as a number.
fn address(text: &str) -> Option<Address> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(Address::new(Ipv4Addr::from(ip), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn both_ends_of_a_connection_of_our_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = |address: SocketAddr| match address {
            SocketAddr::V4(address) => Address::new(*address.ip(), address.port()),
            SocketAddr::V6(_) => unreachable!(),
        };
        let server = ours(listener.local_addr().unwrap());
        let client = ours(stream.local_addr().unwrap());
        let pid = std::process::id();
        let connections = connections(pid);
        assert_eq!(local_end(&connections, client, &[server.port]), Some(server));
        assert_eq!(local_end(&connections, client, &[1]), None);
        let found = connections.into_iter().find(|c| c.local == client).unwrap();
        assert_eq!(found.remote, server);
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&stream).cast_unsigned();
        assert_eq!(inode(pid, descriptor), Some(found.inode));
        assert_eq!(inode(pid, u32::MAX), None);
        assert_eq!(holders(&HashSet::from([found.inode]))[&pid], [found.inode]);
    }
}
