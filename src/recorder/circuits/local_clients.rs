//! Names for channels of servers that cannot be read, taken from the clients on this machine.
//!
//! The packets of a channel that was open before the recorder started do not carry its name. Where the server is an IOC
//! on this machine, its own tables have the name; else the client may be here, in any network namespace in which
//! something is recorded, and its memory has it as well ([`crate::ioc::channels`]). Clients of unknown circuits are
//! read when servers' ports become known; all clients are read when a put is seen on a channel without a name.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::time::Duration;

use iocrec_log::event::{CircuitId, Event, Fact};
use nix::errno::Errno;

use crate::ca::{Decoder, SeedChannel};
use crate::ioc::channels::{Libraries, OpenCircuit};
use crate::keyed::KeyedMap;
use crate::linux::aside;
use crate::linux::reader::{self, Inspection};
use crate::linux::sockets::{self, Connection};
use crate::linux::{clock, process};
use crate::net::Namespace;
use crate::recorder::circuits::places::Places;

/// Least time between two reads of a process, nanoseconds: a read copies its heap.
const PAUSE: u64 = 5_000_000_000;
/// Least time between two searches for clients, nanoseconds, and as a multiple of the processor time of the last one: a
/// search reads all processes' descriptors.
const LOOK: u64 = 1_000_000_000;
const SHARE: u64 = 100;

/// Times that a client is read for a circuit's names: on a busy machine a search may end before it has found them, and
/// a client that does not use libca never has them.
const TRIES: u32 = 3;

/// Bytes to read of a client at most: its heap, of which [`Libraries::circuits`] reads 256 MiB at most, and its
/// libraries' symbols.
const LOOK_BYTES: u64 = 512 << 20;
const LOOK_TIME: Duration = Duration::from_secs(5);

/// Reads clients on its own thread: a heap takes up to 0.3 s, and hits and packets cannot wait for that.
struct Searcher {
    wanted: Sender<u32>,
    found: Receiver<(u32, Vec<OpenCircuit>)>,
    /// Whether a process is being read.
    busy: bool,
}

impl Searcher {
    /// Returns `None` if the system cannot start a thread: then names stay unknown.
    fn start() -> Option<Searcher> {
        let (wanted, pids) = channel();
        let (result, found) = channel();
        let work = move || {
            reader::use_reader_process();
            let mut libraries = Libraries::default();
            // ends with the recorder, which then drops its ends of the channels
            while let Ok(pid) = pids.recv() {
                let look = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
                let found = libraries.circuits(pid);
                // a process that does not answer has no names for us
                let _ = look.end();
                if result.send((pid, found)).is_err() {
                    break;
                }
            }
        };
        aside::start("clients", Box::new(work)).ok()?;
        Some(Searcher { wanted, found, busy: false })
    }
}

/// The clients on this machine.
#[derive(Default)]
pub struct LocalClients {
    /// Started when first needed.
    searcher: Option<Searcher>,
    /// Circuits with channels that have no name, and how often their clients were read for one.
    unnamed: KeyedMap<CircuitId, u32>,
    /// Whether to read all clients, even if no channel without a name has been seen.
    all: bool,
    next_look: u64,
    /// Processes to read, one at a time.
    due: VecDeque<u32>,
    /// Time of the last read of each.
    read: HashMap<u32, u64>,
}

impl LocalClients {
    /// Reads all clients again: servers have appeared, and their clients' channels may be open already.
    pub fn all_are_due(&mut self) {
        self.all = true;
    }

    /// Notes channels without names in the decoder's events.
    pub fn notice(&mut self, event: &Event) {
        match &event.fact {
            Fact::Channel(channel) if channel.pv.is_empty() => _ = self.unnamed.insert(channel.circuit, 0),
            Fact::Channel(channel) => _ = self.unnamed.remove(&channel.circuit),
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => _ = self.unnamed.remove(circuit),
            _ => {}
        }
    }

