//! Checks that a run's log is sound, and finds what is missing if it is not.
//!
//! A log is sound if every byte is as it was written and nothing is missing in between. The following is not damage:
//! losses that the recorder noted itself; segments that the recorder deleted to stay under its cap (the oldest ones,
//! and those between pinned ones and the oldest that is not pinned); and a last block that was being written when the
//! recorder stopped.
//!
//! A file that lost whole blocks at its end looks like one that ended there. The next segment states the number of
//! blocks. If there is no next segment, a segment that does not record its own end is noted: nothing shows whether the
//! recorder was killed or the end is missing.

use super::ahead::Ahead;
use super::error::{Cause, Damage};
use super::find::SegmentFile;
use super::segment::Block;
use crate::context::Context;
use crate::event::{Clock, Fact, Host, Loss, SegmentEnd};
use crate::name::Pin;
use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of findings, and of losses, that are kept for a run; a bound for hostile logs. All are counted.
const MAX_KEPT: usize = 10_000;
/// Maximum size of the losses' texts that are kept, in bytes; also a bound.
const MAX_TEXT: usize = 64 << 20;

/// A fault in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The segment's file.
    pub segment: PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes that gave no events.
    pub length: u64,
    /// Number of blocks known to be missing.
    pub blocks: u32,
    /// Number of segments missing before this one.
    pub segments: u32,
    /// The fault.
    pub fault: Fault,
    /// Start of the time span in which something may be missing: wall clock, ns since 1970 UTC. `None` if nothing is
    /// missing, or if the time is unknown.
    pub from: Option<i64>,
    /// End of the span, likewise.
    pub to: Option<i64>,
}

/// A fault of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A part of a segment is damaged.
    Damage(Cause),
    /// The file ends within the last block of the run: the recorder was writing it when it stopped.
    Unfinished,
    /// Blocks are missing at the end of the file.
    Short,
    /// The segment does not record its end, and no next one does.
    Open,
    /// Segments are missing before this one.
    Segments,
    /// Segments are missing before this one, and all before them are pinned: they were deleted to free space.
    MadeRoom,
    /// The segment exists twice.
    Twice,
    /// The segment can't be read, for this reason.
    Unreadable(String),
}

impl Fault {
    /// Whether the log is sound in spite of it.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Fault::Unfinished | Fault::Open | Fault::MadeRoom | Fault::Twice)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Damage(cause) => cause.fmt(f),
            Fault::Unfinished => f.write_str(
                "it ends within a block: the recorder was writing it when it was killed or the file was copied, or the \
                 end is missing",
            ),
            Fault::Short => f.write_str("blocks are missing at its end, as the next segment shows"),
            Fault::Open => f.write_str(
                "its end is not recorded: the recorder was writing it, or was killed, or the end is missing",
            ),
            Fault::Segments => f.write_str("segments are missing before this one"),
            Fault::MadeRoom => {
                f.write_str("segments before this one were deleted to make room; the older ones are pinned")
            }
            Fault::Twice => f.write_str("the segment exists twice; this one was left out"),
            Fault::Unreadable(line) => f.write_str(line),
        }
    }
}

/// The results of a check of a run's segments.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The host and the recorder, if the log names them.
    pub host: Option<Host>,
    /// Number of readable segments.
    pub segments: usize,
    /// The number of the first of them in the run. That many segments before it were deleted or not copied.
    pub first_segment: u32,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of sound blocks.
    pub blocks: u64,
    /// Number of events in them, without those that a keyframe repeats.
    pub events: u64,
    /// Wall-clock times of the first and the last of them.
    pub span: Option<(i64, i64)>,
    /// The findings, in the order of the files.
    pub list: Vec<Finding>,
    /// Number of findings, kept or not.
    pub count: u64,
    /// Losses that the recorder noted, with the wall-clock times of their beginning and end.
    pub losses: Vec<(i64, i64, Loss)>,
    /// Size of their texts, in bytes.
    text: usize,
    harmed: bool,
    context: Context,
    /// The latest monotonic time so far.
    newest: Option<u64>,
    /// Indices of findings that wait for the time of the next event.
    waiting: Vec<usize>,
}

