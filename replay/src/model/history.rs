//! Values of fields over time: every moment at which a chain shows the value of a field.
//!
//! | source | the moment | value | alarm |
//! |---|---|---|---|
//! | `process` | a record has processed | of its value field | yes |
//! | `put` | a put that did not make its record process | as the put left it | no |
//! | `found` | a put found a value that was not the last one known | before the put | no |
//! | `snapshot` | the recorder read it from the IOC's memory | of its value field | yes |
//!
//! Times about which a log says nothing, or not all, are lines without a value ([`super::unseen`]).
//!
//! A put that was refused changes nothing and shows no value of its own. A put of unknown outcome leaves an unknown
//! value: later moments may show it again.

use super::chain::{Chain, Outcome as End, PutSpan, Span, SpanKind, Trigger};
use super::names::{IocProcess, Named, Names};
use super::notes::Moment;
use super::outcome::{self, Source};
use super::run::{self, field_name, has_value, record_name, Run};
use super::unseen::Unseen;
use super::value::{agrees, same};
use super::{attribute, enum_strings};
use crate::filter::Filter;
use crate::pattern::Pattern;
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{FieldId, Ioc, Properties, PvaKind, RecordId, Snapshot, Value};
use std::ops::Deref;
use std::rc::Rc;

/// How a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// Its record has processed.
    Process,
    /// A put wrote it.
    Put,
    /// A put found it there.
    Found,
    /// The recorder read it.
    Snapshot,
    /// No value: something went unseen, see [`ValueLine::unseen`].
    Unseen,
}

impl ValueSource {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            ValueSource::Process => "process",
            ValueSource::Put => "put",
            ValueSource::Found => "found",
            ValueSource::Snapshot => "snapshot",
            ValueSource::Unseen => "gap",
        }
    }
}

/// The value of a field at a moment.
#[derive(Clone)]
pub struct ValueLine {
    /// Wall-clock time, nanoseconds since 1970 UTC. The value was there at this time; with `found` and `snapshot`, it
    /// may have been there earlier.
    pub time: i64,
    /// Its place in the order of time ([`Run::even`]).
    pub even: i64,
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// IOC; empty if unknown.
    pub ioc: Rc<str>,
    /// Record.
    pub record: Rc<str>,
    /// Field.
    pub field: Rc<str>,
    /// The value; unknown if it may have changed to something that is not in the log.
    pub value: Value,
    /// The enum string or menu choice that the value stands for.
    pub text: Option<String>,
    /// Whether the log holds only a part of the value.
    pub cut: Option<bool>,
    /// Alarm severity and status, if known.
    pub alarm: Option<(u16, u16)>,
    /// How it is known.
    pub source: ValueSource,
    /// It is not certain to be the result of the put.
    pub inexact: bool,
    /// It was found or read, and is the last one known: its record may have changed it in between, and was not seen to
    /// complete.
    pub again: bool,
    /// A put to the field from outside of the IOC's records made it what it is.
    pub by_put: bool,
    /// The chain that led to it; `None` for a snapshot, and for a value that was found.
    pub origin: Option<Origin>,
    /// The process of the IOC; without a name if unknown.
    pub process: Rc<IocProcess>,
    /// The field in its run; `None` if the log does not know the record.
    pub of: Option<Of>,
    /// The record with which the chain began, if processing began it.
    pub root: Option<Rc<str>>,
    /// Time of the record's TIME field, for a snapshot of a record that has processed.
    pub stamp: Option<i64>,
    /// What went unseen, for lines without a value.
    pub unseen: Option<Box<Unseen>>,
}

/// A field in a run.
#[derive(Clone)]
pub struct Of {
    /// The run.
    pub run: Rc<Run>,
    /// The record.
    pub record: RecordId,
    /// The field; `None` for the value field, whose number is not known with it.
    pub field: Option<FieldId>,
}

impl ValueLine {
    /// The name of the PV: the record for VAL, or `record.FIELD`.
    pub fn pv(&self) -> String {
        match &*self.field {
            "VAL" => self.record.to_string(),
            field => format!("{}.{field}", self.record),
        }
    }

    /// Its process, record and field.
    pub fn key(&self) -> (Rc<IocProcess>, Rc<str>, Rc<str>) {
        (Rc::clone(&self.process), Rc::clone(&self.record), Rc::clone(&self.field))
    }

    /// The record's properties, as far as they were read.
    pub fn properties(&self) -> Option<Rc<Properties>> {
        let of = self.of.as_ref()?;
        of.run.properties(of.record, self.time)
    }

