//! The processes of the clients on this machine, by their sockets.
//!
//! A client's user and host are what it claims; the kernel knows which process holds its socket. Each circuit is looked
//! for once, soon after it was first seen: a client that has ended by then, like a short caput, is not found. What the
//! kernel has told of it as it connected (`connected`) is said at once. A look reads the sockets of the recorded network
//! namespaces, and, only if a client's socket is there, the descriptors of all processes, the youngest first, since a
//! short client is among these. A client that is in none of these namespaces is searched for in those of the other
//! processes (a container's client). A look runs on its own thread and uses at most a thirtieth of a processor.
//!
//! Whoever may open a process's descriptors may be told wrongly by it: a process chooses its name and command line. Its
//! pid, start and user are the kernel's. Several processes may hold one socket; all are named.

mod connected;
mod look;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};

use iocrec_log::event::{Address, CircuitId, CircuitProcess, Event, Fact, IocId, SocketHolder, ThreadNames};

use self::connected::{push, Connected, Pair};
use self::look::{Found, Look};
use crate::keyed::KeyedMap;
use crate::linux::aside;
use crate::net::connects::Connects;
use crate::net::Namespace;
use crate::recorder::circuits::places::Places;

/// Least time between two looks, nanoseconds; and as a multiple of the processor time of the last one.
const PAUSE: u64 = 20_000_000;
const SHARE: u64 = 30;
/// Circuits that wait for a look, and that one look takes. What finds no room is said to be unknown.
const MAX_WAITING: usize = 4096;
const MAX_ASKED: usize = 512;
/// Time after its end for which a circuit's process is still taken: the look was under way.
const AFTER_END: u64 = 2_000_000_000;
/// Circuits of which the ends are remembered for that.
const MAX_ENDED: usize = 1024;
/// Time between two notes of an IOC's threads, nanoseconds.
const THREADS_AGAIN: u64 = 60_000_000_000;
/// Circuits that wait for being told who has opened them, and how long, nanoseconds: it is told within milliseconds, on a
/// busy machine.
const MAX_LATE: usize = 256;
const LATE: u64 = 1_000_000_000;
/// IOCs whose threads were noted.
const MAX_IOCS: usize = 4096;

/// A circuit whose client is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    circuit: CircuitId,
    /// Where its packets are seen.
    namespace: Namespace,
    client: Address,
    server: Address,
}

/// A request for a look.
struct Job {
    places: Places,
    asked: Vec<Asked>,
    /// Whether command lines may be in the log.
    commands: bool,
}

struct Searcher {
    jobs: Sender<Job>,
    looks: Receiver<Look>,
}

impl Searcher {
    /// `None` if the system gives no thread.
    fn start() -> Option<Searcher> {
        let (jobs, wanted) = channel::<Job>();
        let (result, looks) = channel();
        let work = move || {
            crate::linux::reader::use_reader_process();
            // ends with the recorder
            while let Ok(job) = wanted.recv() {
                if result.send(Look::at(&job.places, &job.asked, job.commands)).is_err() {
                    break;
                }
            }
        };
        aside::start("processes", Box::new(work)).ok()?;
        Some(Searcher { jobs, looks })
    }
}

/// A circuit that is open.
struct Open {
    client: Address,
    server: Address,
    is_placed: bool,
    /// The process that has opened it.
    opener: Option<SocketHolder>,
}

/// See the module.
#[derive(Default)]
pub struct ClientProcesses {
    open: KeyedMap<CircuitId, Open>,
    waiting: VecDeque<Asked>,
    /// Circuits in the look that is under way.
    asked: HashSet<CircuitId>,
    /// When those of them ended that have.
    ended: KeyedMap<CircuitId, u64>,
    searcher: Option<Searcher>,
    busy: bool,
    next: u64,
    /// When each IOC's threads were noted, and which they were.
    threads: HashMap<IocId, (u64, Vec<String>)>,
    connected: Connected,
    late: VecDeque<Late>,
}

/// A circuit of which nobody has told yet who has opened it: its packets may be handed over first.
struct Late {
    circuit: CircuitId,
    time: u64,
    pair: Pair,
    has_ended: bool,
}

