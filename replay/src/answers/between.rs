//! Times between the runs of a host's recorders, about which its logs say nothing: a recorder was killed and another one
//! began later, or the segments at the beginning of a run are gone.
//!
//! Runs beside each other cover each other's times. What a log holds ends with its last event, so the last moments before a
//! recorder was killed are among those that are not recorded. Where the clock of a boot was set back between its runs, their
//! order and what lies between them are by the clock that nobody sets.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::reading::runs::{host, last_event};
use iocrec_log::clock::can_be_right;
use std::collections::{BTreeMap, HashSet};

/// Why nothing is known of such a time. A log that was cut, or not copied, looks like one that was not written.
pub(crate) const NO_LOG: &str = "no recorder's run is in the logs";

/// Why nothing is known of a time before the first segment of a run that is there: `is_missing`, whether the run has earlier ones.
pub(crate) fn why(is_missing: bool) -> &'static str {
    if is_missing {
        "a part of the log is missing"
    } else {
        NO_LOG
    }
}

/// A time that no run covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// The number of the run that begins then.
    pub run: usize,
    /// Its host; empty if unknown.
    pub host: String,
    /// Wall-clock time of the last event before.
    pub since: i64,
    /// When the next run began.
    pub time: i64,
    /// The time in between, nanoseconds: within a boot by the clock that nobody sets.
    pub length: u64,
    /// Whether that run has segments before the first that is there.
    pub is_missing: bool,
}

impl Between {
    /// Why nothing is known.
    pub fn cause(&self) -> &'static str {
        why(self.is_missing)
    }

    /// The sentence.
    pub fn sentence(&self) -> String {
        let seconds = self.length as f64 / 1e9;
        format!("nothing was recorded for {seconds:.3} s: {}", self.cause())
    }
}

/// A run that has begun.
struct Begun {
    time: i64,
    /// Its place in the order of time.
    even: i64,
    run: usize,
    sequence: u32,
    boot: String,
    /// By the clock of the boot.
    created: u64,
}

/// Runs of a boot that began within this time are in no order by the clock of the boot, nanoseconds.
const APART: u64 = 60_000_000_000;

/// The boots in which the clock was set back between two runs, with their runs in order.
fn set_back(runs: &[Begun]) -> Vec<(&str, Vec<&Begun>)> {
    let mut of_boot: BTreeMap<&str, Vec<&Begun>> = BTreeMap::new();
    for begun in runs.iter().filter(|begun| !begun.boot.is_empty()) {
        of_boot.entry(&begun.boot).or_default().push(begun);
    }
    let is_set_back = |(_, runs): &(&str, Vec<&Begun>)| {
        let (mut earlier, mut latest) = (runs.iter().peekable(), i64::MIN);
        runs.iter().any(|later| {
            while let Some(one) = earlier.next_if(|one| one.created.saturating_add(APART) < later.created) {
                latest = latest.max(one.time);
            }
            latest > later.time
        })
    };
    of_boot
        .into_iter()
        .map(|(boot, mut runs)| {
            runs.sort_by_key(|begun| begun.created);
            (boot, runs)
        })
        .filter(is_set_back)
        .collect()
}

impl Logs {
    /// The times between runs that ended in the filter's time and are of its hosts, in order of time for each host. Only
    /// for those are the ends of runs read.
    pub fn between(&self, filter: &Filter) -> Vec<Between> {
        let mut of_host: BTreeMap<String, Vec<Begun>> = BTreeMap::new();
        for (run, files) in self.runs().iter().enumerate() {
            let Some(header) = files.iter().find_map(|file| file.header) else { continue };
            let (host, boot) = host(files).map(|host| (host.name, host.boot_id)).unwrap_or_default();
            let (time, sequence, created) = (header.created_wall, header.sequence, header.created);
            let even = self.courses().get(run).map_or(time, |course| course.even(created, time));
            of_host.entry(host).or_default().push(Begun { time, even, run, sequence, boot, created });
        }
        let mut found = Vec::new();
        for (host, mut runs) in of_host {
            if filter.host.as_ref().is_some_and(|glob| !glob.matches(&host)) {
                continue;
            }
            runs.sort_unstable_by_key(|begun| (begun.even, begun.run));
            let (set_back, begins) = (set_back(&runs), found.len());
            let by_boot: HashSet<&str> = set_back.iter().map(|(boot, _)| *boot).collect();
            // before the first run of such a boot is another one
            let firsts: Vec<usize> =
                set_back.iter().filter_map(|(_, runs)| runs.first()).map(|first| first.run).collect();
            for (_, runs) in &set_back {
                found.extend(self.between_by_boot(runs, &host, filter));
            }
            let mut ends = runs.iter().map(|begun| {
                let (time, wall) = last_event(self.runs().get(begun.run)?)?;
                let even = self.courses().get(begun.run).map_or(wall, |course| course.even(time, wall));
                Some((even, wall, time, begun.boot.as_str()))
            });
            let (mut covered, mut ended) = (None::<(i64, i64, u64, &str)>, 0);
            for (place, begun) in runs.iter().enumerate().skip(1) {
                if !filter.time(begun.time) {
                    continue;
                }
                for end in ends.by_ref().take(place - ended) {
                    covered = covered.max(end);
                }
                ended = place;
                if by_boot.contains(begun.boot.as_str()) && !firsts.contains(&begun.run) {
                    continue;
                }
                let Some((even, since, last, boot)) = covered else { continue };
                // nobody knows when it was that a clock showed which was never set
                if !can_be_right(since) || even >= begun.even {
                    continue;
                }
                // a clock that was set back later showed a time to come
                let since = if since < begun.time { since } else { even };
                // the clock may have been set meanwhile
                let is_of_boot = !boot.is_empty() && boot == begun.boot;
                let length = begun.created.checked_sub(last).filter(|_| is_of_boot);
                found.push(Between {
                    run: begun.run,
                    host: host.clone(),
                    since,
                    time: begun.time,
                    length: length.unwrap_or(begun.even.abs_diff(even)),
                    is_missing: begun.sequence > 0,
                });
            }
            if let Some(of_host) = found.get_mut(begins..) {
                of_host.sort_by_key(|between| between.time);
            }
        }
        found
    }

    /// The times between these runs of a boot, by its clock. When they began is told by the clock as it was when the later run
    /// began.
    fn between_by_boot(&self, runs: &[&Begun], host: &str, filter: &Filter) -> Vec<Between> {
        let (mut covered, mut found) = (None::<u64>, Vec::new());
        for begun in runs {
            let length =
                covered.and_then(|last| begun.created.checked_sub(last)).filter(|length| *length > 0);
            if let Some(length) = length.filter(|_| filter.time(begun.time) && can_be_right(begun.time)) {
                let since = begun.time.saturating_sub(i64::try_from(length).unwrap_or(i64::MAX));
                let (run, time, is_missing) = (begun.run, begun.time, begun.sequence > 0);
                found.push(Between { run, host: host.to_owned(), since, time, length, is_missing });
            }
            let end = self.runs().get(begun.run).and_then(|files| last_event(files));
            covered = covered.max(end.map(|(time, _)| time));
        }
        found
    }
}
