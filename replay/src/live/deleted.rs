//! Segments that a recorder deleted before they were read, since following was too slow or had to wait.

use crate::logs::{host, Logs};
use crate::output::wording::counted;
use std::collections::BTreeMap;

/// The last segment of each run that was read, and the name of its host, by the run's number.
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

    /// What is gone since this was asked before, a sentence for each run, and what was yet to be `done` with it.
    pub fn look(&mut self, logs: &Logs, done: &str) -> Vec<String> {
        let (mut gaps, mut read) = (Vec::new(), BTreeMap::new());
        for files in logs.runs() {
            // pinned ones may be left of what was deleted
            let headers = files.iter().filter_map(|file| file.header);
            let Some(last) = headers.clone().next_back() else { continue };
            let known = self.0.get(&last.run);
            let of = match known {
                Some((_, of)) if !of.is_empty() => of.clone(),
                _ => host(files).map(|host| host.name).unwrap_or_default(),
            };
            read.insert(last.run, (last.sequence, of.clone()));
            let first = match known {
                Some((last, _)) => u64::from(*last) + 1,
                // It has begun since if the log of its host was read. Others are of logs that came here later: what they lack may
                // be gone for long.
                None if !of.is_empty() && self.0.values().any(|(_, host)| *host == of) => 0,
                None => continue,
            };
            let there = headers.filter(|header| u64::from(header.sequence) >= first).count() as u64;
            let missing = (u64::from(last.sequence) + 1).saturating_sub(first).saturating_sub(there);
            if missing > 0 {
                gaps.push(format!(
                    "a gap: {} of the recorder of {} gone before they were {done}",
                    counted(missing, "segment"),
                    if of.is_empty() { "an unknown host" } else { &of },
                ));
            }
        }
        self.0 = read;
        gaps
    }
}
