//! The IOCs and records of all runs, each once.
//!
//! An IOC is a process: recorded in several runs of the recorder, it is one. Numbers of a run's definitions are looked
//! up here for every processed record, so the way to what is known is short.

use super::counts::Counts;
use super::notes::RunNotes;
use super::records::{Lately, RecordInfo};
use crate::answers::values::CLOCK_STEP;
use crate::model::finder::Finder;
use crate::model::packed_texts::PackedTexts;
use crate::model::run::{has_value, record_name, Run};
use crate::output::report::strings::Strings;
use crate::room;
use iocrec_log::context::Context;
use iocrec_log::event::{Ioc, IocId, RecordId};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// Bins of an IOC's processing.
const IOC_BINS: usize = 2000;
/// IOCs and records told apart; a bound for hostile logs. A big site's box has 100,000 records.
const MAX_IOCS: usize = 1000;
const MAX_RECORDS: usize = 120_000;
/// Numbers of records up to this one are found by index; a recorder counts from 0.
const DENSE: usize = 1 << 18;
/// Runs remembered before those that nothing refers to any more are forgotten.
const MAX_RUNS: usize = 64;
/// Runs whose first and last times are remembered; likewise.
const MAX_EXTENTS: usize = 10_000;
/// No record, no IOC.
pub const NONE: u32 = u32::MAX;

/// An IOC.
pub struct Place {
    /// Name of its host; empty if unknown.
    pub host: String,
    /// Its latest description.
    pub ioc: Option<Ioc>,
    /// Its name.
    pub name: String,
    /// Wall-clock time of its process's start, if that is known.
    pub started: Option<i64>,
    /// Records that it began to process.
    pub processed: Counts,
}

/// What a run's numbers mean.
struct Meaning {
    run: Weak<Run>,
    host: String,
    iocs: HashMap<IocId, u32>,
    dense: Vec<u32>,
    others: HashMap<RecordId, u32>,
    /// Place of its extent.
    extent: usize,
}

/// First and last time of what was seen of a run.
pub struct Extent {
    /// Name of the host.
    pub host: String,
    /// First.
    pub first: i64,
    /// Last.
    pub last: i64,
}

/// All IOCs and records.
#[derive(Default)]
pub struct Places {
    /// The IOCs, by number.
    pub iocs: Vec<Place>,
    /// The records, by number.
    pub records: Vec<RecordInfo>,
    /// What is asked of each record whenever it processes.
    pub lately: Vec<Lately>,
    /// Records that there was no room for.
    pub refused: u64,
    by_process: HashMap<(String, u32, u64), u32>,
    found: Finder,
    /// The names of records as they are in the log.
    names: PackedTexts,
    /// What was seen of each run.
    pub extents: Vec<Extent>,
    runs: Vec<Meaning>,
    current: usize,
}

impl Places {
    /// All IOCs of these runs, also those that nothing happened in.
    pub fn add_runs(&mut self, runs: &[RunNotes]) {
        for run in runs {
            let host = run.host().to_owned();
            let context = run.inventory.context();
            for ioc in context.iocs() {
                let number = self.ioc(&host, ioc);
                if let Some(place) = self.iocs.get_mut(number as usize) {
                    place.started = place.started.or(context.wall(ioc.start));
                }
            }
        }
    }

    /// The numbers of the IOCs known so far whose host and name are wanted.
    pub fn numbers<'a>(&'a self, wanted: impl Fn(&str, &str) -> bool + 'a) -> impl Iterator<Item = u32> + 'a {
        let all = (0..).zip(&self.iocs);
        all.filter(move |(_, place)| wanted(&place.host, &place.name)).map(|(number, _)| number)
    }

    /// The number of the process that had this name at this time.
    pub fn at(&self, host: &str, name: &str, time: i64) -> u32 {
        let is = |place: &&Place| place.name == name && place.host == host;
        let had_begun = |place: &&Place| place.started.is_none_or(|at| at <= time.saturating_add(CLOCK_STEP));
        let named = || (0..).zip(&self.iocs).filter(|(_, place)| is(place));
        let latest = named().filter(|(_, place)| had_begun(place)).last();
        latest.or_else(|| named().next()).map_or(NONE, |(number, _)| number)
    }

    /// The number of an IOC.
    pub fn ioc(&mut self, host: &str, ioc: &Ioc) -> u32 {
        let key = (host.to_owned(), ioc.pid, ioc.start);
        if let Some(number) = self.by_process.get(&key) {
            if let Some(place) = usize::try_from(*number).ok().and_then(|number| self.iocs.get_mut(number)) {
                place.ioc = Some(ioc.clone());
                place.name.clone_from(&ioc.name);
            }
            return *number;
        }
        if self.iocs.len() >= MAX_IOCS {
            return NONE;
        }
        let number = u32::try_from(self.iocs.len()).unwrap_or(NONE);
        self.iocs.push(Place {
            host: host.to_owned(),
            ioc: Some(ioc.clone()),
            name: ioc.name.clone(),
            started: None,
            processed: Counts::new(IOC_BINS),
        });
        self.by_process.insert(key, number);
        number
    }

