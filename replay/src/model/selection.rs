//! The part of a run that can matter to its put log, or to one of its records.
//!
//! Most of a log is scanning, which no put has anything to do with. A first pass over a run looks at what its blocks say
//! of themselves (and, of blocks that say nothing, at the hits' threads and records) and selects
//!
//! - the threads that can carry out a put from outside, and all that process a record to which one of these put;
//! - the records that any of these threads touched.
//!
//! The second pass gives the events of these threads and records, in whatever thread, and all that are not processing:
//! messages, readings, CA links, losses, definitions. The engine makes the same puts of them as of everything: what it
//! knows of a put, it knows by the put's thread (its stack), by its record (processing that is open, its fields), or by
//! its circuit. Puts of database links in other threads are never roots of a put's chain, nor joined to messages.
//!
//! For the puts to some records, threads that can carry out puts are selected all the same, since whose a message is shows
//! in what all of them did; but of the others only those that process one of these records, or one that was put to in the
//! same thread, unless that serves Channel Access: a put to a group of PVAccess shows all of its members. A client may name
//! a record by an alias, and a group has a name of its own, which may look like a record's field: where a client's channel
//! has a name that is asked for and that is not known to be a record's or an alias in the IOC that serves it, or over PVAccess
//! names a field that no record there has, the selection is that for all puts.
//!
//! For a record, all threads are selected that touched it, those that touched a record that one of these touched, and so
//! on: no chain leads from one of the others into them, as long as none of them carries out requests of other threads. Of
//! scan threads, which mostly touch everything, only those records are selected that have to do with it
//! ([`super::episodes`]).
//!
//! For the chains that have a record, as they are shown whole, the threads that can carry out puts are selected as well, with all
//! that has to do with theirs, and all that selected threads did: what a hit is shows in the thread's hits before and after it.
//! A CA link leads to another IOC's thread, which nothing in this one selects: where there are any in the logs that are read,
//! nothing is selected for chains ([`Source::may_have_link_puts`](super::source::Source::may_have_link_puts)).
//!
//! Nothing is selected, and everything read, where this can't be told: in old logs, where a put came in a thread of
//! unknown purpose, and where a block touched too many records to list them.

use super::caller::{self, Caller, Role};
use super::episodes::{self, Groups};
use super::numbered::Numbered;
use super::run::ioc_of_circuit;
use crate::reading::scan::{Blocks, Choose, Part, Scan};
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, Fact, IocId, PutKind, RecordId};
use iocrec_log::reader::{About, Choice, Contents, SegmentFile, Set, Shape, ThreadContents};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Records remembered for all threads; with more, everything is read.
const MAX_RECORDS: usize = 1_000_000;
/// Threads; likewise.
const MAX_THREADS: usize = 100_000;
/// Channels to what is asked for; likewise. A client may have a new one every second.
const MAX_CHANNELS: usize = 1_000_000;
/// Fields whose names are remembered; likewise.
const MAX_FIELDS: usize = 100_000;
/// The most of a field's name, characters; no record has a field with a longer one.
const MAX_FIELD: usize = 64;
/// Records that are looked for in each block's list; with more, a block is unpacked.
const MAX_SOUGHT: usize = 10_000;

/// What is asked of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The puts from outside the IOCs.
    Puts,
    /// Those of them to records, aliases or groups with these names.
    PutsTo(Vec<String>),
    /// What happened to records with these names, and why.
    Records(Vec<String>),
    /// The chains that have records, aliases or groups with these names, whole.
    Chains(Vec<String>),
}

/// What can matter to that.
#[derive(Debug, Default)]
pub struct Selection {
    threads: HashSet<u32>,
    records: HashSet<u32>,
}

/// Whether a block says exactly which threads touched which records.
fn is_exact(contents: &Contents) -> bool {
    let exact = |of: &ThreadContents| {
        of.records.numbers().is_some() && of.put_to.numbers().is_some() && of.sites.is_some()
    };
    contents.threads.as_ref().is_some_and(|threads| threads.iter().all(exact))
}