impl ClientProcesses {
    /// From now on takes what a capture of this namespace tells of the processes that connect. `commands`: with command
    /// lines.
    pub fn watch_connects(&mut self, namespace: Namespace, connects: Connects, commands: bool) {
        self.connected.watch(namespace, connects, commands);
    }

    /// Takes over what was told of them. Pushes facts about circuits that have come before that to `events`.
    pub fn take_connects(&mut self, now: u64, events: &mut Vec<Event>) {
        if !self.connected.take() {
            return;
        }
        for late in std::mem::take(&mut self.late) {
            if now.saturating_sub(late.time) > LATE {
                continue;
            }
            let Some(opener) = self.connected.opener(late.time, late.pair) else {
                self.late.push_back(late);
                continue;
            };
            let process = opened_by(late.circuit, opener.clone());
            events.push(Event { time: now, fact: Fact::CircuitProcess(process) });
            if let Some(open) = self.open.get_mut(&late.circuit) {
                open.opener = Some(opener);
            }
            // the end of the circuit is in the log already, but not of what was just said of it
            if late.has_ended {
                events.push(Event { time: now, fact: Fact::CircuitEnd(late.circuit) });
            }
        }
    }

    /// Notes a captured packet.
    pub fn note_packet(&mut self, namespace: Namespace, time: u64, packet: &[u8]) {
        if !self.connected.is_watching() {
            return;
        }
        if let Some((client, server, sequence)) = opening(packet) {
            self.connected.note_opening(time, (namespace, client, server), sequence);
        }
    }

    /// Notes circuits in an event on its way into the log. Returns what is known of the process of a circuit that has
    /// just come: it goes into the log at once, since the circuit may end with the next event.
    pub fn notice(&mut self, event: &Event) -> Option<CircuitProcess> {
        match &event.fact {
            Fact::Circuit(circuit) => {
                let open =
                    Open { client: circuit.client, server: circuit.server, is_placed: false, opener: None };
                self.open.entry(circuit.id).or_insert(open);
            }
            Fact::CircuitEnds(ends) => {
                let open = self.open.get_mut(&ends.circuit).filter(|open| !open.is_placed)?;
                open.is_placed = true;
                let (client, server) = (open.client, open.server);
                let pair = (ends.namespace, client, server);
                open.opener = self.connected.opener(event.time, pair);
                if open.opener.is_none() && self.connected.is_watching() {
                    let late = Late { circuit: ends.circuit, time: event.time, pair, has_ended: false };
                    push(&mut self.late, late, MAX_LATE);
                }
                let process = open.opener.clone().map(|opener| opened_by(ends.circuit, opener));
                // by IPv6: the sockets are not known by such an address
                if client.ip == 0 || self.waiting.len() >= MAX_WAITING {
                    return process;
                }
                self.waiting.push_back(Asked {
                    circuit: ends.circuit,
                    namespace: ends.namespace,
                    client,
                    server,
                });
                return process;
            }
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => {
                self.open.remove(circuit);
                self.late
                    .iter_mut()
                    .filter(|late| late.circuit == *circuit)
                    .for_each(|late| late.has_ended = true);
                if self.asked.contains(circuit) && self.ended.len() < MAX_ENDED {
                    self.ended.insert(*circuit, event.time);
                }
            }
            _ => {}
        }
        None
    }

