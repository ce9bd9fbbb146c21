//! The keys of puts in JSON lines and CSV.

use crate::model::client::Holder;
use crate::model::putlog::{ProcessLine, PutLine, PvaLine};
use crate::model::updates::{Before, Update};
use crate::model::value;
use crate::time::Zone;
use iocrec_log::event::{SocketHolder, Value};
use serde::Serialize;

/// The keys of a JSON line, and the columns of CSV. They never change; add new ones at the end.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pv: Option<&'a str>,
    record: Option<&'a str>,
    field: Option<&'a str>,
    user: Option<&'a str>,
    client_host: Option<&'a str>,
    client: Option<&'a str>,
    server: Option<&'a str>,
    via: &'a str,
    dbr: Option<&'a str>,
    count: Option<u32>,
    requested: serde_json::Value,
    old: serde_json::Value,
    new: serde_json::Value,
    status: &'a str,
    callback_ms: Option<f64>,
    thread: Option<&'a str>,
    source: &'a str,
    inexact: bool,
    cause_record: Option<&'a str>,
    old_text: Option<&'a str>,
    new_text: Option<&'a str>,
    requested_cut: Option<bool>,
    old_cut: Option<bool>,
    new_cut: Option<bool>,
    client_ioc: Option<&'a str>,
    protocol: Option<&'a str>,
    request: Option<&'a str>,
    fields: serde_json::Value,
    fields_cut: Option<bool>,
    options: serde_json::Value,
    message: Option<&'a str>,
    result: serde_json::Value,
    members: serde_json::Value,
    process: serde_json::Value,
}

/// The keys and values of a put.
pub fn line<'a>(put: &'a PutLine, zone: &Zone) -> Line<'a> {
    Line {
        time: zone.format(put.time, 9),
        host: put.host.as_deref(),
        ioc: put.ioc.as_deref(),
        pv: put.pv.as_deref(),
        record: put.record.as_deref(),
        field: put.field.as_deref(),
        user: put.user.as_deref(),
        client_host: put.client_host.as_deref(),
        client: put.client.as_deref(),
        server: put.server.as_deref(),
        via: put.via.name(),
        dbr: Some(&*put.dbr).filter(|dbr| !dbr.is_empty()),
        count: (!put.dbr.is_empty()).then_some(put.count),
        requested: value::json(&put.requested),
        old: value::json(&put.old),
        new: value::json(&put.new),
        status: &put.status,
        callback_ms: put.callback_ms,
        thread: put.thread.as_deref(),
        source: put.source,
        inexact: put.inexact,
        cause_record: put.cause_record.as_deref(),
        old_text: put.old_text.as_deref(),
        new_text: put.new_text.as_deref(),
        requested_cut: put.requested_cut,
        old_cut: put.old_cut,
        new_cut: put.new_cut,
        client_ioc: put.client_ioc.as_deref(),
        protocol: put.protocol,
        request: put.pva.as_ref().map(|pva| pva.request),
        fields: fields(put.pva.as_ref().map(|pva| pva.fields.as_slice())),
        fields_cut: put.pva.as_ref().map(|pva| pva.is_cut),
        options: put.pva.as_deref().map_or(serde_json::Value::Null, options),
        message: put.pva.as_ref().and_then(|pva| pva.message.as_deref()),
        result: fields(put.pva.as_ref().map(|pva| pva.result.as_slice()).filter(|found| !found.is_empty())),
        members: match put.members() {
            [] => serde_json::Value::Null,
            members => members.iter().map(member).collect(),
        },
        process: put.process.as_deref().map_or(serde_json::Value::Null, process),
    }
}

/// The process that made the put. Its pid and what goes with it are those of the only one that can have made it.
pub fn process(of: &ProcessLine) -> serde_json::Value {
    let holder = |holder: &Holder| {
        serde_json::json!({
            "pid": holder.of.pid,
            "program": holder.of.program,
            "command": command(&holder.of),
            "command_cut": holder.of.is_cut,
            "user": holder.of.user,
            "ioc": holder.ioc,
        })
    };
    let only = of.only();
    let (pid, program) = match (only, &of.ioc) {
        (Some(only), _) => (Some(only.of.pid), Some(only.of.program.as_str())),
        (None, Some((_, pid, program))) if of.holders.is_empty() => (Some(*pid), Some(program.as_str())),
        _ => (None, None),
    };
    serde_json::json!({
        "host": of.host,
        "pid": pid,
        "program": program,
        "command": only.and_then(|only| command(&only.of)),
        "command_cut": only.map(|only| only.of.is_cut),
        "user": only.map(|only| only.of.user.as_str()),
        "ioc": of.ioc.as_ref().map(|(name, ..)| name),
        "record": of.record,
        "thread": of.thread,
        "sequencer_program": of.part.sequencer.as_deref().filter(|_| of.thread.is_some()),
        "may_be_records": if of.record.is_none() { of.part.links.as_slice() } else { &[] },
        "may_be_threads": match (&of.thread, of.part.threads.is_empty()) {
            (Some(_), _) => &[],
            (None, true) => of.part.programs.as_slice(),
            (None, false) => of.part.threads.as_slice(),
        },
        "holders": if only.is_some() { Vec::new() } else { of.holders.iter().map(holder).collect() },
        "more_holders": of.more,
        "all_looked_at": of.is_whole,
        "by_other_log": of.is_joined,
        "clock_ahead_ms": of.ahead.map(|ahead| ahead as f64 / 1e6),
        "perhaps_after": of.after.as_deref().map(updates),
    })
}

