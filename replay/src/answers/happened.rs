//! What happened, of every sort in one order of time: puts, changes of alarms, what IOCs printed, marks, ends of IOCs,
//! and losses.

use crate::answers::alarms::Alarms;
use crate::answers::between::Between;
use crate::answers::console::{Lines, Row};
use crate::answers::events::Events;
use crate::answers::processes::Processes;
use crate::answers::puts::Puts;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::alarms::{AlarmLine, What as OfAlarm};
use crate::model::putlog::PutLine;
use iocrec_log::event::{Fact, Loss, RecordId};
use std::iter::Peekable;
use std::rc::Rc;
use std::vec::IntoIter;

/// A sort of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Puts from outside the IOCs.
    Puts,
    /// Changes of alarms, and acknowledgements.
    Alarms,
    /// What IOCs printed.
    Console,
    /// Operators' marks.
    Marks,
    /// Ends of IOCs.
    Ends,
    /// What was not recorded.
    Losses,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(Kind, &'static str); 6] = [
        (Kind::Puts, "puts"),
        (Kind::Alarms, "alarms"),
        (Kind::Console, "console"),
        (Kind::Marks, "marks"),
        (Kind::Ends, "ends"),
        (Kind::Losses, "losses"),
    ];
}

/// Something that happened.
#[derive(Debug)]
pub struct Happened {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// The IOC, as it is shown; empty if unknown, or if it is about the host.
    pub ioc: Rc<str>,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug)]
pub enum What {
    /// A put.
    Put(Box<PutLine>),
    /// An alarm changed, or was acknowledged. How long it lasted is not told.
    Alarm(Box<AlarmLine>),
    /// An IOC printed a line, or a thread gave up.
    Said(Box<Row>),
    /// An operator's mark.
    Mark(String),
    /// An IOC ended, in this manner; empty if that is not known.
    End(String),
    /// Something was not recorded.
    Loss(Loss),
    /// Nothing was recorded until then.
    Unrecorded(Between),
}

impl From<PutLine> for Happened {
    fn from(put: PutLine) -> Happened {
        let shared = |text: &Option<Rc<str>>| text.clone().unwrap_or_default();
        let (time, even, host, ioc) = (put.time, put.even, shared(&put.host), shared(&put.ioc));
        Happened { time, even, host, ioc, pid: None, what: What::Put(Box::new(put)) }
    }
}

impl From<AlarmLine> for Happened {
    fn from(alarm: AlarmLine) -> Happened {
        let (time, even) = (alarm.time, alarm.time.saturating_sub(alarm.ahead));
        let (host, ioc) = (Rc::clone(&alarm.place.host), Rc::clone(&alarm.place.ioc));
        Happened { time, even, host, ioc, pid: None, what: What::Alarm(Box::new(alarm)) }
    }
}

impl From<Row> for Happened {
    fn from(row: Row) -> Happened {
        let (host, ioc) = (Rc::clone(&row.host), Rc::clone(&row.ioc));
        let Row { time, even, pid, .. } = row;
        Happened { time, even, host, ioc, pid, what: What::Said(Box::new(row)) }
    }
}

/// Chains that sampling left out on purpose, of an IOC.
#[derive(Debug)]
pub struct LeftOut {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// Host; empty if unknown.
    pub host: String,
    /// The IOC, as it is shown; empty if unknown.
    pub ioc: String,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// The record that the chains begin with.
    pub record: RecordId,
    /// How many.
    pub count: u64,
}

/// What happened, in order of time.
pub struct AllHappened<'a> {
    puts: Option<Peekable<Puts<'a>>>,
    alarms: Option<Peekable<Alarms<'a>>>,
    said: Option<Peekable<Lines<'a>>>,
    ends: Peekable<IntoIter<(i64, Happened)>>,
    noted: Option<Events>,
    /// The next that the recorder noted, with its place in the order of time.
    next_noted: Option<(i64, Happened)>,
    kinds: Vec<Kind>,
    filter: &'a Filter,
    processes: Processes,
}

