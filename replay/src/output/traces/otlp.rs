//! Chains as OpenTelemetry traces: OTLP JSON lines, one chain per line.
//!
//! Ids are hashes of a span's identity: its host's boot, process, thread, time and record. The same log gives the same
//! ids whenever it is exported.

use crate::model::chain::{Chain, LinkSpan, Outcome, ProcessSpan, PutSpan, Span, SpanKind};
use crate::model::enum_strings::{self, severity_name, status_name};
use crate::model::putlog::{root_put, PutLine};
use crate::model::run::{field_name, ioc_of_circuit, ioc_of_thread, record_name};
use crate::model::value;
use crate::out::Out;
use crate::output::format::Writer;
use iocrec_log::context::Context;
use iocrec_log::event::{CauseKind, Ioc, ScanKind, Value};
use serde::Serialize;
use std::io;
use std::rc::Rc;

/// Span kinds of the protocol.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// Status code of the protocol for an error.
const ERROR: u8 = 2;
/// Depth to which chains that CA links lead to are written as one trace.
const MAX_DEPTH: usize = 16;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TracesData {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
    /// Its run and IOC.
    #[serde(skip)]
    of: (usize, Option<u32>),
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<OtlpSpan>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<OtlpEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpEvent {
    time_unix_nano: String,
    name: &'static str,
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Status {
    code: u8,
    message: String,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: AnyValue,
}

#[derive(Serialize)]
enum AnyValue {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Bool(bool),
    /// The protocol writes 64-bit integers as strings.
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "arrayValue")]
    Array { values: Vec<AnyValue> },
}

/// Writes chains as OTLP JSON lines.
pub struct Otlp;

impl Writer<Chain> for Otlp {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        write(out, chain)
    }
}

/// Writes a chain.
fn write(out: &mut Out, chain: &Chain) -> io::Result<()> {
    let Some(first) = chain.root() else { return Ok(()) };
    let mut data = TracesData { resource_spans: Vec::new() };
    let trace = Hash::new(b"trace").span(chain, first).0;
    let trace = format!("{:032x}", trace.max(1));
    push_tree(&mut data, chain, &trace, None, 0);
    out.json(&data)
}

/// The link that leads to a chain: its span's id, and the record's name.
struct Link<'a> {
    span: &'a str,
    record: Option<String>,
}

fn push_tree(data: &mut TracesData, chain: &Chain, trace: &str, link: Option<&Link>, depth: usize) {
    let context = chain.run.context();
    let mut ids: Vec<String> = Vec::with_capacity(chain.spans.len());
    for span in &chain.spans {
        let mut hash = Hash::new(b"span").span(chain, span);
        let mut id = hash.short();
        // Two hits of a record at the same nanosecond are still different spans.
        while ids.last() == Some(&id) {
            hash = hash.bytes(b"again");
            id = hash.short();
        }
        ids.push(id);
    }
    for (number, (span, id)) in chain.spans.iter().zip(&ids).enumerate() {
        let parent = match span.parent {
            Some(parent) => ids.get(parent).cloned(),
            None => link.map(|link| link.span.to_owned()),
        };
        let start = chain.run.wall(span.start);
        let end = start.saturating_add_unsigned(span.end.saturating_sub(span.start));
        let mut otlp = OtlpSpan {
            trace_id: trace.to_owned(),
            span_id: id.clone(),
            parent_span_id: parent,
            name: String::new(),
            kind: INTERNAL,
            start_time_unix_nano: start.max(0).to_string(),
            end_time_unix_nano: end.max(0).to_string(),
            attributes: Vec::new(),
            events: Vec::new(),
            status: None,
        };
        match &span.kind {
            SpanKind::Put(put) if put.only_processes => {
                let record = put.record.map(|record| record_name(&context, record)).unwrap_or_default();
                otlp.name = format!("request process {record}");
                text(&mut otlp.attributes, "epics.record.name", &record);
            }
            SpanKind::Put(put) if number == 0 => {
                match root_put(chain, link.map(|l| l.record.as_deref().unwrap_or(""))) {
                    Some(line) => root(&mut otlp, put, &line),
                    None => inner_put(&mut otlp, &context, put),
                }
            }
            SpanKind::Put(put) => inner_put(&mut otlp, &context, put),
            SpanKind::Process(process) => describe_process(&mut otlp, chain, &context, process),
            SpanKind::Link(link) => describe_link(&mut otlp, &context, link),
        }
        if let Some(thread) = span.thread.and_then(|thread| context.thread(thread)) {
            int(&mut otlp.attributes, "thread.id", i64::from(thread.tid));
            text(&mut otlp.attributes, "thread.name", &thread.name);
        }
        let ioc = ioc(&context, span);
        push_span(data, chain, &context, ioc, span, otlp);
        let SpanKind::Link(link) = &span.kind else { continue };
        if let Some(target) = &link.target {
            if depth < MAX_DEPTH {
                let record = link.record.map(|record| record_name(&context, record));
                push_tree(data, target, trace, Some(&Link { span: id, record }), depth + 1);
            }
        }
    }
}

