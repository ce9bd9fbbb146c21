//! The processes of clients: who is behind a circuit whose client is on the recorded machine.
//!
//! A client's user and host are claims. Its process is what the kernel says: who held the client's socket when the
//! recorder looked, which is soon after the circuit was first seen. The recorder looks once for each circuit. A client that
//! is gone by then may still be known: the kernel told, as it connected, which process that was.

use crate::event::ids::*;
use crate::event::life::{allocated, owned_by_ioc, texts, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};
use std::mem::size_of;

/// A process that held a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketHolder {
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// Start time of the process, nanoseconds after boot: a pid is used again, a pid with its start is not.
    pub start: u64,
    /// Its program, by the command line: the script or module that Python runs, else the program's file name. The name of its
    /// first thread if it has no command line, or was gone before that could be read. The process may have chosen either itself.
    pub program: String,
    /// Its command line without secrets; empty if it is not wanted in the log.
    pub command: Vec<String>,
    /// Whether the end of the command line is missing.
    pub is_cut: bool,
    /// The name of the user who made the socket, or the number: it may have become another one since.
    pub user: String,
}

/// The processes that held the client's socket of a circuit when the recorder looked, or as it connected. There is no such
/// fact if the client is not on the recorded machine, as far as the recorder can see, or was gone by then and nothing told
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitProcess {
    /// The circuit.
    pub circuit: CircuitId,
    /// The processes, in the order of their starts. Several have it if one has inherited it or was given it: which of them
    /// writes to it is not known. None: the client's address is this machine's, but no process was found.
    pub holders: Vec<SocketHolder>,
    /// Number of processes that held it, too, but are not among these.
    pub more: u32,
    /// Whether all processes' descriptors were read: if not, others may have held it. False if it is only known which
    /// process connected.
    pub is_whole: bool,
}

impl Whole for CircuitProcess {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.circuit
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Circuit(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        let own = |holder: &SocketHolder| {
            allocated(holder.program.len()) + allocated(holder.user.len()) + texts(&holder.command)
        };
        allocated(self.holders.len() * size_of::<SocketHolder>())
            + self.holders.iter().map(own).sum::<usize>()
    }
}

/// The names of an IOC's threads, as of when one of its circuits as a client was looked at: a sequencer program has
/// threads of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadNames {
    /// The IOC.
    pub ioc: IocId,
    /// The different names (/proc/PID/task/TID/comm, up to 15 bytes), in alphabetical order.
    pub names: Vec<String>,
    /// Whether these are all.
    pub is_whole: bool,
}

impl Whole for ThreadNames {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.ioc
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Ioc(ioc) => Some(ioc),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        texts(&self.names)
    }
}

/// A channel of an IOC as a client, defined when one of its threads first puts to it. An address is used again after a
/// channel is cleared: then another definition replaces this one, under the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientChannel {
    /// Its number.
    pub id: u32,
    /// The IOC.
    pub ioc: IocId,
    /// Its address in the IOC, as in [`CaClientPut::channel`](crate::event::CaClientPut::channel).
    pub address: u64,
    /// The client's number for it (CID), which it also has on its circuit: a program with several contexts of libca may
    /// have several with the same number.
    pub cid: u32,
    /// The PV, as the program named it.
    pub pv: String,
}

impl Whole for ClientChannel {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.pv.len())
    }
}
