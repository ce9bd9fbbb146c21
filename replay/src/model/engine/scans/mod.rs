//! Chains of a scan that are like an earlier one.
//!
//! Most of a log are scans, and a scan makes the same hits each time: the same functions on the same thread at the same
//! stack pointers, for the same records. What the engine makes of such hits depends on nothing else, if the thread's
//! stack is empty before, nothing waits for one of the records, and no definition has changed. So it is remembered, and
//! the next chain of the same hits is made at once. The rules for hits stay in one place: a chain is learned from what
//! they made of it.
//!
//! Promise: chains, their order and all that follows are the same as without this.

mod learned;

use super::{Engine, MAX_RECORDS, SWEEP, SWEEP_EVENTS};
use crate::model::chain::Chain;
use crate::model::numbered::Dense;
use crate::model::stack::{In, Thread};
use iocrec_log::event::{CallSiteId, Event, Fact, RecordId, ThreadId};
use learned::{begins, Learned};
use std::rc::Rc;

/// Hits of all chains that are remembered, about 6 MB: those of 60,000 scanned records.
const MAX_ALL_STEPS: usize = 120_000;
/// Times in a row that a chain may differ before it is learned anew.
const DIFFERENT: u32 = 8;

/// What to do with a record that begins to process.
enum Try {
    /// Its chain is known: its place in [`Scans::chains`].
    Known(u32),
    /// Its chains can't be learned: this many times no attempt is made.
    Pause(u32),
}

/// The chains that are remembered.
#[derive(Default)]
pub(super) struct Scans {
    /// By the first record.
    tries: Dense<Try>,
    chains: Vec<Learned>,
    /// Number of steps of all.
    steps: usize,
    /// [`Run::meanings`](crate::model::run::Run::meanings) when they were learned.
    meanings: u64,
}

impl Scans {
    /// Forgets them: what was learned may no longer hold.
    pub fn clear(&mut self) {
        if self.tries.len() > 0 {
            *self = Scans { meanings: self.meanings, ..Scans::default() };
        }
    }

    /// Remembers a chain, or for how many times none is to be learned.
    fn note(&mut self, record: RecordId, learned: Result<Learned, u32>) {
        if self.tries.len() >= MAX_RECORDS || self.chains.len() >= MAX_ALL_STEPS {
            self.clear();
        }
        let learned = match learned {
            Ok(learned) => learned,
            Err(pause) => {
                self.forget(record);
                self.tries.insert(record, Try::Pause(pause));
                return;
            }
        };
        self.steps += learned.steps.len();
        let before = match self.tries.get(record) {
            Some(Try::Known(place)) => self.chains.get_mut(*place as usize),
            _ => None,
        };
        if let Some(before) = before {
            self.steps -= before.steps.len();
            *before = learned;
            return;
        }
        self.tries.insert(record, Try::Known(self.chains.len() as u32));
        self.chains.push(learned);
    }

    /// Frees the chain of a record. Its place stays empty: few chains change that much.
    fn forget(&mut self, record: RecordId) {
        let Some(Try::Known(place)) = self.tries.get(record) else { return };
        if let Some(before) = self.chains.get_mut(*place as usize) {
            self.steps -= before.steps.len();
            (before.steps, before.spans) = (Vec::new(), Vec::new());
        }
    }
}

impl Engine {
    /// Takes as many of the next events as make chains that are known, or can be learned; about `most` at most. Those
    /// before `until` will come in this order with nothing between them, and may be taken if they are `wanted` by their
    /// time. Returns how many were taken. The chains go to `out`.
    pub fn push_scans(
        &mut self,
        events: &[Event],
        until: u64,
        most: usize,
        wanted: impl Fn(u64) -> bool,
        out: &mut Vec<Chain>,
    ) -> usize {
        let mut taken = 0;
        while taken < most {
            let Some(rest) = events.get(taken..) else { break };
            match self.push_scan(rest, until, &wanted, out) {
                0 => break,
                count => taken += count,
            }
        }
        taken
    }

    /// Takes one chain. Returns the number of its events; 0 if they must be taken one by one.
    fn push_scan(
        &mut self,
        events: &[Event],
        until: u64,
        wanted: &impl Fn(u64) -> bool,
        out: &mut Vec<Chain>,
    ) -> usize {
        let Some(Event { fact: Fact::Process(root), time }) = events.first() else { return 0 };
        let (record, thread, site) = (root.record, root.thread, root.site);
        if *time < self.now || !self.meanwhile.is_empty() || !self.sayings.is_calm() {
            return 0;
        }
        if self.scans.meanings != self.run.meanings() {
            self.scans.clear();
            self.scans.meanings = self.run.meanings();
        }
        match self.scans.tries.get_mut(record) {
            Some(Try::Pause(0)) | None => {}
            Some(Try::Pause(pause)) => {
                *pause -= 1;
                return 0;
            }
            Some(Try::Known(place)) => {
                let place = *place as usize;
                if let Some(taken) = self.push_known(place, (thread, site), events, until, wanted, out) {
                    return taken;
                }
            }
        }
        let (taken, learned) = self.learn(events, until, wanted, out);
        self.scans.note(record, learned);
        taken
    }

    /// Makes the known chain in this place, if the hits are the same. Returns the number of its events, 0 if they must be
    /// taken one by one; `None` if its hits have become others.
    fn push_known(
        &mut self,
        place: usize,
        root: (ThreadId, CallSiteId),
        events: &[Event],
        until: u64,
        wanted: &impl Fn(u64) -> bool,
        out: &mut Vec<Chain>,
    ) -> Option<usize> {
        let learned = self.scans.chains.get(place)?;
        let count = learned.steps.len();
        let Some((hits, next)) =
            events.split_at_checked(count).and_then(|(hits, rest)| Some((hits, rest.first()?)))
        else {
            return Some(0);
        };
        let (first, last) = (hits.first()?.time, hits.last()?.time);
        if next.time >= until || !self.is_in_one_go(count, last) || !wanted(last) {
            return Some(0);
        }
        let in_notify = |thread: &Thread| thread.frames.iter().any(|frame| frame.within == In::Notify);
        let waits = learned.spans.iter().any(|span| self.is_awaited(span.record));
        if waits || self.threads.get(learned.thread).is_some_and(in_notify) {
            return Some(0);
        }
        let same = (learned.thread, learned.site) == root && begins(next, learned.thread, learned.site);
        let made = if same { learned.make(hits) } else { None };
        let thread = learned.thread;
        let learned = self.scans.chains.get_mut(place)?;
        let Some(spans) = made else {
            learned.different += 1;
            return (learned.different < DIFFERENT).then_some(0);
        };
        learned.different = 0;
        self.begin_root(thread, first);
        self.threads.of(thread).last = last;
        self.now = last;
        self.since_swept += count;
        let serial = self.chains.next_serial();
        out.push(Chain { run: Rc::clone(&self.run), spans, open: false, serial });
        Some(count)
    }

    /// Whether no search for finished chains is due while these events are taken.
    fn is_in_one_go(&self, count: usize, last: u64) -> bool {
        last < self.swept.saturating_add(SWEEP) && self.since_swept + count < SWEEP_EVENTS
    }

    /// Whether what a record does matters to anything before.
    fn is_awaited(&self, record: RecordId) -> bool {
        (self.open.len() > 0 && self.open.contains(record))
            || (!self.written.is_empty() && self.written.contains_key(&record))
    }
}
