//! Names for channels of servers that cannot be read, taken from the clients on this machine.
//!
//! The packets of a channel that was open before the recorder started do not carry its name. Where the server is an IOC
//! on this machine, its own tables have the name; else the client may be here, in any network namespace in which
//! something is recorded, and its memory has it as well ([`crate::ioc::channels`]). Clients of unknown circuits are
//! read when servers' ports become known; all clients are read when a put is seen on a channel without a name.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender};
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
/// Processes that wait to be read, and those of them that hold one socket: anybody may have thousands that do.
const MAX_DUE: usize = 1024;
const MAX_HOLDERS: usize = 8;

/// The connections of network namespaces.
type Tables = Vec<(Namespace, Vec<Connection>)>;

/// What the searcher is asked for.
enum Job {
    /// The connections of these network namespaces, each with a process in it.
    Connections(Vec<(Namespace, u32)>),
    /// The processes that hold these sockets.
    Holders(HashSet<u64>),
    /// The circuits of a process.
    Circuits(u32),
}

/// What it has found.
enum Found {
    /// With the processor time that this took; `None` if they could not be read.
    Connections(Option<Tables>, u64),
    /// Each with those of the sockets that it holds, and the processor time that this took; `None` if they could not be
    /// listed.
    Holders(Option<HashMap<u32, Vec<u64>>>, u64),
    Circuits(u32, Vec<OpenCircuit>),
}

/// Lists connections and descriptors and reads clients on its own thread: some user's network may have very many of these, or
/// his processes, a heap takes up to 0.3 s, and hits and packets cannot wait for that.
struct Searcher {
    jobs: Sender<Job>,
    found: Receiver<Found>,
    /// Whether it has a job.
    busy: bool,
}

impl Searcher {
    /// Returns `None` if the system cannot start a thread: then names stay unknown.
    fn start() -> Option<Searcher> {
        let (jobs, wanted) = channel();
        let (result, found) = channel();
        let work = move || {
            reader::use_reader_process();
            let mut libraries = Libraries::default();
            // ends with the recorder, which then drops its ends of the channels
            while let Ok(job) = wanted.recv() {
                let began = clock::thread();
                let found = match job {
                    Job::Connections(places) => {
                        let found = connections(&places);
                        Found::Connections(found, clock::thread().saturating_sub(began))
                    }
                    Job::Holders(inodes) => {
                        let holders = sockets::holders(&inodes).ok();
                        Found::Holders(holders, clock::thread().saturating_sub(began))
                    }
                    Job::Circuits(pid) => {
                        let look = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
                        let found = libraries.circuits(pid);
                        // a process that does not answer has no names for us
                        let _ = look.end();
                        Found::Circuits(pid, found)
                    }
                };
                if result.send(found).is_err() {
                    break;
                }
            }
        };
        aside::start("clients", Box::new(work)).ok()?;
        Some(Searcher { jobs, found, busy: false })
    }
}

/// `None` as long as nothing can be read, for want of descriptors or memory: else circuits would be forgotten that have a client
/// here.
fn connections(places: &[(Namespace, u32)]) -> Option<Tables> {
    if process::known_start(std::process::id()).is_err_and(|errno| errno != Errno::ESRCH) {
        return None;
    }
    Some(places.iter().map(|&(namespace, pid)| (namespace, sockets::connections(pid))).collect())
}

