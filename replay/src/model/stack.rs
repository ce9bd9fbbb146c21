//! A thread's stack, rebuilt from the stack pointers of its hits.
//!
//! A function called later on the same thread from a deeper frame has a lower stack pointer. So at a new hit, every
//! frame at or below its stack pointer has returned, and the top remaining frame called it, unless that frame is stale,
//! left by an earlier call that went less deep. A frame proves stale if it cannot have made the hit: a record that has
//! completed calls nothing more, and `recGblFwdLink` writes to no field and follows one link.

use super::open_chains::SpanRef;
use iocrec_log::event::{CallSiteId, PutKind, RecordId};
use std::collections::VecDeque;

/// Puts that a frame remembers. A record has at most a few dozen output links (dfanout: 16).
const MAX_PUTS: usize = 32;
/// Chains without a known cause that a thread remembers: more than a record has links.
const MAX_ORPHANS: usize = 1000;
/// Entry points into the IOC that are remembered for a thread; usually it has one or two.
const MAX_ENTRIES: usize = 8;

/// Function of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    /// `dbPutField`.
    PutField,
    /// `dbProcessNotify`.
    Notify,
    /// `dbProcess`.
    Process,
    /// `recGblFwdLink`: what it calls is the record's forward link.
    Complete,
}

/// A function that may not have returned yet.
#[derive(Debug)]
pub struct Frame {
    /// Stack pointer at its entry.
    pub sp: i64,
    /// Its function.
    pub within: In,
    /// Its record.
    pub record: RecordId,
    /// Its span.
    pub at: SpanRef,
    /// Puts that it made to other records, which may process because of them.
    pub puts: Puts,
    /// For [`In::PutField`] and [`In::Notify`]: stack pointer of its `dbPut`, once seen.
    pub wrote: Option<i64>,
    /// For [`In::PutField`] and [`In::Notify`]: whether its record was processed, which it is once.
    pub processed: bool,
    /// For [`In::Complete`]: whether the forward link has been followed. A record has only one.
    pub followed: bool,
}

/// Puts that were seen and whose records may process next.
#[derive(Debug, Default)]
pub struct Puts(Vec<(RecordId, SpanRef)>);

impl Puts {
    /// Adds a put.
    pub fn push(&mut self, record: RecordId, at: SpanRef) {
        if self.0.len() == MAX_PUTS {
            self.0.remove(0);
        }
        self.0.push((record, at));
    }

    /// Takes the latest put to the record.
    pub fn take(&mut self, record: RecordId) -> Option<SpanRef> {
        let place = self.0.iter().rposition(|(of, _)| *of == record)?;
        Some(self.0.remove(place).1)
    }

    /// Forgets all puts.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// The state of a thread that matters for its next hit.
#[derive(Debug, Default)]
pub struct Thread {
    /// Frames that may be live, the deepest last.
    pub frames: Vec<Frame>,
    /// Time of the last hit.
    pub last: u64,
    /// Puts without a frame around them.
    pub puts: Puts,
    /// Chains without a known cause that look like the work of an asynchronous record's links, and their stack
    /// pointers: the record's completion confirms it.
    pub orphans: VecDeque<(i64, SpanRef)>,
    /// Its last `scanIoRequest` or `postEvent`: stack pointer, caller.
    pub interrupt: Option<(i64, CallSiteId)>,
    /// Ways by which puts from outside came in: caller, function, stack pointer.
    entries: Vec<(CallSiteId, PutKind, i64)>,
}

impl Thread {
    /// Whether a put from outside came in this way before. If so, frames that seem to be around it are stale.
    pub fn is_entry(&self, site: CallSiteId, kind: PutKind, sp: i64) -> bool {
        // Without a caller, the stack pointer alone would be too weak as proof.
        site != 0 && self.entries.contains(&(site, kind, sp))
    }

    /// Notes a new chain whose cause may become known later: its stack pointer and root.
    pub fn note_orphan(&mut self, sp: i64, at: SpanRef) {
        if self.orphans.len() == MAX_ORPHANS {
            self.orphans.pop_front();
        }
        self.orphans.push_back((sp, at));
    }

    /// Notes that a put from outside came in this way.
    pub fn note_entry(&mut self, site: CallSiteId, kind: PutKind, sp: i64) {
        if !self.is_entry(site, kind, sp) {
            if self.entries.len() == MAX_ENTRIES {
                self.entries.remove(0);
            }
            self.entries.push((site, kind, sp));
        }
    }

    /// The frame that a hit is called from, once returned frames are removed.
    pub fn top(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }
}
