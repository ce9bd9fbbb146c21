//! The chains that the page shows: the notable ones, and a few of each other kind.
//!
//! A chain is turned into rows of texts at once, so that what its run has defined can be dropped.

use super::places::{Places, NONE};
use super::span_name;
use crate::model::chain::{Chain, Outcome, ProcessSpan, Span, SpanKind};
use crate::model::putlog::{root_put, PutLine};
use crate::model::run::{field_name, has_value, record_name};
use crate::model::{enum_strings, value};
use crate::output::report::strings::{Strings, Text};
use crate::wording::put::parts;
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Chains that the page shows.
pub const MAX_CHAINS: usize = 300;
/// Steps of one chain that are shown, and of all.
const MAX_STEPS: usize = 200;
/// See above: a step takes about 45 bytes of the page.
pub const MAX_ALL_STEPS: usize = 15_000;
/// Chains that begin with the same record: of those without alarm or put, of those with an alarm, of those with a put.
const OF_A_RECORD: (u32, u32, u32) = (2, 6, 20);
/// Records whose chains are counted; a bound for hostile logs.
const MAX_ROOTS: usize = 200_000;
/// CA links that are followed from a chain to the next.
const MAX_HOPS: usize = 8;

/// What makes a chain notable.
#[derive(Clone, Copy, Debug)]
pub struct Notable {
    /// Worst severity that a record went to in it.
    pub severity: u16,
    /// A put from outside is its cause.
    pub from_outside: bool,
    /// A put in it was denied, failed, or wrote another value than was asked for.
    pub refused: bool,
    /// CA links followed.
    pub hops: u32,
    /// Puts in it.
    pub puts: u32,
    /// Processed records in it.
    pub steps: u64,
    /// Its length, nanoseconds.
    pub length: u64,
    /// The first record that processed.
    pub root: u32,
}

impl Default for Notable {
    fn default() -> Self {
        let (severity, from_outside, refused, hops, puts, steps, length) = (0, false, false, 0, 0, 0, 0);
        Notable { severity, from_outside, refused, hops, puts, steps, length, root: NONE }
    }
}

impl Notable {
    /// The more, the more notable: first the severity, then whether a person caused it, then how far it went.
    fn score(&self, in_focus: bool) -> u64 {
        let of_severity = u64::from(self.severity.min(3)) * 1000;
        let by_person = if self.from_outside { 1500 } else { 0 };
        let refused = if self.refused { 1200 } else { 0 };
        let far = u64::from(self.hops.min(4)) * 200;
        // up to 64 for a length of hours, up to 64 for thousands of steps
        let long = u64::from(64 - self.length.leading_zeros())
            + 4 * u64::from(64 - self.steps.leading_zeros()).min(16);
        of_severity + by_person + refused + far + long + if in_focus { 500 } else { 0 }
    }
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A put from outside, or the put that a CA link of another chain made.
    Put,
    /// A put by a database link.
    LinkPut,
    /// A record's processing.
    Process,
    /// A put through a CA link.
    CaLink,
    /// Steps that are left out.
    More,
}

/// A step of a chain.
#[derive(Clone, Debug)]
pub struct Step {
    /// The step that it is under.
    pub parent: Option<u32>,
    /// What it is.
    pub kind: StepKind,
    /// Its record or PV.
    pub name: Text,
    /// Type and trigger.
    pub detail: Text,
    /// Value, or old and new value.
    pub value: Text,
    /// Severity.
    pub severity: u16,
    /// Start after that of the chain, nanoseconds.
    pub start: i64,
    /// Length, nanoseconds; `None` if its end was not seen.
    pub length: Option<u64>,
    /// Number of its IOC.
    pub ioc: u32,
    /// Whether it is in another IOC than the step above.
    pub hop: bool,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Number in the log.
    pub serial: u64,
    /// Wall-clock time of its begin.
    pub time: i64,
    /// Length, nanoseconds.
    pub length: u64,
    /// Number of its cause.
    pub cause: u32,
    /// Record or PV that it began with.
    pub title: Text,
    /// Number of its IOC.
    pub ioc: u32,
    /// IOCs in it.
    pub iocs: u32,
    /// Worst severity in it.
    pub severity: u16,
    /// Number of processed records, whether shown or not.
    pub processed: u64,
    /// Whether it was not seen to end.
    pub open: bool,
    /// Its steps; a parent comes before its children.
    pub steps: Vec<Step>,
}

/// The chains that are shown.
#[derive(Default)]
pub struct Chains {
    /// Number in the log of those that are asked for.
    pub total: u64,
    /// By how notable they are; of equal ones the earlier first.
    kept: BTreeMap<(u64, Reverse<u64>), Shown>,
    of_root: HashMap<(u32, bool), u32>,
}

