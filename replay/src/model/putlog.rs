//! Puts as people ask for them: who wrote which value, from where, with what result.

use super::caller::{self, Caller, Role};
use super::chain::{Chain, Completed, Outcome as End, Packet, ProcessSpan, PutSpan, Span, SpanKind, Trigger};
use super::client::{self, Client, Holder, Joined, Part};
use super::outcome::{self, Outcome, Source};
use super::pva_value::Sent;
use super::run::{self, field_name, ioc_of_circuit, ioc_of_thread, record_name};
use super::span_ids::{span_ids, trace_id, Ids, SpanId};
use super::updates::Before;
use super::{attribute, enum_strings, value};
use epics::{Dbr, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, Dbf, Ioc, PutKind, PvaKind, RecordId, Value};
use std::borrow::Cow;
use std::rc::Rc;

/// The way by which a put reached its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Channel Access WRITE.
    CaWrite,
    /// Channel Access WRITE_NOTIFY.
    CaWriteNotify,
    /// An IOC's CA link, or another Channel Access client within an IOC's process.
    CaLink,
    /// The same of PVAccess.
    PvaLink,
    /// A database link.
    DbLink,
    /// pvAccess.
    Pva,
    /// `dbpf`, or another command that puts, in the IOC shell.
    Dbpf,
    /// Python code that hosts the IOC.
    Python,
    /// Unknown.
    Unknown,
}

impl Via {
    /// Its name in the put log; part of the format.
    pub fn name(self) -> &'static str {
        match self {
            Via::CaWrite => "ca_write",
            Via::CaWriteNotify => "ca_write_notify",
            Via::CaLink => "ca_link",
            Via::PvaLink => "pva_link",
            Via::DbLink => "db_link",
            Via::Pva => "pva",
            Via::Dbpf => "dbpf",
            Via::Python => "python",
            Via::Unknown => "unknown",
        }
    }

    /// Whether it comes from outside all IOCs. Values that Python code sets in the IOC that it hosts come from inside,
    /// like a link's puts.
    pub fn is_from_outside(self) -> bool {
        !matches!(self, Via::CaLink | Via::PvaLink | Via::DbLink | Via::Python)
    }
}

/// A put.
#[derive(Clone, Debug, PartialEq)]
pub struct PutLine {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time ([`Run::even`](super::run::Run::even)).
    pub even: i64,
    /// Host that recorded it.
    pub host: Option<Rc<str>>,
    /// IOC.
    pub ioc: Option<Rc<str>>,
    /// Id and start of its process, if the IOC is known.
    pub ioc_process: Option<(u32, u64)>,
    /// PV as the client named it; otherwise record and field.
    pub pv: Option<String>,
    /// Record.
    pub record: Option<String>,
    /// Field.
    pub field: Option<String>,
    /// User name that the client claims.
    pub user: Option<Rc<str>>,
    /// Host name that the client claims.
    pub client_host: Option<Rc<str>>,
    /// The client's address.
    pub client: Option<Rc<str>>,
    /// The server's address.
    pub server: Option<Rc<str>>,
    /// The way it came.
    pub via: Via,
    /// Type of the request; empty if it is unknown, as is the count then: no message was seen, and no `dbPut` was reached.
    pub dbr: Cow<'static, str>,
    /// Element count of the request.
    pub count: u32,
    /// The requested value.
    pub requested: Value,
    /// The value of the field before.
    pub old: Value,
    /// The value of the field afterwards.
    pub new: Value,
    /// The text for `old`: a state, a menu's choice.
    pub old_text: Option<String>,
    /// The text for `new`.
    pub new_text: Option<String>,
    /// The result: `ok`, an ECA name, `denied`, `unknown`.
    pub status: Cow<'static, str>,
    /// Milliseconds from a put with callback to its answer.
    pub callback_ms: Option<f64>,
    /// Name of the thread that carried it out.
    pub thread: Option<Rc<str>>,
    /// Seen as `packet`, by a `probe`, or `both`.
    pub source: &'static str,
    /// `new` is not certain to be the result of the put: it is the requested value, converted to the field's type, or
    /// was read when something else may have changed the field in the meantime.
    pub inexact: bool,
    /// Whether `new` was not read at all, but is the requested value of a put that was accepted.
    pub as_asked: bool,
    /// The record whose CA link made it.
    pub cause_record: Option<String>,
    /// Whether the log holds only part of it; `None` if it holds nothing.
    pub requested_cut: Option<bool>,
    /// The same for `old`.
    pub old_cut: Option<bool>,
    /// The same for `new`.
    pub new_cut: Option<bool>,
    /// Set if it writes no value, but acknowledges an alarm (`ACKS`) or sets whether alarms that have cleared must be
    /// acknowledged (`ACKT`).
    pub acknowledges: Option<&'static str>,
    /// The recorded IOC whose process is the client.
    pub client_ioc: Option<Rc<str>>,
    /// Wall-clock time at which it was done: a put with callback when it was answered, another when the IOC's function
    /// returned. `time` if the end was not seen.
    pub ended: i64,
    /// Wall-clock time at which the record that it made process read its value or was done, which is about the record's
    /// time stamp; `None` if it made none process.
    pub processed: Option<i64>,
    /// Record type.
    pub rtype: Option<Rc<str>>,
    /// Type of the field.
    pub dbf: Option<Dbf>,
    /// Whether the IOC's function that writes fields was seen to be reached.
    pub wrote: bool,
    /// When that was, a place in the order of time: all recorders of a machine see it at once, while the message that asked for it
    /// came before, and one may have missed that.
    pub written: Option<i64>,
    /// The protocol of the message that requested it: `ca` or `pva`; `None` if no message was seen.
    pub protocol: Option<&'static str>,
    /// What PVAccess adds, if it came by that.
    pub pva: Option<Box<PvaLine>>,
    /// The process behind the client, if a log tells.
    pub process: Option<Box<ProcessLine>>,
    /// The ids of its span, if they were asked for.
    pub span: Option<Ids>,
}

