//! Writes events into segments.
//!
//! What it promises:
//!
//! - **A crash of the recorder** (kill -9, out of memory) costs the events pushed since the last flush
//!   ([`Options::flush`], 1 s) and nothing else. **A power cut** costs what came since the last sync
//!   ([`Options::sync`], 5 s) and nothing else. Both hold as long as [`Writer::tick`] is called often.
//! - **The cap** ([`Options::max_disk`]): the lengths of all segments in the directory, those of
//!   earlier runs and the open one included, are never more in sum, not for a moment. Room is made,
//!   oldest segment first, before anything is written. Files whose names the recorder would not
//!   have given are neither counted nor touched.
//! - **Errors of the disk are states**, not failures: the writer pauses, counts what it can't store,
//!   and comes back by itself, in a new segment that says how much is missing. It never goes on
//!   in a segment after an error, and never changes or repairs what is written.
//! - **Every event pushed is counted** once, in [`Status::stored`] or [`Status::lost`], as soon as its
//!   batch is written or given up.
//! - **A segment can be read alone**: before its first event it holds the definitions that were in
//!   force (a keyframe), so the deletion of older ones loses nothing that it needs.
//!
//! Memory, beside the context: about 1 MiB at the default level (760 KiB for packing, 64 KiB for a
//! batch and 32 bytes for each event in it), and a keyframe's packed bytes while it is written.

mod options;
mod shelf;

pub use options::{Options, WriteError, MIN_DISK, MIN_SEGMENT};

use crate::block::{Batch, Encoded, Packer, MAX_TIME};
use crate::context::Context;
use crate::event::{Event, Fact, Loss, LossSource};
use crate::format::{tag_of, SegmentHeader, FACTS, FIRST_BLOCK, VERSION};
use crate::name::SegmentName;
use crate::storage::Storage;
use shelf::Shelf;
use std::io;
use std::time::Duration;

/// Bytes of a batch before it is packed. Measured with examples/throughput.rs at 20,000 hits/s: 16 KiB
/// costs 1 % more disk; 200 KiB saves 22 % (a scan of 2,000 records repeats within it), but holds
/// 0.7 MiB more, and a damaged block costs three times as much.
const BATCH: u64 = 64 << 10;
/// What part of a segment a batch may be, for small segments.
const BATCHES_IN_SEGMENT: u64 = 4;
/// A segment whose free rest would hold less than this part of a full batch is ended.
const REST: u64 = 4;
/// A segment is made to hold this many times its keyframe, so that keyframes don't fill the disk.
const KEYFRAMES_IN_SEGMENT: u64 = 4;
/// Nanoseconds between tries to store again: the first, and the longest. A try may pack all
/// definitions, 20 ms for 10,000 records on a small box.
const RETRY: (u64, u64) = (1_000_000_000, 30_000_000_000);

/// Whether events are being stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// They are.
    Ok,
    /// They are not, and are counted as lost until it works again.
    Paused {
        /// Why, in words.
        reason: String,
    },
}

/// How a writer does. All counts only rise, but for those of what is on disk now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Events pushed that are in a block that was written.
    pub stored: u64,
    /// Events pushed that are not in the log and never will be.
    pub lost: u64,
    /// Bytes written by this run.
    pub written: u64,
    /// Length of all segments in the directory, those of earlier runs included.
    pub on_disk: u64,
    /// How many they are.
    pub segments: usize,
    /// Segments deleted to make room.
    pub deleted: u64,
    /// Is it storing?
    pub state: State,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    /// CRC-32 of its header.
    tag: u32,
    /// Bytes in it.
    size: u64,
    /// Bytes that room has been made for.
    limit: u64,
    /// Number of its next block.
    next_block: u32,
    /// Has it nothing but its keyframe?
    fresh: bool,
    /// Has it bytes that were not synced?
    unsynced: bool,
}

/// The losses that the batch tells of.
struct Told {
    count: u64,
    since: u64,
}

/// Why something could not be stored.
struct Failure(String);

