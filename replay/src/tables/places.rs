//! In which segment of which run a row falls: its files are named for that.
//!
//! It depends on the row's time and on the beginnings of segments alone, which are in their headers. So a row falls into the
//! same segment however much of the log is there.

use crate::logs::Logs;
use crate::reading::runs::host;
use std::collections::HashMap;

/// A segment that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number in the run.
    pub number: u32,
    /// Wall-clock time from which on rows fall into it.
    pub since: i64,
    /// Its bytes.
    pub size: u64,
}

/// A run that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number, as in the column `run`.
    pub run: String,
    /// The recorded host; empty if unknown.
    pub host: String,
    /// Its segments. Never empty.
    pub segments: Vec<Segment>,
}

/// All runs.
#[derive(Debug, Default)]
pub struct Places {
    /// In the order of the logs.
    pub runs: Vec<Place>,
    /// By host, in the order in which they began.
    of_host: HashMap<String, Vec<usize>>,
}

impl Places {
    /// Looks at the headers of all segments.
    pub fn of(logs: &Logs) -> Places {
        let mut places = Places::default();
        for files in logs.runs() {
            let headers = files.iter().filter_map(|file| Some((file.header?, file.size)));
            let mut since = i64::MIN;
            let mut run = 0;
            let segments = headers.map(|(header, size)| {
                run = header.run;
                // where the clock was set back, what comes later still comes later
                since = since.max(header.created_wall);
                Segment { number: header.sequence, since, size }
            });
            let segments: Vec<Segment> = segments.collect();
            let host = host(files).map(|host| host.name).unwrap_or_default();
            places.of_host.entry(host.clone()).or_default().push(places.runs.len());
            places.runs.push(Place { run: format!("{run:032x}"), host, segments });
        }
        for runs in places.of_host.values_mut() {
            runs.sort_by_key(|run| places.runs.get(*run).and_then(|run| Some(run.segments.first()?.since)));
        }
        places
    }

    /// The run of a host that a time belongs to: the last that had begun.
    pub fn run_of(&self, host: &str, time: i64) -> usize {
        let Some(runs) = self.of_host.get(host) else { return 0 };
        let begun = |run: &&usize| {
            let first = self.runs.get(**run).and_then(|run| run.segments.first());
            first.is_some_and(|first| first.since <= time)
        };
        runs.iter().rev().find(begun).or(runs.first()).copied().unwrap_or(0)
    }

    /// The segment of a run in whose time this one is.
    pub fn segment(&self, run: usize, time: i64) -> u32 {
        let segments = self.runs.get(run).map(|run| run.segments.as_slice()).unwrap_or_default();
        let after = segments.partition_point(|segment| segment.since <= time);
        segments.get(after.saturating_sub(1)).map_or(0, |segment| segment.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_falls_into_the_segment_that_had_begun() {
        let segment = |number, since| Segment { number, since, size: 1 };
        let run = |host: &str, segments: &[Segment]| Place {
            run: String::new(),
            host: host.to_owned(),
            segments: segments.to_vec(),
        };
        let places = Places {
            runs: vec![
                run("a", &[segment(3, 100), segment(4, 200), segment(7, 200)]),
                run("b", &[segment(0, 50)]),
                run("a", &[segment(0, 300)]),
            ],
            of_host: [("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![1])].into(),
        };
        let segments: Vec<u32> = [0, 100, 199, 200, 999].map(|time| places.segment(0, time)).to_vec();
        assert_eq!(segments, [3, 3, 3, 7, 7]);
        assert_eq!([0, 299, 300].map(|time| places.run_of("a", time)), [0, 0, 2]);
        assert_eq!((places.run_of("b", 0), places.run_of("?", 0)), (1, 0));
    }
}
