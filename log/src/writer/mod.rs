//! Writes events into segments.
//!
//! What it promises, as long as [`Writer::tick`] is called often (several times within a flush interval):
//!
//! - **A crash of the recorder** (kill -9, out of memory) costs the events pushed since the last flush
//!   ([`Options::flush`], 1 s) and nothing else. **A power cut** costs what came since the last sync
//!   ([`Options::sync`], 5 s) and nothing else. This is so whatever the disk kept of what was not synced: any
//!   part, in any order, torn at any sector; and of created, renamed and deleted files, too. It is supposed
//!   that a sector of 512 bytes is written as a whole, and that a disk that says that it has synced has.
//! - **The cap** ([`Options::max_disk`]): what the directory takes of the disk, as `du` counts it, is never more,
//!   not for a moment: all segments, those of earlier runs and the open one included, in whole units of the
//!   disk (4096 bytes), and their entries in the directory. Room is made before anything is written, and a
//!   deletion has reached the disk before its room is used. The open segment's bytes are set aside when it is
//!   begun, where the disk can do that. Files whose names the recorder would not have given are neither
//!   counted nor touched.
//! - **Order of deletion**: the oldest that is not kept (pinned) goes first. Kept ones have a share of the cap
//!   ([`Options::pin_share`]); beyond it the oldest lose that again, those of operators' marks last.
//! - **Errors of the disk are states**, not failures: the writer pauses, counts what it can't store,
//!   and comes back by itself, in a new segment that says how much is missing. It never goes on
//!   in a segment after an error, and never changes or repairs what is written. If others have filled the
//!   file system, it first deletes its own oldest segments that are not kept, one at a time.
//! - **A directory that is deleted, moved or replaced** is noticed within a second, and followed (`place.rs`): nothing is
//!   written where nobody would find it, and what is gone is counted.
//! - **Every event pushed is counted** once, in [`Status::stored`] or [`Status::lost`], as soon as its
//!   batch is written or given up. What the writer notes itself counts as stored too, but for losses.
//! - **A segment can be read alone**: before its first event it holds the definitions that were in
//!   force (a keyframe), so the deletion of older ones loses nothing that it needs.
//! - **How long a segment was is told twice** once it is closed: by itself in its last block, where there was room,
//!   and by the keyframe of the next, so that blocks which its file loses at its end are missed.
//!
//! Memory, beside the context, at the default level and 20,000 hits/s: 0.7 MiB for packing (0.2 MiB of them
//! zstd's) and 0.6 MiB for a batch (24 bytes an event, and what is hit); at 100 hits/s a tenth of that. And a
//! keyframe's packed bytes while it is written.

mod losses;
mod options;
mod pins;
mod place;
mod segment;
mod shelf;
mod status;

pub use crate::name::Pin;
pub use options::{Options, WriteError, MIN_DISK, MIN_SEGMENT};
pub use status::{State, Status};

use crate::block::{Batch, Encoded, Packer};
use crate::context::Context;
use crate::event::{Event, Fact, SegmentEnd};
use crate::name::SegmentName;
use crate::storage::Storage;
use losses::Losses;
use pins::Window;
use place::Abandoned;
use segment::Open;
use shelf::Shelf;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Nanoseconds between tries to store again: the first, and the longest. A try may pack all
/// definitions, 20 ms for 10,000 records on a small box.
const RETRY: (u64, u64) = (1_000_000_000, 30_000_000_000);
/// Nanoseconds of undisturbed storing after which the next trouble is taken for a new one. Before, tries get rarer
/// and rarer, and so do the lines about them.
const CALM: u64 = 60_000_000_000;
/// Nanoseconds between looks for what is too old.
const AGE_BEAT: u64 = 10_000_000_000;
/// Lines that wait to be read at most; who does not read them misses the oldest.
const MOST_NOTICES: usize = 16;

/// Why something could not be stored.
struct Failure {
    reason: String,
    /// Is it want of space on the file system?
    full: bool,
}

