//! One look for the processes that hold clients' sockets: sockets first, then descriptors.
//!
//! Promises: reads nothing of a process but what the kernel gives without waiting for it, apart from the command lines of
//! the holders, which are read through a reader process. A bounded number of descriptors, namespaces and bytes. A pid
//! that was used again in between is not taken for the process before it.

use std::collections::{BTreeMap, HashMap, HashSet};

use iocrec_log::event::{Address, CircuitId, SocketHolder};
use nix::errno::Errno;

use super::Asked;
use crate::ioc::{redact, script};
use crate::linux::sockets::{self, HeldSocket, Sockets};
use crate::linux::{clock, process, user};
use crate::net::Namespace;
use crate::recorder::circuits::places::Places;

/// Descriptors to read of one process, and in one look: a process with a million of them, or thousands of such
/// processes, must not keep the recorder busy. What is beyond is said not to have been read.
const MAX_OF_ONE: usize = 65_536;
const MAX_READ: usize = 1_000_000;
/// Holders of a socket that are listed: enough for a server's workers, few enough for a log.
const MAX_HOLDERS: usize = 8;
/// Network namespaces of other processes that are looked into: a machine with more containers has their clients unnamed.
const MAX_OTHERS: usize = 64;
/// So many of them may be users' own: anybody makes as many as he likes.
const MAX_OF_USERS: usize = MAX_OTHERS / 4;
/// Bytes of a command line that are kept: those of a Java program have thousands, mostly of its class path.
const MAX_COMMAND: usize = 512;
/// Bytes of a program's name that are kept: a file's name has 255 at most.
const MAX_PROGRAM: usize = 256;
/// Threads' names that are kept of an IOC; large ones have some hundred threads, many of the same name.
const MAX_THREADS: usize = 256;

/// The client of a circuit.
pub(super) struct Found {
    pub circuit: CircuitId,
    /// See [`CircuitProcess`](iocrec_log::event::CircuitProcess).
    pub holders: Vec<SocketHolder>,
    pub more: u32,
    pub is_whole: bool,
    /// The names of the threads of the only recorded process among them, and whether these are all.
    pub threads: Option<(Vec<String>, bool)>,
}

/// The result of a look.
pub(super) struct Look {
    pub found: Vec<Found>,
    /// Processor time, nanoseconds.
    pub took: u64,
}

/// A client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    Is(HeldSocket),
    /// The client's address is this machine's, but there is no such socket, or nobody holds it.
    Gone,
    /// As far as is known, it is on another machine; or not all sockets could be read.
    Elsewhere,
}

impl Look {
    /// Looks for the clients of these circuits. `commands`: with their command lines.
    pub(super) fn at(places: &Places, asked: &[Asked], commands: bool) -> Look {
        let began = clock::thread();
        let pairs: HashSet<(Address, Address)> =
            asked.iter().map(|asked| (asked.client, asked.server)).collect();
        let mut tables: BTreeMap<Namespace, Sockets> =
            places.wanted.iter().map(|(at, wanted)| (*at, sockets::look(wanted.pid, &pairs))).collect();
        let where_is = |tables: &BTreeMap<Namespace, Sockets>| -> Vec<Socket> {
            asked.iter().map(|asked| socket(tables, asked)).collect()
        };
        let mut found = where_is(&tables);
        if found.contains(&Socket::Elsewhere) {
            let others = other_namespaces(&tables);
            if !others.is_empty() {
                tables.extend(others.into_iter().map(|(at, pid)| (at, sockets::look(pid, &pairs))));
                found = where_is(&tables);
            }
        }
        let inodes: HashSet<u64> = found.iter().filter_map(|socket| socket.inode()).collect();
        let recorded: HashSet<u32> = places.recorded.iter().map(|(_, pid, _)| *pid).collect();
        let (mut holders, is_whole) =
            if inodes.is_empty() { (HashMap::new(), true) } else { holders(&inodes, commands) };
        let mut names: HashMap<u32, String> = HashMap::new();
        let found = asked.iter().zip(found).filter_map(|(asked, socket)| {
            let (mut of, more) = match socket {
                Socket::Is(HeldSocket { inode, user }) => {
                    let (mut of, more) = holders.remove(&inode).unwrap_or_default();
                    let name = names.entry(user).or_insert_with(|| user::name_of(user));
                    of.iter_mut().for_each(|holder: &mut SocketHolder| holder.user.clone_from(name));
                    (of, more)
                }
                Socket::Gone => (Vec::new(), 0),
                Socket::Elsewhere => return None,
            };
            of.sort_by_key(|holder: &SocketHolder| (holder.start, holder.pid));
            let ioc = of.iter().find(|holder| recorded.contains(&holder.pid));
            let threads = ioc.map(|holder| thread_names(holder.pid));
            Some(Found { circuit: asked.circuit, holders: of, more, is_whole, threads })
        });
        let found = found.collect();
        Look { found, took: clock::thread().saturating_sub(began) }
    }
}

impl Socket {
    fn inode(&self) -> Option<u64> {
        match self {
            Socket::Is(held) => Some(held.inode),
            Socket::Gone | Socket::Elsewhere => None,
        }
    }
}

