//! The open segment: its start, its keyframe, its space on the disk, and its end.

use super::failure::{Doing, Failure};
use super::place::Missing;
use super::{nanoseconds, Writer, MIN_SEGMENT};
use crate::block::{Batch, Encoded, Packer, MAX_TIME};
use crate::event::{Event, Fact, SegmentEnd};
use crate::format::{tag_of, SegmentHeader, FACTS, FIRST_BLOCK, VERSION};
use crate::name::{Pin, SegmentName};
use crate::storage::Storage;
use std::io;

/// Size of a batch before it is packed, bytes: that of the maximum number of events if their values are noise.
/// Definitions, which are larger, fill it sooner.
const BATCH: u64 = 128 << 10;
/// If segments are small, a batch may take this fraction of one.
const BATCHES_IN_SEGMENT: u64 = 4;
/// A segment is ended when the room left is less than this fraction of a full batch.
const REST: u64 = 4;
/// Minimum ratio of a segment to its keyframe, so that keyframes don't fill the disk.
const KEYFRAMES_IN_SEGMENT: u64 = 4;
/// A segment that has lasted as long as a pin is ended, so that pins are not much longer than requested; but only if it
/// holds this many times its keyframe, so that new keyframes cost no more than an eighth.
const KEYFRAMES_BEFORE_ROTATION: u64 = 8;
/// Such a segment must also hold this many bytes.
const MIN_BEFORE_ROTATION: u64 = 128 << 10;
/// With a maximum age, segments last no longer than this fraction of it, because they are deleted whole.
const SEGMENTS_IN_AGE: u64 = 8;
/// Interval between lines about a file system that others have filled, nanoseconds. That state may last for days.
const LINE_INTERVAL: u64 = 3_600_000_000_000;

/// The segment that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its number in the run.
    sequence: u32,
    /// CRC-32 of its header.
    pub tag: u32,
    /// Its length, bytes.
    size: u64,
    /// Length of its headers and keyframe, bytes.
    keyframe: u64,
    /// Time at which it began.
    begun: u64,
    /// Length for which there is space, bytes.
    limit: u64,
    /// Number of its next block.
    pub next_block: u32,
    /// The latest time in it.
    last: u64,
    /// Whether it holds nothing but its keyframe.
    pub fresh: bool,
    /// Whether it holds bytes that were not synced.
    unsynced: bool,
    /// Number of bytes that the disk has certainly accepted.
    written: u64,
    /// Number of pushed events in it that were not synced, and the time of the earliest.
    doubtful: (u64, u64),
    /// Lost events that it reports in what was not synced.
    reported: Missing,
}

impl Open {
    /// A block was appended. `last` is the latest time in it.
    pub fn appended(&mut self, last: Option<u64>) {
        self.next_block = self.next_block.saturating_add(1);
        self.last = self.last.max(last.unwrap_or(0));
    }

    /// Pushed events are in a block that was appended.
    pub fn stored(&mut self, count: u64, first: u64) {
        let since = if self.doubtful.0 == 0 { first } else { self.doubtful.1.min(first) };
        self.doubtful = (self.doubtful.0.saturating_add(count), since);
    }

    /// A block that was appended reports lost events.
    pub fn reports(&mut self, count: u64, since: u64) {
        self.reported.add(count, since);
    }

    /// Number of bytes that the disk has certainly accepted.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Number of pushed events that a power cut would cost, and the time of the earliest.
    pub fn doubtful(&self) -> (u64, u64) {
        self.doubtful
    }

    /// Lost events whose report a power cut would cost.
    pub fn reported(&self) -> Missing {
        self.reported
    }

    fn ended(&self) -> SegmentEnd {
        SegmentEnd { segment: self.sequence, blocks: self.next_block, last: self.last }
    }
}

impl<S: Storage> Writer<S> {
    /// Maximum size of a batch, bytes: no more than fits into the open segment.
    pub(super) fn batch_limit(&self) -> usize {
        let full = self.full_batch();
        let limit = match &self.open {
            Some(open) => full.min(max_raw(open.limit.saturating_sub(open.size))),
            None => full,
        };
        limit as usize
    }

