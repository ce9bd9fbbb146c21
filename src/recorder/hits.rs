//! Hits turned into events: addresses into numbers, bytes into values.

use iocrec_log::event::{
    CaLinkPut, Cause, ChainsLeftOut, Complete, Dbf, Event, Fact, Process, Put, PutKind, Value,
};

use epics::dbf::Numbering;

use crate::bpf::hit::{Body, Form, Head};
use crate::ioc::fields;
use crate::linux::text::printable;
use crate::recorder::names::{Names, NewThread, Step};
use crate::recorder::selection::Selection;
use crate::recorder::sink::Sink;
use crate::recorder::value::{dbf, text, value};

/// Works on one hit; tells of its thread when it is that thread's first.
pub fn hit(
    names: &mut Names,
    selection: &Selection,
    head: &Head,
    body: Body,
    sink: &mut dyn Sink,
) -> Option<NewThread> {
    let Head { time, pid, .. } = *head;
    // an IOC that ended with hits still on the way
    let numbering =
        names.ioc(pid)?.process.layout.as_ref().map_or(Numbering::Since3161, |layout| layout.numbering);
    let step = match body {
        Body::Process if !head.active => Step::Process(head.object),
        Body::Complete { .. } => Step::Complete(head.object),
        _ => Step::Other,
    };
    let (thread, new) = names.thread(time, pid, head.tid, head.sp, step, sink)?;
    let sp = thread.relative(head.sp);
    let known = thread;
    let thread = thread.id;
    let fact = match body {
        Body::Process | Body::RsetProcess => {
            let Some(record) = names.record(time, pid, head.object, selection, sink) else { return new };
            let site = names.site(time, pid, head.caller, sink);
            names.tell_links(time, pid, (record, head.object), &known, sink);
            let process = Process { thread, sp, site, record, active: head.active };
            if body == Body::RsetProcess {
                Fact::RsetProcess(process)
            } else {
                Fact::Process(process)
            }
        }
        Body::Complete { form, value: raw } => {
            let Some(record) = names.record(time, pid, head.object, selection, sink) else { return new };
            let value = raw.map_or(Value::Unknown, |raw| match form {
                Form::Text => text(&raw),
                form => value(&raw, numbering, form == Form::Array),
            });
            let (severity, status) = (head.severity, head.status);
            Fact::Complete(Complete { thread, sp, site: 0, record, value, severity, status })
        }
        Body::Put { kind, field, requested, old, link } => {
            let Some(record) = names.record(time, pid, head.object, selection, sink) else { return new };
            let site = names.site(time, pid, head.caller, sink);
            if link.is_some() {
                names.links_change(pid, head.object);
            }
            let acknowledges = numbering.acknowledges(requested.dbf).filter(|_| kind != PutKind::Notify);
            let acknowledged =
                acknowledges.and_then(|severity| names.acknowledged(pid, head.object, severity));
            let description = acknowledged.unwrap_or(field);
            let field = names.field(time, pid, description, sink);
            names.note_put(time, pid, head.object, record, field);
            let dbf = if acknowledged.is_some() { Dbf::UShort } else { dbf(&requested, numbering) };
            let count = requested.count;
            // dbProcessNotify is handed no value: the dbPut inside it is
            let known =
                |raw| if kind == PutKind::Notify { Value::Unknown } else { value(raw, numbering, false) };
            // what was read there is the value's, which an acknowledgement is not about
            let (requested, old) = match acknowledged {
                Some(_) => (known(&requested), Value::Unknown),
                None => match link.zip(numbering.dbf(old.dbf)) {
                    Some((link, dbf)) => (known(&requested), fields::old_link(old.bytes, link, dbf)),
                    None => (known(&requested), known(&old)),
                },
            };
            if let Some(field) = field {
                let (record, field) = ((record, head.object), (field, description));
                let inner = kind == PutKind::Put;
                names.look_after(time, pid, head.tid, record, field, &old, inner, sink);
            }
            Fact::Put(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
        }
        Body::LinkPut { record, pv, value: raw } => {
            // a link that does not say whose it is belongs to the record that is being processed there
            let record = match record {
                0 => names.owner(pid, head.object).unwrap_or(0),
                record => record,
            };
            let record = match record {
                0 => None,
                address => match names.record(time, pid, address, selection, sink) {
                    None => return new,
                    known => known,
                },
            };
            let pv = printable(pv);
            let (dbf, count, value) = (dbf(&raw, numbering), raw.count, value(&raw, numbering, false));
            Fact::CaLinkPut(CaLinkPut { thread, sp, site: 0, record, pv, dbf, count, value })
        }
        Body::ChainsLeftOut { since, count } => {
            let Some(record) = names.record(time, pid, head.object, selection, sink) else { return new };
            Fact::ChainsLeftOut(ChainsLeftOut { record, count, since })
        }
        Body::Cause { kind, user } => {
            let record = names.known_record(pid, user);
            let site = names.site(time, pid, head.caller, sink);
            Fact::Cause(Cause { thread, sp, site, kind, object: head.object, record })
        }
    };
    sink.push(Event { time, fact });
    new
}