fn ioc<'a>(context: &'a Context, span: &Span) -> Option<&'a Ioc> {
    let by_thread = span.thread.and_then(|thread| ioc_of_thread(context, thread));
    by_thread.or_else(|| ioc_of_circuit(context, span.packet()?.circuit))
}

/// Adds a span to those of its IOC, after making a resource for that if there is none.
fn push_span(
    data: &mut TracesData,
    chain: &Chain,
    context: &Context,
    ioc: Option<&Ioc>,
    span: &Span,
    otlp: OtlpSpan,
) {
    let of = (Rc::as_ptr(&chain.run) as usize, ioc.map(|ioc| ioc.id));
    if let Some(resource) = data.resource_spans.iter_mut().find(|resource| resource.of == of) {
        let [scope] = &mut resource.scope_spans;
        return scope.spans.push(otlp);
    }
    let attributes = resource_attributes(context, ioc, span);
    let scope = Scope { name: "iocreplay", version: env!("CARGO_PKG_VERSION") };
    let scope_spans = [ScopeSpans { scope, spans: vec![otlp] }];
    data.resource_spans.push(ResourceSpans { resource: Resource { attributes }, scope_spans, of });
}

fn resource_attributes(context: &Context, ioc: Option<&Ioc>, span: &Span) -> Vec<Attribute> {
    let mut attributes = Vec::new();
    let host = context.host();
    let host_name = host.map_or("", |host| host.name.as_str());
    match ioc {
        Some(ioc) => {
            text(&mut attributes, "service.name", &ioc.name);
            let instance = format!("{host_name}:{}:{}", ioc.pid, ioc.start);
            text(&mut attributes, "service.instance.id", &instance);
            int(&mut attributes, "process.pid", i64::from(ioc.pid));
            let name = ioc.exe.rsplit('/').next().unwrap_or_default();
            text(&mut attributes, "process.executable.name", name);
            text(&mut attributes, "epics.base.version", &ioc.base_version);
        }
        None => {
            // A server that is not on this host or was not inspected: use its address.
            let server = span.packet().and_then(|packet| {
                let [_, server] = context.addresses(packet.circuit);
                server
            });
            let name = server.unwrap_or_else(|| "unknown".to_owned());
            text(&mut attributes, "service.name", &name);
        }
    }
    text(&mut attributes, "service.namespace", "epics");
    text(&mut attributes, "host.name", host_name);
    text(&mut attributes, "os.type", "linux");
    text(&mut attributes, "os.version", host.map_or("", |host| host.kernel.as_str()));
    attributes
}

