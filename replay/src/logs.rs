//! The logs that the user named.

use crate::failure::Failure;
use crate::model::source::{group, Source};
use crate::notices::Notices;
use crate::output::verify::Unreadable;
use iocrec_log::context::Budget;
use iocrec_log::reader::{find, Limit, ReadError, Segment, SegmentFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The segments of all runs in the logs, a list a run. What can't be read is said; what can is given.
/// `no_limit`: however much is in them.
pub fn runs(
    logs: &[PathBuf],
    no_limit: bool,
    notices: &mut Notices,
) -> Result<Vec<Vec<SegmentFile>>, Failure> {
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
    set_limit(&mut files, no_limit);
    let runs = group(files);
    if runs.is_empty() {
        return Err(Failure::Said);
    }
    Ok(runs)
}

/// What may be in each of the files that are read together.
fn set_limit(files: &mut [SegmentFile], no_limit: bool) {
    let limit = if no_limit { Limit::NONE } else { Limit::shared(files.len()) };
    files.iter_mut().for_each(|file| file.limit = limit);
}

/// What the definitions in these files may take.
pub fn budget<'a>(files: impl IntoIterator<Item = &'a SegmentFile>) -> Arc<Budget> {
    Budget::new(files.into_iter().map(|file| file.size).sum())
}

/// All files of all runs, each with the number of its run, the same segment twice if it is there twice; and what
/// can't be read at all.
pub fn all(logs: &[PathBuf], no_limit: bool) -> (Vec<(u128, Vec<SegmentFile>)>, Vec<Unreadable>) {
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
    set_limit(&mut files, no_limit);
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
    let budget = budget(runs.iter().flatten());
    runs.iter().map(|files| Source::new(files.clone(), since, &budget)).collect()
}