    /// Intended size of a batch, bytes.
    fn full_batch(&self) -> u64 {
        (self.segment_size() / BATCHES_IN_SEGMENT).min(BATCH)
    }

    /// Opens a segment, if necessary, that has room for a block with an event of `length` bytes. Returns `Ok(false)` if
    /// there can never be room for it. Call it only while the batch is empty: a new segment's keyframe must hold the
    /// definitions before the first event of its first block.
    pub(super) fn prepare(&mut self, length: usize) -> Result<bool, Failure> {
        let need = (length + MAX_TIME).max((self.full_batch() / REST) as usize);
        let bound = Packer::bound(need);
        match &self.open {
            Some(open) if open.size + bound <= open.limit => return Ok(true),
            // A new segment would have no more room than one that holds nothing but its keyframe.
            Some(open) if open.fresh => return self.extend(bound),
            _ if bound > self.largest() => return Ok(false),
            _ => {}
        }
        self.begin_segment()?;
        self.extend(bound)
    }

    /// Makes room for `more` bytes in the open segment, beyond its limit if necessary.
    pub(super) fn extend(&mut self, more: u64) -> Result<bool, Failure> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let limit = open.size + more;
        if limit > open.limit {
            let growth = self.retention.growth(limit);
            let made = self.retention.make_room(&mut self.storage, growth, true);
            if !made.map_err(|error| Doing::DeleteOldest.failed(error))? {
                return Ok(false);
            }
            open.limit = limit;
        }
        Ok(true)
    }

    /// Maximum size of a segment, bytes.
    fn largest(&self) -> u64 {
        self.retention.longest(self.retention.room() / 2)
    }

    /// Intended size of a segment, bytes: small enough to leave room for another.
    pub(super) fn segment_size(&self) -> u64 {
        self.options.segment_size().min(self.largest())
    }

    /// Ends the open segment, if there is one: records the end in it, syncs and closes it.
    pub(super) fn end_segment(&mut self) -> Result<(), Failure> {
        let ended = self.append_end();
        self.sync_open()?;
        self.look_at_end();
        self.close_segment();
        match ended {
            Ok(()) => Ok(()),
            // All events are safe, so try the next segment. Only the length is unknown.
            Err(_) => self.look_again(),
        }
    }

    /// Appends the end of the open segment, if there is room. Deletes nothing for it: the log is complete without it.
    fn append_end(&mut self) -> Result<(), Failure> {
        let Some(open) = &self.open else { return Ok(()) };
        let (tag, number) = (open.tag, open.next_block);
        let end = SegmentEnd { blocks: number.saturating_add(1), ..open.ended() };
        let room = open.limit.saturating_sub(open.size);
        let block = self.pack_end(end, tag, number, false);
        let block = block.map_err(|error| Doing::PackSegmentEnd.failed(error))?;
        if block.len() as u64 <= room {
            self.append(&block)?;
            if let Some(open) = &mut self.open {
                open.appended(None);
            }
        }
        self.packer.reuse(block);
        Ok(())
    }

    /// Packs a block with nothing but the end of a segment.
    fn pack_end(&mut self, end: SegmentEnd, tag: u32, number: u32, keyframe: bool) -> io::Result<Vec<u8>> {
        let (mut encoded, mut batch) = (Encoded::default(), Batch::default());
        let event = Event { time: self.now, fact: Fact::SegmentEnd(end) };
        encoded.set(&event.fact);
        batch.push(&event, &encoded);
        self.packer.pack(&mut batch, tag, number, keyframe)
    }

    /// Closes the open segment, if there is one.
    pub(super) fn close_segment(&mut self) {
        if let Some(open) = self.open.take() {
            if !open.unsynced {
                self.ended = Some(open.ended());
            }
            // If its unused space can't be freed, it stays on the account until the directory is listed again.
            let freed = self.storage.finish().is_ok();
            self.retention.finish(self.now, freed);
        }
    }

    /// Whether to begin a new segment although this one has room.
    pub(super) fn should_rotate(&self) -> bool {
        let Some(open) = self.open.as_ref().filter(|open| !open.fresh) else { return false };
        let age = self.now.saturating_sub(open.begun);
        let pinned_for_longer = self.retention.newest_is_pinned() && self.window.is_none();
        let of_a_pin =
            nanoseconds(self.options.pin_before).saturating_add(nanoseconds(self.options.pin_after));
        let worth_it =
            open.size >= MIN_BEFORE_ROTATION.max(KEYFRAMES_BEFORE_ROTATION.saturating_mul(open.keyframe));
        let most = self.options.max_age.map_or(u64::MAX, |most| nanoseconds(most) / SEGMENTS_IN_AGE);
        pinned_for_longer || (self.share() > 0 && worth_it && age >= of_a_pin) || age >= most
    }

    /// Ends the open segment, if any, and begins a new one with the definitions now in force.
    pub(super) fn begin_segment(&mut self) -> Result<(), Failure> {
        self.end_segment()?;

        let wall = self.storage.wall_clock();
        let header = SegmentHeader {
            version: VERSION,
            facts: FACTS,
            compatible: self.options.time_bits(),
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
        let wanted = self.segment_size().max(KEYFRAMES_IN_SEGMENT * size);
        let mut limit = wanted.min(self.largest()).max(least);
        let cost = self.retention.cost(limit);
        let made = self.retention.make_room(&mut self.storage, cost, false);
        if !made.map_err(|error| Doing::DeleteOldest.failed(error))? {
            return Err(self.keyframe_too_big(least));
        }
        let open = Open {
            sequence: self.next_segment,
            tag,
            size: 0,
            keyframe: size,
            begun: self.now,
            limit,
            next_block: blocks,
            last: self.now,
            fresh: true,
            unsynced: false,
            written: 0,
            doubtful: (0, 0),
            reported: Missing::default(),
        };
        let mut dropped = 0;
        loop {
            let failure = match self.create(wall, Open { limit, ..open }, &head) {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_full() => failure,
                Err(failure) => return Err(failure),
            };
            // Others may have filled the file system. First delete our own oldest segments, as if the cap were that
            // much lower; but no more than a segment's worth at a time, or those who fill the disk get everything.
            if dropped < cost {
                let freed = self.drop_early()?;
                dropped += freed;
                if freed > 0 {
                    continue;
                }
            }
            // Then make do with the space left.
            let floor = least.max(MIN_SEGMENT.min(limit));
            if limit <= floor {
                return Err(failure);
            }
            limit = (limit / 2).max(floor);
        }
    }

    /// Creates a segment with its first bytes. Leaves no file behind on failure.
    fn create(&mut self, wall: i64, open: Open, head: &[u8]) -> Result<(), Failure> {
        let pin = self.window.as_ref().map_or(Pin::No, |window| window.pin);
        let name = SegmentName::next(self.newest, wall).pinned(pin);
        self.newest = Some(name);
        let limit = open.limit;
        self.storage.create(&name.to_string(), limit).map_err(|error| Doing::CreateSegment.failed(error))?;
        self.retention.add(name, limit, self.now);
        self.open = Some(open);
        self.next_segment = open.sequence.saturating_add(1);
        let begun = self.append(head);
        if begun.is_ok() || !self.abandon_segment() {
            self.status.begun = self.status.begun.saturating_add(1);
        }
        begun
    }

    /// Closes the open segment after an error. Deletes it if it holds nothing but its keyframe, or every attempt on a
    /// full disk would leave a piece of a segment. True if it is gone.
    pub(super) fn abandon_segment(&mut self) -> bool {
        let Some(open) = self.open else { return false };
        self.note_abandoned(&open);
        let name = self.retention.newest().filter(|_| open.fresh);
        self.close_segment();
        let is_gone = name.is_some_and(|name| self.storage.remove(&name.to_string()).is_ok());
        if is_gone {
            self.retention.forget_newest();
            // the number of one that is gone is the next one's: readers would miss a segment
            self.next_segment = open.sequence;
        }
        is_gone
    }

    /// Deletes the oldest segment that is not pinned because the file system is full. Returns the bytes that it took.
    pub(super) fn drop_early(&mut self) -> Result<u64, Failure> {
        if self.now < self.spared_until {
            return Ok(0);
        }
        let failed = |error| Doing::DeleteOldest.failed(error);
        let freed = self.retention.drop_one(&mut self.storage, false, false).map_err(failed)?;
        self.retention.sync(&mut self.storage).map_err(failed)?;
        if let Some(bytes) = freed {
            self.in_vain = self.in_vain.saturating_add(bytes);
            self.status.deleted_early += 1;
            self.losses.because("the file system was full: the oldest segments were deleted early");
            if self.now >= self.early_line_at {
                self.early_line_at = self.now.saturating_add(LINE_INTERVAL);
                self.say("the file system is full: the oldest segments are deleted early".into());
            }
        }
        Ok(freed.unwrap_or(0))
    }

    /// Adds the blocks of a keyframe to a segment's first bytes. Returns their number.
    fn add_keyframe(&mut self, head: &mut Vec<u8>, tag: u32) -> Result<u32, Failure> {
        let packing = |error| Doing::PackDefinitions.failed(error);
        // Not the writer's own: that holds the event for which the segment begins.
        let mut encoded = Encoded::default();
        let mut batch = Batch::default();
        let mut blocks = 0;
        if let Some(ended) = self.ended {
            // In a block of its own, so that a reader that doesn't know this fact loses no definitions. And first,
            // because a reader that comes from the segment before must know whether that was complete.
            let block = self.pack_end(ended, tag, blocks, true).map_err(packing)?;
            head.extend_from_slice(&block);
            self.packer.reuse(block);
            blocks += 1;
        }
        let limit = self.full_batch() as usize;
        for event in self.context.events(self.now) {
            if !encoded.set(&event.fact) {
                continue; // it was too large when it was pushed, too
            }
            if !batch.is_empty() && !batch.has_room(event.time, encoded.len(), limit) {
                self.packer.pack_onto(head, &mut batch, tag, blocks).map_err(packing)?;
                blocks += 1;
                if head.len() as u64 > self.retention.room() {
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
        Failure::KeyframeTooBig { least, max_disk: self.options.max_disk }
    }

    /// Appends to the open segment. There must be room.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(open) = &mut self.open else { return Ok(()) };
        // Counted before the attempt: after an error any part of it may be in the file.
        open.size += bytes.len() as u64;
        open.unsynced = true;
        self.retention.grow(bytes.len() as u64);
        self.storage.append(bytes).map_err(|error| Doing::Write.failed(error))?;
        open.written = open.size;
        self.status.written += bytes.len() as u64;
        self.keep_to_share();
        Ok(())
    }

    /// Makes the open segment survive a power cut.
    pub(super) fn sync_open(&mut self) -> Result<(), Failure> {
        if let Some(open) = self.open.as_mut().filter(|open| open.unsynced) {
            self.storage.sync().map_err(|error| Doing::Sync.failed(error))?;
            open.unsynced = false;
            open.doubtful = (0, 0);
            open.reported = Missing::default();
        }
        self.retention.sync(&mut self.storage).map_err(|error| Doing::SyncDirectory.failed(error))?;
        self.last_sync = self.now;
        Ok(())
    }
}

/// The bytes of a UUID in its usual form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(number.to_be_bytes())
}

/// Maximum size of a body whose block fits into `room` bytes.
fn max_raw(room: u64) -> u64 {
    // For noise zstd adds 1/256 of its size and some bytes, and the list of contents takes a 64th.
    room.saturating_sub(Packer::bound(0)).saturating_sub(room / 48)
}
