//! Causes of a PV's change: the chain from the record up to its root, and from there to what the root followed.

mod inputs;
mod life;
mod sources;

pub use self::sources::{Lead, Link, MAX_SOURCES};

pub use self::inputs::{Change, Source};

use self::life::Life;
use self::sources::Meanwhile;
use super::puts::process;
use super::wording::alarm;
use super::wording::cause::cause;
use super::wording::put::{change, who};
use crate::filter::{Filter, Pattern};
use crate::model::alarms::Alarm;
use crate::model::asides::{Aside, What};
use crate::model::chain::{Chain, Outcome, PutSpan, Span, SpanKind, Trigger};
use crate::model::enum_strings::{self, severity_name};
use crate::model::putlog::{self, ioc_of_span, root_put, PutLine};
use crate::model::run::{field_name, has_value, record_name};
use crate::model::value;
use crate::out::{add, line, Out};
use crate::time::Zone;
use epics::Pv;
use iocrec_log::event::{Fact, Value};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

/// Moments held to sort them: chains come in the order in which they began, and asynchronous records complete later.
const HELD: usize = 64;
/// Inputs that are shown, which are processed as part of the chain.
const MAX_INPUTS: usize = 16;

/// A moment in which the PV's field got a value (or the same one again).
struct Moment {
    time: i64,
    value: Value,
    /// Severity and status, if they are known.
    alarm: Option<Alarm>,
    chain: Rc<Chain>,
    /// The path to the span: for each chain a span's number, first those of the CA links that lead on, last the
    /// record's own.
    path: Vec<usize>,
    /// The process that it happened in; `None` if the log does not know it.
    life: Option<Life>,
}

/// Knowledge of the PV in one IOC.
#[derive(Default)]
struct Seen {
    held: VecDeque<Moment>,
    /// The latest value.
    value: Option<Value>,
    /// The latest change, and what was before it.
    changed: Option<(Moment, Before)>,
    last: Option<Moment>,
    /// When the record last began to process, before `last`, and in `last`.
    processed: (Option<i64>, Option<i64>),
    /// When its record was last seen to process, or to be written, before `last`.
    previous: Option<i64>,
    /// The latest alarm.
    alarm: Option<Alarm>,
    /// What the recorder read of the record since the latest of these, and of which process.
    read: VecDeque<(i64, Value, Alarm, Option<Life>)>,
    count: u64,
    /// Time of the first value that may have been a change: the value before it is unknown.
    in_doubt: Option<i64>,
    /// Number of times that it was put to or processed with an unknown value.
    unknown: u64,
    /// Time of the last value that may have been a change, or is unknown.
    doubt: Option<i64>,
    /// Whether the IOC was started anew, and only what was seen since then counts.
    anew: bool,
}

/// What was before a change.
#[derive(Clone, Default)]
struct Before {
    value: Option<Value>,
    alarm: Option<Alarm>,
    /// When that was last seen.
    seen: Option<i64>,
    /// When the record began to process the last time before.
    processed: Option<i64>,
    /// If this was the first in a new process: when the record was last seen in the one before, and its value then.
    anew: Option<(i64, Option<Value>)>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// The last change of the value.
    #[default]
    Value,
    /// The last change of the alarm.
    Alarm,
}

/// Searches for the cause of the last change.
pub struct Why<'a> {
    pv: Pv<'a>,
    name: &'a str,
    filter: &'a Filter,
    ask: Ask,
    /// Only what began by this wall-clock time counts.
    begun: i64,
    /// By host and IOC: a name can exist in several.
    seen: HashMap<(String, String), Seen>,
}

/// A value of the PV that a chain led to.
struct Found {
    /// Host and name of the IOC.
    place: (String, String),
    time: i64,
    value: Value,
    alarm: Option<Alarm>,
    path: Vec<usize>,
    life: Option<Life>,
}

