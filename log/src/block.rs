//! Blocks: batches of events, made and taken apart.
//!
//! A [`Batch`] takes events in the order in which they come, each encoded at once (so that a batch
//! costs a tenth of what the events themselves would), and is packed into a block in the order of
//! time. Order of time has one exception, which a reader can rely on: a definition stands before
//! everything that came after it, and an end after everything that came before it, whatever their
//! times say. So reading in order never meets a number that is not defined.

use crate::event::{Event, Fact, Sort};
use crate::format::{
    BlockHeader, BLOCK_HEADER, ENCODING_TIMES_FACTS, FLAG_DEFINES, FLAG_KEYFRAME, MAX_EVENTS, MAX_RAW,
    WINDOW_LOG,
};
use std::io;
use zstd::zstd_safe::CParameter;

/// Bytes that an encoded time has at most.
pub(crate) const MAX_TIME: usize = 10;
/// Bytes of a fact that fits into a block.
pub(crate) const MAX_FACT: usize = MAX_RAW - MAX_TIME;
/// Bytes that a time is taken to need when a batch's size is reckoned; hits are microseconds apart.
const USUAL_TIME: usize = 3;

/// Where an encoded fact lies in its batch.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    /// What it is sorted by: its time, or an earlier one for a definition.
    key: u64,
    start: u32,
    length: u32,
    sort: Sort,
}

/// An event encoded, not yet in a batch. Kept by the writer to use its memory again.
#[derive(Debug, Default)]
pub(crate) struct Encoded(Vec<u8>);

impl Encoded {
    /// Encodes a fact. `false` if it can't be stored in any block.
    pub fn set(&mut self, fact: &Fact) -> bool {
        self.0.clear();
        match postcard::to_extend(fact, std::mem::take(&mut self.0)) {
            Ok(bytes) => self.0 = bytes,
            Err(_) => return false,
        }
        let fits = self.0.len() <= MAX_FACT;
        if !fits {
            self.0 = Vec::new(); // don't keep the memory of a freak
        }
        fits
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Events that will be a block.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    facts: Vec<u8>,
    entries: Vec<Entry>,
    defines: bool,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Would one more event of `length` bytes keep the body below `limit` bytes (roughly: times are
    /// of different length) and the block within the format's bounds?
    pub fn has_room(&self, length: usize, limit: usize) -> bool {
        let reckoned = self.facts.len() + length + USUAL_TIME * (self.entries.len() + 1);
        let most = self.facts.len() + length + MAX_TIME * (self.entries.len() + 1);
        reckoned <= limit && most <= MAX_RAW && self.count() < MAX_EVENTS
    }

    pub fn push(&mut self, event: &Event, encoded: &Encoded) {
        let sort = event.fact.sort();
        self.defines |= sort != Sort::Hit;
        self.entries.push(Entry {
            time: event.time,
            key: event.time,
            start: self.facts.len() as u32,
            length: encoded.len() as u32,
            sort,
        });
        self.facts.extend_from_slice(&encoded.0);
    }

    pub fn clear(&mut self) {
        self.facts.clear();
        self.entries.clear();
        self.defines = false;
    }

    /// The earliest time in it.
    pub fn first(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.time).min()
    }

    /// Brings the entries into the order in which they are stored.
    fn arrange(&mut self) {
        // An end is never passed, so what lies between two ends is sorted by itself.
        for run in self.entries.chunk_by_mut(|before, _| before.sort != Sort::End) {
            let ends = run.last().is_some_and(|last| last.sort == Sort::End);
            let (movable, _) = run.split_at_mut(run.len() - usize::from(ends));
            let mut earliest = u64::MAX;
            for entry in movable.iter_mut().rev() {
                earliest = earliest.min(entry.time);
                if entry.sort == Sort::Definition {
                    entry.key = earliest;
                }
            }
            movable.sort_by_key(|entry| entry.key);
        }
    }
}

/// Packs batches into blocks. Holds zstd's tables and two buffers of a block each, and uses them again
/// and again: 760 KiB in all at the default level (examples/throughput.rs prints it).
pub(crate) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    spare: Vec<u8>,
}

