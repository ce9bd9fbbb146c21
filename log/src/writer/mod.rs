//! Writes events into segments.
//!
//! Promises, provided that [`Writer::tick`] is called several times within a flush interval, or as [`Writer::rest`]
//! asks:
//!
//! - **A crash of the recorder** (kill -9, out of memory) costs the events pushed since the last flush
//!   ([`Options::flush`], 1 s) and nothing else. **A power cut** costs the events since the last sync
//!   ([`Options::sync`], 5 s) and nothing else. This holds whatever the disk kept of unsynced data: any part, in any
//!   order, torn at any sector, and likewise for created, renamed and deleted files. It assumes that a sector of 512
//!   bytes is written atomically, and that a disk that reports a sync has synced.
//! - **The cap** ([`Options::max_disk`]): the directory never takes more of the disk, as `du` counts it, not even for a
//!   moment. This includes all segments, those of earlier runs and the open one, in whole units of the disk (4096
//!   bytes), and their entries in the directory. Space is freed before anything is written, and a deletion has reached
//!   the disk before its space is used. The open segment is preallocated where the disk supports it. Files whose names
//!   the recorder would not have given are neither counted nor touched.
//! - **Retention**: the oldest segment that is not pinned is deleted first. Pinned segments have a share of the cap
//!   ([`Options::pin_share`]); beyond it the oldest are unpinned, those of operators' marks last.
//! - **Errors of the disk are states**, not failures: the writer pauses, counts the events that it can't store, and
//!   resumes by itself, in a new segment that records the loss. After an error it never continues in the same segment,
//!   and it never changes or repairs written data. If others have filled the file system, it first deletes its own
//!   oldest segments that are not pinned, one at a time.
//! - **A directory that is deleted, moved or replaced** is noticed within a second and followed (`place.rs`): nothing
//!   is written where nobody would find it, and missing events are counted.
//! - **Every event pushed is counted** once, in [`Status::stored`] or [`Status::lost`], as soon as its batch is written
//!   or given up. The writer's own notes also count as stored, except for losses.
//! - **A segment can be read alone**: before its first event it holds the definitions that were in force (a keyframe),
//!   so it does not depend on older segments.
//! - **The length of a closed segment is recorded twice**: in its own last block, if there was room, and in the
//!   keyframe of the next segment. So a reader notices when a file has lost blocks at its end.
//!
//! Memory besides the context, at the default level and 20,000 hits/s: 0.7 MiB for packing (0.2 MiB of it zstd's) and
//! 0.6 MiB for a batch (24 bytes an event, and its templates); at 100 hits/s a tenth of that. While a keyframe is
//! written, its packed bytes are added.

mod blocks;
mod copy;
mod estimate;
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
pub use copy::{copy_name, SegmentCopy};
pub use estimate::packed_size;
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

/// Interval between searches for segments that are too old, nanoseconds.
const AGE_INTERVAL: u64 = 10_000_000_000;
/// Longest time between two ticks that [`Writer::rest`] asks for, nanoseconds: pins, the age of segments, and syncs of
/// what is written are looked at this often.
const LONGEST_REST: u64 = 1_000_000_000;
/// The same while nothing waits to be written or synced: no event can be lost with a place that has changed.
const QUIET_REST: u64 = 3_000_000_000;
/// Shortest time: a caller that comes a little early does not come again at once.
const SHORTEST_REST: Duration = Duration::from_millis(1);
/// Maximum number of notices that wait to be taken; the oldest are dropped.
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
    /// The last segment that was closed with all of it on disk.
    ended: Option<SegmentEnd>,
    /// The last segment that was abandoned after an error, until the writer looks for it.
    abandoned: Option<Abandoned>,
    /// Number of the next segment in this run.
    next_segment: u32,
    /// The newest name tried or found.
    newest: Option<SegmentName>,
    status: Status,
    /// The latest time passed by a caller.
    now: u64,
    /// Time at which the batch got its first event.
    batch_since: u64,
    last_sync: u64,
    losses: Losses,
    /// Whether the file system was full before a segment had its first block.
    cramped: bool,
    /// Bytes of segments that were deleted early since a block was last stored.
    in_vain: u64,
    /// Time until which no further one is, unless a block is stored before.
    spared_until: u64,
    /// Time of the next attempt to store.
    retry_at: u64,
    /// Time to wait after that attempt.
    retry_after: u64,
    /// Time at which storing last resumed.
    resumed: u64,
    /// Time of the next search for segments that are too old.
    age_at: u64,
    /// Time of the next check of the place.
    place_at: u64,
    /// Time of the next possible report that segments are deleted early.
    early_line_at: u64,
    /// The time span in which new segments are pinned from the start.
    window: Option<Window>,
    /// Marks that came while storing was paused, with their times.
    waiting_marks: VecDeque<(u64, String)>,
    /// Notes on the writer's own actions, still to be written.
    notes: Vec<Fact>,
    /// Time of the next attempt to rename files.
    rename_at: u64,
    notices: VecDeque<String>,
}

