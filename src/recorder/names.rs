//! The numbers that the log gives to what lasts: IOCs, threads, records, fields, call sites.
//!
//! Hits carry addresses. The first hit of each address is the moment to read its name out of the IOC, and
//! to define it in the log before it is used; after that a hit costs a look-up in a hash map.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use iocrec_log::event::{
    Alias, CallSite, CallSiteId, ChainsLeftOut, EnumStrings, Event, Fact, Field, FieldId, FieldValue, IocId,
    Loss, LossSource, Menu, MenuId, PactCheck, Record, RecordId, ScanListId, Thread, ThreadId, Value,
};

use crate::bpf::maps::LeftOut;
use crate::inspector::{FoundRecord, Request};
use crate::ioc::{fields, layout, menus, records, scanning, threads, Database, IocProcess};
use crate::linux::{clock, process};
use crate::recorder::after_puts::{AfterPuts, PutTo};
use crate::recorder::lists::Lists;
use crate::recorder::selection::Selection;
use crate::recorder::sink::Sink;

/// Bytes of a record's name without its NUL; the name is the first member of dbCommon.
const RECORD_NAME: usize = epics::limits::PVNAME_STRINGSZ - 1;
/// A program has a handful of places that call the probed functions. Something that jumps in from
/// everywhere (generated code) is not worth a definition each.
const MAX_SITES: usize = 4096;

/// When what a put has changed is read again, nanoseconds after it: dbPut works within microseconds, but may wait for
/// the lock of a scan list that is long; and once more, in case it did.
const SOON: u64 = 20_000_000;
const LATER: u64 = 1_000_000_000;

/// Links of CA links whose records are remembered: of more, each put's is looked for anew.
const MAX_OWNERS: usize = 100_000;

/// Which CP links a record has is told again after so long, nanoseconds, so that it is in every log of some minutes;
/// and of so many records a second, since it takes a read for each link.
const LINKS_HOLD: u64 = 60_000_000_000;
const LINKS_A_SECOND: u32 = 20;

/// Hashes numbers and addresses, which nobody chooses with bad intent: each is multiplied by 2^64 divided by
/// the golden ratio (Knuth, The Art of Computer Programming 3, 6.4), the well-mixed high bits folded down.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map by numbers and addresses.
pub type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// A traced IOC.
pub struct Traced {
    /// Its number.
    pub id: IocId,
    /// The process, as it was looked at last.
    pub process: Arc<IocProcess>,
    lists: Lists,
}

/// A thread that hits come from.
#[derive(Clone, Copy)]
pub struct KnownThread {
    /// Its number.
    pub id: ThreadId,
    pid: u32,
    stack: u64,
    /// Its puts come from outside, though the IOC has no function for that: a PVA server's, or Python code's.
    serves: bool,
    /// Processes records for their CP links: which those are is then told.
    follows_links: bool,
    /// The record that has begun to process last and may still be at it.
    begun: Option<Begun>,
}

/// A record that has begun to process.
#[derive(Clone, Copy)]
struct Begun {
    address: u64,
    sp: u64,
    time: u64,
}

/// What a hit means for what its thread is at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A record, by its address, begins to process.
    Process(u64),
    /// A record is done.
    Complete(u64),
    /// Something else.
    Other,
}

/// What is to be read again of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Again {
    /// On which scan list it is.
    Scan,
    /// The texts of its states.
    EnumStrings,
}

impl Again {
    /// What a put to a field of that name makes worth reading again.
    fn after(field: &str) -> Option<Again> {
        match field {
            "SCAN" | "PRIO" | "EVNT" => Some(Again::Scan),
            "ZNAM" | "ONAM" | "ZRST" | "ONST" | "TWST" | "THST" | "FRST" | "FVST" | "SXST" | "SVST"
            | "EIST" | "NIST" | "TEST" | "ELST" | "TVST" | "TTST" | "FTST" | "FFST" => {
                Some(Again::EnumStrings)
            }
            _ => None,
        }
    }
}

/// When something is to be read again.
struct Due {
    record: RecordId,
    next: u64,
    /// And a last time.
    last: u64,
}

impl KnownThread {
    /// A stack pointer as the log has it.
    pub fn relative(&self, sp: u64) -> i64 {
        sp.wrapping_sub(self.stack).cast_signed()
    }
}

