//! Moments in which a PV's field got a value, and what they show of its last change in one IOC.

use super::life::Life;
use super::Ask;
use crate::model::alarms::Alarm;
use crate::model::chain::{Chain, Span, SpanKind, Trigger};
use crate::model::roots::Roots;
use crate::model::run::{field_name, record_name, HeldIoc};
use crate::model::{enum_strings, outcome, putlog, value};
use crate::time::SECOND;
use iocrec_log::event::Value;
use std::collections::VecDeque;
use std::rc::Rc;

/// Moments held to sort them: chains come in the order in which they began, and asynchronous records complete later.
pub(super) const HELD: usize = 64;

/// A moment in which the PV's field got a value (or the same one again).
pub(super) struct Moment {
    pub(super) time: i64,
    /// Its place in the order of time.
    pub(super) even: i64,
    pub(super) value: Value,
    /// Severity and status, if they are known.
    pub(super) alarm: Option<Alarm>,
    pub(super) chain: Rc<Chain>,
    /// The path to the span: for each chain a span's number, first those of the CA links that lead on, last the
    /// record's own.
    pub(super) path: Vec<usize>,
    /// The process that it happened in; `None` if the log does not know it.
    pub(super) life: Option<Life>,
    /// Keeps the names of what is on the path, also after the end of their IOCs.
    pub(super) held: Rc<[HeldIoc]>,
}

/// How much later than what was seen last a reading has to be, to be of another value: it is not of the same moment as a
/// processing beside it.
const READ_LATER: i64 = SECOND as i64;

/// What the recorder read of a record.
pub(super) struct Reading {
    /// Its place in the order of time, and its time as the machine's clock had it.
    pub(super) times: (i64, i64),
    pub(super) value: Value,
    pub(super) alarm: Alarm,
    /// The process that it was read of.
    pub(super) life: Option<Life>,
}

/// Knowledge of the PV in one IOC.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) held: VecDeque<Moment>,
    /// The latest value.
    pub(super) value: Option<Value>,
    /// The latest change, and what was before it.
    pub(super) changed: Option<(Moment, Before)>,
    pub(super) last: Option<Moment>,
    /// When the record last began to process, before `last`, and in `last`.
    pub(super) processed: (Option<i64>, Option<i64>),
    /// When its record was last seen to process, or to be written, before `last`: in the order of time, and as the clock had it.
    pub(super) previous: Option<(i64, i64)>,
    /// The latest alarm.
    pub(super) alarm: Option<Alarm>,
    /// What the recorder read of the record since the latest of these.
    pub(super) read: VecDeque<Reading>,
    pub(super) count: u64,
    /// Time of the first value that may have been a change: the value before it is unknown.
    pub(super) in_doubt: Option<i64>,
    /// Number of times that it was put to or processed with a value of which not all is known.
    pub(super) unknown: u64,
    /// Time of the last value that may have been a change, or is unknown.
    pub(super) doubt: Option<i64>,
    /// The records with which its chains began.
    pub(super) roots: Roots<String>,
    /// Whether the IOC was started anew, and only what was seen since then counts.
    pub(super) anew: bool,
    /// What the recorder read since the last change, and when, if that is another value: a change that was not seen.
    pub(super) otherwise: Option<(i64, Value)>,
}

/// What was before a change.
#[derive(Clone, Default)]
pub(super) struct Before {
    pub(super) value: Option<Value>,
    pub(super) alarm: Option<Alarm>,
    /// When that was last seen: in the order of time, and as the clock had it.
    pub(super) seen: Option<(i64, i64)>,
    /// When the record began to process the last time before.
    pub(super) processed: Option<i64>,
    /// If this was the first in a new process: when the record was last seen in the one before, and its value then.
    pub(super) anew: Option<(i64, Option<Value>)>,
}