/// A segment that was read, for comparison with the next one.
struct Read<'a> {
    path: &'a Path,
    sequence: u32,
    /// Whether its writer would have recorded its end.
    records_end: bool,
    /// Number of its blocks, including those known to be missing.
    blocks: u32,
    /// Offset of the end of its last part.
    end: u64,
    /// Whether that part is not a sound block.
    bad_end: bool,
    /// Whether it records its own end.
    ended: bool,
}

/// Checks a run's segments, which must be in order.
pub fn verify(files: &[SegmentFile]) -> Findings {
    let mut found = Findings::default();
    let mut before: Option<Read> = None;
    // The recorder deletes the oldest segment that is not pinned, so it causes no other gaps.
    let mut all_pinned = true;
    let last = files.iter().rposition(|file| file.header.is_some());
    for (number, file) in files.iter().enumerate() {
        found.bytes += file.size;
        let segment = match Ahead::open(&file.path, |segment| segment.limit(file.limit)) {
            Ok(segment) => segment,
            Err(error) => {
                found.add(&file.path, 0, file.size, 0, Fault::Unreadable(error.to_string()));
                continue;
            }
        };
        let sequence = segment.header().sequence;
        match &before {
            Some(before) if before.sequence == sequence => {
                found.add(&file.path, 0, file.size, 0, Fault::Twice);
                continue;
            }
            Some(before) => {
                let missing = sequence.saturating_sub(before.sequence.saturating_add(1));
                if missing > 0 {
                    found.nothing_follows(before);
                    let fault = if all_pinned { Fault::MadeRoom } else { Fault::Segments };
                    found.add(&file.path, 0, 0, missing, fault);
                }
            }
            None => found.first_segment = sequence,
        }
        all_pinned &= file.pin() != Pin::No;
        found.segments += 1;
        before = Some(found.segment(segment, file, before.as_ref(), Some(number) == last));
    }
    if let Some(last) = before {
        found.nothing_follows(&last);
    }
    found
}

impl Findings {
    /// Whether every byte is as it was written and nothing is missing in between.
    pub fn is_sound(&self) -> bool {
        !self.harmed
    }

