//! The processes that are recorded: found, adopted, tied to their clients, and let go.

use std::collections::{BTreeMap, HashMap, HashSet};

use iocrec_log::event::{
    Address, CircuitId, Event, Fact, Ioc, IocEnd, IocId, Linkage, Loss, LossSource, Serves, ThreadId,
};

use super::ends::Places;
use super::names::{Names, NewThread};
use super::sink::Sink;
use super::{Options, SCAN};
use crate::ca::captures::{Captures, Wanted};
use crate::ca::{servers, Decoder, Namespace, SeedChannel};
use crate::clock;
use crate::ioc::clients::{clients, Client};
use crate::ioc::ending::{self, Ending};
use crate::ioc::{ports, process, redact, script, sockets, user, Database, Finder, IocProcess};
use crate::kernel::attacher::Attacher;
use crate::kernel::probe::{self, Hold, Probes};
use crate::kernel::Kernel;
use crate::signals;

/// A process that is no IOC may load EPICS Base later, or become another program: then the size of its
/// memory changes, and it is looked at again at the next scan. One that does nothing but change is looked at
/// after 1, 2, 4 ... s, at most this long, nanoseconds.
const LONGEST_PAUSE: u64 = 16_000_000_000;
const SHORTEST_PAUSE: u64 = 500_000_000;
/// Time from when it was first seen in which a changing process is looked at in every scan, nanoseconds:
/// Python may import for long before it loads EPICS Base.
const STARTING: u64 = 120_000_000_000;
/// A circuit's packets come at most so long after the hits that they cause: the packet ring hands over a
/// block after some 10 ms. Later than this there are none, and memory is all we have.
const PACKETS_LAG: u64 = 300_000_000;

/// CA servers' ports are looked for so often, nanoseconds: it means reading all processes' descriptors.
const PORTS: u64 = 5_000_000_000;
/// An IOC opens its ports some time after it has been found; meanwhile they are looked for at every scan that
/// finds it with other sockets than the one before.
const YOUNG: u64 = 30_000_000_000;

/// A process that is not recorded.
struct Passed {
    first: u64,
    next: u64,
    pause: u64,
    /// Of its memory, pages.
    size: Option<u64>,
}

/// An IOC that has not been here for long.
struct Young {
    until: u64,
    /// Inodes of its sockets at the last scan.
    sockets: Vec<u64>,
}

/// What was said of a recorded process.
struct Recorded {
    id: IocId,
    start: u64,
    /// What program it runs.
    image: Option<(u64, u64)>,
    /// As the log has it.
    said: Ioc,
    traced: bool,
    /// The network namespace that it lives in, or why that can't be told.
    namespace: Result<Namespace, String>,
    /// How many record types' process routines are probed.
    routines: usize,
    probes: Probes,
}

/// A server thread whose circuit has no number yet.
struct Untied {
    thread: ThreadId,
    time: u64,
    /// When this was found out, which on a busy machine may be long after.
    noted: u64,
    client: Client,
    namespace: Namespace,
    server: Address,
}

/// All processes.
#[derive(Default)]
pub struct Watched {
    /// Command lines do not go into the log.
    pub no_command_lines: bool,
    finder: Finder,
    passed: HashMap<u32, Passed>,
    ports_next: u64,
    young: HashMap<u32, Young>,
    recorded: HashMap<u32, Recorded>,
    /// Clients read from memory that have no circuit yet, by server.
    unseeded: Vec<(Namespace, Address, Client)>,
    serving: HashMap<u32, CircuitId>,
    untied: Vec<Untied>,
    ready: Vec<Event>,
    endings: HashMap<u32, Ending>,
}

impl Watched {
    /// Is a process recorded?
    pub fn has(&self, pid: u32) -> bool {
        self.recorded.contains_key(&pid)
    }

