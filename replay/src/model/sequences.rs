//! Links of sequence records: what a record of type seq writes to is told as processed by LNKn, not by OUT.
//!
//! Such a record works through its links in a callback, so whose they are is known only once its chain is whole.

use super::base_types::is_sequence;
use super::chain::{Span, SpanKind, Trigger};
use super::run::Run;

/// Names the links of the sequence records in a chain.
pub fn name_links(run: &Run, spans: &mut [Span]) {
    for number in 0..spans.len() {
        if let Some(trigger) = link(run, spans, number) {
            if let Some(SpanKind::Process(process)) = spans.get_mut(number).map(|span| &mut span.kind) {
                process.trigger = trigger;
            }
        }
    }
}

/// The link of a sequence record that wrote to this record, which processed for it; `None` if none did.
fn link(run: &Run, spans: &[Span], number: usize) -> Option<Trigger> {
    let span = spans.get(number)?;
    let SpanKind::Process(process) = &span.kind else { return None };
    let parent = spans.get(span.parent?)?;
    if process.trigger != Trigger::Out || !matches!(parent.kind, SpanKind::Put(_)) {
        return None;
    }
    let SpanKind::Process(writer) = &spans.get(parent.parent?)?.kind else { return None };
    let is_sequence = run.context().record(writer.record).is_some_and(|record| is_sequence(record.rtype));
    is_sequence.then_some(Trigger::Fanout)
}
