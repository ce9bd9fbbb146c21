//! Decodes segments on threads of their own while the caller works on other segments.
//!
//! Promises: blocks are those of [`Segment::next_block`], in the same order. All [`Ahead`]s of a process together use
//! no more threads than it has CPUs, and no more than [`MAX_THREADS`]. Each thread holds at most three blocks, of at
//! most 5 MB each, or three times as many small ones as take [`BATCH`] bytes of the file or have [`BATCH_EVENTS`] events,
//! or as were passed over.
//! Small segments, and those for which no thread is available, are decoded on demand.

use super::error::{Damage, ReadError};
use super::segment::{Block, Segment};
use crate::format::SegmentHeader;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{sync_channel, Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::{thread, vec};

/// Maximum number of threads. More would only hold more blocks in memory (15 MB per thread at most, 7 MB with the
/// recorder's blocks): work on the events could not keep up.
const MAX_THREADS: usize = 4;
/// Number of batches that wait to be fetched from a thread.
const WAITING: usize = 1;
/// Bytes of a segment that are handed over at once, if its blocks are smaller. A quiet IOC's have a few hundred bytes:
/// to hand over each took ten times as long as to decode it (measured: 17 MB of such blocks, 7.6 calls of futex each).
const BATCH: u64 = 8 << 10;
/// As many bytes a block counts that was passed over, however long it is: there is next to nothing to hand over.
const PASSED: u64 = 512;
/// Events from which on no more blocks are added: of a flood of puts 8 KiB hold 13,000, and all threads' took 10 MiB.
const BATCH_EVENTS: usize = 1000;
/// Bytes from which on a thread pays: some ten thousand events take a millisecond to decode, a thread a twentieth of it
/// to start.
const WORTH: u64 = 32 << 10;

/// Number of threads in the whole process that are decoding.
static THREADS: AtomicUsize = AtomicUsize::new(0);

type Found = Result<Block, Damage>;

/// A segment that is being read ahead.
pub struct Ahead {
    header: SegmentHeader,
    from: From,
    waited: Option<bool>,
}

enum From {
    Thread { batches: Receiver<Vec<Found>>, batch: vec::IntoIter<Found>, blocks: Arc<AtomicU32> },
    Here(Box<Segment>),
}

/// The right to one thread.
struct Permit;

impl Permit {
    fn get() -> Option<Permit> {
        static MAX: OnceLock<usize> = OnceLock::new();
        // One CPU gains nothing.
        let max = *MAX.get_or_init(|| match thread::available_parallelism() {
            Ok(count) if count.get() > 1 => count.get().min(MAX_THREADS),
            _ => 0,
        });
        THREADS.fetch_update(Relaxed, Relaxed, |used| (used < max).then_some(used + 1)).ok().map(|_| Permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
    }
}

impl Ahead {
    /// Opens a segment and begins to decode it, if it is large enough and a thread is available. `prepare` may make it
    /// [skip](Segment::only) blocks.
    ///
    /// # Errors
    /// Those of [`Segment::open`].
    pub fn open(path: &Path, prepare: impl Fn(&mut Segment)) -> Result<Self, ReadError> {
        let mut segment = Segment::open(path)?;
        prepare(&mut segment);
        let mut ahead = Ahead::of(segment);
        ahead.start();
        Ok(ahead)
    }

    /// A segment that is not decoded before [`Ahead::start`].
    pub fn of(segment: Segment) -> Self {
        Ahead { header: *segment.header(), from: From::Here(Box::new(segment)), waited: None }
    }

    /// Begins to decode it, if it is large enough and a thread has become available. Returns whether a thread works on it.
    pub fn start(&mut self) -> bool {
        match &self.from {
            From::Thread { .. } => return true,
            From::Here(segment) if segment.left() < WORTH => return false,
            From::Here(_) => {}
        }
        let Some(permit) = Permit::get() else { return false };
        let (hand_over, handed_over) = sync_channel::<Box<Segment>>(1);
        let (send, batches) = sync_channel(WAITING);
        let blocks = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&blocks);
        let work = move || {
            // Dropped before the channel is closed, so that whoever sees the segment's end can start another.
            let _permit = permit;
            let Ok(mut segment) = handed_over.recv() else { return };
            loop {
                let batch = next_batch(&mut segment);
                // whoever sees the closed channel sees this, too
                counted.store(segment.blocks(), Relaxed);
                // or the reader is gone
                if batch.is_empty() || send.send(batch).is_err() {
                    return;
                }
            }
        };
        if thread::Builder::new().name("decode".into()).spawn(work).is_err() {
            return false;
        }
        let thread = From::Thread { batches, batch: Vec::new().into_iter(), blocks };
        if let From::Here(segment) = std::mem::replace(&mut self.from, thread) {
            // The thread waits for it, so this can't fail.
            let _ = hand_over.send(segment);
        }
        true
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Like [`Segment::blocks`], once [`Ahead::next_block`] has returned nothing.
    pub fn blocks(&self) -> u32 {
        match &self.from {
            From::Thread { blocks, .. } => blocks.load(Relaxed),
            From::Here(segment) => segment.blocks(),
        }
    }

    /// Whether the last block had to be waited for; `None` if it was at hand, or not to be had from a thread.
    pub fn waited(&self) -> Option<bool> {
        self.waited
    }

    /// Like [`Segment::next_block`].
    pub fn next_block(&mut self) -> Option<Found> {
        self.waited = None;
        match &mut self.from {
            From::Thread { batches, batch, .. } => {
                if batch.len() == 0 {
                    let next = batches.try_recv();
                    self.waited = match &next {
                        Ok(_) => Some(false),
                        Err(TryRecvError::Empty) => Some(true),
                        Err(TryRecvError::Disconnected) => None,
                    };
                    *batch = next.or_else(|_| batches.recv()).ok()?.into_iter();
                }
                batch.next()
            }
            From::Here(segment) => segment.next_block(),
        }
    }
}

/// The next blocks, about [`BATCH`] bytes or [`BATCH_EVENTS`] events of them; empty at the end.
fn next_batch(segment: &mut Segment) -> Vec<Found> {
    let (mut batch, mut bytes, mut events) = (Vec::new(), 0, 0);
    while bytes < BATCH && events < BATCH_EVENTS {
        let Some(found) = segment.next_block() else { break };
        // what is damaged may be large, and is rare
        bytes += found.as_ref().map_or(BATCH, |block| if block.passed { PASSED } else { block.length });
        events += found.as_ref().map_or(0, |block| block.events.len());
        batch.push(found);
    }
    batch
}
