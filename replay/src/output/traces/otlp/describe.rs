//! Names and attributes of spans: a put, a record that processed, a CA link.

use super::pva::{describe_pva, span_name};
use super::shape::{
    any, int, peer, server, text, AnyValue, Attribute, OtlpEvent, OtlpSpan, Status, CLIENT, ERROR, SERVER,
};
use super::since_1970;
use crate::model::chain::{Chain, LinkSpan, Outcome, ProcessSpan, PutSpan, Span};
use crate::model::enum_strings::{self, severity_name, status_name};
use crate::model::putlog::{PutLine, Via};
use crate::model::run::{field_name, record_name};
use crate::model::span_ids::ioc_of;
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, ScanKind};

/// Fills in the put that began the chain.
pub(super) fn root(otlp: &mut OtlpSpan, put: &PutSpan, line: &PutLine) {
    let attributes = &mut otlp.attributes;
    let pv = line.pv.as_deref().unwrap_or("(unnamed channel)");
    let with_callback = put.packet.as_ref().map(|packet| packet.notify).filter(|_| line.pva.is_none());
    if let Some(pva) = &line.pva {
        otlp.kind = SERVER;
        otlp.name = span_name(pva.request, pv);
    } else if let Some(notify) = with_callback {
        otlp.kind = SERVER;
        otlp.name = format!("caput {pv}");
        text(attributes, "epics.ca.command", if notify { "WRITE_NOTIFY" } else { "WRITE" });
    } else {
        otlp.name = format!("put {pv}");
    }
    text(attributes, "epics.pv.name", pv);
    text(attributes, "epics.record.name", line.record.as_deref().unwrap_or_default());
    text(attributes, "epics.field.name", line.field.as_deref().unwrap_or_default());
    any(attributes, "epics.put.value", &put.requested);
    any(attributes, "epics.put.old_value", &line.old);
    if !line.dbr.is_empty() {
        text(attributes, "epics.put.dbr_type", &line.dbr);
        int(attributes, "epics.put.count", i64::from(line.count));
    }
    text(attributes, "epics.put.via", line.via.name());
    describe_pva(attributes, line);
    text(attributes, "epics.client.user", line.user.as_deref().unwrap_or_default());
    text(attributes, "client.address", line.client_host.as_deref().unwrap_or_default());
    peer(attributes, line.client.as_deref());
    if let Some(record) = &line.cause_record {
        text(attributes, "epics.cause.record", record);
        if line.via != Via::DbLink {
            // No context travels with Channel Access: same PV and value, in order, and nothing else fits.
            text(attributes, "epics.cause.joined_by", "pv, value, time");
        }
    }
    text(attributes, "epics.status", &line.status);
    if line.status != "ok" && line.status != "unknown" {
        otlp.status = Some(Status { code: ERROR, message: line.status.to_string() });
    }
}

pub(super) fn inner_put(otlp: &mut OtlpSpan, context: &Context, put: &PutSpan) {
    let record = put.record.map(|record| record_name(context, record)).unwrap_or_default();
    let field = field_name(context, put.field).unwrap_or_default();
    otlp.name = if field.is_empty() { format!("put {record}") } else { format!("put {record}.{field}") };
    let attributes = &mut otlp.attributes;
    text(attributes, "epics.record.name", &record);
    text(attributes, "epics.field.name", field);
    any(attributes, "epics.put.value", &put.requested);
    any(attributes, "epics.put.old_value", &put.old);
    if put.has_type() {
        text(attributes, "epics.put.dbr_type", put.dbf.request_name());
        int(attributes, "epics.put.count", i64::from(put.count));
    }
}

