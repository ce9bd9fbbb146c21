//! Counts searches by sender and name, in a table of bounded size, and reports them in small numbers.
//!
//! A client searches for a PV that nobody has for ever: libca begins with some ten times in the first second, and goes
//! on every five minutes. So an entry is reported a second after its first request, when an answer would have come, and
//! then while requests come, after ten seconds and every minute. Reports are rationed, so that a storm can't drive out
//! the rest of the log: those without an answer go first, and the others wait, still counted. Requests for names that
//! have no place are counted by sender alone.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use iocrec_log::event::{self, Address, Event, Fact, SearchLoad};

use super::busiest::Busiest;
use super::{scope, Scope};
use crate::linux::text::printable;
use crate::net::Namespace;

const SECOND: u64 = 1_000_000_000;
/// Time for an answer to come before the first report.
const ANSWERED: u64 = SECOND;
/// Time between the first reports of an entry, and between later ones.
const AGAIN: u64 = 10 * SECOND;
const LATER: u64 = 60 * SECOND;
/// Time after which an entry without requests is forgotten; longer than libca waits before it searches again (five
/// minutes at most) is not needed, since a new entry counts as well.
const IDLE: u64 = 30 * SECOND;
/// Servers that are kept of an entry: two are one too many already.
const MAX_SERVERS: usize = 4;
/// Longest name: EPICS Base takes 60 characters of a record's, and others have longer ones.
const MAX_NAME: usize = 200;
/// Requests a second from which the load is noted, even if all of them are counted by name.
const MANY: u64 = 500;
/// Time between notes of the load while it lasts.
const LOAD: u64 = 10 * SECOND;
/// Time between notes of the load otherwise: they show that datagrams are read at all.
const CALM: u64 = 600 * SECOND;
/// Senders in such a note.
const MOST: usize = 5;
/// Namespaces with a load of their own.
const MAX_PLACES: usize = 128;

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries. One takes some 200 bytes: 4096 are under 1 MiB, in a storm.
    pub entries: usize,
    /// Reports at once, at most; and on average in a second. A report takes some 15 bytes of the log.
    pub burst: u32,
    /// See `burst`.
    pub rate: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { entries: 4096, burst: 2000, rate: 20 }
    }
}

/// A request: its sender and its number for the channel.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// The sender.
    pub client: Address,
    /// Whether it came on a circuit.
    pub tcp: bool,
    /// The client's number for the channel, which answers repeat.
    pub cid: u32,
}

/// An answer that a server has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The server.
    pub server: Address,
    /// Its GUID, in PVAccess.
    pub guid: Guid,
}

/// A server's GUID; PVAccess alone has them.
pub type Guid = Option<[u8; 12]>;

/// How a protocol's counts become facts.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Searches, with the GUID of each server that answered.
    pub searches: fn(event::Searches, Vec<Guid>) -> Fact,
    /// A load.
    pub load: fn(SearchLoad) -> Fact,
}

#[derive(Debug)]
struct Entry {
    namespace: Namespace,
    scope: Scope,
    client: Address,
    tcp: bool,
    name: Box<[u8]>,
    count: u32,
    since: u64,
    last: u64,
    not_found: u32,
    answers: Vec<(Answer, u32)>,
    /// Whether anybody has ever answered.
    is_answered: bool,
    /// Time and number of the reports so far.
    reported: u64,
    reports: u32,
}

impl Entry {
    fn is_new(&self) -> bool {
        self.count > 0 || self.not_found > 0 || !self.answers.is_empty()
    }

    fn is_due(&self, now: u64) -> bool {
        let after = |time: u64, pause: u64| now.saturating_sub(time) >= pause;
        self.is_new()
            && match self.reports {
                0 => after(self.since, ANSWERED),
                1..=3 => after(self.reported, AGAIN),
                _ => after(self.reported, LATER),
            }
    }