/// The process that made a put, as the kernel of its host and the probes there told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessLine {
    /// Its host, by the name that its recorder gives it.
    pub host: Option<String>,
    /// The processes that held the client's socket, the one that had it first before the others: mostly one. None: the
    /// client is on its host, but no process was found.
    pub holders: Vec<Holder>,
    /// Number of further ones.
    pub more: u32,
    /// Whether all processes were looked at.
    pub is_whole: bool,
    /// The recorded IOC that it is, with its pid and program.
    pub ioc: Option<(String, u32, String)>,
    /// The record whose link made the put, with the link's field if that is known.
    pub record: Option<String>,
    /// The thread that did it.
    pub thread: Option<String>,
    /// If these are not known: what may have done it.
    pub part: Part,
    /// How far the clock of its host is ahead of that of the put's host, nanoseconds; `None` if they are one host, or if it is
    /// not known.
    pub ahead: Option<i64>,
    /// Whether another host's log tells.
    pub is_joined: bool,
    /// The updates that may have made it put, if they were asked for.
    pub after: Option<Box<Before>>,
}

/// What PVAccess adds to a put.
#[derive(Clone, Debug, PartialEq)]
pub struct PvaLine {
    /// What was asked for: `put`, `put_get`, `process`, `rpc`.
    pub request: &'static str,
    /// The fields that were sent, by name: of a put to a record `value`, perhaps with others; of a group those of its
    /// members; of a call its arguments.
    pub fields: Vec<(String, Value)>,
    /// Whether fields are missing among them, or their values cannot be read.
    pub is_cut: bool,
    /// Which of them is the line's requested value, if one is.
    pub main: Option<usize>,
    /// The client's options, as `process` and `block`.
    pub options: Vec<(String, String)>,
    /// The server's message.
    pub message: Option<String>,
    /// The fields that the server sent back: the result of a call, or the values after a PUT_GET.
    pub result: Vec<(String, Value)>,
    /// Of a group, the puts to its members that were seen in the IOC.
    pub members: Vec<PutLine>,
}

impl ProcessLine {
    /// A client, and how another log was joined that tells of it.
    pub fn of(client: Client, joined: Option<Joined>) -> ProcessLine {
        ProcessLine {
            host: Some(client.host).filter(|host| !host.is_empty()),
            holders: client.holders,
            more: client.more,
            is_whole: client.is_whole,
            ioc: client.named,
            ahead: joined.and_then(|joined| joined.ahead),
            is_joined: joined.is_some(),
            ..ProcessLine::default()
        }
    }