impl<'a> Why<'a> {
    /// Prepares a search for `name`, a record or record.FIELD, within the filter's times.
    pub fn new(name: &'a str, filter: &'a Filter) -> Self {
        Why { pv: Pv::new(name), name, filter, ask: Ask::Value, begun: i64::MAX, seen: HashMap::new() }
    }

    /// Searches for something else than the last change of the value.
    pub fn for_the(self, ask: Ask) -> Self {
        Why { ask, ..self }
    }

    /// Leaves out what began after this wall-clock time.
    pub fn begun_by(self, begun: i64) -> Self {
        Why { begun, ..self }
    }

    /// Takes the next chain, in the order in which they began.
    pub fn take(&mut self, chain: impl Into<Rc<Chain>>) {
        let chain = chain.into();
        let mut found = Vec::new();
        self.search(&chain, &mut Vec::new(), &mut found);
        for Found { place, time, value, alarm, path, life } in found {
            let seen = self.seen.entry(place).or_default();
            let place = seen.held.partition_point(|moment| moment.time <= time);
            seen.held.insert(place, Moment { time, value, alarm, chain: Rc::clone(&chain), path, life });
            if seen.held.len() > HELD {
                seen.settle(self.ask);
            }
        }
    }

    /// Takes a fact beside the chains, in order of time: what the recorder has read of the record is what it held then.
    pub fn beside(&mut self, aside: &Aside) {
        let What::Fact(Fact::Snapshot(snapshot)) = &aside.what else { return };
        let context = aside.run.context();
        let Some(record) = context.record(snapshot.record).filter(|record| record.name == self.pv.record)
        else {
            return;
        };
        if self.pv.field != "VAL" {
            return;
        }
        let ioc = context.ioc(record.ioc);
        let life = Life::of(&context, ioc);
        let ioc = ioc.map(|ioc| ioc.name.clone()).unwrap_or_default();
        let seen = self.seen.entry((aside.run.host(), ioc)).or_default();
        if seen.read.len() >= HELD {
            seen.read.pop_front();
        }
        seen.read.push_back((aside.time, snapshot.value.clone(), (snapshot.severity, snapshot.status), life));
    }