/// A thread that had its first hit just now.
pub struct NewThread {
    /// Its number.
    pub id: ThreadId,
    /// Its process.
    pub pid: u32,
    /// Its number in the kernel.
    pub tid: u32,
    /// When.
    pub time: u64,
}

/// A record that the BPF programs are to be told of.
pub struct NewRecord {
    /// Its process.
    pub pid: u32,
    /// Address of its dbCommon.
    pub address: u64,
    /// Is it one that the user wants?
    pub wanted: bool,
}

/// Everything that has a number.
#[derive(Default)]
pub struct Names {
    /// Records that have come up since this was last emptied; `None` where nobody wants to know.
    pub new_records: Option<Vec<NewRecord>>,
    /// IOCs whose record database was found to be gone.
    pub gone: HashSet<u32>,
    iocs: HashMap<u32, Traced>,
    threads: AddressMap<u32, KnownThread>,
    /// `None`: not wanted.
    records: AddressMap<(u32, u64), Option<RecordId>>,
    /// `None`: its description made no sense.
    fields: AddressMap<(u32, u64), Option<FieldId>>,
    menus: AddressMap<(u32, u64), MenuId>,
    /// Nodes of other names that the log has.
    aliases: HashSet<(u32, u64), BuildHasherDefault<AddressHasher>>,
    /// Fields whose puts make something else worth reading again.
    telling: HashMap<FieldId, Again>,
    again: HashMap<(u32, u64, Again), Due>,
    after: AfterPuts,
    /// Of structs of links that do not tell: the address of the record that they lie in.
    owners: AddressMap<(u32, u64), u64>,
    /// Records whose CP links were told, and when; the second that is counted in, and how many were told in it.
    linked: AddressMap<(u32, u64), u64>,
    telling_links: (u64, u32),
    /// Records that have begun to process and came back without being done, and when.
    undone: AddressMap<(u32, u64), u64>,
    sites: AddressMap<(u32, u64), CallSiteId>,
    /// What others are to look up; emptied by whoever sends them.
    pub wanted: Vec<Request>,
    last_ioc: IocId,
    last_thread: ThreadId,
    last_record: RecordId,
    last_field: FieldId,
    last_menu: MenuId,
    last_list: ScanListId,
    last_site: CallSiteId,
}

impl Names {
    /// Without any; collects new records for the BPF programs if these want to know.
    pub fn new(collects: bool) -> Names {
        Names { new_records: collects.then(Vec::new), ..Names::default() }
    }

    /// A number for an IOC.
    pub fn next_ioc(&mut self) -> IocId {
        self.last_ioc += 1;
        self.last_ioc
    }

    /// Takes an IOC in.
    pub fn add(&mut self, id: IocId, process: Arc<IocProcess>) {
        self.iocs.insert(process.pid, Traced { id, process, lists: Lists::default() });
    }

    /// The traced IOC of a process.
    pub fn ioc(&self, pid: u32) -> Option<&Traced> {
        self.iocs.get(&pid)
    }

    /// The traced IOC of a process, to be looked at again.
    pub fn ioc_mut(&mut self, pid: u32) -> Option<&mut Traced> {
        self.iocs.get_mut(&pid)
    }

    /// An IOC is gone, and all that was its.
    pub fn remove(&mut self, pid: u32) -> Option<Traced> {
        self.gone.remove(&pid);
        let gone = self.iocs.remove(&pid)?;
        if let Some(new) = &mut self.new_records {
            new.retain(|record| record.pid != pid);
        }
        self.threads.retain(|_, thread| thread.pid != pid);
        self.records.retain(|key, _| key.0 != pid);
        self.fields.retain(|key, _| key.0 != pid);
        self.menus.retain(|key, _| key.0 != pid);
        self.aliases.retain(|key| key.0 != pid);
        self.again.retain(|key, _| key.0 != pid);
        self.after.forget(pid);
        self.owners.retain(|key, _| key.0 != pid);
        self.linked.retain(|key, _| key.0 != pid);
        self.undone.retain(|key, _| key.0 != pid);
        self.sites.retain(|key, _| key.0 != pid);
        Some(gone)
    }

    /// Forgets threads that have ended, since the kernel gives their numbers out again. Gives back those that live.
    pub fn sweep_threads(&mut self) -> HashSet<u32> {
        let alive: HashSet<u32> = self.iocs.keys().flat_map(|&pid| process::threads(pid)).collect();
        self.threads.retain(|tid, _| alive.contains(tid));
        alive
    }

