//! Turns hits of the probes into facts: addresses into ids, bytes into values.

use iocrec_log::event::{
    CaClientPut, CaLinkPut, Cause, ChainsLeftOut, Complete, Dbf, ErrlogCall, Fact, GivingUp, Process, Put,
    PutKind, Value,
};

use epics::dbf::Numbering;

use crate::bpf::hit::{Body, Form, Head};
use crate::ioc::fields;
use crate::linux::text::printable;
use crate::recorder::env::Env;
use crate::recorder::registry::console::Written;
use crate::recorder::registry::fields::Before;
use crate::recorder::registry::threads::{HitPlace, NewThread, Step};
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::value::{dbf, text, value};

/// Time within which one hit of a probe that is there twice is told by both, nanoseconds. No thread ends an IOC twice.
const TWICE: u64 = 1_000_000_000;

/// Turns one hit in an IOC into facts. Returns its thread if this is the thread's first hit.
pub fn record_hit(env: &mut Env<'_>, ioc: &mut TracedIoc, head: &Head, body: Body) -> Option<NewThread> {
    let layout = ioc.process.as_ref()?.layout.as_ref();
    let numbering = layout.map_or(Numbering::Since3161, |layout| layout.numbering);
    let step = match body {
        Body::Process if !head.active => Step::Process(head.object),
        Body::Complete { .. } => Step::Complete(head.object),
        _ => Step::Other,
    };
    let place = HitPlace { tid: head.tid, sp: head.sp, time: head.time };
    let (known, new) = ioc.hit(env, place, step)?;
    let (thread, sp) = (known.id, known.relative(head.sp));
    let time = head.time;
    let fact = match body {
        Body::Process | Body::RsetProcess => {
            let Some(record) = ioc.record(env, time, head.object) else { return new };
            let site = ioc.call_site(env, time, head.caller);
            ioc.write_cp_links(env, time, (record, head.object), &known);
            let process = Process { thread, sp, site, record, active: head.active };
            if body == Body::RsetProcess {
                Fact::RsetProcess(process)
            } else {
                Fact::Process(process)
            }
        }
        Body::Complete { form, value: raw } => {
            let Some(record) = ioc.record(env, time, head.object) else { return new };
            let value = raw.map_or(Value::Unknown, |raw| match form {
                Form::Text => text(&raw),
                form => value(&raw, numbering, form == Form::Array),
            });
            if raw.is_some_and(|raw| numbering.dbf(raw.dbf) == Some(Dbf::Enum)) {
                ioc.states.use_of(record);
            }
            let (severity, status) = (head.severity, head.status);
            Fact::Complete(Complete { thread, sp, site: 0, record, value, severity, status })
        }
        Body::Put { kind, field, requested, old, link } => {
            let Some(record) = ioc.record(env, time, head.object) else { return new };
            let site = ioc.call_site(env, time, head.caller);
            if link.is_some() {
                ioc.links.changed(env, head.object);
            }
            let acknowledges = numbering.acknowledges(requested.dbf).filter(|_| kind != PutKind::Notify);
            let acknowledged = acknowledges.and_then(|severity| ioc.acknowledged(head.object, severity));
            let description = acknowledged.unwrap_or(field);
            let field = ioc.field(env, time, description);
            if let Some(reread) = field.and_then(|field| field.reread) {
                ioc.rereads.note(time, head.object, record, reread);
            }
            let before = field.map_or(Before::Value, |field| field.before);
            let field = field.map(|field| field.id);
            let dbf = if acknowledged.is_some() { Dbf::UShort } else { dbf(&requested, numbering) };
            let count = requested.count;
            // dbProcessNotify gets no value: the dbPut inside it does
            let known =
                |raw| if kind == PutKind::Notify { Value::Unknown } else { value(raw, numbering, false) };
            // the old value read is that of the put's field, not of ACKS or ACKT
            let (requested, old) = match acknowledged {
                Some(_) => (known(&requested), Value::Unknown),
                None => match link.zip(numbering.dbf(old.dbf)) {
                    Some((link, dbf)) => (known(&requested), fields::old_link(old.bytes, link, dbf)),
                    None if before == Before::Nothing => (known(&requested), Value::Unknown),
                    None if before == Before::SingleValue && old.count > 1 => {
                        (known(&requested), Value::Unknown)
                    }
                    // as its value afterwards is told
                    None if before == Before::Array && kind != PutKind::Notify => {
                        (known(&requested), value(&old, numbering, true))
                    }
                    None => (known(&requested), known(&old)),
                },
            };
            if let Some(field) = field {
                let is_inner = kind == PutKind::Put;
                ioc.note_put(env, place, (record, head.object), field, description, &old, is_inner);
            }
            Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
        }
        Body::LinkPut { record, pv, value: raw } => {
            // a link that does not name its record belongs to the record that it lies in
            let address = match record {
                0 => ioc.link_owner(env, head.object),
                record => Some(record),
            };
            let record = match address {
                None => None,
                Some(address) => match ioc.record(env, time, address) {
                    None => return new,
                    known => known,
                },
            };
            let pv = printable(pv);
            let (dbf, count, value) = (dbf(&raw, numbering), raw.count, value(&raw, numbering, false));
            Fact::from(CaLinkPut { thread, sp, site: 0, record, pv, dbf, count, value })
        }
        Body::ChainsLeftOut { since, count } => {
            let Some(record) = ioc.record(env, time, head.object) else { return new };
            Fact::ChainsLeftOut(ChainsLeftOut { record, count, since })
        }
        Body::ClientPut { cid } => {
            let site = ioc.call_site(env, time, head.caller);
            if let Some(cid) = cid {
                ioc.client_channel(env, time, head.object, cid);
            }
            Fact::CaClientPut(CaClientPut { thread, sp, site, channel: head.object })
        }
        Body::Console { length, text } => {
            let (pid, tid, descriptor) = (head.pid, head.tid, head.object);
            ioc.console.write(env, pid, Written { time, tid, thread, sp, descriptor, length, text });
            return new;
        }
        Body::Errlog { severity, format } => {
            let site = ioc.call_site(env, time, head.caller);
            Fact::from(ErrlogCall { thread, sp, site, severity, format: printable(format) })
        }
        Body::GivingUp { how, file, expression } => {
            // its probe is there twice while it is bound to another thread
            let (tid, at, then) = std::mem::replace(&mut ioc.gave_up, (head.tid, head.sp, time));
            if (tid, at) == (head.tid, head.sp) && time.saturating_sub(then) < TWICE {
                return new;
            }
            let site = ioc.call_site(env, time, head.caller);
            let (file, line, expression) = (printable(file), head.object as u32, printable(expression));
            Fact::from(GivingUp { thread, sp, site, how, file, line, expression })
        }
        Body::Cause { kind, user } => {
            let record = ioc.records.id(user);
            let site = ioc.call_site(env, time, head.caller);
            Fact::Cause(Cause { thread, sp, site, kind, object: head.object, record })
        }
    };
    env.push(time, fact);
    new
}

#[cfg(test)]
mod tests;