    /// The only process that can be it.
    pub fn only(&self) -> Option<&Holder> {
        match self.holders.as_slice() {
            [only] if self.more == 0 => Some(only),
            _ => None,
        }
    }
}

impl PutLine {
    /// Whether it was answered with an error. That need not mean that the field is as it was: `dbPut` writes before a
    /// record type's special processing objects, and the record processes before its output fails.
    pub fn has_failed(&self) -> bool {
        self.status != "ok" && self.status != "unknown"
    }

    /// Whether it was answered with an error, and changed its field nevertheless. Of a text that a put found, the log may hold
    /// the beginning only.
    pub fn has_changed_anyway(&self) -> bool {
        self.has_failed()
            && self.status != "denied"
            && !self.inexact
            && value::agrees(&self.new, &self.old, self.old_cut == Some(true)) == Some(false)
    }

    /// Whether it is known not to have written to its field: access security stopped it, or it was seen in the IOC and
    /// never came to the function that writes.
    pub fn has_not_written(&self) -> bool {
        let is_seen_to_fail = self.has_failed() && self.source != "packet" && !self.wrote;
        (self.status == "denied" || is_seen_to_fail) && !self.may_be_in_part()
    }

    /// Whether some of what it asked for may be written though the server refused it: a group's members are written one by
    /// one, until one of them is refused.
    fn may_be_in_part(&self) -> bool {
        let is_of_parts = |pva: &PvaLine| pva.main.is_none() || pva.fields.len() > 1 || pva.is_cut;
        self.record.is_none() && self.pva.as_deref().is_some_and(is_of_parts)
    }

    /// The puts to records that it consists of: those to a group's members, otherwise itself.
    pub fn to_records(self) -> Vec<PutLine> {
        let PutLine { user, client_host, client, server, client_ioc, protocol, source, process, .. } =
            self.clone();
        let of_group = |member: PutLine| PutLine {
            user: user.clone(),
            client_host: client_host.clone(),
            client: client.clone(),
            server: server.clone(),
            client_ioc: client_ioc.clone(),
            protocol,
            source,
            process: process.clone(),
            ..member
        };
        match self.pva {
            Some(pva) if !pva.members.is_empty() => pva.members.into_iter().map(of_group).collect(),
            _ => vec![self],
        }
    }

    /// The puts to a group's members.
    pub fn members(&self) -> &[PutLine] {
        self.pva.as_ref().map(|pva| pva.members.as_slice()).unwrap_or_default()
    }
}

/// Calls `each` for the puts in a chain and in those that its CA links led to, in no particular order: those from
/// outside, or with `all` every one.
pub fn each_put(chain: &Chain, all: bool, each: &mut impl FnMut(PutLine)) {
    walk(chain, all, None, &mut |put, _| each(put));
}

/// Calls `each` for every put, and whether it is one of those from outside.
pub fn each_put_told(chain: &Chain, each: &mut impl FnMut(PutLine, bool)) {
    walk(chain, true, None, &mut |put, found| each(put, found.is_outside));
}

/// Calls `each` for every put, and whether it is the root of the chain.
pub fn each_put_rooted(chain: &Chain, each: &mut impl FnMut(PutLine, bool)) {
    let is_put = matches!(chain.root(), Some(Span { kind: SpanKind::Put(_), .. }));
    walk(chain, true, None, &mut |put, found| {
        let is_root = is_put && found.number == 0 && std::ptr::eq(found.chain, chain);
        each(put, is_root);
    });
}

/// The same as [`each_put`] with the ids of their spans.
pub fn each_put_with_ids(chain: &Chain, all: bool, each: &mut impl FnMut(PutLine)) {
    let Some(trace) = trace_id(chain) else { return };
    // Those of the chain that the last put was in.
    let mut known: Option<(*const Chain, Vec<SpanId>)> = None;
    walk(chain, all, None, &mut |put, found| {
        if known.as_ref().is_none_or(|(chain, _)| !std::ptr::eq(*chain, found.chain)) {
            known = Some((found.chain, span_ids(found.chain)));
        }
        let span = known.as_ref().and_then(|(_, ids)| ids.get(found.number).copied());
        each(PutLine { span: span.map(|span| Ids { trace, span }), ..put });
    });
}

/// Where a put was found.
struct Found<'a> {
    chain: &'a Chain,
    /// The number of its span.
    number: usize,
    /// Whether it came from outside of the IOC's records.
    is_outside: bool,
}