    fn report(&mut self, now: u64, facts: &Facts, out: &mut Vec<Event>) {
        self.reported = now;
        self.reports = self.reports.saturating_add(1);
        let answers = std::mem::take(&mut self.answers);
        let guids = answers.iter().map(|(answer, _)| answer.guid).collect();
        let searches = event::Searches {
            namespace: self.namespace,
            client: self.client,
            tcp: self.tcp,
            name: printable(&self.name),
            count: std::mem::take(&mut self.count),
            since: self.since,
            last: self.last,
            not_found: std::mem::take(&mut self.not_found),
            answers: answers.into_iter().map(|(answer, count)| (answer.server, count)).collect(),
        };
        out.push(Event { time: now, fact: (facts.searches)(searches, guids) });
    }
}

/// What came in a namespace since `since`.
#[derive(Debug, Default)]
struct Load {
    since: u64,
    datagrams: u64,
    names: u64,
    left_out: u64,
    cut: u64,
    unread: u64,
    one_in: u32,
    senders: Busiest<Address>,
}

impl Load {
    fn starting(since: u64) -> Load {
        Load { since, one_in: 1, ..Load::default() }
    }

    /// Whether it is to be noted soon: it is large, or something in it is in no other fact.
    fn is_high(&self) -> bool {
        self.names >= MANY || self.one_in > 1 || self.left_out + self.cut + self.unread > 0
    }

    fn add(&mut self, other: &Load) {
        self.datagrams += other.datagrams;
        self.names += other.names;
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.cut += other.cut;
        self.unread = self.unread.saturating_add(other.unread);
        self.one_in = self.one_in.max(other.one_in);
        for (sender, count) in other.senders.first(usize::MAX) {
            self.senders.add(sender, count);
        }
    }
}

/// The loads of a namespace: of this second, of the calm before it, of the storm that lasts.
#[derive(Debug)]
struct Loads {
    second: Load,
    calm: Load,
    /// With the time of its last note, if there was one.
    storm: Option<(Load, Option<u64>)>,
}

impl Loads {
    fn starting(now: u64) -> Loads {
        Loads { second: Load::starting(now), calm: Load::starting(now), storm: None }
    }

    /// Ends a second; returns the load to be noted.
    fn end_second(&mut self, now: u64) -> Vec<Load> {
        let second = std::mem::replace(&mut self.second, Load::starting(now));
        let mut noted = Vec::new();
        if second.is_high() && self.storm.is_none() {
            self.storm = Some((Load::starting(second.since), None));
        }
        let is_calm = !second.is_high();
        match &mut self.storm {
            Some((storm, last)) => {
                // so that a reader can tell from the numbers how many there were
                if storm.one_in != second.one_in && storm.datagrams > 0 {
                    noted.push(std::mem::replace(storm, Load::starting(second.since)));
                }
                storm.add(&second);
                if is_calm || last.is_none_or(|last| now.saturating_sub(last) >= LOAD) {
                    noted.push(std::mem::replace(storm, Load::starting(now)));
                    *last = Some(now);
                }
            }
            None => self.calm.add(&second),
        }
        if is_calm {
            self.storm = None;
        }
        if now.saturating_sub(self.calm.since) >= CALM {
            noted.push(std::mem::replace(&mut self.calm, Load::starting(now)));
        }
        noted
    }
}

/// Numbers that requests carried, by sender: those of the last seconds, in two generations.
#[derive(Debug, Default)]
struct Numbers {
    new: HashMap<(Scope, Address, bool, u32), u64>,
    old: HashMap<(Scope, Address, bool, u32), u64>,
}

/// See the module.
#[derive(Debug)]
pub struct Searches {
    limits: Limits,
    facts: Facts,
    hasher: RandomState,
    entries: HashMap<u64, Entry>,
    /// Entries of each sender: one must not take the places of all others.
    held: HashMap<(Scope, Address), usize>,
    numbers: Numbers,
    turned: u64,
    /// Reports that may be made now.
    ration: u32,
    loads: HashMap<Namespace, Loads>,
    /// Senders whose processes are worth finding.
    senders: Vec<(Namespace, Address)>,
}

impl Searches {
    /// Nothing counted yet.
    pub fn new(limits: Limits, facts: Facts) -> Searches {
        Searches {
            limits,
            facts,
            hasher: RandomState::new(),
            entries: HashMap::new(),
            held: HashMap::new(),
            numbers: Numbers::default(),
            turned: 0,
            ration: limits.burst,
            loads: HashMap::new(),
            senders: Vec::new(),
        }
    }

