//! One pass over segments: the only loop in which the reader opens segments.
//!
//! Parts come in order: a segment's header, then its blocks and its damage. The caller interprets them; a scan neither
//! reports nor skips anything, and adds nothing but the ends that a gap between the segments hides (`EndedUnseen`), and the
//! header's reading of the clock where the first one in the blocks may be in a part that is damaged.
//! IOCs that share a name get those by which they are shown ([`crate::reading::namesakes`]), and clocks are set right
//! ([`crate::clocks`]). A scan of whole runs decodes segments on other threads: those that follow the current one only
//! as long as it has to wait for blocks, since each thread holds some megabytes of them; a scan of a single segment, of
//! which only the first blocks may be wanted, uses none.

use super::ended_unseen::EndedUnseen;
use crate::progress::Share;
use crate::shown_names;
use crate::time::SECOND;
use iocrec_log::clock::can_be_right;
use iocrec_log::event::{Clock, Event, Fact, SegmentEnd};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{
    renamed, About, Ahead, Block, Cause, Choice, Damage, ReadError, Segment, SegmentFile,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Segments opened ahead of the current one.
const AHEAD: usize = 4;

/// So many times more often blocks had to be waited for than not, lately: then segments are decoded ahead. Whoever makes
/// chains of them takes longer than one thread to decode them, whoever looks for a few of them does not.
const LATE: usize = 3;
/// The most that is counted.
const MOST_LATE: usize = 6;

/// Margin within which blocks overlap, nanoseconds.
pub const MARGIN: i64 = 2 * SECOND as i64;

/// The blocks to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All blocks.
    All,
    /// Blocks with definitions.
    Definitions,
    /// Blocks that may hold events at this monotonic time or later, and blocks with definitions.
    Since(u64),
}

/// Decides about each block by what it says of itself.
pub type Choose = dyn Fn(&About) -> Choice + Send + Sync;

/// The next part of a scan.
#[derive(Debug)]
pub enum Part {
    /// The start of a segment.
    Segment(SegmentHeader),
    /// A segment can't be opened.
    Unreadable(ReadError),
    /// A block of the segment.
    Block(Block),
    /// A part of the segment that can't be read.
    Damage(Damage),
}

/// An open segment.
enum Open {
    /// Decoded on another thread.
    Ahead(Ahead),
    /// Decoded on demand.
    Here(Box<Segment>),
}

/// One pass over segments.
pub struct Scan {
    files: VecDeque<SegmentFile>,
    blocks: Blocks,
    choose: Option<Arc<Choose>>,
    opened: VecDeque<(Result<Ahead, ReadError>, SegmentFile)>,
    /// See [`LATE`].
    late: usize,
    segment: Option<Open>,
    /// The segment of the last part.
    file: Option<SegmentFile>,
    /// Bytes of the segments before, and how far the scan is, which a scan of one segment does not tell.
    before: u64,
    share: Option<Share>,
    /// What is open, if there are several.
    unseen: Option<Box<EndedUnseen>>,
    /// The block that comes after such ends.
    held: Option<Block>,
    /// Run and number of the segment before, and of its blocks, if nothing of it is damaged, until the next one has told
    /// how many it had.
    ended: Option<(u128, u32, u32)>,
    /// Whether something of the segment is damaged, so that its blocks were not counted.
    is_damaged: bool,
    /// Whether the last block has told that blocks are missing at the end of the segment before.
    is_cut_before: bool,
    /// Whether a reading of the clock has come, and whether something is damaged before the first.
    has_clock: bool,
    lacks_clock: bool,
}