fn walk(chain: &Chain, all: bool, cause: Option<&str>, each: &mut impl FnMut(PutLine, Found)) {
    let context = chain.run.context();
    for (number, span) in chain.spans.iter().enumerate() {
        match &span.kind {
            SpanKind::Put(put) if put.only_processes || put.is_one_of_several => {}
            // a part of the put to its group
            SpanKind::Put(_) if span.parent.is_some_and(|parent| is_group(chain, parent)) => {}
            SpanKind::Put(put) => {
                let via = via(&context, span, put, cause.is_some());
                // A bare `dbPut` without a parent comes from a link of an unknown record; but no record works in the
                // IOC's first thread, and what works for a client most likely does what that one asked for.
                let is_for_others =
                    |thread| matches!(caller::role(&context, thread), Role::Main | Role::CaServer);
                let stray = via == Via::Unknown
                    && put.kind == Some(PutKind::Put)
                    && !span.thread.is_some_and(is_for_others);
                // Another IOC's client counts as outside too, unless the link that made the put is known.
                let foreign = cause.is_none() && is_of_another_ioc(&context, span, put);
                let is_outside = (via.is_from_outside() || foreign) && !stray;
                if all || is_outside {
                    let writer = maker(chain, span).map(|record| record_name(&context, record));
                    let cause = cause.filter(|_| number == 0).or(writer.as_deref());
                    let found = Found { chain, number, is_outside };
                    each(line(chain, &context, number, span, put, via, cause), found);
                }
            }
            SpanKind::Link(link) => {
                let record = link.record.map(|record| record_name(&context, record));
                if let Some(target) = &link.target {
                    walk(target, all, Some(record.as_deref().unwrap_or_default()), each);
                }
            }
            SpanKind::Process(process) if all && process.trigger == Trigger::Python => {
                if let End::Completed(Completed { value, .. }) = &process.outcome {
                    let found = Found { chain, number, is_outside: false };
                    each(set_by_python(chain, &context, number, span, process, value), found);
                }
            }
            SpanKind::Process(_) => {}
        }
    }
}

/// The record whose link made a put, within its processing.
fn maker(chain: &Chain, put: &Span) -> Option<RecordId> {
    match &chain.spans.get(put.parent?)?.kind {
        SpanKind::Process(process) => Some(process.record),
        _ => None,
    }
}

/// A value set by Python code: the record fetches it as it processes, so no put function is called.
fn set_by_python(
    chain: &Chain,
    context: &Context,
    number: usize,
    span: &Span,
    process: &ProcessSpan,
    value: &Value,
) -> PutLine {
    let (dbf, count) = match value {
        Value::Array(array) => (array.dbf, array.count),
        Value::Text(_) => (Dbf::String, 1),
        Value::Int(_) | Value::UInt(_) => (Dbf::Long, 1),
        Value::Float(_) | Value::Double(_) | Value::Unknown => (Dbf::Double, 1),
    };
    let put = PutSpan {
        kind: Some(PutKind::Put),
        site: 0,
        record: Some(process.record),
        field: None,
        dbf,
        count,
        requested: value.clone(),
        old: Value::Unknown,
        after: None,
        wrote: true,
        written: None,
        only_processes: false,
        is_one_of_several: false,
        packet: None,
    };
    let line = line(chain, context, number, span, &put, Via::Python, None);
    // The processing completed with it, so it was accepted.
    let (new, status) = (value.clone(), "ok".into());
    let shown_by = outcome::shown_by(context, Some(process.record), value);
    let (new_cut, new_text) =
        (outcome::is_cut(value, shown_by), enum_strings::state(context, process.record, span.end, value));
    PutLine {
        field: Some("VAL".to_owned()),
        status,
        requested_cut: new_cut,
        new,
        new_cut,
        new_text,
        inexact: false,
        as_asked: false,
        ..line
    }
}

/// The line of the put that is the root of a chain.
pub fn root_put(chain: &Chain, cause: Option<&str>) -> Option<PutLine> {
    let span = chain.root()?;
    let SpanKind::Put(put) = &span.kind else { return None };
    let context = chain.run.context();
    let via = via(&context, span, put, cause.is_some());
    Some(line(chain, &context, 0, span, put, via, cause))
}