/// Where a client's socket is. Loopback addresses are each namespace's own; others may be seen from another namespace, as
/// of a container: then it counts where its address is, unless several have it, or one of both is in a user's own network, and
/// the other is not.
fn socket(tables: &BTreeMap<Namespace, Sockets>, asked: &Asked) -> Socket {
    let in_table = |sockets: &Sockets| sockets.connections.get(&(asked.client, asked.server)).copied();
    let own = tables.get(&asked.namespace);
    if let Some(held) = own.and_then(in_table) {
        return Socket::Is(held);
    }
    // of a process that is just ending nothing is read any more, also not whose network it is in
    let Some(own) = own.filter(|own| !own.local.is_empty()) else { return Socket::Elsewhere };
    if own.local.iter().any(|local| local.has(asked.client.ip)) {
        // it may be one of those that could not be read
        return if own.lacks_some { Socket::Elsewhere } else { Socket::Gone };
    }
    if asked.client.ip >> 24 == 127 {
        return Socket::Elsewhere;
    }
    let at_home = |sockets: &&Sockets| {
        let mut local = sockets.local.iter();
        sockets.user == own.user && local.any(|local| local.bits == 32 && local.has(asked.client.ip))
    };
    let mut others = tables.values().filter(at_home).filter_map(in_table);
    match (others.next(), others.next()) {
        (Some(held), None) => Socket::Is(held),
        _ => Socket::Elsewhere,
    }
}

/// Network namespaces of processes that are not among these, each with a process in it; of users' own some of those users who
/// have one of these.
fn other_namespaces(known: &BTreeMap<Namespace, Sockets>) -> BTreeMap<Namespace, u32> {
    let mut others = BTreeMap::new();
    let mut of_users = 0;
    for pid in process::pids().unwrap_or_default() {
        let Ok(at) = process::namespace(pid) else { continue };
        let is_new = at != 0 && !known.contains_key(&at) && !others.contains_key(&at);
        if !is_new || others.len() >= MAX_OTHERS {
            continue;
        }
        let user = process::user_of_network(pid);
        if user.is_some() {
            if of_users >= MAX_OF_USERS || !known.values().any(|sockets| sockets.user == user) {
                continue;
            }
            of_users += 1;
        }
        others.insert(at, pid);
    }
    others
}

/// The processes that hold these sockets, each socket with the number of those that found no room; and whether all
/// processes' descriptors were read. The youngest are read first, as far as their numbers tell.
fn holders(inodes: &HashSet<u64>, commands: bool) -> (HashMap<u64, (Vec<SocketHolder>, u32)>, bool) {
    let mut holders: HashMap<u64, (Vec<SocketHolder>, u32)> = HashMap::new();
    let Ok(mut pids) = process::pids() else { return (holders, false) };
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let (mut is_whole, mut left) = (true, MAX_READ);
    for pid in pids {
        // a process that ends meanwhile, or another one of its number, does not count
        let Ok(start) = process::known_start(pid) else {
            is_whole &= has_ended(pid);
            continue;
        };
        let directory = process::directory(pid);
        let most = MAX_OF_ONE.min(left);
        let (mut read, mut held) = (0, HashSet::new());
        let Ok(descriptors) = sockets::descriptors(&directory) else {
            is_whole &= has_ended(pid);
            continue;
        };
        for descriptor in descriptors.take(most) {
            read += 1;
            held.extend(descriptor.filter(|inode| inodes.contains(inode)));
        }
        left = left.saturating_sub(read);
        is_whole &= read < most;
        if held.is_empty() {
            continue;
        }
        let Some(holder) = describe(pid, start, commands) else {
            is_whole &= process::known_start(pid).is_ok() || has_ended(pid);
            continue;
        };
        for inode in held {
            let (of, more) = holders.entry(inode).or_default();
            if of.len() < MAX_HOLDERS {
                of.push(holder.clone());
            } else {
                *more = more.saturating_add(1);
            }
        }
    }
    (holders, is_whole)
}

/// Whether there is no process of this number: one whose start can't be read, for want of a descriptor, may hold a socket.
fn has_ended(pid: u32) -> bool {
    process::known_start(pid) == Err(Errno::ESRCH)
}

/// Describes a process, but for the user: as whom it runs now is not who has made a socket that it holds, since a program that
/// runs as root for whoever starts it may have inherited it. `None` if its number belongs to another one by now.
pub(super) fn describe(pid: u32, start: u64, commands: bool) -> Option<SocketHolder> {
    let words = process::command(pid);
    let name = script::name(&words);
    let program = if name.is_empty() { process::thread_name(pid, pid) } else { name };
    if process::start(pid) != Some(start) {
        return None;
    }
    let (command, is_cut) = if commands { cut(redact::command(&words)) } else { (Vec::new(), false) };
    let program = shortened(program, MAX_PROGRAM).0;
    Some(SocketHolder { pid, start, program, command, is_cut, user: String::new() })
}

/// The first bytes of a command line, and whether there is more.
fn cut(words: Vec<String>) -> (Vec<String>, bool) {
    let mut left = MAX_COMMAND;
    let mut kept = Vec::new();
    for word in words {
        if left == 0 {
            return (kept, true);
        }
        let (word, is_cut) = shortened(word, left);
        // with the blank between them: thousands of empty words have an end, too
        left = left.saturating_sub(word.len() + 1);
        kept.push(word);
        if is_cut {
            return (kept, true);
        }
    }
    (kept, false)
}

/// A text without what is beyond so many bytes, and whether that was anything.
fn shortened(mut text: String, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text, false);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    (text, true)
}

/// The different names of a process's threads, and whether these are all.
fn thread_names(pid: u32) -> (Vec<String>, bool) {
    let threads = process::threads(pid);
    let mut names: Vec<String> =
        threads.iter().take(4 * MAX_THREADS).map(|tid| process::thread_name(pid, *tid)).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    let is_whole = threads.len() <= 4 * MAX_THREADS && names.len() <= MAX_THREADS;
    names.truncate(MAX_THREADS);
    (names, is_whole)
}

#[cfg(test)]
mod tests;
