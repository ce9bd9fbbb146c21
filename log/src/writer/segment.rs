//! The segment that is being written: when a new one is due, what it begins with, and room for it.

use super::{Failure, Writer};
use crate::block::{Batch, Encoded, Packer, MAX_TIME};
use crate::format::{tag_of, SegmentHeader, FACTS, FIRST_BLOCK, VERSION};
use crate::name::SegmentName;
use crate::storage::Storage;

/// Bytes of a batch before it is packed: what the most events that a batch may have come to if their values
/// are noise. Definitions, which are larger, fill it sooner.
const BATCH: u64 = 128 << 10;
/// What part of a segment a batch may be, for small segments.
const BATCHES_IN_SEGMENT: u64 = 4;
/// A segment whose free rest would hold less than this part of a full batch is ended.
const REST: u64 = 4;
/// A segment is made to hold this many times its keyframe, so that keyframes don't fill the disk.
const KEYFRAMES_IN_SEGMENT: u64 = 4;
/// The segment that is being written.
#[derive(Debug)]
pub(super) struct Open {
    /// CRC-32 of its header.
    pub tag: u32,
    /// Bytes in it.
    size: u64,
    /// Bytes that room has been made for.
    limit: u64,
    /// Number of its next block.
    pub next_block: u32,
    /// Has it nothing but its keyframe?
    pub fresh: bool,
    /// Has it bytes that were not synced?
    unsynced: bool,
}

impl<S: Storage> Writer<S> {
    /// Bytes that a batch may grow to: no more than fits into the open segment.
    pub(super) fn batch_limit(&self) -> usize {
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
    pub(super) fn prepare(&mut self, length: usize) -> Result<bool, Failure> {
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
    pub(super) fn extend(&mut self, more: u64) -> Result<bool, Failure> {
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
    pub(super) fn begin_segment(&mut self) -> Result<(), Failure> {
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
            if !batch.is_empty() && !batch.has_room(event.time, encoded.len(), limit) {
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
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(open) = &mut self.open else { return Ok(()) };
        // Counted before it is tried: after an error any part of it may be in the file.
        open.size += bytes.len() as u64;
        open.unsynced = true;
        self.shelf.grow(bytes.len() as u64);
        self.storage.append(bytes).map_err(|error| Failure::of("writing", &error))?;
        self.status.written += bytes.len() as u64;
        Ok(())
    }

    /// Makes sure that the open segment survives a power cut.
    pub(super) fn sync_open(&mut self) -> Result<(), Failure> {
        if let Some(open) = self.open.as_mut().filter(|open| open.unsynced) {
            self.storage.sync().map_err(|error| Failure::of("syncing", &error))?;
            open.unsynced = false;
        }
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

/// The most bytes of a body whose block is sure to fit into `room` bytes.
fn most_raw(room: u64) -> u64 {
    // What zstd adds to noise is 1/256 of it and some bytes.
    room.saturating_sub(Packer::bound(0)).saturating_sub(room / 128)
}