    /// Finds the spans of the chain in which the PV got a value.
    fn search(&self, chain: &Chain, above: &mut Vec<usize>, found: &mut Vec<Found>) {
        let context = chain.run.context();
        for (number, span) in chain.spans.iter().enumerate() {
            above.push(number);
            let mut alarm = None;
            let (record, value) = match &span.kind {
                SpanKind::Process(process) if self.pv.field == "VAL" => match &process.outcome {
                    Outcome::Completed(completed) => {
                        alarm = Some((completed.severity, completed.status));
                        (Some(process.record), completed.value.clone())
                    }
                    _ => (None, Value::Unknown),
                },
                SpanKind::Put(put)
                    if !put.only_processes
                        && self.is_field(&context, put)
                        && !processes(chain, number, put) =>
                {
                    (put.record, accepted(chain, number, put))
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.search(target, above, found);
                    }
                    (None, Value::Unknown)
                }
                _ => (None, Value::Unknown),
            };
            let time = chain.run.wall(span.end);
            if record.is_some_and(|record| record_name(&context, record) == self.pv.record)
                && self.filter.time(time)
                && (self.begun == i64::MAX || chain.run.wall(span.start) <= self.begun)
                && (self.ask == Ask::Value || alarm.is_some())
            {
                let (host, process) = (chain.run.host(), putlog::ioc(&context, span));
                let ioc = process.map(|ioc| ioc.name.clone()).unwrap_or_default();
                let wanted =
                    |glob: &Option<Pattern>, name: &str| glob.as_ref().is_none_or(|glob| glob.matches(name));
                if wanted(&self.filter.host, &host) && wanted(&self.filter.ioc, &ioc) {
                    let (place, life) = ((host, ioc), Life::of(&context, process));
                    found.push(Found { place, time, value, alarm, path: above.clone(), life });
                }
            }
            above.pop();
        }
    }

    fn is_field(&self, context: &iocrec_log::context::Context, put: &PutSpan) -> bool {
        field_name(context, put.field).unwrap_or("VAL") == self.pv.field
    }

    fn settle(&mut self) {
        for seen in self.seen.values_mut() {
            while !seen.held.is_empty() {
                seen.settle(self.ask);
            }
        }
    }

    /// Whether the last change is known with all that led to it, although nothing before `sure` (wall-clock time) was
    /// read, or not all of it: the chain began after that by itself, and what was before the change was seen, too.
    pub fn is_certain(&mut self, sure: i64) -> bool {
        self.settle();
        let latest = self.seen.iter().max_by_key(|(key, seen)| (seen.rank(), *key));
        let changed = latest.and_then(|(_, seen)| seen.changed.as_ref());
        changed.is_some_and(|(moment, before)| before.seen.is_some() && moment.is_certain(sure))
    }

    /// The answer; `None` if the PV was never processed or written.
    pub fn answer(mut self, zone: &Zone) -> Option<Answer> {
        self.settle();
        let ((host, ioc), seen) =
            self.seen.into_iter().max_by_key(|(key, seen)| (seen.rank(), key.clone()))?;
        let last = seen.last?;
        let (moment, before, changed) = match seen.changed {
            Some((moment, before)) => (moment, before, true),
            None => {
                let (seen, processed) = (seen.previous, seen.processed.0);
                (last.clone_ref(), Before { seen, processed, ..Before::default() }, false)
            }
        };
        let anew = before.anew.filter(|_| changed);
        let from = before.value.filter(|_| changed);
        let last_time = last.time.max(moment.time);
        let mut steps = Vec::new();
        let (mut chain, mut link): (&Chain, Option<String>) = (&moment.chain, None);
        let (mut root_cause, mut read) = (None, Vec::new());
        for number in &moment.path {
            let cause_text = cause(chain, link.as_deref());
            let put = root_put(chain, link.as_deref());
            root_cause.get_or_insert_with(|| (cause_text.clone(), put));
            read.clear();
            inputs(chain, *number, zone, 0, &mut read);
            let target = way(chain, *number, link.as_deref(), zone, &mut steps);
            let Some((record, target)) = target else { break };
            (chain, link) = (target, Some(record));
        }
        let (cause, put) = root_cause?;
        let mut lead = Lead::new(&moment.chain, &moment.path, moment.time, before.seen, before.processed);
        lead.doubt = seen.doubt;
        let alarm = |alarm: Option<Alarm>| alarm.map(AlarmKeys::from);
        Some(Answer {
            pv: self.name.to_owned(),
            host,
            ioc,
            time: zone.format(moment.time, 9),
            changed,
            from: from.as_ref().map(value::json),
            to: value::json(&moment.value),
            last_written: zone.format(last_time, 9),
            written_since: last_time > moment.time,
            count: seen.count,
            counted_since: None,
            before_known: seen.in_doubt.is_none(),
            values_unknown: seen.unknown,
            cause,
            by: put.as_ref().map(who),
            user: put.as_ref().and_then(|put| put.user.clone()),
            client_host: put.as_ref().and_then(|put| put.client_host.clone()),
            client: put.as_ref().and_then(|put| put.client.clone()),
            process: put.as_ref().and_then(|put| put.process.as_deref()).map(process),
            chain: steps,
            read,
            asked: match self.ask {
                Ask::Value => "value",
                Ask::Alarm => "alarm",
            },
            from_alarm: alarm(before.alarm.filter(|_| changed)),
            to_alarm: alarm(moment.alarm),
            last_before: before.seen.map(|seen| zone.format(seen, 9)),
            links: Vec::new(),
            sources: Vec::new(),
            device: None,
            begun_by: None,
            missed: None,
            first_since_start: anew.is_some(),
            started_anew: seen.anew,
            inputs: None,
            meanwhile: Vec::new(),
            meanwhile_more: 0,
            anew: anew.map(|(time, value)| (zone.format(time, 9), value.as_ref().map(value::text))),
            text: (from.as_ref().map(value::text), value::text(&moment.value)),
            alarms: (before.alarm.filter(|_| changed), moment.alarm),
            lead,
        })
    }
}

