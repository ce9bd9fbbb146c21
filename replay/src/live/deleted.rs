//! Segments that a recorder deleted before they were read, since following was too slow or had to wait.

use crate::logs::{host, Logs};
use crate::output::wording::counted;
use std::collections::HashMap;

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
        let mut gaps = Vec::new();
        let mut read = HashMap::new();
        for files in logs.runs() {
            let mut headers = files.iter().filter_map(|file| file.header);
            let Some(first) = headers.next() else { continue };
            read.insert(first.run, headers.next_back().unwrap_or(first).sequence);
            let before = self.0.get(&first.run).map_or(first.sequence, |last| last.saturating_add(1));
            let missing = u64::from(first.sequence.saturating_sub(before));
            if missing > 0 {
                let of = host(files).map(|host| host.name).unwrap_or_default();
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