    /// Is none?
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Why a process that was asked for is not recorded.
    pub fn why_not(&mut self, pid: u32, users: &user::Users) -> String {
        match self.finder.look(pid) {
            Ok(_) if !users.have(pid) => {
                format!("process {pid} is of the user {}, whom --user leaves out", user::user(pid))
            }
            Err(reason) => format!("{reason}; iocrec check lists the IOCs there are"),
            Ok(_) => format!(
                "process {pid} ({}) is no IOC and no CA server; iocrec check lists those there are",
                redact::command(&process::command(pid)).join(" ")
            ),
        }
    }

    /// Where the recorded processes live, and on which TCP ports they serve Channel Access; `more` are those that the
    /// user named.
    pub fn places(&mut self, more: &[u16]) -> Places {
        let own = std::process::id();
        let mut wanted: BTreeMap<Namespace, Wanted> = BTreeMap::new();
        if let Ok(here) = process::namespace(own) {
            wanted.insert(here, Wanted { pid: own, ports: more.to_vec() });
        }
        let mut recorded = Vec::new();
        for (&pid, process) in &mut self.recorded {
            // that of one that is just ending stays as it was
            match process::namespace(pid) {
                Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ESRCH) => {}
                found => process.namespace = found.map_err(|error| error.desc().into()),
            }
            recorded.push((process.id, pid, process.said.linkage != Linkage::Foreign));
            let Ok(namespace) = process.namespace else { continue };
            let place = wanted.entry(namespace).or_insert_with(|| Wanted { pid, ports: more.to_vec() });
            place.ports.extend(&process.said.ca_ports);
            // of several always the same
            place.pid = if place.pid == own { own } else { place.pid.min(pid) };
        }
        for place in wanted.values_mut() {
            place.ports.sort_unstable();
            place.ports.dedup();
        }
        recorded.sort_unstable();
        Places { wanted, recorded }
    }

    /// Says of which processes the clients cannot be seen.
    pub fn note_captures(
        &mut self,
        now: u64,
        captures: &Captures,
        sink: &mut dyn Sink,
        said: &mut Vec<String>,
    ) {
        for (pid, recorded) in &mut self.recorded {
            let reason = match &recorded.namespace {
                Ok(namespace) => captures.refused(*namespace),
                Err(reason) => Some(reason.as_str()),
            };
            let line = reason.map(not_captured);
            let lines = &mut recorded.said.not_probed;
            let before = lines.iter().position(|line| line.starts_with(NOT_CAPTURED));
            if line.as_ref() == before.and_then(|at| lines.get(at)) {
                continue;
            }
            before.map(|at| lines.remove(at));
            said.extend(line.as_ref().map(|line| format!("{} (pid {pid}): {line}", recorded.said.name)));
            lines.extend(line);
            sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
        }
    }

    /// Looks for processes that came, changed and went. True if something did.
    pub fn scan(
        &mut self,
        now: u64,
        options: &Options,
        names: &mut Names,
        mut kernel: Option<&mut Kernel>,
        sink: &mut dyn Sink,
        said: &mut Vec<String>,
    ) -> bool {
        let pids: HashSet<u32> = if options.pids.is_empty() {
            let pids = process::pids().unwrap_or_else(|error| {
                said.push(format!("{error}; processes cannot be seen"));
                Vec::new()
            });
            pids.into_iter().collect()
        } else {
            options.pids.iter().copied().collect()
        };
        self.finder.tick(&pids);
        let mut changed = self.let_go(now, &pids, names, kernel.as_deref_mut(), sink, said);
        for &pid in &pids {
            // to probe many IOCs takes seconds, which who ends the recorder is not kept waiting
            if signals::ended() {
                break;
            }
            if pid != std::process::id() && self.is_due(pid, now) {
                let adopted = self.adopt(pid, now, options, names, kernel.as_deref_mut(), sink);
                changed |= adopted.is_some();
                said.extend(adopted.unwrap_or_default());
            }
        }
        changed |= self.follow(now, options, names, kernel, sink, said);
        let young = self.young_with_other_sockets(now);
        let mut servers = if now >= self.ports_next {
            self.ports_next = now + PORTS;
            servers::find(&|pid| names.ioc(pid).is_some()).unwrap_or_default()
        } else if young.is_empty() {
            Vec::new()
        } else {
            servers::of(&young)
        };
        servers.retain(|server| self.recorded.contains_key(&server.pid) || options.users.have(server.pid));
        changed |= self.note_ports(now, servers, &pids, names, sink, said);
        for &pid in self.recorded.keys() {
            self.endings.entry(pid).or_insert_with(|| Ending::expect(pid));
        }
        changed
    }

    /// Processes that ended.
    fn let_go(
        &mut self,
        now: u64,
        pids: &HashSet<u32>,
        names: &mut Names,
        mut kernel: Option<&mut Kernel>,
        sink: &mut dyn Sink,
        said: &mut Vec<String>,
    ) -> bool {
        self.passed.retain(|pid, _| pids.contains(pid));
        let gone: Vec<(u32, Option<&str>)> = self
            .recorded
            .iter()
            .filter_map(|(&pid, recorded)| {
                if process::start(pid) != Some(recorded.start) || ending::is_zombie(pid) {
                    return Some((pid, None));
                }
                Some((pid, Some(over(pid, recorded, names)?)))
            })
            .collect();
        for (pid, why) in &gone {
            let Some(recorded) = self.recorded.remove(pid) else { continue };
            let left_out = kernel.as_deref_mut().map(|kernel| kernel.tables.forget(*pid)).unwrap_or_default();
            names.thinned(now, &left_out, sink);
            let ending = self.endings.remove(pid).map(|ending| ending.how());
            let how = why.map(str::to_string).or(ending).unwrap_or_default();
            said.push(format!("{} (pid {pid}) has ended: {how}", recorded.said.name));
            sink.push(Event { time: now, fact: Fact::IocEnd(IocEnd { ioc: recorded.id, how }) });
            names.remove(*pid);
        }
        !gone.is_empty()
    }

    /// Is it time to look at a process?
    fn is_due(&mut self, pid: u32, now: u64) -> bool {
        if self.recorded.contains_key(&pid) {
            return false;
        }
        let size = process::size(pid);
        let passed = self.passed.entry(pid).or_insert(Passed {
            first: now,
            next: now,
            pause: SHORTEST_PAUSE,
            size: None,
        });
        if now < passed.next || passed.size == size && !self.finder.is_undecided(pid) {
            return false;
        }
        passed.size = size;
        passed.pause = if now - passed.first < STARTING {
            SHORTEST_PAUSE
        } else {
            (passed.pause * 2).min(LONGEST_PAUSE)
        };
        passed.next = now + passed.pause;
        true
    }

    /// Takes a process in if it is an IOC; gives back what is to be said of that.
    fn adopt(
        &mut self,
        pid: u32,
        now: u64,
        options: &Options,
        names: &mut Names,
        kernel: Option<&mut Kernel>,
        sink: &mut dyn Sink,
    ) -> Option<Vec<String>> {
        if !options.users.have(pid) {
            return None;
        }
        // one that is gone, or hidden from us, is no concern of others
        let Ok(Some(ioc)) = self.finder.look(pid) else { return None };
        self.passed.remove(&pid);
        let id = names.next_ioc();
        let mut said = describe(id, pid, ioc.start, self.no_command_lines);
        self.young.insert(pid, Young { until: now.saturating_add(YOUNG), sockets: Vec::new() });
        identify(&ioc, &mut said);
        said.linkage = ioc.linkage;
        let probes = match (kernel, ioc.unprobed()) {
            (Some(_), Some(reason)) => {
                said.not_probed.push(reason.into());
                Probes::none(pid)
            }
            (Some(kernel), None) => {
                let placed = probe::attach(&kernel.attacher(), &ioc, options.puts, options.process);
                said.not_probed = placed.not_probed;
                placed.probes
            }
            (None, _) => Probes::none(pid),
        };
        let mut lines = Vec::new();
        // of one without symbols process routines are probed as they come to be
        if let (0, false, Some(reason)) = (probes.count(), ioc.is_hidden(), said.not_probed.first()) {
            lines.push(format!("{} (pid {pid}) is not probed: {reason}", said.name));
        }
        sink.push(Event { time: now, fact: Fact::from(said.clone()) });
        let image = process::image(pid);
        let namespace = Ok(process::namespace(pid).unwrap_or_default());
        let start = ioc.start;
        self.recorded
            .insert(pid, Recorded { id, start, image, said, traced: false, namespace, routines: 0, probes });
        names.add(id, ioc);
        Some(lines)
    }

    /// Learns what IOCs have come to be since the last time: their layout, their records, their names; and begins
    /// to record their hits, once their records are known.
    fn follow(
        &mut self,
        now: u64,
        options: &Options,
        names: &mut Names,
        mut kernel: Option<&mut Kernel>,
        sink: &mut dyn Sink,
        lines: &mut Vec<String>,
    ) -> bool {
        let pids: Vec<u32> = names.iocs().map(|traced| traced.process.pid).collect();
        let mut changed = false;
        for pid in pids {
            let (Some(recorded), Some(traced)) = (self.recorded.get_mut(&pid), names.ioc_mut(pid)) else {
                continue;
            };
            let before = recorded.said.clone();
            if traced.process.layout.is_err() {
                self.finder.layout_again(&mut traced.process);
            } else if traced.process.database() == Database::Extended {
                // as long as the new record types are not registered the old layout serves
                let read = self.finder.layout_extended(&mut traced.process);
                let ioc = &traced.process;
                let tables = kernel.as_deref_mut().map(|kernel| &mut kernel.tables);
                if let (Ok(layout), Some(tables), true) = (&ioc.layout, tables, read && recorded.traced) {
                    let told = tables.extend(pid, &layout.told(pid, ioc.fixed));
                    recorded.said.not_probed.extend(told.err());
                }
            }
            if let Some(walked) = names.walk(now, pid, &options.selection, sink) {
                let named = "records are named when they are first seen: ";
                recorded.said.not_probed.retain(|line| !line.starts_with(named));
                recorded.said.not_probed.extend(walked.err().map(|reason| format!("{named}{reason}")));
                // records come with the start-up script, which says who the IOC is
                if let Some(traced) = names.ioc_mut(pid) {
                    self.finder.identity_again(&mut traced.process);
                    identify(&traced.process, &mut recorded.said);
                }
                changed = true;
            }
            if let (Some(kernel), Some(traced), false) =
                (kernel.as_deref_mut(), names.ioc(pid), recorded.traced)
            {
                recorded.traced = begin(&traced.process, kernel, &mut recorded.said);
                if recorded.traced {
                    changed = true;
                    lines.push(adopted(&recorded.said));
                }
            }
            if let Some(kernel) = kernel.as_deref_mut() {
                hold_on(now, recorded, &kernel.attacher(), sink, lines);
            }
            if let (Some(kernel), Some(traced), true) =
                (kernel.as_deref_mut(), names.ioc(pid), options.process)
            {
                probe_routines(&traced.process, &kernel.attacher(), recorded);
            }
            if recorded.said != before {
                sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
            }
        }
        changed
    }

    /// IOCs that may have opened a port since the last scan.
    fn young_with_other_sockets(&mut self, now: u64) -> Vec<u32> {
        self.young.retain(|pid, young| now < young.until && self.recorded.contains_key(pid));
        let changed = self.young.iter_mut().filter_map(|(&pid, young)| {
            let sockets: Vec<u64> = sockets::held(&process::directory(pid)).collect();
            let before = std::mem::replace(&mut young.sockets, sockets);
            (before != young.sockets).then_some(pid)
        });
        changed.collect()
    }

    /// Ports of IOCs, and CA servers that are no IOCs.
    fn note_ports(
        &mut self,
        now: u64,
        found: Vec<servers::Server>,
        pids: &HashSet<u32>,
        names: &mut Names,
        sink: &mut dyn Sink,
        said: &mut Vec<String>,
    ) -> bool {
        let mut changed = false;
        for server in found {
            let Some(start) = process::start(server.pid).filter(|_| pids.contains(&server.pid)) else {
                continue;
            };
            let new = !self.recorded.contains_key(&server.pid);
            let recorded = self.recorded.entry(server.pid).or_insert_with(|| {
                let id = names.next_ioc();
                let said = describe(id, server.pid, start, self.no_command_lines);
                let namespace = Ok(process::namespace(server.pid).unwrap_or_default());
                let (image, probes) = (process::image(server.pid), Probes::none(server.pid));
                Recorded { id, start, image, said, traced: true, namespace, routines: 0, probes }
            });
            let (ca_ports, pva_ports) = match names.ioc(server.pid) {
                Some(traced) => ports::divide(&traced.process, &server),
                None => (server.ports, Vec::new()),
            };
            if recorded.said.ca_ports == ca_ports && recorded.said.pva_ports == pva_ports {
                continue;
            }
            recorded.said.ca_ports = ca_ports;
            recorded.said.pva_ports = pva_ports;
            changed = true;
            sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
            if new {
                said.push(adopted(&recorded.said));
            } else if let Some(traced) = names.ioc(server.pid) {
                self.read_clients(&traced.process);
            }
        }
        changed
    }

    /// Notes the clients that an IOC has already.
    fn read_clients(&mut self, ioc: &IocProcess) {
        let threads = process::threads(ioc.pid).into_iter().collect();
        self.with_ends(ioc, clients(ioc, &threads, None)).for_each(|(namespace, server, client)| {
            self.unseeded.push((namespace, server, client));
        });
    }

    /// Clients of an IOC with the server's end of their circuits, and the namespace that these are in.
    fn with_ends(
        &self,
        ioc: &IocProcess,
        clients: Vec<Client>,
    ) -> impl Iterator<Item = (Namespace, Address, Client)> + use<> {
        let recorded = self.recorded.get(&ioc.pid);
        let ports = recorded.map(|recorded| recorded.said.ca_ports.clone()).unwrap_or_default();
        let namespace = recorded.and_then(|recorded| recorded.namespace.clone().ok()).unwrap_or_default();
        let connections = sockets::connections(ioc.pid);
        let held: HashSet<u64> = sockets::held(&process::directory(ioc.pid)).collect();
        clients.into_iter().filter_map(move |client| {
            let server = sockets::local_end(&connections, client.address, &ports, &held)?;
            Some((namespace, server, client))
        })
    }

    /// Tells the decoder what was read from memory: names for channels opened before we came.
    pub fn seed(&mut self, decoder: &mut Decoder, now: u64, events: &mut Vec<Event>) {
        for (namespace, server, client) in std::mem::take(&mut self.unseeded) {
            let circuit = seed(decoder, namespace, now, server, &client, events);
            if let Some(tid) = client.tid {
                self.serving.insert(tid, circuit);
            }
        }
    }

    /// A thread had its first hit: whom does it serve?
    pub fn new_thread(&mut self, names: &Names, new: NewThread) {
        let NewThread { id: thread, pid, tid, time } = new;
        if let Some(circuit) = self.serving.remove(&tid) {
            self.ready.push(Event { time, fact: Fact::Serves(Serves { thread, circuit }) });
            return;
        }
        let Some(traced) = names.ioc(pid) else { return };
        // Base 3.14 does not name its threads
        let unnamed = traced.process.fixed.is_3_14();
        if !(unnamed || process::thread_name(pid, tid) == "CAS-client") {
            return;
        }
        let (clients, noted) =
            (clients(&traced.process, &HashSet::from([tid]), Some(tid)), clock::monotonic());
        for (namespace, server, client) in self.with_ends(&traced.process, clients) {
            self.untied.push(Untied { thread, time, noted, client, namespace, server });
        }
    }

    /// Ties threads to circuits as these get their numbers.
    pub fn tie(&mut self, decoder: &mut Decoder, events: &mut Vec<Event>, sink: &mut dyn Sink) {
        let now = clock::monotonic();
        self.untied.retain(|untied| {
            // a client may be gone by now
            let (client, namespace) = (untied.client.address, untied.namespace);
            let circuit = match decoder.circuit_then(namespace, client, untied.server, untied.time) {
                Some(circuit) => circuit,
                None if now < untied.noted.saturating_add(PACKETS_LAG) => return true,
                None => seed(decoder, untied.namespace, untied.time, untied.server, &untied.client, events),
            };
            let serves = Serves { thread: untied.thread, circuit };
            self.ready.push(Event { time: untied.time, fact: Fact::Serves(serves) });
            false
        });
        if !self.ready.is_empty() {
            // the circuits that they name go first
            events.drain(..).for_each(|event| sink.push(event));
            self.ready.drain(..).for_each(|event| sink.push(event));
        }
    }
}

