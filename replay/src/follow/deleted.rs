//! Segments that a recorder deleted before they were read, since following was too slow or had to wait.

use super::SETTLED;
use crate::logs::Logs;
use crate::reading::runs::course::Course;
use crate::reading::runs::{host, last_event};
use crate::words::counted;
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::SegmentFile;
use std::collections::{BTreeMap, BTreeSet};

/// Runs without a segment that are remembered.
const MAX_GONE: usize = 100;

/// The first segment of each run of which more may come than was read, and the name of its host, by the run's number.
#[derive(Default)]
pub struct Deleted(BTreeMap<u128, (u32, String)>);

impl Deleted {
    /// Goes on from what was [saved](Deleted::save); states of earlier versions have no hosts.
    pub fn load(saved: &[(String, u32)], hosts: &[String]) -> Deleted {
        let hosts = hosts.iter().cloned().chain(std::iter::repeat(String::new()));
        let run = |((run, sequence), host): (&(String, u32), String)| {
            Some((u128::from_str_radix(run, 16).ok()?, (*sequence, host)))
        };
        Deleted(saved.iter().zip(hosts).filter_map(run).collect())
    }

    /// What another process needs to go on from here, beside the [hosts](Deleted::hosts).
    pub fn save(&self) -> Vec<(String, u32)> {
        self.0.iter().map(|(run, (sequence, _))| (format!("{run:x}"), *sequence)).collect()
    }

    /// The hosts of the runs, in the same order.
    pub fn hosts(&self) -> Vec<String> {
        self.0.values().map(|(_, host)| host.clone()).collect()
    }

    /// What is gone since this was asked before, a sentence for each run, and what was yet to be `done` with it. `whole`: what
    /// is there is taken to its end now, though it has not [settled](SETTLED).
    pub fn look(&mut self, logs: &Logs, done: &str, whole: bool) -> Vec<String> {
        let (mut gaps, mut read) = (Vec::new(), BTreeMap::new());
        let runs = logs.runs().iter().zip(logs.courses());
        let runs: Vec<Run> = runs.filter_map(|(files, course)| self.run(files, course)).collect();
        let mut ends: BTreeMap<&str, i64> = BTreeMap::new();
        for (host, (_, even)) in runs.iter().filter_map(|run| Some((run.host.as_str(), run.end?))) {
            let end = ends.entry(host).or_insert(even);
            *end = even.max(*end);
        }
        for Run { files, last, host: of, end } in &runs {
            let headers = files.iter().filter_map(|file| file.header);
            let known = self.0.get(&last.run);
            let end_of_host = ends.get(of.as_str());
            let settled = end_of_host.map_or(i64::MIN, |end| end.saturating_sub(SETTLED.as_nanos() as i64));
            let open = match *end {
                // the host's log goes on in another run
                Some((_, even)) if even <= settled => last.sequence.saturating_add(1),
                Some((time, _)) if !whole => unsettled(files, time).unwrap_or(last.sequence),
                _ => last.sequence,
            };
            read.insert(last.run, (open, of.clone()));
            let first = match known {
                Some((open, _)) => u64::from(*open),
                // It has begun since if the log of its host was read. Others are of logs that came here later: what they lack may
                // be gone for long.
                None if !of.is_empty() && self.0.values().any(|(_, host)| host == of) => 0,
                None => continue,
            };
            let there = headers.filter(|header| u64::from(header.sequence) >= first).count() as u64;
            let missing = (u64::from(last.sequence) + 1).saturating_sub(first).saturating_sub(there);
            if missing > 0 {
                gaps.push(format!(
                    "a gap: {} of the recorder of {} gone before they were {done}",
                    counted(missing, "segment"),
                    if of.is_empty() { "an unknown host" } else { of },
                ));
            }
        }
        let anew = self.begun_anew(&read).into_iter().map(|host| {
            format!(
                "a gap: the recorder of {host} has begun anew, and nothing is left of its run before, the end of which \
                 may be gone before it was {done}"
            )
        });
        gaps.extend(anew);
        // they may be gone for a moment only: what was read of them is not missing when they are back
        let gone = self.0.iter().filter(|(run, _)| !read.contains_key(*run)).take(MAX_GONE);
        let gone: Vec<_> = gone.map(|(run, known)| (*run, known.clone())).collect();
        read.extend(gone);
        self.0 = read;
        gaps
    }

    /// Hosts of which nothing is there but runs that have begun since this was asked before: how much was left to read of those
    /// before, nobody knows.
    fn begun_anew(&self, read: &BTreeMap<u128, (u32, String)>) -> BTreeSet<String> {
        let hosts = self.0.values().map(|(_, host)| host).filter(|host| !host.is_empty());
        let is_new = |host: &&String| {
            let mut there = read.iter().filter(|(_, (_, of))| of == *host).peekable();
            there.peek().is_some() && there.all(|(run, _)| !self.0.contains_key(run))
        };
        hosts.filter(is_new).cloned().collect()
    }

    /// A run with these segments. Reads the last one, so once a look is enough.
    fn run<'a>(&self, files: &'a [SegmentFile], course: &Course) -> Option<Run<'a>> {
        // pinned ones may be left of what was deleted
        let last = files.iter().filter_map(|file| file.header).next_back()?;
        let host = match self.0.get(&last.run) {
            Some((_, host)) if !host.is_empty() => host.clone(),
            _ => host(files).map(|host| host.name).unwrap_or_default(),
        };
        let end = last_event(files).map(|(time, wall)| (time, course.even(time, wall)));
        Some(Run { files, last, host, end })
    }
}

/// A run as its segments are now.
struct Run<'a> {
    files: &'a [SegmentFile],
    /// The last of them that is there.
    last: SegmentHeader,
    /// The name of its host.
    host: String,
    /// Monotonic time of its last event, and its place in the order of time.
    end: Option<(u64, i64)>,
}

/// The first segment of a run, the last event of which was then, in which there is something that has not settled.
fn unsettled(files: &[SegmentFile], end: u64) -> Option<u32> {
    let settled = end.saturating_sub(SETTLED.as_nanos() as u64);
    let headers = files.iter().filter_map(|file| file.header);
    // all of those before the one that was begun by then has settled
    let begun =
        headers.clone().filter(|header| header.created <= settled).map(|header| header.sequence).max();
    begun.or_else(|| headers.map(|header| header.sequence).min())
}
