//! A log record of what happened: severity, text and attributes, which are named as those of spans.

use super::otlp::LogRecord;
use crate::answers::console::{Kind, Row};
use crate::answers::happened::{Happened, What};
use crate::model::alarms::{AlarmLine, Source, What as OfAlarm};
use crate::model::enum_strings::{severity_name, status_name};
use crate::model::putlog::PutLine;
use crate::names::{lost, source_name};
use crate::output::alarms::{alarm, alarm_then};
use crate::output::console::said;
use crate::output::traces::otlp::pva::describe_pva;
use crate::output::traces::otlp::shape::{any, int, peer, text, AnyValue, Attribute};
use crate::output::traces::otlp::since_1970;
use crate::reading::ended_unseen::UNSEEN;
use crate::wording::inputs::push_cause;
use crate::wording::put::{change, who};
use iocrec_log::event::Loss;
use std::fmt::Write as _;

/// Severity numbers of the protocol.
const INFO: u8 = 9;
const WARN: u8 = 13;
const ERROR: u8 = 17;
const FATAL: u8 = 21;

/// What happened in words.
pub(super) fn body(what: &What) -> String {
    match what {
        What::Put(put) => {
            let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
            format!("{pv} {}, {}, by {}", change(put), put.status, who(put))
        }
        What::Alarm(line) => alarm_in_words(line),
        What::Said(row) => said(row),
        What::Mark(text) => text.clone(),
        What::End(how) if how.is_empty() => "the IOC ended".to_owned(),
        What::End(how) if how == UNSEEN => format!("the IOC had ended by then, {how}"),
        What::End(how) => format!("the IOC ended: {how}"),
        What::Loss(loss) => format!("{}: {}", lost(loss), loss.cause),
        What::Unrecorded(between) => between.sentence(),
    }
}

fn alarm_in_words(line: &AlarmLine) -> String {
    let mut words = format!("{} ", line.place.record);
    if let (OfAlarm::Acknowledged, Some(put)) = (line.what, line.put.as_deref()) {
        let _ = write!(words, "{}, {}, by {}", change(put), alarm_then(line.to), who(put));
        return words;
    }
    let _ = write!(words, "{} -> {}", alarm(line.from), alarm(line.to));
    match (line.source, line.cause.as_deref()) {
        (Source::Snapshot, _) => words.push_str(", found so by the recorder"),
        (Source::Process, Some(cause)) => {
            words.push_str(", ");
            push_cause(&mut words, cause);
        }
        (Source::Process, None) => words.push_str(", cause not known"),
    }
    words
}

/// What happened as a log record.
pub(super) fn record(happened: &Happened) -> LogRecord {
    let mut attributes = Vec::new();
    let (event, severity, ids) = match &happened.what {
        What::Put(put) => {
            describe_put(&mut attributes, put);
            ("epics.put", if put.has_failed() { (WARN, "WARN") } else { (INFO, "INFO") }, put.span)
        }
        What::Alarm(line) => {
            describe_alarm(&mut attributes, line);
            let event = match line.what {
                OfAlarm::Acknowledged => "epics.alarm.acknowledge",
                _ => "epics.alarm.change",
            };
            (event, of_alarm(line), line.span.as_deref().copied())
        }
        What::Said(row) => {
            describe_said(&mut attributes, row);
            ("epics.console", of_said(row), None)
        }
        What::Mark(_) => ("iocrec.mark", (INFO, "INFO"), None),
        What::End(how) => {
            text(&mut attributes, "epics.ioc.end.how", how);
            ("epics.ioc.end", (WARN, "WARN"), None)
        }
        What::Loss(loss) => {
            describe_loss(&mut attributes, loss);
            ("iocrec.loss", (WARN, "WARN"), None)
        }
        What::Unrecorded(between) => {
            text(&mut attributes, "iocrec.loss.cause", between.cause());
            ("iocrec.loss", (WARN, "WARN"), None)
        }
    };
    LogRecord {
        time_unix_nano: since_1970(happened.time),
        observed_time_unix_nano: since_1970(happened.time),
        severity_number: severity.0,
        severity_text: severity.1,
        body: AnyValue::Text(body(&happened.what)),
        attributes,
        trace_id: ids.map(|ids| ids.trace),
        span_id: ids.map(|ids| ids.span),
        event_name: event,
    }
}

fn known(attributes: &mut Vec<Attribute>, key: &'static str, value: Option<&str>) {
    text(attributes, key, value.unwrap_or_default());
}

