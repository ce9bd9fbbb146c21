//! Owners of the two ends of each circuit.
//!
//! Two IOCs may serve at the same port on two addresses, or at the same address and port in two network namespaces; and
//! a client may be an IOC: one with CA links, or a sequencer. The sockets show the owner: the process that a connection
//! belongs to holds its socket, and where no holder is seen (a client that ends soon) the listening socket shows the
//! server ([`crate::net::served::Served`]). Ports alone prove nothing.
//!
//! A look reads the sockets of each namespace and the descriptors of the recorded processes. It runs on its own thread,
//! since a machine with many connections takes long over it. It runs only when there is something new, at most ten
//! times a second, and uses at most a thirtieth of a processor; until it has looked at a new server a fifth, and without a
//! pause.
//!
//! Not seen: a client behind address translation (NAT), whose own end has other numbers; and the server where a process
//! that is not recorded shares the listening socket.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};

use iocrec_log::event::{Address, CircuitEnds, CircuitId, Event, Fact, IocId};

use crate::keyed::KeyedMap;
use crate::linux::aside;
use crate::linux::sockets::{self, Sockets};
use crate::linux::{clock, descriptors, process};
use crate::net::packet::End;
use crate::net::served::{Listener, Served};
use crate::net::Namespace;
use crate::pva;
use crate::recorder::circuits::places::Places;

/// Least time between two looks, nanoseconds.
const PAUSE: u64 = 100_000_000;
/// The same after one that lacks some holders: others need not be there any sooner.
const LACKING: u64 = 1_000_000_000;
/// Least time between two looks, as a multiple of the processor time of the last one.
const SHARE: u64 = 30;
/// The same where a server is new: until the look, nothing of what its clients send is captured.
const SHARE_OF_NEW: u64 = 4;
/// Descriptors to read of one process: an IOC has some hundreds, and one that has a million must not keep the others
/// waiting.
const MAX_HELD: usize = 65_536;
/// Looks for the sockets of a circuit: they exist only after the server has accepted it, and the log has the circuit
/// earlier.
const TRIES: u8 = 3;

/// A request for a look.
struct Job {
    places: Places,
    asked: HashSet<(Address, Address)>,
}

/// The result of a look.
struct Look {
    places: Places,
    sockets: HashMap<Namespace, Sockets>,
    /// Owners of the sockets; `None`: several recorded processes hold one.
    owners: HashMap<u64, Option<IocId>>,
    /// Whether the descriptors of a recorded process could not be listed: sockets without an owner may be its own.
    lacks_some: bool,
    /// Processor time, nanoseconds.
    took: u64,
}

impl Look {
    fn at(job: Job) -> Look {
        let began = clock::thread();
        let sockets: HashMap<Namespace, Sockets> = job
            .places
            .wanted
            .iter()
            .map(|(&namespace, wanted)| (namespace, sockets::look(wanted.pid, &job.asked)))
            .collect();
        // descriptors after sockets: a process that has accepted one of these holds it by now
        let mut owners: HashMap<u64, Option<IocId>> = HashMap::new();
        let mut lacks_some = false;
        let recorded = job.places.recorded.iter().map(|&(ioc, pid, _)| (ioc, pid));
        for (ioc, pid) in recorded.chain(job.places.guesses.iter().copied()) {
            let held = sockets::known_held(&process::directory(pid), MAX_HELD);
            lacks_some |= held.as_ref().is_err_and(descriptors::is_want);
            for inode in held.unwrap_or_default() {
                let owner = owners.entry(inode).or_insert(Some(ioc));
                *owner = owner.filter(|owner| *owner == ioc);
            }
        }
        let took = clock::thread().saturating_sub(began);
        Look { places: job.places, sockets, owners, lacks_some, took }
    }

    fn owner(&self, inode: u64) -> Option<IocId> {
        self.owners.get(&inode).copied().flatten()
    }