impl Moment {
    fn clone_ref(&self) -> Moment {
        let Moment { time, value, alarm, chain, path, life } = self;
        let (value, chain, path) = (value.clone(), Rc::clone(chain), path.clone());
        Moment { time: *time, value, alarm: *alarm, chain, path, life: life.clone() }
    }
}

impl Moment {
    /// When the record began to process; `None` if it was not processed but written.
    fn began(&self) -> Option<i64> {
        let mut chain: &Chain = &self.chain;
        for number in &self.path {
            let span = chain.spans.get(*number)?;
            match &span.kind {
                SpanKind::Link(link) => chain = link.target.as_deref()?,
                SpanKind::Process(_) => return Some(chain.run.wall(span.start)),
                SpanKind::Put(_) => return None,
            }
        }
        None
    }

    /// Whether each chain on the way to it began after `sure`, and not with a request that may be missing.
    fn is_certain(&self, sure: i64) -> bool {
        let mut chain: &Chain = &self.chain;
        for number in &self.path {
            let Some(root) = chain.root() else { return false };
            let by_itself = match &root.kind {
                SpanKind::Put(put) => put.packet.is_some(),
                SpanKind::Process(process) => process.trigger == Trigger::Scan,
                SpanKind::Link(_) => false,
            };
            if !by_itself || chain.run.wall(root.start) < sure {
                return false;
            }
            if let Some(Span { kind: SpanKind::Link(link), .. }) = chain.spans.get(*number) {
                let Some(target) = link.target.as_deref() else { return false };
                chain = target;
            }
        }
        true
    }
}

impl Seen {
    /// Takes what the recorder read after the last moment and before the chain of this one began. Returns when that was.
    fn read_before(&mut self, moment: &Moment) -> Option<i64> {
        let began = moment.chain.root().map_or(i64::MIN, |root| moment.chain.run.wall(root.start));
        let last = self.last.as_ref().map_or(i64::MIN, |last| last.time);
        let mut found = None;
        while self.read.front().is_some_and(|(time, ..)| *time < began) {
            let Some((time, value, alarm, life)) = self.read.pop_front() else { break };
            if time > last && !Life::began_after(moment.life.as_ref(), life.as_ref()) {
                if value != Value::Unknown {
                    self.value = Some(value);
                }
                self.alarm = Some(alarm);
                found = Some(time);
            }
        }
        found
    }

    /// When it last changed, and when it was last seen.
    fn rank(&self) -> (Option<i64>, Option<i64>) {
        let changed = self.changed.as_ref().map(|(moment, _)| moment.time);
        (changed, self.last.as_ref().map(|moment| moment.time))
    }

    /// Forgets what a former process had, if this is the first moment of another. Returns when that was last seen, and
    /// its value then.
    fn begin_anew(&mut self, moment: &Moment) -> Option<(i64, Option<Value>)> {
        let last = self.last.as_ref()?;
        if !Life::began_after(moment.life.as_ref(), last.life.as_ref()) {
            return None;
        }
        let (time, value) = (last.time, self.value.take());
        let held = (std::mem::take(&mut self.held), std::mem::take(&mut self.read));
        *self = Seen { held: held.0, read: held.1, last: self.last.take(), anew: true, ..Seen::default() };
        Some((time, value))
    }

