//! What IOCs used, as a drawing: CPU, waiting, memory, threads, descriptors, clients and channels over time, and the threads
//! that used most.
//!
//! A row's value holds over its own period. What no row covers is a gap.

use crate::answers::resources::{Key, Row, SLACK};
use crate::answers::served::Count;
use crate::model::series::Series;
use crate::model::unseen::Kind;
use crate::output::plot::Drawing;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Threads drawn of an IOC.
const THREADS: usize = 4;
/// Processes that are drawn: as many as a big machine has IOCs; a bound.
pub const MAX_PROCESSES: usize = 20;
/// Others that are counted; a bound for hostile logs.
const MAX_LEFT_OUT: usize = 10_000;
/// Threads whose series are kept until it is known which used most; a bound.
const MAX_THREADS: usize = 64;

/// The kinds of series of each IOC: name, units, value.
type Kinds = [(&'static str, &'static str, fn(&Row) -> Option<f64>); 5];
const KINDS: Kinds = [
    ("CPU", "% of one CPU", |row| row.percent(row.used.cpu)),
    ("waiting for a CPU", "%", |row| row.percent(row.used.waiting)),
    ("resident memory", "MiB", |row| row.resident().map(|bytes| bytes as f64 / f64::from(1 << 20))),
    ("threads", "", |row| Some(row.used.threads.into())),
    ("descriptors", "", |row| row.used.descriptors.map(f64::from)),
];

/// What it served: likewise.
type Counts = [(&'static str, fn(Count) -> u32); 2];
const COUNTS: Counts = [("clients", |count| count.clients), ("channels", |count| count.channels)];

/// The series of one process.
struct Process {
    until: i64,
    /// Those of [`KINDS`], then those of [`COUNTS`].
    own: Vec<Series>,
    threads: BTreeMap<Rc<str>, (u64, Series)>,
}

/// Collects rows.
#[derive(Default)]
pub struct Drawings {
    of: BTreeMap<Key, Process>,
    left_out: BTreeSet<Key>,
}

/// What is drawn of a process.
pub struct Drawn {
    /// The process.
    pub key: Key,
    /// CPU, waiting, memory, threads, descriptors, clients and channels, in this order.
    pub own: Vec<Series>,
    /// CPU of the threads that used most, the most first.
    pub threads: Vec<Series>,
}

impl Drawings {
    /// Takes the next row.
    pub fn add(&mut self, row: &Row) {
        if self.of.len() >= MAX_PROCESSES && !self.of.contains_key(&row.key) {
            if self.left_out.len() < MAX_LEFT_OUT {
                self.left_out.insert(row.key);
            }
            return;
        }
        let named = |name: String, units: &str| Series::named(name, units, &row.host, &row.ioc);
        let kinds = KINDS.iter().map(|(name, units, _)| (*name, *units));
        let kinds = kinds.chain(COUNTS.iter().map(|(name, _)| (*name, "")));
        let process = self.of.entry(row.key).or_insert_with(|| Process {
            until: row.since,
            own: kinds.map(|(name, units)| named(name.to_owned(), units)).collect(),
            threads: BTreeMap::new(),
        });
        if row.since.saturating_sub(process.until) > SLACK {
            process.pause(process.until);
        }
        let since = row.since.max(process.until);
        for (series, (_, _, value)) in process.own.iter_mut().zip(KINDS) {
            match value(row) {
                Some(value) => series.number(since, value),
                None => series.unseen(since, Kind::Lost),
            }
        }
        for (series, (_, number)) in process.own.iter_mut().skip(KINDS.len()).zip(COUNTS) {
            for (time, count) in &row.served {
                match count {
                    Some(count) => series.number((*time).max(since), number(*count).into()),
                    None => series.unseen((*time).max(since), Kind::Lost),
                }
            }
        }
        for thread in &row.threads {
            if process.threads.len() < MAX_THREADS || process.threads.contains_key(&thread.name) {
                let name = format!("CPU of thread {}", thread.name);
                let new = || (0, named(name, "%"));
                let (amount, _) = process.threads.entry(Rc::clone(&thread.name)).or_insert_with(new);
                *amount = amount.saturating_add(thread.used.cpu);
            }
        }
        for (name, (_, series)) in &mut process.threads {
            // several threads may have one name
            let of_name = row.threads.iter().filter(|thread| thread.name == *name);
            let cpu = of_name.map(|thread| thread.used.cpu).fold(0, u64::saturating_add);
            if let Some(percent) = row.percent(Some(cpu)) {
                // one that is not among the most used less than those, which is not drawn as nothing
                match cpu {
                    0 => series.unseen(since, Kind::Lost),
                    _ => series.number(since, percent),
                }
            }
        }
        process.until = row.time.max(process.until);
    }

    /// Number of processes that had no room.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// What is drawn of each process, in the order of their keys.
    pub fn drawn(self) -> impl Iterator<Item = Drawn> {
        self.of.into_iter().map(|(key, mut process)| {
            process.pause(process.until);
            let mut threads: Vec<(u64, Series)> = process.threads.into_values().collect();
            threads.sort_by_key(|(amount, _)| std::cmp::Reverse(*amount));
            let threads = threads.into_iter().take(THREADS).map(|(_, series)| series).collect();
            Drawn { key, own: process.own, threads }
        })
    }

    /// The drawing, of the time asked for.
    pub fn drawing(self, since: Option<i64>, until: Option<i64>, end: Option<i64>) -> Drawing {
        let mut drawing = Drawing::default();
        let ended = self.of.values().map(|process| process.until).max();
        let more = self.left_out() * (KINDS.len() + COUNTS.len());
        for mut drawn in self.drawn() {
            drawing.series.append(&mut drawn.own);
            drawing.series.append(&mut drawn.threads);
        }
        drawing.limit(more);
        drawing.set_time(since, until, end.max(ended));
        drawing
    }
}

impl Process {
    /// Nothing is known from a time on.
    fn pause(&mut self, from: i64) {
        let threads = self.threads.values_mut().map(|(_, series)| series);
        self.own.iter_mut().chain(threads).for_each(|series| series.unseen(from, Kind::Unrecorded));
    }
}
