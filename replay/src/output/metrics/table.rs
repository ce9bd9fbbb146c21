//! Series of numbers over time, and the points that they come to.
//!
//! Counters only grow: each point has the sum since the beginning. A gauge has points only where it was measured. Nothing is
//! interpolated, and there is no point where the log knows nothing of an IOC.

use super::families::Metric;
use crate::model::open_chains::LIMIT;
use crate::output::resources::Resource;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

/// Points at most, 100 MB; a bound for hostile logs and short steps.
const MAX_POINTS: usize = 1_000_000;

/// What comes so much earlier than what came before, in a log that grows, comes after a clock was set back, nanoseconds: a
/// chain is over after half of this.
const BACK: i64 = 2 * LIMIT as i64;

/// Labels of a series beside those of its resource.
pub(super) type Labels = Vec<(&'static str, String)>;

/// All series.
pub struct Table {
    /// Nanoseconds between points; `None` for one at the end.
    step: Option<i64>,
    /// Whether the log grows: then things come in the order in which they happened, whatever a clock showed.
    is_live: bool,
    /// When counting began and ended, nanoseconds since 1970 UTC.
    begin: Option<i64>,
    end: i64,
    resources: Vec<Rc<Resource>>,
    /// The first and the last step in which something is known of each resource.
    known: Vec<(i64, i64)>,
    /// The last time of which something is known of each, and the last that was given as news.
    latest: Vec<(i64, Option<i64>)>,
    series: BTreeMap<(Metric, usize, Labels), BTreeMap<i64, Measured>>,
    count: usize,
}

/// What a series has in a step: what was added, or the last that was measured and when.
#[derive(Clone, Copy, Default)]
struct Measured {
    time: i64,
    number: f64,
}

/// A point of a series.
#[derive(Clone)]
pub struct Point {
    pub(super) metric: Metric,
    pub(super) of: Rc<Resource>,
    pub(super) labels: Rc<Labels>,
    /// When counting began; `None` for a gauge.
    pub(super) start: Option<i64>,
    pub(super) time: i64,
    pub(super) number: f64,
}

/// There would be more points than can be held.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "these are more than {MAX_POINTS} points; take a longer --step, or less with --since and --until"
        )
    }
}

impl Table {
    /// An empty one of a log that ends at `end`. Counting begins at `begin`, or else with the first that is added.
    pub fn new(step: Option<i64>, begin: Option<i64>, end: i64) -> Table {
        let (resources, known, latest) = (Vec::new(), Vec::new(), Vec::new());
        let series = BTreeMap::new();
        Table { step, is_live: false, begin, end, resources, known, latest, series, count: 0 }
    }

    /// An empty one of a log that grows.
    pub fn live(begin: Option<i64>) -> Table {
        Table { is_live: true, ..Table::new(None, begin, i64::MIN) }
    }

    fn step_of(&self, time: i64) -> i64 {
        self.step.map_or(0, |step| time.div_euclid(step))
    }

    /// When a step is over.
    fn end_of(&self, step: i64) -> i64 {
        self.step.map_or(self.end, |length| step.saturating_add(1).saturating_mul(length).min(self.end))
    }

    /// Adds to a counter, or sets a gauge. What is no number is not known.
    pub(super) fn take(
        &mut self,
        metric: Metric,
        of: &Rc<Resource>,
        labels: Labels,
        time: i64,
        number: f64,
    ) -> Result<(), TooMany> {
        if !number.is_finite() {
            return Ok(());
        }
        // What was given as news says when counting began.
        if !self.latest.iter().any(|(_, given)| given.is_some()) {
            self.begin = Some(self.begin.map_or(time, |begin| begin.min(time)));
        }
        self.end = self.end.max(time);
        let step = self.step_of(time);
        let place = match self.resources.iter().rposition(|own| Rc::ptr_eq(own, of)) {
            Some(place) => place,
            None => {
                self.resources.push(Rc::clone(of));
                self.known.push((step, step));
                self.latest.push((time, None));
                self.resources.len() - 1
            }
        };
        if let Some((first, last)) = self.known.get_mut(place) {
            (*first, *last) = ((*first).min(step), (*last).max(step));
        }
        let is_set_back =
            self.latest.get(place).is_some_and(|(latest, _)| is_back(self.is_live, *latest, time));
        if is_set_back {
            self.begin = self.begin.map(|begin| begin.min(time));
            // what is known of the host is later by a clock that was wrong
            let others =
                self.resources.iter().zip(&mut self.latest).filter(|(other, _)| other.host == of.host);
            others.for_each(|(_, (latest, given))| {
                (*latest, *given) = (time.min(*latest), given.map(|given| given.min(time.saturating_sub(1))));
            });
        }
        if let Some((latest, _)) = self.latest.get_mut(place) {
            *latest = (*latest).max(time);
        }
        let steps = self.series.entry((metric, place, labels)).or_default();
        if !steps.contains_key(&step) {
            self.count += 1;
            if self.count > MAX_POINTS {
                return Err(TooMany);
            }
        }
        let measured = steps.entry(step).or_default();
        if metric.family().is_counter {
            measured.number += number;
        } else if time >= measured.time || is_back(self.is_live, measured.time, time) {
            *measured = Measured { time, number };
        }
        Ok(())
    }

