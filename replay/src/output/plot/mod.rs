//! Values over time as drawings: on a terminal, and as SVG.
//!
//! Both show steps, leave open or hatch what is not known, and mark alarm severities in a band below.

pub mod axis;
pub mod svg;
pub mod terminal;

use crate::model::history::ValueLine;
use crate::model::series::Series;
use crate::model::unseen::Kind;
use crate::words::counted;
use std::collections::HashMap;

/// PVs drawn at most: more than anyone looks at; a bound for a pattern that matches too much.
pub const MAX_SERIES: usize = 100;

/// PVs to draw, with their values.
#[derive(Default)]
pub struct Drawing {
    /// The PVs in the order in which their first values came.
    pub series: Vec<Series>,
    /// Start of the time axis, nanoseconds since 1970 UTC.
    pub from: i64,
    /// End of the time axis.
    pub to: i64,
    numbers: HashMap<(String, String, String), usize>,
    more: u64,
}

impl Drawing {
    /// Takes the next line.
    pub fn add(&mut self, line: &ValueLine) {
        if let Some(unseen) = &line.unseen {
            let same = |own: &str, other: &str| other.is_empty() || own == other;
            let concerned =
                |series: &&mut Series| same(&series.ioc, &line.ioc) && same(&series.host, &line.host);
            let is_of = |pv: &str, record: &str| {
                pv.strip_prefix(record).is_some_and(|field| field.is_empty() || field.starts_with('.'))
            };
            let of = |series: &Series| unseen.record.as_ref().is_none_or(|record| is_of(&series.pv, record));
            // a chain that was left out is one of a record that scans: what is drawn is a sample of its values
            if unseen.kind != Kind::LeftOut || unseen.open {
                let all = self.series.iter_mut().filter(concerned).filter(|series| of(series));
                all.for_each(|series| series.unseen(unseen.since, unseen.kind));
            }
            return;
        }
        let name = (line.host.to_string(), line.ioc.to_string(), line.pv());
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.series.len() >= MAX_SERIES => {
                self.more += 1;
                return;
            }
            None => {
                let mut series = Series::of(line);
                let alike = |other: &&mut Series| other.pv == series.pv && other.ioc == series.ioc;
                for other in self.series.iter_mut().filter(alike) {
                    (other.is_named_twice, series.is_named_twice) = (true, true);
                }
                self.series.push(series);
                self.numbers.insert(name, self.series.len() - 1);
                self.series.len() - 1
            }
        };
        if let Some(series) = self.series.get_mut(number) {
            series.add(line);
        }
    }

    /// Leaves out what is too much, beside so many others that never were in it.
    pub fn limit(&mut self, others: usize) {
        let more = self.series.len().saturating_sub(MAX_SERIES).saturating_add(others);
        self.more = self.more.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
        self.series.truncate(MAX_SERIES);
    }

    /// Sets the time axis: the times asked for, else from the first value to the end of the log.
    pub fn set_time(&mut self, since: Option<i64>, until: Option<i64>, end: Option<i64>) {
        let first = self.series.iter().filter_map(|series| Some(series.span()?.0)).min();
        let last = self.series.iter().filter_map(|series| Some(series.span()?.1)).max();
        self.from = since.or(first).unwrap_or_default();
        let end = until.map_or(end, |until| Some(end.map_or(until, |end| end.min(until))));
        self.to =
            end.or(last).unwrap_or(self.from).max(last.unwrap_or(self.from)).max(self.from.saturating_add(1));
    }

    /// What is not drawn, or not as it is: a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for series in &self.series {
            if series.not_drawn > 0 {
                let kept = series.count.saturating_sub(series.not_drawn);
                remarks.push(match kept {
                    0 => format!("{} can't be drawn: its values are texts or arrays", series.pv),
                    _ => format!(
                        "{} of {} can't be drawn: texts or arrays",
                        counted(series.not_drawn, "value"),
                        series.pv
                    ),
                });
            }
            if series.joined > 1 {
                remarks.push(format!(
                    "{} has {} values; up to {} are drawn as one, from the lowest to the highest",
                    series.pv, series.count, series.joined
                ));
            }
        }
        if self.more > 0 {
            remarks.push(format!("only the first {MAX_SERIES} are drawn; choose fewer"));
        }
        remarks
    }

    /// The series that have anything to draw.
    pub fn drawn(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| !series.cells.is_empty())
    }
}

/// The heading of a PV: its IOC, description and units; and how many values are NaN or infinite.
pub fn heading(series: &Series) -> String {
    let mut heading = series.pv.clone();
    if let Some(properties) = &series.properties {
        if !properties.units.is_empty() && !series.is_states() {
            heading.push_str(&format!(" [{}]", properties.units));
        }
        if !properties.description.is_empty() {
            heading.push_str(&format!("  {}", properties.description));
        }
    }
    if series.is_named_twice && !series.host.is_empty() {
        heading.push_str(&format!("  ({} on {})", series.ioc, series.host));
    } else if !series.ioc.is_empty() {
        heading.push_str(&format!("  ({})", series.ioc));
    }
    match series.not_finite {
        0 => {}
        1 => heading.push_str("  1 value can't be drawn"),
        count => heading.push_str(&format!("  {count} values can't be drawn")),
    }
    heading
}
