//! Blocks: packing and unpacking batches of events.
//!
//! A [`Batch`] takes events in the order of arrival and splits each at once, so that it costs a tenth of the events'
//! own memory. It is packed into a block in the order of time. That order has one exception, on which a reader can
//! rely: a definition comes before everything that was pushed after it, and an end after everything that was pushed
//! before it, whatever their times. So a reader never meets an undefined number.
//!
//! Bodies are written by columns (encoding 2). Old bodies, written event by event (encoding 1), stay readable. Each
//! block can be read alone.

mod batch;
mod columns;
mod contents;
mod layout;
mod predict;
mod rows;
mod spare;
mod template;
mod varint;

pub(crate) use batch::{Batch, Encoded, MAX_TIME};
pub(crate) use contents::FRAME_HEADER;
pub use contents::{Classes, Contents, Set, ThreadContents};
pub use spare::{fit, give_back};
pub use template::Shape;

use crate::event::Event;
use crate::format::{
    BlockHeader, BLOCK_HEADER, ENCODING_COLUMNS, ENCODING_TIMES_FACTS, FLAG_CONTENTS, FLAG_DEFINES,
    FLAG_KEYFRAME, MAX_STORED, WINDOW_LOG,
};
use columns::Columns;
use layout::COLUMNS;
use std::io;
use zstd::zstd_safe::{compress_bound, find_frame_compressed_size, CParameter};

/// Minimum size of a column that is packed by itself, bytes: it gets an entropy table of its own, and noise is kept
/// apart from the rest. This costs about 15 bytes per frame and saves 4 % (chain of constants) to 8 % (noise).
const OWN_FRAME: usize = 1 << 10;

/// Packs batches into blocks. Keeps zstd's tables, the columns of a block and two buffers from one block to the next
/// (examples/throughput.rs prints their size).
pub(crate) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    columns: Columns,
    raw: Vec<u8>,
    spare: Vec<u8>,
    /// log2 of the step of times, ns.
    time_bits: u32,
    /// Bytes of a block for each byte of its list of contents.
    contents_share: usize,
}

impl Packer {
    pub fn new(level: i32, time_bits: u32, contents_share: usize) -> io::Result<Self> {
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        zstd.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        Ok(Packer {
            zstd,
            columns: Columns::default(),
            raw: Vec::new(),
            spare: Vec::new(),
            time_bits,
            contents_share,
        })
    }

    /// Maximum size in the file of a block with a body of `raw` bytes.
    pub fn bound(raw: usize) -> u64 {
        (BLOCK_HEADER + bound(raw)) as u64
    }

    /// Makes a block, header and body, from a batch. The batch keeps its events, in another order. Return the block
    /// with [`Packer::reuse`].
    pub fn pack(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        sequence: u32,
        keyframe: bool,
    ) -> io::Result<Vec<u8>> {
        batch.arrange();
        // Only now, because the order depends on the exact times.
        batch.round_times(self.time_bits);
        let columns = self.columns.fill(batch).ok_or(io::ErrorKind::InvalidData)?;
        let columns_length: usize = columns.iter().map(Vec::len).sum();
        self.raw.clear();
        columns.iter().for_each(|column| varint::put(&mut self.raw, column.len() as u64));
        let length = self.raw.len() + columns_length;

        let mut block = std::mem::take(&mut self.spare);
        block.resize(BLOCK_HEADER + bound(length), 0);
        let mut stored = 0;
        for column in columns {
            if column.len() >= OWN_FRAME {
                stored += add_frame(&mut self.zstd, &mut self.raw, &mut block, stored)?;
                stored += compress(&mut self.zstd, column, &mut block, stored)?;
            } else {
                self.raw.extend_from_slice(column);
            }
        }
        stored += add_frame(&mut self.zstd, &mut self.raw, &mut block, stored)?;
        block.truncate(BLOCK_HEADER + stored);

        let mut flags = contents::classes(batch);
        // A keyframe is always read.
        let frame =
            if keyframe { Vec::new() } else { Contents::frame(batch, stored / self.contents_share.max(1)) };
        if !frame.is_empty() && stored + frame.len() <= MAX_STORED {
            flags |= FLAG_CONTENTS;
            stored += frame.len();
            block.splice(BLOCK_HEADER..BLOCK_HEADER, frame);
        }

        let (header, body) = block.split_at_mut(BLOCK_HEADER);
        let defines = if batch.defines() { FLAG_DEFINES } else { 0 };
        let head = BlockHeader {
            tag,
            sequence,
            flags: flags | defines | if keyframe { FLAG_KEYFRAME } else { 0 },
            encoding: ENCODING_COLUMNS,
            raw: length as u32,
            stored: stored as u32,
            count: batch.count(),
            first: batch.first().unwrap_or(0),
            last: batch.last().unwrap_or(0),
            body_crc: crate::checksum::checksum(body),
        };
        header.copy_from_slice(&head.encode());
        Ok(block)
    }

    /// Packs a batch of a keyframe, appends the block, and empties the batch.
    pub fn pack_onto(
        &mut self,
        out: &mut Vec<u8>,
        batch: &mut Batch,
        tag: u32,
        sequence: u32,
    ) -> io::Result<()> {
        let block = self.pack(batch, tag, sequence, true)?;
        out.extend_from_slice(&block);
        self.reuse(block);
        batch.clear();
        Ok(())
    }

