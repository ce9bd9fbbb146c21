//! Reads one segment, block by block.

use super::about::{About, Choice, Choose};
use super::error::{Cause, Damage, ReadError};
use super::window::Window;
use crate::block::{Classes, Contents, Glance, LeftOut, Shapes, Unpacked, Unpacker, FRAME_HEADER};
use crate::event::Event;
use crate::format::{
    BadHeader, BlockHeader, SegmentHeader, BLOCK_HEADER, BLOCK_MAGIC, FACTS, FIRST_BLOCK, FLAG_CONTENTS,
    FLAG_DEFINES, FLAG_KEYFRAME, KNOWN_INCOMPATIBLE, SEGMENT_HEADER, SEGMENT_MAGIC, VERSION,
};
use std::collections::VecDeque;
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// The events of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length in the file in bytes, header included.
    pub length: u64,
    /// Its number in the segment, from 0.
    pub sequence: u32,
    /// Whether it repeats earlier definitions of the run, so that the segment can be read alone. If the segment before
    /// was read to its end, it holds nothing new.
    pub keyframe: bool,
    /// Its events, in the order of time, except that definitions come before everything that was pushed after them, and
    /// ends come after everything that was pushed before them.
    pub events: Vec<Event>,
    /// What is known of them without a look at each; `None` if nothing is.
    pub glance: Option<Glance>,
    /// What was known of it before it was unpacked, if that [was asked for](Segment::choose).
    pub about: Option<Box<About>>,
    /// Whether it was passed over: it has events, but none was read.
    pub passed: bool,
    /// Hits that were left out.
    pub left_out: LeftOut,
    /// The shapes of its hits, if only these were asked for.
    pub shapes: Option<Box<Shapes>>,
}

/// Limit on a segment's content. Beyond it, the reader concludes that no recorder wrote the segment.
///
/// Uniform blocks compress to almost nothing: 60 KB can hold 19 million events, and 64 MB can hold as much work as a
/// year's logs. Real events differ: no recorder has been seen to need less than 0.23 bytes per event. So the limit is a
/// fixed amount of work for all logs together, plus some for each byte that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Number of events that a segment of any size may hold; `None` for no limit.
    free: Option<u64>,
}

/// Number of events that are read from logs of any size: some seconds of work.
const FREE: u64 = 2_000_000;
/// Number of further events for each byte.
const PER_BYTE: u64 = 32;
/// Bytes of a block that are looked at if nothing else of it is: its header and most lists of contents.
const SIP: usize = 1 << 10;
/// Length from which on a block that is skipped is not read: two calls of the kernel cost as much as to copy it.
const LARGE: u64 = 8 << 10;
/// Unpacked bytes that count as one event. Most events have fewer; those with more hold text, which must be printed.
const BYTES: u32 = 8;

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { free: None };

    /// The limit for each of `files` files that are read together.
    pub fn shared(files: usize) -> Limit {
        Limit { free: Some(FREE / (files as u64).max(1)) }
    }
}

/// A segment that is being read.
pub struct Segment<R = File> {
    window: Window<R>,
    header: SegmentHeader,
    tag: u32,
    unpacker: Unpacker,
    /// Number that the next block should have.
    expected: u32,
    /// Damage to report before anything else is read.
    pending: VecDeque<Damage>,
    since: u64,
    until: u64,
    ended: bool,
    chooses: Option<Box<Choose>>,
    limit: Limit,
    /// Bytes of the unpacked blocks, their work as the limit measures it, and the number of their events.
    read: (u64, u64, u64),
    /// See [`Segment::remember`]; and what was known when this began.
    checked: Option<(Arc<AtomicUsize>, u64)>,
    /// Whether all blocks so far were looked at, or are known, and are sound.
    is_sound: bool,
}

/// The next thing in the file.
enum Found {
    Block(Block),
    Damage(Damage),
    /// A block that the caller does not want.
    Skipped,
}

impl Segment<File> {
    /// Opens a segment.
    ///
    /// # Errors
    /// If this version can read nothing of it.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Segment::read(open_file(path)?, path)
    }
}

