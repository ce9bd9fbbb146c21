//! Puts events into batches and writes batches as blocks. Events that can't be stored are counted as lost.

use super::failure::{Doing, Failure};
use super::{nanoseconds, State, Writer};
use crate::event::{Event, Fact};
use crate::storage::Storage;

impl<S: Storage> Writer<S> {
    /// Encodes an event and makes room for it in the batch and on disk. Returns `false` if it is lost.
    pub(super) fn can_take(&mut self, event: &Event) -> bool {
        if self.status.state != State::Ok {
            return false;
        }
        if !self.encoded.set(&event.fact) {
            self.losses.because("an event too large for a block");
            return false;
        }
        if !self.batch.is_empty() && !self.batch.has_room(event.time, self.encoded.len(), self.batch_limit())
        {
            self.end_block();
        }
        if self.status.state != State::Ok {
            return false;
        }
        if !self.batch.is_empty() {
            return true;
        }
        match self.prepare(self.encoded.len()) {
            Ok(true) => true,
            Ok(false) => {
                self.losses.because("an event too large for what --max-disk allows");
                false
            }
            Err(failure) => {
                self.pause(failure);
                false
            }
        }
    }

    /// Writes the batch as a block.
    pub(super) fn end_block(&mut self) {
        let Some(first) = self.batch.first() else { return };
        let outcome = self.write_block();
        let written = matches!(outcome, Ok(true));
        if let (true, Some((count, since))) = (written, self.losses.reported()) {
            self.retention.reported(count, since);
            if let Some(open) = &mut self.open {
                open.reports(count, since);
            }
        }
        let pushed = u64::from(self.batch.count()).saturating_sub(self.losses.settle(written));
        self.batch.clear();
        if written {
            self.status.stored += pushed;
            self.retention.stored(pushed, first);
            if let Some(open) = &mut self.open {
                open.stored(pushed, first);
            }
            return;
        }
        self.lose(pushed, first);
        // Definitions may be lost with the batch, so the next event needs a segment with a new keyframe.
        match outcome {
            Err(failure) => self.pause(failure),
            Ok(_) => {
                self.close_segment();
                self.ended = None;
                self.losses.because("a block too large for what --max-disk allows");
            }
        }
    }

    /// Counts the batch as lost.
    pub(super) fn give_up_batch(&mut self) {
        let Some(first) = self.batch.first() else { return };
        let pushed = u64::from(self.batch.count()).saturating_sub(self.losses.settle(false));
        self.batch.clear();
        self.lose(pushed, first);
    }

    pub(super) fn write_block(&mut self) -> Result<bool, Failure> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let last = self.batch.last();
        let packed = self.packer.pack(&mut self.batch, open.tag, open.next_block, false);
        let block = packed.map_err(|error| Doing::PackBlock.failed(error))?;
        // A batch's size is an estimate, so the block may be a little larger than the room made for it.
        let fits = self.extend(block.len() as u64)?;
        if fits {
            self.append(&block)?;
            if let Some(open) = &mut self.open {
                open.appended(last);
                open.fresh = false;
            }
            // what is deleted is of use again
            (self.in_vain, self.spared_until) = (0, 0);
        }
        self.packer.reuse(block);
        Ok(fits)
    }

    /// Makes everything written survive a power cut.
    pub(super) fn sync(&mut self) {
        if let Err(failure) = self.sync_open() {
            self.pause(failure);
        }
    }

    pub(super) fn lose(&mut self, count: u64, time: u64) {
        self.status.lost += count;
        self.losses.lose(count, time);
    }

    /// Puts a note about losses into the batch.
    pub(super) fn note_losses(&mut self) {
        let Some(loss) = self.losses.to_report(self.now) else { return };
        let event = Event { time: self.now, fact: Fact::Loss(loss) };
        if self.can_take(&event) {
            self.add(&event);
            if let Fact::Loss(loss) = &event.fact {
                self.losses.reporting(loss);
            }
        }
    }

    /// Puts an event that [can be taken](Self::can_take) into the batch.
    pub(super) fn add(&mut self, event: &Event) {
        if self.batch.is_empty() {
            // an event may have waited elsewhere; `now` is the time of the last tick
            let flush = nanoseconds(self.options.flush);
            let earliest = self.now.saturating_sub(flush / 2);
            self.batch_since = event.time.clamp(earliest, self.now.saturating_add(flush).max(earliest));
        }
        self.batch.push(event, &self.encoded);
    }
}
