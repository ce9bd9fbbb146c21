//! Writes a segment again, block by block, with events that somebody has changed: a copy of a log without what must not
//! leave a site.
//!
//! Promises: the copy has the header that it is given, in both copies; its blocks are packed as the recorder packs them,
//! with flags, lists of contents and checksums of what they hold now; events keep their order. Nothing of the bytes that
//! were read before gets into it.

use crate::block::{Batch, Encoded, Packer};
use crate::event::Event;
use crate::format::{tag_of, SegmentHeader};
use crate::name::SegmentName;
use crate::writer::Options;
use std::io::{self, Write};

/// The name that a copy of a segment has: that of the original if a recorder gave it, else one made of its start. A name
/// that somebody else gave to a file may tell anything. `taken`: files of that name, which count up the number.
pub fn copy_name(original: &str, header: &SegmentHeader, taken: impl Fn(&str) -> bool) -> String {
    let mut name = SegmentName::parse(original).unwrap_or(SegmentName::next(None, header.created_wall));
    while taken(&name.to_string()) {
        name = name.following();
    }
    name.to_string()
}

/// A segment that is being written.
pub struct SegmentCopy<W> {
    to: W,
    tag: u32,
    packer: Packer,
    batch: Batch,
    encoded: Encoded,
    /// Number of the next block.
    next: u32,
    /// Events that no block has room for.
    too_large: u64,
}

impl<W: Write> SegmentCopy<W> {
    /// Begins a segment.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn begin(mut to: W, header: &SegmentHeader) -> io::Result<Self> {
        let options = Options { time_step: header.time_step(), ..Options::default() };
        let packer = Packer::new(options.level, options.time_bits(), options.contents_share)?;
        let head = header.encode();
        to.write_all(&head)?;
        to.write_all(&head)?;
        let (batch, encoded) = (Batch::default(), Encoded::default());
        Ok(SegmentCopy { to, tag: tag_of(&head), packer, batch, encoded, next: 0, too_large: 0 })
    }

    /// Number of the next block.
    pub fn next_block(&self) -> u32 {
        self.next
    }

    /// Events that were left out, because no block has room for them.
    pub fn too_large(&self) -> u64 {
        self.too_large
    }

    /// Leaves out the numbers of blocks that were missing in the original, so that they are missing in the copy.
    pub fn skip_blocks(&mut self, blocks: u32) {
        self.next = self.next.saturating_add(blocks);
    }

    /// Writes the events of a block, in their order. Mostly as one block; as several if they need more room than before.
    ///
    /// # Errors
    /// If they can't be written.
    pub fn block(&mut self, events: &[Event], keyframe: bool) -> io::Result<()> {
        for event in events {
            if !self.encoded.set(&event.fact) {
                self.too_large += 1;
                continue;
            }
            if !self.batch.is_empty() && !self.batch.has_room(event.time, self.encoded.len(), usize::MAX / 2)
            {
                self.end_block(keyframe)?;
            }
            self.batch.push(event, &self.encoded);
        }
        self.end_block(keyframe)
    }

    fn end_block(&mut self, keyframe: bool) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let block = self.packer.pack(&mut self.batch, self.tag, self.next, keyframe)?;
        self.batch.clear();
        self.to.write_all(&block)?;
        self.packer.reuse(block);
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// Ends the segment, and gives back what it was written to.
    ///
    /// # Errors
    /// If the last bytes can't be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}
