//! Writes tables: one pass over the chains for most of them, and one each for the others.

use super::cells::{known, Cell};
use super::directory::Directory;
use super::encoder::Row;
use super::names::partition;
use super::places::Places;
use super::refused::Refused;
use super::rows::{alarms, chain, circuits, health, iocs, losses, values};
use super::schema::Of;
use super::sheets::{Key, Sheets, Unwritten};
use super::{utc, Format};
use crate::answers::values::Values;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::pattern::Pattern;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// What is to be written.
#[derive(Debug)]
pub struct Order<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The format of its files.
    pub format: Format,
    /// Which rows are wanted, in words; empty for all.
    pub selection: String,
    /// The tables.
    pub tables: Vec<Of>,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Summary {
    /// By table, the rows.
    pub rows: Vec<(Of, u64)>,
    /// Number of files.
    pub files: usize,
    /// Rows that were not written because the directory has more of their segments.
    pub kept: u64,
}

/// A row's time, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The number of its run, if it is known.
    pub run: Option<usize>,
    /// Wall-clock time.
    pub time: i64,
    /// The host.
    pub host: &'a str,
    /// The IOC.
    pub ioc: &'a str,
}

/// Tables being written.
pub struct Export {
    places: Places,
    directory: Directory,
    sheets: Sheets,
    tables: Vec<Of>,
    rows: BTreeMap<Of, u64>,
    kept: HashMap<(Of, usize), HashSet<u32>>,
    left: u64,
    /// The names of hosts' partitions, and their numbers.
    partitions: Vec<String>,
    hosts: HashMap<String, u32, foldhash::fast::FixedState>,
    /// The last day, and how it is written.
    date: (i64, String),
    failed: Option<Unwritten>,
}

impl Export {
    /// Whether a table is wanted.
    pub fn wants(&self, of: Of) -> bool {
        self.tables.contains(&of)
    }

    /// The number of the run's place, as the column `run` has it.
    fn run(&self, at: &At) -> usize {
        at.run.unwrap_or_else(|| self.places.run_of(at.host, at.time))
    }

    /// Adds a row; `push` adds the cells after the first five. What goes wrong is told at the end.
    pub fn add(&mut self, of: Of, at: At, push: impl FnOnce(&mut Row)) {
        if self.failed.is_some() {
            return;
        }
        let run = self.run(&at);
        let segment = self.places.segment(run, at.time);
        if self.kept.get(&(of, run)).is_some_and(|kept| kept.contains(&segment)) {
            self.left += 1;
            return;
        }
        let host = match self.hosts.get(at.host) {
            Some(host) => *host,
            None => self.enter(at.host),
        };
        let day = utc::day(at.time);
        if self.date.0 != day {
            self.date = (day, utc::date(day));
        }
        *self.rows.entry(of).or_default() += 1;
        let Export { places, directory, sheets, partitions, date, failed, .. } = self;
        let name = places.runs.get(run).map_or("", |place| place.run.as_str());
        let partition = partitions.get(host as usize).map_or("", String::as_str);
        let path = |part| directory.path(of, partition, &date.1, name, segment, part);
        let added = sheets.add(Key { of, run, segment, day, host }, path, |row| {
            let time = Cell::Int(at.time);
            row.extend(&[time.clone(), time, known(at.host), known(at.ioc), name.into()]);
            push(row);
        });
        *failed = added.err();
    }

    fn enter(&mut self, host: &str) -> u32 {
        let name = partition(host);
        // two names that are cut may be one
        let known = self.partitions.iter().position(|known| *known == name);
        let number = known.unwrap_or(self.partitions.len());
        if known.is_none() {
            self.partitions.push(name);
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.hosts.insert(host.to_owned(), number);
        number
    }

    /// Whether a file could not be written.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn finish(mut self) -> Result<Summary, Refused> {
        if let Some(failed) = self.failed.take() {
            return Err(failed.into());
        }
        self.sheets.finish()?;
        let written: HashSet<_> = std::mem::take(&mut self.sheets.written).into_iter().collect();
        let nothing = HashSet::new();
        for (run, place) in self.places.runs.iter().enumerate() {
            let of_run = self.sheets.hosts(run).into_iter();
            let hosts = of_run.filter_map(|host| self.partitions.get(host as usize).cloned()).collect();
            for of in &self.tables {
                let kept = self.kept.get(&(*of, run)).unwrap_or(&nothing);
                self.directory.finish(*of, (run, place), kept, &hosts, &written)?;
            }
            self.directory.store(run, place)?;
        }
        let rows = self.tables.iter().map(|of| (*of, self.rows.get(of).copied().unwrap_or(0))).collect();
        Ok(Summary { rows, files: written.len(), kept: self.left })
    }
}

