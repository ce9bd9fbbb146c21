//! Finds the processes on this machine that search for PVs, by their sockets.
//!
//! Only those whose searches nobody answers, and those that search for very many, are looked for, each once in ten
//! minutes. A look reads the descriptors of all processes, so it runs on its own thread, and uses at most a thirtieth of
//! a processor. A client that has ended by then, like a short caget, is not found.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{channel, Receiver, Sender as Queue, TryRecvError};

use iocrec_log::event::{Address, Sender};

use crate::ioc::script;
use crate::linux::aside;
use crate::linux::{clock, process, sockets, user};
use crate::net::Namespace;

/// Least time between two looks, nanoseconds; and as a multiple of the processor time of the last one.
const PAUSE: u64 = 2_000_000_000;
const SHARE: u64 = 30;
/// Time until a sender is looked for again.
const AGAIN: u64 = 600_000_000_000;
/// Senders that wait for a look, and that are remembered.
const MAX_WAITING: usize = 64;
const MAX_KNOWN: usize = 1024;

/// A sender that is looked for, with a process in its network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    namespace: Namespace,
    client: Address,
    pid: u32,
}

struct Look {
    found: Vec<Sender>,
    /// Processor time, nanoseconds.
    took: u64,
}

impl Look {
    fn at(asked: &[Asked]) -> Look {
        let began = clock::thread();
        // with the user who has made the socket: whoever holds it may have become another one since
        let mut wanted: HashMap<u64, (Asked, u32)> = HashMap::new();
        let mut pids: Vec<u32> = asked.iter().map(|asked| asked.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            let local = sockets::local(pid);
            for (at, held) in sockets::datagram_sockets(pid) {
                // several sockets at one port, as of servers, show nothing
                let is_it = |asked: &&Asked| {
                    let client = asked.client;
                    let here = local.iter().any(|local| local.has(client.ip));
                    asked.pid == pid && at.port == client.port && (at.ip == client.ip || at.ip == 0) && here
                };
                if let Some(asked) = asked.iter().find(is_it).filter(|_| held.inode != 0) {
                    wanted.insert(held.inode, (*asked, held.user));
                }
            }
        }
        let several = |of: &Asked| wanted.values().filter(|(other, _)| other == of).count() > 1;
        let inodes: HashSet<u64> =
            wanted.iter().filter(|(_, (of, _))| !several(of)).map(|(inode, _)| *inode).collect();
        let mut holders: HashMap<u64, Vec<u32>> = HashMap::new();
        if !inodes.is_empty() {
            for (pid, held) in sockets::holders(&inodes).unwrap_or_default() {
                held.into_iter().for_each(|inode| holders.entry(inode).or_default().push(pid));
            }
        }
        let found = holders.into_iter().filter_map(|(inode, pids)| {
            let (asked, owner) = wanted.get(&inode)?;
            // one that several hold was inherited: the first of them made it
            let pid = pids.into_iter().min()?;
            let program = script::name(&process::command(pid));
            let (namespace, client) = (asked.namespace, asked.client);
            Some(Sender { namespace, client, pid, program, user: user::name_of(*owner), ioc: None })
        });
        Look { found: found.collect(), took: clock::thread().saturating_sub(began) }
    }
}

/// See the module.
#[derive(Default)]
pub struct Senders {
    waiting: Vec<Asked>,
    /// When each was looked for.
    known: HashMap<(Namespace, Address), u64>,
    searcher: Option<(Queue<Vec<Asked>>, Receiver<Look>)>,
    busy: bool,
    next: u64,
}

impl Senders {
    /// Looks for a sender that was seen in a namespace with this process.
    pub fn find(&mut self, now: u64, namespace: Namespace, client: Address, pid: u32) {
        // in a namespace that it is seen from, too, its socket is not found
        let key = (namespace, client);
        let is_known = self.known.get(&key).is_some_and(|at| now.saturating_sub(*at) < AGAIN);
        if is_known || self.waiting.len() >= MAX_WAITING {
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.retain(|_, at| now.saturating_sub(*at) < AGAIN);
        }
        if self.known.len() < MAX_KNOWN {
            self.known.insert(key, now);
            self.waiting.push(Asked { namespace, client, pid });
        }
    }

    /// Takes over the last look and begins another. Returns the senders found.
    pub fn step(&mut self, now: u64) -> Vec<Sender> {
        let mut found = Vec::new();
        match self.searcher.as_ref().map(|(_, looks)| looks.try_recv()) {
            Some(Ok(look)) => {
                self.busy = false;
                self.next = now.saturating_add(PAUSE.max(look.took.saturating_mul(SHARE)));
                found = look.found;
            }
            Some(Err(TryRecvError::Disconnected)) => (self.searcher, self.busy) = (None, false),
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        if !self.busy && !self.waiting.is_empty() && now >= self.next {
            if self.searcher.is_none() {
                self.searcher = start();
            }
            let asked = std::mem::take(&mut self.waiting);
            self.busy = self.searcher.as_ref().is_some_and(|(jobs, _)| jobs.send(asked).is_ok());
            self.next = now.saturating_add(PAUSE);
        }
        found
    }
}

/// `None` if the system gives no thread.
fn start() -> Option<(Queue<Vec<Asked>>, Receiver<Look>)> {
    let (jobs, wanted) = channel::<Vec<Asked>>();
    let (result, looks) = channel();
    let work = move || {
        // ends with the recorder
        while let Ok(asked) = wanted.recv() {
            if result.send(Look::at(&asked)).is_err() {
                break;
            }
        }
    };
    aside::start("senders", Box::new(work)).ok()?;
    Some((jobs, looks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::fs::fchown;
    use std::time::{Duration, Instant};

    #[test]
    fn a_socket_of_our_own() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // root can give it to another user; else nothing changes
        let us = nix::unistd::geteuid().as_raw();
        let owner = fchown(&socket, Some(61_234), None).map_or(us, |()| 61_234);
        let client = Address::new([127, 0, 0, 1].into(), socket.local_addr().unwrap().port());
        let stranger = Address::new([10, 99, 0, 1].into(), client.port);
        let pid = std::process::id();
        let namespace = process::namespace(pid).unwrap_or_default();
        let mut senders = Senders::default();
        senders.find(1, namespace, client, pid);
        senders.find(1, namespace, client, pid);
        senders.find(1, namespace, stranger, pid);
        assert_eq!(senders.waiting.len(), 2, "each once");
        senders.find(1, namespace + 1, stranger, pid);
        assert_eq!(senders.waiting.len(), 3, "it may be of the other one");
        let (mut found, begin) = (Vec::new(), Instant::now());
        while found.is_empty() && begin.elapsed() < Duration::from_secs(20) {
            found = senders.step(PAUSE);
            std::thread::sleep(Duration::from_millis(5));
        }
        let found: Vec<_> = found.iter().map(|sender| (sender.client, sender.pid, &*sender.user)).collect();
        assert_eq!(found, [(client, pid, &*user::name_of(owner))]);
        senders.find(AGAIN / 2, namespace, client, pid);
        assert!(senders.waiting.is_empty(), "it is known");
    }
}
