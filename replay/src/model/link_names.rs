//! Links of records whose names the hits alone do not tell: what a record of type seq writes to is told as processed by
//! LNKn, not by OUT, and what a record has processed to read from it (`Async Soft Channel`), by INP. What a record has
//! processed that was not seen to complete may be behind its forward link.
//!
//! A seq works through its links in a callback, so whose they are is known only once its chain is whole.

use super::base_types::is_sequence;
use super::chain::{Outcome, Span, SpanKind, Trigger};
use super::run::Run;

/// Names such links in a chain.
pub fn name_links(run: &Run, spans: &mut [Span]) {
    for number in 0..spans.len() {
        if let Some(trigger) = link(run, spans, number) {
            if let Some(SpanKind::Process(process)) = spans.get_mut(number).map(|span| &mut span.kind) {
                process.trigger = trigger;
            }
        }
    }
}

/// The link that made this record process, if it is such a one.
fn link(run: &Run, spans: &[Span], number: usize) -> Option<Trigger> {
    let span = spans.get(number)?;
    let SpanKind::Process(process) = &span.kind else { return None };
    let parent = spans.get(span.parent?)?;
    let put = match &parent.kind {
        SpanKind::Put(put) => put,
        // what a record does behind its own `recGblFwdLink` is not known from what it does before
        SpanKind::Process(by) => {
            let unknown = process.trigger == Trigger::Input && matches!(by.outcome, Outcome::Open);
            return unknown.then_some(Trigger::Link);
        }
        SpanKind::Link(_) => return None,
    };
    let SpanKind::Process(by) = &spans.get(parent.parent?)?.kind else { return None };
    match process.trigger {
        Trigger::Put if put.only_processes => Some(Trigger::Input),
        Trigger::Out => {
            let is_sequence = run.context().record(by.record).is_some_and(|by| is_sequence(by.rtype));
            is_sequence.then_some(Trigger::Fanout)
        }
        _ => None,
    }
}