pub(super) fn describe_process(
    otlp: &mut OtlpSpan,
    chain: &Chain,
    context: &Context,
    span: &Span,
    process: &ProcessSpan,
) {
    let record = record_name(context, process.record);
    otlp.name = format!("process {record}");
    let attributes = &mut otlp.attributes;
    text(attributes, "epics.record.name", &record);
    text(attributes, "epics.record.type", context.record(process.record).map_or("", |record| record.rtype));
    text(attributes, "epics.process.trigger", process.trigger.name());
    if let Some(list) = process.list.and_then(|list| context.scan_list(list)) {
        let key = if list.kind == ScanKind::Event { "epics.scan.event" } else { "epics.scan.period" };
        text(attributes, key, &list.name);
    }
    if let Some(asked) = &process.asked {
        if let Some(thread) = context.thread(asked.thread) {
            int(attributes, "epics.cause.thread.id", i64::from(thread.tid));
            text(attributes, "epics.cause.thread.name", &thread.name);
        }
        let function = context.call_site(asked.site).map_or("", |site| site.function.as_str());
        text(attributes, "epics.cause.function", function);
        otlp.events.push(OtlpEvent {
            time_unix_nano: since_1970(chain.run.wall(asked.time)),
            name: "scan requested",
            attributes: Vec::new(),
        });
    }
    let active = matches!(process.outcome, Outcome::Active | Outcome::Entered { again: true });
    attributes.push(Attribute { key: "epics.process.pact", value: AnyValue::Bool(active) });
    match &process.outcome {
        Outcome::Completed(completed) => {
            any(attributes, "epics.record.value", &completed.value);
            text(attributes, "epics.record.severity", severity_name(completed.severity));
            int(attributes, "epics.record.status", i64::from(completed.status));
            text(attributes, "epics.record.status_text", status_name(completed.status));
            if let Some(state) = enum_strings::state(context, process.record, span.end, &completed.value) {
                text(attributes, "epics.record.value_text", &state);
            }
            // INVALID: the value can't be used. MINOR and MAJOR are ordinary results.
            if completed.severity >= epics::alarm::INVALID {
                otlp.status = Some(Status { code: ERROR, message: "INVALID".to_owned() });
            }
        }
        Outcome::Active => text(attributes, "epics.process.outcome", "active already"),
        Outcome::Skipped => text(attributes, "epics.process.outcome", "skipped"),
        Outcome::Disabled => text(attributes, "epics.process.outcome", "disabled"),
        Outcome::Waiting => text(attributes, "epics.process.outcome", "has yet to complete"),
        Outcome::Open => text(attributes, "epics.process.outcome", "not seen to complete"),
        Outcome::Entered { .. } => text(attributes, "epics.process.outcome", "not recorded"),
    }
    otlp.lasts = !process.phases.is_empty() || matches!(process.outcome, Outcome::Waiting | Outcome::Open);
    for phase in &process.phases {
        let mut attributes = Vec::new();
        if let Some(thread) = context.thread(phase.thread) {
            text(&mut attributes, "thread.name", &thread.name);
        }
        otlp.events.push(OtlpEvent {
            time_unix_nano: since_1970(chain.run.wall(phase.time)),
            name: phase.asked.map_or("asynchronous completion", cause_name),
            attributes,
        });
    }
}

/// The function called.
fn cause_name(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::CallbackRequest => "callbackRequest",
        CauseKind::CallbackRequestDelayed => "callbackRequestDelayed",
        CauseKind::CallbackRequestProcess => "callbackRequestProcessCallback",
        CauseKind::CallbackRequestProcessDelayed => "callbackRequestProcessCallbackDelayed",
        CauseKind::ScanOnce => "scanOnce",
        CauseKind::ScanIoRequest => "scanIoRequest",
        CauseKind::PostEvent => "postEvent",
    }
}

pub(super) fn describe_link(otlp: &mut OtlpSpan, context: &Context, link: &LinkSpan) {
    otlp.kind = CLIENT;
    otlp.name = format!("caputlink {}", link.pv);
    let attributes = &mut otlp.attributes;
    text(attributes, "epics.pv.name", &link.pv);
    let record = link.record.map(|record| record_name(context, record)).unwrap_or_default();
    text(attributes, "epics.record.name", &record);
    any(attributes, "epics.put.value", &link.value);
    let Some(target) = &link.target else { return };
    let target_context = target.run.context();
    let Some(root) = target.root() else { return };
    if let Some(packet) = root.packet() {
        let [_, address] = target_context.addresses(packet.circuit);
        server(attributes, address.as_deref());
    }
    text(attributes, "service.peer.name", ioc_of(&target_context, root).map_or("", |ioc| ioc.name.as_str()));
}