impl Chains {
    /// Whether this one is to be kept.
    pub fn wants(&self, notable: &Notable, in_focus: bool) -> bool {
        let score = notable.score(in_focus);
        let worst = self.kept.first_key_value().map(|((score, _), _)| *score);
        if self.kept.len() >= MAX_CHAINS && worst.is_none_or(|worst| score <= worst) {
            return false; // as nearly all of a log, of which nothing more need be looked up
        }
        let plain = notable.severity == 0 && !notable.from_outside && !notable.refused;
        let of_root = self.of_root.get(&(notable.root, plain)).copied().unwrap_or(0);
        let most = match (plain, notable.from_outside) {
            (true, _) => OF_A_RECORD.0,
            (false, false) => OF_A_RECORD.1,
            (false, true) => OF_A_RECORD.2,
        };
        of_root < most || notable.refused
    }

    /// Keeps a chain in place of the least notable one.
    pub fn keep(
        &mut self,
        chain: &Chain,
        serial: u64,
        cause: u32,
        (notable, in_focus): (Notable, bool),
        places: &mut Places,
        strings: &mut Strings,
    ) {
        let plain = notable.severity == 0 && !notable.from_outside && !notable.refused;
        if self.of_root.len() < MAX_ROOTS {
            *self.of_root.entry((notable.root, plain)).or_default() += 1;
        }
        let Some(root) = chain.root() else { return };
        let began = chain.run.wall(root.start);
        let mut steps = Vec::new();
        describe(chain, began, None, 0, &mut steps, places, strings);
        let mut iocs: Vec<u32> = steps.iter().map(|step| step.ioc).filter(|ioc| *ioc != NONE).collect();
        iocs.sort_unstable();
        iocs.dedup();
        let score = notable.score(in_focus);
        let shown = Shown {
            serial,
            time: began,
            length: notable.length,
            cause,
            title: strings.add(&span_name(&chain.run.context(), root)),
            ioc: steps.first().map_or(NONE, |step| step.ioc),
            iocs: u32::try_from(iocs.len()).unwrap_or(u32::MAX),
            severity: steps.iter().map(|step| step.severity).max().unwrap_or(0),
            processed: notable.steps,
            open: chain.open,
            steps,
        };
        self.kept.insert((score, Reverse(serial)), shown);
        if self.kept.len() > MAX_CHAINS {
            self.kept.pop_first();
        }
    }

    /// Calls `take` with the number of each text.
    pub fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        for shown in self.kept.values_mut() {
            take(&mut shown.title);
            for Step { name, detail, value, .. } in &mut shown.steps {
                [name, detail, value].into_iter().for_each(&mut *take);
            }
        }
    }

    /// The chains, the most notable first.
    pub fn shown(&self) -> impl Iterator<Item = &Shown> {
        self.kept.values().rev()
    }
}

/// Adds the steps of a chain, under `above`.
fn describe(
    chain: &Chain,
    began: i64,
    above: Option<u32>,
    hop: usize,
    steps: &mut Vec<Step>,
    places: &mut Places,
    strings: &mut Strings,
) {
    let context = chain.run.context();
    places.enter(&chain.run);
    let children = chain.children();
    // Depth first, as the records processed; with a stack of our own, since chains can be thousands of records deep.
    let mut next: Vec<(usize, Option<u32>)> = vec![(0, above)];
    while let Some((number, parent)) = next.pop() {
        let Some(span) = chain.spans.get(number) else { continue };
        if steps.len() >= MAX_STEPS {
            let left = chain.spans.len().saturating_sub(number);
            let detail = strings.add(&format!("{left} more steps are left out here"));
            let (kind, start) = (StepKind::More, 0);
            let ioc = NONE;
            steps.push(Step {
                parent,
                kind,
                name: 0,
                detail,
                value: 0,
                severity: 0,
                start,
                length: None,
                ioc,
                hop: false,
            });
            return;
        }
        let own = u32::try_from(steps.len()).ok();
        let is_outer = number == 0;
        // A put and the processing of its record are told apart by their kinds.
        steps.push(step(chain, &context, span, began, parent, is_outer, hop, places, strings));
        if let SpanKind::Link(link) = &span.kind {
            if let Some(target) = link.target.as_deref().filter(|_| hop < MAX_HOPS) {
                describe(target, began, own, hop + 1, steps, places, strings);
                places.enter(&chain.run);
            }
        }
        let below = children.get(number).map(Vec::as_slice).unwrap_or_default();
        next.extend(below.iter().rev().map(|child| (*child, own)));
    }
}

