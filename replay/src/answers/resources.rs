//! What IOCs used of the machine, in order of time: a row for each while over which it was recorded.
//!
//! Rates are those of a row's own period, so the first row of an IOC has them, too, and what no row covers is unknown:
//! nothing is interpolated.

use crate::answers::events::Events;
use crate::answers::served::{Count, Served};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::run::Run;
use crate::model::source::Source;
use iocrec_log::event::{Fact, Resources, ThreadUse};
use std::collections::HashMap;
use std::rc::Rc;

/// Rows that follow each other within this time leave no gap, nanoseconds: the recorder's own work lies between.
pub const SLACK: i64 = 100_000_000;
/// Processes that are told from each other; a bound for hostile logs.
const MAX_PROCESSES: usize = 10_000;

/// What the threads of one name used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Their name; empty if unknown.
    pub name: Rc<str>,
    /// What they used.
    pub used: ThreadUse,
}

/// What an IOC used over a while.
#[derive(Clone)]
pub struct Row {
    /// End of the while, wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// Its beginning.
    pub since: i64,
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// The IOC, as it is shown; empty if unknown.
    pub ioc: Rc<str>,
    /// Its process.
    pub pid: Option<u32>,
    /// What it used.
    pub used: Box<Resources>,
    /// Its threads that used most, the most first.
    pub threads: Vec<Thread>,
    /// The clients and channels that it served: at the beginning, and at each change until the end, with its time.
    pub served: Vec<(i64, Option<Count>)>,
    /// The run that recorded it, whose definitions are those in force only until the next row is read.
    pub run: Rc<Run>,
    /// Its process, to tell it from others.
    pub key: Key,
    /// The number of the process, which is the same in the runs of all recorders; `None` if it is not known.
    pub process: Option<usize>,
}

/// The process of a row: its recorder's run, as an address that is only compared, and its number there.
pub type Key = (usize, u32);

impl Row {
    /// `amount` of the period, in percent of one CPU. The period is never 0 in what a recorder writes.
    pub fn percent(&self, microseconds: Option<u64>) -> Option<f64> {
        let microseconds = microseconds.filter(|_| self.used.period > 0)?;
        Some(100.0 * microseconds as f64 / self.used.period as f64)
    }

    /// `count` a second.
    pub fn rate(&self, count: u64) -> Option<f64> {
        (self.used.period > 0).then(|| count as f64 * 1e6 / self.used.period as f64)
    }

    /// The clients and channels that it served at the end of the while; `None` if that is not known.
    pub fn serves(&self) -> Option<Count> {
        self.served.last().and_then(|(_, count)| *count)
    }

    /// Resident memory, bytes.
    pub fn resident(&self) -> Option<u64> {
        Some(self.used.resident?.saturating_mul(1024))
    }
}

/// The rows that match.
pub struct Rows<'a> {
    events: Events,
    filter: &'a Filter,
    served: Served,
    /// The runs, as addresses, in the order of the logs.
    runs: Vec<usize>,
    /// The numbers of the processes.
    processes: HashMap<Identity, usize>,
}

/// What makes a process one and the same: its boot, process id and start.
type Identity = (String, u32, u64);

impl Logs {
    /// What IOCs used of the machine.
    pub fn resources<'a>(&self, filter: &'a Filter) -> Rows<'a> {
        let sources = self.sources(filter.since, filter.until);
        let runs = sources.iter().map(|source| Rc::as_ptr(&source.run) as usize).collect();
        let sources = sources.into_iter();
        let events = Events::new(match self.uses_index() {
            true => sources.map(Source::only_health).collect(),
            false => sources.collect(),
        });
        Rows { events, filter, served: Served::read(self), runs, processes: HashMap::new() }
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            let found = self.events.next()?;
            let Fact::Resources(used) = found.event.fact else { continue };
            if !self.filter.time(found.time) {
                continue;
            }
            let context = found.run.context();
            let ioc = context.ioc(used.ioc);
            let (name, host) = (ioc.map_or("", |ioc| ioc.name.as_str()), found.run.host());
            if !self.filter.place(&host, name) {
                continue;
            }
            let threads = used.most.iter().map(|most| {
                let thread = context.watched_thread(most.thread).filter(|thread| thread.ioc == used.ioc);
                let name = thread.map_or("", |thread| thread.name.as_str()).into();
                Thread { name, used: *most }
            });
            let threads: Vec<Thread> = threads.collect();
            let before = found.event.time.saturating_sub(used.period.saturating_mul(1000));
            let address = Rc::as_ptr(&found.run) as usize;
            let number = self.runs.iter().position(|run| *run == address).unwrap_or(usize::MAX);
            let boot = context.host().map(|host| host.boot_id.clone()).filter(|boot| !boot.is_empty());
            let identity = boot.zip(ioc).map(|(boot, ioc)| (boot, ioc.pid, ioc.start));
            let process = identity.and_then(|identity| {
                let new = self.processes.len();
                let is_full = new >= MAX_PROCESSES && !self.processes.contains_key(&identity);
                (!is_full).then(|| *self.processes.entry(identity).or_insert(new))
            });
            let served = self.served.over(number, used.ioc, before, found.event.time);
            return Some(Row {
                time: found.time,
                even: found.run.even(found.event.time),
                since: found.run.wall(before).min(found.time),
                host: host.as_str().into(),
                ioc: name.into(),
                pid: ioc.map(|ioc| ioc.pid),
                key: (address, used.ioc),
                process,
                used: used.clone(),
                threads,
                served: served.into_iter().map(|(time, count)| (found.run.wall(time), count)).collect(),
                run: Rc::clone(&found.run),
            });
        }
    }
}
