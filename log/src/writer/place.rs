//! Whether what is stored is still where people look for it.
//!
//! A directory may be deleted, moved, or covered by another file system while it is written to, and so may the open
//! segment. The system goes on taking what is written to it, and nobody will find it. So once a second, and before the end
//! and before a mark is answered, it is looked at. What has been recorded of this run in files that are gone counts as lost from then on; what was
//! moved away is ended in good order where it is. Then it goes on, in a new segment, in the place that was asked
//! for, which is made again if it is missing; if that can't be used, this is a state like that of a failing disk.

use super::failure::{Doing, Failure};
use super::segment::Open;
use super::{State, Writer};
use crate::name::SegmentName;
use crate::storage::{Astray, Storage};
use std::io;

/// Nanoseconds between looks.
const LOOK_INTERVAL: u64 = 1_000_000_000;

/// A segment that could not be ended in good order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abandoned {
    name: SegmentName,
    /// Bytes that have been written to it.
    length: u64,
    /// Events in it that were not synced: how many, and since when.
    doubtful: (u64, u64),
}

/// Events that are gone: how many, and from when on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gone {
    pub count: u64,
    pub since: Option<u64>,
}

impl Gone {
    pub fn add(&mut self, count: u64, since: u64) {
        if count > 0 {
            self.count = self.count.saturating_add(count);
            self.since = Some(self.since.map_or(since, |before| before.min(since)));
        }
    }
}

impl<S: Storage> Writer<S> {
    /// Looks if it is time to.
    pub(super) fn watch_place(&mut self) {
        if self.now >= self.place_at {
            self.look_at_place();
        }
    }

    /// Looks, and goes after the place that people look at.
    pub(super) fn look_at_place(&mut self) {
        self.place_at = self.now.saturating_add(LOOK_INTERVAL);
        let length = self.open.map_or(0, |open| open.written());
        let Some(astray) = self.storage.astray(length) else { return };
        if self.status.state != State::Ok {
            // The place that was waited for has changed: it may do now.
            self.retry_at = self.now;
            return;
        }
        self.leave(&astray);
        if self.status.state != State::Ok {
            return; // what was to be ended could not be
        }
        match self.settle().and_then(|()| self.begin_segment()) {
            Ok(()) => {
                let lost = self.losses.untold();
                self.say(format!(
                    "{}; recording goes on there in a new segment; {lost} events were lost",
                    astray.reason
                ));
            }
            Err(failure) => self.pause(failure),
        }
    }

    /// Ends what is open, and counts what is gone.
    fn leave(&mut self, astray: &Astray) {
        if !astray.lost {
            // All that was stored is, where it was moved to.
            self.end_block();
            if self.status.state == State::Ok {
                self.end_segment_or_pause();
            }
        } else {
            self.give_up_batch();
            let open = self.open.and_then(|_| self.retention.newest());
            self.close_segment();
            self.count_gone(open);
        }
        self.losses.because(&astray.reason);
    }

    /// The open segment is about to be closed: that is the last moment at which it can be told that it is gone.
    pub(super) fn look_at_end(&mut self) {
        let Some(open) = self.open else { return };
        let Some(astray) = self.storage.astray(open.written()).filter(|astray| astray.lost) else { return };
        let name = self.retention.newest();
        self.close_segment();
        self.count_gone(name);
        self.losses.because(&astray.reason);
    }

    /// Counts what this run has stored in segments that are gone; and in one that is there and can't be believed.
    fn count_gone(&mut self, spoilt: Option<SegmentName>) {
        let spoilt = spoilt.map(|name| name.to_string());
        let (gone, told) = match self.storage.list() {
            Ok(files) => {
                let is_there = |name: &str| files.iter().any(|file| file.name == name);
                self.retention.gone(|name| spoilt.as_deref() != Some(name) && is_there(name))
            }
            // the directory itself was deleted
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.retention.gone(|_| false),
            // It can't be told: what was synced may be there.
            Err(_) => (Gone::default(), Gone::default()),
        };
        let retention = &self.retention;
        self.abandoned =
            self.abandoned.take().filter(|abandoned| retention.length_of(abandoned.name).is_some());
        self.unstore(gone);
        // What was said to be lost must be said again.
        if let Some(since) = told.since {
            self.losses.lose(told.count, since);
        }
    }

    /// Goes where people look for what is stored, and sees what is there.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        if self.storage.astray(0).is_some_and(|astray| astray.lost) {
            self.count_gone(None);
        }
        let moved = self.storage.settle().map_err(|error| Doing::OpenDirectory.failed(error))?;
        self.look_again()?;
        if moved {
            // What other recorders had set aside there.
            let trimmed = self.retention.trim(&mut self.storage);
            trimmed.map_err(|error| Doing::ListDirectory.failed(error))?;
        }
        if let Some(Abandoned { name, length, doubtful: (count, since) }) = self.abandoned.take() {
            // Not there, or not all of it: a disk that lost it, or another one.
            if moved || self.retention.length_of(name).is_none_or(|found| found < length) {
                let mut gone = Gone::default();
                gone.add(count, since);
                self.unstore(gone);
            }
        }
        Ok(())
    }

    /// Events that were stored, and are not any more.
    fn unstore(&mut self, gone: Gone) {
        if let Some(since) = gone.since {
            self.status.stored = self.status.stored.saturating_sub(gone.count);
            self.lose(gone.count, since);
        }
    }

    /// The open segment can't be ended in good order.
    pub(super) fn note_abandoned(&mut self, open: &Open) {
        let Some(name) = self.retention.newest() else { return };
        let doubtful = open.doubtful();
        if doubtful.0 > 0 {
            self.abandoned = Some(Abandoned { name, length: open.written(), doubtful });
        }
    }
}
