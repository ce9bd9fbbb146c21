//! Names for PVAccess channels that are older than the recorder, from the memory of the servers on this machine.
//!
//! The packets of such a channel do not carry its name. The server's memory has it ([`crate::ioc::pva_channels`]), and
//! those of encrypted circuits. A server is read when its port becomes known, and again when a channel without a name is
//! seen on a circuit whose beginning was not captured, or an encrypted circuit. Its heap is copied for that, on a thread of
//! its own.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use iocrec_log::event::{Address, CircuitId, Event, Fact, Origin};

use crate::ioc::pva_channels::{Libraries, OpenCircuit};
use crate::keyed::KeyedMap;
use crate::linux::aside;
use crate::linux::process;
use crate::linux::reader::{self, Inspection};
use crate::net::packet::End;
use crate::pva::{Decoder, Seed, ENCRYPTED, FIRST_ID};
use crate::recorder::circuits::places::Places;

/// Least time between two reads of a server, nanoseconds, and the longest, if reads name nothing: each copies its heap.
const PAUSE: u64 = 5_000_000_000;
const LONGEST_PAUSE: u64 = 300_000_000_000;
/// Times that a server is read for a circuit's names: on a busy machine a search may end before it has found them, and
/// servers of other software never have them.
const TRIES: u32 = 3;
/// Bytes to read of a server at most: its heap, of which 256 MiB are searched at most, and its libraries' symbols.
const LOOK_BYTES: u64 = 512 << 20;
const LOOK_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 40 } else { 5 });

/// A server to read: process id, ports, circuits whose channels have names.
type Job = (u32, Vec<u16>, HashSet<(End, End)>);

/// Reads servers.
struct Searcher {
    wanted: Sender<Job>,
    found: Receiver<(u32, Vec<OpenCircuit>)>,
    busy: bool,
}

impl Searcher {
    /// Returns `None` if the system cannot start a thread: then names stay unknown.
    fn start() -> Option<Searcher> {
        let (wanted, jobs) = channel::<Job>();
        let (result, found) = channel();
        let work = move || {
            reader::use_reader_process();
            let mut libraries = Libraries::default();
            // ends with the recorder
            while let Ok((pid, ports, known)) = jobs.recv() {
                let look = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
                let ends = |(client, server): (End, End)| (client.any(), server.any());
                let found = libraries.circuits(pid, &ports, &known.into_iter().map(ends).collect());
                // a process that does not answer has no names for us
                let _ = look.end();
                if result.send((pid, found)).is_err() {
                    break;
                }
            }
        };
        aside::start("pva-servers", Box::new(work)).ok()?;
        Some(Searcher { wanted, found, busy: false })
    }
}

/// The servers on this machine.
#[derive(Default)]
pub struct PvaServers {
    /// Started when first needed.
    searcher: Option<Searcher>,
    /// Open circuits: client, server, and whether the opening was captured.
    open: KeyedMap<CircuitId, (Address, Address, bool)>,
    /// Circuits with channels that have no name, or that are encrypted, and how often their servers were read for names.
    unnamed: KeyedMap<CircuitId, u32>,
    /// Whether to read all servers, even if no channel without a name has been seen.
    all: bool,
    /// Processes to read, one at a time.
    due: VecDeque<u32>,
    /// When each may be read again, and the pause after that.
    next: BTreeMap<u32, (u64, u64)>,
}

impl PvaServers {
    /// Reads all servers: one has appeared, and its clients' channels may be open already.
    pub fn all_are_due(&mut self) {
        self.all = true;
    }

    /// Notes channels without names in the decoder's events.
    pub fn notice(&mut self, event: &Event) {
        match &event.fact {
            Fact::Circuit(circuit) if circuit.id > FIRST_ID => {
                let opened = circuit.origin == Origin::Opened;
                self.open.insert(circuit.id, (circuit.client, circuit.server, opened));
            }
            // where packets show the beginning, they have shown the names
            Fact::Channel(channel)
                if channel.pv.is_empty()
                    && self.open.get(&channel.circuit).is_some_and(|(.., opened)| !opened) =>
            {
                self.unnamed.entry(channel.circuit).or_insert(0);
            }
            // packets show none of its channels, nor whose they are
            Fact::PvaCircuit(circuit) if circuit.method == ENCRYPTED => {
                self.unnamed.entry(circuit.circuit).or_insert(0);
            }
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => {
                self.open.remove(circuit);
                self.unnamed.remove(circuit);
            }
            _ => {}
        }
    }

