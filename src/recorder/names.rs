//! The numbers that the log gives to what lasts: IOCs, threads, records, fields, call sites.
//!
//! Hits carry addresses. The first hit of each address is the moment to read its name out of the IOC, and
//! to define it in the log before it is used; after that a hit costs a look-up in a hash map.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use iocrec_log::event::{
    Alias, Event, Fact, Field, FieldId, IocId, Loss, LossSource, Menu, MenuId, Record, RecordId, Site,
    SiteId, States, Thread, ThreadId,
};

use super::selection::Selection;
use super::sink::Sink;
use crate::ioc::elf::function_at;
use crate::ioc::records::{self, RecordAt};
use crate::ioc::{process, IocProcess};

/// PVNAME_STRINGSZ of dbDefs.h, 61 with the NUL: a record's name is the first member of dbCommon.
const RECORD_NAME: usize = 60;
/// A program has a handful of places that call the probed functions. Something that jumps in from
/// everywhere (generated code) is not worth a definition each.
const MAX_SITES: usize = 4096;

/// Records are defined so many at a time before the sink may pass them on.
const RECORDS_AT_ONCE: usize = 1024;

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

type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// A traced IOC.
pub struct Traced {
    /// Its number.
    pub id: IocId,
    /// The process.
    pub process: IocProcess,
    /// What its lists of records claimed to hold when they were last walked.
    claimed: u64,
}

/// A thread that hits come from.
#[derive(Clone, Copy)]
pub struct KnownThread {
    /// Its number.
    pub id: ThreadId,
    pid: u32,
    stack: u64,
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

/// Everything that has a number.
#[derive(Default)]
pub struct Names {
    iocs: HashMap<u32, Traced>,
    threads: AddressMap<u32, KnownThread>,
    /// `None`: not wanted.
    records: AddressMap<(u32, u64), Option<RecordId>>,
    /// `None`: its description made no sense.
    fields: AddressMap<(u32, u64), Option<FieldId>>,
    menus: AddressMap<(u32, u64), MenuId>,
    sites: AddressMap<(u32, u64), SiteId>,
    last_ioc: IocId,
    last_thread: ThreadId,
    last_record: RecordId,
    last_field: FieldId,
    last_menu: MenuId,
    last_site: SiteId,
}

impl Names {
    /// A number for an IOC.
    pub fn next_ioc(&mut self) -> IocId {
        self.last_ioc += 1;
        self.last_ioc
    }

    /// Takes an IOC in.
    pub fn add(&mut self, id: IocId, process: IocProcess) {
        self.iocs.insert(process.pid, Traced { id, process, claimed: 0 });
    }

    /// The traced IOC of a process.
    pub fn ioc(&self, pid: u32) -> Option<&Traced> {
        self.iocs.get(&pid)
    }

    /// The traced IOC of a process, to be looked at again.
    pub fn ioc_mut(&mut self, pid: u32) -> Option<&mut Traced> {
        self.iocs.get_mut(&pid)
    }

    /// All traced IOCs.
    pub fn iocs(&mut self) -> impl Iterator<Item = &mut Traced> {
        self.iocs.values_mut()
    }

    /// An IOC is gone, and all that was its.
    pub fn remove(&mut self, pid: u32) -> Option<Traced> {
        let gone = self.iocs.remove(&pid)?;
        self.threads.retain(|_, thread| thread.pid != pid);
        self.records.retain(|key, _| key.0 != pid);
        self.fields.retain(|key, _| key.0 != pid);
        self.menus.retain(|key, _| key.0 != pid);
        self.sites.retain(|key, _| key.0 != pid);
        Some(gone)
    }

    /// Forgets threads that have ended, since the kernel gives their numbers out again.
    pub fn sweep_threads(&mut self) {
        let alive: HashSet<u32> = self.iocs.keys().flat_map(|&pid| process::threads(pid)).collect();
        self.threads.retain(|tid, _| alive.contains(tid));
    }

