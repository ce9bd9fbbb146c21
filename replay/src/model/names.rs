//! Names of records, IOCs and hosts, each held once for all values that mention it.
//!
//! Also remembers which fields a filter selects: patterns are compared once for each field, not for each value.

use super::numbered::{Keyed, OfRecords};
use super::run::{record_name, Run};
use crate::filter::Filter;
use crate::room;
use iocrec_log::context::Context;
use iocrec_log::event::{Ioc, IocId, RecordId};
use std::hash::{Hash, Hasher};
use std::rc::{Rc, Weak};

/// Names held; a bound for hostile logs. Beyond it they are read again.
const MAX_NAMES: usize = 500_000;

/// Fields remembered of a record; likewise. A record of EPICS Base has at most some 200.
const MAX_FIELDS: usize = 1000;

/// The name of value fields.
const VALUE: &str = "VAL";

/// Names of fields that are shared; likewise. All record types of EPICS Base together have fewer.
const MAX_SHARED: usize = 10_000;

/// A process that is or was an IOC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IocProcess {
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// Name of the IOC; empty if unknown.
    pub ioc: Rc<str>,
    /// Boot id of the host. Process id, and start in nanoseconds after boot: together they tell an IOC from the same
    /// IOC before a restart.
    pub boot: Rc<str>,
    /// Process id; 0 if unknown.
    pub pid: u32,
    /// Start of the process.
    pub start: u64,
}

/// It is part of the key of every value, so only what mostly tells processes apart is hashed.
impl Hash for IocProcess {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.pid, self.start).hash(state);
    }
}

/// A run, its host and boot id.
type Machine = (Weak<Run>, Rc<str>, Rc<str>);

/// The name of a field, and whether it is wanted.
type Wanted = (Rc<str>, bool);

/// A record, and which of its fields are wanted.
struct Record {
    name: Rc<str>,
    process: Rc<IocProcess>,
    /// Whether its VAL is, if that was asked for: for most records nothing else is.
    value: Option<bool>,
    #[allow(clippy::box_collection)] // two words fewer for every record
    others: Option<Box<Vec<Wanted>>>,
}

const _: () = assert!(size_of::<Record>() <= 40);

impl Record {
    /// A field that was asked for, and whether it is wanted. `value`: the name of VAL.
    fn field(&self, field: &str, value: &Rc<str>) -> Option<Wanted> {
        if *field == **value {
            return Some((Rc::clone(value), self.value?));
        }
        let found = self.others.iter().flat_map(|others| others.iter()).find(|(name, _)| **name == *field);
        found.cloned()
    }

    /// Remembers a field, as long as there are not too many.
    fn add(&mut self, field: Wanted) {
        if &*field.0 == VALUE {
            self.value = Some(field.1);
            return;
        }
        let others = self.others.get_or_insert_default();
        if others.len() < MAX_FIELDS {
            others.push(field);
        }
    }
}

/// Names by run and number.
pub struct Names {
    /// The runs seen. As long as one is held here, no other has its address.
    runs: Keyed<usize, Machine>,
    processes: Keyed<(usize, IocId), Rc<IocProcess>>,
    /// Records, and their numbers here.
    numbers: OfRecords<u32>,
    records: Vec<Record>,
    /// Names of fields: a hundred thousand records have the same few.
    fields: Keyed<Rc<str>, ()>,
    value: Rc<str>,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            runs: Keyed::default(),
            processes: Keyed::default(),
            numbers: OfRecords::default(),
            records: Vec::new(),
            fields: Keyed::default(),
            value: VALUE.into(),
        }
    }
}

/// A field that the filter selects.
pub struct Named {
    /// The process.
    pub process: Rc<IocProcess>,
    /// The record.
    pub record: Rc<str>,
    /// The field.
    pub field: Rc<str>,
}

/// Address of a run, to recognize it.
pub fn address(run: &Rc<Run>) -> usize {
    Rc::as_ptr(run).cast::<()>() as usize
}

impl Names {
    /// The process that is this IOC of the run; one without a name if the log does not know it.
    pub fn process(&mut self, run: &Rc<Run>, context: &Context, ioc: Option<&Ioc>) -> Rc<IocProcess> {
        let at = address(run);
        if let Some(known) = ioc.and_then(|ioc| self.processes.get(&(at, ioc.id))) {
            // the number may belong to another one by now
            if ioc
                .is_some_and(|ioc| (ioc.pid, ioc.start, &*ioc.name) == (known.pid, known.start, &*known.ioc))
            {
                return Rc::clone(known);
            }
        }
        let (host, boot) = self.host(run, context);
        let process = Rc::new(IocProcess {
            host,
            boot,
            ioc: ioc.map_or("", |ioc| ioc.name.as_str()).into(),
            pid: ioc.map_or(0, |ioc| ioc.pid),
            start: ioc.map_or(0, |ioc| ioc.start),
        });
        if let Some(ioc) = ioc {
            make_room(&mut self.processes);
            self.processes.insert((at, ioc.id), Rc::clone(&process));
        }
        process
    }

