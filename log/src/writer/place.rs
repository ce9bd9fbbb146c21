//! Checks that the log is still where people look for it.
//!
//! A directory may be deleted, moved, or covered by another file system while it is written to, and so may the open
//! segment. The system still accepts writes, but nobody will find the data. So the writer checks the place once a
//! second (every three while nothing waits to be written), at its end, and before it answers a mark. This run's events
//! in missing files count as lost from then on; a segment that was moved away is properly ended where it is. Then
//! recording continues in a new segment at the requested place, which is made again if it is missing. A place that
//! can't be used is a state, like a failing disk.

use super::failure::{Doing, Failure};
use super::recovery::lost_words;
use super::segment::Open;
use super::{State, Writer};
use crate::name::SegmentName;
use crate::storage::{Astray, Storage};
use std::io;

/// Interval between checks, nanoseconds.
const LOOK_INTERVAL: u64 = 1_000_000_000;
/// Time before that at which a check is made if there is other work, nanoseconds.
const EARLY: u64 = 300_000_000;

/// A segment that could not be properly ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abandoned {
    name: SegmentName,
    /// Number of bytes written to it.
    length: u64,
    /// The unsynced events in it: their number and earliest time.
    doubtful: (u64, u64),
    /// Lost events that it reports in what was not synced.
    reported: Missing,
}

/// Missing events: their number and earliest time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub count: u64,
    pub since: Option<u64>,
}

impl Missing {
    pub fn add(&mut self, count: u64, since: u64) {
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.since = Some(self.since.map_or(since, |before| before.min(since)));
        }
    }
}

impl<S: Storage> Writer<S> {
    /// Checks the place if a check is due.
    pub(super) fn watch_place(&mut self) {
        // a little early rather than at a time when nothing else is to be done
        if self.now.saturating_add(EARLY) >= self.place_at {
            self.look_at_place();
        }
    }

    /// Checks the place. Moves to where people look for it if it has changed.
    pub(super) fn look_at_place(&mut self) {
        self.place_at = self.now.saturating_add(LOOK_INTERVAL);
        let length = self.open.map_or(0, |open| open.written());
        let Some(astray) = self.storage.astray(length) else { return };
        if self.status.state != State::Ok {
            // The place changed while the writer waited: it may work now.
            self.retry_at = self.now;
            return;
        }
        self.leave(&astray);
        if self.status.state != State::Ok {
            return; // the segment could not be ended
        }
        match self.settle().and_then(|()| self.begin_segment()) {
            Ok(()) => {
                let lost = lost_words(self.losses.unreported());
                self.say(format!("{}; recording goes on there in a new segment; {lost}", astray.reason));
            }
            Err(failure) => self.pause(failure),
        }
    }

    /// Ends the open segment, and counts missing events.
    fn leave(&mut self, astray: &Astray) {
        if !astray.lost {
            // All stored events are where the directory was moved to.
            self.end_block();
            if self.status.state == State::Ok {
                self.end_segment_or_pause();
            }
        } else {
            self.give_up_batch();
            let open = self.open.and_then(|_| self.retention.newest());
            self.close_segment();
            self.count_missing(open);
        }
        self.losses.because(&astray.reason);
    }

    /// Checks the open segment before it is closed: the last opportunity to notice that it is missing.
    pub(super) fn look_at_end(&mut self) {
        let Some(open) = self.open else { return };
        let Some(astray) = self.storage.astray(open.written()).filter(|astray| astray.lost) else { return };
        let name = self.retention.newest();
        self.close_segment();
        self.count_missing(name);
        self.losses.because(&astray.reason);
    }

    /// Counts the events that this run has stored in missing segments, and in one that exists but is spoilt.
    fn count_missing(&mut self, spoilt: Option<SegmentName>) {
        let spoilt = spoilt.map(|name| name.to_string());
        let (missing, reported) = match self.storage.list() {
            Ok(files) => {
                let is_there = |name: &str| files.iter().any(|file| file.name == name);
                self.retention.take_missing(|name| spoilt.as_deref() != Some(name) && is_there(name))
            }
            // the directory itself was deleted
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.retention.take_missing(|_| false),
            // Unknown: the synced events may exist.
            Err(_) => (Missing::default(), Missing::default()),
        };
        let retention = &self.retention;
        self.abandoned =
            self.abandoned.take().filter(|abandoned| retention.length_of(abandoned.name).is_some());
        self.unstore(missing);
        self.report_again(reported);
    }

    /// Losses whose report is missing must be reported again.
    fn report_again(&mut self, reported: Missing) {
        if let Some(since) = reported.since {
            self.losses.lose(reported.count, since);
        }
    }

    /// Moves to the place where people look for the log, and lists it.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        if self.storage.astray(0).is_some_and(|astray| astray.lost) {
            self.count_missing(None);
        }
        let moved = self.storage.settle().map_err(|error| Doing::OpenDirectory.failed(error))?;
        self.retention.count_in(self.storage.unit());
        self.look_again()?;
        if moved {
            // Frees space that other recorders had preallocated there.
            let trimmed = self.retention.trim(&mut self.storage);
            trimmed.map_err(|error| Doing::ListDirectory.failed(error))?;
        }
        if let Some(Abandoned { name, length, doubtful: (count, since), reported }) = self.abandoned.take() {
            // Missing, or shorter than written: the disk lost it, or this is another disk.
            if moved || self.retention.length_of(name).is_none_or(|found| found < length) {
                let mut missing = Missing::default();
                missing.add(count, since);
                self.unstore(missing);
                self.report_again(reported);
            }
        }
        Ok(())
    }

    /// Counts stored events that are now missing as lost.
    fn unstore(&mut self, missing: Missing) {
        if let Some(since) = missing.since {
            self.status.stored = self.status.stored.saturating_sub(missing.count);
            self.lose(missing.count, since);
        }
    }

    /// Remembers the open segment, which can't be properly ended.
    pub(super) fn note_abandoned(&mut self, open: &Open) {
        let Some(name) = self.retention.newest() else { return };
        let (doubtful, reported) = (open.doubtful(), open.reported());
        if doubtful.0 > 0 || reported.count > 0 {
            self.abandoned = Some(Abandoned { name, length: open.written(), doubtful, reported });
        }
    }
}