    /// The servers in each namespace.
    fn served(&self) -> Vec<Served> {
        let served = self.places.wanted.iter().map(|(&namespace, wanted)| {
            let sockets = self.sockets.get(&namespace);
            let listeners = sockets.map(|sockets| sockets.listeners.as_slice()).unwrap_or_default();
            let of_servers = listeners.iter().filter(|(at, _)| wanted.ports.has_any(at.port));
            let mut ports = wanted.ports.clone();
            ports.add(&pva::SERVICE, &wanted.unknown);
            Served {
                namespace,
                ports,
                listeners: of_servers
                    .map(|&(address, inode)| Listener { address, owner: self.owner(inode) })
                    .collect(),
                listeners6: sockets
                    .map(|sockets| sockets.listeners6.as_slice())
                    .unwrap_or_default()
                    .iter()
                    .filter(|(_, port, _)| wanted.ports.has_any(*port))
                    .map(|(ip, port, inode)| (*ip, *port, self.owner(*inode)))
                    .collect(),
                local: sockets.map(|sockets| sockets.local.clone()).unwrap_or_default(),
                local6: sockets.map(|sockets| sockets.local6.clone()).unwrap_or_default(),
                captured: None,
                guessed: wanted.guessed.clone(),
            }
        });
        served.collect()
    }

    /// The server and the client of a circuit that is recorded in `namespace`: each `None` where no socket was found, or its
    /// holder is unknown, else its holder.
    fn ends(&self, namespace: Namespace, client: Address, server: Address) -> [Option<Option<IocId>>; 2] {
        self.sockets_of(namespace, client, server)
            .map(|end| end.filter(|owner| owner.is_some() || !self.lacks_some))
    }

    /// The same, where a socket whose holder is unknown is there, too.
    fn sockets_of(
        &self,
        namespace: Namespace,
        client: Address,
        server: Address,
    ) -> [Option<Option<IocId>>; 2] {
        let here = |local, remote| {
            let held = self.sockets.get(&namespace)?.connections.get(&(local, remote))?;
            Some(self.owner(held.inode))
        };
        // of a process that is just ending nothing is read any more, also not whose network it is in
        let own = self.sockets.get(&namespace).filter(|own| !own.local.is_empty());
        // A container's client of a server outside, or the other way round. Several namespaces may have such a
        // connection.
        let elsewhere = || {
            let user = own?.user;
            let others = self.sockets.iter();
            let others = others.filter(|(other, of)| **other != namespace && of.user == user);
            let mut found = others.filter_map(|(_, sockets)| {
                let own = sockets.local.iter().any(|local| local.bits == 32 && local.has(client.ip));
                sockets.connections.get(&(client, server)).filter(|_| own)
            });
            let first = found.next()?;
            Some(self.owner(first.inode).filter(|_| found.next().is_none()))
        };
        let loopback = client.ip >> 24 == 127;
        let is_ioc = |id: &IocId| self.places.recorded.iter().any(|(ioc, _, is_ioc)| ioc == id && *is_ioc);
        let found = here(client, server).or_else(|| elsewhere().filter(|_| !loopback));
        [here(server, client), found.map(|client| client.filter(is_ioc))]
    }
}

/// An open circuit.
struct Open {
    client: Address,
    server: Address,
    /// As the log has them.
    ends: CircuitEnds,
    /// Whether the log has its namespace.
    is_placed: bool,
    /// Looks still to be made for it.
    tries: u8,
    /// Whether the last look has found nobody who holds a socket of which the holder was known.
    is_doubted: bool,
}

/// The thread that looks.
struct Searcher {
    jobs: Sender<Job>,
    looks: Receiver<Look>,
}

impl Searcher {
    /// `None` if the system gives no thread.
    fn start() -> Option<Searcher> {
        let (jobs, wanted) = channel();
        let (result, looks) = channel();
        let work = move || {
            // ends with the recorder
            while let Ok(job) = wanted.recv() {
                if result.send(Look::at(job)).is_err() {
                    break;
                }
            }
        };
        aside::start("sockets", Box::new(work)).ok()?;
        Some(Searcher { jobs, looks })
    }
}

/// See the module.
#[derive(Default)]
pub struct EndFinder {
    places: Places,
    /// Whether the places have changed since the last look.
    moved: bool,
    /// Whether no look at these places has been taken yet.
    is_behind: bool,
    searcher: Option<Searcher>,
    busy: bool,
    next_look: u64,
    /// Time of the last look, and the processor time that it took.
    looked: (u64, u64),
    open: KeyedMap<CircuitId, Open>,
    /// Circuits in the look that is under way.
    asked: Vec<CircuitId>,
    /// Connections of which nothing but their clients' packets shows that they exist, with the looks still to be made.
    doubted: Vec<(Doubted, u8)>,
    /// Those that exist.
    confirmed: Vec<Doubted>,
}

