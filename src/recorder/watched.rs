//! The processes that are recorded: found, adopted, tied to their clients, and let go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iocrec_log::event::{
    Address, Attached, CircuitId, Detached, Event, Fact, Ioc, IocEnd, IocId, Linkage, ServerThread, ThreadId,
};

use crate::ca::{self, Decoder, SeedChannel};
use crate::inspector::{
    CaServer, Discovery, Finding, Inspector, ProcessInfo, Report, Request, Scope, ServedClient, Started,
    DATABASE_GONE,
};
use crate::ioc::clients::Client;
use crate::ioc::{ports, redact, script, IocProcess};
use crate::linux::ending::{self, Ending};
use crate::linux::reader::budget::Refused;
use crate::linux::{clock, process, reader, user};
use crate::net::captures::{Captures, Wanted as WantedThere};
use crate::net::service::Ports;
use crate::net::Namespace;
use crate::probes::kernel::Kernel;
use crate::probes::probe::Hold;
use crate::recorder::ends::Places;
use crate::recorder::names::{Names, NewThread};
use crate::recorder::sink::Sink;
use crate::recorder::Options;

/// A circuit's packets come at most so long after the hits that they cause: the packet ring hands over a
/// block after some 10 ms. Later than this there are none, and memory is all we have.
const PACKETS_LAG: u64 = 300_000_000;

/// CA servers' ports are looked for so often, nanoseconds: it means reading all processes' descriptors.
const PORTS: u64 = 5_000_000_000;
/// The same while one may be an IOC.
const SOON: u64 = 100_000_000;
/// So long the start waits for that.
const SUSPECTED: Duration = Duration::from_secs(1);
/// An IOC opens its ports some time after it has been found; meanwhile they are looked for at every scan.
const YOUNG: u64 = 30_000_000_000;
/// Reports that are worked on before hits are taken again: 4,000 records, some milliseconds.
const REPORTS: usize = 4;

/// What was said of a recorded process.
struct Recorded {
    id: IocId,
    start: u64,
    /// What program it runs.
    image: Option<(u64, u64)>,
    /// As the log has it.
    said: Ioc,
    /// The BPF programs were told of it.
    traced: bool,
    /// The network namespace that it lives in, or why that can't be told.
    namespace: Result<Namespace, String>,
    /// Its records are known, as far as they can be read.
    ready: bool,
    /// Its probes, how many.
    placed: usize,
    /// Its hits are taken.
    attached: bool,
    ending: Ending,
    /// Its end was noticed.
    noticed: bool,
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
pub struct Watched {
    inspector: Inspector,
    discovery: Discovery,
    /// Command lines do not go into the log.
    no_command_lines: bool,
    /// Monotonic time at which this began: what began before was not missed by us.
    since: u64,
    ports_next: u64,
    /// Which servers there are was asked, and not yet answered.
    ports_asked: bool,
    /// IOCs that have not been here for long, and until when they count as such.
    young: HashMap<u32, u64>,
    recorded: HashMap<u32, Recorded>,
    /// Processes that serve and may be IOCs, until they have been looked at again; since when.
    suspects: HashMap<u32, Instant>,
    /// Processes that do not answer: why, and since when.
    unanswered: HashMap<u32, (Refused, u64)>,
    /// IOCs that have not answered the loop, which was said.
    stalled: HashSet<u32>,
    /// Clients read from memory that have no circuit yet, by server.
    unseeded: Vec<(Namespace, Address, Client)>,
    serving: HashMap<u32, CircuitId>,
    untied: Vec<Untied>,
    ready: Vec<Event>,
}

/// What reports are worked on with.
pub struct Desk<'a> {
    /// What to record.
    pub options: &'a Options,
    /// The numbers.
    pub names: &'a mut Names,
    /// The programs.
    pub kernel: Option<&'a mut Kernel>,
    /// Where events go.
    pub sink: &'a mut dyn Sink,
    /// Lines for people.
    pub said: &'a mut Vec<String>,
}

