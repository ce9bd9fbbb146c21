//! Until when a run could be read before a part of it that is missing.
//!
//! What ended in such a part is told after the keyframe that follows it ([`crate::reading::ended_unseen`]), with the time of that
//! keyframe: the latest that there is. The earliest is that of the last event before the part, which is known here: until
//! then nothing had told the end; or that of a later keyframe which still names it. A scan must pass over blocks rather
//! than leave them out, since each says when its last event was.

use super::ended_unseen::UNSEEN;
use super::scan::{Blocks, Part, Scan};
use iocrec_log::event::{Fact, IocId};
use iocrec_log::reader::{About, Cause, Choice, SegmentFile};
use std::collections::HashMap;
use std::sync::Arc;

/// Follows the parts of a scan of a run.
#[derive(Default)]
pub struct ReadUntil {
    /// The last time of which something was read.
    read: u64,
    /// The last before something that can't be read.
    gap: Option<u64>,
    /// Whether nothing was read since but a keyframe without damage.
    begins: bool,
}

impl ReadUntil {
    /// Takes a part of the scan.
    pub fn note(&mut self, part: &Part) {
        match part {
            Part::Segment(_) => self.begins = true,
            Part::Block(block) if block.keyframe => {}
            Part::Block(block) => {
                if std::mem::take(&mut self.begins) {
                    self.gap = None; // what ended before it was told with its keyframe
                }
                self.read = self.read.max(block.about.as_ref().map_or(0, |about| about.last));
            }
            Part::Damage(damage) if matches!(damage.cause, Cause::Header | Cause::Repeated) => {}
            Part::Unreadable(_) | Part::Damage(_) => {
                self.begins = false;
                self.gap.get_or_insert(self.read);
            }
        }
    }

    /// The last monotonic time of which something was read before what is missing; 0 if there is none.
    pub fn time(&self) -> u64 {
        self.gap.unwrap_or(self.read)
    }
}

/// Until when something could be read before the parts in which IOCs of a run ended, or a keyframe named them: monotonic
/// times.
pub fn of_ended(files: &[SegmentFile]) -> HashMap<IocId, u64> {
    let choose = |about: &About| match about.defines {
        // hits among the definitions need not be decoded
        true => Choice::Only(Arc::new(|_: &_| false)),
        false => Choice::Pass,
    };
    let (mut read, mut named, mut found) = (ReadUntil::default(), HashMap::new(), HashMap::new());
    for part in Scan::new(files, Blocks::All).choosing(Arc::new(choose)) {
        read.note(&part);
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            match &event.fact {
                // a keyframe names those that run then
                Fact::Ioc(ioc) => {
                    named.insert(ioc.id, event.time);
                }
                Fact::IocEnd(end) if end.how == UNSEEN => {
                    let seen = read.time().max(named.get(&end.ioc).copied().unwrap_or_default());
                    if seen > 0 {
                        found.insert(end.ioc, seen);
                    }
                }
                _ => {}
            }
        }
    }
    found
}
