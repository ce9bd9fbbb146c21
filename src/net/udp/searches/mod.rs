//! Counts searches by sender and name, in a table of bounded size, and reports them in small numbers.
//!
//! A client searches for a PV that nobody has for ever: libca begins with some ten times in the first second, and goes
//! on every five minutes. So an entry is reported a second after its first request, when an answer would have come, and
//! then while requests come, after ten seconds and every minute. Reports are rationed, so that a storm can't drive out
//! the rest of the log: those without an answer go first, and the others wait, still counted. Requests for names that
//! have no place are counted by sender alone.

mod entry;
mod facts;
mod load;
mod reports;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use iocrec_log::event::{Address, Event, SearchLoad};

use crate::net::udp::{scope, Scope};
use crate::net::Namespace;

use entry::Entry;
pub use facts::{Answer, Asking, Facts, Guid};
use load::{Load, Loads};

const SECOND: u64 = 1_000_000_000;
/// Time between the first reports of an entry.
const AGAIN: u64 = 10 * SECOND;
/// Time after which an entry without requests is forgotten; longer than libca waits before it searches again (five
/// minutes at most) is not needed, since a new entry counts as well.
const IDLE: u64 = 30 * SECOND;
/// Servers that are kept of an entry: two are one too many already.
const MAX_SERVERS: usize = 4;
/// Longest name: EPICS Base takes 60 characters of a record's, and others have longer ones.
const MAX_NAME: usize = 200;
/// Senders in a note of a load.
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

    /// Senders of searches without an answer since the last call: their processes are worth finding.
    pub fn take_senders(&mut self) -> Vec<(Namespace, Address)> {
        std::mem::take(&mut self.senders)
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