impl Logs {
    /// What happened of these kinds, as far as it matches.
    pub fn happened<'a>(&self, filter: &'a Filter, kinds: &[Kind]) -> AllHappened<'a> {
        self.happened_with(filter, kinds, false)
    }

    /// The same. Puts and alarms have the ids of their spans, for which all chains are read: of a log of scanning, puts alone
    /// take a tenth of the time.
    pub fn happened_with_ids<'a>(&self, filter: &'a Filter, kinds: &[Kind]) -> AllHappened<'a> {
        self.happened_with(filter, kinds, true)
    }

    fn happened_with<'a>(&self, filter: &'a Filter, kinds: &[Kind], ids: bool) -> AllHappened<'a> {
        let has = |kind| kinds.contains(&kind);
        let processes = Processes::read(self);
        let mut ends: Vec<(i64, Happened)> = Vec::new();
        // An end is about a whole IOC: none is asked for by those who ask for a PV or a client.
        if has(Kind::Ends) && filter.is_of_place_and_time() {
            ends.extend(processes.all().iter().filter_map(|process| {
                let end = process.end.as_ref()?;
                let time = end.wall?;
                let wanted = filter.time(time) && filter.place(&process.host, &process.ioc);
                let (host, ioc) = (Rc::clone(&process.host), Rc::clone(&process.ioc));
                let what = What::End(end.how.clone());
                let (even, pid) = (self.even(time), Some(process.pid));
                wanted.then_some((time, Happened { time, even, host, ioc, pid, what }))
            }));
        }
        if has(Kind::Losses) && filter.is_of_place_and_time() {
            ends.extend(self.between(filter).into_iter().map(|between| {
                let (time, host) = (between.time, between.host.as_str().into());
                let what = What::Unrecorded(between);
                (time, Happened { time, even: self.even(time), host, ioc: "".into(), pid: None, what })
            }));
        }
        ends.sort_by_key(|(time, _)| *time);
        let puts = has(Kind::Puts).then(|| self.puts(filter));
        let alarms = has(Kind::Alarms).then(|| self.alarms(filter).with_all().without_durations());
        let (puts, alarms) = match ids {
            true => (puts.map(Puts::with_ids), alarms.map(Alarms::with_ids)),
            false => (puts, alarms),
        };
        let noted = (has(Kind::Marks) || has(Kind::Losses)) && filter.is_of_place_and_time();
        let mut all = AllHappened {
            puts: puts.map(Iterator::peekable),
            alarms: alarms.map(Iterator::peekable),
            said: (has(Kind::Console) && !filter.asks_who()).then(|| self.console(filter).peekable()),
            ends: ends.into_iter().peekable(),
            noted: noted.then(|| self.noted(filter.since, filter.until)),
            next_noted: None,
            kinds: kinds.to_vec(),
            filter,
            processes,
        };
        all.next_noted = all.noted();
        all
    }

    /// The chains that were left out, as far as they match.
    pub fn left_out<'a>(&self, filter: &'a Filter) -> impl Iterator<Item = LeftOut> + 'a {
        self.noted(filter.since, filter.until).filter_map(|found| {
            let Fact::ChainsLeftOut(left) = found.event.fact else { return None };
            let context = found.run.context();
            let ioc = context.record(left.record).and_then(|record| context.ioc(record.ioc));
            let (ioc, pid) = (ioc.map(|ioc| ioc.name.clone()).unwrap_or_default(), ioc.map(|ioc| ioc.pid));
            let (time, even, host) = (found.time, found.run.even(found.event.time), found.run.host());
            let wanted = filter.time(time) && filter.place(&host, &ioc);
            wanted.then_some(LeftOut { time, even, host, ioc, pid, record: left.record, count: left.count })
        })
    }
}

impl AllHappened<'_> {
    /// The next mark or loss.
    fn noted(&mut self) -> Option<(i64, Happened)> {
        for found in self.noted.as_mut()? {
            let what = match found.event.fact {
                Fact::Mark(text) if self.kinds.contains(&Kind::Marks) => What::Mark(text),
                Fact::Loss(loss) if self.kinds.contains(&Kind::Losses) => What::Loss(loss),
                _ => continue,
            };
            let host = found.run.host();
            // They are about a host, and so about all of its IOCs.
            let wanted = self.filter.host.as_ref().is_none_or(|glob| glob.matches(&host));
            if wanted && self.filter.time(found.time) {
                let (time, host) = (found.time, host.as_str().into());
                let even = found.run.even(found.event.time);
                return Some((even, Happened { time, even, host, ioc: "".into(), pid: None, what }));
            }
        }
        None
    }

    /// The place in the order of time of the next of each sort.
    fn places(&mut self) -> [Option<i64>; 5] {
        // What lasts at the end is no change, and a record's first alarm none either.
        let is_news = |line: &AlarmLine| {
            matches!(line.what, OfAlarm::Change | OfAlarm::Acknowledged) && !line.unprocessed
        };
        while let Some(alarms) = self.alarms.as_mut() {
            if alarms.next_if(|line| !is_news(line)).is_none() {
                break;
            }
        }
        [
            self.puts.as_mut().and_then(|puts| puts.peek().map(|put| put.even)),
            self.alarms
                .as_mut()
                .and_then(|alarms| alarms.peek().map(|alarm| alarm.time.saturating_sub(alarm.ahead))),
            self.said.as_mut().and_then(|said| said.peek().map(|row| row.even)),
            self.ends.peek().map(|(time, _)| *time),
            self.next_noted.as_ref().map(|(even, _)| *even),
        ]
    }
}

impl Iterator for AllHappened<'_> {
    type Item = Happened;

    fn next(&mut self) -> Option<Happened> {
        let places = self.places();
        let first = places.iter().enumerate().filter_map(|(sort, place)| Some((place.as_ref()?, sort))).min();
        match first?.1 {
            0 => self.puts.as_mut()?.next().map(Happened::from),
            1 => {
                let alarm = self.alarms.as_mut()?.next()?;
                let process = alarm.place.process.and_then(|process| self.processes.get(process));
                Some(Happened { pid: process.map(|process| process.pid), ..Happened::from(alarm) })
            }
            2 => self.said.as_mut()?.next().map(Happened::from),
            3 => self.ends.next().map(|(_, happened)| happened),
            _ => {
                let next = self.noted();
                std::mem::replace(&mut self.next_noted, next).map(|(_, happened)| happened)
            }
        }
    }
}