impl Scan {
    /// Scans these segments, in this order, up to the limit of each. Opens nothing before the first part is requested.
    pub fn new<'a>(files: impl IntoIterator<Item = &'a SegmentFile>, blocks: Blocks) -> Self {
        let files: VecDeque<SegmentFile> = files.into_iter().cloned().collect();
        let share = Some(Share::begin(files.iter().map(|file| file.size).sum()));
        let unseen = (files.len() > 1).then(Box::default);
        Scan {
            files,
            blocks,
            choose: None,
            opened: VecDeque::new(),
            late: 0,
            segment: None,
            file: None,
            before: 0,
            share,
            unseen,
            held: None,
            ended: None,
            is_damaged: false,
            is_cut_before: false,
            has_clock: false,
            lacks_clock: false,
        }
    }

    /// Scans the definitions in these segments. In a block with any, hits are passed over: every tenth block has a reading of
    /// the clocks, and thousands of hits.
    pub fn of_definitions<'a>(files: impl IntoIterator<Item = &'a SegmentFile>) -> Self {
        let choose = |_: &About| Choice::Only(Arc::new(|_| false));
        Scan::new(files, Blocks::Definitions).choosing(Arc::new(choose))
    }

    /// From the next segment on, asks before a block is unpacked.
    pub fn choosing(mut self, choose: Arc<Choose>) -> Self {
        self.choose(choose);
        self
    }

    /// The same.
    pub fn choose(&mut self, choose: Arc<Choose>) {
        self.choose = Some(choose);
    }

    /// Scans one segment, decoding it only as far as requested.
    ///
    /// # Errors
    /// See [`Segment::open`].
    pub fn one(file: &SegmentFile, blocks: Blocks) -> Result<Self, ReadError> {
        let mut segment = open(file, Segment::open)?;
        prepare(&mut segment, file, blocks, None);
        let segment = Some(Open::Here(Box::new(segment)));
        Ok(Scan { segment, file: Some(file.clone()), share: None, ..Scan::new([], blocks) })
    }

    /// The same, asking before a block is unpacked.
    ///
    /// # Errors
    /// See [`Segment::open`].
    pub fn one_choosing(file: &SegmentFile, choose: Arc<Choose>) -> Result<Self, ReadError> {
        let mut segment = open(file, Segment::open)?;
        prepare(&mut segment, file, Blocks::All, Some(&choose));
        let segment = Some(Open::Here(Box::new(segment)));
        Ok(Scan { segment, file: Some(file.clone()), share: None, ..Scan::new([], Blocks::All) })
    }

    /// The segments that are yet to be opened.
    pub fn unopened(&self) -> impl Iterator<Item = &SegmentFile> {
        self.files.iter()
    }

    /// The segment of the last part; `None` before the first.
    pub fn file(&self) -> Option<&SegmentFile> {
        self.file.as_ref()
    }

    /// Whether the last block has told that blocks are missing at the end of the segment before. Its file ends between two
    /// blocks, and so shows no damage.
    pub fn is_cut_before(&self) -> bool {
        self.is_cut_before
    }

    /// Notes how many blocks the segment had.
    fn note_blocks(&mut self) {
        let (header, blocks) = match &self.segment {
            Some(Open::Ahead(segment)) => (segment.header(), segment.blocks()),
            Some(Open::Here(segment)) => (segment.header(), segment.blocks()),
            None => return,
        };
        let is_damaged = std::mem::take(&mut self.is_damaged);
        self.ended = (!is_damaged).then_some((header.run, header.sequence, blocks));
        if let Some(unseen) = &mut self.unseen {
            unseen.ended(blocks);
        }
    }

    /// Whether the first block of a segment tells that the one before had more blocks than are there.
    fn has_more_before(&mut self, block: &Block) -> bool {
        let Some((run, before, blocks)) = self.ended.take() else { return false };
        let header = match &self.segment {
            Some(Open::Ahead(segment)) => segment.header(),
            Some(Open::Here(segment)) => segment.header(),
            None => return false,
        };
        let more = |end: &SegmentEnd| end.segment == before && end.blocks > blocks;
        let mut facts = block.events.iter().map(|event| &event.fact);
        header.run == run && facts.any(|fact| matches!(fact, Fact::SegmentEnd(end) if more(end)))
    }

    fn open_next(&mut self) -> Option<Part> {
        let before = self.file.take().map_or(0, |file| file.size);
        self.before = self.before.saturating_add(before);
        let (mut opened, file) = match self.opened.pop_front() {
            Some(first) => first,
            None => self.open()?,
        };
        // The thread that has read the segment before is free for it.
        if let Ok(segment) = &mut opened {
            segment.start();
        }
        while self.opened.len() + 1 < AHEAD {
            let Some(next) = self.open() else { break };
            self.opened.push_back(next);
        }
        self.decode_ahead();
        self.file = Some(file);
        Some(match opened {
            Ok(segment) => {
                let mut header = *segment.header();
                if let Some(known) = self.file.as_ref().and_then(|file| file.header) {
                    header.created_wall = known.created_wall; // its clock may have been set right
                }
                self.segment = Some(Open::Ahead(segment));
                if let Some(unseen) = &mut self.unseen {
                    unseen.begin(&header);
                }
                Part::Segment(header)
            }
            Err(error) => Part::Unreadable(error),
        })
    }
}

