//! Threads that look at processes: find IOCs, place their probes, follow what becomes of them.
//!
//! The recorder's loop says which processes there are ([`Lookers::arrived`], [`Lookers::retain`]) and gets reports. It
//! waits for none of this. What a look needs is kept in the queue between looks; the loop has a copy of what it needs
//! for names.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iocrec_log::event::{Address, CallSiteId, ThreadId};

use crate::ca::servers;
use crate::inspector::queue::{Entry, Outcome, Queue, User};
use crate::ioc::clients::{clients, Client};
use crate::ioc::records::{self, RecordAt};
use crate::ioc::{Database, Finder, IocProcess};
use crate::linux::elf::function_at;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::{client, use_reader_process, Inspection};
use crate::linux::{clock, process, sockets, user};
use crate::probes::attacher::Attacher;
use crate::probes::not_probed::NotProbed;
use crate::probes::probe::{self, Hold, Probes};

/// Threads that look. While one waits for a process, the other goes on.
const LOOKERS: usize = 2;
/// Reports that wait for the loop; a looker waits when there are more.
const REPORTS: usize = 16;
/// Records in a report: 100 KiB.
const RECORDS: usize = 1024;
/// Errands that wait; beyond that they are dropped, and names stay unknown.
const ERRANDS: usize = 1024;

/// What a look at a process may cost. Programs have some MB of symbols, the largest static IOCs 50.
const LOOK_BYTES: u64 = 96 << 20;
const LOOK_TIME: Duration = Duration::from_secs(5);
/// The same for its probes, which read a few bytes each.
const ATTACH_TIME: Duration = Duration::from_secs(30);
/// What following an IOC may cost at a time: 100,000 records have 60 MB of names and texts.
const FOLLOW_BYTES: u64 = 512 << 20;
const FOLLOW_TIME: Duration = Duration::from_secs(20);
/// What an errand may cost.
const ERRAND_BYTES: u64 = 96 << 20;
const ERRAND_TIME: Duration = Duration::from_secs(1);

/// Why an IOC is no more what it was, though its program is.
pub const GONE: &str = "its record database was taken away, or replaced by another";

/// What is recorded of an IOC.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose processes.
    pub users: user::Users,
    /// Puts.
    pub puts: bool,
    /// Processing.
    pub process: bool,
}

/// A record that was found, or another name of one.
#[derive(Clone, Debug)]
pub struct Found {
    /// Address of its dbCommon.
    pub address: u64,
    /// Name.
    pub name: String,
    /// Its type.
    pub rtype: String,
    /// The name is an alias.
    pub alias: bool,
    /// The texts of its states.
    pub states: Vec<String>,
    /// Address of its dbRecordNode.
    pub node: u64,
}

/// What /proc tells of a process, for people.
#[derive(Clone, Debug)]
pub struct About {
    /// Its command line.
    pub command: Vec<String>,
    /// Its program.
    pub exe: String,
    /// Its directory.
    pub cwd: String,
    /// Whom it runs as.
    pub user: String,
}

impl About {
    /// Reads it.
    pub fn of(pid: u32) -> About {
        About {
            command: process::command(pid),
            exe: process::link(pid, "exe"),
            cwd: process::link(pid, "cwd"),
            user: user::user(pid),
        }
    }
}

/// What was found out of one process.
#[derive(Debug)]
pub struct Report {
    /// Which.
    pub pid: u32,
    /// When it began, as [`process::start`] tells it: numbers are used again.
    pub start: u64,
    /// What.
    pub news: News,
}

