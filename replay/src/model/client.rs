//! The process behind the client of a circuit, as the recorder on the client's host found it by the client's socket.
//!
//! That recorder may be another one than that which recorded the put: the logs of two hosts are joined by the circuit's
//! addresses and ports, and by time ([`peers`](super::peers)). Nothing here is a claim of the client's but the names that
//! its process has chosen.

use super::run::Run;
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, IocId, SocketHolder, ThreadNames};
use std::rc::Rc;

/// Records that are named as those that may have made a put; a bound for hostile logs.
const MAX_RECORDS: usize = 16;

/// A process that held the client's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What the recorder noted of it.
    pub of: SocketHolder,
    /// The recorded IOC that it is, by name.
    pub ioc: Option<String>,
}

/// The client of a circuit, by what one log tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// The client's host, whose recorder found it; empty if unknown.
    pub host: String,
    /// The processes that held its socket, the first one that had it first.
    pub holders: Vec<Holder>,
    /// Number of further ones.
    pub more: u32,
    /// Whether no other process can have held it.
    pub is_whole: bool,
    /// The recorded IOC that is the client, by its number in its run: its process alone of the recorded ones holds the
    /// socket.
    pub ioc: Option<IocId>,
    /// Its name, pid and program.
    pub named: Option<(String, u32, String)>,
    /// The names of its threads.
    pub threads: Option<Rc<ThreadNames>>,
}

impl Client {
    /// The client of a circuit by this context alone; `None` if nothing is known of its process.
    pub fn of(context: &Context, circuit: CircuitId) -> Option<Client> {
        let ioc = context.circuit_ends(circuit).and_then(|ends| context.ioc(ends.client?));
        let process = context.circuit_process(circuit);
        if ioc.is_none() && process.is_none() {
            return None;
        }
        let holder = |of: &SocketHolder| {
            let same = context.iocs().find(|ioc| (ioc.pid, ioc.start) == (of.pid, of.start));
            Holder { of: of.clone(), ioc: same.map(|ioc| ioc.name.clone()) }
        };
        Some(Client {
            host: context.host().map(|host| host.name.clone()).unwrap_or_default(),
            holders: process.iter().flat_map(|process| &process.holders).map(holder).collect(),
            more: process.map_or(0, |process| process.more),
            is_whole: process.is_some_and(|process| process.is_whole),
            ioc: ioc.map(|ioc| ioc.id),
            named: ioc.map(|ioc| (ioc.name.clone(), ioc.pid, program(ioc.exe.as_str()))),
            threads: ioc.and_then(|ioc| context.thread_names(ioc.id)).cloned().map(Rc::new),
        })
    }

    /// Whether it names a process.
    pub fn is_known(&self) -> bool {
        self.ioc.is_some() || !self.holders.is_empty()
    }

    /// The only process that can be it.
    pub fn only(&self) -> Option<&Holder> {
        match self.holders.as_slice() {
            [only] if self.more == 0 => Some(only),
            _ => None,
        }
    }

    /// Whether both name the same processes.
    pub fn is_same(&self, other: &Client) -> bool {
        let who = |of: &Client| {
            let pids: Vec<(u32, u64)> =
                of.holders.iter().map(|holder| (holder.of.pid, holder.of.start)).collect();
            (of.host.clone(), pids, of.named.as_ref().map(|(_, pid, _)| *pid))
        };
        who(self) == who(other)
    }
}

fn program(exe: &str) -> String {
    exe.rsplit('/').next().unwrap_or_default().to_owned()
}

/// How two logs' accounts of a circuit were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// How far the clock of the client's host is ahead, nanoseconds, by the beginning of the circuit in both logs; `None`
    /// if that was not seen in both.
    pub ahead: Option<i64>,
}

/// Who is behind a circuit, if any log tells.
pub struct Behind {
    /// The client.
    pub client: Client,
    /// Set if another log tells.
    pub joined: Option<Joined>,
    /// The run that tells, if it is another one.
    pub run: Option<usize>,
}

/// Who is behind a circuit that a run recorded, at a wall-clock time.
pub fn behind(run: &Run, circuit: CircuitId, time: i64) -> Option<Behind> {
    let own = Client::of(&run.context(), circuit);
    if let Some(own) = own.as_ref().filter(|own| own.is_known()) {
        return Some(Behind { client: own.clone(), joined: None, run: None });
    }
    let other = run.peers().and_then(|(peers, number)| {
        let context = run.context();
        let circuit = context.circuit(circuit)?;
        let place = super::peers::place(&context, circuit);
        peers.find(number, (circuit.client, circuit.server, place), time)
    });
    match other {
        Some((of, joined, client)) => {
            Some(Behind { client: (*client).clone(), joined: Some(joined), run: Some(of) })
        }
        None => own.map(|client| Behind { client, joined: None, run: None }),
    }
}

/// Records of an IOC with a link that writes to a PV over Channel Access, by what the recorder noted of their links:
/// names with the links' fields.
pub fn writers(context: &Context, ioc: IocId, pv: &str) -> Vec<(String, String)> {
    let _ = (context, ioc, link_target(pv), Pv::new(pv), MAX_RECORDS);
    Vec::new()
}