    /// Evaluates the earliest of the moments held.
    fn settle(&mut self, ask: Ask) {
        let Some(moment) = self.held.pop_front() else { return };
        let anew = self.begin_anew(&moment);
        self.count += 1;
        let read = self.read_before(&moment);
        let seen = read.or(self.last.as_ref().filter(|_| anew.is_none()).map(|last| last.time));
        let began = moment.began();
        let processed = self.processed.1;
        self.processed = (processed, began.or(processed));
        let (alarm_before, value_before) = (self.alarm, self.value.take());
        self.alarm = moment.alarm.or(self.alarm);
        if moment.value != Value::Unknown {
            let before = value_before.or_else(|| before(&moment));
            let same = before.as_ref().and_then(|before| value::same(before, &moment.value));
            // The first value seen counts as a change only if the value before is known.
            if ask == Ask::Value && same.is_none() && self.in_doubt.is_none() {
                self.in_doubt = Some(moment.time);
            }
            if ask == Ask::Value && same.is_none() {
                self.doubt = Some(moment.time);
            }
            // A process begins with its own values, even if they are as those before.
            if ask == Ask::Value && (same == Some(false) || (anew.is_some() && read.is_none())) {
                let value = before.clone().filter(|_| same == Some(false));
                let before = Before { value, alarm: alarm_before, seen, processed, anew: anew.clone() };
                self.changed = Some((moment.clone_ref(), before));
            }
            self.value = Some(moment.value.clone());
        } else {
            // The next value may differ because of this one.
            self.unknown += u64::from(ask == Ask::Value);
            self.doubt = Some(moment.time).filter(|_| ask == Ask::Value).or(self.doubt);
        }
        if let (Ask::Alarm, Some(alarm)) = (ask, moment.alarm) {
            match alarm_before {
                Some(before) if before == alarm => {}
                // An alarm that was never seen to begin has begun at some time.
                None if alarm.0 == 0 && anew.is_none() => self.in_doubt = Some(moment.time),
                alarm => {
                    let before = Before { value: None, alarm, seen, processed, anew };
                    self.changed = Some((moment.clone_ref(), before));
                }
            }
        }
        self.previous = seen;
        self.last = Some(moment);
    }
}

/// The value of the field before the first moment in the log: from a put that led to it.
fn before(moment: &Moment) -> Option<Value> {
    let mut chain: &Chain = &moment.chain;
    let mut own = None;
    for number in &moment.path {
        let span = chain.spans.get(*number)?;
        own = Some((chain, span));
        if let SpanKind::Link(link) = &span.kind {
            chain = link.target.as_deref()?;
        }
    }
    let (chain, span) = own?;
    let put = match &span.kind {
        SpanKind::Put(put) => put,
        SpanKind::Process(process) => match &chain.spans.get(span.parent?)?.kind {
            SpanKind::Put(put) if put.record == Some(process.record) => put,
            _ => return None,
        },
        SpanKind::Link(_) => return None,
    };
    let field = field_name(&chain.run.context(), put.field).is_none_or(|field| field == "VAL");
    (put.old != Value::Unknown && (field || matches!(span.kind, SpanKind::Put(_)))).then(|| put.old.clone())
}

/// Whether the put made its record process; if so, its completion has the value.
fn processes(chain: &Chain, number: usize, put: &PutSpan) -> bool {
    field_name(&chain.run.context(), put.field) == Some("VAL")
        && chain.spans.iter().any(|span| match &span.kind {
            SpanKind::Process(process) => {
                let completed = matches!(process.outcome, Outcome::Completed(_));
                span.parent == Some(number) && Some(process.record) == put.record && completed
            }
            _ => false,
        })
}

/// The value of the field as the put left it.
fn accepted(chain: &Chain, number: usize, put: &PutSpan) -> Value {
    if number == 0 {
        return root_put(chain, None).map_or(Value::Unknown, |line| line.new);
    }
    let context = chain.run.context();
    match put.field.and_then(|field| context.field(field)) {
        Some(field) => value::convert(&put.requested, field.dbf),
        None => put.requested.clone(),
    }
}