    /// A thread, defined at its first hit; the second of the pair then.
    pub fn thread(
        &mut self,
        time: u64,
        pid: u32,
        tid: u32,
        sp: u64,
        step: Step,
        sink: &mut dyn Sink,
    ) -> Option<(KnownThread, Option<NewThread>)> {
        if let Step::Complete(address) = step {
            self.after.completed(pid, tid, address);
            self.complete(pid, tid, address);
        }
        let begins = match step {
            Step::Process(address) => Some(Begun { address, sp, time }),
            _ => None,
        };
        if let Some(known) = self.threads.get_mut(&tid).filter(|thread| thread.pid == pid) {
            if let Some(begun) = known.begun {
                let done = step == Step::Complete(begun.address);
                // called from the same depth or above: the record's processing has come back
                let back = sp >= begun.sp;
                if back && !done {
                    self.undone.insert((pid, begun.address), begun.time);
                }
                if back || step != Step::Other {
                    known.begun = None;
                }
            }
            known.begun = begins.or(known.begun);
            return Some((*known, None));
        }
        let ioc = self.iocs.get(&pid)?.id;
        self.last_thread += 1;
        let id = self.last_thread;
        let name = self.thread_name(pid, tid);
        let serves = matches!(name.as_str(), "PVXTCP" | "TCP-rx") || name.starts_with("python");
        let follows_links = matches!(name.as_str(), "dbCaLink" | "CAC-event" | "scanOnce");
        let known = KnownThread { id, pid, stack: sp, serves, follows_links, begun: begins };
        self.threads.insert(tid, known);
        sink.push(Event { time, fact: Fact::Thread(Thread { id, ioc, tid, name, stack: sp }) });
        Some((known, Some(NewThread { id, pid, tid, time })))
    }

    /// A thread's name: Base 3.14 keeps it to itself.
    fn thread_name(&self, pid: u32, tid: u32) -> String {
        let own = self.iocs.get(&pid).filter(|ioc| ioc.process.abi.is_3_14()).and_then(|ioc| {
            threads::names(&ioc.process, &process::threads(pid).into_iter().collect()).remove(&tid)
        });
        own.unwrap_or_else(|| process::thread_name(pid, tid))
    }

    /// A record has completed, maybe on another thread than it began on.
    fn complete(&mut self, pid: u32, tid: u32, address: u64) {
        if !self.undone.is_empty() {
            self.undone.remove(&(pid, address));
        }
        let is_at = |thread: &KnownThread| thread.begun.is_some_and(|begun| begun.address == address);
        if self.threads.get(&tid).is_some_and(is_at) {
            return;
        }
        self.threads.values_mut().filter(|thread| thread.pid == pid && is_at(thread)).for_each(|thread| {
            thread.begun = None;
        });
    }

    /// A record, defined at its first hit; `None` if it is not wanted.
    pub fn record(
        &mut self,
        time: u64,
        pid: u32,
        address: u64,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Option<RecordId> {
        let place = match self.records.entry((pid, address)) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place,
        };
        let ioc = self.iocs.get(&pid)?;
        // a record that was not in the database may be another database's, and so may be all that comes from now on
        if self.gone.contains(&pid) || ioc.process.database() == Database::Gone {
            self.gone.insert(pid);
            return None;
        }
        let memory = &ioc.process.memory;
        let name = memory.string(address, RECORD_NAME).unwrap_or_default();
        if name.is_empty() {
            let cause = format!("the record at {address:#x} has no name that can be read");
            let loss = Loss { source: LossSource::Names, count: 1, since: time, cause };
            sink.push(Event { time, fact: Fact::Loss(loss) });
        }
        let wanted = selection.record(&name);
        if let Some(new) = &mut self.new_records {
            new.push(NewRecord { pid, address, wanted });
        }
        if !wanted {
            return *place.insert(None);
        }
        self.last_record += 1;
        let id = self.last_record;
        let layout = ioc.process.layout.as_ref().ok();
        let rtype = layout.and_then(|layout| layout.type_of(memory, address)).map(|rtype| rtype.name.clone());
        let record = Record { id, ioc: ioc.id, address, name, rtype: rtype.unwrap_or_default() };
        sink.push(Event { time, fact: Fact::Record(record) });
        *place.insert(Some(id))
    }