impl Watched {
    /// Begins to look at processes.
    pub fn new(kernel: Option<&Kernel>, options: &Options) -> Watched {
        let scope = Scope { puts: options.puts, process: options.process, users: options.users.clone() };
        let attacher = kernel.map(Kernel::attacher);
        Watched {
            inspector: Inspector::start(attacher.as_ref(), &scope),
            discovery: Discovery::default(),
            no_command_lines: options.no_command_lines,
            since: clock::monotonic(),
            ports_next: 0,
            ports_asked: false,
            young: HashMap::new(),
            recorded: HashMap::new(),
            suspects: HashMap::new(),
            unanswered: HashMap::new(),
            stalled: HashSet::new(),
            unseeded: Vec::new(),
            serving: HashMap::new(),
            untied: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Is a process recorded?
    pub fn has(&self, pid: u32) -> bool {
        self.recorded.contains_key(&pid)
    }

    /// Is it known why a process is not recorded: is it gone, or does it not answer?
    pub fn is_known(&self, pid: u32) -> bool {
        self.unanswered.contains_key(&pid) || process::start(pid).is_none()
    }

    /// Is none?
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Why a process that was asked for is not recorded.
    pub fn why_not(&self, pid: u32, users: &user::Users) -> String {
        const SEE: &str = "iocrec check lists the IOCs there are";
        if let Some((refused, _)) = self.unanswered.get(&pid) {
            return format!("process {pid} does not answer: {refused}; it is tried again");
        }
        if process::start(pid).is_none() {
            return format!("there is no process {pid}; {SEE}");
        }
        if !users.have(pid) {
            return format!("process {pid} is of the user {}, whom --user leaves out", user::user(pid));
        }
        let command = redact::command(&process::command(pid)).join(" ");
        format!("process {pid} ({command}) is no IOC and no CA server; iocrec check lists those there are")
    }

    /// Where the recorded processes live, and on which TCP ports they serve Channel Access; `more` are those that the
    /// user named.
    pub fn places(&mut self, more: &[u16]) -> Places {
        let own = std::process::id();
        let mut wanted: BTreeMap<Namespace, WantedThere> = BTreeMap::new();
        if let Ok(here) = process::namespace(own) {
            wanted.insert(here, WantedThere { pid: own, ports: Ports::of(&ca::SERVICE, more) });
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
            let place = wanted
                .entry(namespace)
                .or_insert_with(|| WantedThere { pid, ports: Ports::of(&ca::SERVICE, more) });
            place.ports.add(&ca::SERVICE, &process.said.ca_ports);
            // of several always the same
            place.pid = if place.pid == own { own } else { place.pid.min(pid) };
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

    /// What is readable when a recorded process has ended.
    pub fn endings(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waited = self.recorded.values().filter(|recorded| !recorded.noticed);
        waited.filter_map(|recorded| recorded.ending.descriptor())
    }

    /// Has every process that was there at first been looked at?
    pub fn is_through(&self) -> bool {
        // a server that might be an IOC is waited for, but not one that does not answer
        let waits = self.suspects.values().any(|since| since.elapsed() < SUSPECTED);
        self.inspector.has_finished_start() && !self.ports_asked && self.ports_next != 0 && !waits
    }

    /// Has all been answered that was asked of processes that are recorded?
    pub fn are_answered(&self) -> bool {
        self.inspector.is_idle()
    }

    /// From now on nobody waits for processes to be looked at.
    pub fn has_begun(&self) {
        self.inspector.end_start();
    }

    /// Notices processes that have just begun. To be called some times a second.
    pub fn arrivals(&mut self, options: &Options) {
        if let Started::Ids(ids) = self.discovery.poll() {
            if options.pids.is_empty() {
                let own = std::process::id();
                ids.filter(|&pid| pid != own).for_each(|pid| self.inspector.add(pid, true));
            }
        }
    }

    /// Looks for processes that came and went. True if something did.
    pub fn scan(&mut self, now: u64, desk: &mut Desk<'_>) -> bool {
        let pids: HashSet<u32> = if desk.options.pids.is_empty() {
            let pids = process::pids().unwrap_or_else(|error| {
                desk.said.push(format!("{error}; processes cannot be seen"));
                Vec::new()
            });
            pids.into_iter().collect()
        } else {
            desk.options.pids.iter().copied().collect()
        };
        let changed = self.let_go(now, desk);
        self.unanswered.retain(|pid, _| pids.contains(pid));
        self.suspects.retain(|pid, _| pids.contains(pid) && !self.recorded.contains_key(pid));
        self.inspector.retain(&pids);
        desk.sink.inspecting(self.unanswered.values().map(|(_, since)| *since).min());
        pids.iter().filter(|&&pid| pid != std::process::id()).for_each(|&pid| {
            self.inspector.add(pid, false);
        });
        self.young.retain(|pid, until| now < *until && self.recorded.contains_key(pid));
        self.ask_for_ports(now, desk);
        self.hear_silent(now, desk);
        changed
    }

    /// Asks those again that have not answered the loop, and says who it is.
    fn hear_silent(&mut self, now: u64, desk: &mut Desk<'_>) {
        for (pid, since) in reader::unresponsive() {
            if !self.recorded.contains_key(&pid) {
                reader::mark_responsive(pid);
            } else if self.stalled.insert(pid) {
                self.unanswered(now, pid, Refused::NoAnswer, desk);
            } else if self.inspector.has_inspected(pid, since) && !self.unanswered.contains_key(&pid) {
                reader::mark_responsive(pid);
                self.stalled.remove(&pid);
            }
        }
    }

    /// Asks which processes serve, if it is time to.
    fn ask_for_ports(&mut self, now: u64, desk: &Desk<'_>) {
        if self.ports_asked {
            return;
        }
        let request = if now >= self.ports_next {
            self.ports_next = now + PORTS;
            let iocs = self.recorded.keys().copied().filter(|pid| desk.names.ioc(*pid).is_some());
            Some(Request::Servers { iocs: iocs.collect() })
        } else {
            let young: Vec<u32> = self.young.keys().copied().collect();
            (!young.is_empty()).then_some(Request::ServersAmong { iocs: young })
        };
        self.ports_asked = request.is_some_and(|request| self.inspector.request(request));
    }

    /// Works on some of what has been found out since the last time. Is there more, and has something changed?
    pub fn reports(&mut self, desk: &mut Desk<'_>) -> (bool, bool) {
        for request in std::mem::take(&mut desk.names.wanted) {
            let site = if let Request::CallSite { id, .. } = &request { Some(*id) } else { None };
            if let (false, Some(id)) = (self.inspector.request(request), site) {
                desk.sink.site(id, String::new(), String::new());
            }
        }
        let (mut more, mut changed) = (true, false);
        for pid in std::mem::take(&mut desk.names.gone) {
            let Some(recorded) = self.recorded.get(&pid) else { continue };
            let why = over(pid, recorded).unwrap_or(DATABASE_GONE);
            self.end(clock::monotonic(), pid, Some(why), desk);
            changed = true;
        }
        for _ in 0..REPORTS {
            let Some(report) = self.inspector.next_report() else {
                more = false;
                break;
            };
            changed |= self.report(clock::monotonic(), report, desk);
        }
        if self.ports_next <= clock::monotonic() {
            self.ask_for_ports(clock::monotonic(), desk);
        }
        (more, changed)
    }

    /// Processes that ended.
    pub fn let_go(&mut self, now: u64, desk: &mut Desk<'_>) -> bool {
        let gone: Vec<(u32, Option<&str>)> = self
            .recorded
            .iter_mut()
            .filter_map(|(&pid, recorded)| {
                if process::start(pid) != Some(recorded.start) || ending::is_zombie(pid) {
                    recorded.noticed = true;
                    return Some((pid, None));
                }
                Some((pid, Some(over(pid, recorded)?)))
            })
            .collect();
        for (pid, why) in &gone {
            self.end(now, *pid, *why, desk);
        }
        !gone.is_empty()
    }

    /// A recorded process is none any more.
    fn end(&mut self, now: u64, pid: u32, why: Option<&str>, desk: &mut Desk<'_>) {
        let Some(recorded) = self.recorded.remove(&pid) else { return };
        self.inspector.forget(pid);
        self.unanswered.remove(&pid);
        self.stalled.remove(&pid);
        reader::mark_responsive(pid);
        if why.is_some() {
            // it lives on as something else
            self.inspector.add(pid, false);
        }
        let left_out = desk.kernel.as_deref_mut().map(|kernel| kernel.maps.forget(pid)).unwrap_or_default();
        desk.names.thinned(now, &left_out, desk.sink);
        let how = why.map_or_else(|| recorded.ending.how(), str::to_string);
        desk.said.push(format!("{} (pid {pid}) has ended: {how}", recorded.said.name));
        desk.sink.push(Event { time: now, fact: Fact::IocEnd(IocEnd { ioc: recorded.id, how }) });
        desk.names.remove(pid);
    }

    /// Works on a report.
    fn report(&mut self, now: u64, report: Report, desk: &mut Desk<'_>) -> bool {
        let Report { pid, start, finding } = report;
        match finding {
            Finding::Ioc { ioc, process, placed, not_probed } => {
                let not_probed = not_probed.iter().map(ToString::to_string).collect();
                self.adopt(now, ioc, &process, placed, not_probed, desk);
                return true;
            }
            Finding::Servers(found) => {
                self.ports_asked = false;
                return self.note_ports(now, found, desk);
            }
            Finding::CallSite { id, function, file } => desk.sink.site(id, function, file),
            Finding::Unanswered(refused) => {
                self.unanswered.insert(pid, (refused, now));
                self.unanswered(now, pid, refused, desk);
            }
            _ => return self.report_of(now, pid, start, finding, desk),
        }
        false
    }

    /// Works on a report about a process that is recorded, if it is that one still.
    fn report_of(&mut self, now: u64, pid: u32, start: u64, finding: Finding, desk: &mut Desk<'_>) -> bool {
        if matches!(finding, Finding::AnswersAgain) {
            self.unanswered.remove(&pid);
            reader::mark_responsive(pid);
        }
        let Some(recorded) = self.recorded.get_mut(&pid).filter(|recorded| recorded.start == start) else {
            return false;
        };
        let before = recorded.said.clone();
        let mut changed = false;
        match finding {
            Finding::Changed(ioc) => {
                identify(&ioc, &mut recorded.said);
                if let (Some(kernel), true) = (desk.kernel.as_deref_mut(), recorded.traced) {
                    let extended = kernel.extend(&ioc);
                    recorded.said.not_probed.extend(extended.err().map(|error| error.to_string()));
                }
                if let Some(traced) = desk.names.ioc_mut(pid) {
                    traced.process = ioc;
                }
            }
            Finding::Records(found) => {
                desk.names.define(now, pid, found, &desk.options.selection, desk.sink);
                desk.sink.tick(now);
            }
            Finding::AllRecords { claimed, found, outcome } => {
                const NAMED: &str = "records are named when they are first seen: ";
                recorded.said.not_probed.retain(|line| !line.starts_with(NAMED));
                if let Err(reason) = outcome {
                    desk.names.not_all(now, claimed, found, reason.to_string(), desk.sink);
                    recorded.said.not_probed.push(format!("{NAMED}{reason}"));
                }
                changed = true;
            }
            Finding::Ready => {
                recorded.ready = true;
                changed = true;
            }
            Finding::ProcessRoutines { placed, not_probed } => {
                recorded.placed = placed;
                let not_probed: Vec<String> = not_probed.iter().map(ToString::to_string).collect();
                recorded.said.not_probed.retain(|line| !not_probed.contains(line));
                recorded.said.not_probed.extend(not_probed);
            }
            Finding::ProbesGone { hold, until } => held(now, recorded, hold, until, desk),
            Finding::DatabaseGone => {
                // another program has another database, too
                let why = over(pid, recorded).unwrap_or(DATABASE_GONE);
                self.end(now, pid, Some(why), desk);
                return true;
            }
            Finding::AnswersAgain => {
                let line = format!("{} (pid {pid}) answers again", recorded.said.name);
                recorded.said.not_probed.retain(|line| !line.starts_with(UNANSWERED));
                desk.said.push(line);
            }
            Finding::Clients(clients) => {
                let namespace = recorded.namespace.clone().unwrap_or_default();
                self.unseeded.extend(
                    clients.into_iter().map(|ServedClient { server, client }| (namespace, server, client)),
                );
                changed = true;
            }
            Finding::ThreadClients { thread, time, clients } => {
                let (namespace, noted) = (recorded.namespace.clone().unwrap_or_default(), clock::monotonic());
                let untied = clients.into_iter();
                let untied = untied.map(|ServedClient { server, client }| Untied {
                    thread,
                    time,
                    noted,
                    client,
                    namespace,
                    server,
                });
                self.untied.extend(untied);
            }
            Finding::Ioc { .. } | Finding::Servers(_) | Finding::CallSite { .. } | Finding::Unanswered(_) => {
            }
        }
        if let Some(recorded) = self.recorded.get_mut(&pid) {
            changed |= begin(self.since, recorded, desk);
            if recorded.said != before {
                desk.sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
            }
        }
        changed
    }

    /// A process does not answer.
    fn unanswered(&mut self, now: u64, pid: u32, refused: Refused, desk: &mut Desk<'_>) {
        let Some(recorded) = self.recorded.get_mut(&pid) else {
            desk.said.push(format!("process {pid} is not looked at: {refused}; it is tried again"));
            return;
        };
        desk.said.push(format!(
            "{} (pid {pid}): names and changes may be missing: {refused}; it is tried again",
            recorded.said.name
        ));
        let line = format!("{UNANSWERED}{refused}");
        if !recorded.said.not_probed.contains(&line) {
            recorded.said.not_probed.push(line);
            desk.sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
        }
    }

    /// Takes an IOC in.
    fn adopt(
        &mut self,
        now: u64,
        ioc: Arc<IocProcess>,
        about: &ProcessInfo,
        placed: usize,
        not_probed: Vec<String>,
        desk: &mut Desk<'_>,
    ) {
        let (pid, start) = (ioc.pid, ioc.start);
        if process::start(pid) != Some(start) {
            // it has ended meanwhile
            return;
        }
        // one that was taken for a server that is no IOC
        if let Some(server) = self.recorded.remove(&pid) {
            let how = "it has become an IOC".to_string();
            desk.sink.push(Event { time: now, fact: Fact::IocEnd(IocEnd { ioc: server.id, how }) });
        }
        self.suspects.remove(&pid);
        let id = desk.names.next_ioc();
        let mut said = describe(id, pid, start, about, self.no_command_lines);
        self.young.insert(pid, now.saturating_add(YOUNG));
        self.ports_next = 0;
        identify(&ioc, &mut said);
        said.linkage = ioc.linkage;
        said.not_probed = not_probed;
        // of one without symbols process routines are probed as they come to be
        if let (0, false, Some(reason)) = (placed, ioc.is_stripped(), said.not_probed.first()) {
            desk.said.push(format!("{} (pid {pid}) is not probed: {reason}", said.name));
        }
        desk.sink.push(Event { time: now, fact: Fact::from(said.clone()) });
        let mut recorded = Recorded::new(id, start, said);
        recorded.placed = placed;
        self.recorded.insert(pid, recorded);
        desk.names.add(id, ioc);
    }

    /// Ports of IOCs, and CA servers that are no IOCs.
    fn note_ports(&mut self, now: u64, found: Vec<CaServer>, desk: &mut Desk<'_>) -> bool {
        let mut changed = false;
        for CaServer { server, start, process: about } in found {
            let options = desk.options;
            let wanted = self.recorded.contains_key(&server.pid)
                || (options.pids.is_empty() || options.pids.contains(&server.pid))
                    && options.users.have(server.pid);
            if !wanted || process::start(server.pid) != Some(start) {
                continue;
            }
            let new = !self.recorded.contains_key(&server.pid);
            if new {
                // what maps Base does so before it serves: a look after that tells
                let since = *self.suspects.entry(server.pid).or_insert_with(Instant::now);
                if about.is_none() || !self.inspector.has_inspected(server.pid, since) {
                    self.ports_next = self.ports_next.min(now + SOON);
                    continue;
                }
                self.suspects.remove(&server.pid);
            }
            let recorded = self.recorded.entry(server.pid).or_insert_with(|| {
                let id = desk.names.next_ioc();
                let about = about.unwrap_or_else(|| ProcessInfo::of(server.pid));
                let said = describe(id, server.pid, start, &about, self.no_command_lines);
                Recorded::new(id, start, said)
            });
            let (ca_ports, pva_ports) = match desk.names.ioc(server.pid) {
                Some(traced) => ports::divide(&traced.process, &server),
                None => (server.ports, Vec::new()),
            };
            if recorded.said.ca_ports == ca_ports && recorded.said.pva_ports == pva_ports {
                continue;
            }
            recorded.said.ca_ports = ca_ports;
            recorded.said.pva_ports = pva_ports;
            changed = true;
            desk.sink.push(Event { time: now, fact: Fact::from(recorded.said.clone()) });
            if new {
                desk.said.push(adopted(&recorded.said));
            } else if let Some(traced) = desk.names.ioc(server.pid) {
                let ports = recorded.said.ca_ports.clone();
                self.inspector.request(Request::Clients { ioc: traced.process.clone(), ports });
            }
        }
        changed
    }

    /// Tells the decoder what was read from memory: names for channels opened before we came.
    pub fn seed(&mut self, decoder: &mut Decoder, now: u64, names: &Names, events: &mut Vec<Event>) {
        for (namespace, server, client) in std::mem::take(&mut self.unseeded) {
            let circuit = seed(decoder, namespace, now, server, &client, events);
            match client.tid.map(|tid| (tid, names.known_thread(tid))) {
                Some((_, Some(thread))) => {
                    self.ready.push(Event {
                        time: now,
                        fact: Fact::ServerThread(ServerThread { thread, circuit }),
                    });
                }
                Some((tid, None)) => _ = self.serving.insert(tid, circuit),
                None => {}
            }
        }
    }

    /// A thread had its first hit: whom does it serve?
    pub fn new_thread(&mut self, names: &Names, new: NewThread) {
        let NewThread { id: thread, pid, tid, time } = new;
        if let Some(circuit) = self.serving.remove(&tid) {
            self.ready.push(Event { time, fact: Fact::ServerThread(ServerThread { thread, circuit }) });
            return;
        }
        let Some(traced) = names.ioc(pid) else { return };
        // Base 3.14 does not name its threads
        let unnamed = traced.process.abi.is_3_14();
        if !(unnamed || process::thread_name(pid, tid) == "CAS-client") {
            return;
        }
        let recorded = self.recorded.get(&pid);
        let ports = recorded.map(|recorded| recorded.said.ca_ports.clone()).unwrap_or_default();
        self.inspector.request(Request::ThreadClients {
            ioc: traced.process.clone(),
            thread,
            tid,
            time,
            ports,
        });
    }

    /// Ties threads to circuits as these get their numbers.
    pub fn tie(&mut self, decoder: &mut Decoder, events: &mut Vec<Event>, sink: &mut dyn Sink) {
        let now = clock::monotonic();
        self.untied.retain(|untied| {
            // a client may be gone by now
            let (client, namespace) = (untied.client.address, untied.namespace);
            let open = decoder.circuit(namespace, client, untied.server).is_some();
            let circuit = match decoder.circuit_then(namespace, client, untied.server, untied.time) {
                // who opened it before its packets were captured is told by the server's memory alone
                Some(_) if open => {
                    seed(decoder, namespace, untied.time, untied.server, &untied.client, events)
                }
                Some(circuit) => circuit,
                None if now < untied.noted.saturating_add(PACKETS_LAG) => return true,
                None => seed(decoder, untied.namespace, untied.time, untied.server, &untied.client, events),
            };
            let serves = ServerThread { thread: untied.thread, circuit };
            self.ready.push(Event { time: untied.time, fact: Fact::ServerThread(serves) });
            false
        });
        if !self.ready.is_empty() {
            // the circuits that they name go first
            events.drain(..).for_each(|event| sink.push(event));
            self.ready.drain(..).for_each(|event| sink.push(event));
        }
    }
}

/// What the log says of an IOC that does not answer begins with.
const UNANSWERED: &str = "names and changes may be missing: ";

impl Recorded {
    fn new(id: IocId, start: u64, said: Ioc) -> Recorded {
        let pid = said.pid;
        Recorded {
            id,
            start,
            image: process::image(pid),
            said,
            traced: false,
            namespace: Ok(process::namespace(pid).unwrap_or_default()),
            ready: false,
            placed: 0,
            attached: false,
            ending: Ending::expect(pid),
            noticed: false,
        }
    }
}

/// Why an IOC is no more what it was, though its process lives.
fn over(pid: u32, recorded: &Recorded) -> Option<&'static str> {
    // neither can be told of a process that is just ending
    let image = process::image(pid);
    let other = image.is_some() && recorded.image.is_some() && image != recorded.image;
    other.then_some("its process runs another program, or the same anew")
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
fn describe(id: IocId, pid: u32, start: u64, about: &ProcessInfo, no_command_line: bool) -> Ioc {
    let ProcessInfo { command, exe, cwd, user } = about.clone();
    Ioc {
        id,
        pid,
        start,
        name: script::name_of_server(&command, &exe),
        cwd,
        exe,
        command: if no_command_line { Vec::new() } else { redact::command(&command) },
        base_version: String::new(),
        ca_ports: Vec::new(),
        linkage: Linkage::Foreign,
        not_probed: Vec::new(),
        user,
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

/// Begins to record an IOC's hits, if its layout is known and its records are; else says why not. True if something
/// changed.
fn begin(since: u64, recorded: &mut Recorded, desk: &mut Desk<'_>) -> bool {
    const NO_LAYOUT: &str = "no values or records: ";
    let pid = recorded.said.pid;
    let (Some(kernel), Some(traced)) = (desk.kernel.as_deref_mut(), desk.names.ioc(pid)) else {
        return false;
    };
    let ioc = &traced.process;
    if ioc.unprobed().is_some() {
        return false;
    }
    let mut changed = false;
    if !recorded.traced && (recorded.ready || ioc.layout.is_err()) {
        recorded.said.not_probed.retain(|line| !line.starts_with(NO_LAYOUT));
        let done = match &ioc.layout {
            Ok(_) => kernel.trace(ioc).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.to_string()),
        };
        match done {
            Ok(()) => {
                recorded.traced = true;
                changed = true;
                desk.said.push(adopted(&recorded.said));
            }
            Err(reason) => recorded.said.not_probed.push(format!("{NO_LAYOUT}{reason}")),
        }
    }
    if recorded.traced && recorded.placed > 0 && !recorded.attached {
        recorded.attached = true;
        let from = clock::monotonic_of_boot(recorded.start);
        let cause =
            if from < since { "" } else { "its process had to be found first, and its probes placed" };
        let now = clock::monotonic();
        let attached = Attached { ioc: recorded.id, from: from.min(now), since: now, cause: cause.into() };
        desk.sink.push(Event { time: now, fact: Fact::Attached(attached) });
    }
    changed
}

/// An IOC's probes had gone: what it did meanwhile is missing. They were there at `until`.
fn held(now: u64, recorded: &mut Recorded, hold: Hold, until: u64, desk: &mut Desk<'_>) {
    const NO_MORE: &str = "its probes hung on a thread that has ended, and could not be placed anew: ";
    let (cause, anew) = match hold {
        Hold::Holds => return,
        Hold::HeldAnew => ("the thread that the probes hung on had ended".to_string(), true),
        // that is its end
        Hold::Lost(_) if process::start(recorded.said.pid) != Some(recorded.start) => return,
        Hold::Lost(reason) => (format!("{NO_MORE}{reason}"), false),
    };
    if !recorded.attached {
        return;
    }
    let name = format!("{} (pid {})", recorded.said.name, recorded.said.pid);
    desk.said.push(format!("hits are missing: {name}: {cause}"));
    let since = if until == 0 { now } else { until };
    let detached = Detached { ioc: recorded.id, since, cause: cause.clone() };
    desk.sink.push(Event { time: now, fact: Fact::Detached(detached) });
    if anew {
        let now = clock::monotonic();
        let attached = Attached { ioc: recorded.id, from: since, since: now, cause };
        desk.sink.push(Event { time: now, fact: Fact::Attached(attached) });
    } else {
        recorded.attached = false;
        recorded.placed = 0;
        recorded.said.not_probed.push(cause);
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