impl Scan {
    fn open(&mut self) -> Option<(Result<Ahead, ReadError>, SegmentFile)> {
        let file = self.files.pop_front()?;
        let choose = self.choose.as_ref();
        let opened = open(&file, Segment::open).map(|mut segment| {
            prepare(&mut segment, &file, self.blocks, choose);
            Ahead::of(segment)
        });
        Some((opened, file))
    }

    /// Notes whether the last block had to be waited for.
    fn note_wait(&mut self, waited: Option<bool>) {
        self.late = match waited {
            Some(true) => (self.late + 1).min(MOST_LATE),
            Some(false) => self.late.saturating_sub(1),
            None => return,
        };
        self.decode_ahead();
    }

    /// Begins to decode the segments that follow, as far as there are threads, if one thread is too slow.
    fn decode_ahead(&mut self) {
        if self.late < LATE {
            return;
        }
        for (segment, _) in &mut self.opened {
            if let Ok(segment) = segment {
                segment.start();
            }
        }
    }

    /// The ends that the keyframe of the last segment has shown, if the scan has skipped all blocks that follow on it.
    fn shown_at_the_end(&mut self) -> Option<Block> {
        let unseen = self.unseen.as_mut()?;
        let next = unseen.after_keyframe()?;
        let mut segment = open(self.file.as_ref()?, Segment::open).ok()?;
        // a recorder may have stored more of the keyframe since
        let follows = |about: About| !about.keyframe && about.sequence == next;
        let goes_on = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok).any(follows);
        if goes_on {
            unseen.keyframe_ended()
        } else {
            None
        }
    }

    /// Adds the header's reading of the clock to the first block behind damage, if none has come yet: without one all times
    /// would be those since the machine's start.
    fn give_clock(&mut self, block: &mut Block) {
        self.has_clock = block.events.iter().any(|event| matches!(event.fact, Fact::Clock(_)));
        let lacks_clock = self.lacks_clock && !self.has_clock;
        if let Some(header) = self.file.as_ref().and_then(|file| file.header).filter(|_| lacks_clock) {
            let fact = Fact::Clock(Clock { wall: header.created_wall });
            block.events.insert(0, Event { time: header.created, fact });
            block.glance = None;
            self.has_clock = true;
        }
    }

    /// Tells how far the scan is.
    fn tell(&mut self, block: &Block) {
        let Some(share) = &mut self.share else { return };
        let header = self.file.as_ref().and_then(|file| file.header);
        let header = header.filter(|header| can_be_right(header.created_wall));
        let time = header.zip(block.events.last()).map(|(header, last)| {
            header.created_wall.saturating_add(last.time.wrapping_sub(header.created) as i64)
        });
        share.passed(self.before.saturating_add(block.offset).saturating_add(block.length), time);
    }
}

impl Iterator for Scan {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if let Some(block) = self.held.take() {
            return Some(Part::Block(block));
        }
        let (found, waited) = match &mut self.segment {
            Some(Open::Ahead(segment)) => (segment.next_block(), segment.waited()),
            Some(Open::Here(segment)) => (segment.next_block(), None),
            None => (None, None),
        };
        self.note_wait(waited);
        match found {
            Some(Ok(mut block)) => {
                self.tell(&block);
                self.is_cut_before = self.has_more_before(&block);
                adapt(&mut block, self.file.as_ref());
                if !self.has_clock {
                    self.give_clock(&mut block);
                }
                if let Some(ends) = self.unseen.as_mut().and_then(|unseen| unseen.take(&block)) {
                    self.held = Some(block);
                    return Some(Part::Block(ends));
                }
                Some(Part::Block(block))
            }
            Some(Err(damage)) => {
                self.is_damaged |= damage.cause != Cause::Header;
                self.lacks_clock |= !matches!(damage.cause, Cause::Header | Cause::Repeated);
                if let Some(unseen) = &mut self.unseen {
                    unseen.damaged(&damage.cause);
                }
                Some(Part::Damage(damage))
            }
            None => {
                if let Some(ends) = self.shown_at_the_end() {
                    return Some(Part::Block(ends));
                }
                self.note_blocks();
                self.segment = None;
                self.open_next()
            }
        }
    }
}

/// Opens a segment, also if a recorder has pinned it since it was found.
fn open<T>(file: &SegmentFile, open: impl Fn(&Path) -> Result<T, ReadError>) -> Result<T, ReadError> {
    match open(&file.path) {
        Err(ReadError::NotFound(path)) => match renamed(&path) {
            Some(other) => open(&other),
            None => Err(ReadError::NotFound(path)),
        },
        opened => opened,
    }
}

