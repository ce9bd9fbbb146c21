//! Where the time goes: the time of records, by the way that led to them.
//!
//! A stack is: the IOC, the cause of the chain, and the records from the first to the one whose time it is. The time of a
//! record is its own, as [`activity`](super::activity) has it. Processing without a known time is counted, but not timed.

use super::activity::own_times;
use super::chain::{Chain, SpanKind};
use super::links_seen::root_label;
use super::numbered::Keyed;
use super::putlog::ioc_name;
use super::run::record_name;
use crate::filter::Filter;
use iocrec_log::context::Context;
use iocrec_log::event::RecordId;
use std::borrow::Cow;
use std::rc::Rc;

/// Stacks that are told apart, and records in one; bounds for hostile logs. The rest is counted as one stack.
const MAX_STACKS: usize = 200_000;
const MAX_DEPTH: usize = 200;

/// Time by stack.
#[derive(Default)]
pub struct Profile {
    /// Nanoseconds by stack, as numbers of frames.
    times: Keyed<Box<[u32]>, u64>,
    /// Frames, each once: many stacks have the same.
    frames: Vec<Rc<str>>,
    numbers: Keyed<Rc<str>, u32>,
    /// Records that processed without a known time.
    pub untimed: u64,
}

impl Profile {
    /// Takes a chain, and those that its CA links led to.
    pub fn take(&mut self, chain: &Chain, filter: &Filter) {
        let mut own = Vec::new();
        own_times(chain, &mut own);
        let context = chain.run.context();
        let host = context.host().map_or("", |host| host.name.as_str());
        for (number, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => {
                    let (record, ioc) = (name(&context, process.record), ioc_name(&context, span));
                    if !filter.field(&record, "VAL") || !filter.place(host, ioc) {
                        continue;
                    }
                    match own.get(number).copied().flatten() {
                        Some(time) => self.add(&stack(chain, &context, number, ioc), time),
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

    /// Adds to the time of a stack: the outermost frame first, the IOC.
    pub fn add<Text: AsRef<str>>(&mut self, stack: &[Text], time: u64) {
        let is_full = self.times.len() >= MAX_STACKS;
        let known: Option<Box<[u32]>> =
            stack.iter().map(|frame| self.numbers.get(frame.as_ref()).copied()).collect();
        if let Some(of) = known.as_ref().and_then(|stack| self.times.get_mut(stack)) {
            *of += time;
            return;
        }
        let stack = match (known, is_full) {
            (Some(stack), false) => stack,
            (None, false) => stack.iter().map(|frame| self.frame(frame.as_ref())).collect(),
            (_, true) => [self.frame("(other)")].into(),
        };
        *self.times.entry(stack).or_default() += time;
    }

    /// The number of a frame.
    fn frame(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // each stack has 202 at most
        let number = self.frames.len() as u32;
        let frame: Rc<str> = text.into();
        self.frames.push(Rc::clone(&frame));
        self.numbers.insert(frame, number);
        number
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// All stacks with their nanoseconds, in the order of their frames' names.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        let mut all: Vec<(&[u32], u64)> = self.times.iter().map(|(stack, time)| (&**stack, *time)).collect();
        all.sort_by(|(a, _), (b, _)| self.names(a).cmp(self.names(b)));
        all.into_iter().map(|(stack, time)| (self.names(stack).collect(), time))
    }

    /// The names of frames.
    fn names<'a>(&'a self, stack: &'a [u32]) -> impl Iterator<Item = &'a str> + 'a {
        stack.iter().map(|frame| self.frames.get(*frame as usize).map_or("", |name| &**name))
    }
}

/// The name of a record.
fn name(context: &Context, record: RecordId) -> Cow<'_, str> {
    match context.record(record) {
        Some(record) => record.name.into(),
        None => record_name(context, record).into(),
    }
}

fn stack<'a>(chain: &Chain, context: &'a Context, number: usize, ioc: &'a str) -> Vec<Cow<'a, str>> {
    let mut records = Vec::new();
    let mut at = Some(number);
    while let Some(span) = at.and_then(|at| chain.spans.get(at)) {
        if let SpanKind::Process(process) = &span.kind {
            records.push(name(context, process.record));
        }
        if records.len() >= MAX_DEPTH {
            records.push("(more)".into());
            break;
        }
        at = span.parent;
    }
    let root = chain.root().map(|root| root_label(chain, root)).unwrap_or_default();
    let ioc = if ioc.is_empty() { "(unknown IOC)" } else { ioc };
    let mut stack = vec![ioc.into(), root.into()];
    stack.extend(records.into_iter().rev());
    stack
}
