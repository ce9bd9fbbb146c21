//! Chains of a scan that are like an earlier one.
//!
//! Most of a log are scans, and a scan makes the same hits each time: the same functions on the same thread at the same
//! stack pointers, for the same records. What the engine makes of such hits depends on nothing else, if the thread's
//! stack is empty before, nothing waits for one of the records, and no definition has changed. So it is remembered, and
//! the next chain of the same hits is made at once. The rules for hits stay in one place: a chain is learned from what
//! they made of it.
//!
//! Promise: chains, their order and all that follows are the same as without this.

use super::{Engine, MAX_RECORDS, SWEEP, SWEEP_EVENTS};
use crate::model::caller::Caller;
use crate::model::chain::{Chain, Completed, Outcome, Phases, ProcessSpan, Span, SpanKind, Trigger};
use crate::model::numbered::Dense;
use crate::model::spans::Spans;
use crate::model::stack::{In, Thread};
use crate::model::value;
use iocrec_log::event::{CallSiteId, Event, Fact, RecordId, ScanListId, ThreadId};
use std::rc::Rc;

/// Hits of a chain that is remembered: longer ones are rare, and cost less than looking ahead that far in vain.
const MAX_STEPS: usize = 128;
/// Hits of all chains that are remembered, about 6 MB: those of 60,000 scanned records.
const MAX_ALL_STEPS: usize = 120_000;
/// Times in a row that a chain may differ before it is learned anew.
const DIFFERENT: u32 = 8;
/// Times that a record's hits are passed over after they proved to be nothing to be learned; and after they could not be
/// learned at that time.
const PAUSE: u32 = 50;
const SHORT_PAUSE: u32 = 2;

/// A hit of a chain.
#[derive(Clone, Copy)]
struct Step {
    sp: i64,
    record: RecordId,
    /// For `dbProcess`: the caller. For `recGblFwdLink` it matters to nothing.
    site: Option<CallSiteId>,
    /// The number of the span that it begins or completes.
    span: u32,
}

/// A span that a chain begins.
struct Made {
    parent: Option<usize>,
    record: RecordId,
    trigger: Trigger,
    list: Option<ScanListId>,
}

/// What was made of a chain's hits.
struct Learned {
    thread: ThreadId,
    site: CallSiteId,
    steps: Vec<Step>,
    spans: Vec<Made>,
    /// Times in a row that the hits were others.
    different: u32,
}

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
        if *time < self.now || !self.meanwhile.is_empty() {
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
                match self.push_known(place, (thread, site), events, until, wanted, out) {
                    Some(taken) => return taken,
                    None => {}
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

    /// Takes the events of a chain one by one, and learns what was made of them. Returns how many were taken, and what was
    /// learned.
    fn learn(
        &mut self,
        events: &[Event],
        until: u64,
        wanted: &impl Fn(u64) -> bool,
        out: &mut Vec<Chain>,
    ) -> (usize, Result<Learned, u32>) {
        let Some(Event { fact: Fact::Process(root), .. }) = events.first() else { return (0, Err(PAUSE)) };
        let (thread, site) = (root.thread, root.site);
        let (caller, _) = self.ask(thread, site);
        if !matches!(caller, Caller::ScanList | Caller::Root(Trigger::Scan)) {
            return (0, Err(PAUSE));
        }
        let Some(hits) = self.whole(events, until, wanted) else { return (0, Err(SHORT_PAUSE)) };
        let Some(steps) = steps(hits) else { return (0, Err(PAUSE)) };
        let has_room = self.scans.steps + steps.len() <= MAX_ALL_STEPS;
        if !has_room || steps.iter().any(|step| self.is_awaited(step.record)) {
            return (0, Err(SHORT_PAUSE));
        }
        let begun = self.chains.begun();
        hits.iter().for_each(|event| self.push(event.clone(), out));
        let made = if self.chains.begun() == begun + 1 { self.made(thread, hits, &steps) } else { None };
        (hits.len(), made.map(|spans| Learned { thread, site, steps, spans, different: 0 }).ok_or(PAUSE))
    }

    /// The hits at the beginning of these events that make a chain of a scan, if its end shows.
    fn whole<'a>(
        &self,
        events: &'a [Event],
        until: u64,
        wanted: &impl Fn(u64) -> bool,
    ) -> Option<&'a [Event]> {
        let Some(Event { fact: Fact::Process(root), .. }) = events.first() else { return None };
        let (thread, site) = (root.thread, root.site);
        let looked_at = events.iter().skip(1).take(MAX_STEPS);
        let (place, next) = looked_at.enumerate().find(|(_, event)| !continues(event, thread, site))?;
        let hits = events.get(..=place)?;
        let last = hits.last()?.time;
        let whole = next.time < until && begins(next, thread, site);
        (whole && self.is_in_one_go(hits.len(), last) && wanted(last)).then_some(hits)
    }

    /// What was made of these hits, if it is a chain of its own that nothing waits for but the thread's stack.
    fn made(&self, thread: ThreadId, hits: &[Event], steps: &[Step]) -> Option<Vec<Made>> {
        let frames = &self.threads.get(thread)?.frames;
        let chain = self.chains.resolve(frames.last()?.at)?.chain;
        let own = frames.iter().filter(|frame| frame.at.chain == chain).count();
        let spans = self.chains.settled(chain, own)?;
        let begin = steps.iter().zip(hits).filter(|(step, _)| step.site.is_some());
        if spans.len() != begin.clone().count() {
            return None;
        }
        let begun = begin.map(|(_, hit)| hit.time);
        let made = spans.iter().zip(begun).enumerate().map(|(number, (span, begun))| {
            let SpanKind::Process(process) = &span.kind else { return None };
            let ended =
                steps.iter().zip(hits).find(|(step, _)| step.site.is_none() && step.span as usize == number);
            let (step, end) = ended?;
            let ProcessSpan { record, trigger, list, .. } = *process;
            let is_root = number == 0;
            let known = match trigger {
                Trigger::Scan => is_root,
                Trigger::Forward | Trigger::Fanout | Trigger::Input | Trigger::Link => !is_root,
                _ => false,
            };
            let plain = process.phases.is_empty() && process.asked.is_none() && !process.for_link;
            let done = matches!(process.outcome, Outcome::Completed(_)) && span.thread == Some(thread);
            let fits = (span.start, span.end, record) == (begun, end.time, step.record);
            let parent = span.parent;
            let placed = parent.is_none() == is_root && parent.is_none_or(|parent| parent < number);
            (known && plain && done && fits && placed).then_some(Made { parent, record, trigger, list })
        });
        made.collect()
    }
}