    /// Whether one of the patterns matches the PV's name. A record's name alone is its VAL.
    pub fn is_named(&self, patterns: &[Pattern]) -> bool {
        let (pv, value) = (self.pv(), format!("{}.VAL", self.record));
        let is_value = &*self.field == "VAL";
        patterns.iter().any(|pattern| pattern.matches(&pv) || is_value && pattern.matches(&value))
    }
}

/// The span in which a field got its value.
#[derive(Clone)]
pub struct Origin {
    /// The chain that began it all.
    pub chain: Rc<Chain>,
    /// The way to the span.
    pub path: Way,
}

/// The way to a span: in each chain a span's number; all but the last are CA links that lead on to another chain. Nearly all
/// have one number, for which nothing is asked of the allocator: each value has one.
#[derive(Clone, Debug)]
pub enum Way {
    /// In the chain that began it all.
    One(usize),
    /// Through CA links.
    More(Box<[usize]>),
}

impl From<&[usize]> for Way {
    fn from(numbers: &[usize]) -> Way {
        match numbers {
            [one] => Way::One(*one),
            more => Way::More(more.into()),
        }
    }
}

impl Deref for Way {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        match self {
            Way::One(number) => std::slice::from_ref(number),
            Way::More(numbers) => numbers,
        }
    }
}

impl Origin {
    /// The chain that the span is in, the span, and the record whose CA link led to that chain.
    pub fn last(&self) -> Option<(&Chain, &Span, Option<String>)> {
        let (mut chain, mut by): (&Chain, Option<String>) = (&self.chain, None);
        let (last, links) = self.path.split_last()?;
        for number in links {
            let SpanKind::Link(link) = &chain.spans.get(*number)?.kind else { return None };
            by = link.record.map(|record| record_name(&chain.run.context(), record));
            chain = link.target.as_deref()?;
        }
        Some((chain, chain.spans.get(*last)?, by))
    }
}

/// Calls `each` for the values in a chain, and in those that its CA links led to, that match the filter, in no
/// particular order: each with its way in the chain. Lines have no origin yet.
pub fn each_value(
    chain: &Chain,
    filter: &Filter,
    names: &mut Names,
    each: &mut impl FnMut(ValueLine, &[usize]),
) {
    walk(chain, filter, names, &mut Vec::new(), each);
}

fn walk(
    chain: &Chain,
    filter: &Filter,
    names: &mut Names,
    path: &mut Vec<usize>,
    each: &mut impl FnMut(ValueLine, &[usize]),
) {
    let context = chain.run.context();
    for (number, span) in chain.spans.iter().enumerate() {
        path.push(number);
        let is_from_outside = path.len() == 1;
        let mut at = At { chain, context: &context, span, filter, names, is_from_outside };
        match &span.kind {
            SpanKind::Process(process) => {
                if let End::Completed(completed) = &process.outcome {
                    let of = Field { record: Ok(process.record), field: None, name: "VAL" };
                    if let Some(line) = at.line(of, span.end) {
                        let value = match has_value(&context, process.record) {
                            true => completed.value.clone(),
                            false => Value::Unknown,
                        };
                        let alarm = Some((completed.severity, completed.status));
                        let by_put =
                            path.len() == 1 && is_as_put(chain, &context, span, process.record, &value);
                        let from = outcome::shown_by(&context, Some(process.record), &value);
                        let line = with(line, &context, of, span.end, value, from);
                        each(ValueLine { alarm, by_put, ..line }, path);
                    }
                }
            }
            SpanKind::Put(put) => at.put(number, put, &mut |line| each(line, path)),
            SpanKind::Link(link) => {
                if let Some(target) = &link.target {
                    walk(target, filter, at.names, path, each);
                }
            }
        }
        path.pop();
    }
}

/// A field of a record.
#[derive(Clone, Copy)]
struct Field<'a> {
    /// The record, or its name if the log has no number for it.
    record: Result<RecordId, &'a str>,
    field: Option<FieldId>,
    name: &'a str,
}

/// A span, and what is wanted of it.
struct At<'a> {
    chain: &'a Chain,
    context: &'a Context,
    span: &'a Span,
    filter: &'a Filter,
    names: &'a mut Names,
    /// Whether no CA link led to its chain.
    is_from_outside: bool,
}