/// What was found out.
#[derive(Debug)]
pub enum News {
    /// It is an IOC; its probes are in place, as many as `placed`.
    Ioc {
        /// It.
        ioc: Arc<IocProcess>,
        /// What /proc tells.
        about: About,
        /// Probes.
        placed: usize,
        /// What is not probed and why.
        not_probed: Vec<NotProbed>,
    },
    /// What it is has changed: its layout, its name.
    Changed(Arc<IocProcess>),
    /// Some of its records.
    Records(Vec<Found>),
    /// All its records have been handed over, so many of as many as its lists claim to hold; or why not all.
    Walked {
        /// What the lists claim.
        claimed: u64,
        /// How many there were.
        found: u64,
        /// What did not make sense.
        outcome: Result<(), String>,
    },
    /// All that was to be done before its hits are taken is done.
    Ready,
    /// Process routines were probed, as many as `placed`.
    Routines {
        /// Probes.
        placed: usize,
        /// What is not probed and why.
        not_probed: Vec<NotProbed>,
    },
    /// Its probes had gone; at that monotonic time they were there.
    Hold(Hold, u64),
    /// It is no more what it was, though its process lives.
    Over(&'static str),
    /// It does not answer, or costs too much.
    Unanswered(Refused),
    /// It does answer, again.
    Answers,
    /// Servers of Channel Access on this machine, as far as they were asked for.
    Servers(Vec<(servers::Server, u64, Option<About>)>),
    /// Clients that it has, and the address at which it serves each.
    Clients(Vec<(Address, Client)>),
    /// Whom a thread serves.
    Serving(ThreadId, u64, Vec<(Address, Client)>),
    /// The function at a place that calls, and the file that it is in.
    CallSite(CallSiteId, String, String),
}

/// Something that the loop wants to know.
#[derive(Debug)]
pub enum Errand {
    /// Which processes serve, of all; these are IOCs.
    Servers(HashSet<u32>),
    /// Which of these IOCs serve.
    ServersOf(Vec<u32>),
    /// The clients of an IOC that serves on these ports.
    Clients(Arc<IocProcess>, Vec<u16>),
    /// Whom a thread (its number in the log, in the kernel, its first hit) of an IOC serves on these ports.
    Serving(Arc<IocProcess>, ThreadId, u32, u64, Vec<u16>),
    /// The function at an address of an IOC.
    CallSite(Arc<IocProcess>, CallSiteId, u64),
}

impl Errand {
    fn ioc(&self) -> Option<&Arc<IocProcess>> {
        match self {
            Errand::Servers(_) | Errand::ServersOf(_) => None,
            Errand::Clients(ioc, _) | Errand::Serving(ioc, ..) | Errand::CallSite(ioc, ..) => Some(ioc),
        }
    }
}

/// What is kept of a process between looks.
#[derive(Default)]
struct Kept {
    /// Of its memory, pages, when it was looked at last.
    size: Option<u64>,
    /// It has not answered, and that was said.
    unanswered: bool,
    ioc: Option<Followed>,
}

struct Followed {
    ioc: IocProcess,
    /// What its lists of records claimed to hold when they were last walked.
    claimed: u64,
    probes: Probes,
    /// When its probes were in place last, monotonic; 0: they have gone.
    held: u64,
    /// How many record types' process routines are probed.
    routines: usize,
    ready: bool,
}

struct Shared {
    queue: Queue<Kept>,
    /// What the loop has not taken yet. (A channel of the standard library's costs 10 KiB of code.)
    reports: VecDeque<Report>,
    errands: VecDeque<(User, Errand)>,
    /// Errands that are being run.
    busy: usize,
    /// IOCs that have not answered: no errands go there.
    silent: HashSet<u32>,
}

/// The loop's end.
pub struct Lookers {
    shared: Arc<Common>,
    threads: usize,
}

/// What all threads have.
struct Common {
    shared: Mutex<Shared>,
    /// There is more to do.
    more: Condvar,
    /// There is room for reports.
    room: Condvar,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lookers {
    /// Starts the threads. Without an `attacher` nothing is probed.
    pub fn start(attacher: Option<&Attacher>, wanted: &Wanted) -> Lookers {
        let shared = Shared {
            queue: Queue::new(Instant::now()),
            reports: VecDeque::new(),
            errands: VecDeque::new(),
            busy: 0,
            silent: HashSet::new(),
        };
        let (more, room) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Common { shared: Mutex::new(shared), more, room });
        let start = |number: usize| {
            let looker = Looker {
                shared: shared.clone(),
                attacher: attacher.cloned(),
                wanted: wanted.clone(),
                errands_first: number == 0,
                finder: Finder::default(),
                ticked: Instant::now(),
            };
            // a machine that gives no thread records packets alone
            std::thread::Builder::new().name("looker".into()).spawn(move || looker.work()).is_ok()
        };
        let threads = (0..LOOKERS).filter(|&number| start(number)).count();
        Lookers { shared, threads }
    }