/// Whether this span is a put to a group of PVAccess.
fn is_group(chain: &Chain, number: usize) -> bool {
    match chain.spans.get(number).map(|span| &span.kind) {
        Some(SpanKind::Put(put)) => {
            put.packet.as_ref().and_then(|packet| packet.pva.as_ref()).is_some_and(|pva| pva.is_group)
        }
        _ => false,
    }
}

/// What PVAccess adds to this put.
fn pva_line(chain: &Chain, context: &Context, number: usize, packet: &Packet) -> Option<Box<PvaLine>> {
    let pva = packet.pva.as_ref()?;
    let mut members = Vec::new();
    if pva.is_group {
        for (member, span) in chain.spans.iter().enumerate() {
            let SpanKind::Put(put) = &span.kind else { continue };
            if span.parent == Some(number) && !put.only_processes {
                members.push(line(chain, context, member, span, put, Via::Pva, None));
            }
        }
    }
    let request = match pva.kind {
        PvaKind::Put | PvaKind::Get => "put",
        PvaKind::PutGet => "put_get",
        PvaKind::Process => "process",
        PvaKind::Rpc => "rpc",
    };
    let message = Some(pva.text.clone()).filter(|text| !text.is_empty());
    let result = pva.result.as_ref().map(|result| result.fields.clone()).unwrap_or_default();
    Some(Box::new(PvaLine {
        request,
        fields: pva.sent.fields.clone(),
        is_cut: pva.sent.is_cut,
        main: pva.sent.main.filter(|_| pva.sent.is_known),
        options: pva.options.clone(),
        message,
        result,
        members,
    }))
}

/// The circuit that a put arrived on, if known.
fn circuit(context: &Context, span: &Span, put: &PutSpan) -> Option<CircuitId> {
    match &put.packet {
        Some(packet) => Some(packet.circuit),
        None => context.circuit_of_thread(span.thread?),
    }
}

/// The recorded IOC whose process is the client of a circuit.
fn client_ioc(context: &Context, circuit: CircuitId) -> Option<&Ioc> {
    context.ioc(context.circuit_ends(circuit)?.client?)
}

/// The process that made a put that arrived on a circuit, by the client's number for its channel. `cause`: the record whose link is known to have made it.
fn process(
    run: &run::Run,
    (circuit, cid): (CircuitId, Option<u32>),
    pv: Option<&str>,
    time: i64,
    cause: Option<&str>,
) -> Option<ProcessLine> {
    let behind = client::behind(run, circuit, time)?;
    let part = pv.and_then(|pv| client::part(run, &behind, cid, pv, time)).unwrap_or_default();
    let client::Behind { client, joined, .. } = behind;
    let of_links = part.threads.as_slice() == [caller::CA_LINKS];
    let (record, thread) = match (cause, part.threads.as_slice(), part.links.as_slice()) {
        (Some(record), ..) => {
            let link =
                part.links.iter().find(|link| link.rsplit_once('.').is_some_and(|(of, _)| of == record));
            (Some(link.map_or(record, String::as_str)), Some(caller::CA_LINKS))
        }
        (None, [thread], [link]) if of_links => (Some(link.as_str()), Some(thread.as_str())),
        (None, [thread], _) => (None, Some(thread.as_str())),
        _ => (None, None),
    };
    Some(ProcessLine {
        record: record.filter(|record| !record.is_empty()).map(str::to_owned),
        thread: thread.map(str::to_owned),
        part,
        ..ProcessLine::of(client, joined)
    })
}

/// Whether a put arrived on a circuit with one recorded IOC as client and another as server.
fn is_of_another_ioc(context: &Context, span: &Span, put: &PutSpan) -> bool {
    let ends = circuit(context, span, put).and_then(|circuit| context.circuit_ends(circuit));
    let is_root = span.parent.is_none();
    is_root && ends.is_some_and(|ends| ends.client.is_some() && ends.client != ends.server)
}

