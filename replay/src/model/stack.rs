//! A thread's stack, rebuilt from the stack pointers of its hits.
//!
//! A function that is called later on the same thread from a deeper frame has a lower stack pointer.
//! So at a new hit, every frame at or below its stack pointer has returned, and the top of the rest
//! called it, unless it is left over from an earlier call that went less deep. What a frame can't do
//! shows it: a record that has completed calls nothing more, and `recGblFwdLink` writes to no field and
//! follows one link.

use super::open_chains::SpanRef;
use iocrec_log::event::{CallSiteId, PutKind, RecordId};
use std::collections::VecDeque;

/// Puts that a frame remembers. A record has at most some tens of output links (dfanout: 16).
const MAX_PUTS: usize = 32;
/// Chains without a known cause that a thread remembers: more than a record has links.
const MAX_ORPHANS: usize = 1000;
/// Ways into the IOC that a thread is remembered by; usually it has one or two.
const MAX_ENTRIES: usize = 8;

/// What a frame is in.
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
    /// What it is.
    pub within: In,
    /// Its record.
    pub record: RecordId,
    /// Its span.
    pub at: SpanRef,
    /// Puts that it made to other records, which they may process for.
    pub puts: Puts,
    /// For [`In::PutField`] and [`In::Notify`]: stack pointer of its `dbPut`, once that was seen.
    pub wrote: Option<i64>,
    /// For [`In::Complete`]: the forward link has been followed. A record has but one.
    pub followed: bool,
}

/// Puts that were seen and whose records may be processed next.
#[derive(Debug, Default)]
pub struct Puts(Vec<(RecordId, SpanRef)>);

impl Puts {
    /// A put was made.
    pub fn push(&mut self, record: RecordId, at: SpanRef) {
        if self.0.len() == MAX_PUTS {
            self.0.remove(0);
        }
        self.0.push((record, at));
    }

    /// The latest put to the record; it is not given twice.
    pub fn take(&mut self, record: RecordId) -> Option<SpanRef> {
        let place = self.0.iter().rposition(|(of, _)| *of == record)?;
        Some(self.0.remove(place).1)
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a thread has done, as far as it matters for its next hit.
#[derive(Debug, Default)]
pub struct Thread {
    /// Frames that may be live, the deepest last.
    pub frames: Vec<Frame>,
    /// Time of the last hit.
    pub last: u64,
    /// Puts without a frame around them.
    pub puts: Puts,
    /// Chains without a known cause that look like the work of an asynchronous record's links, and
    /// their stack pointers: its completion will show it.
    pub orphans: VecDeque<(i64, SpanRef)>,
    /// Its last `scanIoRequest` or `postEvent`: stack pointer, caller.
    pub interrupt: Option<(i64, CallSiteId)>,
    /// Where puts from outside came in: caller, function, stack pointer.
    entries: Vec<(CallSiteId, PutKind, i64)>,
}

impl Thread {
    /// Is this the way by which a put came in from outside before? Then frames that seem to be around
    /// it are left over from earlier.
    pub fn is_entry(&self, site: CallSiteId, kind: PutKind, sp: i64) -> bool {
        // Without a caller the stack pointer alone would be too weak a proof.
        site != 0 && self.entries.contains(&(site, kind, sp))
    }

    /// A chain has begun whose cause may come to be known: its stack pointer, its root.
    pub fn note_orphan(&mut self, sp: i64, at: SpanRef) {
        if self.orphans.len() == MAX_ORPHANS {
            self.orphans.pop_front();
        }
        self.orphans.push_back((sp, at));
    }

    /// A put came in from outside this way.
    pub fn note_entry(&mut self, site: CallSiteId, kind: PutKind, sp: i64) {
        if !self.is_entry(site, kind, sp) {
            if self.entries.len() == MAX_ENTRIES {
                self.entries.remove(0);
            }
            self.entries.push((site, kind, sp));
        }
    }

    /// The frame that a hit is called from, once those that have returned are gone.
    pub fn top(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }
}