/// A connection: the namespace of its packets, client and server.
type Doubted = (Namespace, Address, Address);

/// Doubted connections that are looked for at a time: an attacker may name many.
const MAX_DOUBTED: usize = 1024;

impl EndFinder {
    /// Takes the places of the processes that are traced now.
    pub fn set_places(&mut self, places: Places) {
        if places != self.places {
            self.places = places;
            (self.moved, self.is_behind) = (true, true);
            let (time, took) = self.looked;
            self.next_look = self.next_look.min(time.saturating_add(took.saturating_mul(SHARE_OF_NEW)));
            // a process that was not recorded when its circuit was looked for may be recorded by now
            self.open.values_mut().filter(|open| open.is_placed).for_each(|open| open.tries = TRIES);
        }
    }

    /// Notes circuits in an event on its way into the log.
    pub fn notice(&mut self, event: &Event) {
        match &event.fact {
            Fact::Circuit(circuit) => {
                let ends = CircuitEnds { circuit: circuit.id, namespace: 0, server: None, client: None };
                self.open.entry(circuit.id).or_insert(Open {
                    client: circuit.client,
                    server: circuit.server,
                    ends,
                    is_placed: false,
                    tries: 0,
                    is_doubted: false,
                });
            }
            Fact::CircuitEnds(ends) => {
                if let Some(open) = self.open.get_mut(&ends.circuit).filter(|open| !open.is_placed) {
                    (open.ends, open.is_placed, open.tries) = (*ends, true, TRIES);
                }
            }
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => drop(self.open.remove(circuit)),
            _ => {}
        }
    }

    /// Takes over the last look, or begins another one. Pushes new facts about circuits to `events`. After a look,
    /// returns the servers found, with their namespaces. `at_once`: makes the look here, so that it misses nothing
    /// meanwhile.
    pub fn step(
        &mut self,
        now: u64,
        at_once: bool,
        events: &mut Vec<Event>,
    ) -> Option<(Vec<Served>, Places)> {
        let look = match self.searcher.as_ref().map(|searcher| searcher.looks.try_recv()) {
            Some(Ok(look)) => Some(look),
            Some(Err(TryRecvError::Disconnected)) => {
                (self.searcher, self.busy) = (None, false);
                None
            }
            Some(Err(TryRecvError::Empty)) | None => None,
        };
        if let Some(look) = look {
            return Some(self.take(now, look, events));
        }
        let due = self.moved || !self.doubted.is_empty() || self.open.values().any(|open| open.tries > 0);
        if self.busy || !due || now < self.next_look {
            return None;
        }
        self.asked =
            self.open.iter().filter(|(_, open)| open.tries > 0).map(|(&circuit, _)| circuit).collect();
        let pairs = self.asked.iter().filter_map(|circuit| self.open.get(circuit));
        let doubted = self.doubted.iter().map(|((_, client, server), _)| (*client, *server));
        let pairs = pairs.map(|open| (open.client, open.server)).chain(doubted);
        let asked = pairs.flat_map(|(client, server)| [(client, server), (server, client)]).collect();
        let job = Job { places: self.places.clone(), asked };
        self.moved = false;
        if self.searcher.is_none() && !at_once {
            self.searcher = Searcher::start();
        }
        match &self.searcher {
            Some(searcher) => {
                self.busy = searcher.jobs.send(job).is_ok();
                None
            }
            None => Some(self.take(now, Look::at(job), events)),
        }
    }

    /// Looks for the sockets of these connections, too. Those of IPv6 are left out: servers answer every request of
    /// PVAccess.
    pub fn look_for(&mut self, connections: Vec<(Namespace, End, End)>) {
        let wanted = connections
            .into_iter()
            .filter_map(|(namespace, client, server)| Some(((namespace, client.v4()?, server.v4()?), TRIES)));
        let room = MAX_DOUBTED.saturating_sub(self.doubted.len());
        self.doubted.extend(wanted.take(room));
    }