/// What a thread did in the run.
#[derive(Debug)]
struct Thread {
    /// `None` if they could not be listed.
    records: Option<HashSet<u32>>,
    put_to: Option<HashSet<u32>>,
    puts: bool,
    link_puts: bool,
    writes: bool,
    /// The callers of `dbPut`.
    sites: HashSet<u32>,
    /// Whether they could not be listed.
    more_sites: bool,
    /// The sets added last: most blocks of a thread hold the same.
    last: [Set; 2],
}

impl Default for Thread {
    /// A thread that did nothing: what it did can be listed.
    fn default() -> Self {
        Thread {
            records: Some(HashSet::new()),
            put_to: Some(HashSet::new()),
            puts: false,
            link_puts: false,
            writes: false,
            sites: HashSet::new(),
            more_sites: false,
            last: <[Set; 2]>::default(),
        }
    }
}

/// What the first pass gathers.
#[derive(Debug, Default)]
struct Gathered {
    threads: HashMap<u32, Thread>,
    /// Numbers held in all sets.
    held: usize,
    /// Whether it must be given up.
    hopeless: bool,
}

/// Adds a set's numbers; `None` once they can't be listed.
fn add(into: &mut Option<HashSet<u32>>, set: &Set, held: &mut usize) {
    let Some(numbers) = into else { return };
    let Some(more) = set.numbers() else {
        *into = None;
        return;
    };
    for number in more {
        *held += usize::from(numbers.insert(number));
        if *held > MAX_RECORDS {
            *into = None;
            return;
        }
    }
}

impl Gathered {
    fn thread(&mut self, thread: u32) -> Option<&mut Thread> {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            self.hopeless = true;
            return None;
        }
        Some(self.threads.entry(thread).or_default())
    }

    /// Takes what a block says of a thread.
    fn listed(&mut self, of: &ThreadContents) {
        let mut held = self.held;
        let Some(thread) = self.thread(of.thread) else { return };
        thread.puts |= of.puts;
        thread.link_puts |= of.link_puts;
        match &of.sites {
            Some(sites) => {
                thread.writes |= !sites.is_empty();
                thread.sites.extend(sites);
            }
            None => (thread.writes, thread.more_sites) = (true, true),
        }
        let [records, put_to] = &mut thread.last;
        if *records != of.records {
            add(&mut thread.records, &of.records, &mut held);
            *records = of.records.clone();
        }
        if *put_to != of.put_to {
            add(&mut thread.put_to, &of.put_to, &mut held);
            *put_to = of.put_to.clone();
        }
        self.held = held;
    }

    /// Takes a hit of a block that says nothing.
    fn hit(&mut self, thread: u32, record: Option<u32>, put: Option<(PutKind, u32)>) {
        let mut held = self.held;
        if held > MAX_RECORDS {
            self.hopeless = true;
        }
        let Some(of) = self.thread(thread) else { return };
        if let (Some(record), Some(records)) = (record, &mut of.records) {
            held += usize::from(records.insert(record));
        }
        if let Some((kind, site)) = put {
            if let (Some(record), Some(put_to)) = (record, &mut of.put_to) {
                held += usize::from(put_to.insert(record));
            }
            if kind == PutKind::Put {
                of.writes = true;
                of.sites.insert(site);
            } else {
                of.puts = true;
            }
        }
        self.held = held;
    }
}

/// What the definitions of a run tell about threads and call sites, at any time.
#[derive(Default)]
struct Purposes {
    context: Context,
    roles: HashMap<u32, HashSet<Role>>,
    served: HashSet<u32>,
    /// Call sites in functions of the IOC's shell.
    shell: HashSet<u32>,
    /// The records asked for, and their numbers.
    names: Vec<String>,
    records: HashSet<u32>,
    /// The records of which one of these names is an alias.
    aliased: HashSet<RecordId>,
    /// The IOCs in which a name that is asked for is known to be a record's or an alias.
    known: HashSet<(IocId, String)>,
    /// Circuits with channels of such names, each with its field, and the IOCs that serve them, as far as they were known at
    /// some time.
    channels: HashMap<CircuitId, HashSet<(String, String)>>,
    /// How many are in these sets, and whether there were too many.
    channel_count: usize,
    too_many_channels: bool,
    servers: HashMap<CircuitId, HashSet<IocId>>,
    /// Circuits of PVAccess, and the fields of IOCs' records: a group may be called like a field that no record has.
    pva: HashSet<CircuitId>,
    fields: HashSet<(IocId, String)>,
    /// Call sites with which scans begin, and those that were something else at some time.
    begins: HashSet<u32>,
    others: HashSet<u32>,
}

