//! Which alarms and records the page shows.

use super::{index, MAX_COUNTED};
use crate::output::report::collect::places::NONE;
use crate::output::report::facts::Facts;
use crate::output::report::moments::Moment;
use std::collections::{HashMap, HashSet};

/// Alarm transitions in the page: those to the worst severities first.
const MAX_ALARMS: usize = 5000;

/// The transitions that are shown, by their places: those to the worst severities first, then the earliest.
pub(super) fn alarms_to_show(facts: &Facts) -> Vec<usize> {
    let all = &facts.found.alarms.all;
    let mut places: Vec<usize> = (0..all.len()).collect();
    if places.len() > MAX_ALARMS {
        let worst =
            |place: &usize| all.get(*place).map_or(0, |found| found.to.severity.max(found.from.unwrap_or(0)));
        places.sort_by_key(|place| (u16::MAX - worst(place), *place));
        places.truncate(MAX_ALARMS);
        places.sort_unstable();
    }
    places
}

/// The records that the page names, with their numbers there: those in alarms, puts and moments, then those that
/// processed most.
pub(super) fn records_to_show(facts: &Facts, moments: &[Moment], kept: &[usize]) -> HashMap<u32, usize> {
    let all = &facts.found.places.records;
    let mut chosen: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |record: u32| {
        if record != NONE && seen.insert(record) {
            chosen.push(record);
        }
    };
    let mut most: Vec<u32> = (0..u32::try_from(all.len()).unwrap_or(NONE)).collect();
    most.sort_by_key(|record| {
        all.get(index(*record)).map_or(0, |record| u64::MAX - record.processed.total())
    });
    most.into_iter().take(MAX_COUNTED).for_each(&mut add);
    let names: HashSet<&str> = moments.iter().map(|moment| moment.name.as_str()).collect();
    for (record, info) in all.iter().enumerate() {
        if names.contains(facts.found.strings.get(info.name)) {
            add(u32::try_from(record).unwrap_or(NONE));
        }
    }
    kept.iter().filter_map(|place| facts.found.alarms.all.get(*place)).for_each(|found| add(found.record));
    facts.found.puts.all.iter().for_each(|put| add(put.record));
    chosen.into_iter().enumerate().map(|(place, record)| (record, place)).collect()
}
