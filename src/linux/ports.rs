//! The ports that processes listen on (TCP) or are bound to (UDP), from /proc.
//!
//! Nothing here blocks; processes that vanish or may not be inspected hold no ports.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::linux::proc::{contents, living_in};
use crate::linux::sockets;

/// State of a listening socket in /proc/net/tcp (TCP_LISTEN).
const LISTEN: &str = "0A";

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
        let sockets = bound(&proc.join("self/net"))?;
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

/// Inodes and ports of a namespace's listening TCP and bound UDP sockets. IPv6 sockets may accept IPv4 connections too.
fn bound(net: &Path) -> io::Result<HashMap<u64, Port>> {
    let mut sockets = HashMap::new();
    for (table, required) in [("tcp", true), ("tcp6", false), ("udp", false), ("udp6", false)] {
        let text = match contents(&net.join(table)) {
            Err(error) if required => return Err(error),
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
                _ if state == LISTEN => drop(sockets.insert(inode, Port::Tcp(port))),
                _ => {}
            }
        }
    }
    Ok(sockets)
}

/// The ports of those sockets that a process has open.
fn held(process: &Path, sockets: &HashMap<u64, Port>) -> Vec<Port> {
    sockets::held(process, usize::MAX).into_iter().filter_map(|inode| sockets.get(&inode).copied()).collect()
}