/// A step on the path from the cause to the record.
#[derive(Serialize)]
pub struct Step {
    time: String,
    ioc: String,
    /// `put`, `process` or `ca_link`.
    what: &'static str,
    record: String,
    field: Option<String>,
    trigger: Option<&'static str>,
    old: serde_json::Value,
    value: serde_json::Value,
    severity: Option<&'static str>,
    #[serde(skip)]
    text: String,
    /// The alarm's severity and status, if any.
    #[serde(skip)]
    alarm: Option<(u16, u16)>,
}

/// Adds the steps from the chain's root to span `number`. If that is a CA link, returns the chain that it leads to, and
/// the record that the link belongs to.
fn way<'a>(
    chain: &'a Chain,
    number: usize,
    link: Option<&str>,
    zone: &Zone,
    steps: &mut Vec<Step>,
) -> Option<(String, &'a Chain)> {
    let mut numbers = Vec::new();
    let mut next = Some(number);
    while let Some(number) = next {
        numbers.push(number);
        next = chain.spans.get(number).and_then(|span| span.parent);
    }
    let mut leads = None;
    for number in numbers.into_iter().rev() {
        let Some(span) = chain.spans.get(number) else { continue };
        steps.push(step(chain, number, span, link, zone));
        if let SpanKind::Link(to) = &span.kind {
            let context = chain.run.context();
            let record = to.record.map(|record| record_name(&context, record)).unwrap_or_default();
            leads = to.target.as_deref().map(|target| (record, target));
        }
    }
    leads
}

/// Adds the records that were processed as inputs of that of span `number`, and as inputs of those.
fn inputs(chain: &Chain, number: usize, zone: &Zone, depth: usize, steps: &mut Vec<Step>) {
    for (child, span) in chain.spans.iter().enumerate().skip(number) {
        let is_input = matches!(&span.kind, SpanKind::Process(process) if process.trigger == Trigger::Input);
        if is_input && span.parent == Some(number) && steps.len() < MAX_INPUTS {
            steps.push(step(chain, child, span, None, zone));
            if depth < MAX_INPUTS {
                inputs(chain, child, zone, depth + 1, steps);
            }
        }
    }
}

fn step(chain: &Chain, number: usize, span: &Span, link: Option<&str>, zone: &Zone) -> Step {
    let context = chain.run.context();
    let mut step = Step {
        time: zone.format(chain.run.wall(span.start), 9),
        ioc: ioc_of_span(&context, span),
        what: "put",
        record: String::new(),
        field: None,
        trigger: None,
        old: serde_json::Value::Null,
        value: serde_json::Value::Null,
        severity: None,
        text: String::new(),
        alarm: None,
    };
    match &span.kind {
        SpanKind::Put(put) => {
            let line: Option<PutLine> = if number == 0 { root_put(chain, link) } else { None };
            let record = put.record.map(|record| record_name(&context, record));
            let named = line.as_ref().and_then(|line| line.record.clone());
            step.record = record.or(named).unwrap_or_default();
            step.field = field_name(&context, put.field).map(str::to_owned);
            step.old = value::json(&put.old);
            step.value = value::json(&put.requested);
            step.text = match &line {
                _ if put.only_processes => format!("processing of {} asked for", step.record),
                Some(line) => format!(
                    "{} {} {} by {}",
                    line.via.name(),
                    line.pv.as_deref().unwrap_or("(unnamed channel)"),
                    change(line),
                    who(line)
                ),
                None => {
                    let field = step.field.as_deref().unwrap_or("?");
                    let (old, new) = (value::text(&put.old), value::text(&put.requested));
                    format!("put to {}.{field}: {old} -> {new}", step.record)
                }
            };
        }
        SpanKind::Process(process) => {
            step.what = "process";
            step.record = record_name(&context, process.record);
            step.trigger = Some(process.trigger.name());
            step.text = match number {
                0 => format!("{} processed by {}", step.record, cause(chain, link)),
                _ => format!("{} processed by {}", step.record, process.trigger.name()),
            };
            if let Outcome::Completed(completed) = &process.outcome {
                step.value = value::json(&completed.value);
                step.severity = Some(severity_name(completed.severity));
                if completed.value != Value::Unknown && has_value(&context, process.record) {
                    step.text.push_str(" = ");
                    value::push_text(&mut step.text, &completed.value);
                    let word = enum_strings::state(&context, process.record, &completed.value);
                    enum_strings::push(&mut step.text, word.as_deref());
                }
                if completed.severity != 0 {
                    step.alarm = Some((completed.severity, completed.status));
                }
            }
        }
        SpanKind::Link(link) => {
            step.what = "ca_link";
            step.record = link.record.map(|record| record_name(&context, record)).unwrap_or_default();
            step.value = value::json(&link.value);
            let of = if step.record.is_empty() { "an unknown record" } else { &step.record };
            step.text = format!("CA link of {of} writes {} to {}", value::text(&link.value), link.pv);
        }
    }
    step
}