    /// Takes over the last look, or begins another. Pushes new facts to `events`.
    pub fn step(&mut self, now: u64, places: &Places, commands: bool, events: &mut Vec<Event>) {
        match self.searcher.as_ref().map(|searcher| searcher.looks.try_recv()) {
            Some(Ok(look)) => self.take(now, look, places, events),
            Some(Err(TryRecvError::Disconnected)) => (self.searcher, self.busy) = (None, false),
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        if self.busy || self.waiting.is_empty() || now < self.next {
            return;
        }
        if self.searcher.is_none() {
            self.searcher = Searcher::start();
        }
        let Some(searcher) = &self.searcher else { return self.waiting.clear() };
        let open = &self.open;
        // those that have ended are gone
        self.waiting.retain(|asked| open.contains_key(&asked.circuit));
        let count = self.waiting.len().min(MAX_ASKED);
        let asked: Vec<Asked> = self.waiting.drain(..count).collect();
        if asked.is_empty() {
            return;
        }
        self.asked = asked.iter().map(|asked| asked.circuit).collect();
        self.ended.clear();
        self.busy = searcher.jobs.send(Job { places: places.clone(), asked, commands }).is_ok();
    }

    /// Whether it looks, or should soon.
    pub fn is_busy(&self) -> bool {
        self.busy || !self.waiting.is_empty()
    }

    fn take(&mut self, now: u64, look: Look, places: &Places, events: &mut Vec<Event>) {
        self.busy = false;
        self.next = now.saturating_add(PAUSE.max(look.took.saturating_mul(SHARE)));
        self.asked.clear();
        let mut iocs: HashMap<IocId, (Vec<String>, bool)> = HashMap::new();
        for Found { circuit, mut holders, more, is_whole, threads } in look.found {
            let ended = self.ended.remove(&circuit);
            let is_late = ended.is_some_and(|ended| now.saturating_sub(ended) > AFTER_END);
            // gone before anybody was found: nothing is known
            if is_late || !self.open.contains_key(&circuit) && (ended.is_none() || holders.is_empty()) {
                continue;
            }
            if let Some(opener) = self.open.get(&circuit).and_then(|open| open.opener.as_ref()) {
                // gone since, or not holding it any more: it may have made puts before
                let same = |of: &SocketHolder| (of.pid, of.start) == (opener.pid, opener.start);
                if holders.is_empty() {
                    continue;
                }
                if !holders.iter().any(same) {
                    holders.insert(0, opener.clone());
                }
            }
            if !holders.is_empty() {
                self.late.retain(|late| late.circuit != circuit);
            }
            if let (Some(ioc), Some(threads)) = (recorded(places, &holders), threads) {
                iocs.insert(ioc, threads);
            }
            let process = CircuitProcess { circuit, holders, more, is_whole };
            events.push(Event { time: now, fact: Fact::CircuitProcess(process) });
            // the end of the circuit is in the log already, but not of what was just said of it
            if ended.is_some() {
                events.push(Event { time: now, fact: Fact::CircuitEnd(circuit) });
            }
        }
        for (ioc, (names, is_whole)) in iocs {
            let known = self.threads.get(&ioc);
            let is_known = known.is_some_and(|(at, known)| {
                *known == names || now.saturating_sub(*at) < THREADS_AGAIN && known.len() >= names.len()
            });
            if is_known {
                continue;
            }
            if self.threads.len() >= MAX_IOCS {
                self.threads.clear();
            }
            self.threads.insert(ioc, (now, names.clone()));
            events.push(Event { time: now, fact: Fact::ThreadNames(ThreadNames { ioc, names, is_whole }) });
        }
    }
}

/// What is said of a circuit of which only the process is known that has opened it: nobody has looked for others that hold
/// its socket, too.
fn opened_by(circuit: CircuitId, opener: SocketHolder) -> CircuitProcess {
    CircuitProcess { circuit, holders: vec![opener], more: 0, is_whole: false }
}

/// Of a segment that opens a connection, as the kernel tells of it: client, server and sequence number.
fn opening(packet: &[u8]) -> Option<(Address, Address, u32)> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let first = *packet.first()?;
    // of IPv6 the addresses are not told
    let (at, protocol, is_ip6) = match first >> 4 {
        4 => (usize::from(first & 15) * 4, 9, false),
        6 => (40, 6, true),
        _ => return None,
    };
    if *packet.get(protocol)? != libc::IPPROTO_TCP as u8 {
        return None;
    }
    let tcp = packet.get(at..)?;
    if tcp.get(13)? & (SYN | ACK) != SYN {
        return None;
    }
    let word = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let port = |at: usize| Some(u16::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
    let ip = |at: usize| if is_ip6 { Some(0) } else { word(packet, at) };
    let end = |at: usize, of: usize| Some(Address { ip: ip(at)?, port: port(of)? });
    Some((end(12, 0)?, end(16, 2)?, word(tcp, 4)?))
}

/// The recorded process among the holders of a socket.
fn recorded(places: &Places, holders: &[SocketHolder]) -> Option<IocId> {
    let of = |holder: &SocketHolder| {
        let mut found = places.recorded.iter().filter(|(_, pid, _)| *pid == holder.pid);
        found.next().map(|(ioc, ..)| *ioc)
    };
    holders.iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Circuit, CircuitEnds, Origin};

