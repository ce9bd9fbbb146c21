//! Pins: segments around a mark, or around an event that the recorder noticed, are kept when older ones are deleted.
//!
//! The file name of a segment shows its pin, so a pin outlives the recorder and costs a rename but no rewriting.
//! Segments that were written to in the time before the pin are renamed. Segments that begin in the time after it have
//! such names from the start; when that time is over, the open segment is ended so that little else is kept with it. A
//! rename that fails (on a read-only disk, for example) is tried again.

use super::failure::Doing;
use super::{nanoseconds, MarkError, State, Writer};
use crate::event::{Event, Fact, Pinned, Unpinned};
use crate::name::Pin;
use crate::storage::Storage;

/// Interval between attempts to rename files after an error, nanoseconds.
const RENAME_INTERVAL: u64 = 10_000_000_000;
/// Maximum number of marks that wait for the disk.
const MAX_WAITING_MARKS: usize = 64;
/// Number of segments that may be pinned however small the share: fewer would keep nothing of the time before the pin.
const MIN_KEPT: u64 = 2;
/// Maximum length of a cause in the log, bytes.
const MAX_CAUSE: usize = 200;

/// The time span in which new segments are pinned from the start.
#[derive(Debug)]
pub(super) struct Window {
    until: u64,
    pub pin: Pin,
}

impl<S: Storage> Writer<S> {
    /// Pins the segments around a moment, as far as the pins' share has room for them. `cause` is for people.
    pub fn pin(&mut self, pin: Pin, time: u64, cause: &str) {
        if self.share() == 0 || pin == Pin::No {
            return;
        }
        let (before, after) = (nanoseconds(self.options.pin_before), nanoseconds(self.options.pin_after));
        let (from, to) = (time.saturating_sub(before), time.saturating_add(after));
        let wall = self.storage.wall_clock();
        self.retention.pin(pin, self.now.saturating_sub(from), self.now, wall, self.open.is_some());
        if to > self.now {
            let window = self.window.get_or_insert(Window { until: to, pin });
            window.until = window.until.max(to);
            window.pin = window.pin.max(pin);
        }
        let end = cause.char_indices().map(|(place, _)| place).find(|place| *place >= MAX_CAUSE);
        let cause = cause.get(..end.unwrap_or(cause.len())).unwrap_or_default().to_owned();
        self.notes.push(Fact::Pinned(Pinned { from, to, cause }));
        self.rename_at = self.now;
        self.keep_to_share();
        self.take_stock();
    }

    /// Writes an operator's mark, pins the segments around it, and makes all of it survive a power cut.
    ///
    /// # Errors
    /// If it can't be stored now. This run stores it as soon as possible.
    pub fn mark(&mut self, time: u64, text: &str) -> Result<(), MarkError> {
        self.now = self.now.max(time);
        self.look_at_place();
        if self.status.state != State::Ok {
            self.resume();
        }
        self.store_mark(time, text);
        self.take_stock();
        match &self.status.state {
            State::Ok => Ok(()),
            State::Paused { reason } => Err(MarkError::Waits { reason: reason.clone() }),
        }
    }

    fn store_mark(&mut self, time: u64, text: &str) {
        if self.status.state == State::Ok {
            self.push(Event { time, fact: Fact::Mark(text.to_owned()) });
            self.pin(Pin::Mark, time, text);
            self.write_notes();
            self.end_block();
        }
        if self.status.state == State::Ok {
            self.sync();
            self.tend_pins();
        }
        if self.status.state != State::Ok && self.waiting_marks.len() < MAX_WAITING_MARKS {
            self.waiting_marks.push_back((time, text.to_owned()));
        }
    }

    /// Stores marks that came during a pause.
    pub(super) fn store_waiting_marks(&mut self) {
        for (time, text) in std::mem::take(&mut self.waiting_marks) {
            self.store_mark(time, &text);
        }
    }

    /// Bytes that pinned segments may take on the disk.
    pub(super) fn share(&self) -> u64 {
        let share = self.options.max_disk / 100 * u64::from(self.options.pin_share);
        if share == 0 {
            return 0;
        }
        let least = MIN_KEPT.saturating_mul(self.retention.cost(self.segment_size()));
        share.max(least.min(self.retention.room() / 2))
    }

    /// Unpins the oldest pinned segments while they take more than their share.
    pub(super) fn keep_to_share(&mut self) {
        let share = self.share();
        if self.retention.sums().pinned_taken <= share {
            return;
        }
        let segments = self.retention.unpin(share);
        if segments > 0 {
            self.notes.push(Fact::Unpinned(Unpinned { segments }));
            self.rename_at = self.now;
        }
    }

    /// Renames files that wait for it, and ends the time span in which new segments are pinned from the start.
    pub(super) fn tend_pins(&mut self) {
        if self.window.as_ref().is_some_and(|window| self.now >= window.until) {
            self.window = None;
        }
        self.keep_to_share();
        if !self.retention.must_rename() || self.now < self.rename_at {
            return;
        }
        if let Err(error) = self.retention.rename(&mut self.storage) {
            self.rename_at = self.now.saturating_add(RENAME_INTERVAL);
            // If the disk can't be written to at all, another line reports it.
            if self.status.state == State::Ok {
                self.say(format!("{}; it will be tried again", Doing::RenamePinned.failed(error)));
            }
        }
    }

    /// Puts the notes on the writer's actions into the batch.
    pub(super) fn write_notes(&mut self) {
        for fact in std::mem::take(&mut self.notes) {
            self.push(Event { time: self.now, fact });
        }
    }
}