    /// Takes over the names found, and has one more server read.
    pub fn step(&mut self, now: u64, places: &Places, decoder: &mut Decoder, events: &mut Vec<Event>) {
        if self.all || !self.unnamed.is_empty() {
            self.look(now, places);
        }
        if self.searcher.is_none() && !self.due.is_empty() {
            self.searcher = Searcher::start();
        }
        let Some(searcher) = &mut self.searcher else { return };
        let found = searcher.found.try_recv();
        searcher.busy &= found.is_err();
        if !searcher.busy {
            if let Some(pid) = self.due.pop_front() {
                let ports = places.pva.get(&pid).cloned().unwrap_or_default();
                let named = self.open.iter().filter(|(id, _)| !self.unnamed.contains_key(id));
                // those of IPv6 have no addresses here, and are read again
                let named = named.filter(|(_, (client, server, _))| client.ip != 0 && server.ip != 0);
                let known = named.map(|(_, (client, server, _))| ((*client).into(), (*server).into()));
                searcher.busy = searcher.wanted.send((pid, ports, known.collect())).is_ok();
            }
        }
        let Ok((pid, found)) = found else { return };
        let Ok(namespace) = process::namespace(pid) else { return };
        let mut news = false;
        for circuit in found {
            let ends =
                (End::v6(circuit.client.0, circuit.client.1), End::v6(circuit.server.0, circuit.server.1));
            let channels: Vec<(u32, u32, &str)> = circuit
                .channels
                .iter()
                .map(|channel| (channel.cid, channel.sid, channel.pv.as_str()))
                .collect();
            let seed =
                Seed { user: &circuit.identity.user, method: &circuit.identity.method, channels: &channels };
            let id = decoder.seed(namespace, now, ends, &seed, events);
            news |= id.is_some_and(|id| self.unnamed.remove(&id).is_some());
        }
        if let Some((_, pause)) = self.next.get_mut(&pid).filter(|_| news) {
            *pause = PAUSE;
        }
    }

    /// Whether it reads a server, or should now.
    pub fn is_busy(&self) -> bool {
        let reads = self.searcher.as_ref().is_some_and(|searcher| searcher.busy);
        reads || self.all || !self.due.is_empty()
    }

    /// Finds the servers to read.
    fn look(&mut self, now: u64, places: &Places) {
        self.next.retain(|pid, _| places.pva.contains_key(pid));
        let before = self.due.len();
        for &pid in places.pva.keys() {
            let (next, pause) = self.next.get(&pid).copied().unwrap_or((0, PAUSE));
            if now >= next && !self.due.contains(&pid) {
                self.due.push_back(pid);
                let longer = pause.saturating_mul(2).min(LONGEST_PAUSE);
                self.next.insert(pid, (now.saturating_add(pause), longer));
            }
        }
        self.all = false;
        if self.due.len() > before {
            self.unnamed.retain(|_, tries| {
                *tries += 1;
                *tries <= TRIES
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Circuit, PvaCircuit};

    /// Who uses it and its channels stand in the server's memory alone, though its beginning was captured.
    #[test]
    fn the_server_of_an_encrypted_circuit_is_read() {
        let mut servers = PvaServers::default();
        for (circuit, method) in [(FIRST_ID + 1, "ca"), (FIRST_ID + 2, ENCRYPTED)] {
            let end = |port| Address { ip: 0x0a00_0001, port };
            let facts = [
                Fact::from(Circuit {
                    id: circuit,
                    client: end(40001),
                    server: end(5075),
                    user: String::new(),
                    host: String::new(),
                    minor: 0,
                    origin: Origin::Opened,
                }),
                Fact::from(PvaCircuit {
                    circuit,
                    version: 0,
                    method: method.into(),
                    client_ip: Vec::new(),
                    server_ip: Vec::new(),
                }),
            ];
            facts.into_iter().for_each(|fact| servers.notice(&Event { time: 1, fact }));
        }
        assert_eq!(servers.unnamed.keys().copied().collect::<Vec<_>>(), [FIRST_ID + 2]);
    }
}
