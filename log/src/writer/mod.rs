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

mod blocks;
mod failure;
mod losses;
mod options;
mod pins;
mod place;
mod recovery;
mod retention;
mod segment;
mod status;

pub use crate::name::Pin;
pub use options::{MarkError, Options, WriteError, MIN_DISK, MIN_SEGMENT};
pub use status::{State, Status};

use crate::block::{Batch, Encoded, Packer};
use crate::context::Context;
use crate::event::{Event, Fact, SegmentEnd};
use crate::name::SegmentName;
use crate::storage::Storage;
use failure::Doing;
use losses::Losses;
use pins::Window;
use place::Abandoned;
use retention::Retention;
use segment::Open;
use std::collections::VecDeque;
use std::time::Duration;

/// Nanoseconds between looks for what is too old.
const AGE_INTERVAL: u64 = 10_000_000_000;
/// Lines that wait to be read at most; who does not read them misses the oldest.
const MAX_NOTICES: usize = 16;

/// Writes the log of one run.
pub struct Writer<S: Storage> {
    storage: S,
    options: Options,
    run: u128,
    context: Context,
    packer: Packer,
    batch: Batch,
    encoded: Encoded,
    retention: Retention,
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
        let mut retention = Retention::new(options.max_disk, storage.unit());
        retention.look(&mut storage).map_err(WriteError::List)?;
        retention.trim(&mut storage).map_err(WriteError::List)?;
        retention.make_room(&mut storage, 0, false).map_err(WriteError::Delete)?;
        let mut writer = Writer {
            newest: retention.newest(),
            storage,
            options,
            run,
            context: Context::default(),
            packer,
            batch: Batch::default(),
            encoded: Encoded::default(),
            retention,
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
            retry_after: recovery::FIRST_RETRY,
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
        if self.notices.len() >= MAX_NOTICES {
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

    /// Deletes what is too old.
    fn drop_old(&mut self) {
        let Some(most) = self.options.max_age.filter(|_| self.now >= self.age_at) else { return };
        self.age_at = self.now.saturating_add(AGE_INTERVAL);
        let (storage, open) = (&mut self.storage, self.open.is_some());
        if let Err(error) = self.retention.drop_old(storage, most, self.now, open) {
            self.pause(Doing::DeleteExpired.failed(error));
        }
    }

    fn take_stock(&mut self) {
        let sums = self.retention.sums();
        self.status.on_disk = sums.length;
        self.status.taken = self.retention.taken();
        self.status.segments = self.retention.count();
        self.status.kept = sums.kept;
        self.status.kept_taken = sums.kept_taken;
        self.status.kept_share = self.share();
        self.status.deleted = self.retention.deleted();
        self.status.waiting_marks = self.waiting_marks.len();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
