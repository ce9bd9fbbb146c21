//! One pass over segments, one after the other: the only loop in which the reader opens segments.
//!
//! What comes is in order: a segment's header, then its blocks and its damage. What the parts mean is the caller's; a
//! scan neither reports nor skips anything. A scan of whole runs decodes some segments ahead, on other threads; one of a
//! single segment, of which only the first blocks may be wanted, does not.

use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{Ahead, Block, Damage, ReadError, Segment, SegmentFile};
use std::collections::VecDeque;

/// Segments that are opened ahead of the one that is worked on.
const AHEAD: usize = 4;

/// Which blocks to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All.
    All,
    /// Those with definitions.
    Definitions,
    /// Those that may hold events at this monotonic time or later, and those with definitions.
    Since(u64),
}

/// What a scan comes to next.
#[derive(Debug)]
pub enum Part {
    /// A segment begins.
    Segment(SegmentHeader),
    /// A segment can't be opened.
    Unreadable(ReadError),
    /// A block of the segment.
    Block(Block),
    /// A part of the segment that can't be read.
    Damage(Damage),
}

/// A segment that is open.
enum Open {
    /// Decoded on another thread.
    Ahead(Ahead),
    /// Decoded when asked.
    Here(Box<Segment>),
}

/// One pass over segments.
pub struct Scan {
    files: VecDeque<SegmentFile>,
    blocks: Blocks,
    opened: VecDeque<(Result<Ahead, ReadError>, SegmentFile)>,
    segment: Option<Open>,
    /// The one that the last part belongs to.
    file: Option<SegmentFile>,
}

impl Scan {
    /// A pass over these segments, in this order, up to the limit of each. Nothing is opened before the first part is
    /// asked for.
    pub fn new<'a>(files: impl IntoIterator<Item = &'a SegmentFile>, blocks: Blocks) -> Self {
        let files = files.into_iter().cloned().collect();
        Scan { files, blocks, opened: VecDeque::new(), segment: None, file: None }
    }

    /// A pass over one segment that is decoded only as far as it is asked for.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub fn one(file: &SegmentFile, blocks: Blocks) -> Result<Self, ReadError> {
        let mut segment = Segment::open(&file.path)?;
        prepare(&mut segment, file, blocks);
        let segment = Some(Open::Here(Box::new(segment)));
        Ok(Scan { segment, file: Some(file.clone()), ..Scan::new([], blocks) })
    }

    /// The segment that the last part belongs to; `None` before the first.
    pub fn file(&self) -> Option<&SegmentFile> {
        self.file.as_ref()
    }

    fn open_next(&mut self) -> Option<Part> {
        while self.opened.len() < AHEAD {
            let Some(file) = self.files.pop_front() else { break };
            let opened = Ahead::open(&file.path, |segment| prepare(segment, &file, self.blocks));
            self.opened.push_back((opened, file));
        }
        let (opened, file) = self.opened.pop_front()?;
        self.file = Some(file);
        Some(match opened {
            Ok(segment) => {
                let header = *segment.header();
                self.segment = Some(Open::Ahead(segment));
                Part::Segment(header)
            }
            Err(error) => Part::Unreadable(error),
        })
    }
}

impl Iterator for Scan {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let found = match &mut self.segment {
            Some(Open::Ahead(segment)) => segment.next_block(),
            Some(Open::Here(segment)) => segment.next_block(),
            None => None,
        };
        match found {
            Some(Ok(block)) => Some(Part::Block(block)),
            Some(Err(damage)) => Some(Part::Damage(damage)),
            None => {
                self.segment = None;
                self.open_next()
            }
        }
    }
}

fn prepare(segment: &mut Segment, file: &SegmentFile, blocks: Blocks) {
    segment.limit(file.limit);
    match blocks {
        Blocks::All => {}
        Blocks::Definitions => segment.only_definitions(),
        Blocks::Since(since) => segment.only(since, u64::MAX),
    }
}
