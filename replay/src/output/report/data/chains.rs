//! The chains that the page can open, as columns.

use super::shape::Chain;
use super::{number, Causes};
use crate::output::report::collect::chains::{Shown, StepKind, MAX_ALL_STEPS};
use crate::output::report::facts::Facts;

/// The chains that were kept; the later ones cut short if there are too many steps.
pub(super) fn chains(facts: &Facts, causes: &mut Causes) -> Vec<Chain> {
    let mut room = MAX_ALL_STEPS;
    facts
        .found
        .chains
        .shown()
        .map(|shown| {
            // The most notable are shown whole.
            let most = if room > MAX_ALL_STEPS / 4 { shown.steps.len() } else { shown.steps.len().min(20) };
            let most = most.min(room.max(1));
            room = room.saturating_sub(most);
            chain(facts, shown, most, causes)
        })
        .collect()
}

fn chain(facts: &Facts, shown: &Shown, most: usize, causes: &mut Causes) -> Chain {
    let mut chain = Chain {
        serial: shown.serial,
        time: facts.clock.ms(shown.time),
        ms: (shown.length / 100) as f64 / 1e4,
        cause: causes.add(facts, shown.cause),
        title: shown.title,
        ioc: number(shown.ioc),
        iocs: shown.iocs,
        severity: shown.severity,
        processed: shown.processed,
        open: shown.open,
        left_out: shown.steps.len() - most.min(shown.steps.len()),
        parent: Vec::new(),
        kind: Vec::new(),
        name: Vec::new(),
        detail: Vec::new(),
        value: Vec::new(),
        severities: Vec::new(),
        start: Vec::new(),
        length: Vec::new(),
        place: Vec::new(),
        hop: Vec::new(),
    };
    for step in shown.steps.iter().take(most) {
        chain.parent.push(step.parent.map_or(-1, i64::from));
        chain.kind.push(match step.kind {
            StepKind::Put => 0,
            StepKind::LinkPut => 1,
            StepKind::Process => 2,
            StepKind::CaLink => 3,
            StepKind::More => 4,
        });
        chain.name.push(step.name);
        chain.detail.push(step.detail);
        chain.value.push(step.value);
        chain.severities.push(step.severity);
        chain.start.push((step.start / 100) as f64 / 10.0);
        chain.length.push(step.length.map(|length| (length / 100) as f64 / 10.0));
        chain.place.push(number(step.ioc));
        chain.hop.push(u8::from(step.hop));
    }
    chain
}
