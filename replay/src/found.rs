//! Everything found in logs, also what can't be read.

use crate::clocks::{self, Offsets};
use crate::reading::runs::{in_order, set_limit};
use iocrec_log::reader::{find, ReadError, Segment, SegmentFile};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A log or file that can't be read at all.
#[derive(Debug)]
pub struct Unreadable {
    /// Its path.
    pub path: PathBuf,
    /// The reason, and the remedy.
    pub reason: ReadError,
}

/// Everything found in logs, for verification.
#[derive(Debug, Default)]
pub struct Found {
    /// All files of all runs, each run with its number: a segment that exists twice is listed twice.
    pub runs: Vec<(u128, Vec<SegmentFile>)>,
    /// Logs and files that can't be read at all.
    pub unreadable: Vec<Unreadable>,
}

impl Found {
    /// Sets hosts' clocks right. Returns the names of the hosts.
    pub fn set_right(&mut self, offsets: &Offsets) -> Vec<String> {
        let mut runs: Vec<Vec<SegmentFile>> =
            self.runs.iter_mut().map(|(_, files)| std::mem::take(files)).collect();
        let names = clocks::names(&runs);
        offsets.apply(&mut runs, &names);
        self.runs.iter_mut().zip(runs).for_each(|((_, files), moved)| *files = moved);
        names
    }
}

/// Finds everything in these logs, including what can't be read.
pub fn find_all(paths: &[PathBuf], no_limit: bool) -> Found {
    let mut unreadable = Vec::new();
    let mut files = Vec::new();
    for path in paths {
        match find(path) {
            Ok(found) => files.extend(found),
            Err(reason) => unreadable.push(Unreadable { path: path.clone(), reason }),
        }
    }
    // A file named several times counts once.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    set_limit(&mut files, no_limit);
    let mut runs: BTreeMap<u128, Vec<SegmentFile>> = BTreeMap::new();
    for file in files {
        match file.header {
            Some(header) => runs.entry(header.run).or_default().push(file),
            None => {
                let reason = Segment::open(&file.path).err();
                unreadable.extend(reason.map(|reason| Unreadable { path: file.path, reason }));
            }
        }
    }
    let mut runs: Vec<_> = runs.into_iter().collect();
    for (_, files) in &mut runs {
        in_order(files);
    }
    let begun =
        |files: &[SegmentFile]| files.first().and_then(|file| file.header).map(|header| header.created_wall);
    runs.sort_by_key(|(_, files)| begun(files));
    Found { runs, unreadable }
}
