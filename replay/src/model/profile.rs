//! Where the time goes: the time of records, by the way that led to them.
//!
//! A stack is: the IOC, the cause of the chain, and the records from the first to the one whose time it is. The time of a
//! record is its own, as [`activity`](super::activity) has it. Processing without a known time is counted, but not timed.

use super::activity::own_times;
use super::chain::{Chain, SpanKind};
use super::links_seen::root_label;
use super::putlog::ioc_of_span;
use super::run::record_name;
use crate::filter::Filter;
use std::collections::BTreeMap;

/// Stacks that are told apart, and records in one; bounds for hostile logs. The rest is counted as one stack.
const MAX_STACKS: usize = 200_000;
const MAX_DEPTH: usize = 200;

/// Time by stack.
#[derive(Default)]
pub struct Profile {
    /// Nanoseconds by stack, outermost frame first: the IOC.
    pub stacks: BTreeMap<Vec<String>, u64>,
    /// Records that processed without a known time.
    pub untimed: u64,
}

impl Profile {
    /// Takes a chain, and those that its CA links led to.
    pub fn take(&mut self, chain: &Chain, filter: &Filter) {
        let mut own = Vec::new();
        own_times(chain, &mut own);
        for (number, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => {
                    let context = chain.run.context();
                    let record = record_name(&context, process.record);
                    let (host, ioc) = (chain.run.host(), ioc_of_span(&context, span));
                    if !filter.field(&record, "VAL") || !filter.place(&host, &ioc) {
                        continue;
                    }
                    match own.get(number).copied().flatten() {
                        Some(time) => self.add(stack(chain, number, ioc), time),
                        None => self.untimed += 1,
                    }
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.take(target, filter);
                    }
                }
                SpanKind::Put(_) => {}
            }
        }
    }

    fn add(&mut self, stack: Vec<String>, time: u64) {
        let stack = match self.stacks.len() < MAX_STACKS || self.stacks.contains_key(&stack) {
            true => stack,
            false => vec!["(other)".to_owned()],
        };
        *self.stacks.entry(stack).or_default() += time;
    }
}

fn stack(chain: &Chain, number: usize, ioc: String) -> Vec<String> {
    let context = chain.run.context();
    let mut records = Vec::new();
    let mut at = Some(number);
    while let Some(span) = at.and_then(|at| chain.spans.get(at)) {
        if let SpanKind::Process(process) = &span.kind {
            records.push(record_name(&context, process.record));
        }
        if records.len() >= MAX_DEPTH {
            records.push("(more)".to_owned());
            break;
        }
        at = span.parent;
    }
    let root = chain.root().map(|root| root_label(chain, root)).unwrap_or_default();
    let ioc = if ioc.is_empty() { "(unknown IOC)".to_owned() } else { ioc };
    let mut stack = vec![ioc, root];
    stack.extend(records.into_iter().rev());
    stack
}