    /// Makes the numbers of `run` those that the other functions look up.
    pub fn enter(&mut self, run: &Rc<Run>) {
        let is = |meaning: &Meaning| std::ptr::eq(meaning.run.as_ptr(), Rc::as_ptr(run));
        if self.runs.get(self.current).is_some_and(is) {
            return;
        }
        if let Some(found) = self.runs.iter().position(is) {
            self.current = found;
            return;
        }
        if self.runs.len() >= MAX_RUNS {
            self.runs.retain(|meaning| meaning.run.strong_count() > 0);
        }
        self.current = self.runs.len();
        if self.extents.len() < MAX_EXTENTS {
            self.extents.push(Extent { host: run.host(), first: i64::MAX, last: i64::MIN });
        }
        self.runs.push(Meaning {
            run: Rc::downgrade(run),
            host: run.host(),
            iocs: HashMap::new(),
            dense: Vec::new(),
            others: HashMap::new(),
            extent: self.extents.len().saturating_sub(1),
        });
    }

    /// Something happened in the entered run.
    pub fn reach(&mut self, wall: i64) {
        let Some(meaning) = self.runs.get(self.current) else { return };
        if let Some(extent) = self.extents.get_mut(meaning.extent) {
            extent.first = extent.first.min(wall);
            extent.last = extent.last.max(wall);
        }
    }

    /// The number of an IOC of the entered run.
    pub fn ioc_of(&mut self, context: &Context, id: IocId) -> u32 {
        let Some(meaning) = self.runs.get(self.current) else { return NONE };
        if let Some(number) = meaning.iocs.get(&id) {
            return *number;
        }
        let host = meaning.host.clone();
        let Some(ioc) = context.ioc(id) else { return NONE };
        let number = self.ioc(&host, ioc);
        if let Some(meaning) = self.runs.get_mut(self.current).filter(|_| number != NONE) {
            meaning.iocs.insert(id, number);
        }
        number
    }

    /// The number of a record of the entered run.
    pub fn record_of(&mut self, context: &Context, id: RecordId, strings: &mut Strings) -> u32 {
        let place = usize::try_from(id).unwrap_or(usize::MAX);
        if let Some(meaning) = self.runs.get(self.current) {
            let found = match place < DENSE {
                true => meaning.dense.get(place).copied().filter(|number| *number != NONE),
                false => meaning.others.get(&id).copied(),
            };
            if let Some(number) = found {
                return number;
            }
        }
        let number = self.new_record(context, id, strings);
        let Some(meaning) = self.runs.get_mut(self.current) else { return number };
        if place >= DENSE {
            if meaning.others.len() < MAX_RECORDS {
                meaning.others.insert(id, number);
            }
            return number;
        }
        if place >= meaning.dense.len() {
            meaning.dense.resize(place + 1, NONE);
        }
        if let Some(slot) = meaning.dense.get_mut(place) {
            *slot = number;
        }
        number
    }

    fn new_record(&mut self, context: &Context, id: RecordId, strings: &mut Strings) -> u32 {
        let ioc = match context.record(id) {
            Some(record) => self.ioc_of(context, record.ioc),
            None => NONE,
        };
        let name = record_name(context, id);
        if let Some(number) = self.by_name(ioc, &name) {
            return number;
        }
        if self.records.len() >= MAX_RECORDS {
            self.refused += 1;
            return NONE;
        }
        let number = u32::try_from(self.records.len()).unwrap_or(NONE);
        room::for_one_more(&mut self.records);
        room::for_one_more(&mut self.lately);
        self.records.push(RecordInfo::new(context, id, &name, ioc, self.records.len(), strings));
        self.lately.push(Lately { ioc, has_value: has_value(context, id), ..Lately::default() });
        let names = &self.names;
        let key =
            |(number, record): (usize, &RecordInfo)| (record.ioc, names.get(number).unwrap_or_default());
        self.found.add((ioc, &*name), self.records.iter().enumerate().map(key));
        self.names.push(&name);
        number
    }

    /// What is asked of a record whenever it processes.
    #[inline]
    pub fn lately(&mut self, number: u32) -> Option<&mut Lately> {
        self.lately.get_mut(usize::try_from(number).ok()?)
    }

    /// A record.
    pub fn record(&mut self, number: u32) -> Option<&mut RecordInfo> {
        self.records.get_mut(usize::try_from(number).ok()?)
    }

    /// A record by its name in an IOC; in any if that is not known.
    pub fn by_name(&self, ioc: u32, name: &str) -> Option<u32> {
        let is = |number: usize| {
            self.records.get(number).is_some_and(|record| record.ioc == ioc)
                && self.names.get(number) == Some(name)
        };
        self.found.find((ioc, name), is).and_then(|number| u32::try_from(number).ok())
    }
}