/// Fills in the put that began the chain.
fn root(otlp: &mut OtlpSpan, put: &PutSpan, line: &PutLine) {
    let attributes = &mut otlp.attributes;
    let pv = line.pv.as_deref().unwrap_or("(unnamed channel)");
    let over_pva = line.pva.is_some();
    let with_callback = put.packet.as_ref().map(|packet| packet.notify).filter(|_| !over_pva);
    if over_pva {
        otlp.kind = SERVER;
        otlp.name = format!("put {pv}");
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
    any(attributes, "epics.put.old_value", &put.old);
    text(attributes, "epics.put.dbr_type", &line.dbr);
    int(attributes, "epics.put.count", i64::from(line.count));
    text(attributes, "epics.put.via", line.via.name());
    text(attributes, "epics.client.user", line.user.as_deref().unwrap_or_default());
    text(attributes, "client.address", line.client_host.as_deref().unwrap_or_default());
    if let Some((ip, port)) = line.client.as_deref().and_then(|client| client.rsplit_once(':')) {
        text(attributes, "network.peer.address", ip);
        int(attributes, "network.peer.port", port.parse().unwrap_or_default());
    }
    if let Some(record) = &line.cause_record {
        text(attributes, "epics.cause.record", record);
        // No context travels with Channel Access: same PV and value, in order, and nothing else fits.
        text(attributes, "epics.cause.joined_by", "pv, value, time");
    }
    text(attributes, "epics.status", &line.status);
    if line.status != "ok" && line.status != "unknown" {
        otlp.status = Some(Status { code: ERROR, message: line.status.to_string() });
    }
}

fn inner_put(otlp: &mut OtlpSpan, context: &Context, put: &PutSpan) {
    let record = put.record.map(|record| record_name(context, record)).unwrap_or_default();
    let field = field_name(context, put.field).unwrap_or_default();
    otlp.name = if field.is_empty() { format!("put {record}") } else { format!("put {record}.{field}") };
    let attributes = &mut otlp.attributes;
    text(attributes, "epics.record.name", &record);
    text(attributes, "epics.field.name", field);
    any(attributes, "epics.put.value", &put.requested);
    any(attributes, "epics.put.old_value", &put.old);
    text(attributes, "epics.put.dbr_type", put.dbf.request_name());
    int(attributes, "epics.put.count", i64::from(put.count));
}

fn describe_process(otlp: &mut OtlpSpan, chain: &Chain, context: &Context, process: &ProcessSpan) {
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
            time_unix_nano: chain.run.wall(asked.time).max(0).to_string(),
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
            if let Some(state) = enum_strings::state(context, process.record, &completed.value) {
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
    for phase in &process.phases {
        let mut attributes = Vec::new();
        if let Some(thread) = context.thread(phase.thread) {
            text(&mut attributes, "thread.name", &thread.name);
        }
        otlp.events.push(OtlpEvent {
            time_unix_nano: chain.run.wall(phase.time).max(0).to_string(),
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

fn describe_link(otlp: &mut OtlpSpan, context: &Context, link: &LinkSpan) {
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
        if let [_, Some(server)] = target_context.addresses(packet.circuit) {
            text(attributes, "server.address", &server);
        }
    }
    text(attributes, "service.peer.name", ioc(&target_context, root).map_or("", |ioc| ioc.name.as_str()));
}

/// Adds an attribute, unless the text is empty.
fn text(attributes: &mut Vec<Attribute>, key: &'static str, value: &str) {
    if !value.is_empty() {
        attributes.push(Attribute { key, value: AnyValue::Text(value.to_owned()) });
    }
}

fn int(attributes: &mut Vec<Attribute>, key: &'static str, value: i64) {
    attributes.push(Attribute { key, value: AnyValue::Int(value.to_string()) });
}

/// Adds an attribute, unless the value is unknown.
fn any(attributes: &mut Vec<Attribute>, key: &'static str, value: &Value) {
    if let Some(value) = any_value(value) {
        attributes.push(Attribute { key, value });
    }
}

fn any_value(v: &Value) -> Option<AnyValue> {
    Some(match v {
        Value::Unknown => return None,
        Value::Int(v) => AnyValue::Int(v.to_string()),
        // Beyond the range of the protocol's signed integers.
        Value::UInt(v) if i64::try_from(*v).is_err() => AnyValue::Text(v.to_string()),
        Value::UInt(v) => AnyValue::Int(v.to_string()),
        Value::Array(array) => {
            AnyValue::Array { values: value::elements(array).filter_map(|v| any_value(&v)).collect() }
        }
        Value::Float(_) | Value::Double(_) | Value::Text(_) => match value::json(v) {
            serde_json::Value::String(text) => AnyValue::Text(text),
            number => AnyValue::Double(number.as_f64()?),
        },
    })
}

/// FNV-1a with 128 bits: simple, and the same for ever (the standard library's hash is neither).
struct Hash(u128);

impl Hash {
    fn new(kind: &[u8]) -> Self {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d).bytes(kind)
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
        Hash(bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }

    /// Adds text and its end.
    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).bytes(&[0xff])
    }

    /// Adds the identity of a span.
    fn span(self, chain: &Chain, span: &Span) -> Self {
        let context = chain.run.context();
        let boot = context.host().map_or("", |host| host.boot_id.as_str());
        let mut hash = self.text(boot).bytes(&span.start.to_le_bytes());
        if let Some(ioc) = ioc(&context, span) {
            hash = hash.bytes(&ioc.pid.to_le_bytes()).bytes(&ioc.start.to_le_bytes());
        }
        if let Some(thread) = span.thread.and_then(|thread| context.thread(thread)) {
            hash = hash.bytes(&thread.tid.to_le_bytes());
        }
        match &span.kind {
            SpanKind::Put(put) => {
                let packet = put.packet.as_ref();
                if let Some([Some(client), Some(server)]) =
                    packet.map(|packet| context.addresses(packet.circuit))
                {
                    hash = hash.text(&client).text(&server);
                }
                let record = put.record.map(|record| record_name(&context, record)).unwrap_or_default();
                hash.text("put").text(&record).text(field_name(&context, put.field).unwrap_or_default())
            }
            SpanKind::Process(process) => hash.text("process").text(&record_name(&context, process.record)),
            SpanKind::Link(link) => hash.text("link").text(&link.pv),
        }
    }

    /// 64 bits of it in hexadecimal, never all zero.
    fn short(&self) -> String {
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        format!("{:016x}", folded.max(1))
    }
}
