//! Chains as OpenTelemetry traces: OTLP JSON lines, one chain per line.
//!
//! Ids are hashes of a span's identity: its host's boot, process, thread, time and record. The same log gives the same
//! ids whenever it is exported.

mod describe;
mod ids;
mod shape;

use self::describe::{describe_link, describe_process, inner_put, root};
use self::ids::Hash;
use self::shape::{int, text, Attribute, OtlpSpan, Resource, ResourceSpans, Scope, ScopeSpans, TracesData};
use crate::model::chain::{Chain, Span, SpanKind};
use crate::model::putlog::root_put;
use crate::model::run::{ioc_of_circuit, ioc_of_thread, record_name};
use crate::out::Out;
use crate::output::format::Writer;
use iocrec_log::context::Context;
use iocrec_log::event::Ioc;
use std::io;
use std::rc::Rc;

/// Depth to which chains that CA links lead to are written as one trace.
const MAX_DEPTH: usize = 16;

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
            kind: shape::INTERNAL,
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
            SpanKind::Process(process) => describe_process(&mut otlp, chain, &context, span, process),
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
