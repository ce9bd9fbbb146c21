//! The logs that the user named.

use crate::failure::Failure;
use crate::model::source::{group, Source};
use crate::notices::Notices;
use iocrec_log::reader::{find, Segment, SegmentFile};
use std::path::PathBuf;

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

/// The same, to read their events.
pub fn sources(logs: &[PathBuf], notices: &mut Notices) -> Result<Vec<Source>, Failure> {
    Ok(runs(logs, notices)?.into_iter().map(Source::new).collect())
}
