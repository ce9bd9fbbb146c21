//! What the inputs of a record tell of a change that no put made: where each leads, and when its source last changed.
//!
//! These are the same rules as those of `iocreplay why` ([`weighing`](crate::model::weighing)), for a log that is read once
//! from its begin to its end: so of each source only the last changes are at hand.

use super::{By, Cause, Change, Number, Origins, MAX_HOPS};
use crate::model::chain::{Chain, SpanKind};
use crate::model::input_links::Found;
use crate::model::inputs::{From, Input};
use crate::model::run::{record_name, Run};
use crate::model::weighing::{self, own, Part, Reading, Weighed};
use crate::time::SECOND;
use epics::Pv;
use iocrec_log::event::RecordId;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// Sources that are followed of one change.
const MAX_SOURCES: usize = 24;
/// Inputs of a record that are told of.
const MAX_TOLD: usize = 8;
/// How far back a put to another field of the record is told of, if it is not known when that processed before.
const LOOK_BACK: i64 = 60 * SECOND as i64;

/// The processing in which a record changed.
#[derive(Clone, Debug)]
pub struct Processing {
    /// The run, as an address, and the record: that which changed, or that which wrote to it.
    of: (usize, RecordId),
    /// Monotonic time of its begin.
    at: u64,
    /// Its begin and end, and its begin the time before.
    reading: Reading,
    chain: ChainKey,
    /// Whether it was processed for a CP link.
    for_link: bool,
}

/// What tells chains of one host apart: thread and begin.
pub type ChainKey = (Option<u32>, u64);

/// The key of a chain.
pub fn key(chain: &Chain) -> ChainKey {
    chain.root().map_or((None, 0), |root| (root.thread, root.start))
}

/// What is known of the inputs of a record.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The record.
    pub record: Rc<str>,
    /// What the log does not tell of them.
    pub unknown: Option<&'static str>,
    /// Its device support, if it has a choice.
    pub device: Option<Rc<str>>,
    /// Those that may have been the cause, the latest first; then those that are not followed.
    pub links: Vec<Read>,
    /// Number of inputs that are left out of these.
    pub more: usize,
    /// Whether no change of an input that could have been the cause is known.
    pub unchanged: bool,
    /// Whether it is known when the record processed before.
    pub since_before: bool,
    /// Whether no input leads anywhere.
    pub none: bool,
    /// The last put to another field of the record since then: how long before, and its cause.
    pub put: Option<(i64, Rc<str>, Rc<Cause>)>,
}

/// An input, and what is known of its source.
#[derive(Clone, Debug)]
pub struct Read {
    /// The link's record and field.
    pub link: String,
    /// Where it leads.
    pub input: Input,
    /// What the times tell.
    pub weighed: Weighed,
    /// How long before the end of the processing the source changed.
    pub age: i64,
    /// What was found to have changed.
    pub changed: String,
    /// Whether it was not looked for, since too many inputs lead here.
    pub not_followed: bool,
    /// Whether its source is not in these logs.
    pub elsewhere: bool,
    /// Whether its source changed since, and more often than is remembered.
    pub forgotten: bool,
    /// The cause of the change.
    pub cause: Option<Rc<Cause>>,
    /// The inputs behind that.
    pub behind: Vec<Inputs>,
}

impl Read {
    /// Whether it may have been the cause.
    pub fn may_be_the_cause(&self) -> bool {
        self.cause.is_some() && self.weighed.may_be_the_cause()
    }
}

impl Inputs {
    /// The causes of the changes that may have been the cause, and of what is behind them.
    pub fn causes(&self) -> Vec<&Rc<Cause>> {
        let links = self.links.iter().filter(|link| link.may_be_the_cause());
        let mut all: Vec<&Rc<Cause>> = links
            .flat_map(|link| link.cause.iter().chain(link.behind.iter().flat_map(Inputs::causes)))
            .collect();
        all.extend(self.put.as_ref().map(|(_, _, cause)| cause));
        all
    }
}

