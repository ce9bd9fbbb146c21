//! Segments that a recorder deleted before they were read, since following was too slow or had to wait.

use crate::logs::{host, Logs};
use crate::output::wording::counted;
use iocrec_log::reader::SegmentFile;
use std::collections::{HashMap, HashSet};

/// The last segment of each run that was read, by the run's number.
#[derive(Default)]
pub struct Deleted(HashMap<u128, u32>);

impl Deleted {
    /// Goes on from what was [saved](Deleted::save).
    pub fn load(saved: &[(String, u32)]) -> Deleted {
        let run = |(run, sequence): &(String, u32)| Some((u128::from_str_radix(run, 16).ok()?, *sequence));
        Deleted(saved.iter().filter_map(run).collect())
    }

    /// What another process needs to go on from here.
    pub fn save(&self) -> Vec<(String, u32)> {
        self.0.iter().map(|(run, sequence)| (format!("{run:x}"), *sequence)).collect()
    }

    /// What is gone since this was asked before, a sentence for each run, and what was yet to be `done` with it.
    pub fn look(&mut self, logs: &Logs, done: &str) -> Vec<String> {
        let (mut gaps, mut read) = (Vec::new(), HashMap::new());
        let is_known = |files: &&Vec<SegmentFile>| number(files).is_some_and(|run| self.0.contains_key(&run));
        let known: Vec<&Vec<SegmentFile>> = logs.runs().iter().filter(is_known).collect();
        // A run that is new has begun since if it may be of a recorder whose log was read. Others are of logs that came
        // here later: what they lack may be gone for long.
        let are_gone = known.len() < self.0.len();
        let hosts: HashSet<String> = match known.len() < logs.runs().len() && !are_gone {
            true => known.iter().map(|files| name(files)).collect(),
            false => HashSet::new(),
        };
        for files in logs.runs() {
            // pinned ones may be left of what was deleted
            let headers = files.iter().filter_map(|file| file.header);
            let Some(last) = headers.clone().next_back() else { continue };
            read.insert(last.run, last.sequence);
            let first = match self.0.get(&last.run) {
                Some(last) => u64::from(*last) + 1,
                None if are_gone || hosts.contains(&name(files)) => 0,
                None => continue,
            };
            let there = headers.filter(|header| u64::from(header.sequence) >= first).count() as u64;
            let missing = (u64::from(last.sequence) + 1).saturating_sub(first).saturating_sub(there);
            if missing > 0 {
                let of = name(files);
                gaps.push(format!(
                    "a gap: the recorder of {} deleted {} before they were {done}",
                    if of.is_empty() { "an unknown host" } else { &of },
                    counted(missing, "segment")
                ));
            }
        }
        self.0 = read;
        gaps
    }
}

/// The number of a run.
fn number(files: &[SegmentFile]) -> Option<u128> {
    files.iter().find_map(|file| file.header).map(|header| header.run)
}

/// The name of its host; empty if unknown.
fn name(files: &[SegmentFile]) -> String {
    host(files).map(|host| host.name).unwrap_or_default()
}