impl Purposes {
    fn take(&mut self, time: u64, fact: &Fact) {
        if !fact.class().defines() {
            return;
        }
        self.context.apply(time, fact);
        match fact {
            Fact::Thread(thread) => {
                let role = caller::role(&self.context, thread.id);
                self.roles.entry(thread.id).or_default().insert(role);
            }
            Fact::Record(record) => {
                if let Some(name) = self.asked(&record.name) {
                    self.records.insert(record.id);
                    self.known.insert((record.ioc, name));
                }
            }
            Fact::Alias(alias) => {
                if let Some(name) = self.asked(&alias.name) {
                    self.aliased.insert(alias.record);
                    let ioc = self.context.record(alias.record).map(|record| record.ioc);
                    self.known.extend(ioc.map(|ioc| (ioc, name)));
                }
            }
            Fact::Channel(channel) => {
                let Some(name) = self.asked(&channel.pv) else { return };
                if self.channel_count >= MAX_CHANNELS {
                    self.too_many_channels = true;
                    return;
                }
                let field = Pv::new(&channel.pv).field.chars().take(MAX_FIELD + 1).collect();
                let is_new = self.channels.entry(channel.circuit).or_default().insert((name, field));
                self.channel_count += usize::from(is_new);
                self.place(channel.circuit);
            }
            Fact::PvaCircuit(circuit) => _ = self.pva.insert(circuit.circuit),
            Fact::Field(field) if self.fields.len() < MAX_FIELDS && field.name.len() <= MAX_FIELD => {
                self.fields.insert((field.ioc, field.name.clone()));
            }
            Fact::CircuitEnds(of) if self.channels.contains_key(&of.circuit) => self.place(of.circuit),
            Fact::ServerThread(server) => _ = self.served.insert(server.thread),
            Fact::CallSite(site) if episodes::begins(&self.context, site.id) => {
                self.begins.insert(site.id);
            }
            Fact::CallSite(site) => {
                self.others.insert(site.id);
                if caller::caller(&self.context, site.id) == Caller::Shell {
                    self.shell.insert(site.id);
                }
            }
            _ => {}
        }
    }

    /// The name that is asked for, if this is it, or that of a field of it.
    fn asked(&self, name: &str) -> Option<String> {
        let of = Pv::new(name).record;
        self.names.iter().find(|asked| *asked == name || *asked == of).cloned()
    }

    /// Notes the IOC that serves a circuit, if it is known by now.
    fn place(&mut self, circuit: CircuitId) {
        if let Some(ioc) = ioc_of_circuit(&self.context, circuit).map(|ioc| ioc.id) {
            self.servers.entry(circuit).or_default().insert(ioc);
        }
    }

    /// The records that puts are to, if they are asked for by these names; `None` if a client may have used one of them for
    /// another record, or for a group.
    fn put_to(&mut self) -> Option<HashSet<RecordId>> {
        let circuits: Vec<CircuitId> = self.channels.keys().copied().collect();
        circuits.into_iter().for_each(|circuit| self.place(circuit));
        let is_known = |(circuit, names): (&CircuitId, &HashSet<(String, String)>)| {
            let may_be_group = self.pva.contains(circuit);
            let is_field = |ioc: IocId, field: &String| {
                !may_be_group || field == "VAL" || self.fields.contains(&(ioc, field.clone()))
            };
            let is_of_record = |ioc: IocId, (name, field): &(String, String)| {
                self.known.contains(&(ioc, name.clone())) && is_field(ioc, field)
            };
            let has = |ioc: &IocId| names.iter().all(|name| is_of_record(*ioc, name));
            self.servers.get(circuit).is_some_and(|iocs| iocs.iter().all(has))
        };
        let all_known = !self.too_many_channels && self.channels.iter().all(is_known);
        all_known.then(|| self.records.union(&self.aliased).copied().collect())
    }