/// The name of a record of a run.
fn record_name_of(runs: &HashMap<usize, Weak<Run>>, (run, record): (usize, RecordId)) -> String {
    let run = runs.get(&run).and_then(Weak::upgrade);
    run.map(|run| record_name(&run.context(), record)).unwrap_or_default()
}

/// The processing in which a span of a chain changed its record: its own, or that of the record that wrote to it. `before`:
/// when the record itself began to process the last time before. `None` if a put or a CA link began it.
pub fn processing(top: &Chain, chain: &Chain, place: usize, before: Option<i64>) -> Option<Processing> {
    if !std::ptr::eq(top, chain) {
        return None;
    }
    let (number, is_writer) = own(chain, place)?;
    let span = chain.spans.get(number)?;
    let SpanKind::Process(process) = &span.kind else { return None };
    let before = before.filter(|_| !is_writer);
    let reading = Reading { before, start: chain.run.even(span.start), end: chain.run.even(span.end) };
    let of = (Rc::as_ptr(&chain.run) as usize, process.record);
    let for_link = number == 0 && process.for_link;
    Some(Processing { of, at: span.start, reading, chain: key(top), for_link })
}

impl Processing {
    /// That of a record: its monotonic time, its begin the time before (`i64::MIN` if unknown), its begin and end.
    pub(super) fn of(
        of: (usize, RecordId),
        at: u64,
        (before, start, end): (i64, i64, i64),
        chain: ChainKey,
        for_link: bool,
    ) -> Self {
        let before = Some(before).filter(|before| *before != i64::MIN);
        Processing { of, at, reading: Reading { before, start, end }, chain, for_link }
    }

    /// In the few bytes that a change of a record has, which began then.
    pub(super) fn compact(self, of: (usize, RecordId), begin: i64) -> By {
        let Processing { at, reading: Reading { before, start, .. }, for_link, .. } = self;
        match self.of == of && start == begin {
            true => By::Own { at, before: before.unwrap_or(i64::MIN), for_link },
            false => By::Other(Box::new(self)),
        }
    }
}

impl Origins {
    /// What the inputs tell of a change with this cause, in this processing.
    pub fn behind(&mut self, cause: &Cause, own: Option<&Processing>) -> Vec<Inputs> {
        if self.links.is_none() {
            return Vec::new();
        }
        self.look_behind(cause, own, &mut Vec::new(), &mut MAX_SOURCES.clone())
    }

    fn look_behind(
        &mut self,
        cause: &Cause,
        own: Option<&Processing>,
        way: &mut Vec<(usize, RecordId)>,
        left: &mut usize,
    ) -> Vec<Inputs> {
        let all = cause.behind().into_iter().chain(own);
        all.filter_map(|of| self.inputs(of, way, left)).collect()
    }