    /// Those that have been found since the last call.
    pub fn take_confirmed(&mut self) -> Vec<Doubted> {
        std::mem::take(&mut self.confirmed)
    }

    /// Whether it looks, or should soon.
    pub fn is_busy(&self) -> bool {
        self.busy || self.moved || !self.doubted.is_empty() || self.open.values().any(|open| open.tries > 0)
    }

    /// Whether the places that it was given last have been looked at.
    pub fn is_placed(&self) -> bool {
        !self.is_behind
    }

    fn take(&mut self, now: u64, look: Look, events: &mut Vec<Event>) -> (Vec<Served>, Places) {
        self.busy = false;
        self.is_behind &= look.places != self.places;
        self.looked = (now, look.took);
        let pause = if look.lacks_some { LACKING } else { PAUSE };
        let share = if self.is_behind { SHARE_OF_NEW } else { SHARE };
        let pause = if self.is_behind { 0 } else { pause };
        self.next_look = now.saturating_add(pause.max(look.took.saturating_mul(share)));
        // listening sockets have no owner then, either
        self.moved |= look.lacks_some;
        let served = look.served();
        let confirmed = &mut self.confirmed;
        self.doubted.retain_mut(|(of, tries)| {
            // whoever holds it
            let found = look.sockets_of(of.0, of.1, of.2).iter().any(Option::is_some);
            if found {
                confirmed.push(*of);
            }
            *tries = tries.saturating_sub(1);
            !found && *tries > 0
        });
        for circuit in std::mem::take(&mut self.asked) {
            let Some(open) = self.open.get_mut(&circuit) else { continue };
            let [server, client] = look.ends(open.ends.namespace, open.client, open.server);
            // A process that ends closes its descriptors before its sockets are gone. So one look is not enough to say
            // that somebody else holds a socket.
            let loses =
                |found: Option<Option<IocId>>, known: Option<IocId>| found == Some(None) && known.is_some();
            let is_doubted = loses(server, open.ends.server) || loses(client, open.ends.client);
            let (server, client) = if is_doubted && !open.is_doubted {
                open.tries = open.tries.max(2);
                (server.filter(Option::is_some), client.filter(Option::is_some))
            } else {
                (server, client)
            };
            open.is_doubted = is_doubted;
            // the connection's holder is certain; without one the listener counts
            let listens = || {
                served
                    .iter()
                    .find(|served| served.namespace == open.ends.namespace)?
                    .server(open.server.into())
            };
            let ends = CircuitEnds {
                server: server.unwrap_or_else(|| open.ends.server.or_else(listens)),
                client: client.unwrap_or(open.ends.client),
                ..open.ends
            };
            if ends != open.ends {
                open.ends = ends;
                events.push(Event { time: now, fact: Fact::CircuitEnds(ends) });
            }
            let found = server.is_some() && client.is_some();
            // one that could not tell is none of its looks
            let used = u8::from(!look.lacks_some);
            open.tries = if found { 0 } else { open.tries.saturating_sub(used) };
        }
        (served, look.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::sockets::{HeldSocket, LocalAddress};

    const HOST: Namespace = 100;
    const BOX: Namespace = 101;

    fn at(ip: [u8; 4], port: u16) -> Address {
        Address::new(ip.into(), port)
    }

    /// A host and a container, with the sockets of connections and their owners.
    fn look(connections: &[(Namespace, Address, Address, u64)], owners: &[(u64, Option<IocId>)]) -> Look {
        let mut sockets = HashMap::new();
        for (namespace, ip) in [(HOST, [10, 9, 0, 1]), (BOX, [10, 9, 0, 2])] {
            let local =
                vec![LocalAddress { ip: at(ip, 0).ip, bits: 32 }, LocalAddress { ip: 0x7f00_0000, bits: 8 }];
            let own = connections.iter().filter(|(of, ..)| *of == namespace);
            let held = |inode| HeldSocket { inode, user: 0 };
            let connections = own.map(|&(_, local, remote, inode)| ((local, remote), held(inode))).collect();
            sockets.insert(namespace, Sockets { connections, local, ..Sockets::default() });
        }
        let recorded = vec![(1, 11, true), (2, 12, true), (3, 13, false)];
        let places = Places { recorded, ..Places::default() };
        let owners = owners.iter().copied().collect();
        Look { places, sockets, owners, lacks_some: false, took: 0 }
    }

    #[test]
    fn sockets_show_whose_a_circuit_is() {
        let (client, server) = (at([127, 0, 0, 1], 40000), at([127, 0, 0, 1], 5064));
        let both = [(HOST, client, server, 7), (HOST, server, client, 8), (BOX, server, client, 9)];
        let found = look(&both, &[(7, Some(1)), (8, Some(2)), (9, Some(1))]);
        assert_eq!(found.ends(HOST, client, server), [Some(Some(2)), Some(Some(1))]);
        assert_eq!(found.ends(BOX, client, server), [Some(Some(1)), None], "its loopback is its own");
        // held by an unrecorded process, or by one of two
        let shared = look(&both, &[(8, None)]);
        assert_eq!(shared.ends(HOST, client, server), [Some(None), Some(None)]);
        assert_eq!(look(&[], &[]).ends(HOST, client, server), [None, None]);
        // a gateway's puts are its clients'
        let gateway = look(&both, &[(7, Some(3)), (8, Some(3))]);
        assert_eq!(gateway.ends(HOST, client, server), [Some(Some(3)), Some(None)]);
    }

    /// Where the recorder may open no more files, one of those that could not be listed may hold the socket.
    #[test]
    fn a_socket_whose_holder_is_unknown_is_not_somebody_elses() {
        let (client, server) = (at([127, 0, 0, 1], 40000), at([127, 0, 0, 1], 5064));
        let both = [(HOST, client, server, 7), (HOST, server, client, 8)];
        let mut found = look(&both, &[(7, Some(1))]);
        assert_eq!(found.ends(HOST, client, server), [Some(None), Some(Some(1))]);
        found.lacks_some = true;
        assert_eq!(found.ends(HOST, client, server), [None, Some(Some(1))]);
        let mut finder = EndFinder::default();
        finder.take(1, found, &mut Vec::new());
        assert!(finder.is_busy(), "it looks again");
    }

    /// A user has given himself the address of another machine's client, and a connection with its numbers; or the
    /// addresses of a connection of the host's.
    #[test]
    fn a_user_s_own_network_proves_nothing_elsewhere() {
        let (client, server) = (at([10, 9, 0, 2], 40000), at([10, 9, 0, 1], 5064));
        let sockets = [(BOX, client, server, 7), (HOST, server, client, 8)];
        let mut found = look(&sockets, &[(7, Some(1)), (8, Some(2))]);
        found.sockets.get_mut(&BOX).unwrap().user = Some(1000);
        assert_eq!(found.ends(HOST, client, server), [Some(Some(2)), None]);
        assert_eq!(found.ends(BOX, client, server), [None, Some(Some(1))], "there it does");
        let (client, server) = (at([10, 9, 0, 1], 40000), at([10, 9, 0, 3], 5064));
        let sockets = [(HOST, client, server, 7), (BOX, server, client, 8)];
        let mut found = look(&sockets, &[(7, Some(1)), (8, Some(2))]);
        found.sockets.get_mut(&BOX).unwrap().user = Some(1000);
        assert_eq!(found.ends(BOX, client, server), [Some(Some(2)), None]);
        // of two such networks, as two rootless containers have: of one user, then of two
        found.sockets.get_mut(&HOST).unwrap().user = Some(1000);
        assert_eq!(found.ends(BOX, client, server), [Some(Some(2)), Some(Some(1))]);
        found.sockets.get_mut(&HOST).unwrap().user = Some(1001);
        assert_eq!(found.ends(BOX, client, server), [Some(Some(2)), None]);
        // his process has just ended: it is not seen that the network was his
        found.sockets.get_mut(&HOST).unwrap().user = None;
        found.sockets.insert(BOX, Sockets::default());
        assert_eq!(found.ends(BOX, client, server), [None, None]);
    }

    #[test]
    fn a_client_in_a_container_is_found_there() {
        let (client, server) = (at([10, 9, 0, 2], 40000), at([10, 9, 0, 1], 5064));
        let found =
            look(&[(BOX, client, server, 7), (HOST, server, client, 8)], &[(7, Some(1)), (8, Some(2))]);
        assert_eq!(found.ends(HOST, client, server), [Some(Some(2)), Some(Some(1))]);
        // behind a translation of addresses it has other numbers
        let behind = at([10, 9, 0, 1], 50000);
        assert_eq!(found.ends(HOST, behind, server), [None, None]);
    }

    /// A finder that knows of circuit 5, between these ends on the host.
    fn finder_of(client: Address, server: Address) -> EndFinder {
        let mut finder = EndFinder::default();
        let placed = CircuitEnds { circuit: 5, namespace: HOST, server: None, client: None };
        let circuit = iocrec_log::event::Circuit {
            id: 5,
            client,
            server,
            user: String::new(),
            host: String::new(),
            minor: 0,
            origin: iocrec_log::event::Origin::Opened,
        };
        for fact in [Fact::from(circuit), Fact::CircuitEnds(placed)] {
            finder.notice(&Event { time: 1, fact });
        }
        finder
    }

    /// However long the recorder may open no more files: the socket is there, and its holder is known in the end.
    #[test]
    fn a_circuit_is_looked_for_until_its_holders_can_be_known() {
        let (client, server) = (at([127, 0, 0, 1], 40000), at([127, 0, 0, 1], 5064));
        let both = [(HOST, client, server, 7), (HOST, server, client, 8)];
        let mut finder = finder_of(client, server);
        finder.doubted = vec![((HOST, client, server), TRIES)];
        let mut events = Vec::new();
        for round in 0..=TRIES {
            finder.asked = finder.open.iter().filter(|(_, open)| open.tries > 0).map(|(&id, _)| id).collect();
            assert_eq!(finder.asked, [5], "{round}");
            finder.take(1, Look { lacks_some: true, ..look(&both, &[]) }, &mut events);
            assert!(finder.next_look > LACKING && events.is_empty(), "{events:?}");
        }
        assert_eq!(finder.take_confirmed(), [(HOST, client, server)], "somebody holds it");
        finder.asked = vec![5];
        finder.take(2, look(&both, &[(7, Some(1)), (8, Some(2))]), &mut events);
        let [Event { fact: Fact::CircuitEnds(known), .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((known.server, known.client), (Some(2), Some(1)));
    }

    /// Facts that the log has are not written again, and nothing is written about a circuit that is over.
    #[test]
    fn only_news_is_written_and_only_of_open_circuits() {
        let (client, server) = (at([127, 0, 0, 1], 40000), at([127, 0, 0, 1], 5064));
        let found =
            || look(&[(HOST, client, server, 7), (HOST, server, client, 8)], &[(7, Some(1)), (8, Some(2))]);
        let mut finder = finder_of(client, server);
        let mut events = Vec::new();
        for _ in 0..2 {
            finder.asked = vec![5];
            finder.take(2, found(), &mut events);
        }
        let [Event { fact: Fact::CircuitEnds(known), .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((known.server, known.client), (Some(2), Some(1)));
        // the server is killed: its socket is still there, and nobody holds it
        let killed = || look(&[(HOST, client, server, 7), (HOST, server, client, 8)], &[(7, Some(1))]);
        let takes = |finder: &mut EndFinder, look, events: &mut Vec<Event>| {
            finder.asked = vec![5];
            finder.take(3, look, events);
            events.len()
        };
        assert_eq!(takes(&mut finder, killed(), &mut events), 1, "it may be ending");
        assert_eq!(takes(&mut finder, look(&[], &[]), &mut events), 1, "it has ended");
        assert_eq!(takes(&mut finder, killed(), &mut events), 1);
        assert_eq!(
            takes(&mut finder, killed(), &mut events),
            2,
            "it lives, and somebody else holds the socket"
        );
        let [_, Event { fact: Fact::CircuitEnds(other), .. }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(other.server, None);
        finder.notice(&Event { time: 3, fact: Fact::CircuitEnd(5) });
        finder.asked = vec![5];
        events.clear();
        finder.take(4, found(), &mut events);
        assert!(events.is_empty());
    }
}