/// Why an IOC is no more what it was, though its process lives.
fn over(pid: u32, recorded: &Recorded, names: &Names) -> Option<&'static str> {
    // neither can be told of a process that is just ending
    let image = process::image(pid);
    if image.is_some() && recorded.image.is_some() && image != recorded.image {
        return Some("its process runs another program, or the same anew");
    }
    let gone = names.ioc(pid)?.process.database() == Database::Gone;
    gone.then_some("its record database was taken away, or replaced by another")
}

/// Begin of the line about a process in a network namespace that cannot be captured.
const NOT_CAPTURED: &str = "its network namespace cannot be captured: ";

/// The line.
pub fn not_captured(reason: &str) -> String {
    format!("{NOT_CAPTURED}{reason}; puts by its clients are recorded inside the IOC at most")
}

fn seed(
    decoder: &mut Decoder,
    namespace: Namespace,
    now: u64,
    server: Address,
    client: &Client,
    events: &mut Vec<Event>,
) -> CircuitId {
    let channel = |channel: &crate::ioc::clients::ClientChannel| SeedChannel {
        cid: Some(channel.cid),
        sid: channel.sid,
        pv: channel.pv.clone(),
        dbr: None,
        count: None,
    };
    let channels: Vec<SeedChannel> = client.channels.iter().map(channel).collect();
    decoder.seed(namespace, now, client.address, server, &client.user, &client.host, 0, &channels, events)
}