    fn inputs(
        &mut self,
        of: &Processing,
        way: &mut Vec<(usize, RecordId)>,
        left: &mut usize,
    ) -> Option<Inputs> {
        let run = self.runs.get(&of.of.0)?.upgrade()?;
        let context = run.context();
        let record: Rc<str> = record_name(&context, of.of.1).into();
        drop(context);
        let mut inputs = Inputs {
            record: Rc::clone(&record),
            unknown: None,
            device: None,
            links: Vec::new(),
            more: 0,
            unchanged: false,
            since_before: of.reading.before.is_some(),
            none: false,
            put: None,
        };
        let changed = self.links_changed.get(&of.of).copied().filter(|changed| *changed <= of.at);
        let links = Rc::clone(self.links.as_ref()?);
        let number = run.peers().and_then(|(_, number)| u32::try_from(number).ok())?;
        let found: Vec<Input> = match links.at((number, of.of.1), of.at, changed) {
            Found::All(links, device) => {
                inputs.device = device.cloned();
                links.iter().filter_map(|link| link.input()).collect()
            }
            Found::No if of.for_link => return None,
            Found::No => {
                inputs.unknown = Some("the log does not hold its input links");
                Vec::new()
            }
            Found::Changed => {
                inputs.unknown =
                    Some("a put had changed one of its links, and the log does not hold what they were then");
                Vec::new()
            }
        };
        inputs.none = inputs.unknown.is_none() && found.is_empty();
        let followed = if of.for_link { run.cp_link(of.at, of.of.1) } else { None };
        let followed = followed.map(|(_, source)| source);
        let mut open = false;
        way.push(of.of);
        for input in found {
            let is_followed = followed.is_some()
                && matches!(&input.from, From::Pv(pv) if Some(pv) == followed.as_ref())
                && input.text.as_ref().is_some_and(|text| crate::model::links::is_cp(text.as_bytes()));
            if is_followed {
                continue;
            }
            let Some(read) = self.read(of, &run, &record, input, way, left) else { continue };
            let is_pv = matches!(read.input.from, From::Pv(_));
            let is_open = !is_pv || read.not_followed || read.elsewhere || read.forgotten;
            open |= is_open;
            if is_open || read.may_be_the_cause() {
                inputs.links.push(read);
            }
        }
        way.pop();
        inputs.links.sort_by_key(|read| (!read.may_be_the_cause(), std::cmp::Reverse(read.weighed.time)));
        inputs.more = inputs.links.len().saturating_sub(MAX_TOLD);
        inputs.links.truncate(MAX_TOLD);
        let may_be = inputs.links.iter().any(Read::may_be_the_cause);
        inputs.unchanged = inputs.unknown.is_none() && !open && !may_be && !inputs.none;
        if !may_be {
            inputs.put = self.own_put(of);
        }
        let says_nothing = inputs.links.is_empty() && inputs.put.is_none() && inputs.unknown.is_none();
        (!(of.for_link && says_nothing)).then_some(inputs)
    }

    /// The last put to another field of the record since it processed before.
    fn own_put(&self, of: &Processing) -> Option<(i64, Rc<str>, Rc<Cause>)> {
        let (time, field, cause) = self.own_puts.get(&of.of)?;
        let since = of.reading.before.unwrap_or(of.reading.start.saturating_sub(LOOK_BACK));
        let is_since = *time > since && *time <= of.reading.end;
        is_since.then(|| (of.reading.age(*time), Rc::clone(field), Rc::clone(cause)))
    }

    /// What is known of an input; `None` if it reads the record itself, or what leads here.
    fn read(
        &mut self,
        of: &Processing,
        run: &Rc<Run>,
        record: &str,
        input: Input,
        way: &mut Vec<(usize, RecordId)>,
        left: &mut usize,
    ) -> Option<Read> {
        let mut read = Read {
            link: format!("{record}.{}", input.field),
            weighed: Weighed::default(),
            age: 0,
            changed: String::new(),
            not_followed: false,
            elsewhere: false,
            forgotten: false,
            cause: None,
            behind: Vec::new(),
            input,
        };
        let From::Pv(pv) = &read.input.from else { return Some(read) };
        if *left == 0 || way.len() > MAX_HOPS {
            read.not_followed = true;
            return Some(read);
        }
        *left -= 1;
        let name = Pv::new(pv);
        let numbers = self.candidates(run, of.of, name.record);
        if numbers.is_empty() {
            read.elsewhere = !self.is_recorded(name.record);
            read.weighed = of.reading.weigh(None, None);
            return Some(read);
        }
        let part = Part::of(name.field);
        let find = |part| {
            let changes = numbers.iter().filter_map(|number| self.last(*number, part, name.field, of));
            changes.max_by_key(|(change, _)| change.end)
        };
        let (of_field, of_value) = match part {
            Part::Other => (find(Part::Setting), find(Part::Value)),
            part => (find(part), None),
        };
        read.forgotten = numbers.iter().any(|number| self.has_forgotten(*number, of));
        let times = |found: Option<(&Change, _)>, part| {
            found.map(|(change, _): (&Change, (usize, RecordId))| weighing::Change {
                time: change.end,
                certain: change.is_certain(part),
                same_chain: change.chain == of.chain,
            })
        };
        let value_part = if part == Part::Other { Part::Setting } else { part };
        read.weighed = of.reading.weigh(times(of_field, value_part), times(of_value, Part::Value));
        let change = if read.weighed.of_value { of_value } else { of_field };
        let Some((change, source)) = change.filter(|_| read.weighed.may_be_the_cause()) else {
            return Some(read);
        };
        let own_name = record_name_of(&self.runs, source);
        read.forgotten = false;
        read.changed = match read.weighed.of_value || matches!(part, Part::Value | Part::Alarm) {
            true => own_name.clone(),
            false => format!("{own_name}.{}", name.field),
        };
        read.age = of.reading.age(change.end);
        let (cause, by) = (Rc::clone(&change.cause), change.processing(source));
        if way.contains(&source) && matches!(part, Part::Value | Part::Other) {
            return None; // they feed each other
        }
        read.behind = self.look_behind(&cause, by.as_ref(), way, left);
        read.cause = Some(cause);
        Some(read)
    }

