//! The bytes of segment and block headers, as documented in docs/format.md; their lengths are asserted here at compile
//! time. All numbers are little endian.

use crate::event::Fact;

/// First bytes of every segment: not text, not UTF-8, and damaged by transfers that convert line ends.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\x89IOCREC\n";
/// First bytes of every block. Chosen to be unlikely in text and in small numbers.
pub const BLOCK_MAGIC: [u8; 4] = [0xB7, 0x4C, 0x0F, 0xE3];
/// Version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u16 = 1;
/// Incompatible flags that this crate understands: none yet.
pub const KNOWN_INCOMPATIBLE: u32 = 0;
/// Bits of the compatible flags that hold a number: log2 of the time resolution in nanoseconds.
pub const TIME_BITS: u32 = 0x3F;
/// Length of a segment's header.
pub const SEGMENT_HEADER: usize = 80;
/// Copies of the header at the start of a segment, so that one flipped bit does no harm.
pub const HEADER_COPIES: usize = 2;
/// Offset of a segment's first block.
pub const FIRST_BLOCK: usize = SEGMENT_HEADER * HEADER_COPIES;
/// Length of a block's header.
pub const BLOCK_HEADER: usize = 52;
/// Maximum size of an unpacked body, in bytes. Bounds a reader's memory.
pub const MAX_RAW: usize = 256 << 10;
/// Maximum size of a body in the file, in bytes: zstd's output for `MAX_RAW` bytes of noise.
pub const MAX_STORED: usize = MAX_RAW + (MAX_RAW >> 8) + 64;
/// Maximum number of events in a block. Bounds a reader's memory for them.
pub const MAX_EVENTS: u32 = 32 << 10;
/// log2 of zstd's window: no block looks back further than its own start, so this bounds the memory
/// that a decoder needs.
pub const WINDOW_LOG: u32 = 18;
/// Number of kinds of facts that this version knows. A segment states the number that its writer knew.
pub const FACTS: u16 = Fact::KINDS.len() as u16;

const _: () = {
    assert!(SEGMENT_HEADER == 8 + 2 + 2 + 2 + 2 + 4 + 4 + 16 + 16 + 8 + 8 + 4 + 4);
    assert!(FIRST_BLOCK == 160);
    assert!(BLOCK_HEADER == 4 + 4 + 4 + 2 + 2 + 4 + 4 + 4 + 8 + 8 + 4 + 4);
    assert!(1 << WINDOW_LOG == MAX_RAW);
    assert!(MAX_STORED == 263_232);
};

/// A segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Version of the format.
    pub version: u16,
    /// Number of kinds of facts that the writer knew.
    pub facts: u16,
    /// Flags that a reader may ignore.
    pub compatible: u32,
    /// Flags that a reader must know.
    pub incompatible: u32,
    /// Random number of the recorder's run.
    pub run: u128,
    /// Boot id of the host (the UUID's bytes); zero if it was not known yet.
    pub boot_id: [u8; 16],
    /// CLOCK_MONOTONIC at the start of the segment, nanoseconds.
    pub created: u64,
    /// Wall-clock time at the start of the segment, nanoseconds since 1970 UTC.
    pub created_wall: i64,
    /// Number of the segment in its run, from 0. A missing number means that a segment was deleted
    /// or could not be written.
    pub sequence: u32,
}

/// The reason why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// They don't begin with the magic.
    Magic,
    /// They begin with the magic, but the checksum is wrong.
    Checksum,
}

/// Takes numbers off the front of a byte slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        if let Some((head, rest)) = self.0.split_at_checked(N) {
            out.copy_from_slice(head);
            self.0 = rest;
        }
        out
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.next())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.next())
    }
}

/// Puts numbers into a header of fixed size.
struct Bytes<const N: usize> {
    bytes: [u8; N],
    used: usize,
}

impl<const N: usize> Bytes<N> {
    fn new() -> Self {
        Bytes { bytes: [0; N], used: 0 }
    }
    fn put(mut self, field: &[u8]) -> Self {
        let end = self.used + field.len();
        if let Some(place) = self.bytes.get_mut(self.used..end) {
            place.copy_from_slice(field);
        }
        self.used = end;
        self
    }
    /// The header; its last four bytes are the CRC-32 of the bytes before them.
    fn sealed(self) -> [u8; N] {
        debug_assert_eq!(self.used + 4, N);
        let crc = crate::checksum::checksum(&self.bytes[..N - 4]);
        self.put(&crc.to_le_bytes()).bytes
    }
}

/// The CRC-32 in the last four bytes of a header, if it is right.
fn seal<const N: usize>(bytes: &[u8; N]) -> Option<u32> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let crc = u32::from_le_bytes(*crc);
    (crate::checksum::checksum(body) == crc).then_some(crc)
}

/// The tag that a segment's blocks carry: its header's checksum.
pub(crate) fn tag_of(header: &[u8; SEGMENT_HEADER]) -> u32 {
    header.last_chunk().map_or(0, |crc| u32::from_le_bytes(*crc))
}

impl SegmentHeader {
    /// The time resolution, nanoseconds: 1, 2, 4 ... All times are multiples of it.
    pub fn time_step(&self) -> u64 {
        1 << (self.compatible & TIME_BITS)
    }