    /// Counts in these namespaces from now on, and in no others.
    pub fn set_places(&mut self, namespaces: &[Namespace], now: u64, out: &mut Vec<Event>) {
        let facts = self.facts;
        self.loads.retain(|namespace, _| namespaces.contains(namespace));
        for &namespace in namespaces.iter().take(MAX_PLACES) {
            self.loads.entry(namespace).or_insert_with(|| {
                let note = SearchLoad {
                    namespace,
                    since: now,
                    datagrams: 0,
                    names: 0,
                    left_out: 0,
                    cut: 0,
                    unread: 0,
                    one_in: 1,
                    most: Vec::new(),
                };
                out.push(Event { time: now, fact: (facts.load)(note) });
                Loads::starting(now)
            });
        }
    }

    /// Counts a datagram; `is_cut`: not all of it is here.
    pub fn datagram(&mut self, namespace: Namespace, is_cut: bool) {
        if let Some(load) = self.load(namespace) {
            load.datagrams += 1;
            load.cut += u64::from(is_cut);
        }
    }

    /// Notes that one datagram in `one_in` was read, and that `lost` were lost.
    pub fn left_out(&mut self, namespace: Namespace, one_in: u32, lost: u64) {
        if one_in > 1 || lost > 0 {
            if let Some(load) = self.load(namespace) {
                load.one_in = load.one_in.max(one_in);
                load.unread = load.unread.saturating_add(lost);
            }
        }
    }

    /// Counts a request for a name.
    pub fn request(&mut self, namespace: Namespace, asking: Asking, name: &[u8], time: u64) {
        let Asking { client, tcp, cid } = asking;
        if name.is_empty() {
            return;
        }
        let scope = scope(namespace, client.ip);
        let hash = self.hasher.hash_one((scope, client, tcp, name));
        let held = self.held.get(&(scope, client)).copied().unwrap_or(0);
        let room = self.entries.len() < self.limits.entries && held < self.limits.entries.div_ceil(2);
        let kept = match self.entries.get_mut(&hash) {
            Some(entry) => {
                let same = (entry.scope, entry.client, entry.tcp, &*entry.name) == (scope, client, tcp, name);
                if same {
                    if !entry.is_new() {
                        entry.since = time;
                    }
                    entry.count = entry.count.saturating_add(1);
                    entry.last = entry.last.max(time);
                }
                same
            }
            None if room && name.len() <= MAX_NAME => {
                let entry = Entry {
                    namespace,
                    scope,
                    client,
                    tcp,
                    name: name.into(),
                    count: 1,
                    since: time,
                    last: time,
                    not_found: 0,
                    answers: Vec::new(),
                    is_answered: false,
                    reported: 0,
                    reports: 0,
                };
                self.entries.insert(hash, entry);
                *self.held.entry((scope, client)).or_default() += 1;
                true
            }
            None => false,
        };
        if kept && self.numbers.new.len() < self.limits.entries {
            self.numbers.new.insert((scope, client, tcp, cid), hash);
        }
        if let Some(load) = self.load(namespace) {
            load.names += 1;
            load.left_out += u64::from(!kept);
            load.senders.add(client, 1);
        }
    }