fn via(context: &Context, span: &Span, put: &PutSpan, by_link: bool) -> Via {
    if span.parent.is_some() {
        return Via::DbLink;
    }
    // A circuit whose client is an IOC's process belongs to a link, or to a program that runs in that IOC: no user.
    let by_ioc = circuit(context, span, put).is_some_and(|circuit| client_ioc(context, circuit).is_some());
    let by_thread = span.thread.is_some_and(|thread| caller::role(context, thread) == Role::CaLink);
    let is_pva = put.packet.as_ref().is_some_and(|packet| packet.pva.is_some());
    if by_ioc && is_pva {
        return Via::PvaLink;
    }
    if by_link || by_ioc || by_thread {
        return Via::CaLink;
    }
    if is_pva {
        return Via::Pva;
    }
    let notify = put.packet.as_ref().map(|packet| packet.notify);
    let with_callback = notify.unwrap_or(put.kind == Some(PutKind::Notify));
    let channel_access = if with_callback { Via::CaWriteNotify } else { Via::CaWrite };
    if notify.is_some() {
        return channel_access;
    }
    let Some(thread) = span.thread else { return Via::Unknown };
    let caller = caller::caller(context, put.site);
    match (caller::role(context, thread), caller) {
        (_, Caller::Shell) => Via::Dbpf,
        // the hit around it was lost
        (Role::CaServer, caller) if put.kind == Some(PutKind::Put) => match caller {
            Caller::Link => Via::DbLink,
            Caller::ChannelPut => Via::CaWriteNotify,
            _ if caller::is_put_field(context, put.site) => Via::CaWrite,
            _ => Via::Unknown,
        },
        (Role::CaServer, _) => channel_access,
        (Role::CaLink, _) => Via::CaLink,
        (Role::PvaServer, _) => Via::Pva,
        (_, Caller::Python) => Via::Python,
        // Before iocInit and in it, other code of this thread puts, too, such as autosave's.
        (Role::Main, _) if !caller::is_other(context, put.site) => Via::Dbpf,
        // it may be that of `dbpf`
        (Role::Python, _) if caller::may_be_any_of_database(context, put.site) => Via::Unknown,
        (Role::Python, _) => Via::Python,
        (_, Caller::Link) => Via::DbLink,
        _ => Via::Unknown,
    }
}