    /// Checks a segment. `last`: no readable segment follows.
    fn segment<'a>(
        &mut self,
        mut segment: Ahead,
        file: &'a SegmentFile,
        before: Option<&Read>,
        last: bool,
    ) -> Read<'a> {
        let header = *segment.header();
        let path = file.path.as_path();
        let number = Fact::SegmentEnd(SegmentEnd { segment: 0, blocks: 0, last: 0 }).number();
        let (sequence, records_end) = (header.sequence, header.facts > number);
        let mut read = Read { path, sequence, records_end, blocks: 0, end: 0, bad_end: false, ended: false };
        let alone = before.is_none();
        let mut open = before;
        while let Some(part) = segment.next_block() {
            match part {
                Ok(mut block) => {
                    block.events.iter_mut().for_each(|event| file.set_right(&mut event.fact));
                    read.blocks = block.sequence.saturating_add(1);
                    (read.end, read.bad_end) = (block.offset.saturating_add(block.length), false);
                    for event in &block.events {
                        let Fact::SegmentEnd(ended) = &event.fact else { continue };
                        read.ended |= ended.segment == sequence;
                        if let Some(before) = open.take_if(|before| before.sequence == ended.segment) {
                            self.compare(before, ended);
                        }
                    }
                    self.block(&block, alone);
                }
                Err(damage) => {
                    read.blocks = read.blocks.saturating_add(damage.blocks);
                    (read.end, read.bad_end) = (damage.offset.saturating_add(damage.length), true);
                    if self.context.wall(header.created).is_none() {
                        // The first reading of the clock may be in it. That of the header has been set right, if any was.
                        let wall = file.header.map_or(header.created_wall, |known| known.created_wall);
                        self.context.apply(header.created, &Fact::Clock(Clock { wall }));
                    }
                    if last && damage.cause == Cause::Cut {
                        self.add(path, damage.offset, damage.length, 0, Fault::Unfinished);
                    } else {
                        self.damage(path, damage);
                    }
                }
            }
        }
        read
    }

    /// Compares a segment that was read with its recorded end.
    fn compare(&mut self, read: &Read, ended: &SegmentEnd) {
        let blocks = ended.blocks.saturating_sub(read.blocks);
        if blocks == 0 {
            return;
        }
        if read.bad_end {
            // The missing blocks were in the part that is known to be damaged.
            let at_its_end = self.list.iter_mut().rev().find(|finding| finding.segment == read.path);
            if let Some(finding) = at_its_end {
                finding.blocks = finding.blocks.saturating_add(blocks);
            }
            return;
        }
        let wall = |time| self.context.wall(time);
        let (from, to) = (self.newest.and_then(wall), wall(ended.last));
        let (segment, offset, fault) = (read.path.to_owned(), read.end, Fault::Short);
        let to = to.map(|to| to.max(from.unwrap_or(to))); // existing events may be later than missing ones
        let finding = Finding { segment, offset, length: 0, blocks, segments: 0, fault, from, to };
        self.keep(finding, to.is_none());
    }

    /// No segment follows that would record the end of this one.
    fn nothing_follows(&mut self, read: &Read) {
        if read.records_end && !read.ended && !read.bad_end {
            self.add(read.path, read.end, 0, 0, Fault::Open);
        }
    }

    fn add(&mut self, path: &Path, offset: u64, length: u64, segments: u32, fault: Fault) {
        let loses = fault != Fault::Twice;
        let segment = path.to_owned();
        self.keep(
            Finding { segment, offset, length, blocks: 0, segments, fault, from: None, to: None },
            loses,
        );
    }

    fn damage(&mut self, path: &Path, damage: Damage) {
        let Damage { offset, length, blocks, times, cause } = damage;
        let loses = times.is_none() && !matches!(cause, Cause::Header | Cause::Stray | Cause::Repeated);
        let wall = |time| self.context.wall(time);
        let (from, to) = times.map_or((None, None), |(from, to)| (wall(from), wall(to)));
        let (segment, fault) = (path.to_owned(), Fault::Damage(cause));
        self.keep(Finding { segment, offset, length, blocks, segments: 0, fault, from, to }, loses);
    }

    /// Keeps a finding. If it `loses` events, their times are unknown, but lie after everything read so far and before
    /// everything to come, or, where these overlap, amid both.
    fn keep(&mut self, mut finding: Finding, loses: bool) {
        self.count += 1;
        self.harmed |= !finding.fault.is_harmless();
        if self.list.len() >= MAX_KEPT {
            return;
        }
        if loses {
            finding.from = self.newest.and_then(|newest| self.context.wall(newest));
            self.waiting.push(self.list.len());
        }
        self.list.push(finding);
    }

    /// Ends the spans of the waiting findings: the events after them begin at this monotonic time.
    fn close(&mut self, time: u64) {
        let to = self.context.wall(time);
        for place in self.waiting.drain(..) {
            if let Some(finding) = self.list.get_mut(place) {
                finding.to = to;
                if let (Some(from), Some(to)) = (finding.from, to) {
                    (finding.from, finding.to) = (Some(from.min(to)), Some(from.max(to)));
                }
            }
        }
    }

    fn block(&mut self, block: &Block, alone: bool) {
        self.blocks += 1;
        for event in &block.events {
            match &event.fact {
                Fact::Clock(_) | Fact::Host(_) => self.context.apply(event.time, &event.fact),
                Fact::Loss(loss) if self.losses.len() < MAX_KEPT && self.text < MAX_TEXT => {
                    self.text += loss.cause.len();
                    let wall = |time| self.context.wall(time).unwrap_or(0);
                    self.losses.push((wall(loss.since), wall(event.time), loss.clone()));
                }
                _ => {}
            }
        }
        self.host = self.context.host().cloned().or(self.host.take());
        if block.keyframe && !alone {
            return; // its times are those of the segment's start, not of events
        }
        self.events += block.events.len() as u64;
        let times = || block.events.iter().map(|event| event.time);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            self.close(first);
            self.newest = Some(self.newest.map_or(last, |newest| newest.max(last)));
            if let (Some(first), Some(last)) = (self.context.wall(first), self.context.wall(last)) {
                let (earliest, latest) = self.span.unwrap_or((first, last));
                self.span = Some((earliest.min(first), latest.max(last)));
            }
        }
    }
}