impl<'a> At<'a> {
    /// The value that a put found, and the one that it left.
    fn put(&mut self, number: usize, put: &'a PutSpan, each: &mut impl FnMut(ValueLine)) {
        let context = self.context;
        if put.only_processes || outcome::acknowledges(context, put) || is_call(put) {
            return;
        }
        let Some(of) = self.target(put) else { return };
        let begun = put.written.unwrap_or(self.span.start);
        let definition = put.field.and_then(|field| context.field(field));
        if put.old != Value::Unknown {
            let old = outcome::as_asked(context, put, definition, put.old.clone());
            if let Some(line) = self.line(of, begun) {
                let line = with(line, context, of, begun, old, Source::Head);
                each(ValueLine { source: ValueSource::Found, ..line });
            }
        }
        if attribute::is_attribute(context, put) {
            return; // which no put changes
        }
        if processes(self.chain, number, put, of.name) {
            return; // its completion has the value
        }
        let outcome::Outcome { status, new, inexact, as_asked } =
            outcome::of(self.chain, context, number, put);
        // An answer other than "ok" is a refusal, unless the field is seen to have changed; "unknown" may be either.
        let failed = status != "ok" && status != "unknown";
        let is_cut = outcome::is_cut(&put.old, Source::Head) == Some(true);
        let has_changed = !inexact && agrees(&new, &put.old, is_cut) == Some(false);
        // a put to a link shows no `dbPut`
        let is_link = definition.is_some_and(|field| field.dbf.is_link());
        let is_kept_out = || outcome::is_kept_out(self.chain, number, put);
        let reached = put.wrote || is_link || put.packet.is_some() && !is_kept_out();
        if failed && !has_changed || !reached {
            return;
        }
        let by_put = self.is_from_outside && self.span.parent.is_none();
        // The answer to a put with callback comes when all that it set off is done. What a client alone was seen to ask for was
        // written long before.
        let by_message = put.kind.is_none().then_some(self.span.start);
        let time = put.written.or(by_message).unwrap_or(self.span.end);
        if let Some(line) = self.line(of, time) {
            let from = outcome::source_of_new(context, put, &new, as_asked);
            let line = with(line, context, of, time, new, from);
            each(ValueLine { source: ValueSource::Put, inexact, by_put, ..line });
        }
    }

    /// The field that a put writes to. Without probes, it is known by the name that the client gave.
    fn target(&self, put: &'a PutSpan) -> Option<Field<'a>> {
        let context = self.context;
        if let Some(record) = put.record {
            // Without a name it may be any field.
            let name = match attribute::of(context, put) {
                Some(attribute) => Some(attribute).filter(|name| !name.is_empty())?,
                None => field_name(context, put.field)?,
            };
            return Some(Field { record: Ok(record), field: put.field, name });
        }
        let packet = put.packet.as_ref()?;
        let pv = Pv::new(&context.channel(packet.channel)?.pv);
        let ioc = ioc_of(context, self.span);
        let record = ioc.and_then(|ioc| context.by_alias(ioc.id, pv.record)).map(|record| record.id);
        let by_name = !pv.record.is_empty();
        by_name.then_some(Field { record: record.ok_or(pv.record), field: put.field, name: pv.field })
    }

    /// A line for this field at this monotonic time, if it matches the filter.
    fn line(&mut self, of: Field, time: u64) -> Option<ValueLine> {
        let (time, even) = (self.chain.run.wall(time), self.chain.run.even(time));
        if !self.filter.time(time) {
            return None;
        }
        let (run, context) = (&self.chain.run, self.context);
        let named = match of.record {
            Ok(record) => {
                let (span, filter) = (self.span, self.filter);
                self.names.field(run, context, record, of.name, || ioc_of(context, span), filter)?
            }
            Err(record) => {
                let process = self.names.process(run, context, ioc_of(context, self.span));
                let wanted =
                    self.filter.field(record, of.name) && self.filter.place(&process.host, &process.ioc);
                wanted.then(|| Named { process, record: record.into(), field: of.name.into() })?
            }
        };
        let of = of.record.ok().map(|record| Of { run: Rc::clone(run), record, field: of.field });
        Some(ValueLine { even, ..ValueLine::new(time, named, of) })
    }
}

impl ValueLine {
    /// A line that shows no value yet.
    fn new(time: i64, named: Named, of: Option<Of>) -> ValueLine {
        let Named { process, record, field } = named;
        ValueLine {
            time,
            even: time,
            host: Rc::clone(&process.host),
            ioc: Rc::clone(&process.ioc),
            record,
            field,
            value: Value::Unknown,
            text: None,
            cut: None,
            alarm: None,
            source: ValueSource::Process,
            inexact: false,
            again: false,
            by_put: false,
            origin: None,
            process,
            of,
            root: None,
            stamp: None,
            unseen: None,
        }
    }

    /// The line of a snapshot, if it matches the filter.
    pub fn of_snapshot(
        run: &Rc<Run>,
        Moment { wall: time, at, .. }: Moment,
        snapshot: &Snapshot,
        names: &mut Names,
        filter: &Filter,
    ) -> Option<ValueLine> {
        let context = run.context();
        if !filter.time(time) || !has_value(&context, snapshot.record) {
            return None;
        }
        let named = names.field(run, &context, snapshot.record, "VAL", || None, filter)?;
        let of = Of { run: Rc::clone(run), record: snapshot.record, field: None };
        let field = Field { record: Ok(snapshot.record), field: None, name: "VAL" };
        let line = ValueLine::new(time, named, Some(of));
        let line = with(line, &context, field, at, snapshot.value.clone(), Source::Whole);
        let alarm = Some((snapshot.severity, snapshot.status));
        Some(ValueLine { alarm, source: ValueSource::Snapshot, stamp: snapshot.stamp, ..line })
    }