#[allow(clippy::too_many_arguments)] // what a step is made of
fn step(
    chain: &Chain,
    context: &Context,
    span: &Span,
    began: i64,
    parent: Option<u32>,
    is_outer: bool,
    hop: usize,
    places: &mut Places,
    strings: &mut Strings,
) -> Step {
    let took = span.end.saturating_sub(span.start);
    let mut step = Step {
        parent,
        kind: StepKind::Process,
        name: strings.add(&span_name(context, span)),
        detail: 0,
        value: 0,
        severity: 0,
        start: chain.run.wall(span.start).saturating_sub(began),
        length: Some(took),
        ioc: ioc_of(context, span, places),
        hop: is_outer && hop > 0,
    };
    let mut text = String::new();
    match &span.kind {
        SpanKind::Process(process) => {
            let rtype = context.record(process.record).map_or("", |record| record.rtype);
            let mut detail = match rtype {
                "" => process.trigger.name().to_owned(),
                rtype => format!("{rtype} · {}", process.trigger.name()),
            };
            detail.push_str(outcome(process));
            step.detail = strings.add(&detail);
            match &process.outcome {
                Outcome::Completed(completed) => {
                    if completed.value != Value::Unknown && has_value(context, process.record) {
                        value::push_text(&mut text, &completed.value);
                        let state = enum_strings::state(context, process.record, span.end, &completed.value);
                        enum_strings::push(&mut text, state.as_deref());
                    }
                    step.severity = completed.severity;
                }
                _ => step.length = None,
            }
        }
        SpanKind::Put(put) => {
            step.kind = if is_outer { StepKind::Put } else { StepKind::LinkPut };
            let field = field_name(context, put.field).filter(|field| *field != "VAL");
            if let (Some(field), Some(record)) = (field, put.record) {
                step.name = strings.add(&format!("{}.{field}", record_name(context, record)));
            }
            if put.only_processes {
                text.push_str("process only");
            } else if let Some(line) = is_outer.then(|| root_put(chain, None)).flatten() {
                push_outcome(&mut text, &line);
            } else {
                let word = |value| enum_strings::word(context, put.record, put.field, put.time(), value);
                if put.old != Value::Unknown {
                    value::push_text(&mut text, &put.old);
                    enum_strings::push(&mut text, word(&put.old).as_deref());
                    text.push(' ');
                }
                // what it was made to write: a link's put has no answer
                text.push_str("← ");
                value::push_text(&mut text, &put.requested);
                enum_strings::push(&mut text, word(&put.requested).as_deref());
            }
        }
        SpanKind::Link(link) => {
            step.kind = StepKind::CaLink;
            if let Some(record) = link.record {
                step.detail = strings.add(&format!("link of {}", record_name(context, record)));
            }
            text.push_str("→ ");
            value::push_text(&mut text, &link.value);
        }
    }
    step.value = strings.add(&text);
    step
}

/// What is to be said of a processing beside its value.
fn outcome(process: &ProcessSpan) -> &'static str {
    let is_delay = |asked: &Option<CauseKind>| {
        matches!(asked, Some(CauseKind::CallbackRequestDelayed | CauseKind::CallbackRequestProcessDelayed))
    };
    match &process.outcome {
        Outcome::Completed(_) if process.phases.iter().any(|phase| is_delay(&phase.asked)) => {
            " · delayed by itself"
        }
        Outcome::Completed(_) if process.phases.iter().any(|phase| phase.asked.is_none()) => {
            " · asynchronous"
        }
        Outcome::Completed(_) => "",
        Outcome::Open => " · not seen to complete",
        Outcome::Active => " · active already, nothing done",
        Outcome::Skipped => " · skipped: disabled, or nothing to pass on",
        Outcome::Disabled => " · disabled, nothing done",
        Outcome::Waiting => " · has yet to complete",
        Outcome::Entered { again: false } => " · begun, no more is recorded",
        Outcome::Entered { again: true } => " · goes on, no more is recorded",
    }
}

/// The IOC that a span belongs to.
fn ioc_of(context: &Context, span: &Span, places: &mut Places) -> u32 {
    if let Some(thread) = span.thread.and_then(|thread| context.thread(thread)) {
        return places.ioc_of(context, thread.ioc);
    }
    match &span.kind {
        SpanKind::Put(put) => {
            let ioc = put
                .packet
                .as_ref()
                .and_then(|packet| crate::model::run::ioc_of_circuit(context, packet.circuit));
            ioc.map_or(NONE, |ioc| places.ioc_of(context, ioc.id))
        }
        SpanKind::Process(process) => {
            context.record(process.record).map_or(NONE, |record| places.ioc_of(context, record.ioc))
        }
        SpanKind::Link(_) => NONE,
    }
}

/// What became of a put: what was asked for never looks like a result.
fn push_outcome(text: &mut String, put: &PutLine) {
    let change = parts(put);
    let is_known = put.new != Value::Unknown || change.acknowledges;
    if let Some(old) = &change.old {
        text.push_str(old);
        text.push(' ');
    }
    text.push_str(if is_known { "→ " } else { "" });
    text.push_str(&change.new);
    if change.unchanged {
        text.push_str(", not changed");
    }
    for more in change
        .doubt
        .map(str::to_owned)
        .into_iter()
        .chain(change.others.map(|others| format!("with {others}")))
    {
        text.push_str(&format!(" ({more})"));
    }
    if let Some(asked) = &change.asked {
        text.push_str(", asked ");
        text.push_str(asked);
    }
    if put.status != "ok" {
        text.push_str("  ");
        text.push_str(&put.status);
    }
}
