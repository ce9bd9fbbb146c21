//! Puts as people ask for them: who wrote what, from where, with what result.

use super::caller::{self, Caller, Role};
use super::pv::Pv;
use super::run::{self, field_name, ioc_of_circuit, ioc_of_thread, record_name};
use super::span::{Completed, Outcome, ProcessSpan, PutSpan, Span, Tree, Trigger, What};
use super::{eca, value, words};
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, Dbf, PutKind, Value};
use std::borrow::Cow;

/// How a put came to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Channel Access WRITE.
    CaWrite,
    /// Channel Access WRITE_NOTIFY.
    CaWriteNotify,
    /// An IOC's CA link.
    CaLink,
    /// A database link.
    DbLink,
    /// pvAccess.
    Pva,
    /// `dbpf` in the IOC shell.
    Dbpf,
    /// Python code that hosts the IOC.
    Python,
    /// Not known.
    Unknown,
}

impl Via {
    /// The word for it in the put log; part of the format.
    pub fn name(self) -> &'static str {
        match self {
            Via::CaWrite => "ca_write",
            Via::CaWriteNotify => "ca_write_notify",
            Via::CaLink => "ca_link",
            Via::DbLink => "db_link",
            Via::Pva => "pva",
            Via::Dbpf => "dbpf",
            Via::Python => "python",
            Via::Unknown => "unknown",
        }
    }

    /// From outside of all IOCs?
    fn is_from_outside(self) -> bool {
        !matches!(self, Via::CaLink | Via::DbLink)
    }
}

/// A put.
#[derive(Clone, Debug, PartialEq)]
pub struct PutLine {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Host that recorded it.
    pub host: Option<String>,
    /// IOC.
    pub ioc: Option<String>,
    /// PV as the client named it; else record and field.
    pub pv: Option<String>,
    /// Record.
    pub record: Option<String>,
    /// Field.
    pub field: Option<String>,
    /// User that the client claims to be.
    pub user: Option<String>,
    /// Host that the client claims to be.
    pub client_host: Option<String>,
    /// The client's address.
    pub client: Option<String>,
    /// The server's address.
    pub server: Option<String>,
    /// How it came.
    pub via: Via,
    /// Type of the request.
    pub dbr: String,
    /// Element count of the request.
    pub count: u32,
    /// What was asked for.
    pub requested: Value,
    /// What the field held before.
    pub old: Value,
    /// What it held after.
    pub new: Value,
    /// The text that `old` stands for: a state, a menu's choice.
    pub old_text: Option<String>,
    /// The text that `new` stands for.
    pub new_text: Option<String>,
    /// What became of it: `ok`, an ECA name, `denied`, `unknown`.
    pub status: Cow<'static, str>,
    /// Milliseconds from a put with callback to its answer.
    pub callback_ms: Option<f64>,
    /// Name of the thread that carried it out.
    pub thread: Option<String>,
    /// Seen as `packet`, by a `probe`, or `both`.
    pub source: &'static str,
    /// `new` is what was asked for, converted to the field's type, and not what was read.
    pub inexact: bool,
    /// The record whose CA link made it.
    pub cause_record: Option<String>,
}

/// Calls `each` for the puts in a chain and in those that its CA links led to, in no special order:
/// those from outside, or `all`.
pub fn each_put(tree: &Tree, all: bool, each: &mut impl FnMut(PutLine)) {
    walk(tree, all, None, each);
}

fn walk(tree: &Tree, all: bool, cause: Option<&str>, each: &mut impl FnMut(PutLine)) {
    let context = tree.run.context();
    for (number, span) in tree.spans.iter().enumerate() {
        match &span.what {
            What::Put(put) if put.only_processes => {}
            What::Put(put) => {
                let via = via(&context, span, put, cause.is_some());
                // A bare `dbPut` out of nowhere is a link's, whose record is not known.
                let stray = via == Via::Unknown && put.kind == Some(PutKind::Put);
                if all || via.is_from_outside() && !stray {
                    let cause = cause.filter(|_| number == 0);
                    each(line(tree, &context, number, span, put, via, cause));
                }
            }
            What::Link(link) => {
                let record = link.record.map(|record| record_name(&context, record));
                if let Some(target) = &link.target {
                    walk(target, all, Some(record.as_deref().unwrap_or_default()), each);
                }
            }
            What::Process(process) if all && process.trigger == Trigger::Python => {
                if let Outcome::Completed(Completed { value, .. }) = &process.outcome {
                    each(set_by_python(tree, &context, number, span, process, value));
                }
            }
            What::Process(_) => {}
        }
    }
}

/// What Python code set: the record fetches its value as it processes, so no function for puts is passed.
fn set_by_python(
    tree: &Tree,
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
        wrote: true,
        written: None,
        only_processes: false,
        packet: None,
    };
    let line = line(tree, context, number, span, &put, Via::Python, None);
    PutLine { field: Some("VAL".to_owned()), inexact: false, ..line }
}

/// The line of the put that is the root of a chain.
pub fn root_put(tree: &Tree, cause: Option<&str>) -> Option<PutLine> {
    let span = tree.root()?;
    let What::Put(put) = &span.what else { return None };
    let context = tree.run.context();
    let via = via(&context, span, put, cause.is_some());
    Some(line(tree, &context, 0, span, put, via, cause))
}

/// The circuit that a put came on, where known.
fn circuit(context: &Context, span: &Span, put: &PutSpan) -> Option<CircuitId> {
    match &put.packet {
        Some(packet) => Some(packet.circuit),
        None => context.serves(span.thread?),
    }
}

