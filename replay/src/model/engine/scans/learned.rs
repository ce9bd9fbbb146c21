//! Learning a chain from what the rules made of its hits, and making it again.

use super::super::Engine;
use super::MAX_ALL_STEPS;
use crate::model::caller::Caller;
use crate::model::chain::{Chain, Completed, Outcome, Phases, ProcessSpan, Span, SpanKind, Trigger};
use crate::model::spans::Spans;
use crate::model::value;
use iocrec_log::event::{CallSiteId, Event, Fact, RecordId, ScanListId, ThreadId};

/// Hits of a chain that is remembered: longer ones are rare, and cost less than looking ahead that far in vain.
const MAX_STEPS: usize = 128;
/// Times that a record's hits are passed over after they proved to be nothing to be learned; and after they could not be
/// learned at that time.
const PAUSE: u32 = 50;
const SHORT_PAUSE: u32 = 2;

/// A hit of a chain.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub sp: i64,
    pub record: RecordId,
    /// For `dbProcess`: the caller. For `recGblFwdLink` it matters to nothing.
    pub site: Option<CallSiteId>,
    /// The number of the span that it begins or completes.
    pub span: u32,
}

/// A span that a chain begins.
pub(super) struct Made {
    pub parent: Option<usize>,
    pub record: RecordId,
    pub trigger: Trigger,
    pub list: Option<ScanListId>,
}

/// What was made of a chain's hits.
pub(super) struct Learned {
    pub thread: ThreadId,
    pub site: CallSiteId,
    pub steps: Vec<Step>,
    pub spans: Vec<Made>,
    /// Times in a row that the hits were others.
    pub different: u32,
}

impl Engine {
    /// Takes the events of a chain one by one, and learns what was made of them. Returns how many were taken, and what was
    /// learned.
    pub(super) fn learn(
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
    pub(super) fn make(&self, hits: &[Event]) -> Option<Spans> {
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
                        is_over: false,
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
pub(super) fn begins(event: &Event, thread: ThreadId, site: CallSiteId) -> bool {
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
