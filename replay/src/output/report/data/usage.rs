//! What the IOCs used, as lines of the page's plots: at most so many points, and a null from where nothing is known.

use super::number;
use super::shape::{Usage, UsageLine, UsagePlot};
use crate::model::series::{Cell, Series};
use crate::output::report::clock::Clock;
use crate::output::report::facts::Facts;
use crate::output::report::strings::shown;

/// Points of all lines, about 0.6 MB; and of one line at most.
const MAX_POINTS: usize = 30_000;
const MAX_LINE: usize = 800;

/// Titles and units of the plots of an IOC's own series, in their order; and whether their axis begins with 0.
const PLOTS: [(&str, &str, bool); 7] = [
    ("CPU", "% of one CPU", true),
    ("Waiting for a CPU", "%", true),
    ("Resident memory", "MiB", false),
    ("Threads", "", false),
    ("Descriptors", "", false),
    ("Clients", "", true),
    ("Channels", "", true),
];

/// The plots of each IOC, and the number of lines that had no room.
pub(super) fn usage(facts: &mut Facts) -> (Vec<Usage>, usize) {
    let drawn = std::mem::take(&mut facts.usage.drawn);
    let is_drawn = |series: &&Series| !series.cells.is_empty();
    let count = drawn.iter().flat_map(|(_, of)| of.own.iter().chain(&of.threads)).filter(is_drawn).count();
    let most = (MAX_POINTS / count.max(1)).clamp(8, MAX_LINE);
    let (mut room, mut left_out) = (MAX_POINTS, 0);
    let mut all = Vec::new();
    for (ioc, of) in drawn {
        let mut line = |series: &Series, name: &str| {
            let line = of_series(series, name, most, &facts.clock);
            if line.time.len() > room {
                left_out += 1;
                return None;
            }
            room -= line.time.len();
            Some(line)
        };
        let mut plots = Vec::new();
        for ((title, units, zero), series) in PLOTS.into_iter().zip(&of.own) {
            let mut lines: Vec<UsageLine> =
                Some(series).filter(is_drawn).and_then(|series| line(series, "")).into_iter().collect();
            if title == PLOTS[0].0 {
                let threads = of.threads.iter().filter(is_drawn);
                lines.extend(threads.filter_map(|series| {
                    let name = series.pv.strip_prefix("CPU of thread ").unwrap_or(&series.pv);
                    line(series, if name.is_empty() { "(unknown thread)" } else { name })
                }));
            }
            if !lines.is_empty() {
                plots.push(UsagePlot { title, units, zero, lines });
            }
        }
        all.push(Usage { ioc: number(ioc), plots });
    }
    (all, left_out)
}

fn of_series(series: &Series, name: &str, most: usize, clock: &Clock) -> UsageLine {
    let (points, thinned) = points(series, most);
    UsageLine {
        name: shown(name),
        seen: series.count,
        thinned: thinned || series.joined > 1,
        time: points.iter().map(|(time, _)| clock.ms(*time).round()).collect(),
        value: points.iter().map(|(_, value)| value.map(|value| (value * 1e3).round() / 1e3)).collect(),
    }
}

/// The changes of a series, and where it is not known from when on; whether some were left out. Beyond `most`, of each
/// span of time the first, lowest, highest and last value stay; gaps stay always.
fn points(series: &Series, most: usize) -> (Vec<(i64, Option<f64>)>, bool) {
    let parts = parts(series);
    let changes: usize = parts.iter().map(|(values, _)| values.len() + 1).sum();
    let (first, last) = series.span().unwrap_or_default();
    // four points of each span of time
    let spans = i64::try_from(most / 4).unwrap_or(1).max(1);
    let width = (last.saturating_sub(first) / spans).max(1);
    let mut points = Vec::new();
    for (values, unknown) in parts {
        if changes <= most {
            points.extend(values.into_iter().map(|(time, value)| (time, Some(value))));
        } else {
            for span in values.chunk_by(|a, b| (a.0 - first) / width == (b.0 - first) / width) {
                points.extend(extremes(span).into_iter().map(|(time, value)| (time, Some(value))));
            }
        }
        points.extend(unknown.map(|time| (time, None)));
    }
    (points, changes > most)
}

/// The first, lowest, highest and last value, each once, in order of time.
fn extremes(span: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let by_value = |a: &(usize, &(i64, f64)), b: &(usize, &(i64, f64))| a.1 .1.total_cmp(&b.1 .1);
    let lowest = span.iter().enumerate().min_by(by_value).map(|(place, _)| place);
    let highest = span.iter().enumerate().max_by(by_value).map(|(place, _)| place);
    let mut places: Vec<usize> =
        [Some(0), lowest, highest, span.len().checked_sub(1)].into_iter().flatten().collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().filter_map(|place| span.get(place).copied()).collect()
}

/// Values over time.
type Values = Vec<(i64, f64)>;

/// The changes between gaps, and when each of these parts ends; values that are as the one before are left out.
fn parts(series: &Series) -> Vec<(Values, Option<i64>)> {
    let mut parts: Vec<(Values, Option<i64>)> = Vec::new();
    let mut gaps = series.gaps.iter().peekable();
    let mut values: Values = Vec::new();
    for cell in &series.cells {
        while let Some(gap) = gaps.next_if(|gap| gap.to.is_some_and(|to| to <= cell.from)) {
            if !values.is_empty() {
                parts.push((std::mem::take(&mut values), Some(gap.from)));
            }
        }
        for (time, value) in of_cell(cell) {
            if value.is_finite() && values.last().is_none_or(|(_, before)| *before != value) {
                values.push((time, value));
            }
        }
    }
    if !values.is_empty() {
        parts.push((values, gaps.next().map(|gap| gap.from)));
    }
    parts
}

/// The values of a cell; where several were joined, the time of the lowest and highest is known to the cell only.
fn of_cell(cell: &Cell) -> [(i64, f64); 4] {
    let middle = cell.from.midpoint(cell.to);
    [(cell.from, cell.first), (middle, cell.low), (middle, cell.high), (cell.to, cell.last)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::unseen::Kind;

    fn series() -> Series {
        Series::named("CPU".to_owned(), "%", "box1", "demo")
    }

    #[test]
    fn changes_and_gaps_are_points() {
        let mut series = series();
        series.unseen(0, Kind::Lost);
        for (time, value) in [(10, 1.0), (20, 1.0), (30, 2.0)] {
            series.number(time, value);
        }
        series.unseen(40, Kind::Unrecorded);
        series.number(70, 2.0);
        series.unseen(90, Kind::Unrecorded);
        let expected = vec![(10, Some(1.0)), (30, Some(2.0)), (40, None), (70, Some(2.0)), (90, None)];
        assert_eq!(points(&series, 100), (expected, false));
    }

    #[test]
    fn of_many_no_extreme_and_no_gap_is_lost() {
        let mut series = series();
        for number in 0..100_000_i64 {
            if number == 60_000 {
                series.unseen(60_000_000, Kind::Unrecorded);
            }
            if !(60_000..60_100).contains(&number) {
                let peak = if number == 12_345 { 1e6 } else { 0.0 };
                series.number(number * 1000, (number % 17) as f64 + peak);
            }
        }
        let (points, thinned) = points(&series, 400);
        assert!(thinned && points.len() <= 410, "{}", points.len());
        assert!(points.iter().any(|(_, value)| value.is_some_and(|value| value >= 1e6)));
        assert_eq!(
            points.iter().filter(|(_, value)| value.is_none()).collect::<Vec<_>>(),
            [&(60_000_000, None)]
        );
        assert!(points.is_sorted_by_key(|(time, _)| *time));
    }
}