/// What /proc tells of a process.
fn describe(id: IocId, pid: u32, start: u64, no_command_line: bool) -> Ioc {
    let command = process::command(pid);
    let exe = process::link(pid, "exe");
    Ioc {
        id,
        pid,
        start,
        name: script::name_of_server(&command, &exe),
        cwd: process::link(pid, "cwd"),
        exe,
        command: if no_command_line { Vec::new() } else { redact::command(&command) },
        base_version: String::new(),
        ca_ports: Vec::new(),
        linkage: Linkage::Foreign,
        not_probed: Vec::new(),
        user: user::user(pid),
        pva_ports: Vec::new(),
        environment: Vec::new(),
    }
}

/// What an IOC says of itself.
fn identify(ioc: &IocProcess, said: &mut Ioc) {
    // read while it ended it has none
    if !ioc.name.is_empty() {
        said.name.clone_from(&ioc.name);
    }
    said.base_version.clone_from(&ioc.base_version);
    said.environment.clone_from(&ioc.environment);
}

/// Begins to record an IOC's hits, if its layout is known; else says why not.
fn begin(ioc: &IocProcess, kernel: &mut Kernel, said: &mut Ioc) -> bool {
    const NO_LAYOUT: &str = "no values or records: ";
    said.not_probed.retain(|line| !line.starts_with(NO_LAYOUT));
    if ioc.unprobed().is_some() {
        return false;
    }
    let done = match &ioc.layout {
        Ok(layout) => kernel.tables.trace(ioc.pid, &layout.told(ioc.pid, ioc.fixed)),
        Err(reason) => Err(reason.clone()),
    };
    if let Err(reason) = &done {
        said.not_probed.push(format!("{NO_LAYOUT}{reason}"));
    }
    done.is_ok()
}