/// The reason why the PV changed.
#[derive(Serialize)]
pub struct Answer {
    pv: String,
    host: String,
    ioc: String,
    /// Time of the change.
    time: String,
    /// Whether its value is known to have changed.
    changed: bool,
    from: Option<serde_json::Value>,
    to: serde_json::Value,
    /// Time of the last processing or put.
    last_written: String,
    /// Whether it was processed or written after the change, with the same value.
    written_since: bool,
    /// Number of times that it was processed or written, in the part of the logs that was read.
    count: u64,
    /// Start of that part; null if everything was read. `before_known` and `values_unknown` are about that part, too.
    counted_since: Option<String>,
    /// Whether the value before the first of them is known. If not, that one may have been a change.
    before_known: bool,
    /// Number of them after which its value is unknown.
    values_unknown: u64,
    /// The cause as text.
    cause: String,
    /// Originator of the put at the root; null if the root is not a put.
    by: Option<String>,
    user: Option<String>,
    client_host: Option<String>,
    client: Option<String>,
    /// The path from the cause to the PV.
    chain: Vec<Step>,
    /// The records that were processed as its inputs, in the chain.
    read: Vec<Step>,
    /// `value` or `alarm`: whose last change this is.
    asked: &'static str,
    /// The alarms before and since; null where they are not known.
    from_alarm: Option<AlarmKeys>,
    to_alarm: Option<AlarmKeys>,
    /// When the record was seen to process, or its field to be written, before that.
    last_before: Option<String>,
    /// If the chain began by a CP link: the links that it may have been, and the last change of the source of each.
    links: Vec<Link>,
    /// If no put began the chain: the input links of the record, and the last change of the source of each; what
    /// changed since the record processed before comes first, the latest first. Empty if they are not known.
    sources: Vec<Source>,
    /// The record's device support, if that is known and it has a choice.
    device: Option<String>,
    /// What began it all, if each CP link on the way leads on without doubt.
    begun_by: Option<String>,
    /// What may have been missed since `last_before`, so that the value before may have been another.
    missed: Option<String>,
    /// Whether its IOC was started anew in the logs: what is said here is about its last process.
    started_anew: bool,
    /// Whether this is the record's first value, or its first alarm, in that process.
    first_since_start: bool,
    /// What the log does not tell of the record's inputs, if the chain did not begin by a put.
    inputs: Option<&'static str>,
    /// If the chain did not begin by a put: puts to the same IOC since `last_before`. They need not have to do with it.
    meanwhile: Vec<Meanwhile>,
    /// Number of such puts that are not listed.
    meanwhile_more: u64,
    /// The process that made the put at the root, as in `iocreplay puts`; null if no log tells.
    process: Option<serde_json::Value>,
    /// If this is the first in a process started anew: when the record was last seen in the one before, and its value.
    #[serde(skip)]
    anew: Option<(String, Option<String>)>,
    #[serde(skip)]
    text: (Option<String>, String),
    #[serde(skip)]
    alarms: (Option<Alarm>, Option<Alarm>),
    /// Where to look further.
    #[serde(skip)]
    lead: Lead,
}