/// The updates that may have made the process put.
fn updates(before: &Before) -> serde_json::Value {
    let known = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    let update = |update: &Update| {
        serde_json::json!({
            "pv": update.pv,
            "host": known(&update.host),
            "ioc": known(&update.ioc),
            "before_ms": update.ago as f64 / 1e6,
            "times": update.times,
            "changed": update.is_sure.then_some(true),
        })
    };
    serde_json::json!({
        "updates": before.updates.iter().map(update).collect::<Vec<_>>(),
        "may_be_others": before.may_be_others,
    })
}

fn command(of: &SocketHolder) -> Option<String> {
    Some(of.command.join(" ")).filter(|command| !command.is_empty())
}

/// The client's options by name.
pub fn options(pva: &PvaLine) -> serde_json::Value {
    let option = |(name, value): &(String, String)| (name.clone(), value.as_str().into());
    serde_json::Value::Object(pva.options.iter().map(option).collect())
}

/// Fields by name.
pub fn fields(found: Option<&[(String, Value)]>) -> serde_json::Value {
    let Some(found) = found else { return serde_json::Value::Null };
    let field = |(name, value): &(String, Value)| (name.clone(), value::json(value));
    serde_json::Value::Object(found.iter().map(field).collect())
}

/// What PVAccess adds to a put, as JSON.
pub fn detail(put: &PutLine) -> String {
    let pva = put.pva.as_ref();
    let detail = serde_json::json!({
        "fields": fields(pva.map(|pva| pva.fields.as_slice())),
        "fields_cut": pva.map(|pva| pva.is_cut),
        "options": pva.map(|pva| options(pva)),
        "result": fields(pva.map(|pva| pva.result.as_slice()).filter(|found| !found.is_empty())),
        "members": put.members().iter().map(member).collect::<Vec<_>>(),
    });
    detail.to_string()
}

/// What is known of a put to a group's member beside what is known of the group's.
fn member(put: &PutLine) -> serde_json::Value {
    serde_json::json!({
        "record": put.record,
        "field": put.field,
        "requested": value::json(&put.requested),
        "old": value::json(&put.old),
        "new": value::json(&put.new),
        "old_text": put.old_text,
        "new_text": put.new_text,
        "status": put.status,
        "inexact": put.inexact,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::Out;
    use crate::output::puts::sample::put;
    use iocrec_log::event::Value;

    #[test]
    fn json_has_all_keys_even_where_nothing_is_known() {
        let unknown = PutLine {
            user: None,
            callback_ms: None,
            requested: Value::Double(f64::NAN),
            old: Value::Unknown,
            new: Value::Unknown,
            old_cut: None,
            new_cut: None,
            ..put()
        };
        let mut out = Vec::new();
        Out::new(&mut out).json(&line(&unknown, &Zone::utc())).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"time":"2026-09-21T14:13:20.123456789+00:00","host":"box1","ioc":"demo","pv":"T:SP","#,
                r#""record":"T:SP","field":"VAL","user":null,"client_host":"console3","#,
                r#""client":"10.0.0.5:41022","server":"10.0.0.9:5064","via":"ca_write_notify","#,
                r#""dbr":"DBR_DOUBLE","count":1,"requested":"NaN","old":null,"new":null,"status":"ok","#,
                r#""callback_ms":null,"thread":"CAS-client","source":"both","inexact":false,"#,
                r#""cause_record":null,"old_text":null,"new_text":null,"requested_cut":false,"#,
                r#""old_cut":null,"new_cut":null,"client_ioc":null,"protocol":"ca","request":null,"#,
                r#""fields":null,"fields_cut":null,"options":null,"message":null,"result":null,"members":null,"process":null}"#,
                "\n"
            )
        );
    }

    #[test]
    fn an_unknown_type_is_null() {
        let unknown = PutLine { dbr: "".into(), count: 0, ..put() };
        let keys = serde_json::to_value(line(&unknown, &Zone::utc())).unwrap();
        assert_eq!((&keys["dbr"], &keys["count"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
}