impl Failure {
    fn of(doing: &str, error: &io::Error) -> Self {
        Failure(format!("{doing}: {error}"))
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
    /// Lost events that no stored block tells of.
    untold: u64,
    /// Those of them that the batch tells of.
    telling: Option<Told>,
    /// The earliest time of those that the batch does not tell of.
    lost_since: Option<u64>,
    /// The reason of the last loss or pause; empty if that has been told.
    lost_because: String,
    /// When to try again, and how long to wait after that.
    retry_at: u64,
    retry_after: u64,
    notice: Option<String>,
}

impl<S: Storage> Writer<S> {
    /// Begins a run. `run` is a random number that tells its segments from those of others. Deletes
    /// the oldest segments if the directory holds more than the cap; writes nothing yet.
    ///
    /// # Errors
    /// If the options can't work, or the directory can't be listed or brought below the cap.
    pub fn open(mut storage: S, options: Options, run: u128) -> Result<Self, WriteError> {
        options.check()?;
        let packer = Packer::new(options.level).map_err(WriteError::Compressor)?;
        let mut shelf = Shelf::new(options.max_disk);
        shelf.look(&mut storage).map_err(WriteError::List)?;
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
            next_segment: 0,
            status: Status {
                stored: 0,
                lost: 0,
                written: 0,
                on_disk: 0,
                segments: 0,
                deleted: 0,
                state: State::Ok,
            },
            now: 0,
            batch_since: 0,
            last_sync: 0,
            untold: 0,
            telling: None,
            lost_since: None,
            lost_because: String::new(),
            retry_at: 0,
            retry_after: RETRY.0,
            notice: None,
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
        if self.status.state != State::Ok && now >= self.retry_at {
            self.resume();
        }
        if self.status.state == State::Ok {
            self.tell_losses();
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
        if self.status.state != State::Ok {
            self.resume();
        }
        if self.status.state == State::Ok {
            self.tell_losses();
            self.end_block();
        }
        if self.status.state == State::Ok && self.untold > 0 {
            self.tell_losses();
            self.end_block();
        }
        if self.status.state == State::Ok {
            self.sync();
        }
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

    /// One line about the last change of [`Status::state`], once.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
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
            self.lost_because = "an event too large for a block".into();
            return false;
        }
        if !self.batch.is_empty() && !self.batch.has_room(self.encoded.len(), self.batch_limit()) {
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
                self.lost_because = "an event too large for what --max-disk allows".into();
                false
            }
            Err(failure) => {
                self.pause(failure);
                false
            }
        }
    }

    /// Bytes that a batch may grow to: no more than fits into the open segment.
    fn batch_limit(&self) -> usize {
        let full = self.full_batch();
        let limit = match &self.open {
            Some(open) => full.min(most_raw(open.limit.saturating_sub(open.size))),
            None => full,
        };
        limit as usize
    }

    /// Bytes that a batch should have.
    fn full_batch(&self) -> u64 {
        (self.options.segment_size() / BATCHES_IN_SEGMENT).min(BATCH)
    }

    /// Sees to it that a segment is open that has room for a block with an event of `length` bytes.
    /// `Ok(false)` if there never is room for it. Only called while the batch is empty: a new
    /// segment's keyframe must be the definitions before the first event of its first block.
    fn prepare(&mut self, length: usize) -> Result<bool, Failure> {
        let need = (length + MAX_TIME).max((self.full_batch() / REST) as usize);
        let bound = Packer::bound(need);
        match &self.open {
            Some(open) if open.size + bound <= open.limit => return Ok(true),
            // A new segment would be no roomier than one that has nothing but its keyframe.
            Some(open) if open.fresh => return self.extend(bound),
            _ if bound > self.options.max_disk / 2 => return Ok(false),
            _ => {}
        }
        self.begin_segment()?;
        self.extend(bound)
    }