impl Learned {
    /// The spans that these hits make, if they are the same.
    fn make(&self, hits: &[Event]) -> Option<Spans> {
        let mut spans = Spans::with_room(self.spans.len());
        for (step, event) in self.steps.iter().zip(hits) {
            match (&event.fact, step.site) {
                (Fact::Process(hit), Some(site)) => {
                    let same = hit.thread == self.thread && hit.record == step.record && hit.sp == step.sp;
                    if !same || hit.site != site || hit.active {
                        return None;
                    }
                    let made = self.spans.get(step.span as usize)?;
                    let kind = SpanKind::Process(ProcessSpan {
                        record: made.record,
                        trigger: made.trigger,
                        outcome: Outcome::Open,
                        phases: Phases::default(),
                        list: made.list,
                        asked: None,
                        for_link: false,
                    });
                    let (start, thread) = (event.time, Some(self.thread));
                    spans.push(Span { parent: made.parent, thread, start, end: start, kind });
                }
                (Fact::Complete(hit), None) => {
                    let same = hit.thread == self.thread && hit.record == step.record && hit.sp == step.sp;
                    if !same || value::heap(&hit.value) > 0 {
                        return None;
                    }
                    let span = spans.get_mut(step.span as usize)?;
                    span.end = event.time;
                    if let SpanKind::Process(process) = &mut span.kind {
                        let (value, severity, status) = (hit.value.clone(), hit.severity, hit.status);
                        process.outcome = Outcome::Completed(Completed { value, severity, status });
                    }
                }
                _ => return None,
            }
        }
        Some(spans)
    }
}

/// Whether a hit of this thread's scan begins a chain: everything on the thread's stack has returned.
fn begins(event: &Event, thread: ThreadId, site: CallSiteId) -> bool {
    matches!(&event.fact, Fact::Process(hit) if hit.thread == thread && hit.site == site)
}

/// Whether a hit may belong to the chain that this thread has begun.
fn continues(event: &Event, thread: ThreadId, site: CallSiteId) -> bool {
    match &event.fact {
        Fact::Process(hit) => hit.thread == thread && hit.site != site && !hit.active,
        Fact::Complete(hit) => hit.thread == thread && value::heap(&hit.value) == 0,
        _ => false,
    }
}

/// The steps of hits, if each record that begins to process completes.
fn steps(hits: &[Event]) -> Option<Vec<Step>> {
    let (mut steps, mut open, mut spans) = (Vec::with_capacity(hits.len()), Vec::new(), 0);
    for event in hits {
        let step = match &event.fact {
            Fact::Process(hit) if !hit.active => {
                if open.iter().any(|(record, _)| *record == hit.record) {
                    return None;
                }
                open.push((hit.record, spans));
                spans += 1;
                Step { sp: hit.sp, record: hit.record, site: Some(hit.site), span: spans - 1 }
            }
            Fact::Complete(hit) if value::heap(&hit.value) == 0 => {
                let place = open.iter().position(|(record, _)| *record == hit.record)?;
                let (_, span) = open.swap_remove(place);
                Step { sp: hit.sp, record: hit.record, site: None, span }
            }
            _ => return None,
        };
        steps.push(step);
    }
    open.is_empty().then_some(steps)
}