    /// The header's bytes, one copy.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        Bytes::new()
            .put(&SEGMENT_MAGIC)
            .put(&self.version.to_le_bytes())
            .put(&(SEGMENT_HEADER as u16).to_le_bytes())
            .put(&self.facts.to_le_bytes())
            .put(&(HEADER_COPIES as u16).to_le_bytes())
            .put(&self.compatible.to_le_bytes())
            .put(&self.incompatible.to_le_bytes())
            .put(&self.run.to_le_bytes())
            .put(&self.boot_id)
            .put(&self.created.to_le_bytes())
            .put(&self.created_wall.to_le_bytes())
            .put(&self.sequence.to_le_bytes())
            .sealed()
    }

    /// Reads a header and its tag.
    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER]) -> Result<(Self, u32), BadHeader> {
        let mut fields = Fields(bytes);
        if fields.next() != SEGMENT_MAGIC {
            return Err(BadHeader::Magic);
        }
        let tag = seal(bytes).ok_or(BadHeader::Checksum)?;
        let version = fields.u16();
        let _length = fields.u16();
        let facts = fields.u16();
        let _copies = fields.u16();
        let header = SegmentHeader {
            version,
            facts,
            compatible: fields.u32(),
            incompatible: fields.u32(),
            run: u128::from_le_bytes(fields.next()),
            boot_id: fields.next(),
            created: fields.u64(),
            created_wall: fields.u64() as i64,
            sequence: fields.u32(),
        };
        Ok((header, tag))
    }
}

/// The block belongs to the keyframe.
pub(crate) const FLAG_KEYFRAME: u16 = 1;
/// The block holds definitions or their ends, so a reader must not skip it when it searches for a time.
pub(crate) const FLAG_DEFINES: u16 = 2;
/// The flags below say what the block holds. Without it, it may hold anything.
pub(crate) const FLAG_CLASSES: u16 = 4;
/// Puts that reached `dbPutField` or `dbProcessNotify`.
pub(crate) const FLAG_PUTS: u16 = 8;
/// Calls of `dbPut`.
pub(crate) const FLAG_WRITES: u16 = 16;
/// Puts on the network, and their answers.
pub(crate) const FLAG_NETWORK: u16 = 32;
/// Processing.
pub(crate) const FLAG_PROCESSING: u16 = 64;
/// Requests for processing.
pub(crate) const FLAG_CAUSES: u16 = 128;
/// Puts of CA links.
pub(crate) const FLAG_LINK_PUTS: u16 = 256;
/// Readings of the IOC's memory after a put, and of PACT.
pub(crate) const FLAG_READINGS: u16 = 512;
/// Notes, and the writer's own facts.
pub(crate) const FLAG_NOTES: u16 = 1024;
/// Records that completed with an alarm.
pub(crate) const FLAG_ALARMS: u16 = 2048;
/// Facts of kinds that none of these flags stands for.
pub(crate) const FLAG_OTHERS: u16 = 4096;
/// Values and properties of records, read from the IOC's memory.
pub(crate) const FLAG_SNAPSHOTS: u16 = 16384;
/// It holds what IOCs said, what they used, and what they did with files.
pub(crate) const FLAG_HEALTH: u16 = 32768;
/// The body begins with a list of its contents.
pub(crate) const FLAG_CONTENTS: u16 = 8192;
/// Body encoding: all times, then all facts. No longer written.
pub(crate) const ENCODING_TIMES_FACTS: u16 = 1;
/// Body encoding: by columns.
pub(crate) const ENCODING_COLUMNS: u16 = 2;

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// The CRC-32 of the segment's header. It exposes a block from another segment.
    pub tag: u32,
    /// Number of the block in its segment, from 0.
    pub sequence: u32,
    /// `FLAG_*`.
    pub flags: u16,
    /// Encoding of the body: `ENCODING_*`.
    pub encoding: u16,
    /// Size of the unpacked body, in bytes.
    pub raw: u32,
    /// Size of the body in the file, in bytes.
    pub stored: u32,
    /// Number of events in the block.
    pub count: u32,
    /// Earliest time in the block.
    pub first: u64,
    /// Latest time in the block.
    pub last: u64,
    /// CRC-32 of the body as stored in the file.
    pub body_crc: u32,
}

impl BlockHeader {
    pub fn encode(&self) -> [u8; BLOCK_HEADER] {
        Bytes::new()
            .put(&BLOCK_MAGIC)
            .put(&self.tag.to_le_bytes())
            .put(&self.sequence.to_le_bytes())
            .put(&self.flags.to_le_bytes())
            .put(&self.encoding.to_le_bytes())
            .put(&self.raw.to_le_bytes())
            .put(&self.stored.to_le_bytes())
            .put(&self.count.to_le_bytes())
            .put(&self.first.to_le_bytes())
            .put(&self.last.to_le_bytes())
            .put(&self.body_crc.to_le_bytes())
            .sealed()
    }

    pub fn decode(bytes: &[u8; BLOCK_HEADER]) -> Result<Self, BadHeader> {
        let mut fields = Fields(bytes);
        if fields.next() != BLOCK_MAGIC {
            return Err(BadHeader::Magic);
        }
        seal(bytes).ok_or(BadHeader::Checksum)?;
        Ok(BlockHeader {
            tag: fields.u32(),
            sequence: fields.u32(),
            flags: fields.u16(),
            encoding: fields.u16(),
            raw: fields.u32(),
            stored: fields.u32(),
            count: fields.u32(),
            first: fields.u64(),
            last: fields.u64(),
            body_crc: fields.u32(),
        })
    }

    /// Whether a writer could have written these lengths.
    pub fn plausible(&self) -> bool {
        self.raw as usize <= MAX_RAW && self.stored as usize <= MAX_STORED && self.count <= MAX_EVENTS
    }
}
