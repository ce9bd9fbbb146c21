//! Names of records, looked up once: statistics over millions of spans count by number.
//!
//! A record has the same number in all runs in which it has the same host, IOC and name.

use super::chain::{Chain, Span};
use super::finder::Finder;
use super::numbered::{Keyed, OfRecords};
use super::packed_texts::PackedTexts;
use super::putlog::ioc_of_span;
use super::run::{record_name, Run};
use crate::room;
use iocrec_log::event::RecordId;
use std::rc::{Rc, Weak};

/// Records that are told apart; the rest count as one. A bound for hostile logs.
const MAX_NAMES: usize = 500_000;

/// The name of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// IOC; empty if unknown.
    pub ioc: Rc<str>,
    /// Record.
    pub record: Rc<str>,
}

/// The same, borrowed. In the same order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named<'a> {
    /// Host; empty if unknown.
    pub host: &'a str,
    /// IOC; empty if unknown.
    pub ioc: &'a str,
    /// Record.
    pub record: &'a str,
}

/// Numbers of records.
#[derive(Default)]
pub struct Naming {
    /// Host and IOC, each pair once: a hundred thousand records have the same.
    places: Vec<(Rc<str>, Rc<str>)>,
    place_numbers: Keyed<(Rc<str>, Rc<str>), u32>,
    /// The record's name, and the number of its place.
    names: PackedTexts,
    place_of: Vec<u32>,
    numbers: Finder,
    /// By run and number in it. The run is held weakly, so that its address is not used again.
    known: OfRecords<u32>,
    runs: Keyed<*const Run, Weak<Run>>,
}

impl Naming {
    /// The number of a record in a span of the chain.
    pub fn of(&mut self, chain: &Chain, span: &Span, record: RecordId) -> usize {
        let run = Rc::as_ptr(&chain.run);
        if let Some(number) = self.known.get(run as usize, record) {
            return number as usize;
        }
        self.runs.entry(run).or_insert_with(|| Rc::downgrade(&chain.run));
        let context = chain.run.context();
        let name = Name {
            host: chain.run.host().into(),
            ioc: ioc_of_span(&context, span).into(),
            record: record_name(&context, record).into(),
        };
        // A record without a definition may get one later.
        let lasting = context.record(record).is_some();
        let number = self.number(name);
        if lasting && self.known.len() < MAX_NAMES {
            self.known.insert(run as usize, record, number as u32);
        }
        number
    }

    /// The number of a name.
    pub fn number(&mut self, name: Name) -> usize {
        if let Some(number) = self.find(&name) {
            return number;
        }
        let name = if self.names.len() < MAX_NAMES {
            name
        } else {
            Name { record: "(other records)".into(), ..Name::default() }
        };
        let (place, record) = (self.place(name.host, name.ioc), name.record);
        if let Some(number) = self.find_in(place, &record) {
            return number;
        }
        self.numbers.add((place, &*record), self.place_of.iter().copied().zip(self.names.iter()));
        room::for_one_more(&mut self.place_of);
        self.place_of.push(place);
        self.names.push(&record);
        self.names.len() - 1
    }

    /// The number of a host and IOC. There are no more of them than names.
    fn place(&mut self, host: Rc<str>, ioc: Rc<str>) -> u32 {
        let next = self.places.len();
        let number = *self.place_numbers.entry((Rc::clone(&host), Rc::clone(&ioc))).or_insert(next as u32);
        if number as usize == next {
            self.places.push((host, ioc));
        }
        number
    }

    /// The number of a name that has one.
    pub fn find(&self, name: &Name) -> Option<usize> {
        let place = self.place_numbers.get(&(Rc::clone(&name.host), Rc::clone(&name.ioc)))?;
        self.find_in(*place, &name.record)
    }

    fn find_in(&self, place: u32, record: &str) -> Option<usize> {
        let is = |number| self.place_of.get(number) == Some(&place) && self.names.get(number) == Some(record);
        self.numbers.find((place, record), is)
    }

    /// The number of the only record of that name, on whichever host and IOC; `None` if there are several.
    pub fn only(&self, record: &str) -> Option<usize> {
        let mut found = self.names.iter().enumerate().filter(|(_, name)| *name == record);
        let (number, _) = found.next()?;
        found.next().is_none().then_some(number)
    }

    /// The name of a number.
    pub fn name(&self, number: usize) -> Name {
        let Some(record) = self.names.get(number) else { return Name::default() };
        let (host, ioc) = self.place_of(number).cloned().unwrap_or_default();
        Name { host, ioc, record: record.into() }
    }

    /// The same, borrowed.
    pub fn named(&self, number: usize) -> Named<'_> {
        let (host, ioc) = self.place_of(number).map(|(host, ioc)| (&**host, &**ioc)).unwrap_or_default();
        Named { host, ioc, record: self.names.get(number).unwrap_or_default() }
    }

    fn place_of(&self, number: usize) -> Option<&(Rc<str>, Rc<str>)> {
        self.places.get(*self.place_of.get(number)? as usize)
    }
}