fn via(context: &Context, span: &Span, put: &PutSpan, by_link: bool) -> Via {
    if span.parent.is_some() {
        return Via::DbLink;
    }
    if by_link {
        return Via::CaLink;
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
        (Role::CaServer, _) => channel_access,
        (Role::CaLink, _) => Via::CaLink,
        (Role::PvaServer, _) => Via::Pva,
        (_, Caller::Python) => Via::Python,
        (Role::Main, _) => Via::Dbpf,
        (Role::Python, _) => Via::Python,
        (_, Caller::Link) => Via::DbLink,
        _ => Via::Unknown,
    }
}

fn status(put: &PutSpan, links: bool) -> Cow<'static, str> {
    match put.packet.as_ref().map(|packet| (packet.notify, &packet.answer)) {
        Some((_, Some(answer))) => match answer.status {
            eca::NORMAL => "ok".into(),
            eca::NO_WRITE_ACCESS => "denied".into(),
            code => eca::name(code).map_or_else(|| format!("ECA {code:#x}").into(), Cow::from),
        },
        // Not answered, so it failed or it lasts.
        Some((true, None)) => "unknown".into(),
        Some((false, None)) if put.kind.is_some() => "ok".into(),
        Some((false, None)) => "unknown".into(),
        // Without the answer: a put that got as far as the field. Puts to link fields never do.
        None if put.wrote || links => "ok".into(),
        None => "unknown".into(),
    }
}

fn line(
    tree: &Tree,
    context: &Context,
    number: usize,
    span: &Span,
    put: &PutSpan,
    via: Via,
    cause: Option<&str>,
) -> PutLine {
    let circuit_id = circuit(context, span, put).filter(|_| span.parent.is_none());
    let circuit = circuit_id.and_then(|circuit| context.circuit(circuit));
    let channel = put.packet.as_ref().and_then(|packet| context.channel(packet.channel));
    let named = channel.map(|channel| channel.pv.as_str()).filter(|pv| !pv.is_empty());
    let definition = put.field.and_then(|field| context.field(field));
    let record = match put.record {
        Some(record) => Some(record_name(context, record)),
        None => named.map(|pv| Pv::new(pv).record.to_owned()),
    };
    let field = match put.record {
        Some(_) => field_name(context, put.field).map(str::to_owned),
        None => named.map(|pv| Pv::new(pv).field.to_owned()),
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
    let links = definition.is_some_and(|field| field.dbf >= Dbf::InLink);
    let status = status(put, links);
    let read = if field.as_deref() == Some("VAL") { processed(tree, number, put) } else { None };
    let (new, inexact) = match read {
        Some(value) => (value.clone(), false),
        None if status == "ok" => {
            let converted = match definition {
                Some(field) => value::convert(&put.requested, field.dbf),
                None => put.requested.clone(),
            };
            (converted, true)
        }
        None => (Value::Unknown, false),
    };
    let callback_ms = put.packet.as_ref().filter(|packet| packet.notify).and_then(|packet| {
        let answer = packet.answer.as_ref()?;
        Some(answer.time.saturating_sub(packet.time) as f64 / 1e6)
    });
    let word = |value| words::word(context, put.record, put.field, value);
    // a menu's choice that was asked for by its name
    let new = definition.and_then(|field| words::number(context, field, &new)).unwrap_or(new);
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    PutLine {
        time: tree.run.wall(span.start),
        host: text(&tree.run.host()),
        ioc: ioc.and_then(|ioc| text(&ioc.name)),
        pv,
        record,
        field,
        user: circuit.and_then(|circuit| text(&circuit.user)),
        client_host: circuit.and_then(|circuit| text(&circuit.host)),
        client: circuit.map(|circuit| circuit.client.to_string()),
        server: circuit.map(|circuit| circuit.server.to_string()),
        via,
        dbr: match &put.packet {
            Some(packet) => value::dbr_name(packet.dbr),
            None => value::dbf_name(put.dbf).to_owned(),
        },
        count: put.count,
        requested: put.requested.clone(),
        old_text: word(&put.old),
        new_text: word(&new),
        old: put.old.clone(),
        new,
        status,
        callback_ms,
        thread: span.thread.and_then(|thread| text(&context.thread(thread)?.name)),
        source: match (&put.packet, put.kind) {
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "packet",
            (None, _) => "probe",
        },
        inexact,
        cause_record: cause.and_then(text),
    }
}

/// The value at the end of the processing that the put set off.
fn processed<'a>(tree: &'a Tree, number: usize, put: &PutSpan) -> Option<&'a Value> {
    let own = |span: &'a Span| match &span.what {
        What::Process(ProcessSpan {
            record, outcome: Outcome::Completed(Completed { value, .. }), ..
        }) if span.parent == Some(number) && Some(*record) == put.record && *value != Value::Unknown => {
            Some(value)
        }
        _ => None,
    };
    tree.spans.iter().find_map(own)
}

/// Name of the IOC that a span belongs to; empty where not known.
pub fn ioc_of_span(context: &Context, span: &Span) -> String {
    let by_thread = span.thread.and_then(|thread| run::ioc_of_thread(context, thread));
    let ioc = by_thread.or_else(|| match &span.what {
        What::Put(PutSpan { packet: Some(packet), .. }) => ioc_of_circuit(context, packet.circuit),
        _ => None,
    });
    ioc.map(|ioc| ioc.name.clone()).unwrap_or_default()
}