    /// Checks that there are not too many points. To be asked once all is taken.
    ///
    /// # Errors
    /// If there are.
    pub fn check(&self) -> Result<(), TooMany> {
        let points = |((metric, place, _), steps): (&(Metric, usize, Labels), &BTreeMap<i64, Measured>)| {
            let (first, last) = self.known.get(*place).copied().unwrap_or_default();
            match metric.family().is_counter {
                true => u128::from(last.abs_diff(first)) + 1,
                false => steps.len() as u128,
            }
        };
        match self.series.iter().map(points).sum::<u128>() > MAX_POINTS as u128 {
            true => Err(TooMany),
            false => Ok(()),
        }
    }

    /// The points of each series, by metrics; those of a series in order of time.
    pub(super) fn series(&self) -> impl Iterator<Item = Vec<Point>> + '_ {
        self.series.iter().filter_map(|((metric, place, labels), steps)| {
            let of = self.resources.get(*place)?;
            let (first, last) = self.known.get(*place).copied()?;
            let labels = Rc::new(labels.clone());
            let point = |start, time, number| Point {
                metric: *metric,
                of: Rc::clone(of),
                labels: Rc::clone(&labels),
                start,
                time,
                number,
            };
            if !metric.family().is_counter {
                return Some(steps.values().map(|of| point(None, of.time, of.number)).collect());
            }
            let mut sum = 0.0;
            let points = (first..=last).map(|step| {
                sum += steps.get(&step).map_or(0.0, |of| of.number);
                point(self.begin, self.end_of(step), sum)
            });
            Some(points.collect())
        })
    }

    /// All points, in order of time.
    pub fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self.series().flatten().collect();
        points.sort_by_key(|point| point.time);
        points
    }

    /// The points of what has become known since this was asked last, for a log that grows; the table has one step. A sum
    /// is that of the last moment of which something is known of its IOC; a host's, of any IOC of the host.
    pub fn news(&mut self) -> Vec<Point> {
        let mut of_host: HashMap<&str, i64> = HashMap::new();
        for (of, (latest, _)) in self.resources.iter().zip(&self.latest) {
            let last = of_host.entry(&of.host).or_insert(*latest);
            *last = (*last).max(*latest);
        }
        let last = |(of, (latest, given)): (&Rc<Resource>, &(i64, Option<i64>))| {
            let last = of_host.get(of.host.as_str()).filter(|_| of.ioc.is_empty());
            (*last.unwrap_or(latest), *given)
        };
        let latest: Vec<(i64, Option<i64>)> = self.resources.iter().zip(&self.latest).map(last).collect();
        let mut points: Vec<Point> = Vec::new();
        for ((metric, place, labels), steps) in &self.series {
            let (Some(of), Some((last, given))) = (self.resources.get(*place), latest.get(*place)) else {
                continue;
            };
            let Some(measured) = steps.values().next_back() else { continue };
            let (start, time) = match metric.family().is_counter {
                true => (self.begin, *last),
                false => (None, measured.time),
            };
            if time <= *last && given.is_none_or(|given| time > given) {
                let (of, labels) = (Rc::clone(of), Rc::new(labels.clone()));
                points.push(Point { metric: *metric, of, labels, start, time, number: measured.number });
            }
        }
        self.latest.iter_mut().zip(&latest).for_each(|((_, given), (last, _))| *given = Some(*last));
        points.sort_by_key(|point| point.time);
        points
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

/// Whether a clock was set back from this time to that.
fn is_back(is_live: bool, from: i64, to: i64) -> bool {
    is_live && to < from.saturating_sub(BACK)
}

#[cfg(test)]
mod tests;