    fn at(port: u16) -> Address {
        Address::new([127, 0, 0, 1].into(), port)
    }

    fn opened(processes: &mut ClientProcesses, circuit: CircuitId) {
        let facts = [
            Fact::from(Circuit {
                id: circuit,
                client: at(40_000),
                server: at(5064),
                user: String::new(),
                host: String::new(),
                minor: 0,
                origin: Origin::Opened,
            }),
            Fact::CircuitEnds(CircuitEnds { circuit, namespace: 7, server: None, client: None }),
        ];
        for fact in facts {
            processes.notice(&Event { time: 1, fact });
        }
    }

    fn found(circuit: CircuitId, pids: &[u32]) -> Look {
        let holder = |pid: &u32| SocketHolder {
            pid: *pid,
            start: 5,
            program: "caput".into(),
            command: Vec::new(),
            is_cut: false,
            user: "ops".into(),
        };
        let holders: Vec<SocketHolder> = pids.iter().map(holder).collect();
        let threads = Some((vec!["sncRamp".to_owned()], true));
        let found = vec![Found { circuit, holders, more: 0, is_whole: true, threads }];
        Look { found, took: 0 }
    }

    /// What is written of a look at circuit 3, after which it may have ended at a time.
    fn written(pids: &[u32], ended: Option<u64>, places: &Places) -> Vec<Fact> {
        let mut processes = ClientProcesses::default();
        opened(&mut processes, 3);
        assert_eq!(processes.waiting.len(), 1);
        opened(&mut processes, 3);
        assert_eq!(processes.waiting.len(), 1, "once for each circuit");
        processes.asked = HashSet::from([3]);
        if let Some(time) = ended {
            processes.notice(&Event { time, fact: Fact::CircuitEnd(3) });
        }
        let mut events = Vec::new();
        processes.take(10 * AFTER_END, found(3, pids), places, &mut events);
        processes.take(10 * AFTER_END, found(4, pids), places, &mut events);
        events.into_iter().map(|event| event.fact).collect()
    }

    #[test]
    fn what_was_found_is_written_of_open_circuits() {
        let none = Places::default();
        assert!(
            matches!(written(&[11], None, &none).as_slice(), [Fact::CircuitProcess(of)] if of.circuit == 3)
        );
        let nobody = written(&[], None, &none);
        assert!(
            matches!(nobody.as_slice(), [Fact::CircuitProcess(of)] if of.holders.is_empty()),
            "it is here"
        );
        let recorded = Places { recorded: vec![(1, 11, true)], ..Places::default() };
        let of_ioc = written(&[10, 11], None, &recorded);
        let [Fact::CircuitProcess(of), Fact::ThreadNames(threads)] = of_ioc.as_slice() else {
            panic!("{of_ioc:?}")
        };
        assert_eq!(
            (of.holders.len(), threads.ioc, threads.names.as_slice()),
            (2, 1, &["sncRamp".to_owned()][..])
        );
    }

    /// The definition of a circuit that has ended must end, too.
    #[test]
    fn a_client_that_has_just_ended_is_named() {
        let none = Places::default();
        let now = 10 * AFTER_END;
        let just = written(&[11], Some(now - 1000), &none);
        assert!(matches!(just.as_slice(), [Fact::CircuitProcess(_), Fact::CircuitEnd(3)]), "{just:?}");
        assert_eq!(written(&[], Some(now - 1000), &none), [], "nothing is known");
        assert_eq!(written(&[11], Some(now - AFTER_END - 1), &none), [], "long ago");
    }
}