    /// The records that a link of a record leads to by this name: one of the same IOC, else of any.
    fn candidates(&self, run: &Rc<Run>, of: (usize, RecordId), name: &str) -> Vec<Number> {
        let context = run.context();
        let ioc = context.record(of.1).map(|record| record.ioc);
        let is_own = |number: &Number| {
            let source = self.records.get(*number).and_then(|seen| Some(seen.followed.as_ref()?.of));
            source.is_some_and(|source| {
                source.0 == of.0 && context.record(source.1).map(|record| record.ioc) == ioc
            })
        };
        let own = self.named(name).find(is_own);
        own.map_or_else(|| self.named(name).collect(), |own| vec![own])
    }

    /// Whether a record of this name is in the logs, so far.
    fn is_recorded(&mut self, name: &str) -> bool {
        let runs: Vec<Rc<Run>> = self.runs.values().filter_map(std::rc::Weak::upgrade).collect();
        let meanings = runs.iter().map(|run| run.meanings()).sum::<u64>();
        if let Some((known, is)) = self.recorded.get(name).filter(|(known, is)| *is || *known == meanings) {
            let _ = known;
            return *is;
        }
        let is = runs.iter().any(|run| {
            let context = run.context();
            let found = context.records().any(|record| {
                record.name == name || context.aliases(record.id).iter().any(|alias| **alias == *name)
            });
            found
        });
        if self.recorded.len() < super::MAX_COMMON {
            self.recorded.insert(name.to_owned(), (meanings, is));
        }
        is
    }

    /// The last change of a part of a record that a processing may have read.
    fn last(
        &self,
        number: Number,
        part: Part,
        field: &str,
        of: &Processing,
    ) -> Option<(&Change, (usize, RecordId))> {
        let followed = self.records.get(number)?.followed.as_ref()?;
        let since = of.reading.since();
        let in_reach = |change: &&Change| {
            change.begin <= of.reading.start && change.end <= of.reading.end && change.end >= since
        };
        let change = match part {
            Part::Setting => {
                let puts = followed.fields.iter().filter(|(name, _)| **name == *field);
                puts.map(|(_, change)| change).filter(in_reach).max_by_key(|change| change.end)
            }
            part => {
                let changes = followed.changes.iter().filter(|change| change.is_of(part));
                changes.filter(in_reach).max_by_key(|change| change.end)
            }
        };
        Some((change?, followed.of))
    }

    /// Whether all changes of a record that are remembered are later than a processing, and there were more.
    fn has_forgotten(&self, number: Number, of: &Processing) -> bool {
        let followed = self.records.get(number).and_then(|record| record.followed.as_ref());
        followed.is_some_and(|followed| {
            followed.forgot && followed.changes.iter().all(|change| change.begin > of.reading.start)
        })
    }
}