/// Holds the IOCs of the chains on a path.
pub(super) fn hold(chain: &Rc<Chain>, path: &[usize]) -> Rc<[HeldIoc]> {
    let mut chain: &Chain = chain;
    let mut held = Vec::new();
    for number in path {
        let Some(span) = chain.spans.get(*number) else { break };
        let ioc = putlog::ioc(&chain.run.context(), span).map(|ioc| ioc.id);
        held.extend(ioc.map(|ioc| chain.run.hold(ioc)));
        if let SpanKind::Link(link) = &span.kind {
            let Some(target) = link.target.as_deref() else { break };
            chain = target;
        }
    }
    held.into()
}

impl Moment {
    pub(super) fn clone_ref(&self) -> Moment {
        let Moment { time, even, value, alarm, chain, path, life, held } = self;
        let held = Rc::clone(held);
        let (value, chain, path) = (value.clone(), Rc::clone(chain), path.clone());
        Moment { time: *time, even: *even, value, alarm: *alarm, chain, path, life: life.clone(), held }
    }

    /// The value before it, if it is known, and that which it left, as texts; of a record's value with the names of states as
    /// they were then.
    pub(super) fn shown(&self, before: Option<&Value>, is_value: bool) -> (Option<String>, String) {
        let own = own(self).filter(|_| is_value).and_then(|(chain, span)| match &span.kind {
            SpanKind::Process(process) => Some((chain, span, process.record)),
            SpanKind::Put(put) => Some((chain, span, put.record?)),
            SpanKind::Link(_) => None,
        });
        let shown = |value: &Value, is_before: bool| {
            let mut text = value::text(value);
            let state = own.and_then(|(chain, span, record)| {
                let time = if is_before { span.start } else { span.end };
                enum_strings::state(&chain.run.context(), record, time, value)
            });
            enum_strings::push(&mut text, state.as_deref());
            text
        };
        (before.map(|value| shown(value, true)), shown(&self.value, false))
    }

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

    /// Whether its record's processing shows all of a text of this length, as it may have been cut elsewhere.
    fn shows_whole(&self, value: &Value) -> bool {
        let Some((chain, span)) = own(self) else { return false };
        let SpanKind::Process(process) = &span.kind else { return false };
        let shown = outcome::shown_by(&chain.run.context(), Some(process.record), value);
        outcome::is_cut(value, shown) == Some(false)
    }

