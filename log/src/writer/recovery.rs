//! Recovery from disk failures: storing pauses, and resumes in a new segment.

use super::failure::{Doing, Failure};
use super::{State, Writer};
use crate::storage::Storage;

/// Time until the first attempt to store again, nanoseconds. The attempt may pack all definitions, which takes 20 ms
/// for 10,000 records on a small box.
pub(super) const FIRST_RETRY: u64 = 1_000_000_000;
/// Maximum interval between attempts, nanoseconds. The pause doubles each time.
const LAST_RETRY: u64 = 30_000_000_000;
/// Time without an error after which the next one counts as new, nanoseconds. Until then, attempts and the lines about
/// them become ever rarer. No segment is deleted early for that time once as much as a segment takes was deleted in vain:
/// others may take all that becomes free, and btrfs frees nothing before its next commit. Or the whole log would go
/// within seconds.
const CALM: u64 = 60_000_000_000;

/// How many events were lost.
pub(super) fn lost_words(lost: u64) -> String {
    match lost {
        1 => "1 event was lost".into(),
        _ => format!("{lost} events were lost"),
    }
}
impl<S: Storage> Writer<S> {
    pub(super) fn end_segment_or_pause(&mut self) {
        if let Err(failure) = self.end_segment() {
            self.pause(failure);
        }
    }

    /// Stops storing.
    pub(super) fn pause(&mut self, failure: Failure) {
        let full = failure.is_full();
        // A place that was taken away fails in many ways, so the message begins with that.
        let astray = if self.status.state == State::Ok { self.storage.astray(0) } else { None };
        let is_astray = astray.is_some();
        let reason = match astray {
            Some(astray) => Failure::Astray(astray, Box::new(failure)).to_string(),
            None => failure.to_string(),
        };
        // There may be room for the start of a segment, but not for its first block.
        self.cramped = full && self.open.is_some_and(|open| open.fresh);
        if full && self.in_vain >= self.retention.cost(self.segment_size()) {
            self.in_vain = 0;
            self.spared_until = self.now.saturating_add(CALM);
        }
        self.abandon_segment();
        // what is defined until it works again is in the next segment's keyframe alone: it does not follow on this one
        self.ended = None;
        if self.status.state == State::Ok && self.now.saturating_sub(self.resumed) >= CALM {
            self.retry_after = FIRST_RETRY;
        }
        // A new segment may work at once: the oldest is deleted for it.
        let soon = (full && self.status.state == State::Ok && self.retry_after == FIRST_RETRY) || is_astray;
        self.retry_at = if soon { self.now } else { self.now.saturating_add(self.retry_after) };
        self.retry_after = (2 * self.retry_after).min(LAST_RETRY);
        self.losses.because(&reason);
        let line = format!("storing paused: {reason}; events are counted until it works again");
        let state = State::Paused { reason };
        if self.status.state != state {
            self.status.state = state;
            self.say(line);
        }
    }

    /// Tries to store again, in a new segment.
    pub(super) fn resume(&mut self) {
        let room = self.settle().and_then(|()| self.uncramp());
        match room.and_then(|()| self.begin_segment()) {
            Ok(()) => {
                self.status.state = State::Ok;
                self.resumed = self.now;
                // what a disk refused to sync may be readable until the memory that holds it is given up
                let lost = match self.losses.unreported() {
                    0 => "no event is known to be lost".into(),
                    lost => lost_words(lost),
                };
                self.say(format!("storing again; {lost}"));
                self.store_waiting_marks();
            }
            Err(failure) => self.pause(failure),
        }
    }

    /// Frees space on a file system that had none for a segment's first block.
    pub(super) fn uncramp(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.cramped) {
            self.drop_early()?;
        }
        Ok(())
    }

    /// Lists the actual contents of the directory: after an error the writer can't know them.
    pub(super) fn look_again(&mut self) -> Result<(), Failure> {
        self.retention.look(&mut self.storage).map_err(|error| Doing::ListDirectory.failed(error))?;
        self.newest = self.newest.max(self.retention.newest());
        Ok(())
    }
}
