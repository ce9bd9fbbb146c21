//! How long each IOC was recorded: the time that rates are counted over.
//!
//! A count is only a rate over the time in which it could have counted: from when the recorder had the IOC, within the
//! time that was asked for, to its end or that of the log, less the times in which it ran unseen. What the IOC did in
//! that time does not matter: a record that processed twice in an hour has a rate of two in an hour, however near to each
//! other the two were. Where the machine's clock was set back, that time is not known, and so there are no rates. Where it was
//! set forward, the time that it skipped does not count.

use crate::answers::processes::{Process, Processes};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::numbered::Keyed;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Host and IOC.
type Place = (Rc<str>, Rc<str>);

/// Seconds by IOC.
#[derive(Default)]
pub struct Recorded(Keyed<Place, f64>);

impl Recorded {
    /// Of the processes in these logs, within the filter's times.
    pub fn read(logs: &Logs, filter: &Filter) -> Recorded {
        let mut found = Recorded::of(&Processes::read(logs), &logs.leaps(), filter);
        // that time is not known by the clock
        let set_back = logs.set_back();
        found.0.retain(|(host, _), _| !set_back.contains_key(&**host));
        found
    }

    fn of(
        processes: &Processes,
        leaps: &BTreeMap<String, BTreeSet<(i64, i64)>>,
        filter: &Filter,
    ) -> Recorded {
        let mut spans: Keyed<Place, Vec<(i64, i64)>> = Keyed::default();
        for process in processes.all() {
            let of = spans.entry((Rc::clone(&process.host), Rc::clone(&process.ioc))).or_default();
            of.extend(seen(process, leaps.get(&*process.host).into_iter().flatten(), filter));
        }
        Recorded(spans.into_iter().map(|(place, spans)| (place, seconds(spans))).collect())
    }

    /// Seconds in which an IOC was recorded; `None` if that is not known, or less than a second, too short for a rate.
    pub fn seconds(&self, host: &Rc<str>, ioc: &Rc<str>) -> Option<f64> {
        let seconds = self.0.get(&(Rc::clone(host), Rc::clone(ioc)))?;
        Some(*seconds).filter(|seconds| *seconds >= 1.0)
    }
}

/// The times in which a process was recorded. Empty if they are not known. `leaps`: what the clock skipped.
fn seen<'a>(
    process: &Process,
    leaps: impl Iterator<Item = &'a (i64, i64)>,
    filter: &Filter,
) -> Vec<(i64, i64)> {
    let Some((begin, end)) = process.recorded.zip(process.until) else { return Vec::new() };
    let mut from = begin.max(filter.since.unwrap_or(i64::MIN));
    let end = end.min(filter.until.unwrap_or(i64::MAX));
    let mut unseen: Vec<(i64, i64)> = process.unseen.iter().map(|unseen| (unseen.from, unseen.to)).collect();
    unseen.extend(leaps);
    unseen.sort_unstable();
    let mut found = Vec::new();
    for (begin, over) in unseen {
        found.push((from, begin.min(end)));
        from = from.max(over);
    }
    found.push((from, end));
    found.retain(|(from, to)| from < to);
    found
}

/// The length of spans that may overlap: IOCs of one name can run side by side.
fn seconds(mut spans: Vec<(i64, i64)>) -> f64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0_i64, i64::MIN);
    for (from, to) in spans {
        sum = sum.saturating_add(to.saturating_sub(from.max(reached)).max(0));
        reached = reached.max(to);
    }
    sum as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::processes::Unseen;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn only_what_was_recorded_counts_and_only_once() {
        let unseen = |from: i64, to: i64| Unseen { from: from * SECOND, to: to * SECOND, cause: "".into() };
        let process = Process {
            recorded: Some(10 * SECOND),
            until: Some(70 * SECOND),
            unseen: vec![unseen(20, 30), unseen(0, 12), unseen(25, 28), unseen(65, 999)],
            ..Process::default()
        };
        let of = |since: Option<i64>, until: Option<i64>, leaps: &[(i64, i64)]| {
            let times = |time: Option<i64>| time.map(|time| time * SECOND);
            let filter = Filter { since: times(since), until: times(until), ..Filter::default() };
            seconds(seen(&process, leaps.iter(), &filter))
        };
        assert_eq!(of(None, None, &[]), 8.0 + 35.0);
        assert_eq!(of(Some(29), Some(40), &[]), 10.0);
        assert_eq!(of(Some(21), Some(24), &[]), 0.0);
        assert_eq!(of(Some(80), None, &[]), 0.0);
        // the clock was set forward by 20 s
        assert_eq!(of(None, None, &[(35 * SECOND, 55 * SECOND)]), 8.0 + 15.0);
        let twice = [(10, 20), (15, 30), (40, 41)].map(|(from, to)| (from * SECOND, to * SECOND));
        assert_eq!(seconds(twice.to_vec()), 21.0);
        // a clock can show anything
        assert_eq!(seconds(vec![(i64::MIN, 0), (1, i64::MAX)]), i64::MAX as f64 / 1e9);
        assert_eq!(seconds(seen(&Process::default(), [].iter(), &Filter::default())), 0.0);
    }
}