    /// Defines those of an IOC's records that have no number yet.
    pub fn define(
        &mut self,
        time: u64,
        pid: u32,
        found: Vec<FoundRecord>,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) {
        let Some(ioc) = self.iocs.get_mut(&pid) else { return };
        let (id, records, last) = (ioc.id, &mut self.records, &mut self.last_record);
        let (aliases, new) = (&mut self.aliases, &mut self.new_records);
        let mut fresh: Vec<(RecordId, u64)> = Vec::with_capacity(found.len());
        for record in found {
            let (address, alias) = (record.address, record.alias);
            let known = define(id, pid, time, record, selection, records, aliases, new, last, sink);
            fresh.extend(known.filter(|_| !alias).map(|record| (record, address)));
        }
        for fresh in fresh.chunks(scanning::BATCH) {
            ioc.lists.look(time, id, &ioc.process, fresh, &mut self.last_list, sink);
        }
    }

    /// Says that not all of an IOC's records were found: of as many as its lists claim to hold so many were.
    pub fn not_all(&self, time: u64, claimed: u64, found: u64, cause: String, sink: &mut dyn Sink) {
        // a list that claims nonsense does not tell how many are missing
        let known = claimed <= records::MAX_NODES as u64;
        let count = if known { claimed.saturating_sub(found) } else { 0 };
        let loss = Loss { source: LossSource::Names, count, since: time, cause };
        sink.push(Event { time, fact: Fact::Loss(loss) });
    }

    /// Tells of chains that were left out, of records that have numbers.
    pub fn thinned(&self, time: u64, left_out: &[LeftOut], sink: &mut dyn Sink) {
        for &LeftOut { pid, record, since, count } in left_out {
            if let Some(record) = self.known_record(pid, record) {
                sink.push(Event { time, fact: Fact::ChainsLeftOut(ChainsLeftOut { record, count, since }) });
            }
        }
    }

    /// The number of a thread that has one already.
    pub fn known_thread(&self, tid: u32) -> Option<ThreadId> {
        self.threads.get(&tid).map(|thread| thread.id)
    }

    /// A record that has a number already.
    pub fn known_record(&self, pid: u32, address: u64) -> Option<RecordId> {
        self.records.get(&(pid, address)).copied().flatten()
    }