fn line(
    chain: &Chain,
    context: &Context,
    number: usize,
    span: &Span,
    put: &PutSpan,
    via: Via,
    cause: Option<&str>,
) -> PutLine {
    let circuit_id = circuit(context, span, put).filter(|_| span.parent.is_none());
    let own_ioc = circuit_id.and_then(|circuit| client_ioc(context, circuit));
    let circuit = circuit_id.and_then(|circuit| context.circuit(circuit));
    let channel = put.packet.as_ref().and_then(|packet| context.channel(packet.channel));
    let named = channel.map(|channel| channel.pv.as_str()).filter(|pv| !pv.is_empty());
    let pva = put.packet.as_ref().and_then(|packet| packet.pva.as_ref());
    // a group, or a server without records: its name is no record's, and its parts are no fields
    let is_record = put.record.is_some() || pva.is_none_or(|pva| pva.names_record);
    let definition = put.field.filter(|_| !attribute::is_attribute(context, put));
    let definition = definition.and_then(|field| context.field(field));
    let record = match put.record {
        Some(record) => Some(record_name(context, record)),
        None => named.filter(|_| is_record).map(|pv| {
            let name = Pv::new(pv).record;
            let ioc = circuit_id.and_then(|circuit| ioc_of_circuit(context, circuit));
            let record = ioc.and_then(|ioc| context.by_alias(ioc.id, name));
            record.map_or(name, |record| record.name).to_owned()
        }),
    };
    let attribute = attribute::of(context, put).map(|name| if name.is_empty() { "?" } else { name });
    let field = match put.record {
        Some(_) => attribute.or_else(|| field_name(context, put.field)).map(str::to_owned),
        None => named.filter(|_| is_record).map(|pv| Pv::new(pv).field.to_owned()),
    };
    let pv = named.map(str::to_owned).or_else(|| {
        let record = record.as_ref()?;
        Some(match field.as_deref() {
            Some("VAL") | None => record.clone(),
            Some(field) => format!("{record}.{field}"),
        })
    });
    let ioc = match span.thread {
        Some(thread) => ioc_of_thread(context, thread),
        None => circuit_id.and_then(|circuit| ioc_of_circuit(context, circuit)),
    };
    let acknowledges = outcome::acknowledged_field(context, put);
    let field = acknowledges.map(str::to_owned).or(field);
    let Outcome { status, new, inexact, as_asked } = outcome::of(chain, context, number, put);
    let old = match acknowledges {
        // an old recorder read the record's value there
        Some(_) => Value::Unknown,
        None => outcome::as_asked(context, put, definition, put.old.clone()),
    };
    // what the client fetched before; somebody may have changed it meanwhile
    let before = pva.and_then(|pva| pva.before.as_ref()).filter(|_| old == Value::Unknown);
    // of parts of which none stands for the whole, it fetched another
    let is_of_parts = !is_record && pva.is_some_and(|pva| pva.sent.is_known && pva.sent.main().is_none());
    let before = before.filter(|_| !is_of_parts);
    let fetched = before.and_then(Sent::main);
    let inexact = inexact || fetched.is_some();
    let old = fetched.cloned().unwrap_or(old);
    let asked_cut =
        pva.filter(|pva| pva.sent.main_cut && pva.sent.main() == Some(&put.requested)).map(|_| true);
    let is_part = put.packet.as_ref().is_some_and(|packet| packet.is_part);
    let asked_cut = asked_cut.or(is_part.then_some(true));
    let before_cut = before.filter(|before| before.main_cut).map(|_| true);
    let answered = put.packet.as_ref().filter(|packet| packet.notify);
    let answered = answered.and_then(|packet| packet.answer.as_ref()).map(|answer| answer.time);
    let callback_ms = put.packet.as_ref().filter(|packet| packet.notify).and_then(|packet| {
        let answer = packet.answer.as_ref()?;
        // a client of PVAccess that gave up got no answer
        let was_answered = packet.pva.as_ref().is_none_or(|pva| matches!(pva.status, Some(0..=3)));
        was_answered.then(|| answer.time.saturating_sub(packet.time) as f64 / 1e6)
    });
    let packet_pva = pva;
    let pva = put.packet.as_ref().and_then(|packet| pva_line(chain, context, number, packet));
    let members = pva.as_ref().map(|pva| pva.members.as_slice()).unwrap_or_default();
    // its members say what became of each; that one of them is called `value` makes it no value of the group
    let is_group = !members.is_empty();
    let [old, new] = [old, new].map(|value| if is_group { Value::Unknown } else { value });
    let (inexact, as_asked) = (!is_group && inexact, !is_group && as_asked);
    let before_cut = before_cut.filter(|_| !is_group);
    let inexact = inexact || members.iter().any(|member| member.inexact);
    let time = chain.run.wall(span.start);
    let cid = channel.and_then(|channel| channel.cid);
    let process = circuit_id
        .and_then(|circuit| process(&chain.run, (circuit, cid), pv.as_deref(), time, cause))
        .map(Box::new);
    let by_process = || Some(process.as_ref()?.ioc.as_ref()?.0.as_str());
    let by_ioc = own_ioc.map(|ioc| ioc.name.as_str()).or_else(by_process);
    let via = match (via, by_ioc) {
        // by the log of the client's host
        (Via::CaWrite | Via::CaWriteNotify, Some(_)) => Via::CaLink,
        (Via::Pva, Some(_)) => Via::PvaLink,
        _ => via,
    };
    // the choices that the server sent, or the client sent beside the index
    let choice = |value: &Value, sent: Option<&Sent>| {
        let [before, sent] = [before, sent].map(|sent| sent.and_then(|sent| sent.choice(value)));
        enum_strings::word(context, put.record, put.field, put.time(), value).or(sent).or(before)
    };
    let sent_choice = packet_pva.map(|pva| &pva.sent);
    let text = |text: &str| chain.run.share(text);
    let has_request =
        |packet: &Packet| packet.pva.as_ref().is_none_or(|pva| pva.sent.main() == Some(&put.requested));
    let asked_by = match put.packet.as_deref().is_some_and(has_request) {
        true => Source::Whole,
        false => Source::Head,
    };
    let new_from = outcome::source_of_new(context, put, &new, as_asked);
    let new_cut = asked_cut.filter(|_| new == put.requested).or_else(|| outcome::is_cut(&new, new_from));
    // what the field holds, and no more, was asked for
    let is_held = !as_asked && new == put.requested && new_cut == Some(false);
    let requested_cut = asked_cut.or_else(|| outcome::is_cut(&put.requested, asked_by));
    let requested_cut = requested_cut.map(|is_cut| is_cut && !is_held);
    let came = put.packet.as_ref().map_or(span.start, |packet| packet.time);
    // of PVAccess, each channel has its own name, which is noted before the put
    let of_packet = put.packet.as_ref().filter(|packet| packet.pva.is_none()).map(|packet| packet.channel);
    let [user, client_host] =
        circuit.map(|circuit| chain.run.identity(came, of_packet, circuit)).unwrap_or_default();
    let [client_end, server_end] = circuit.map(|circuit| chain.run.addresses(circuit.id)).unwrap_or_default();
    PutLine {
        time,
        span: None,
        even: chain.run.even(span.start),
        host: context.host().and_then(|host| text(&host.name)),
        ioc: ioc.and_then(|ioc| text(&ioc.name)),
        ioc_process: ioc.map(|ioc| (ioc.pid, ioc.start)),
        pv,
        record,
        field,
        user,
        client_host,
        client: client_end,
        server: server_end,
        via,
        dbr: match &put.packet {
            Some(packet) => match &packet.pva {
                Some(pva) if pva.sent.kind.is_empty() && put.kind.is_some() && put.dbf != Dbf::NoAccess => {
                    put.dbf.request_name().into()
                }
                Some(pva) if pva.is_group || pva.kind == PvaKind::Rpc => "structure".into(),
                Some(pva) if pva.sent.kind.is_empty() => "none".into(),
                Some(pva) => pva.sent.kind.clone().into(),
                None => match Dbr(packet.dbr).name() {
                    Some(name) => name.into(),
                    None => Dbr(packet.dbr).to_string().into(),
                },
            },
            // dbProcessNotify tells neither type nor count
            None if !put.has_type() => "".into(),
            None => put.dbf.request_name().into(),
        },
        count: put.count,
        requested_cut,
        old_cut: before_cut.or_else(|| outcome::is_cut(&old, Source::Head)),
        new_cut,
        requested: put.requested.clone(),
        old_text: choice(&old, None),
        new_text: choice(&new, sent_choice),
        old,
        new,
        status,
        callback_ms,
        thread: match span.thread {
            Some(thread) => context.thread(thread).and_then(|thread| text(&thread.name)),
            None => members.iter().find_map(|member| member.thread.clone()),
        },
        source: match (&put.packet, put.kind) {
            (Some(_), None) if !members.is_empty() => "both",
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "packet",
            (None, _) => "probe",
        },
        inexact,
        as_asked,
        cause_record: cause.map(str::to_owned).filter(|cause| !cause.is_empty()),
        acknowledges,
        client_ioc: by_ioc.and_then(text),
        ended: chain.run.wall(answered.unwrap_or(span.end).max(span.start)),
        processed: processed(chain, number, put).map(|time| chain.run.wall(time)),
        rtype: put.record.and_then(|record| text(context.record(record)?.rtype)),
        dbf: definition.map(|definition| definition.dbf),
        wrote: put.wrote,
        written: put.written.map(|time| chain.run.even(time)),
        protocol: put.packet.as_ref().map(|packet| if packet.pva.is_some() { "pva" } else { "ca" }),
        pva,
        process,
    }
}

/// Monotonic time at which the record that a put made process has, or nearly has, its time stamp: records take it before
/// they process others; asynchronous ones at their end.
fn processed(chain: &Chain, number: usize, put: &PutSpan) -> Option<u64> {
    chain.spans.iter().skip(number).find_map(|span| match &span.kind {
        SpanKind::Process(process) if span.parent == Some(number) && Some(process.record) == put.record => {
            match (&process.outcome, process.phases.last()) {
                (End::Completed(_), None) => Some(span.start),
                (End::Completed(_), Some(last)) => Some(last.time),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Name of the IOC that a span belongs to; empty if unknown.
pub fn ioc_of_span(context: &Context, span: &Span) -> String {
    ioc_name(context, span).to_owned()
}

/// The same, borrowed.
pub fn ioc_name<'a>(context: &'a Context, span: &Span) -> &'a str {
    ioc(context, span).map_or("", |ioc| ioc.name.as_str())
}

/// The IOC in which a span took place.
pub fn ioc<'a>(context: &'a Context, span: &Span) -> Option<&'a Ioc> {
    let by_thread = span.thread.and_then(|thread| run::ioc_of_thread(context, thread));
    by_thread.or_else(|| ioc_of_circuit(context, span.packet()?.circuit))
}