impl Failure {
    fn of(doing: &str, error: &io::Error) -> Self {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        Failure { reason: format!("{doing}: {error}"), full }
    }
}

/// Writes the log of one run.
pub struct Writer<S: Storage> {
    storage: S,
    options: Options,
    run: u128,
    context: Context,
    packer: Packer,
    batch: Batch,
    encoded: Encoded,
    shelf: Shelf,
    open: Option<Open>,
    /// The last segment that was closed and is on the disk as a whole.
    ended: Option<SegmentEnd>,
    /// The last segment that was abandoned after an error, until it has been looked for.
    abandoned: Option<Abandoned>,
    /// Number of the next segment in this run.
    next_segment: u32,
    /// The newest name that was tried or found.
    newest: Option<SegmentName>,
    status: Status,
    /// The latest time heard of.
    now: u64,
    /// When the batch got its first event.
    batch_since: u64,
    last_sync: u64,
    losses: Losses,
    /// The file system was full before a segment had its first block.
    cramped: bool,
    /// When to try again, and how long to wait after that.
    retry_at: u64,
    retry_after: u64,
    /// When storing began again, or at all.
    resumed: u64,
    /// When to look again for what is too old.
    age_at: u64,
    /// When to look again whether the place is still that which was asked for.
    place_at: u64,
    /// When to say again that segments are deleted early.
    early_line_at: u64,
    /// Until when segments are kept from the beginning.
    window: Option<Window>,
    /// Marks that came while nothing could be stored, with their times.
    waiting_marks: VecDeque<(u64, String)>,
    /// What the writer has to say in the log about what it did.
    notes: Vec<Fact>,
    /// When to try again to rename files.
    rename_at: u64,
    notices: VecDeque<String>,
}

impl<S: Storage> Writer<S> {
    /// Begins a run. `run` is a random number that tells its segments from those of others. Deletes
    /// the oldest segments if the directory holds more than the cap; writes nothing yet.
    ///
    /// # Errors
    /// If the options can't work, or the directory can't be listed or brought below the cap.
    pub fn open(mut storage: S, options: Options, run: u128) -> Result<Self, WriteError> {
        options.check(storage.unit())?;
        let packer = Packer::new(options.level, options.time_bits()).map_err(WriteError::Compressor)?;
        let mut shelf = Shelf::new(options.max_disk, storage.unit());
        shelf.look(&mut storage).map_err(WriteError::List)?;
        shelf.trim(&mut storage).map_err(WriteError::List)?;
        shelf.make_room(&mut storage, 0, false).map_err(WriteError::Delete)?;
        let mut writer = Writer {
            newest: shelf.newest(),
            storage,
            options,
            run,
            context: Context::default(),
            packer,
            batch: Batch::default(),
            encoded: Encoded::default(),
            shelf,
            open: None,
            ended: None,
            abandoned: None,
            next_segment: 0,
            status: Status::default(),
            now: 0,
            batch_since: 0,
            last_sync: 0,
            losses: Losses::default(),
            cramped: false,
            retry_at: 0,
            retry_after: RETRY.0,
            resumed: 0,
            age_at: 0,
            place_at: 0,
            early_line_at: 0,
            window: None,
            waiting_marks: VecDeque::new(),
            notes: Vec::new(),
            rename_at: 0,
            notices: VecDeque::new(),
        };
        writer.take_stock();
        Ok(writer)
    }

    /// Takes an event. Definitions must be pushed before what refers to them, ends after it; times
    /// may be out of order by as much as they like, but a block is what gets sorted.
    pub fn push(&mut self, event: Event) {
        if self.now == 0 {
            (self.now, self.last_sync) = (event.time, event.time);
        }
        if self.can_take(&event) {
            self.add(&event);
        } else {
            self.lose(1, event.time);
        }
        self.context.apply(event.time, &event.fact);
        self.take_stock();
    }