/// Places an IOC's probes anew if the thread has ended that they hung on. What it did meanwhile is missing.
fn hold_on(
    now: u64,
    recorded: &mut Recorded,
    attacher: &Attacher,
    sink: &mut dyn Sink,
    lines: &mut Vec<String>,
) {
    const NO_MORE: &str = "its probes hung on a thread that has ended, and could not be placed anew: ";
    let cause = match recorded.probes.hold_on(attacher) {
        Hold::Holds => return,
        Hold::HeldAnew => "the thread that the probes hung on had ended".to_string(),
        Hold::Lost(reason) => {
            let line = format!("{NO_MORE}{reason}");
            if recorded.said.not_probed.contains(&line) {
                return;
            }
            recorded.said.not_probed.push(line.clone());
            line
        }
    };
    let cause = format!("{} (pid {}): {cause}", recorded.said.name, recorded.said.pid);
    lines.push(format!("hits are missing: {cause}"));
    // how many nobody has counted; at the last look they were in place
    let loss = Loss { source: LossSource::Hits, count: 0, since: now.saturating_sub(SCAN), cause };
    sink.push(Event { time: now, fact: Fact::Loss(loss) });
}

/// Probes process routines where there is no `dbProcess`, as soon as record types have them, which is in iocInit.
fn probe_routines(ioc: &IocProcess, attacher: &Attacher, recorded: &mut Recorded) {
    let layout = ioc.layout.as_ref().ok().filter(|_| recorded.traced && ioc.function("dbProcess").is_none());
    let count = layout.map_or(0, |layout| layout.routines(&ioc.memory).count());
    if count != recorded.routines {
        recorded.routines = count;
        let lines = probe::attach_routines(attacher, ioc, &mut recorded.probes);
        recorded.said.not_probed.retain(|line| !lines.contains(line));
        recorded.said.not_probed.extend(lines);
    }
}

/// A line about a process that is recorded from now on.
fn adopted(ioc: &Ioc) -> String {
    let what = match (ioc.linkage, ioc.base_version.as_str()) {
        (Linkage::Foreign, _) => "a CA server that is not EPICS Base".to_string(),
        (_, "") => "EPICS Base".to_string(),
        (_, version) => format!("EPICS Base {version}"),
    };
    format!("recording {} (pid {}, {what})", ioc.name, ioc.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    const SECOND: u64 = 1_000_000_000;

    /// A process that is no IOC is not looked at while it stays as it is, and at once when it has become another
    /// program, which is when it may be one.
    #[test]
    fn a_process_that_changes_is_looked_at_again() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo sh; read line; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut watched = Watched::default();
        assert!(watched.is_due(child.id(), 0), "a new one");
        assert!((1..1000).all(|second| !watched.is_due(child.id(), second * SECOND)));
        let stdin = child.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
        // cat is there when it has said something
        stdin.write_all(b"cat\n").unwrap();
        stdout.read_line(&mut line).unwrap();
        assert!(watched.is_due(child.id(), 1000 * SECOND));
        assert!(!watched.is_due(child.id(), 1000 * SECOND + 1));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