/// Gives IOCs the names by which they are shown, and sets clocks right. Hits, nearly all of a log, have neither, and are not
/// looked at: they come from another processor's memory.
fn adapt(block: &mut Block, file: Option<&SegmentFile>) {
    let shown = file.and_then(|file| file.shown.as_deref());
    let moved = file.filter(|file| file.ahead != 0);
    let adapt = |event: &mut Event| {
        shown_names::show(&mut event.fact, shown);
        if let Some(file) = moved {
            file.set_right(&mut event.fact);
        }
    };
    let Block { events, glance, .. } = block;
    match glance {
        Some(glance) => {
            for place in &glance.others {
                if let Some(event) = events.get_mut(*place as usize) {
                    adapt(event);
                }
            }
        }
        None => events.iter_mut().for_each(adapt),
    }
}

fn prepare(segment: &mut Segment, file: &SegmentFile, blocks: Blocks, choose: Option<&Arc<Choose>>) {
    segment.limit(file.limit);
    segment.remember(&file.checked);
    if let Some(choose) = choose.cloned() {
        segment.choose(move |about| choose(about));
    }
    match blocks {
        Blocks::All => {}
        Blocks::Definitions => segment.only_definitions(),
        Blocks::Since(since) => segment.only(since, u64::MAX),
    }
}

/// What the blocks of a segment say of themselves; `None` if something in it can't be read.
pub fn abouts(file: &SegmentFile) -> Option<Vec<About>> {
    let mut segment = Segment::open(&file.path).ok()?;
    let mut all = Vec::new();
    while let Some(found) = segment.next_about() {
        match found {
            Ok(about) => all.push(about),
            Err(damage) if is_end(&damage) => break,
            Err(_) => return None,
        }
    }
    Some(all)
}

/// Whether it is where the recorder stopped in the middle of a block.
pub(crate) fn is_end(damage: &Damage) -> bool {
    damage.cause == Cause::Cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::reader::{Glance, LeftOut, Limit};
    use std::path::PathBuf;

    /// What a block says to be hits costs no look at its memory, and clocks are moved wherever else they are.
    #[test]
    fn clocks_are_moved_without_a_look_at_hits() {
        let wall = 1_790_000_000_000_000_000;
        let (path, limit) = (PathBuf::new(), Limit::NONE);
        let file = SegmentFile {
            path,
            size: 0,
            header: None,
            limit,
            shown: None,
            ahead: 7,
            checked: Arc::default(),
        };
        let clock = |time| Event { time, fact: Fact::Clock(Clock { wall }) };
        let moved = |others: Option<Vec<u32>>| {
            let mut block = Block {
                offset: 0,
                length: 0,
                sequence: 0,
                keyframe: false,
                events: vec![clock(0), clock(1), clock(2)],
                glance: others.map(|others| Glance { others, in_order: true }),
                about: None,
                passed: false,
                left_out: LeftOut::default(),
                shapes: None,
            };
            adapt(&mut block, Some(&file));
            let by = |event: &Event| match &event.fact {
                Fact::Clock(clock) => wall - clock.wall,
                _ => 0,
            };
            block.events.iter().map(by).collect::<Vec<i64>>()
        };
        assert_eq!(moved(None), [7, 7, 7]);
        assert_eq!(moved(Some(vec![0, 2])), [7, 0, 7]);
    }

    /// Each further thread holds megabytes of blocks, and is of use only to those who wait for them.
    #[test]
    fn segments_are_decoded_ahead_for_those_who_wait() {
        let late = |waits: &[Option<bool>]| {
            let mut scan = Scan::new([], Blocks::All);
            waits.iter().for_each(|waited| scan.note_wait(*waited));
            scan.late >= LATE
        };
        let (waited, had, at_hand) = (Some(true), Some(false), None);
        assert!(late(&[waited; 3]));
        assert!(late(&[waited, at_hand, waited, at_hand, waited]));
        // the first of each segment is always waited for
        assert!(!late(&[waited, had, had, waited, had, had, waited, had, had]));
        assert!(!late(&[waited, had].repeat(10)));
        // and who no longer waits stops soon, however long it waited
        let waited_long = [waited; 100];
        assert!(!late(&[waited_long.as_slice(), &[had; 4]].concat()));
    }
}
