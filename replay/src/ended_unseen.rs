//! What ended in a part of a log that is missing.
//!
//! A recorder deletes its oldest segments, but not those that are pinned, so segments may lack between others. Blocks may
//! be damaged or missing, and a recorder that can't store loses events until it can. A segment begins with a keyframe, which
//! names all that is in force. So what was open before such a gap, and is not named after it, has ended in between. Readers
//! learn it as they learn other ends: from facts, which come in a block of their own after the keyframe and count as a part
//! of that, since no recorder wrote them. Their time is that at which the segment was begun, the latest that there is for
//! these ends.

use iocrec_log::event::{CircuitId, Event, Fact, IocEnd, IocId, SegmentEnd, StuckEnd};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{Block, Cause, LeftOut};
use std::collections::HashMap;

/// The manner of the end of such an IOC.
pub const UNSEEN: &str = "unseen: a part of the log is missing";

/// What may be open at the same time; a bound for hostile logs.
const MAX_OPEN: usize = 500_000;

/// What can end. In this order the ends come: that of an IOC would end the rest, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Thing {
    Stuck(u32),
    Circuit(CircuitId),
    Ioc(IocId),
}

/// What is open.
struct Open {
    /// The IOC of a thread that stands still.
    ioc: IocId,
    /// When it was told last, and in which of the segments.
    told: u64,
    segment: u64,
}

/// Follows what is open over segments.
#[derive(Default)]
pub struct EndedUnseen {
    /// Whether all blocks are read, so that their numbers tell whether some are missing.
    counts: bool,
    open: HashMap<Thing, Open>,
    /// Run and number of the segment, and when it was begun.
    last: Option<(u128, u32)>,
    created: u64,
    /// How many segments there were.
    segment: u64,
    /// Whether something is missing before it, and its keyframe has not ended.
    is_after_gap: bool,
    /// The number of blocks that were read of the segment before, as long as the keyframe has not told how that ended. It
    /// never does if the recorder could not store meanwhile.
    before: Option<u32>,
    /// Whether nothing of its keyframe is damaged.
    is_whole: bool,
    /// Offset and number of the last block.
    place: (u64, u32),
}

impl EndedUnseen {
    /// For a scan that reads all blocks, or not.
    pub fn new(counts: bool) -> Self {
        EndedUnseen { counts, ..EndedUnseen::default() }
    }

    /// A segment begins.
    pub fn begin(&mut self, header: &SegmentHeader) {
        // older recorders noted no ends
        let notes_ends =
            header.facts > Fact::SegmentEnd(SegmentEnd { segment: 0, blocks: 0, last: 0 }).number();
        self.before = None;
        match self.last {
            Some((run, _)) if run != header.run => {
                self.open.clear();
                self.is_after_gap = false;
            }
            Some((_, before)) if before.checked_add(1) != Some(header.sequence) => self.is_after_gap = true,
            Some(_) if notes_ends => self.before = Some(self.place.1.saturating_add(1)),
            _ => {}
        }
        self.last = Some((header.run, header.sequence));
        // times of events are rounded so, too: what the keyframe names begins no earlier
        self.created = header.created - header.created % header.time_step().max(1);
        self.segment = self.segment.saturating_add(1);
        self.is_whole = true;
    }

    /// A part of the segment can't be read: something may have ended in it. If it is in the keyframe, that may have named
    /// what seems to have ended.
    pub fn damaged(&mut self, cause: &Cause) {
        if !matches!(cause, Cause::Header | Cause::Stray | Cause::Repeated) {
            self.is_whole = false;
            self.is_after_gap = true;
        }
    }

    /// Takes a block; returns the one that comes before it, if that is the first after a keyframe that shows ends.
    pub fn take(&mut self, block: &Block) -> Option<Block> {
        let ends = if block.keyframe { None } else { self.keyframe_ended() };
        self.place = (block.offset, block.sequence);
        match &block.glance {
            Some(glance) => {
                let others = glance.others.iter().filter_map(|place| block.events.get(*place as usize));
                others.for_each(|event| self.note(event));
            }
            None => block.events.iter().for_each(|event| self.note(event)),
        }
        ends
    }

    fn note(&mut self, event: &Event) {
        let (thing, ioc) = match &event.fact {
            Fact::Stuck(stuck) => (Thing::Stuck(stuck.id), stuck.ioc),
            Fact::Circuit(circuit) => (Thing::Circuit(circuit.id), IocId::default()),
            Fact::Ioc(ioc) => (Thing::Ioc(ioc.id), ioc.id),
            fact => {
                let ended = match fact {
                    Fact::SegmentEnd(end) => return self.note_end(end),
                    Fact::StuckEnd(end) => Thing::Stuck(end.id),
                    Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => Thing::Circuit(*circuit),
                    Fact::IocEnd(end) => Thing::Ioc(end.ioc),
                    _ => return,
                };
                self.open.remove(&ended);
                return;
            }
        };
        if self.open.len() < MAX_OPEN || self.open.contains_key(&thing) {
            self.open.insert(thing, Open { ioc, told: event.time, segment: self.segment });
        }
    }

    /// How the segment before ended.
    fn note_end(&mut self, end: &SegmentEnd) {
        let is_before = self.last.is_some_and(|(_, sequence)| end.segment.checked_add(1) == Some(sequence));
        if let Some(read) = self.before.take_if(|_| is_before) {
            self.is_after_gap |= self.counts && end.blocks > read;
        }
    }

    /// Whether the last block was in the keyframe after something that is missing, so that it may show ends.
    pub fn is_in_keyframe(&self) -> bool {
        self.is_whole && (self.is_after_gap || self.before.is_some())
    }

    /// The keyframe has ended: the ends that it shows. Where a segment ends with it, it may not be whole, and the next one tells.
    pub fn keyframe_ended(&mut self) -> Option<Block> {
        self.is_after_gap |= self.before.take().is_some();
        if !self.is_after_gap || !self.is_whole {
            return None;
        }
        self.is_after_gap = false;
        let segment = self.segment;
        let gone = self.open.iter().filter(|(_, open)| open.segment != segment);
        let mut gone: Vec<(Thing, IocId, u64)> =
            gone.map(|(thing, open)| (*thing, open.ioc, open.told)).collect();
        if gone.is_empty() {
            return None;
        }
        gone.sort_unstable();
        self.open.retain(|_, open| open.segment == segment);
        let time = self.created;
        let event = |(thing, ioc, told): (Thing, IocId, u64)| {
            let fact = match thing {
                Thing::Stuck(id) => Fact::StuckEnd(StuckEnd { id, ioc, after: told, has_ended: false }),
                Thing::Circuit(circuit) => Fact::CircuitEnd(circuit),
                Thing::Ioc(ioc) => Fact::IocEnd(IocEnd { ioc, how: UNSEEN.to_owned() }),
            };
            Event { time, fact }
        };
        let (offset, sequence) = self.place;
        Some(Block {
            offset,
            length: 0,
            sequence,
            keyframe: true,
            events: gone.into_iter().map(event).collect(),
            glance: None,
            about: None,
            passed: false,
            left_out: LeftOut::default(),
            shapes: None,
        })
    }
}
