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
    open: HashMap<Thing, Open>,
    /// Run and number of the segment, and when it was begun.
    last: Option<(u128, u32)>,
    created: u64,
    /// How many segments there were.
    segment: u64,
    /// Whether something is missing before it, and its keyframe has not ended.
    is_after_gap: bool,
    /// The number of blocks that are there of the segment before, as long as the keyframe has not told how that ended. It
    /// never does if the recorder could not store meanwhile.
    before: Option<u32>,
    /// Whether nothing of its keyframe is damaged.
    is_whole: bool,
    /// Offset of the last block, and the number that the next one of the segment should have.
    place: (u64, u32),
}

/// Whether its recorder notes how segments end, which older ones did not.
pub fn notes_ends(header: &SegmentHeader) -> bool {
    header.facts > Fact::SegmentEnd(SegmentEnd { segment: 0, blocks: 0, last: 0 }).number()
}

impl EndedUnseen {
    /// A segment begins.
    pub fn begin(&mut self, header: &SegmentHeader) {
        // whoever skips blocks may not have come to one that told
        self.is_after_gap |= self.before.take().is_some();
        match self.last {
            Some((run, _)) if run != header.run => {
                self.open.clear();
                self.is_after_gap = false;
            }
            Some((_, before)) if before.checked_add(1) != Some(header.sequence) => self.is_after_gap = true,
            Some(_) if notes_ends(header) => self.before = Some(self.place.1),
            _ => {}
        }
        self.last = Some((header.run, header.sequence));
        // times of events are rounded so, too: what the keyframe names begins no earlier
        self.created = header.created - header.created % header.time_step().max(1);
        self.segment = self.segment.saturating_add(1);
        self.is_whole = true;
        self.place = (0, 0);
    }

    /// The segment has ended, and had this many blocks, also such as were skipped.
    pub fn ended(&mut self, blocks: u32) {
        self.place.1 = blocks;
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
        self.place = (block.offset, block.sequence.saturating_add(1));
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
            self.is_after_gap |= end.blocks > read;
        }
    }

    /// If the last block was in the keyframe after something that is missing, so that it may show ends: the number of the
    /// block that follows. If that is not of the keyframe, this was all of it.
    pub fn after_keyframe(&self) -> Option<u32> {
        let (_, next) = self.place;
        (next > 0 && self.is_whole && (self.is_after_gap || self.before.is_some())).then_some(next)
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
        let (offset, next) = self.place;
        Some(Block {
            offset,
            length: 0,
            sequence: next.saturating_sub(1),
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

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Address, Circuit, Origin};
    use iocrec_log::format::{FACTS, VERSION};
    use std::net::Ipv4Addr;

    fn begin(unseen: &mut EndedUnseen, sequence: u32) {
        unseen.begin(&SegmentHeader {
            version: VERSION,
            facts: FACTS,
            compatible: 0,
            incompatible: 0,
            run: 7,
            boot_id: [0; 16],
            created: 0,
            created_wall: 0,
            sequence,
        });
    }

    fn circuit(id: CircuitId) -> Fact {
        let address = Address::new(Ipv4Addr::new(10, 0, 0, 5), 5064);
        let (user, host) = (String::new(), String::new());
        Fact::from(Circuit {
            id,
            client: address,
            server: address,
            user,
            host,
            minor: 13,
            origin: Origin::Opened,
        })
    }

    /// Takes a block; returns how many ends come before it.
    fn take(unseen: &mut EndedUnseen, sequence: u32, keyframe: bool, facts: Vec<Fact>) -> usize {
        let block = Block {
            offset: 0,
            length: 0,
            sequence,
            keyframe,
            events: facts.into_iter().map(|fact| Event { time: 0, fact }).collect(),
            glance: None,
            about: None,
            passed: false,
            left_out: LeftOut::default(),
            shapes: None,
        };
        unseen.take(&block).map_or(0, |ends| ends.events.len())
    }

    /// A keyframe may have several blocks, and its recorder may still be writing them: what the next of these names has not
    /// ended. So the next block must be known not to be one of them.
    #[test]
    fn a_keyframe_is_whole_if_the_next_block_is_of_none() {
        let mut unseen = EndedUnseen::default();
        begin(&mut unseen, 0);
        take(&mut unseen, 0, true, vec![circuit(1), circuit(2)]);
        take(&mut unseen, 1, false, Vec::new());
        take(&mut unseen, 2, false, Vec::new());
        begin(&mut unseen, 2);
        assert_eq!(unseen.after_keyframe(), None, "nothing of it has been read");
        take(&mut unseen, 0, true, vec![circuit(1)]);
        assert_eq!(unseen.after_keyframe(), Some(1));
        take(&mut unseen, 1, true, vec![circuit(2)]);
        assert_eq!(unseen.after_keyframe(), Some(2));
        assert_eq!(take(&mut unseen, 2, false, Vec::new()), 0, "both are named");
    }

    /// Storing was paused, of the segment after that nothing was read but its keyframe, and the next one tells how that ended:
    /// what ended in the pause is over.
    #[test]
    fn ends_in_a_pause_are_shown_by_a_later_keyframe() {
        let mut unseen = EndedUnseen::default();
        begin(&mut unseen, 0);
        take(&mut unseen, 0, true, vec![circuit(1), circuit(2)]);
        begin(&mut unseen, 1);
        take(&mut unseen, 0, true, vec![circuit(1)]);
        unseen.ended(2);
        begin(&mut unseen, 2);
        let end = Fact::SegmentEnd(SegmentEnd { segment: 1, blocks: 2, last: 0 });
        take(&mut unseen, 0, true, vec![end]);
        take(&mut unseen, 1, true, vec![circuit(1)]);
        assert_eq!(take(&mut unseen, 2, false, Vec::new()), 1);
    }
}