    /// The line of something unseen.
    pub fn of_unseen(unseen: Unseen, process: Rc<IocProcess>) -> ValueLine {
        let named = Named { process, record: unseen.record.clone().unwrap_or_default(), field: "".into() };
        let line = ValueLine { even: unseen.even.1, ..ValueLine::new(unseen.time, named, None) };
        ValueLine { source: ValueSource::Unseen, unseen: Some(Box::new(unseen)), ..line }
    }
}

/// Whether it is a call over PVAccess (RPC), which asks for no field to be written.
fn is_call(put: &PutSpan) -> bool {
    let request = put.packet.as_ref().and_then(|packet| packet.pva.as_ref());
    request.is_some_and(|request| request.kind == PvaKind::Rpc)
}

/// The IOC of a span.
fn ioc_of<'a>(context: &'a Context, span: &Span) -> Option<&'a Ioc> {
    let by_thread = span.thread.and_then(|thread| run::ioc_of_thread(context, thread));
    by_thread.or_else(|| match &span.kind {
        SpanKind::Put(put) => run::ioc_of_circuit(context, put.packet.as_ref()?.circuit),
        _ => None,
    })
}

/// The record with which a chain began, if processing began it.
pub fn root_record(chain: &Chain, names: &mut Names) -> Option<Rc<str>> {
    let SpanKind::Process(process) = &chain.root()?.kind else { return None };
    names.record(&chain.run, &chain.run.context(), process.record)
}

/// The line with its value, which comes from there, and its text at a monotonic time.
fn with(line: ValueLine, context: &Context, of: Field, time: u64, value: Value, from: Source) -> ValueLine {
    let record = of.record.ok();
    let text = match (of.field, record) {
        (Some(_), _) => enum_strings::word(context, record, of.field, time, &value),
        (None, Some(record)) if of.name == "VAL" => enum_strings::state(context, record, time, &value),
        (None, _) => None,
    };
    ValueLine { cut: outcome::is_cut(&value, from), text, value, ..line }
}

/// Whether a put from outside to this record's value made it process, and the value is the requested one: the record has
/// not computed or read another.
fn is_as_put(chain: &Chain, context: &Context, span: &Span, record: RecordId, value: &Value) -> bool {
    let Some(SpanKind::Put(put)) = span.parent.and_then(|put| chain.spans.get(put)).map(|span| &span.kind)
    else {
        return false;
    };
    let field = put.field.and_then(|field| context.field(field));
    let is_value = put.record == Some(record) && field.is_some_and(|field| field.name == "VAL");
    let is_root = span.parent == Some(0) && chain.spans.first().is_some_and(|root| root.parent.is_none());
    let asked = outcome::asked(context, put, field);
    // an array may have been asked for in another type than its elements have
    let room = chain.run.room(record);
    is_value && is_root && (same(&asked, value) == Some(true) || outcome::holds_all(&asked, value, room))
}

/// Whether the put made its record process to the end; if so, that shows the value. Not so where another put wrote to
/// the field before that end, nor where the record still processed for something else and did so once more: the field
/// has had the value of this put since it was written.
pub(crate) fn processes(chain: &Chain, number: usize, put: &PutSpan, field: &str) -> bool {
    let overwritten = put.after.as_ref().and_then(|after| after.overwritten).unwrap_or(u64::MAX);
    field == "VAL"
        && chain.spans.iter().any(|span| match &span.kind {
            SpanKind::Process(process) => {
                let completed = matches!(process.outcome, End::Completed(_));
                let own = span.parent == Some(number) && Some(process.record) == put.record && completed;
                own && span.end <= overwritten && process.trigger != Trigger::Once
            }
            _ => false,
        })
}

#[cfg(test)]
impl ValueLine {
    /// A line for tests of drawings.
    pub fn of_number(time: i64, value: f64) -> ValueLine {
        let empty: Rc<str> = "".into();
        let [host, ioc, boot] = [&empty, &empty, &empty].map(Rc::clone);
        let process = Rc::new(IocProcess { host, ioc, boot, pid: 1, start: 0 });
        let named = Named { process, record: "T:AO".into(), field: "VAL".into() };
        ValueLine { value: Value::Double(value), alarm: Some((0, 0)), ..ValueLine::new(time, named, None) }
    }
}