    /// Counts an answer: from this server, or that the name is not there.
    pub fn answer(&mut self, namespace: Namespace, asking: Asking, answer: Option<Answer>, time: u64) {
        let key = (scope(namespace, asking.client.ip), asking.client, asking.tcp, asking.cid);
        let hash = self.numbers.new.get(&key).or_else(|| self.numbers.old.get(&key));
        // An answer to a request that was not seen, or not kept, says nothing about a name.
        let Some(entry) = hash.and_then(|hash| self.entries.get_mut(hash)) else { return };
        if !entry.is_new() {
            entry.since = time;
        }
        entry.last = entry.last.max(time);
        let Some(answer) = answer else {
            entry.not_found = entry.not_found.saturating_add(1);
            return;
        };
        entry.is_answered = true;
        let has_room = entry.answers.len() < MAX_SERVERS;
        match entry.answers.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, count)) => *count = count.saturating_add(1),
            None if has_room => entry.answers.push((answer, 1)),
            None => {}
        }
    }

    /// Reports what is due.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.ration = self.ration.saturating_add(self.limits.rate).min(self.limits.burst);
        self.report(now, out, &|entry| entry.is_due(now));
        self.note_loads(now, out, false);
        let is_full = self.entries.len() >= self.limits.entries;
        let idle = if is_full { 2 * SECOND } else { IDLE };
        self.entries.retain(|_, entry| entry.is_new() || now.saturating_sub(entry.last) < idle);
        self.held.clear();
        for entry in self.entries.values() {
            *self.held.entry((entry.scope, entry.client)).or_default() += 1;
        }
        if now.saturating_sub(self.turned) >= AGAIN || self.numbers.new.len() >= self.limits.entries {
            self.turned = now;
            self.numbers.old = std::mem::take(&mut self.numbers.new);
        }
        if self.entries.is_empty() {
            // a storm is over
            self.entries.shrink_to_fit();
        }
    }

    /// Reports everything, as far as rations go.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.report(now, out, &Entry::is_new);
        for entry in self.entries.values().filter(|entry| entry.is_new()) {
            if let Some(loads) = self.loads.get_mut(&entry.namespace) {
                let load = &mut loads.second;
                load.left_out = load.left_out.saturating_add(entry.count.into());
            }
        }
        self.note_loads(now, out, true);
    }

    /// Senders of searches without an answer since the last call: their processes are worth finding.
    pub fn take_senders(&mut self) -> Vec<(Namespace, Address)> {
        std::mem::take(&mut self.senders)
    }

    fn report(&mut self, now: u64, out: &mut Vec<Event>, is_due: &dyn Fn(&Entry) -> bool) {
        let mut due: Vec<(bool, u32, u64)> = Vec::new();
        for (hash, entry) in &self.entries {
            if is_due(entry) {
                due.push((entry.is_answered, u32::MAX - entry.count, *hash));
            }
        }
        due.sort_unstable();
        // by turns: one sender's names must not keep those of others waiting
        let mut turns: HashMap<(Scope, Address), u32> = HashMap::new();
        for (_, order, hash) in &mut due {
            let Some(entry) = self.entries.get(hash) else { continue };
            let turn = turns.entry((entry.scope, entry.client)).or_default();
            *order = *turn;
            *turn += 1;
        }
        due.sort_unstable();
        due.truncate(self.ration as usize);
        self.ration -= due.len() as u32;
        for (is_answered, _, hash) in due {
            let Some(entry) = self.entries.get_mut(&hash) else { continue };
            entry.report(now, &self.facts, out);
            let sender = (entry.namespace, entry.client);
            let is_new = self.senders.len() < 2 * MOST && !self.senders.contains(&sender);
            if !is_answered && !entry.tcp && is_new {
                self.senders.push(sender);
            }
        }
    }

    fn note_loads(&mut self, now: u64, out: &mut Vec<Event>, is_end: bool) {
        let facts = self.facts;
        for (namespace, loads) in &mut self.loads {
            let mut noted = loads.end_second(now);
            if is_end {
                noted.extend(loads.storm.take().map(|(storm, _)| storm));
                noted.push(std::mem::replace(&mut loads.calm, Load::starting(now)));
            }
            for load in noted {
                let most = if load.is_high() { load.senders.first(MOST) } else { Vec::new() };
                let senders = most.iter().map(|&(client, _)| (*namespace, client));
                self.senders.extend(senders.take((2 * MOST).saturating_sub(self.senders.len())));
                let note = SearchLoad {
                    namespace: *namespace,
                    since: load.since,
                    datagrams: load.datagrams,
                    names: load.names,
                    left_out: load.left_out,
                    cut: load.cut,
                    unread: load.unread,
                    one_in: load.one_in,
                    most,
                };
                out.push(Event { time: now, fact: (facts.load)(note) });
            }
        }
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.entries.len()
    }

    fn load(&mut self, namespace: Namespace) -> Option<&mut Load> {
        self.loads.get_mut(&namespace).map(|loads| &mut loads.second)
    }
}