/// Adds the rows of a table that is not made of chains.
type Pass = fn(&mut Export, &Logs, &Filter);

/// Writes tables of the logs.
///
/// # Errors
/// If they can't be written.
pub fn export(logs: &Logs, filter: &Filter, order: &Order) -> Result<Summary, Refused> {
    if !order.format.is_built_in() {
        return Err(Refused::NotBuiltIn);
    }
    let places = Places::of(logs);
    let directory = Directory::open(order.directory, order.format, &order.selection, &places)?;
    let mut kept = HashMap::new();
    for (run, place) in places.runs.iter().enumerate() {
        for of in &order.tables {
            let segments = directory.kept(*of, run, place);
            if !segments.is_empty() {
                kept.insert((*of, run), segments);
            }
        }
    }
    let export = RefCell::new(Export {
        sheets: Sheets::new(order.format, places.runs.len()),
        places,
        directory,
        tables: order.tables.clone(),
        rows: BTreeMap::new(),
        kept,
        left: 0,
        partitions: Vec::new(),
        hosts: HashMap::default(),
        date: (i64::MIN, String::new()),
        failed: None,
    });
    let wants = |of| export.borrow().wants(of);
    let of_chains = [Of::Puts, Of::Processing, Of::Chains].into_iter().any(wants);
    if wants(Of::Values) {
        let tap = Box::new(|chain: &crate::Chain| chain::add(&mut export.borrow_mut(), filter, chain));
        let history = match of_chains {
            true => logs.history_with(filter, tap),
            false => logs.history(filter),
        };
        let mut rows = values::Rows::default();
        for line in Values::new(history, filter) {
            rows.add(&mut export.borrow_mut(), filter, &line);
            if export.borrow().has_failed() {
                break;
            }
        }
    } else if of_chains {
        for chain in logs.replay(filter) {
            chain::add(&mut export.borrow_mut(), filter, &chain);
            if export.borrow().has_failed() {
                break;
            }
        }
    }
    let mut export = export.into_inner();
    // What can't be read is reported once.
    let quiet = logs.without_notices();
    let mut is_reported = order.tables.iter().any(|of| of.is_of_chains());
    let passes: [(Of, Pass); 5] = [
        (Of::Alarms, alarms::add),
        (Of::Circuits, circuits::add),
        (Of::Iocs, iocs::add),
        (Of::Losses, losses::add),
        (Of::Health, health::add),
    ];
    for (of, add) in passes {
        if export.wants(of) && !export.has_failed() {
            add(&mut export, if is_reported { &quiet } else { logs }, filter);
            is_reported = true;
        }
    }
    export.finish()
}

/// Whether a filter selects by name.
pub fn narrows_names(filter: &Filter) -> bool {
    !filter.pv.is_empty() || !filter.exclude.is_empty()
}

/// Which rows a filter selects, in words that are the same for the same selection; empty for all.
pub fn selection(filter: &Filter) -> String {
    let mut words = Vec::new();
    let mut time = |option: &str, time: Option<i64>| {
        if let Some(time) = time {
            let mut text = Vec::new();
            utc::push(&mut text, time);
            words.push(format!("{option} {}", String::from_utf8_lossy(&text)));
        }
    };
    time("--since", filter.since);
    time("--until", filter.until);
    let mut patterns = |option: &str, patterns: &[Pattern]| {
        let mut texts: Vec<&str> = patterns.iter().map(Pattern::text).collect();
        texts.sort_unstable();
        texts.dedup();
        words.extend(texts.into_iter().map(|text| format!("{option} {text:?}")));
    };
    patterns("--pv", &filter.pv);
    patterns("--exclude", &filter.exclude);
    for (option, pattern) in [
        ("--user", &filter.user),
        ("--client", &filter.client),
        ("--ioc", &filter.ioc),
        ("--host", &filter.host),
    ] {
        patterns(option, pattern.as_slice());
    }
    if let Some(pods) = &filter.pod {
        patterns("--pod", std::slice::from_ref(pods.pattern()));
    }
    words.join(" ")
}