    /// Whether each chain on the way to it began after `sure`, and not with a request that may be missing.
    pub(super) fn is_certain(&self, sure: i64) -> bool {
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
    /// Takes what the recorder read after the last moment and before the chain of this one began. Returns when that was, in the
    /// order of time and as the clock had it.
    fn read_before(&mut self, moment: &Moment) -> Option<(i64, i64)> {
        let began = moment.chain.root().map_or(i64::MIN, |root| moment.chain.run.even(root.start));
        let last = self.last.as_ref().map_or(i64::MIN, |last| last.even);
        let mut found = None;
        while self.read.front().is_some_and(|reading| reading.times.0 < began) {
            let Some(Reading { times: (even, time), value, alarm, life }) = self.read.pop_front() else {
                break;
            };
            if even > last && !Life::began_after(moment.life.as_ref(), life.as_ref()) {
                if value != Value::Unknown {
                    self.note_read(time, &value);
                    self.value = Some(value);
                }
                self.alarm = Some(alarm);
                found = Some((even, time));
            }
        }
        found
    }

    /// Notes that the recorder read another value than the last that was seen.
    fn note_read(&mut self, time: i64, value: &Value) {
        let is_later = self.last.as_ref().is_some_and(|last| time.saturating_sub(last.time) >= READ_LATER);
        // of a long text, what processes shows the beginning only
        let is_cut = |own: &Value| outcome::is_cut(own, outcome::Source::Head) == Some(true);
        let differs = self
            .value
            .as_ref()
            .is_some_and(|own| value::agree((own, is_cut(own)), (value, false)) == Some(false));
        if is_later && differs {
            self.otherwise = Some((time, value.clone()));
        }
    }

    /// When the recorder first read the record in a process that has followed the one of the last moment.
    pub(super) fn read_anew(&self) -> Option<i64> {
        let last = self.last.as_ref()?;
        let is_later = |reading: &&Reading| Life::began_after(reading.life.as_ref(), last.life.as_ref());
        self.read.iter().find(is_later).map(|reading| reading.times.1)
    }

    /// Takes what the recorder read after the last moment.
    pub(super) fn read_since(&mut self) {
        let Some(last) = &self.last else { return };
        let (even, life) = (last.even, last.life.clone());
        let is_since = |reading: &Reading| {
            reading.times.0 > even
                && reading.value != Value::Unknown
                && !Life::began_after(life.as_ref(), reading.life.as_ref())
                && !Life::began_after(reading.life.as_ref(), life.as_ref())
        };
        for reading in std::mem::take(&mut self.read).into_iter().filter(is_since) {
            self.note_read(reading.times.1, &reading.value);
            self.value = Some(reading.value);
        }
    }

    /// When it last changed, and when it was last seen.
    pub(super) fn rank(&self) -> (Option<i64>, Option<i64>) {
        let changed = self.changed.as_ref().map(|(moment, _)| moment.even);
        (changed, self.last.as_ref().map(|moment| moment.even))
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
    pub(super) fn settle(&mut self, ask: Ask) {
        let Some(moment) = self.held.pop_front() else { return };
        let anew = self.begin_anew(&moment);
        self.count += 1;
        let read = self.read_before(&moment);
        let last = self.last.as_ref().filter(|_| anew.is_none());
        let seen = read.or(last.map(|last| (last.even, last.time)));
        let began = moment.began();
        let processed = self.processed.1;
        self.processed = (processed, began.or(processed));
        let (alarm_before, value_before) = (self.alarm, self.value.take());
        self.alarm = moment.alarm.or(self.alarm);
        if moment.value != Value::Unknown {
            // of a text, a put shows the beginning of what it finds, and so does what processes of a long one
            let is_head_cut = |value: &Value| outcome::is_cut(value, outcome::Source::Head) == Some(true);
            let is_cut = |value: &Value| is_head_cut(value) && !moment.shows_whole(value);
            let (before, is_before_cut) = match value_before {
                Some(value) => {
                    let is_cut = is_cut(&value);
                    (Some(value), is_cut)
                }
                None => {
                    let found = before(&moment);
                    let is_cut = found.as_ref().is_some_and(is_head_cut);
                    (found, is_cut)
                }
            };
            let is_moment_cut = is_cut(&moment.value);
            let same = before
                .as_ref()
                .and_then(|before| value::agree((&moment.value, is_moment_cut), (before, is_before_cut)));
            // The first value seen counts as a change only if the value before is known.
            if ask == Ask::Value && same.is_none() && self.in_doubt.is_none() {
                self.in_doubt = Some(moment.time);
            }
            if ask == Ask::Value && same.is_none() {
                self.doubt = Some(moment.time);
            }
            // of a value that is cut, the rest may have changed
            let may_differ = is_moment_cut || is_before_cut;
            if ask == Ask::Value && same == Some(true) && may_differ {
                self.unknown += 1;
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
        if self.changed.as_ref().is_some_and(|(changed, _)| changed.even == moment.even) {
            self.otherwise = None;
        }
        self.previous = seen;
        if let Some(SpanKind::Process(root)) = moment.chain.root().map(|root| &root.kind) {
            let run = &moment.chain.run;
            if run.is_sampled() {
                self.roots.note(record_name(&run.context(), root.record));
            }
        }
        self.last = Some(moment);
    }
}

/// The record's own span, and the chain that has it.
fn own(moment: &Moment) -> Option<(&Chain, &Span)> {
    let mut chain: &Chain = &moment.chain;
    let mut own = None;
    for number in &moment.path {
        let span = chain.spans.get(*number)?;
        own = Some((chain, span));
        if let SpanKind::Link(link) = &span.kind {
            chain = link.target.as_deref()?;
        }
    }
    own
}

/// The value of the field before the first moment in the log: from a put that led to it.
fn before(moment: &Moment) -> Option<Value> {
    let (chain, span) = own(moment)?;
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