    /// A field by the address of its description.
    pub fn field(&mut self, time: u64, pid: u32, description: u64, sink: &mut dyn Sink) -> Option<FieldId> {
        let place = match self.fields.entry((pid, description)) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place,
        };
        let ioc = self.iocs.get(&pid)?;
        let layout = ioc.process.layout.as_ref().ok()?;
        let Some((rtype, name, dbf)) = layout.field(&ioc.process.memory, description) else {
            return *place.insert(None);
        };
        let menu = menus::menu(&ioc.process.memory, layout, description).map(|menu| {
            *self.menus.entry((pid, menu.address)).or_insert_with(|| {
                self.last_menu += 1;
                let (id, name, choices) = (self.last_menu, menu.name, menu.choices);
                sink.push(Event { time, fact: Fact::Menu(Menu { id, ioc: ioc.id, name, choices }) });
                id
            })
        });
        self.last_field += 1;
        let id = self.last_field;
        if let Some(again) = Again::after(&name) {
            self.telling.insert(id, again);
        }
        sink.push(Event { time, fact: Fact::Field(Field { id, ioc: ioc.id, rtype, name, dbf, menu }) });
        *place.insert(Some(id))
    }

    /// A put was made: what it changes besides its field is read again when the IOC has carried it out.
    pub fn note_put(&mut self, time: u64, pid: u32, address: u64, record: RecordId, field: Option<FieldId>) {
        let Some(&again) = field.and_then(|field| self.telling.get(&field)) else { return };
        let soon = time.saturating_add(SOON);
        let due = self.again.entry((pid, address, again)).or_insert(Due { record, next: soon, last: soon });
        due.next = due.next.min(soon);
        due.last = time.saturating_add(LATER);
    }

    /// What a put comes to is to be read from its field. `inner`: its hit is that of `dbPut`, which is there for
    /// others' puts, too.
    #[allow(clippy::too_many_arguments)] // a hit's parts
    pub fn look_after(
        &mut self,
        time: u64,
        pid: u32,
        tid: u32,
        (record, address): (RecordId, u64),
        (field, description): (FieldId, u64),
        old: &Value,
        inner: bool,
        sink: &mut dyn Sink,
    ) {
        let follows = inner && !self.threads.get(&tid).is_some_and(|thread| thread.serves);
        // what records put to each other is as frequent as their processing
        if follows && !self.after.has(pid, address) {
            return;
        }
        let Some(layout) = self.iocs.get(&pid).and_then(|ioc| ioc.process.layout.as_ref().ok()) else {
            return;
        };
        let told_by_processing = layout.is_plain_value(description);
        let to = PutTo { record, address, field, description, tid, told_by_processing };
        self.after.note(time, pid, to, old.clone(), follows, sink);
    }

    /// A record is processed in a thread, maybe for a CP link: tells which it has, if not told a while ago. The log then
    /// names the source where it can be but one.
    pub fn tell_links(
        &mut self,
        time: u64,
        pid: u32,
        record: (RecordId, u64),
        thread: &KnownThread,
        sink: &mut dyn Sink,
    ) {
        let (record, address) = record;
        let told =
            |names: &Names| names.linked.get(&(pid, address)).is_some_and(|told| told + LINKS_HOLD > time);
        if !thread.follows_links || told(self) {
            return;
        }
        let second = time / 1_000_000_000;
        if self.telling_links.0 != second {
            self.telling_links = (second, 0);
        }
        self.telling_links.1 += 1;
        if self.telling_links.1 > LINKS_A_SECOND {
            return;
        }
        if self.linked.len() >= MAX_OWNERS {
            self.linked.clear();
        }
        self.linked.insert((pid, address), time);
        let Some(ioc) = self.iocs.get(&pid) else { return };
        let Ok(layout) = &ioc.process.layout else { return };
        let links = fields::cp_links(&ioc.process.memory, layout, address);
        let now = clock::monotonic();
        for (description, value) in links {
            if let Some(field) = self.field(time, pid, description, sink) {
                sink.push(Event { time: now, fact: Fact::FieldValue(FieldValue { record, field, value }) });
            }
        }
    }

    /// A link of a record is changed: which it has is to be told anew.
    pub fn links_change(&mut self, pid: u32, address: u64) {
        self.linked.remove(&(pid, address));
    }

    /// The field that an acknowledgement of alarms is about, by the address of its description: ACKS or ACKT.
    pub fn acknowledged(&self, pid: u32, address: u64, severity: bool) -> Option<u64> {
        let ioc = self.iocs.get(&pid)?;
        let (memory, layout) = (&ioc.process.memory, ioc.process.layout.as_ref().ok()?);
        let (transient, severe) = layout.type_of(memory, address)?.acknowledge?;
        Some(if severity { severe } else { transient })
    }

    /// The address of the record that a struct link lies in, where it does not tell itself (before Base 3.16.1).
    pub fn owner(&mut self, pid: u32, link: u64) -> Option<u64> {
        if let Some(&known) = self.owners.get(&(pid, link)) {
            return Some(known);
        }
        let ioc = self.iocs.get(&pid)?;
        let (memory, layout) = (&ioc.process.memory, ioc.process.layout.as_ref().ok()?);
        // the last record that begins before it
        let records = self.records.keys().filter(|key| key.0 == pid && key.1 <= link);
        let record = records.map(|key| key.1).max()?;
        let end = record.checked_add(layout.type_of(memory, record)?.record_bytes.into())?;
        if link >= end || self.owners.len() >= MAX_OWNERS {
            return None;
        }
        self.owners.insert((pid, link), record);
        Some(record)
    }

    /// Reads again what is due. To be called some times a second.
    pub fn read_again(&mut self, now: u64, sink: &mut dyn Sink) {
        let iocs = &self.iocs;
        self.after.read(now, |pid| iocs.get(&pid).map(|ioc| &*ioc.process), sink);
        if self.again.is_empty() {
            return;
        }
        let (iocs, last_list) = (&mut self.iocs, &mut self.last_list);
        self.again.retain(|&(pid, address, again), due| {
            if due.next > now {
                return true;
            }
            let Some(ioc) = iocs.get_mut(&pid) else { return false };
            let record = due.record;
            match again {
                Again::Scan => {
                    ioc.lists.look(now, ioc.id, &ioc.process, &[(record, address)], last_list, sink);
                }
                Again::EnumStrings => {
                    let (memory, layout) = (&ioc.process.memory, ioc.process.layout.as_ref().ok());
                    let rtype = layout.and_then(|layout| layout.type_of(memory, address));
                    let states = rtype.and_then(|rtype| layout::states_of(memory, rtype, address));
                    if let Some(states) = states {
                        sink.push(Event {
                            time: now,
                            fact: Fact::EnumStrings(EnumStrings { record, states }),
                        });
                    }
                }
            }
            let more = due.last > due.next;
            due.next = due.last;
            more
        });
    }

    /// Looks up the scan lists of records that were on none yet.
    pub fn look_for_lists(&mut self, now: u64, sink: &mut dyn Sink) {
        for ioc in self.iocs.values_mut() {
            ioc.lists.look_again(now, ioc.id, &ioc.process, &mut self.last_list, sink);
        }
    }

    /// Looks at records that have begun to process before `before` and were not seen to be done: what they are
    /// at. Those that have not come back are told of only where PACT or DISA says why.
    pub fn inspect(&mut self, before: u64, sink: &mut dyn Sink) {
        let mut look: Vec<(u32, u64, bool)> = Vec::new();
        self.undone.retain(|&(pid, address), time| {
            let due = *time < before;
            if due {
                look.push((pid, address, true));
            }
            !due
        });
        for thread in self.threads.values_mut() {
            if let Some(begun) = thread.begun.take_if(|begun| begun.time < before) {
                look.push((thread.pid, begun.address, false));
            }
        }
        for (pid, address, back) in look {
            let (Some(ioc), Some(record)) = (self.iocs.get(&pid), self.known_record(pid, address)) else {
                continue;
            };
            let state = ioc.process.layout.as_ref().ok().and_then(|l| l.state(&ioc.process.memory, address));
            let Some((active, disabled)) = state.filter(|(active, disabled)| back || *active || *disabled)
            else {
                continue;
            };
            // The time after it was read: what has completed until then says so itself.
            let fact = Fact::PactCheck(PactCheck { record, active, disabled });
            sink.push(Event { time: clock::monotonic(), fact });
        }
    }

    /// The place that called; 0 where not known.
    pub fn site(&mut self, time: u64, pid: u32, address: u64, sink: &mut dyn Sink) -> CallSiteId {
        if address == 0 {
            return 0;
        }
        if let Some(&known) = self.sites.get(&(pid, address)) {
            return known;
        }
        let Some(ioc) = self.iocs.get(&pid).filter(|_| self.sites.len() < MAX_SITES) else { return 0 };
        self.last_site += 1;
        let id = self.last_site;
        let module = ioc.process.module_at(address).and_then(|module| module.path.rsplit('/').next());
        let module = module.unwrap_or_default().to_string();
        let site = CallSite { id, ioc: ioc.id, address, function: String::new(), module };
        sink.await_site(time, site);
        self.wanted.push(Request::CallSite { ioc: ioc.process.clone(), id, address });
        self.sites.insert((pid, address), id);
        id
    }
}