impl Packer {
    pub fn new(level: i32) -> io::Result<Self> {
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        zstd.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        Ok(Packer { zstd, raw: Vec::new(), spare: Vec::new() })
    }

    /// Bytes that a block with a body of `raw` bytes can need in the file.
    pub fn bound(raw: usize) -> u64 {
        (BLOCK_HEADER + zstd::zstd_safe::compress_bound(raw)) as u64
    }

    /// Makes a block of a batch: header and body. The batch keeps its events (in another order). Give
    /// the block back with [`Packer::reuse`].
    pub fn pack(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        sequence: u32,
        keyframe: bool,
    ) -> io::Result<Vec<u8>> {
        batch.arrange();
        let first = batch.first().unwrap_or(0);
        let last = batch.entries.iter().map(|entry| entry.time).max().unwrap_or(0);

        self.raw.clear();
        let mut before = first;
        for entry in &batch.entries {
            put_varint(&mut self.raw, zigzag(entry.time.wrapping_sub(before) as i64));
            before = entry.time;
        }
        for entry in &batch.entries {
            let start = entry.start as usize;
            self.raw.extend_from_slice(batch.facts.get(start..start + entry.length as usize).unwrap_or(&[]));
        }

        let mut block = std::mem::take(&mut self.spare);
        block.resize(BLOCK_HEADER + zstd::zstd_safe::compress_bound(self.raw.len()), 0);
        let (header, body) = block.split_at_mut(BLOCK_HEADER);
        let stored = self.zstd.compress_to_buffer(&self.raw, body)?;
        let body = body.get(..stored).unwrap_or(&[]);
        let defines = if batch.defines { FLAG_DEFINES } else { 0 };
        let head = BlockHeader {
            tag,
            sequence,
            flags: defines | if keyframe { FLAG_KEYFRAME } else { 0 },
            encoding: ENCODING_TIMES_FACTS,
            raw: self.raw.len() as u32,
            stored: stored as u32,
            count: batch.count(),
            first,
            last,
            body_crc: crc32fast::hash(body),
        };
        header.copy_from_slice(&head.encode());
        block.truncate(BLOCK_HEADER + stored);
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

    /// Bytes that it holds now.
    pub fn memory(&mut self) -> usize {
        self.zstd.context_mut().sizeof() + self.raw.capacity() + self.spare.capacity()
    }
}

/// Unpacks blocks.
pub(crate) struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
    raw: Vec<u8>,
}

impl Unpacker {
    pub fn new() -> io::Result<Self> {
        Ok(Unpacker { zstd: zstd::bulk::Decompressor::new()?, raw: Vec::new() })
    }

    /// The events of a block whose header is [plausible](BlockHeader::plausible) and whose body's
    /// checksum is right. `None` if there is anything in it that a writer would not have written.
    pub fn unpack(&mut self, header: &BlockHeader, body: &[u8]) -> Option<Vec<Event>> {
        self.raw.resize(header.raw as usize, 0);
        let length = self.zstd.decompress_to_buffer(body, self.raw.as_mut_slice()).ok()?;
        if length != self.raw.len() {
            return None;
        }
        let mut facts = self.raw.as_slice();
        for _ in 0..header.count {
            take_varint(&mut facts)?;
        }
        let mut times = self.raw.as_slice();
        let mut time = header.first;
        // A fact has at least a byte, as has a time.
        let mut events = Vec::with_capacity((header.count as usize).min(self.raw.len() / 2));
        for _ in 0..header.count {
            time = time.wrapping_add(unzigzag(take_varint(&mut times)?) as u64);
            let (fact, rest) = postcard::take_from_bytes(facts).ok()?;
            facts = rest;
            events.push(Event { time, fact });
        }
        facts.is_empty().then_some(events)
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Appends a number as postcard does: seven bits a byte, lowest first, the high bit set on all
/// but the last.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