    /// Does what is due at a monotonic time: ends a block, syncs, tries again after an error. Call
    /// it several times within a flush interval.
    pub fn tick(&mut self, now: u64) {
        if self.now == 0 {
            self.last_sync = now;
        }
        self.now = now;
        self.watch_place();
        if self.status.state != State::Ok && now >= self.retry_at {
            self.resume();
        }
        self.tend_pins();
        self.drop_old();
        if self.status.state == State::Ok {
            self.tell_notes();
            self.tell_losses();
            if self.should_rotate() {
                self.end_block();
                if self.status.state == State::Ok {
                    self.end_segment_or_pause();
                }
            }
        }
        if self.status.state == State::Ok {
            if !self.batch.is_empty()
                && now.saturating_sub(self.batch_since) >= nanoseconds(self.options.flush)
            {
                self.end_block();
            }
            if now.saturating_sub(self.last_sync) >= nanoseconds(self.options.sync) {
                // With what is still in memory, or a power cut would cost both intervals.
                self.end_block();
                self.sync();
            }
        }
        self.take_stock();
    }

    /// Writes and syncs all that is left. The writer can be used on, but has no need to be.
    pub fn close(&mut self, now: u64) {
        self.now = now;
        self.look_at_place();
        if self.status.state != State::Ok {
            self.resume();
        }
        self.tend_pins();
        if self.status.state == State::Ok {
            self.tell_notes();
            self.tell_losses();
            self.end_block();
        }
        if self.status.state == State::Ok && self.losses.untold() > 0 {
            self.tell_losses();
            self.end_block();
        }
        if self.status.state == State::Ok {
            self.end_segment_or_pause();
        }
        self.close_segment();
        self.take_stock();
    }