    /// Makes room for `more` bytes in the open segment, beyond its limit if need be.
    fn extend(&mut self, more: u64) -> Result<bool, Failure> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let limit = open.size + more;
        if limit > open.limit {
            let made = self.shelf.make_room(&mut self.storage, more, true);
            if !made.map_err(|error| Failure::of("deleting the oldest segment", &error))? {
                return Ok(false);
            }
            open.limit = limit;
        }
        Ok(true)
    }

    /// Ends the open segment, if any, and begins a new one with the definitions now in force.
    fn begin_segment(&mut self) -> Result<(), Failure> {
        self.sync_open()?;
        self.open = None;

        let wall = self.storage.wall_clock();
        let header = SegmentHeader {
            version: VERSION,
            facts: FACTS,
            compatible: 0,
            incompatible: 0,
            run: self.run,
            boot_id: self.context.host().and_then(|host| uuid(&host.boot_id)).unwrap_or_default(),
            created: self.now,
            created_wall: wall,
            sequence: self.next_segment,
        }
        .encode();
        let tag = tag_of(&header);
        let mut head = Vec::with_capacity(FIRST_BLOCK);
        head.extend_from_slice(&header);
        head.extend_from_slice(&header);
        let blocks = self.add_keyframe(&mut head, tag)?;

        let size = head.len() as u64;
        let least = size + Packer::bound((self.full_batch() / REST) as usize);
        let wanted = self.options.segment_size().max(KEYFRAMES_IN_SEGMENT * size);
        let limit = wanted.min(self.options.max_disk / 2).max(least);
        let made = self.shelf.make_room(&mut self.storage, limit, false);
        if !made.map_err(|error| Failure::of("deleting the oldest segment", &error))? {
            return Err(self.keyframe_too_big(least));
        }
        let name = SegmentName::next(self.newest, wall);
        self.newest = Some(name);
        let text = name.to_string();
        self.storage.create(&text).map_err(|error| Failure::of("creating a segment", &error))?;
        self.next_segment = self.next_segment.saturating_add(1);
        self.shelf.add(name);
        self.open = Some(Open { tag, size: 0, limit, next_block: blocks, fresh: true, unsynced: false });
        let begun = self.append(&head);
        if begun.is_err() && self.storage.remove(&text).is_ok() {
            // Or every try on a full disk would leave a piece of one.
            self.shelf.forget_newest();
        }
        begun
    }

    /// Adds the blocks of a keyframe to a segment's first bytes. Gives their number.
    fn add_keyframe(&mut self, head: &mut Vec<u8>, tag: u32) -> Result<u32, Failure> {
        let packing = |error| Failure::of("packing the definitions", &error);
        // Not the writer's own: that holds the event which the segment is begun for.
        let mut encoded = Encoded::default();
        let mut batch = Batch::default();
        let mut blocks = 0;
        let limit = self.full_batch() as usize;
        for event in self.context.events(self.now) {
            if !encoded.set(&event.fact) {
                continue; // it was not stored when it was pushed either
            }
            if !batch.is_empty() && !batch.has_room(encoded.len(), limit) {
                self.packer.pack_onto(head, &mut batch, tag, blocks).map_err(packing)?;
                blocks += 1;
                if head.len() as u64 > self.options.max_disk {
                    return Err(self.keyframe_too_big(head.len() as u64));
                }
            }
            batch.push(&event, &encoded);
        }
        if !batch.is_empty() {
            self.packer.pack_onto(head, &mut batch, tag, blocks).map_err(packing)?;
            blocks += 1;
        }
        Ok(blocks)
    }

    fn keyframe_too_big(&self, least: u64) -> Failure {
        Failure(format!(
            "the names in use need segments of {least} bytes and more, --max-disk allows {}; raise it",
            self.options.max_disk
        ))
    }

    /// Appends to the open segment. The room must have been made.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(open) = &mut self.open else { return Ok(()) };
        // Counted before it is tried: after an error any part of it may be in the file.
        open.size += bytes.len() as u64;
        open.unsynced = true;
        self.shelf.grow(bytes.len() as u64);
        self.storage.append(bytes).map_err(|error| Failure::of("writing", &error))?;
        self.status.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes the batch as a block.
    fn end_block(&mut self) {
        let Some(first) = self.batch.first() else { return };
        let outcome = self.write_block();
        let told = self.telling.take();
        let pushed = u64::from(self.batch.count()) - u64::from(told.is_some());
        self.batch.clear();
        if let Ok(true) = outcome {
            self.status.stored += pushed;
            self.untold = self.untold.saturating_sub(told.map_or(0, |told| told.count));
            self.retry_after = RETRY.0;
            return;
        }
        self.lose(pushed, told.map_or(first, |told| told.since.min(first)));
        match outcome {
            Err(failure) => self.pause(failure),
            Ok(_) => self.lost_because = "a block too large for what --max-disk allows".into(),
        }
    }

    fn write_block(&mut self) -> Result<bool, Failure> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let packed = self.packer.pack(&mut self.batch, open.tag, open.next_block, false);
        let block = packed.map_err(|error| Failure::of("packing a block", &error))?;
        open.next_block = open.next_block.wrapping_add(1);
        // A batch's size is reckoned, so the block may be a little more than room was made for.
        let fits = self.extend(block.len() as u64)?;
        if fits {
            self.append(&block)?;
            if let Some(open) = &mut self.open {
                open.fresh = false;
            }
        }
        self.packer.reuse(block);
        Ok(fits)
    }

    /// Makes sure that the open segment survives a power cut.
    fn sync_open(&mut self) -> Result<(), Failure> {
        if let Some(open) = self.open.as_mut().filter(|open| open.unsynced) {
            self.storage.sync().map_err(|error| Failure::of("syncing", &error))?;
            open.unsynced = false;
        }
        self.last_sync = self.now;
        Ok(())
    }

    /// The same, unless it is paused anyway.
    fn sync(&mut self) {
        if let Err(failure) = self.sync_open() {
            self.pause(failure);
        }
    }

    /// Counts events that will not be in the log.
    fn lose(&mut self, count: u64, time: u64) {
        self.status.lost += count;
        self.untold += count;
        self.lost_since = Some(self.lost_since.map_or(time, |since| since.min(time)));
    }

    /// Puts what was lost into the batch, unless it tells of losses already.
    fn tell_losses(&mut self) {
        if self.untold == 0 && self.lost_because.is_empty() || self.telling.is_some() {
            return;
        }
        let event = Event {
            time: self.now,
            fact: Fact::Loss(Loss {
                source: LossSource::Storage,
                count: self.untold,
                since: self.lost_since.unwrap_or(self.now),
                cause: self.lost_because.clone(),
            }),
        };
        if self.can_take(&event) {
            self.add(&event);
            let since = self.lost_since.take().unwrap_or(self.now);
            self.telling = Some(Told { count: self.untold, since });
            self.lost_because.clear();
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
    fn pause(&mut self, Failure(reason): Failure) {
        self.open = None;
        self.retry_at = self.now.saturating_add(self.retry_after);
        self.retry_after = (2 * self.retry_after).min(RETRY.1);
        self.lost_because.clone_from(&reason);
        let state = State::Paused { reason };
        if self.status.state != state {
            self.notice = Some(format!(
                "storing paused: {}; events are counted until it works again",
                self.lost_because
            ));
            self.status.state = state;
        }
    }

    /// Tries to store again, in a new segment.
    fn resume(&mut self) {
        match self.look_again().and_then(|()| self.begin_segment()) {
            Ok(()) => {
                self.status.state = State::Ok;
                self.notice = Some(format!("storing again; {} events were lost", self.untold));
            }
            Err(failure) => self.pause(failure),
        }
    }

    /// Sees what really is on the disk: after an error the writer can't know.
    fn look_again(&mut self) -> Result<(), Failure> {
        self.shelf.look(&mut self.storage).map_err(|error| Failure::of("listing the directory", &error))?;
        self.newest = self.newest.max(self.shelf.newest());
        Ok(())
    }

    fn take_stock(&mut self) {
        self.status.on_disk = self.shelf.total();
        self.status.segments = self.shelf.count();
        self.status.deleted = self.shelf.deleted();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The bytes of a UUID in its usual form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(number.to_be_bytes())
}

/// The most bytes of a body whose block is sure to fit into `room` bytes.
fn most_raw(room: u64) -> u64 {
    // What zstd adds to noise is 1/256 of it and some bytes.
    room.saturating_sub(Packer::bound(0)).saturating_sub(room / 128)
}
