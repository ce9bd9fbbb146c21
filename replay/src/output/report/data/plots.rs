//! Plots of the PVs that matter most.

use super::shape::Plot;
use super::{index, place_of};
use crate::output::report::collect::plot::Plot as Line;
use crate::output::report::collect::records::RecordInfo;
use crate::output::report::facts::Facts;
use crate::output::report::moments::Moment;
use std::collections::{HashMap, HashSet};

/// PVs with a plot.
const MAX_PLOTS: usize = 40;
/// Points of all plots: about 1 MB.
const MAX_POINTS: usize = 56_000;

/// The plots: of PVs in the moments first, then in alarms, then those written, then those that process most.
pub(super) fn plots(
    facts: &Facts,
    moments: &[Moment],
    kept: &[usize],
    numbers: &HashMap<u32, usize>,
) -> Vec<Plot> {
    let all = &facts.found.places.records;
    let mut chosen: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |record: u32| {
        let plot = all.get(index(record)).and_then(|record| record.plot.as_deref());
        if plot.is_some_and(Line::is_line) && numbers.contains_key(&record) && seen.insert(record) {
            chosen.push(record);
        }
    };
    for moment in moments {
        let named = |info: &&RecordInfo| facts.found.strings.get(info.name) == moment.name;
        let found = all.iter().position(|info| named(&info));
        found.and_then(|record| u32::try_from(record).ok()).into_iter().for_each(&mut add);
    }
    let alarms = kept.iter().filter_map(|place| facts.found.alarms.all.get(*place));
    alarms.filter(|found| found.to.severity >= 2).for_each(|found| add(found.record));
    facts.found.puts.all.iter().for_each(|put| add(put.record));
    let mut busy: Vec<u32> = numbers.keys().copied().collect();
    busy.sort_by_key(|record| numbers.get(record));
    busy.into_iter().for_each(&mut add);
    let mut room = MAX_POINTS;
    let mut plots = Vec::new();
    for record in chosen.into_iter().take(MAX_PLOTS) {
        let Some(info) = all.get(index(record)) else { continue };
        let Some(plot) = info.plot.clone() else { continue };
        let seen = plot.seen();
        let (points, thinned) = plot.finish();
        if points.len() > room {
            continue;
        }
        room -= points.len();
        plots.push(Plot {
            record: place_of(numbers, record),
            units: info.units,
            states: info.states.to_vec(),
            seen,
            thinned,
            time: points.iter().map(|point| facts.clock.ms(point.time)).collect(),
            value: points.iter().map(|point| Some(point.value).filter(|value| value.is_finite())).collect(),
        });
    }
    plots
}