    /// Whether no `dbPut` in this thread can be a put from outside, by all names that the thread had.
    fn is_inner(&self, number: u32, thread: &Thread) -> bool {
        let inner = |role: &Role| matches!(role, Role::Scan | Role::ScanOnce | Role::Callback);
        let roles = self.roles.get(&number);
        roles.is_some_and(|roles| roles.iter().all(inner))
            && !self.served.contains(&number)
            && !thread.more_sites
            && thread.sites.is_disjoint(&self.shell)
    }

    /// Whether it can carry out puts from outside.
    fn is_from_outside(&self, number: u32, thread: &Thread) -> bool {
        thread.puts || thread.writes && !self.is_inner(number, thread)
    }

    /// Whether everything that happens in the thread begins there, and not with a request in another thread.
    fn begins_all(&self, number: u32) -> bool {
        let begins = |role: &Role| matches!(role, Role::Scan | Role::CaServer | Role::PvaServer | Role::Main);
        self.roles.get(&number).is_some_and(|roles| roles.iter().all(begins))
    }

    /// Whether it only works through scan lists, as far as its names tell.
    fn only_scans(&self, number: u32, thread: &Thread) -> bool {
        let roles = self.roles.get(&number);
        roles.is_some_and(|roles| roles.iter().all(|role| *role == Role::Scan))
            && !self.served.contains(&number)
            && !thread.puts
            && !thread.link_puts
    }

    /// Whether each put in the thread is to one record, and not to a group.
    fn puts_one_by_one(&self, number: u32) -> bool {
        let one = |role: &Role| matches!(role, Role::CaServer | Role::Main);
        self.roles.get(&number).is_some_and(|roles| roles.iter().all(one))
    }

    /// Whether the purpose of the thread is known.
    fn is_known(&self, number: u32) -> bool {
        self.roles.get(&number).is_some_and(|roles| !roles.contains(&Role::Other))
    }
}

impl Selection {
    /// Looks through these blocks of a run's segments. `None` if everything must be read.
    pub fn of(files: &[SegmentFile], blocks: Blocks, interest: &Interest) -> Option<Selection> {
        let gathered = Arc::new(Mutex::new(Gathered::default()));
        let unlisted = Arc::clone(&gathered);
        let choose = move |about: &About| {
            let listed = about.contents.as_ref().is_some_and(is_exact);
            // if its body is damaged, its hits are read by nobody: then too much is selected
            if listed && !about.defines {
                return Choice::Skip;
            }
            let gathered = Arc::clone(&unlisted);
            if about.classes.is_none() {
                gathered.lock().unwrap_or_else(PoisonError::into_inner).hopeless = true;
                return Choice::Skip;
            }
            Choice::Only(Arc::new(move |shape: &Shape| {
                if let (Some(thread), false) = (shape.thread, listed) {
                    let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                    gathered.hit(thread, shape.record, shape.put);
                }
                false
            }))
        };
        let names = match interest {
            Interest::Puts => Vec::new(),
            Interest::PutsTo(names) | Interest::Records(names) | Interest::Chains(names) => names.clone(),
        };
        let mut purposes = Purposes { names, ..Purposes::default() };
        for part in Scan::new(files, blocks).choosing(Arc::new(choose)) {
            let Part::Block(block) = part else { continue };
            let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            if gathered.hopeless {
                return None;
            }
            let contents = block.about.as_ref().and_then(|about| about.contents.as_ref());
            if let Some(contents) = contents.filter(|contents| is_exact(contents)) {
                contents.threads.iter().flatten().for_each(|thread| gathered.listed(thread));
            }
            for event in &block.events {
                purposes.take(event.time, &event.fact);
                match &event.fact {
                    Fact::RsetProcess(hit) => gathered.hit(hit.thread, Some(hit.record), None),
                    Fact::CaLinkPut(hit) => {
                        gathered.hit(hit.thread, hit.record, None);
                        gathered.threads.entry(hit.thread).or_default().link_puts = true;
                    }
                    _ => {}
                }
            }
        }
        let gathered = std::mem::take(&mut *gathered.lock().unwrap_or_else(PoisonError::into_inner));
        if gathered.hopeless {
            return None;
        }
        match interest {
            Interest::Puts => of_puts(&gathered.threads, &purposes, None),
            Interest::PutsTo(_) => {
                let wanted = purposes.put_to();
                of_puts(&gathered.threads, &purposes, wanted.as_ref())
            }
            Interest::Chains(_) => {
                purposes.records = purposes.put_to()?;
                let mut selection = Selection { records: purposes.records.clone(), ..Selection::default() };
                for (number, thread) in &gathered.threads {
                    if purposes.is_from_outside(*number, thread) {
                        selection.records.extend(thread.records.as_ref()?);
                        selection.threads.insert(*number);
                    }
                }
                let is_known = |number: &u32| purposes.begins_all(*number);
                let has_links = gathered.threads.values().any(|thread| thread.link_puts);
                let all_known = selection.threads.iter().all(is_known);
                (all_known && !has_links).then_some(selection)?.with_related(&gathered.threads, &purposes)
            }
            Interest::Records(_) => {
                let seed = Selection { records: purposes.records.clone(), ..Selection::default() };
                let selection = seed.with_related(&gathered.threads, &purposes)?;
                let fewer = selection.narrowed(files, blocks, &gathered.threads, &purposes);
                Some(fewer.unwrap_or(selection))
            }
        }
    }