    /// Host and boot id of the run.
    fn host(&mut self, run: &Rc<Run>, context: &Context) -> (Rc<str>, Rc<str>) {
        let name = context.host().map_or("", |host| host.name.as_str());
        let boot = context.host().map_or("", |host| host.boot_id.as_str());
        match self.runs.get(&address(run)) {
            Some((_, host, id)) if **host == *name && **id == *boot => (Rc::clone(host), Rc::clone(id)),
            _ => {
                let (host, id): (Rc<str>, Rc<str>) = (name.into(), boot.into());
                if self.runs.len() >= MAX_NAMES {
                    *self = Names::default(); // another run may get the address of one that is forgotten
                }
                self.runs.insert(address(run), (Rc::downgrade(run), Rc::clone(&host), Rc::clone(&id)));
                (host, id)
            }
        }
    }

    /// The name of a record; `None` if the log does not name it.
    pub fn record(&mut self, run: &Rc<Run>, context: &Context, id: RecordId) -> Option<Rc<str>> {
        context.record(id)?;
        let number = self.look(run, context, id, || None)?;
        self.records.get(number).map(|record| Rc::clone(&record.name))
    }

    /// The field of a record, if the filter selects it. `ioc`: its IOC, if the log does not name the record. The filter
    /// must be the same in all calls.
    pub fn field<'a>(
        &mut self,
        run: &Rc<Run>,
        context: &'a Context,
        id: RecordId,
        field: &str,
        ioc: impl FnOnce() -> Option<&'a Ioc>,
        filter: &Filter,
    ) -> Option<Named> {
        let number = self.look(run, context, id, ioc)?;
        let Names { records, fields: shared, value, .. } = self;
        let known = records.get_mut(number)?;
        let (field, wanted) = match known.field(field, value) {
            Some(known) => known,
            None => {
                let wanted =
                    filter.field(&known.name, field) && filter.place(&known.process.host, &known.process.ioc);
                let field = if *field == **value { Rc::clone(value) } else { share(shared, field) };
                known.add((Rc::clone(&field), wanted));
                (field, wanted)
            }
        };
        wanted.then(|| Named { process: Rc::clone(&known.process), record: Rc::clone(&known.name), field })
    }

    /// The number of a record here.
    fn look<'a>(
        &mut self,
        run: &Rc<Run>,
        context: &'a Context,
        id: RecordId,
        ioc: impl FnOnce() -> Option<&'a Ioc>,
    ) -> Option<usize> {
        let record = context.record(id);
        let number = self.numbers.get(address(run), id).map(|number| number as usize);
        if let Some((number, known)) = number.and_then(|number| Some((number, self.records.get(number)?))) {
            if record.is_some_and(|record| record.name == &*known.name) {
                return Some(number);
            }
        }
        let ioc = match record {
            Some(record) => context.ioc(record.ioc),
            None => ioc(),
        };
        let process = self.process(run, context, ioc);
        let name = record_name(context, id).into();
        let named = Record { name, process, value: None, others: None };
        // it may have made room
        let number = self.numbers.get(address(run), id).map(|number| number as usize);
        if let Some((number, known)) = number.and_then(|number| Some((number, self.records.get_mut(number)?)))
        {
            *known = named;
            return Some(number);
        }
        if self.records.len() >= MAX_NAMES {
            (self.numbers, self.records) = (OfRecords::default(), Vec::new());
        }
        let number = self.records.len();
        room::for_one_more(&mut self.records);
        self.records.push(named);
        self.numbers.insert(address(run), id, u32::try_from(number).ok()?);
        Some(number)
    }
}

/// The name of a field, held once for all records that have it.
fn share(shared: &mut Keyed<Rc<str>, ()>, field: &str) -> Rc<str> {
    if let Some((known, ())) = shared.get_key_value(field) {
        return Rc::clone(known);
    }
    let name: Rc<str> = field.into();
    if shared.len() < MAX_SHARED {
        shared.insert(Rc::clone(&name), ());
    }
    name
}

/// Empties a map that is full.
fn make_room<K, V>(map: &mut Keyed<K, V>) {
    if map.len() >= MAX_NAMES {
        map.clear();
    }
}