/// Defines a record that was found in an IOC's lists, or another name of one; its number, if it is wanted.
#[allow(clippy::too_many_arguments)] // parts of Names, of which others are borrowed meanwhile
fn define(
    ioc: IocId,
    pid: u32,
    time: u64,
    found: FoundRecord,
    selection: &Selection,
    records: &mut AddressMap<(u32, u64), Option<RecordId>>,
    aliases: &mut HashSet<(u32, u64), BuildHasherDefault<AddressHasher>>,
    new: &mut Option<Vec<NewRecord>>,
    last: &mut RecordId,
    sink: &mut dyn Sink,
) -> Option<RecordId> {
    let FoundRecord { address, name, rtype, alias, states, node } = found;
    if alias {
        // of a record that is not wanted or was not believed: nothing to tie the name to
        let record = records.get(&(pid, address)).copied().flatten()?;
        if aliases.insert((pid, node)) {
            sink.push(Event { time, fact: Fact::Alias(Alias { record, name }) });
        }
        return Some(record);
    }
    let place = match records.entry((pid, address)) {
        Entry::Occupied(known) => return *known.get(),
        Entry::Vacant(place) => place,
    };
    let wanted = selection.record(&name);
    if let Some(new) = new {
        new.push(NewRecord { pid, address, wanted });
    }
    if !wanted {
        return *place.insert(None);
    }
    *last += 1;
    let id = *last;
    place.insert(Some(id));
    sink.push(Event { time, fact: Fact::Record(Record { id, ioc, address, name, rtype }) });
    if !states.is_empty() {
        sink.push(Event { time, fact: Fact::EnumStrings(EnumStrings { record: id, states }) });
    }
    Some(id)
}