    /// A thread, defined at its first hit; the second of the pair then.
    pub fn thread(
        &mut self,
        time: u64,
        pid: u32,
        tid: u32,
        sp: u64,
        sink: &mut dyn Sink,
    ) -> Option<(KnownThread, Option<NewThread>)> {
        if let Some(known) = self.threads.get(&tid).filter(|thread| thread.pid == pid) {
            return Some((*known, None));
        }
        let ioc = self.iocs.get(&pid)?.id;
        self.last_thread += 1;
        let id = self.last_thread;
        let known = KnownThread { id, pid, stack: sp };
        self.threads.insert(tid, known);
        let name = process::thread_name(pid, tid);
        sink.push(Event { time, fact: Fact::Thread(Thread { id, ioc, tid, name, stack: sp }) });
        Some((known, Some(NewThread { id, pid, tid, time })))
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
        let memory = &ioc.process.memory;
        let name = memory.string(address, RECORD_NAME).unwrap_or_default();
        if name.is_empty() {
            let cause = format!("the record at {address:#x} has no name that can be read");
            let loss = Loss { source: LossSource::Names, count: 1, since: time, cause };
            sink.push(Event { time, fact: Fact::Loss(loss) });
        }
        if !selection.record(&name) {
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

    /// Defines all records of an IOC that have no number yet, if its lists of records have changed since the
    /// last time. `None`: they have not.
    ///
    /// # Errors
    /// What in the IOC's lists did not make sense, in words. Records that were not found are named when they
    /// are hit.
    pub fn walk(
        &mut self,
        time: u64,
        pid: u32,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Option<Result<(), String>> {
        let ioc = self.iocs.get_mut(&pid)?;
        let (memory, layout) = (&ioc.process.memory, ioc.process.layout.as_ref().ok()?);
        let claimed = layout.claimed(memory);
        if claimed == ioc.claimed {
            return None;
        }
        ioc.claimed = claimed;
        let (id, records, last) = (ioc.id, &mut self.records, &mut self.last_record);
        let (mut seen, mut found) = (0, 0u64);
        let walked = records::walk(memory, layout, &mut |record| {
            found += 1;
            define(id, pid, time, record, selection, records, last, sink);
            seen += 1;
            if seen == RECORDS_AT_ONCE {
                seen = 0;
                sink.tick(time);
            }
        });
        if let Err(reason) = &walked {
            // a list that claims nonsense does not tell how many are missing
            let known = claimed <= records::MAX_NODES as u64;
            let count = if known { claimed.saturating_sub(found) } else { 0 };
            let loss = Loss { source: LossSource::Names, count, since: time, cause: reason.clone() };
            sink.push(Event { time, fact: Fact::Loss(loss) });
        }
        Some(walked)
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
        let menu = layout.menu(&ioc.process.memory, description).map(|menu| {
            *self.menus.entry((pid, menu.address)).or_insert_with(|| {
                self.last_menu += 1;
                let (id, name, choices) = (self.last_menu, menu.name, menu.choices);
                sink.push(Event { time, fact: Fact::Menu(Menu { id, ioc: ioc.id, name, choices }) });
                id
            })
        });
        self.last_field += 1;
        let id = self.last_field;
        sink.push(Event { time, fact: Fact::Field(Field { id, ioc: ioc.id, rtype, name, dbf, menu }) });
        *place.insert(Some(id))
    }

    /// The place that called; 0 where not known.
    pub fn site(&mut self, time: u64, pid: u32, address: u64, sink: &mut dyn Sink) -> SiteId {
        if address == 0 {
            return 0;
        }
        if let Some(&known) = self.sites.get(&(pid, address)) {
            return known;
        }
        let Some(ioc) = self.iocs.get(&pid).filter(|_| self.sites.len() < MAX_SITES) else { return 0 };
        let module = ioc.process.module_at(address);
        // a return address is that of the instruction behind the call, which may be the next function's
        let function = module.map(|module| function_at(&module.open, address.wrapping_sub(module.bias + 1)));
        // also of code that is not EPICS Base: a PVAccess server's, an extension module's of Python
        let path = module.map(|module| module.path.clone()).or_else(|| {
            let mappings = process::mappings(pid).ok()?;
            Some(mappings.into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?.path)
        });
        let name = path.as_deref().and_then(|path| path.rsplit('/').next());
        self.last_site += 1;
        let site = Site {
            id: self.last_site,
            ioc: ioc.id,
            address,
            function: function.unwrap_or_default(),
            module: name.unwrap_or_default().to_string(),
        };
        sink.push(Event { time, fact: Fact::Site(site) });
        self.sites.insert((pid, address), self.last_site);
        self.last_site
    }
}

/// Defines a record that was found in an IOC's lists, or another name of one.
#[allow(clippy::too_many_arguments)] // parts of Names, of which others are borrowed meanwhile
fn define(
    ioc: IocId,
    pid: u32,
    time: u64,
    found: RecordAt<'_>,
    selection: &Selection,
    records: &mut AddressMap<(u32, u64), Option<RecordId>>,
    last: &mut RecordId,
    sink: &mut dyn Sink,
) {
    let RecordAt { address, name, rtype, alias, states } = found;
    if alias {
        // of a record that is not wanted or was not believed: nothing to tie the name to
        if let Some(&Some(record)) = records.get(&(pid, address)) {
            sink.push(Event { time, fact: Fact::Alias(Alias { record, name }) });
        }
        return;
    }
    let Entry::Vacant(place) = records.entry((pid, address)) else { return };
    if !selection.record(&name) {
        place.insert(None);
        return;
    }
    *last += 1;
    let id = *last;
    place.insert(Some(id));
    let rtype = rtype.name.clone();
    sink.push(Event { time, fact: Fact::Record(Record { id, ioc, address, name, rtype }) });
    if !states.is_empty() {
        sink.push(Event { time, fact: Fact::States(States { record: id, states }) });
    }
}