/// A search for the holders of clients' sockets that is under way.
#[derive(Default)]
struct Search {
    /// The sockets, each with the namespace of its server.
    wanted: HashMap<u64, (Namespace, Connection)>,
    /// What it is made for: [`LocalClients::unnamed`] and [`LocalClients::all`].
    unnamed: KeyedMap<CircuitId, u32>,
    all: bool,
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
    search: Search,
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
        let is_due = (self.all || !self.unnamed.is_empty()) && now >= self.next_look;
        if self.searcher.is_none() && (is_due || !self.due.is_empty()) {
            self.searcher = Searcher::start();
        }
        let Some(searcher) = &mut self.searcher else { return };
        let found = searcher.found.try_recv().ok();
        searcher.busy &= found.is_none();
        let is_busy = searcher.busy;
        let (mut reader, mut next, mut circuits) = (0, None, Vec::new());
        match found {
            Some(Found::Circuits(pid, found)) => (reader, circuits) = (pid, found),
            Some(Found::Connections(tables, took)) => {
                self.pause(now, took);
                next = self.look(tables, places, decoder).map(Job::Holders);
            }
            Some(Found::Holders(holders, took)) => {
                self.pause(now, took);
                self.take(now, holders, decoder);
            }
            None => {}
        }
        let from = if circuits.is_empty() { None } else { process::namespace(reader).ok() };
        if !is_busy {
            let next = next.or_else(|| {
                if is_due && now >= self.next_look {
                    // what comes meanwhile is not in the tables, perhaps
                    let (unnamed, all) = (std::mem::take(&mut self.unnamed), std::mem::take(&mut self.all));
                    self.search = Search { unnamed, all, ..Search::default() };
                    let pids = places.wanted.iter().map(|(&namespace, place)| (namespace, place.pid));
                    return Some(Job::Connections(pids.collect()));
                }
                let pid = self.due.pop_front()?;
                self.read.insert(pid, now);
                Some(Job::Circuits(pid))
            });
            if let (Some(searcher), Some(job)) = (&mut self.searcher, next) {
                searcher.busy = searcher.jobs.send(job).is_ok();
            }
        }
        for circuit in circuits {
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

    /// No search begins sooner, after one that took so long.
    fn pause(&mut self, now: u64, took: u64) {
        self.next_look = now.saturating_add(LOOK.max(took.saturating_mul(SHARE)));
    }

    /// The next search begins anew.
    fn give_back(&mut self, unnamed: KeyedMap<CircuitId, u32>, all: bool) {
        self.all |= all;
        unnamed.into_iter().for_each(|(circuit, tries)| _ = self.unnamed.entry(circuit).or_insert(tries));
    }

    /// The sockets of the clients to read, by the connections found; `None` if there are none. If these could not be read, the
    /// next search begins anew.
    fn look(&mut self, tables: Option<Tables>, places: &Places, decoder: &Decoder) -> Option<HashSet<u64>> {
        let Search { unnamed, all, .. } = std::mem::take(&mut self.search);
        let Some(tables) = tables else {
            self.give_back(unnamed, all);
            return None;
        };
        let mut wanted: HashMap<u64, (Namespace, Connection)> = HashMap::new();
        for (namespace, connections) in tables {
            wanted.extend(connections.into_iter().filter_map(|connection| {
                let home = decoder.home(namespace, connection.remote);
                let named = match circuit(decoder, home, &connection) {
                    Some(circuit) => !unnamed.contains_key(&circuit),
                    None => !all,
                };
                let unnamed = !named && places.serves(home, connection.remote.port);
                unnamed.then_some((connection.inode, (home, connection)))
            }));
        }
        self.read.retain(|&pid, _| process::start(pid).is_some());
        // those without a client here are forgotten with it
        if wanted.is_empty() {
            return None;
        }
        let inodes = wanted.keys().copied().collect();
        self.search = Search { wanted, unnamed, all };
        Some(inodes)
    }

    /// Takes over what the search has found: the processes to read. If they could not be listed, the next one begins anew.
    fn take(&mut self, now: u64, holders: Option<HashMap<u32, Vec<u64>>>, decoder: &Decoder) {
        let Search { wanted, unnamed, all } = std::mem::take(&mut self.search);
        let Some(holders) = holders else {
            return self.give_back(unnamed, all);
        };
        let mut held_by: HashMap<u64, usize> = HashMap::new();
        for (pid, held) in holders {
            let is_known = self.read.get(&pid).is_some_and(|read| now < read.saturating_add(PAUSE));
            let most = held.iter().filter_map(|inode| held_by.get(inode)).max();
            let has_room = self.due.len() < MAX_DUE && most.is_none_or(|most| *most < MAX_HOLDERS);
            let is_due = !is_known && has_room && !self.due.contains(&pid);
            if is_due {
                self.due.push_back(pid);
                held.iter().for_each(|inode| *held_by.entry(*inode).or_default() += 1);
            }
            for circuit in held.iter().filter_map(|inode| {
                wanted.get(inode).and_then(|(home, connection)| circuit(decoder, *home, connection))
            }) {
                let tries = unnamed.get(&circuit).map(|tries| tries + u32::from(is_due));
                if let Some(tries) = tries.filter(|&tries| tries < TRIES) {
                    self.unnamed.entry(circuit).or_insert(tries);
                }
            }
        }
    }
}

/// The open circuit of a connection, seen from its client.
fn circuit(decoder: &Decoder, home: Namespace, connection: &Connection) -> Option<CircuitId> {
    decoder.circuit(home, connection.local, connection.remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::{Limits, SERVICE};
    use crate::linux::descriptors::without_any;
    use crate::net::captures::Wanted;
    use crate::net::service::Ports;
    use crate::not_run::{not_run, Needs};
    use iocrec_log::event::Address;
    use std::net::{TcpListener, TcpStream};

    /// Somebody's network may have very many connections, and his processes millions of descriptors.
    #[test]
    fn the_loop_does_not_wait_for_lists_of_connections_and_descriptors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let _client = TcpStream::connect(at).unwrap();
        let _server = listener.accept().unwrap();
        let pid = std::process::id();
        let ports = Ports::of(&SERVICE, &[at.port()]);
        let mut places = Places::default();
        let namespace = process::namespace(pid).unwrap_or_default();
        places.wanted.insert(namespace, Wanted { pid, ports, ..Wanted::default() });
        let mut clients = LocalClients { all: true, ..LocalClients::default() };
        let mut decoder = Decoder::new(Limits::default());
        let mut step = || {
            clients.step(1, &places, &mut decoder, &mut Vec::new());
            assert!(clients.is_busy() && clients.search.all, "a thread of its own lists them");
            assert!(clients.due.is_empty() && clients.read.is_empty());
            clients.search.wanted.len()
        };
        assert_eq!(step(), 0);
        while step() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Its socket may not be in the tables.
    #[test]
    fn a_circuit_that_comes_while_the_tables_are_read_is_looked_for_by_the_next_search() {
        let decoder = Decoder::new(Limits::default());
        let mut clients = LocalClients::default();
        clients.unnamed.insert(2, 0);
        clients.search.unnamed.insert(1, 0);
        assert_eq!(clients.look(Some(Vec::new()), &Places::default(), &decoder), None);
        assert!(clients.unnamed.contains_key(&2) && clients.unnamed.len() == 1);
    }

    #[test]
    fn of_thousands_that_hold_a_socket_few_are_read_at_a_time_and_each_once() {
        let decoder = Decoder::new(Limits::default());
        let mut clients = LocalClients::default();
        let at = |port| Address::new([127, 0, 0, 1].into(), port);
        let connection = Connection { local: at(40_000), remote: at(5064), inode: 5 };
        let mut found = |holders: Option<HashMap<u32, Vec<u64>>>| {
            let wanted = HashMap::from([(5, (7, connection))]);
            clients.search = Search { wanted, all: true, ..Search::default() };
            clients.take(1, holders, &decoder);
            (clients.due.len(), clients.all)
        };
        let holders = || Some((1..=20).map(|pid| (pid, vec![5])).collect());
        assert_eq!([(); 4].map(|()| found(holders()).0), [8, 16, 20, 20]);
        assert!(!found(holders()).1 && found(None).1, "what could not be listed is looked for again");
        assert_eq!(clients.due.iter().collect::<HashSet<_>>().len(), 20);
    }

    /// Else its channels would have no names for as long as it is open.
    #[test]
    fn no_circuit_is_given_up_while_nothing_can_be_read() {
        let look = || {
            let mut clients = LocalClients::default();
            clients.search.all = true;
            clients.search.unnamed.insert(1, 0);
            let found = connections(&[]);
            let wanted = clients.look(found, &Places::default(), &Decoder::new(Limits::default()));
            assert_eq!(wanted, None);
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