impl<S: Storage> Writer<S> {
    /// Begins a run. `run` is a random number that distinguishes its segments from those of other runs. Deletes
    /// the oldest segments if the directory exceeds the cap. Writes nothing yet.
    ///
    /// # Errors
    /// If the options can't work, or the directory can't be listed or brought below the cap.
    pub fn open(mut storage: S, options: Options, run: u128) -> Result<Self, WriteError> {
        options.check(storage.unit())?;
        let packer = Packer::new(options.level, options.time_bits(), options.contents_share)
            .map_err(WriteError::Compressor)?;
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
            in_vain: 0,
            spared_until: 0,
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

    /// Takes an event. Push definitions before the facts that refer to them, and ends after those. Times may be out of
    /// order by any amount, but events are sorted only within a block.
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

    /// Sets the time, if it is later, without doing what is due. For a log about the past, whose time passes with its
    /// events, faster than a disk can follow: a segment must not claim to begin before the end of the one before.
    pub fn advance(&mut self, now: u64) {
        if self.now == 0 {
            self.last_sync = now;
        }
        self.now = self.now.max(now);
    }

    /// Performs the actions due at a monotonic time: ends a block, syncs, tries again after an error. Call it several
    /// times within a flush interval.
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
            self.write_notes();
            self.note_losses();
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
                // Include the events that are still in memory, or a power cut would cost both intervals.
                self.end_block();
                self.sync();
            }
        }
        self.take_stock();
    }

    /// The longest time until the next [`Writer::tick`], if no event is pushed before: until the next action that is due
    /// by time alone, a second at most while anything waits to be written, three otherwise, and never zero.
    pub fn rest(&self, now: u64) -> Duration {
        if self.is_quiet() {
            return Duration::from_nanos(QUIET_REST);
        }
        let mut next = now.saturating_add(LONGEST_REST).min(self.place_at.max(now));
        if self.status.state != State::Ok {
            next = next.min(self.retry_at);
        } else if !self.batch.is_empty() {
            let flush = self.batch_since.saturating_add(nanoseconds(self.options.flush));
            let sync = self.last_sync.saturating_add(nanoseconds(self.options.sync));
            next = next.min(flush).min(sync);
        }
        Duration::from_nanos(next.saturating_sub(now)).max(SHORTEST_REST)
    }

    /// Whether everything is on disk.
    fn is_quiet(&self) -> bool {
        self.status.state == State::Ok
            && self.batch.is_empty()
            && self.notes.is_empty()
            && self.waiting_marks.is_empty()
            && self.open.is_none_or(|open| open.doubtful().0 == 0)
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Writes and syncs everything. The writer can still be used afterwards.
    pub fn close(&mut self, now: u64) {
        self.now = now;
        self.look_at_place();
        if self.status.state != State::Ok {
            self.resume();
        }
        self.rename_at = now; // the last attempt
        self.tend_pins();
        if self.status.state == State::Ok {
            self.write_notes();
            self.note_losses();
            self.end_block();
        }
        if self.status.state == State::Ok && self.losses.unreported() > 0 {
            self.note_losses();
            self.end_block();
        }
        if self.status.state == State::Ok {
            self.end_segment_or_pause();
        }
        self.close_segment();
        self.take_stock();
    }

    /// The definitions in force, as pushed.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The state of the writer.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Takes the next line about a change of [`Status::state`] or of retention. Each line comes once.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    fn say(&mut self, line: String) {
        if self.notices.len() >= MAX_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(line);
    }

    /// The disk that the writer writes to.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// Current memory of packing, in bytes: zstd's tables and the buffers.
    pub fn packing_memory(&mut self) -> usize {
        self.packer.memory()
    }

    /// Deletes segments that are too old.
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
        self.status.pinned = sums.pinned;
        self.status.pinned_taken = sums.pinned_taken;
        self.status.pinned_share = self.share();
        self.status.deleted = self.retention.deleted();
        self.status.waiting_marks = self.waiting_marks.len();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