/// Opens a regular file. Opening a pipe would block the reader, and opening a device may have side effects, so neither
/// is opened. If one takes the file's place meanwhile, it is opened without waiting and is not read.
fn open_file(path: &Path) -> Result<File, ReadError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::NotFound(path.to_owned()),
        _ => ReadError::Io(path.to_owned(), error),
    };
    let must_be_file = |about: Metadata| match what_else(about.file_type()) {
        // a directory that can't be searched
        Some(what) if about.is_dir() => Err(match fs::read_dir(path) {
            Ok(_) => ReadError::NotAFile(path.to_owned(), what),
            Err(error) => failed(error),
        }),
        Some(what) => Err(ReadError::NotAFile(path.to_owned(), what)),
        None => Ok(()),
    };
    must_be_file(fs::metadata(path).map_err(failed)?)?;
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.read(true).open(path).map_err(failed)?;
    must_be_file(file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// The kind of something that is not a regular file.
fn what_else(kind: FileType) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        for (is, what) in [
            (kind.is_fifo(), "a pipe"),
            (kind.is_socket(), "a socket"),
            (kind.is_char_device() || kind.is_block_device(), "a device"),
        ] {
            if is {
                return Some(what);
            }
        }
    }
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => None,
        (_, true) => Some("a directory"),
        _ => Some("something else"),
    }
}

impl<R: Read + Seek> Segment<R> {
    /// Reads a segment from any source; `path` is for messages.
    ///
    /// # Errors
    /// Those of [`Segment::open`].
    pub fn read(file: R, path: &Path) -> Result<Self, ReadError> {
        let failed = |error| ReadError::Io(path.to_owned(), error);
        let mut window = Window::new(file).map_err(failed)?;
        let head = window.look(FIRST_BLOCK).map_err(failed)?;
        let (header, tag, pending) = read_header(head, path.to_owned())?;
        window.pass(FIRST_BLOCK as u64).map_err(failed)?;
        let unpacker = Unpacker::new().map_err(failed)?;
        let (since, until) = (0, u64::MAX);
        let (limit, read) = (Limit::NONE, (0, 0, 0));
        let (checked, is_sound) = (None, pending.is_empty());
        Ok(Segment {
            window,
            header,
            tag,
            unpacker,
            expected: 0,
            pending,
            since,
            until,
            ended: false,
            chooses: None,
            limit,
            read,
            checked,
            is_sound,
        })
    }