    /// The same with all threads that touched one of its records, and what these touched, and so on. `None` if something in one
    /// of them may begin elsewhere.
    fn with_related(mut self, threads: &HashMap<u32, Thread>, purposes: &Purposes) -> Option<Selection> {
        loop {
            let before = self.threads.len();
            for (number, thread) in threads {
                let records = thread.records.as_ref()?;
                if self.threads.contains(number) || !thread.link_puts && records.is_disjoint(&self.records) {
                    continue;
                }
                if !purposes.begins_all(*number) {
                    return None;
                }
                self.threads.insert(*number);
                self.records.extend(records);
            }
            if self.threads.len() == before {
                break;
            }
        }
        Some(self)
    }

    /// The same with only those records of scan threads that have to do with what is asked for. `None` if that can't be
    /// told.
    fn narrowed(
        &self,
        files: &[SegmentFile],
        blocks: Blocks,
        threads: &HashMap<u32, Thread>,
        purposes: &Purposes,
    ) -> Option<Selection> {
        let scans = |number: &u32| threads.get(number).is_some_and(|of| purposes.only_scans(*number, of));
        let scanning: HashSet<u32> = self.threads.iter().copied().filter(scans).collect();
        let begins: HashSet<u32> = purposes.begins.difference(&purposes.others).copied().collect();
        if scanning.is_empty() || begins.is_empty() || purposes.context.refused() > 0 {
            return None;
        }
        let mut groups = Groups::default();
        let unfit = episodes::group(files, blocks, &scanning, &begins, &mut groups)?;
        let whole = |number: &u32| !scanning.contains(number) || unfit.contains(number);
        let mut wanted: HashSet<u32> = HashSet::new();
        for number in self.threads.iter().filter(|number| whole(number)) {
            let of = threads.get(number)?;
            let mut records = of.records.as_ref()?.iter().copied();
            let Some(first) = records.next() else { continue };
            records.for_each(|record| groups.unite(first, record));
        }
        for number in self.threads.iter().filter(|number| whole(number)) {
            let of = threads.get(number)?;
            if of.link_puts {
                wanted.extend(of.records.as_ref()?.iter().map(|record| groups.of(*record)));
            }
        }
        wanted.extend(purposes.records.iter().map(|record| groups.of(*record)));
        let records = groups.members(&wanted);
        let selected = |number: &&u32| {
            let touches = |of: &Thread| {
                of.link_puts || of.records.as_ref().is_none_or(|touched| !touched.is_disjoint(&records))
            };
            whole(number) && threads.get(number).is_some_and(touches)
        };
        let threads = self.threads.iter().filter(selected).copied().collect();
        Some(Selection { threads, records })
    }