    /// The definitions in force, that is, as pushed.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// How it does.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// A line about a change of [`Status::state`] or of what is kept, each once.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    fn say(&mut self, line: String) {
        if self.notices.len() >= MOST_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(line);
    }

    /// The disk that it writes to.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Bytes that packing holds now: zstd's tables and the buffers.
    pub fn packing_memory(&mut self) -> usize {
        self.packer.memory()
    }

    /// Encodes an event and makes room for it in the batch and on disk. `false` if it is lost.
    fn can_take(&mut self, event: &Event) -> bool {
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
    fn end_block(&mut self) {
        let Some(first) = self.batch.first() else { return };
        let outcome = self.write_block();
        let written = matches!(outcome, Ok(true));
        if let (true, Some((count, since))) = (written, self.losses.told()) {
            self.shelf.told(count, since);
        }
        let pushed = u64::from(self.batch.count()).saturating_sub(self.losses.settle(written));
        self.batch.clear();
        if written {
            self.status.stored += pushed;
            self.shelf.stored(pushed, first);
            if let Some(open) = &mut self.open {
                open.stored(pushed, first);
            }
            return;
        }
        self.lose(pushed, first);
        // Definitions may be lost with it, so the next event needs a segment with a new keyframe.
        match outcome {
            Err(failure) => self.pause(failure),
            Ok(_) => {
                self.close_segment();
                self.losses.because("a block too large for what --max-disk allows");
            }
        }
    }

    /// Counts the batch as lost.
    fn give_up_batch(&mut self) {
        let Some(first) = self.batch.first() else { return };
        let pushed = u64::from(self.batch.count()).saturating_sub(self.losses.settle(false));
        self.batch.clear();
        self.lose(pushed, first);
    }

    fn write_block(&mut self) -> Result<bool, Failure> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let last = self.batch.last();
        let packed = self.packer.pack(&mut self.batch, open.tag, open.next_block, false);
        let block = packed.map_err(|error| Failure::of("packing a block", &error))?;
        // A batch's size is reckoned, so the block may be a little more than room was made for.
        let fits = self.extend(block.len() as u64)?;
        if fits {
            self.append(&block)?;
            if let Some(open) = &mut self.open {
                open.appended(last);
                open.fresh = false;
            }
        }
        self.packer.reuse(block);
        Ok(fits)
    }

    /// Makes sure that what was written survives a power cut.
    fn sync(&mut self) {
        if let Err(failure) = self.sync_open() {
            self.pause(failure);
        }
    }

    fn end_segment_or_pause(&mut self) {
        if let Err(failure) = self.end_segment() {
            self.pause(failure);
        }
    }

    fn lose(&mut self, count: u64, time: u64) {
        self.status.lost += count;
        self.losses.lose(count, time);
    }

    /// Puts what was lost into the batch.
    fn tell_losses(&mut self) {
        let Some(loss) = self.losses.to_tell(self.now) else { return };
        let event = Event { time: self.now, fact: Fact::Loss(loss) };
        if self.can_take(&event) {
            self.add(&event);
            if let Fact::Loss(loss) = &event.fact {
                self.losses.telling(loss);
            }
        }
    }

    /// Puts an event that [can be taken](Self::can_take) into the batch.
    fn add(&mut self, event: &Event) {
        if self.batch.is_empty() {
            self.batch_since = self.now;
        }
        self.batch.push(event, &self.encoded);
    }

    /// Stops storing.
    fn pause(&mut self, Failure { mut reason, full }: Failure) {
        // A place that was taken away fails in many ways; the one thing to say is that it was.
        let astray = if self.status.state == State::Ok { self.storage.astray(0) } else { None };
        if let Some(astray) = &astray {
            reason = format!("{}; {reason}", astray.reason);
        }
        // A segment can be begun where not even its first block has room.
        self.cramped = full && self.open.is_some_and(|open| open.fresh);
        self.abandon_segment();
        if self.status.state == State::Ok && self.now.saturating_sub(self.resumed) >= CALM {
            self.retry_after = RETRY.0;
        }
        // A new segment may help at once: for it the oldest goes.
        let soon =
            (full && self.status.state == State::Ok && self.retry_after == RETRY.0) || astray.is_some();
        self.retry_at = if soon { self.now } else { self.now.saturating_add(self.retry_after) };
        self.retry_after = (2 * self.retry_after).min(RETRY.1);
        self.losses.because(&reason);
        let line = format!("storing paused: {reason}; events are counted until it works again");
        let state = State::Paused { reason };
        if self.status.state != state {
            self.status.state = state;
            self.say(line);
        }
    }

    /// Tries to store again, in a new segment.
    fn resume(&mut self) {
        let room = self.settle().and_then(|()| self.uncramp());
        match room.and_then(|()| self.begin_segment()) {
            Ok(()) => {
                self.status.state = State::Ok;
                self.resumed = self.now;
                self.say(format!("storing again; {} events were lost", self.losses.untold()));
                self.store_waiting_marks();
            }
            Err(failure) => self.pause(failure),
        }
    }

    /// Makes room on a file system that had none for a segment's first block.
    fn uncramp(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.cramped) {
            self.drop_early()?;
        }
        Ok(())
    }

    /// Sees what really is on the disk: after an error the writer can't know.
    fn look_again(&mut self) -> Result<(), Failure> {
        self.shelf.look(&mut self.storage).map_err(|error| Failure::of("listing the directory", &error))?;
        self.newest = self.newest.max(self.shelf.newest());
        Ok(())
    }

    /// Deletes what is too old.
    fn drop_old(&mut self) {
        let Some(most) = self.options.max_age.filter(|_| self.now >= self.age_at) else { return };
        self.age_at = self.now.saturating_add(AGE_BEAT);
        let (storage, open) = (&mut self.storage, self.open.is_some());
        if let Err(error) = self.shelf.drop_old(storage, most, self.now, open) {
            self.pause(Failure::of("deleting an old segment", &error));
        }
    }

    fn take_stock(&mut self) {
        let sums = self.shelf.sums();
        self.status.on_disk = sums.length;
        self.status.taken = self.shelf.taken();
        self.status.segments = self.shelf.count();
        self.status.kept = sums.kept;
        self.status.kept_taken = sums.kept_taken;
        self.status.kept_share = self.share();
        self.status.deleted = self.shelf.deleted();
        self.status.waiting_marks = self.waiting_marks.len();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