    /// Are there none?
    pub fn is_missing(&self) -> bool {
        self.threads == 0
    }

    /// A process is there. `young`: it has just begun.
    pub fn arrived(&self, pid: u32, young: bool) {
        let mut shared = lock(&self.shared.shared);
        if shared.queue.has(pid) {
            return;
        }
        // threads have numbers like processes
        let Some((_, user)) = process::group_and_user_id(pid).filter(|(group, _)| *group == pid) else {
            return;
        };
        let Some(start) = process::start(pid) else { return };
        shared.queue.add(pid, start, Some(user), young, Kept::default(), Instant::now());
        self.shared.more.notify_one();
    }

    /// Only these live.
    pub fn retain(&self, lives: &HashSet<u32>) {
        let mut shared = lock(&self.shared.shared);
        shared.queue.retain(|pid| lives.contains(&pid));
        shared.silent.retain(|pid| lives.contains(pid));
    }

    /// A process has ended, or become another: what was known of it is forgotten, and its probes go.
    pub fn forget(&self, pid: u32) {
        let mut shared = lock(&self.shared.shared);
        shared.queue.remove(pid);
        shared.silent.remove(&pid);
    }

    /// Has a process been looked at since, in full, and found to be no IOC? Else it is looked at now.
    pub fn has_passed(&self, pid: u32, since: Instant) -> bool {
        let mut shared = lock(&self.shared.shared);
        if shared.queue.looked(pid).is_some_and(|looked| looked >= since) {
            return true;
        }
        if let Some(kept) = shared.queue.hurry(pid, Instant::now()) {
            kept.size = None;
            self.shared.more.notify_one();
        }
        false
    }

    /// Has every process that was there at first been looked at, and all been done that was asked for?
    pub fn are_through(&self) -> bool {
        let shared = lock(&self.shared.shared);
        self.threads == 0 || shared.queue.is_through() && shared.errands.is_empty() && shared.busy == 0
    }

    /// Has all been done that was asked for, and taken?
    pub fn have_answered(&self) -> bool {
        let shared = lock(&self.shared.shared);
        self.threads == 0 || shared.errands.is_empty() && shared.busy == 0 && shared.reports.is_empty()
    }

    /// Who comes from now on was not there at first.
    pub fn have_begun(&self) {
        lock(&self.shared.shared).queue.has_begun();
    }

    /// Asks for something; false if that is not to be had.
    pub fn ask(&self, errand: Errand) -> bool {
        let mut shared = lock(&self.shared.shared);
        let of = errand.ioc().map(|ioc| ioc.pid);
        let silent = of.is_some_and(|pid| {
            shared.silent.contains(&pid) || client::stuck() > 0 && !client::may_ask(process::user_id(pid))
        });
        if silent || shared.errands.len() >= ERRANDS || self.threads == 0 {
            return false;
        }
        let user = errand.ioc().and_then(|ioc| process::user_id(ioc.pid));
        shared.errands.push_back((user, errand));
        drop(shared);
        self.shared.more.notify_all();
        true
    }

    /// What has been found out, if anything.
    pub fn report(&self) -> Option<Report> {
        let report = lock(&self.shared.shared).reports.pop_front()?;
        self.shared.room.notify_one();
        Some(report)
    }
}

struct Looker {
    shared: Arc<Common>,
    attacher: Option<Attacher>,
    wanted: Wanted,
    errands_first: bool,
    finder: Finder,
    ticked: Instant,
}

enum Work {
    Look(Box<Entry<Kept>>),
    Errand(User, Errand),
}

impl Looker {
    fn work(mut self) {
        use_reader_process();
        loop {
            match self.next() {
                Work::Look(entry) => self.look(*entry),
                Work::Errand(user, errand) => {
                    let begin = Instant::now();
                    self.errand(errand);
                    let mut shared = lock(&self.shared.shared);
                    shared.busy -= 1;
                    shared.queue.spend(user, begin.elapsed());
                }
            }
            if self.ticked.elapsed() >= Duration::from_secs(1) {
                self.ticked = Instant::now();
                let pids = lock(&self.shared.shared).queue.pids();
                self.finder.tick(&pids);
            }
        }
    }