    /// Decides about each block of the run.
    pub fn choose(self) -> Arc<Choose> {
        let quick = |numbers: HashSet<u32>| numbers.into_iter().map(|number| (number, ())).collect();
        let selected = Arc::new(Selected { threads: quick(self.threads), records: quick(self.records) });
        Arc::new(move |about: &About| {
            if selected.may_matter(about) {
                let selected = Arc::clone(&selected);
                Choice::Only(Arc::new(move |shape: &Shape| selected.wants(shape)))
            } else {
                Choice::Pass
            }
        })
    }
}

/// What is selected, as it is asked for: a block of scanning has two thousand shapes.
struct Selected {
    threads: Numbered<u32, ()>,
    records: Numbered<u32, ()>,
}

impl Selected {
    fn may_matter(&self, about: &About) -> bool {
        let (Some(classes), Some(contents)) = (about.classes, &about.contents) else { return true };
        if about.defines
            || classes.network()
            || classes.link_puts()
            || classes.readings()
            || classes.notes()
            || classes.snapshots()
            || self.records.len() > MAX_SOUGHT
        {
            return true;
        }
        let Some(threads) = &contents.threads else { return true };
        threads.iter().any(|of| {
            self.threads.contains_key(&of.thread)
                || self.records.keys().any(|record| of.records.may_hold(*record))
        })
    }

    fn wants(&self, shape: &Shape) -> bool {
        shape.circuit.is_some()
            || shape.thread.is_some_and(|thread| self.threads.contains_key(&thread))
            || shape.record.is_some_and(|record| self.records.contains_key(&record))
    }
}

/// `wanted`: the records to which puts are asked for; `None`: all.
fn of_puts(
    threads: &HashMap<u32, Thread>,
    purposes: &Purposes,
    wanted: Option<&HashSet<RecordId>>,
) -> Option<Selection> {
    let is_wanted = |record: &RecordId| wanted.is_none_or(|wanted| wanted.contains(record));
    let from_outside = |(number, thread): &(&u32, &Thread)| purposes.is_from_outside(**number, thread);
    let mut selection = Selection::default();
    let mut put_to: HashSet<u32> = HashSet::new();
    for (number, thread) in threads.iter().filter(from_outside) {
        if !purposes.is_known(*number) {
            return None;
        }
        selection.threads.insert(*number);
        let of_thread = thread.put_to.as_ref()?;
        let all_count = !purposes.puts_one_by_one(*number) && of_thread.iter().any(is_wanted);
        put_to.extend(of_thread.iter().copied().filter(|record| all_count || is_wanted(record)));
    }
    for (number, thread) in threads {
        // A thread whose records are not known may process any.
        if thread.records.as_ref().is_none_or(|records| !records.is_disjoint(&put_to)) {
            selection.threads.insert(*number);
        }
    }
    for number in &selection.threads {
        if let Some(thread) = threads.get(number) {
            selection.records.extend(thread.records.as_ref()?);
        }
    }
    Some(selection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Channel, Origin};

    /// A client may name any number of fields, of any length, which the record does not have.
    #[test]
    fn channels_are_remembered_up_to_a_bound() {
        let (names, channel_count) = (vec!["X".to_owned()], MAX_CHANNELS - 1);
        let mut purposes = Purposes { names, channel_count, ..Purposes::default() };
        let channel = |field: &str| {
            let (cid, sid, dbr, count, origin) = (None, None, None, None, Origin::Opened);
            let (id, circuit, pv) = (1, 1, format!("X.{field}"));
            Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin })
        };
        purposes.take(0, &channel(&"F".repeat(500)));
        assert!(!purposes.too_many_channels);
        purposes.take(0, &channel("GRP"));
        let fields = purposes.channels.values().flatten().map(|(_, field)| field.len());
        assert_eq!(fields.collect::<Vec<_>>(), [MAX_FIELD + 1]);
        assert!(purposes.too_many_channels && purposes.put_to().is_none());
    }
}
