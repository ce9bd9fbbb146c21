//! The ports that processes listen on (TCP) or are bound to (UDP). Those of the recorder's own network namespace are asked of
//! the kernel ([`crate::linux::sock_diag`]): its tables in /proc have all connections, too, also those of the last minute.
//!
//! Nothing here blocks; processes that vanish or may not be inspected hold no ports.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::linux::descriptors::is_want;
use crate::linux::proc::{contents, living_in, PROC};
use crate::linux::sock_diag::{Diag, CLOSE, ESTABLISHED, LISTEN};
use crate::linux::sockets;

/// State of a listening socket in /proc/net/tcp (TCP_LISTEN).
const LISTENING: &str = "0A";

/// A socket's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The socket listens on TCP.
    Tcp(u16),
    /// The socket is bound to UDP.
    Udp(u16),
}

/// The ports of this process's own network namespace, by socket inode.
#[derive(Debug)]
pub struct Ports<'a> {
    proc: &'a Path,
    sockets: HashMap<u64, Port>,
    /// Target of the link to this namespace; `None` on kernels without network namespaces.
    namespace: Option<PathBuf>,
}

impl Ports<'_> {
    /// Reads the socket tables. `proc`: mount point of /proc.
    ///
    /// # Errors
    /// /proc can't be read.
    pub fn read(proc: &Path) -> io::Result<Ports<'_>> {
        let told = if proc == Path::new(PROC) { told() } else { None };
        let sockets = told.map_or_else(|| bound(&proc.join("self/net")), Ok)?;
        Ok(Ports { proc, sockets, namespace: fs::read_link(proc.join("self/ns/net")).ok() })
    }

    /// Directory in /proc of a live thread of a process.
    pub fn directory(&self, pid: u32) -> PathBuf {
        self.proc.join(living_in(self.proc, pid).to_string())
    }

    /// The ports of this namespace that a process holds. `process`: its directory in /proc.
    pub fn held(&self, process: &Path) -> Vec<Port> {
        held(process, &self.sockets)
    }

    /// The ports that a process holds in its own namespace, whichever that is.
    pub fn held_elsewhere(process: &Path) -> Vec<Port> {
        held(process, &bound(&process.join("net")).unwrap_or_default())
    }

    /// Whether a process is in this namespace.
    pub fn is_here(&self, process: &Path) -> bool {
        self.namespace.is_none() || fs::read_link(process.join("ns/net")).ok() == self.namespace
    }
}

/// What [`bound`] finds of this thread's namespace; `None` if the kernel doesn't tell.
fn told() -> Option<HashMap<u64, Port>> {
    let mut diag = Diag::open()?;
    let mut sockets = HashMap::new();
    for (protocol, states) in [(libc::IPPROTO_TCP, &[LISTEN][..]), (libc::IPPROTO_UDP, &[CLOSE, ESTABLISHED])]
    {
        diag.each(protocol, states, &mut |row| {
            let [port, _] = row.ports;
            sockets.insert(row.inode, if row.state == LISTEN { Port::Tcp(port) } else { Port::Udp(port) });
        })?;
    }
    Some(sockets)
}

/// Inodes and ports of a namespace's listening TCP and bound UDP sockets. IPv6 sockets may accept IPv4 connections too.
fn bound(net: &Path) -> io::Result<HashMap<u64, Port>> {
    let mut sockets = HashMap::new();
    for (table, required) in [("tcp", true), ("tcp6", false), ("udp", false), ("udp6", false)] {
        let text = match contents(&net.join(table)) {
            // a kernel without IPv6 has no such table
            Err(error) if required || is_want(&error) => return Err(error),
            other => other.unwrap_or_default(),
        };
        for line in String::from_utf8_lossy(&text).lines().skip(1) {
            // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
            let mut words = line.split_ascii_whitespace();
            let local = words.nth(1).and_then(|local| local.rsplit_once(':'));
            let Some(port) = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok()) else { continue };
            let (Some(state), Some(inode)) = (words.nth(1), words.nth(5).and_then(|w| w.parse().ok())) else {
                continue;
            };
            match table {
                "udp" | "udp6" => drop(sockets.insert(inode, Port::Udp(port))),
                _ if state == LISTENING => drop(sockets.insert(inode, Port::Tcp(port))),
                _ => {}
            }
        }
    }
    Ok(sockets)
}

/// The ports of those sockets that a process has open.
fn held(process: &Path, sockets: &HashMap<u64, Port>) -> Vec<Port> {
    sockets::held(process, sockets::MAX_LISTED)
        .into_iter()
        .filter_map(|inode| sockets.get(&inode).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    /// Sockets of every kind: told by the kernel and read from /proc.
    #[test]
    fn both_ways_find_the_same_ports() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let (udp, connected) =
            (UdpSocket::bind("0.0.0.0:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        connected.connect("127.0.0.1:9").unwrap();
        let mut expected = vec![
            (tcp.as_raw_fd(), Some(Port::Tcp(tcp.local_addr().unwrap().port()))),
            (udp.as_raw_fd(), Some(Port::Udp(udp.local_addr().unwrap().port()))),
            (connected.as_raw_fd(), Some(Port::Udp(connected.local_addr().unwrap().port()))),
            (stream.as_raw_fd(), None),
        ];
        // a machine may have no IPv6
        let (tcp6, udp6) = (TcpListener::bind("[::1]:0"), UdpSocket::bind("[::]:0"));
        if let (Ok(tcp), Ok(udp)) = (&tcp6, &udp6) {
            expected.push((tcp.as_raw_fd(), Some(Port::Tcp(tcp.local_addr().unwrap().port()))));
            expected.push((udp.as_raw_fd(), Some(Port::Udp(udp.local_addr().unwrap().port()))));
        }
        let read = bound(Path::new("/proc/self/net")).unwrap();
        for found in [Some(read), told()].into_iter().flatten() {
            for (descriptor, port) in &expected {
                let inode = sockets::inode(std::process::id(), descriptor.cast_unsigned()).unwrap();
                assert_eq!(found.get(&inode), port.as_ref(), "{found:?}");
            }
        }
    }
}
