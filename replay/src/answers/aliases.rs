//! Aliases: a PV that is asked for by an alias is its record's.
//!
//! The log names records; which aliases they have, it defines beside them. A question goes on with the record's name, and
//! whoever asked is told both.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::pattern::Pattern;
use crate::reading::scan::{Part, Scan};
use epics::Pv;
use iocrec_log::event::{Fact, RecordId};
use std::collections::{BTreeSet, HashMap};

/// Aliases that are taken for their records, of all patterns; a bound for hostile logs.
const MAX_ALIASES: usize = 10_000;

/// An alias, and the record that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    /// The alias.
    pub name: String,
    /// The record's name.
    pub record: String,
}

impl std::fmt::Display for Alias {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is an alias of {}", self.name, self.record)
    }
}

/// The aliases in the logs with names that are wanted, each with its record. Leaves out parts that can't be read.
pub fn aliases(logs: &Logs, wanted: impl Fn(&str) -> bool) -> BTreeSet<Alias> {
    let mut found = BTreeSet::new();
    for files in logs.runs() {
        // An alias may come before its record.
        let mut of: HashMap<RecordId, Vec<String>> = HashMap::new();
        let mut held = 0;
        for part in Scan::of_definitions(files) {
            let Part::Block(block) = part else { continue };
            for event in block.events {
                if let Fact::Alias(alias) = event.fact {
                    let names = of.entry(alias.record).or_default();
                    if held < MAX_ALIASES && wanted(&alias.name) && !names.contains(&alias.name) {
                        names.push(alias.name);
                        held += 1;
                    }
                }
            }
        }
        of.retain(|_, names| !names.is_empty());
        if of.is_empty() {
            continue;
        }
        for part in Scan::of_definitions(files) {
            let Part::Block(block) = part else { continue };
            for event in block.events {
                let Fact::Record(record) = event.fact else { continue };
                for name in of.get(&record.id).into_iter().flatten() {
                    if found.len() < MAX_ALIASES {
                        found.insert(Alias { name: name.clone(), record: record.name.clone() });
                    }
                }
            }
        }
    }
    found
}

/// The record and field that this one is, for each record that a PV's name is an alias of.
pub fn records_of(logs: &Logs, pv: &str) -> Vec<(Alias, String)> {
    let Pv { record, field } = Pv::new(pv);
    let found = aliases(logs, |name| name == record);
    let named = |alias: Alias| {
        // as it was asked for: without a field, or with one
        let asked = if pv == record { alias.record.clone() } else { format!("{}.{field}", alias.record) };
        (alias, asked)
    };
    found.into_iter().map(named).collect()
}

/// Adds to the patterns of a filter the records whose aliases they match. Returns the aliases that were named as such,
/// without a pattern.
pub fn resolve(logs: &Logs, filter: Filter) -> (Filter, Vec<Alias>) {
    if filter.pv.is_empty() && filter.exclude.is_empty() {
        return (filter, Vec::new());
    }
    let matches = |pattern: &Pattern, name: &str| {
        pattern.matches(name) || !is_glob(pattern) && Pv::new(pattern.text()).record == name
    };
    let patterns = || filter.pv.iter().chain(&filter.exclude);
    let found = aliases(logs, |name| patterns().any(|pattern| matches(pattern, name)));
    let with_records = |own: &[Pattern]| {
        let mut all: Vec<Pattern> = own.to_vec();
        for pattern in own {
            for alias in found.iter().filter(|alias| matches(pattern, &alias.name)) {
                let name = match Pv::new(pattern.text()) {
                    Pv { record, field } if !is_glob(pattern) && record != pattern.text() => {
                        format!("{}.{field}", alias.record)
                    }
                    _ => alias.record.clone(),
                };
                all.push(Pattern::literally(&name));
            }
        }
        all
    };
    let (pv, exclude) = (with_records(&filter.pv), with_records(&filter.exclude));
    let is_named = |alias: &Alias| {
        patterns().any(|pattern| !is_glob(pattern) && Pv::new(pattern.text()).record == alias.name)
    };
    let named = found.iter().filter(|alias| is_named(alias)).cloned().collect();
    (Filter { pv, exclude, ..filter }, named)
}

/// Whether it can match other names than its own text.
fn is_glob(pattern: &Pattern) -> bool {
    pattern.text().contains(['*', '?', '['])
}
