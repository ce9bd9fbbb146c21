//! What IOCs used, as a drawing: CPU, waiting, memory, threads and descriptors over time, and the threads that used most.
//!
//! A row's value holds over its own period. What no row covers is a gap.

use crate::model::series::Series;
use crate::model::unseen::Kind;
use crate::output::plot::{Drawing, MAX_SERIES};
use crate::resources::{Key, Row, SLACK};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Threads drawn of an IOC.
const THREADS: usize = 4;
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

/// The series of one process.
struct Process {
    until: i64,
    own: Vec<Series>,
    threads: BTreeMap<Rc<str>, (u64, Series)>,
}

/// Collects rows.
#[derive(Default)]
pub struct Drawings(BTreeMap<Key, Process>);

impl Drawings {
    /// Takes the next row.
    pub fn add(&mut self, row: &Row) {
        if self.0.len() * KINDS.len() >= MAX_SERIES && !self.0.contains_key(&row.key) {
            return;
        }
        let named = |name: String, units: &str| Series::named(name, units, &row.host, &row.ioc);
        let process = self.0.entry(row.key).or_insert_with(|| Process {
            until: row.since,
            own: KINDS.iter().map(|(name, units, _)| named((*name).to_owned(), units)).collect(),
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

    /// The drawing, of the time asked for.
    pub fn drawing(self, since: Option<i64>, until: Option<i64>, end: Option<i64>) -> Drawing {
        let mut drawing = Drawing::default();
        let ended = self.0.values().map(|process| process.until).max();
        for mut process in self.0.into_values() {
            process.pause(process.until);
            drawing.series.append(&mut process.own);
            let mut threads: Vec<(u64, Series)> = process.threads.into_values().collect();
            threads.sort_by_key(|(amount, _)| std::cmp::Reverse(*amount));
            drawing.series.extend(threads.into_iter().take(THREADS).map(|(_, series)| series));
        }
        drawing.series.truncate(MAX_SERIES);
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