    /// Notes in `checked` up to where the file is found to be sound, once it has been read to its end. Where it is known to be,
    /// from an earlier pass, blocks that are passed over are not read again.
    pub fn remember(&mut self, checked: &Arc<AtomicUsize>) {
        self.checked = Some((Arc::clone(checked), checked.load(Relaxed) as u64));
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Number of bytes that are yet to be read.
    pub fn left(&self) -> u64 {
        self.window.left()
    }

    /// Number of its blocks up to where it was read, also of those that were skipped. At the end it is that of all that are
    /// there.
    pub fn blocks(&self) -> u32 {
        self.expected
    }

    /// From now on, skips blocks that hold neither events between two monotonic times (inclusive) nor definitions that
    /// such events could need. Only whole blocks are skipped, so some earlier and later events still come.
    pub fn only(&mut self, since: u64, until: u64) {
        (self.since, self.until) = (since, until);
    }

    /// From now on, skips blocks without definitions and ends.
    pub fn only_definitions(&mut self) {
        self.only(u64::MAX, u64::MAX);
    }

    /// From now on, asks before a block is unpacked. Blocks that are passed over are checked, and given without events, so
    /// that their damage is found, and limits count, as if they were read. Keyframes are always read.
    pub fn choose(&mut self, choose: impl Fn(&About) -> Choice + Send + 'static) {
        self.chooses = Some(Box::new(choose));
    }

    /// From now on, stops where the segment exceeds `limit`, and reports it. By default there is no limit.
    pub fn limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Counts a block. Returns whether it is still within the limit.
    fn may_unpack(&mut self, header: &BlockHeader, length: u64) -> bool {
        let (bytes, work, events) = &mut self.read;
        *bytes += length;
        *work += u64::from(header.count.max(header.raw / BYTES));
        let within = |free: u64| *work <= free.saturating_add(PER_BYTE.saturating_mul(*bytes));
        let may = self.limit.free.is_none_or(within);
        *events += if may { u64::from(header.count) } else { 0 };
        may
    }

    /// The next block, or the damage in its place; `None` at the end.
    pub fn next_block(&mut self) -> Option<Result<Block, Damage>> {
        loop {
            if let Some(damage) = self.pending.pop_front() {
                self.is_sound = false;
                return Some(Err(damage));
            }
            if self.ended || self.window.left() == 0 {
                let sound = self.checked.as_ref().filter(|_| self.is_sound && !self.ended);
                if let Some((checked, _)) = sound {
                    checked.fetch_max(usize::try_from(self.window.offset()).unwrap_or(0), Relaxed);
                }
                return None;
            }
            match self.step() {
                Ok(Found::Block(block)) => return Some(Ok(block)),
                Ok(Found::Damage(damage)) => {
                    self.is_sound = false;
                    return Some(Err(damage));
                }
                Ok(Found::Skipped) => {}
                Err(error) => return Some(Err(self.failed(&error))),
            }
        }
    }

    /// What the next block holds, as far as that is known without unpacking it, or the damage in its place; `None` at
    /// the end. Reads no bodies, so it neither finds nor trusts what is damaged in them.
    pub fn next_about(&mut self) -> Option<Result<About, Damage>> {
        self.is_sound = false; // bodies are not looked at
        loop {
            if let Some(damage) = self.pending.pop_front() {
                return Some(Err(damage));
            }
            if self.ended || self.window.left() == 0 {
                return None;
            }
            let found = match self.next_header() {
                Ok(Ok((header, length))) => self.pass_over(&header, length).map(Ok),
                Ok(Err(Found::Damage(damage))) => Ok(Err(damage)),
                Ok(Err(_)) => continue,
                Err(error) => Err(error),
            };
            return Some(found.unwrap_or_else(|error| Err(self.failed(&error))));
        }
    }

    fn pass_over(&mut self, header: &BlockHeader, length: u64) -> io::Result<About> {
        let offset = self.window.offset();
        let contents = self.contents(header)?;
        self.skip(length)?;
        Ok(about(header, offset, length, contents))
    }

    /// The list of contents of the block that is next.
    fn contents(&mut self, header: &BlockHeader) -> io::Result<Option<Contents>> {
        if header.flags & FLAG_CONTENTS == 0 {
            return Ok(None);
        }
        let stored = header.stored as usize;
        let begins = self.window.look(BLOCK_HEADER + FRAME_HEADER.min(stored))?;
        let frame = begins.get(BLOCK_HEADER..).and_then(Contents::frame_length);
        let Some(frame) = frame.filter(|frame| *frame <= stored) else { return Ok(None) };
        let bytes = self.window.look(BLOCK_HEADER + frame)?;
        Ok(bytes.get(BLOCK_HEADER..BLOCK_HEADER + frame).and_then(Contents::read))
    }

    /// Ends the reading after an error.
    fn failed(&mut self, error: &io::Error) -> Damage {
        self.ended = true;
        let cause = Cause::Io(error.to_string());
        let (offset, length) = (self.window.offset(), self.window.left());
        Damage { offset, length, blocks: 0, times: None, cause }
    }

    /// The header of the next block and the block's length, or what is found in its place.
    fn next_header(&mut self) -> io::Result<Result<(BlockHeader, u64), Found>> {
        let offset = self.window.offset();
        let Ok(header) = block_header(self.window.look(BLOCK_HEADER)?) else {
            return self.resynchronise().map(Err);
        };
        let length = (BLOCK_HEADER as u64) + u64::from(header.stored);
        let bad = |length, blocks, cause| Ok(Err(damage(&header, offset, length, blocks, cause)));
        let whole = length <= self.window.left();
        if !header.plausible() {
            // The checksum is right, but no writer makes such lengths: they can't be trusted.
            self.window.pass(BLOCK_HEADER as u64)?;
            return bad(BLOCK_HEADER as u64, 0, Cause::Content);
        }
        if header.tag != self.tag || header.sequence < self.expected {
            let length = length.min(self.window.left());
            self.window.pass(length)?;
            return bad(length, 0, if header.tag != self.tag { Cause::Stray } else { Cause::Repeated });
        }
        if header.sequence > self.expected {
            let missing = header.sequence - self.expected;
            self.expected = header.sequence;
            return bad(0, missing, Cause::Missing);
        }
        self.expected = header.sequence.saturating_add(1);
        if !whole {
            let length = self.window.left();
            self.window.pass(length)?;
            return bad(length, 1, Cause::Cut);
        }
        Ok(Ok((header, length)))
    }

    fn step(&mut self) -> io::Result<Found> {
        let (header, length) = match self.next_header()? {
            Ok(found) => found,
            Err(found) => return Ok(found),
        };
        let offset = self.window.offset();
        let bad = |length, blocks, cause| Ok(damage(&header, offset, length, blocks, cause));
        let keyframe = header.flags & FLAG_KEYFRAME != 0;
        if !keyframe && self.unwanted(&header) {
            self.is_sound = false;
            self.skip(length)?;
            return Ok(Found::Skipped);
        }
        if !self.may_unpack(&header, length) {
            self.ended = true;
            return bad(self.window.left(), 0, Cause::Inflated { events: self.read.2 });
        }
        let (about, choice) = match &self.chooses {
            Some(_) => {
                let contents = self.contents(&header)?;
                let about = about(&header, offset, length, contents);
                let choice = self.chooses.as_ref().filter(|_| !keyframe).map(|choose| choose(&about));
                (Some(Box::new(about)), choice.unwrap_or(Choice::Read))
            }
            None => (None, Choice::Read),
        };
        let sequence = header.sequence;
        let is_known =
            self.checked.as_ref().is_some_and(|(_, known)| offset.saturating_add(length) <= *known);
        if matches!(choice, Choice::Skip) || is_known && matches!(choice, Choice::Pass) {
            self.is_sound &= is_known;
            self.skip(length)?;
            return Ok(Found::Block(Block {
                offset,
                length,
                sequence,
                keyframe,
                events: Vec::new(),
                glance: None,
                about,
                passed: true,
                left_out: LeftOut::default(),
                shapes: None,
            }));
        }
        self.window.gulp();
        let bytes = self.window.look(length as usize)?;
        let Some(body) = bytes.get(BLOCK_HEADER..length as usize) else {
            self.ended = true; // the file was truncated while it was read
            return bad(length, 1, Cause::Cut);
        };
        let newer = self.header.facts > FACTS;
        let cause = if newer { Cause::Newer } else { Cause::Content };
        let mut shapes = None;
        let outcome = if crate::checksum::checksum(body) != header.body_crc {
            Err(Cause::Checksum)
        } else if !Unpacker::knows(header.encoding) {
            Err(Cause::Newer)
        } else {
            match &choice {
                Choice::Pass | Choice::Skip => {
                    Ok(Unpacked { events: Vec::new(), glance: None, left_out: LeftOut::default() })
                }
                Choice::Shapes if Unpacker::has_shapes(header.encoding) => {
                    shapes = self.unpacker.shapes(&header, body).map(Box::new);
                    let nothing = Unpacked { events: Vec::new(), glance: None, left_out: LeftOut::default() };
                    shapes.as_ref().map(|_| nothing).ok_or(cause)
                }
                Choice::Read | Choice::Shapes => self.unpacker.unpack(&header, body, None).ok_or(cause),
                Choice::Only(wanted) => self.unpacker.unpack(&header, body, Some(&**wanted)).ok_or(cause),
            }
        };
        self.window.pass(length)?;
        match outcome {
            Ok(Unpacked { events, glance, left_out }) => {
                let passed = matches!(choice, Choice::Pass);
                Ok(Found::Block(Block {
                    offset,
                    length,
                    sequence,
                    keyframe,
                    events,
                    glance,
                    about,
                    passed,
                    left_out,
                    shapes,
                }))
            }
            Err(cause) => bad(length, 1, cause),
        }
    }

    /// Passes over a block of which no more is looked at.
    fn skip(&mut self, length: u64) -> io::Result<()> {
        match length > LARGE {
            true => self.window.sip(SIP),
            false => self.window.gulp(),
        }
        self.window.pass(length)
    }

    fn unwanted(&self, header: &BlockHeader) -> bool {
        let defines = header.flags & FLAG_DEFINES != 0;
        header.first > self.until || header.last < self.since && !defines
    }

    /// Looks for the next block of this segment.
    fn resynchronise(&mut self) -> io::Result<Found> {
        let offset = self.window.offset();
        let begins = self.window.look(BLOCK_HEADER)?;
        let torn = begins.len() < BLOCK_HEADER && BLOCK_MAGIC.iter().zip(begins).all(|(a, b)| a == b);
        let mut missing = 0;
        self.window.pass(1)?;
        loop {
            let (expected, tag) = (self.expected, self.tag);
            let bytes = self.window.look(BLOCK_HEADER)?;
            let found = bytes.windows(BLOCK_MAGIC.len()).position(|four| four == BLOCK_MAGIC);
            match found {
                Some(0) => {
                    let header = block_header(bytes).ok();
                    let ours = header.filter(|header| header.tag == tag && header.sequence >= expected);
                    if let Some(header) = ours {
                        missing = header.sequence - expected;
                        break;
                    }
                    self.window.pass(1)?;
                }
                Some(distance) => self.window.pass(distance as u64)?,
                // The last bytes may begin the magic.
                None if bytes.len() >= BLOCK_HEADER => {
                    let distance = bytes.len() - (BLOCK_MAGIC.len() - 1);
                    self.window.pass(distance as u64)?;
                }
                None => {
                    let rest = bytes.len() as u64;
                    self.window.pass(rest)?;
                    break;
                }
            }
        }
        self.expected = self.expected.saturating_add(missing);
        let length = self.window.offset() - offset;
        let cause = if torn { Cause::Cut } else { Cause::Garbage };
        Ok(Found::Damage(Damage { offset, length, blocks: missing, times: None, cause }))
    }
}

/// Damage in the place of a block.
fn damage(header: &BlockHeader, offset: u64, length: u64, blocks: u32, cause: Cause) -> Found {
    let times = (blocks > 0 && cause != Cause::Missing).then_some((header.first, header.last));
    Found::Damage(Damage { offset, length, blocks, times, cause })
}

fn about(header: &BlockHeader, offset: u64, length: u64, contents: Option<Contents>) -> About {
    About {
        offset,
        length,
        sequence: header.sequence,
        keyframe: header.flags & FLAG_KEYFRAME != 0,
        defines: header.flags & FLAG_DEFINES != 0,
        first: header.first,
        last: header.last,
        count: header.count,
        classes: Classes::of(header.flags),
        contents,
    }
}

fn block_header(bytes: &[u8]) -> Result<BlockHeader, BadHeader> {
    let header = bytes.first_chunk().ok_or(BadHeader::Magic)?;
    BlockHeader::decode(header)
}

/// Reads the header from its two copies. Also returns its tag and the damaged copies.
fn read_header(head: &[u8], path: PathBuf) -> Result<(SegmentHeader, u32, VecDeque<Damage>), ReadError> {
    let copy = |number: usize| -> Result<(SegmentHeader, u32), BadHeader> {
        let bytes =
            head.get(number * SEGMENT_HEADER..).and_then(<[u8]>::first_chunk).ok_or(BadHeader::Magic)?;
        SegmentHeader::decode(bytes)
    };
    let (first, second) = (copy(0), copy(1));
    let mut damage = VecDeque::new();
    let mut note = |number: usize| {
        let offset = number * SEGMENT_HEADER;
        let length = head.len().saturating_sub(offset).min(SEGMENT_HEADER) as u64;
        let cause = if head.len() < FIRST_BLOCK { Cause::Cut } else { Cause::Header };
        damage.push_back(Damage { offset: offset as u64, length, blocks: 0, times: None, cause });
    };
    let (header, tag) = match (first, second) {
        (Ok(first), second) => {
            if second != Ok(first) {
                note(1);
            }
            first
        }
        (Err(_), Ok(second)) => {
            note(0);
            second
        }
        (Err(first), Err(second)) => {
            let begins = SEGMENT_MAGIC.iter().zip(head).all(|(a, b)| a == b);
            return Err(if head.is_empty() {
                ReadError::Empty(path)
            } else if begins && head.len() < SEGMENT_HEADER {
                ReadError::Cut(path)
            } else if first == BadHeader::Magic && second == BadHeader::Magic {
                ReadError::Foreign(path)
            } else {
                ReadError::Damaged(path)
            });
        }
    };
    if header.version > VERSION || header.incompatible & !KNOWN_INCOMPATIBLE != 0 {
        return Err(ReadError::Newer(path, header.version, header.incompatible));
    }
    Ok((header, tag, damage))
}