    /// Takes a block's memory back.
    pub fn reuse(&mut self, block: Vec<u8>) {
        self.spare = block;
    }

    /// Its current memory, bytes.
    pub fn memory(&mut self) -> usize {
        let zstd = self.zstd.context_mut().sizeof();
        zstd + self.columns.memory() + self.raw.capacity() + self.spare.capacity()
    }
}

/// Maximum size of zstd's output for `raw` bytes, with a frame for each column and one between each two.
fn bound(raw: usize) -> usize {
    /// Overhead of a frame for incompressible bytes: a header of at most 14 bytes, and 3 for each piece.
    const FRAME: usize = 32;
    let packed = compress_bound(raw) + 2 * COLUMNS * FRAME;
    // With the list of contents, at most.
    packed + packed / contents::SHARE
}

/// Appends a frame with the content of `raw`, if there is any, and empties it. Returns the frame's length.
fn add_frame(
    zstd: &mut zstd::bulk::Compressor,
    raw: &mut Vec<u8>,
    block: &mut [u8],
    stored: usize,
) -> io::Result<usize> {
    if raw.is_empty() {
        return Ok(0);
    }
    let length = compress(zstd, raw, block, stored)?;
    raw.clear();
    Ok(length)
}

/// Appends a frame to a block. Returns the frame's length.
fn compress(
    zstd: &mut zstd::bulk::Compressor,
    from: &[u8],
    block: &mut [u8],
    stored: usize,
) -> io::Result<usize> {
    let room = block.get_mut(BLOCK_HEADER + stored..).ok_or(io::ErrorKind::InvalidData)?;
    zstd.compress_to_buffer(from, room)
}

/// Whether hits of a shape are wanted.
pub type Wanted = dyn Fn(&Shape) -> bool + Send + Sync;

/// The shapes of a block's hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    /// Each shape once.
    pub shapes: Vec<Shape>,
    /// For each hit, in their order in the block, the index of its shape.
    pub order: Vec<u32>,
}

/// What was in a block.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub events: Vec<Event>,
    pub glance: Option<Glance>,
    pub left_out: LeftOut,
}

/// What is known of a block's events without a look at each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Indices of those that are not a [`Process`](crate::event::Process), nor a [`Complete`](crate::event::Complete) with
    /// a number for its value.
    pub others: Vec<u32>,
    /// Whether all are in order of time.
    pub in_order: bool,
}

/// Hits of a block that were not wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their kinds, by number, and how many there are of each.
    pub counts: Vec<(u16, u32)>,
    /// The earliest and the latest time of them.
    pub span: Option<(u64, u64)>,
}

/// Unpacks blocks.
pub(crate) struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
    columns: columns::Reader,
    raw: Vec<u8>,
}

impl Unpacker {
    pub fn new() -> io::Result<Self> {
        let zstd = zstd::bulk::Decompressor::new()?;
        Ok(Unpacker { zstd, columns: columns::Reader::default(), raw: Vec::new() })
    }

    /// Whether it can unpack blocks of this encoding.
    pub fn knows(encoding: u16) -> bool {
        matches!(encoding, ENCODING_TIMES_FACTS | ENCODING_COLUMNS)
    }

    /// The events of a block whose header is [plausible](BlockHeader::plausible) and whose body's
    /// checksum is right. `None` if it holds anything that a writer would not have written. With `wanted`, hits that are
    /// not wanted are left out; old bodies are read whole.
    #[inline]
    pub fn unpack(&mut self, header: &BlockHeader, body: &[u8], wanted: Option<&Wanted>) -> Option<Unpacked> {
        self.unpack_body(header, body)?;
        match header.encoding {
            ENCODING_TIMES_FACTS => {
                let (events, left_out) = (rows::read(header, &self.raw)?, LeftOut::default());
                Some(Unpacked { events, glance: None, left_out })
            }
            _ => self.columns.read(header, &self.raw, wanted),
        }
    }

    /// Whether the hits in blocks of this encoding have shapes.
    pub fn has_shapes(encoding: u16) -> bool {
        encoding == ENCODING_COLUMNS
    }

    /// The shapes of its hits, if [they have any](Unpacker::has_shapes).
    #[inline]
    pub fn shapes(&mut self, header: &BlockHeader, body: &[u8]) -> Option<Shapes> {
        let length = self.unpack_begin(header, body)?;
        self.columns.shapes(header, self.raw.get(..length)?)
    }

    /// Unpacks as many frames as [`shapes`](Unpacker::shapes) needs. Returns the length of their content.
    fn unpack_begin(&mut self, header: &BlockHeader, mut body: &[u8]) -> Option<usize> {
        self.raw.resize(header.raw as usize, 0);
        let mut length = 0;
        while columns::Reader::shapes_end(self.raw.get(..length)?).is_none_or(|end| length < end) {
            let (frame, rest) = body.split_at_checked(find_frame_compressed_size(body).ok()?)?;
            body = rest;
            let room = self.raw.get_mut(length..)?;
            if frame.is_empty() {
                return None;
            }
            length += self.zstd.decompress_to_buffer(frame, room).ok()?;
        }
        Some(length)
    }

    fn unpack_body(&mut self, header: &BlockHeader, body: &[u8]) -> Option<()> {
        self.raw.resize(header.raw as usize, 0);
        let length = self.zstd.decompress_to_buffer(body, self.raw.as_mut_slice()).ok()?;
        (length == self.raw.len()).then_some(())
    }
}