    fn next(&self) -> Work {
        let mut shared = lock(&self.shared.shared);
        loop {
            let now = Instant::now();
            if self.errands_first {
                if let Some(work) = errand(&mut shared) {
                    return work;
                }
            }
            if let Some(entry) = shared.queue.take(now, may_ask) {
                return Work::Look(Box::new(entry));
            }
            if let Some(work) = errand(&mut shared) {
                return work;
            }
            /// When something is due, but may not be done yet.
            const AGAIN: Duration = Duration::from_millis(50);
            let next = shared.queue.next().map_or(Duration::from_secs(1), |due| {
                due.checked_duration_since(now).filter(|wait| !wait.is_zero()).unwrap_or(AGAIN)
            });
            let waited = self.shared.more.wait_timeout(shared, next.min(Duration::from_secs(1)));
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, pid: u32, start: u64, news: News) {
        let full = |shared: &mut Shared| shared.reports.len() >= REPORTS;
        let waited = self.shared.room.wait_while(lock(&self.shared.shared), full);
        waited.unwrap_or_else(PoisonError::into_inner).reports.push_back(Report { pid, start, news });
    }

    fn look(&mut self, mut entry: Entry<Kept>) {
        let begin = Instant::now();
        let (pid, start) = (entry.pid, entry.start);
        let size = process::size(pid);
        // who it belongs to may change while it lives
        let idle = !has_memory(pid)
            || !self.wanted.users.have(pid)
            || size.is_some_and(|size| size > 0)
                && entry.kept.size == size
                && !entry.kept.unanswered
                && !self.finder.is_undecided(pid);
        if entry.kept.ioc.is_none() && idle {
            let kept = lock(&self.shared.shared).queue.not_now(entry, Instant::now());
            drop(kept);
            return;
        }
        entry.kept.size = size;
        let mut refused = None;
        if entry.kept.ioc.is_none() {
            refused = self.find(&mut entry);
        }
        if let (Some(followed), None) = (&mut entry.kept.ioc, refused) {
            refused = self.follow(pid, start, followed);
        }
        let outcome = match (refused, &entry.kept.ioc) {
            (Some(_), _) => Outcome::Unanswered,
            (None, Some(followed)) => Outcome::Ioc { settled: followed.ioc.layout.is_ok() },
            (None, None) => Outcome::Passed,
        };
        if let Some(refused) = refused.filter(|_| !entry.kept.unanswered) {
            self.tell(pid, start, News::Unanswered(refused));
        } else if refused.is_none() && entry.kept.ioc.is_some() && entry.kept.unanswered {
            self.tell(pid, start, News::Answers);
        }
        entry.kept.unanswered = refused.is_some();
        let mut shared = lock(&self.shared.shared);
        if entry.kept.unanswered {
            shared.silent.insert(pid);
        } else {
            shared.silent.remove(&pid);
        }
        let gone = shared.queue.done(entry, outcome, begin.elapsed(), Instant::now());
        drop(shared);
        drop(gone);
    }

    /// Looks whether a process is an IOC, and places its probes if it is.
    fn find(&mut self, entry: &mut Entry<Kept>) -> Option<Refused> {
        let pid = entry.pid;
        let look = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
        let found = self.finder.look(pid).ok().flatten().filter(|ioc| ioc.start == entry.start);
        let Some(ioc) = found else { return look.end() };
        let about = About::of(pid);
        if let Some(refused) = look.end() {
            return Some(refused);
        }
        // the kernel lets in one at a time, and where other recorders take their probes out each waits for some grace
        // periods
        let look = Inspection::begin(pid, LOOK_BYTES, ATTACH_TIME);
        let (probes, not_probed) = match (&self.attacher, ioc.unprobed()) {
            (Some(_), Some(reason)) => (Probes::none(pid), vec![NotProbed::Process(reason)]),
            (Some(attacher), None) => {
                let placed = probe::attach(attacher, &ioc, self.wanted.puts, self.wanted.process);
                (placed.probes, placed.not_probed)
            }
            (None, _) => (Probes::none(pid), Vec::new()),
        };
        let refused = look.end();
        if refused.is_some() {
            // all or nothing: the next look is a whole one
            return refused;
        }
        let news = News::Ioc { ioc: Arc::new(ioc.clone()), about, placed: probes.count(), not_probed };
        self.tell(pid, entry.start, news);
        entry.kept.ioc =
            Some(Followed { ioc, claimed: 0, probes, held: clock::monotonic(), routines: 0, ready: false });
        None
    }

    /// Learns what an IOC has come to be.
    fn follow(&self, pid: u32, start: u64, followed: &mut Followed) -> Option<Refused> {
        let look = Inspection::begin(pid, FOLLOW_BYTES, FOLLOW_TIME);
        let Followed { ioc, claimed, probes, held, routines, ready } = followed;
        if ioc.layout.is_err() {
            self.finder.layout_again(ioc);
            if ioc.layout.is_ok() {
                self.finder.identity_again(ioc);
                self.tell(pid, start, News::Changed(Arc::new(ioc.clone())));
            }
        } else {
            match ioc.database() {
                Database::Same => {}
                Database::Extended => {
                    // as long as the new record types are not registered the old layout serves
                    if self.finder.layout_extended(ioc) {
                        self.tell(pid, start, News::Changed(Arc::new(ioc.clone())));
                    }
                }
                Database::Gone => {
                    self.tell(pid, start, News::Over(GONE));
                }
            }
        }
        self.walk(pid, start, ioc, claimed);
        if let Some(attacher) = &self.attacher {
            match probes.hold_on(attacher) {
                Hold::Holds => {}
                // said once
                Hold::Lost(_) if *held == 0 => {}
                other => {
                    let until = std::mem::replace(held, 0);
                    self.tell(pid, start, News::Hold(other, until));
                }
            }
            if probes.hold() {
                *held = clock::monotonic();
            }
            if self.wanted.process && ioc.unprobed().is_none() {
                self.probe_routines(pid, start, ioc, attacher, probes, routines);
            }
        }
        // last: from now on its hits are said to be taken
        if !*ready && ioc.layout.is_ok() {
            *ready = true;
            self.tell(pid, start, News::Ready);
        }
        look.end()
    }

    /// Hands over an IOC's records, if its lists of records have changed since the last time.
    fn walk(&self, pid: u32, start: u64, ioc: &mut IocProcess, claimed: &mut u64) {
        let Ok(layout) = &ioc.layout else { return };
        let claims = layout.claimed(&ioc.memory);
        if claims == *claimed {
            return;
        }
        *claimed = claims;
        let (mut batch, mut found) = (Vec::new(), 0);
        let outcome = records::walk(&ioc.memory, layout, &mut |record| {
            let RecordAt { address, name, rtype, alias, states, node } = record;
            batch.push(Found { address, name, rtype: rtype.name.clone(), alias, states, node });
            found += 1;
            if batch.len() == RECORDS {
                self.tell(pid, start, News::Records(std::mem::take(&mut batch)));
            }
        });
        self.tell(pid, start, News::Records(batch));
        // records come with the start-up script, which says who the IOC is
        let before = ioc.clone();
        self.finder.identity_again(ioc);
        if !has_memory(pid) {
            // it ends: nothing that was read now says anything
            *ioc = before;
            return;
        }
        self.tell(pid, start, News::Changed(Arc::new(ioc.clone())));
        self.tell(pid, start, News::Walked { claimed: claims, found, outcome });
    }

    /// Probes process routines where there is no `dbProcess`, as soon as record types have them, which is in iocInit.
    fn probe_routines(
        &self,
        pid: u32,
        start: u64,
        ioc: &IocProcess,
        attacher: &Attacher,
        probes: &mut Probes,
        routines: &mut usize,
    ) {
        let layout = ioc.layout.as_ref().ok().filter(|_| ioc.function("dbProcess").is_none());
        let count = layout.map_or(0, |layout| layout.routines(&ioc.memory).count());
        if count != *routines {
            *routines = count;
            let not_probed = probe::attach_routines(attacher, ioc, probes);
            self.tell(pid, start, News::Routines { placed: probes.count(), not_probed });
        }
    }

    fn errand(&self, errand: Errand) {
        let (pid, start) = errand.ioc().map_or((0, 0), |ioc| (ioc.pid, ioc.start));
        let look = Inspection::begin(pid, ERRAND_BYTES, ERRAND_TIME);
        let news = match errand {
            Errand::Servers(iocs) => {
                let found = servers::find(&|pid| iocs.contains(&pid)).unwrap_or_default();
                News::Servers(found.into_iter().filter_map(|server| described(server, &iocs)).collect())
            }
            Errand::ServersOf(pids) => {
                let iocs = pids.iter().copied().collect();
                News::Servers(servers::of(&pids).into_iter().filter_map(|s| described(s, &iocs)).collect())
            }
            Errand::Clients(ioc, ports) => {
                let threads = process::threads(pid).into_iter().collect();
                News::Clients(at_servers(pid, clients(&ioc, &threads, None), &ports))
            }
            Errand::Serving(ioc, thread, tid, time, ports) => {
                let served = clients(&ioc, &HashSet::from([tid]), Some(tid));
                News::Serving(thread, time, at_servers(pid, served, &ports))
            }
            Errand::CallSite(ioc, id, address) => {
                let (function, module) = site(&ioc, address);
                News::CallSite(id, function, module)
            }
        };
        if look.end().is_some() && pid != 0 {
            lock(&self.shared.shared).silent.insert(pid);
        }
        self.tell(pid, start, news);
    }
}

/// Is there anything to be read of a process? Not of the kernel's own, and not of one that ends. Where the first thread
/// alone has ended, others show the memory.
fn has_memory(pid: u32) -> bool {
    process::size(pid).is_some_and(|size| size > 0) || process::threads(pid).len() > 1
}

fn may_ask(user: User, answers: bool) -> bool {
    if answers {
        client::may_ask_ioc(user)
    } else {
        client::may_ask(user)
    }
}

/// Of the errands that wait, the one of the user who has cost the least.
fn errand(shared: &mut Shared) -> Option<Work> {
    let queue = &shared.queue;
    let next =
        (0..).zip(&shared.errands).min_by_key(|(_, (user, _))| queue.spent(*user)).map(|(at, _)| at)?;
    let (user, errand) = shared.errands.remove(next)?;
    shared.busy += 1;
    Some(Work::Errand(user, errand))
}

/// Servers that are no IOCs are told of by what /proc says.
fn described(server: servers::Server, iocs: &HashSet<u32>) -> Option<(servers::Server, u64, Option<About>)> {
    let start = process::start(server.pid)?;
    let about = (!iocs.contains(&server.pid)).then(|| About::of(server.pid));
    Some((server, start, about))
}

fn at_servers(pid: u32, clients: Vec<Client>, ports: &[u16]) -> Vec<(Address, Client)> {
    let connections = sockets::connections(pid);
    let held: HashSet<u64> = sockets::held(&process::directory(pid)).collect();
    let clients = clients.into_iter();
    clients
        .filter_map(|client| Some((sockets::local_end(&connections, client.address, ports, &held)?, client)))
        .collect()
}

/// The function at an address, and the file that it is in; empty where not known.
fn site(ioc: &IocProcess, address: u64) -> (String, String) {
    let module = ioc.module_at(address);
    // a return address is that of the instruction behind the call, which may be the next function's
    let function = module.map(|module| function_at(&module.opened, address.wrapping_sub(module.bias + 1)));
    // also of code that is not EPICS Base: a PVAccess server's, an extension module's of Python
    let path = module.map(|module| module.path.clone()).or_else(|| {
        let mappings = process::mappings(ioc.pid).ok()?;
        Some(mappings.into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?.path)
    });
    let name = path.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_string();
    (function.unwrap_or_default(), name)
}