/// An alarm as JSON.
#[derive(Serialize)]
pub struct AlarmKeys {
    severity: &'static str,
    status: &'static str,
}

impl From<Alarm> for AlarmKeys {
    fn from((severity, status): Alarm) -> Self {
        AlarmKeys { severity: severity_name(severity), status: enum_strings::status_name(status) }
    }
}

impl Answer {
    /// The answer, found by reading only what was recorded since a time.
    pub fn counted_since(self, since: i64, zone: &Zone) -> Answer {
        Answer { counted_since: Some(zone.format(since, 9)), ..self }
    }

    /// Writes it as text: the change, then its cause, then each step down to the PV; then what the cause followed.
    pub fn write_text(&self, out: &mut Out) -> io::Result<()> {
        self.write_change(out)?;
        line!(out, "Cause: {}", self.cause)?;
        if let Some(begun_by) = &self.begun_by {
            line!(out, "Begun by: {begun_by}")?;
        }
        for (depth, step) in self.chain.iter().enumerate() {
            add!(out, "  {}  {:indent$}{}", step.time, "", step.text, indent = 2 * depth.min(40));
            step.alarm.inspect(|(severity, status)| alarm::push(out, *severity, *status));
            line!(out)?;
        }
        for step in &self.read {
            line!(out, "Input: {}  {}", step.time, step.text)?;
        }
        self.write_sources(out)
    }

    fn write_change(&self, out: &mut Out) -> io::Result<()> {
        let Answer { pv, host, ioc, time, count, last_written, .. } = self;
        let place = match (ioc.is_empty(), host.is_empty()) {
            (false, false) => format!("  [{ioc} on {host}]"),
            (false, true) => format!("  [{ioc}]"),
            _ => String::new(),
        };
        if self.asked == "alarm" {
            return self.write_alarm(out, &place);
        }
        match (&self.text, self.changed) {
            ((Some(from), to), true) => line!(out, "{pv} changed from {from} to {to} at {time}{place}")?,
            ((None, to), true) => line!(out, "{pv} became {to} at {time}{place}")?,
            ((_, to), false) => {
                // A single write without a known value before may well have been a change.
                let within = self.within();
                let (what, remark) = match (self.before_known && self.values_unknown == 0, count) {
                    (true, _) => (format!("did not change {within}"), String::new()),
                    (false, 1) if self.counted_since.is_some() => {
                        ("may have changed".to_owned(), ", its value before was not looked for".into())
                    }
                    (false, 1) => {
                        (format!("may have changed {within}"), ", its value before is unknown".into())
                    }
                    (false, _) if self.values_unknown > 0 => (
                        format!("is not known to have changed {within}"),
                        format!(", {} times with an unknown value", self.values_unknown),
                    ),
                    (false, _) => (
                        format!("may have changed {within} with the first of these, and not since"),
                        ", its value before them is unknown".into(),
                    ),
                };
                let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
                line!(
                    out,
                    "{pv} {what} (processed or written {times}, value {to}{remark}); \
                     the last time at {time}{place}"
                )?;
            }
        }
        if self.changed && self.written_since {
            line!(out, "It was processed or written again, without a change, last at {last_written}.")?;
        }
        self.write_anew(out)?;
        self.write_missed(out)
    }

    /// The part of the logs that counts.
    pub(super) fn within(&self) -> &'static str {
        match self.started_anew {
            true => "since its IOC was started anew",
            false => "in these logs",
        }
    }

    /// Says if the IOC had been started anew since the record was seen before.
    pub(super) fn write_anew(&self, out: &mut Out) -> io::Result<()> {
        let Some((time, value)) = &self.anew else { return Ok(()) };
        let value = value.as_ref().map(|value| format!(", with the value {value}")).unwrap_or_default();
        line!(out, "Its IOC had been started anew: before that, it was last seen at {time}{value}.")
    }

    /// Writes it as one JSON object.
    pub fn write_json(&self, out: &mut Out) -> io::Result<()> {
        out.pretty_json(self)
    }
}
