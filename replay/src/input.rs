//! The logs that the user named.

use crate::failure::Failure;
use crate::model::source::{group, Source};
use crate::notices::Notices;
use crate::output::verify::Unreadable;
use iocrec_log::reader::{find, ReadError, Segment, SegmentFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The segments of all runs in the logs, a list a run. What can't be read is said; what can is given.
pub fn runs(logs: &[PathBuf], notices: &mut Notices) -> Result<Vec<Vec<SegmentFile>>, Failure> {
    let mut files = Vec::new();
    for log in logs {
        match find(log) {
            Ok(found) => files.extend(found),
            Err(error) => notices.failure(&error),
        }
    }
    for file in files.iter().filter(|file| file.header.is_none()) {
        if let Err(error) = Segment::open(&file.path) {
            notices.failure(&error);
        }
    }
    let runs = group(files);
    if runs.is_empty() {
        return Err(Failure::Said);
    }
    Ok(runs)
}

/// All files of all runs, each with the number of its run, the same segment twice if it is there twice; and what
/// can't be read at all.
pub fn all(logs: &[PathBuf]) -> (Vec<(u128, Vec<SegmentFile>)>, Vec<Unreadable>) {
    let mut unreadable = Vec::new();
    let mut cannot = |path: &Path, error: ReadError| {
        unreadable.push(Unreadable { path: path.to_owned(), reason: error.to_string() });
    };
    let mut files = Vec::new();
    for log in logs {
        match find(log) {
            Ok(found) => files.extend(found),
            Err(error) => cannot(log, error),
        }
    }
    // As often as they are named, a file is one.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    let mut runs: BTreeMap<u128, Vec<SegmentFile>> = BTreeMap::new();
    for file in files {
        match file.header {
            Some(header) => runs.entry(header.run).or_default().push(file),
            None => {
                if let Err(error) = Segment::open(&file.path) {
                    cannot(&file.path, error);
                }
            }
        }
    }
    let mut runs: Vec<_> = runs.into_iter().collect();
    for (_, files) in &mut runs {
        files.sort_by_key(|file| file.header.map(|header| header.sequence));
    }
    let begun =
        |files: &[SegmentFile]| files.first().and_then(|file| file.header).map(|header| header.created_wall);
    runs.sort_by_key(|(_, files)| begun(files));
    (runs, unreadable)
}

/// The segments of all runs, to read their events from `since` (wall-clock time) on.
pub fn sources(runs: &[Vec<SegmentFile>], since: Option<i64>) -> Vec<Source> {
    runs.iter().map(|files| Source::new(files.clone(), since)).collect()
}