fn describe_client(attributes: &mut Vec<Attribute>, put: &PutLine) {
    known(attributes, "epics.client.user", put.user.as_deref());
    known(attributes, "client.address", put.client_host.as_deref());
    peer(attributes, put.client.as_deref());
    known(attributes, "epics.client.ioc", put.client_ioc.as_deref());
}

fn describe_put(attributes: &mut Vec<Attribute>, put: &PutLine) {
    known(attributes, "epics.pv.name", put.pv.as_deref());
    known(attributes, "epics.record.name", put.record.as_deref());
    known(attributes, "epics.field.name", put.field.as_deref());
    any(attributes, "epics.put.value", &put.requested);
    any(attributes, "epics.put.old_value", &put.old);
    any(attributes, "epics.put.new_value", &put.new);
    attributes.push(Attribute { key: "epics.put.inexact", value: AnyValue::Bool(put.inexact) });
    if !put.dbr.is_empty() {
        text(attributes, "epics.put.dbr_type", &put.dbr);
        int(attributes, "epics.put.count", i64::from(put.count));
    }
    text(attributes, "epics.put.via", put.via.name());
    describe_pva(attributes, put);
    describe_client(attributes, put);
    known(attributes, "thread.name", put.thread.as_deref());
    known(attributes, "epics.cause.record", put.cause_record.as_deref());
    text(attributes, "epics.status", &put.status);
}

fn describe_alarm(attributes: &mut Vec<Attribute>, line: &AlarmLine) {
    text(attributes, "epics.record.name", &line.place.record);
    if let Some((severity, status)) = line.to {
        text(attributes, "epics.record.severity", severity_name(severity));
        text(attributes, "epics.record.status_text", status_name(status));
    }
    if let (OfAlarm::Change, Some((severity, status))) = (line.what, line.from) {
        text(attributes, "epics.alarm.from_severity", severity_name(severity));
        text(attributes, "epics.alarm.from_status", status_name(status));
    }
    any(attributes, "epics.record.value", &line.value);
    known(attributes, "epics.record.value_text", line.text.as_deref());
    let cause = line.cause.as_deref();
    known(attributes, "epics.cause", cause.map(|cause| cause.text.text()).as_deref());
    if let Some(put) = line.put.as_deref().or(cause.and_then(|cause| cause.put.as_deref())) {
        describe_client(attributes, put);
    }
    let source = match line.source {
        Source::Process => "process",
        Source::Snapshot => "snapshot",
    };
    text(attributes, "epics.alarm.source", source);
    known(attributes, "epics.alarm.gap", line.gap.as_deref());
}

/// An alarm's severity, by its own name.
fn of_alarm(line: &AlarmLine) -> (u8, &'static str) {
    match (line.what, line.to) {
        (OfAlarm::Change, Some((severity, _))) => {
            let number = match severity {
                epics::alarm::NO_ALARM => INFO,
                epics::alarm::MINOR => WARN,
                _ => ERROR,
            };
            (number, severity_name(severity))
        }
        _ => (INFO, "INFO"),
    }
}

fn describe_said(attributes: &mut Vec<Attribute>, row: &Row) {
    text(attributes, "epics.console.kind", row.kind.name());
    known(attributes, "epics.console.output", row.output);
    known(attributes, "thread.name", row.thread.as_deref());
    if let Some(record) = &row.record {
        text(attributes, "epics.record.name", record);
        attributes.push(Attribute { key: "epics.record.certain", value: AnyValue::Bool(row.is_certain) });
    }
    known(attributes, "code.function", row.caller.as_deref());
}

/// A message's severity for errlog; 0 and nothing where it has none.
fn of_said(row: &Row) -> (u8, &'static str) {
    match (row.kind, row.severity) {
        (Kind::GaveUp, _) => (ERROR, "ERROR"),
        (_, Some(severity)) => {
            let number = match severity {
                "minor" => WARN,
                "major" => ERROR,
                "fatal" => FATAL,
                _ => INFO,
            };
            (number, severity)
        }
        (_, None) => (0, ""),
    }
}

fn describe_loss(attributes: &mut Vec<Attribute>, loss: &Loss) {
    text(attributes, "iocrec.loss.source", source_name(loss.source));
    // 0 is not known
    if loss.count > 0 {
        int(attributes, "iocrec.loss.count", i64::try_from(loss.count).unwrap_or(i64::MAX));
    }
    text(attributes, "iocrec.loss.cause", &loss.cause);
}