    /// Takes over the names found, and requests one more process. `places`: addresses of the servers.
    pub fn step(&mut self, now: u64, places: &Places, decoder: &mut Decoder, events: &mut Vec<Event>) {
        if (self.all || !self.unnamed.is_empty()) && now >= self.next_look {
            let began = clock::thread();
            self.look(now, places, decoder);
            let took = clock::thread().saturating_sub(began);
            self.next_look = now.saturating_add(LOOK.max(took.saturating_mul(SHARE)));
        }
        if self.searcher.is_none() && !self.due.is_empty() {
            self.searcher = Searcher::start();
        }
        let Some(searcher) = &mut self.searcher else { return };
        let (reader, found) = match searcher.found.try_recv() {
            Ok(found) => {
                searcher.busy = false;
                found
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => (0, Vec::new()),
        };
        let from = if found.is_empty() { None } else { process::namespace(reader).ok() };
        if !searcher.busy {
            if let Some(pid) = self.due.pop_front() {
                self.read.insert(pid, now);
                searcher.busy = searcher.wanted.send(pid).is_ok();
            }
        }
        for circuit in found {
            let namespace = from.map(|from| decoder.home(from, circuit.server));
            let Some(namespace) = namespace.filter(|_| !circuit.channels.is_empty()) else { continue };
            if !places.serves(namespace, circuit.server.port) {
                continue;
            }
            let channels: Vec<SeedChannel> = circuit
                .channels
                .into_iter()
                .map(|channel| SeedChannel {
                    cid: Some(channel.cid),
                    sid: channel.sid,
                    pv: channel.pv,
                    dbr: None,
                    count: None,
                })
                .collect();
            // the client's claims about itself are not read: packets or the server supply them
            decoder.seed(namespace, now, circuit.client, circuit.server, "", "", 0, &channels, events);
        }
    }

    /// Whether it reads a client, or should soon.
    pub fn is_busy(&self) -> bool {
        let reads = self.searcher.as_ref().is_some_and(|searcher| searcher.busy);
        reads || self.all || !self.unnamed.is_empty() || !self.due.is_empty()
    }

    /// Finds the processes to read. As long as nothing can be read, for want of descriptors or memory, all stays as it is: else
    /// circuits would be forgotten that have a client here.
    fn look(&mut self, now: u64, places: &Places, decoder: &Decoder) {
        if process::known_start(std::process::id()).is_err_and(|errno| errno != Errno::ESRCH) {
            return;
        }
        let circuit = |home: Namespace, c: &Connection| decoder.circuit(home, c.local, c.remote);
        let mut wanted: HashMap<u64, (Namespace, Connection)> = HashMap::new();
        for (&namespace, place) in &places.wanted {
            wanted.extend(sockets::connections(place.pid).into_iter().filter_map(|connection| {
                let home = decoder.home(namespace, connection.remote);
                let named = match circuit(home, &connection) {
                    Some(circuit) => !self.unnamed.contains_key(&circuit),
                    None => !self.all,
                };
                let unnamed = !named && places.serves(home, connection.remote.port);
                unnamed.then_some((connection.inode, (home, connection)))
            }));
        }
        self.read.retain(|&pid, _| process::start(pid).is_some());
        // forget those without a client here
        let mut again = KeyedMap::default();
        if !wanted.is_empty() {
            let Ok(holders) = sockets::holders(&wanted.keys().copied().collect()) else { return };
            for (pid, held) in holders {
                let is_due = self.read.get(&pid).is_none_or(|read| now >= read.saturating_add(PAUSE));
                if is_due {
                    self.due.push_back(pid);
                }
                for circuit in held.iter().filter_map(|inode| {
                    wanted.get(inode).and_then(|(home, connection)| circuit(*home, connection))
                }) {
                    let tries = self.unnamed.get(&circuit).map(|tries| tries + u32::from(is_due));
                    again.extend(tries.filter(|&tries| tries < TRIES).map(|tries| (circuit, tries)));
                }
            }
        }
        self.unnamed = again;
        self.all = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::Limits;
    use crate::linux::descriptors::without_any;
    use crate::not_run::{not_run, Needs};

    /// Else its channels would have no names for as long as it is open.
    #[test]
    fn no_circuit_is_given_up_while_nothing_can_be_read() {
        let look = || {
            let mut clients = LocalClients { all: true, ..LocalClients::default() };
            clients.unnamed.insert(1, 0);
            clients.look(1, &Places::default(), &Decoder::new(Limits::default()));
            (clients.all, clients.unnamed.len())
        };
        let Some(left) = without_any(look) else {
            let name = "local_clients::no_circuit_is_given_up_while_nothing_can_be_read";
            return not_run(name, Needs::Kernel("close_range".into()));
        };
        assert_eq!(left, (true, 1));
        assert_eq!(look(), (false, 0), "it has no client here");
    }
}
