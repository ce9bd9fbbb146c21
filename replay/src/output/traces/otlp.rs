//! Chains as OpenTelemetry traces.
//!
//! Chains come in batches, in which each IOC's resource stands once. A chain is never divided, so a batch has
//! [`SIZE`](crate::collector::signal::SIZE) spans or a chain more.

mod describe;
pub(in crate::output) mod proto;
pub(crate) mod pva;
pub(crate) mod shape;
mod written;

pub use self::written::Written;

use self::describe::{describe_link, describe_process, inner_put, root};
use self::shape::{
    int, text, Attribute, Of, OtlpSpan, Resource, ResourceSpans, ScopeSpans, Service, TracesData, SCHEMA,
    SCOPE,
};
use crate::collector::signal::{Signal, TRACES};
use crate::model::chain::{Chain, Span, SpanKind};
use crate::model::putlog::root_put;
use crate::model::run::{record_name, Run};
use crate::model::span_ids::{ioc_of, span_ids, trace_id, SpanId, TraceId};
use crate::output::otlp::Telemetry;
use crate::pods::pod_name;
use iocrec_log::context::Context;
use iocrec_log::event::{ContainerRuntime, Ioc};
use serde::{Serialize, Serializer};
use std::collections::HashSet;
use std::rc::Rc;

/// Depth to which chains that CA links lead to are written as one trace.
const MAX_DEPTH: usize = 16;
/// Chains on their way out.
#[derive(Default)]
pub struct Batch {
    data: TracesData,
    runs: Runs,
    spans: usize,
    /// Its traces in the order in which they came.
    traces: Vec<TraceId>,
}

impl Batch {
    /// The spans.
    pub(super) fn data(&self) -> &TracesData {
        &self.data
    }
}

impl crate::collector::Batch for Batch {
    type Part = Chain;
    const SIGNAL: &'static Signal = &TRACES;

    /// Adds a chain as a trace.
    fn add(&mut self, chain: &Chain) {
        let Some((trace, count)) = add(&mut self.data, &mut self.runs, chain) else { return };
        self.traces.push(trace);
        self.spans += count;
    }

    fn count(&self) -> usize {
        self.spans
    }

    fn parts(&self) -> usize {
        self.traces.len()
    }

    fn protobuf(&self) -> Vec<u8> {
        proto::encode(&self.data)
    }

    fn halves(self) -> Result<(Batch, Batch), Batch> {
        let mut seen = HashSet::new();
        let traces: Vec<TraceId> = self.traces.iter().copied().filter(|id| seen.insert(*id)).collect();
        // In the order of the log, since whoever goes on after the first half skips as many spans.
        let (first, rest) = traces.split_at(traces.len() / 2);
        if first.is_empty() || rest.is_empty() {
            return Err(self);
        }
        let rest = rest.to_vec();
        let (order, first) = (first.to_vec(), first.iter().copied().collect::<HashSet<TraceId>>());
        let mut halves = [TracesData::default(), TracesData::default()];
        for ResourceSpans { resource, scope_spans: [of_scope], of, .. } in self.data.resource_spans {
            let (here, there): (Vec<_>, Vec<_>) =
                of_scope.spans.into_iter().partition(|span| first.contains(&span.trace_id));
            for (half, spans) in halves.iter_mut().zip([here, there]) {
                if !spans.is_empty() {
                    let scope_spans = [ScopeSpans { scope: of_scope.scope, spans }];
                    let resource = resource.clone();
                    let of = of.clone();
                    half.resource_spans.push(ResourceSpans { resource, scope_spans, schema_url: SCHEMA, of });
                }
            }
        }
        let [first, second] = halves;
        let runs = self.runs;
        let half = |data: TracesData, traces| {
            let spans = data.resource_spans.iter().map(|of| of.scope_spans[0].spans.len()).sum();
            Batch { data, runs: runs.clone(), spans, traces }
        };
        Ok((half(first, order), half(second, rest)))
    }
}

impl Serialize for Batch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.data.serialize(serializer)
    }
}

impl Telemetry for Chain {
    type Batch = Batch;

    fn parts<E>(&self, mut each: impl FnMut(&Chain) -> Result<(), E>) -> Result<(), E> {
        each(self)
    }
}

/// Nanoseconds since 1970; the protocol has none before.
pub(crate) fn since_1970(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

/// The runs of the spans in a batch, held as long as others are added to it: resources are known by their addresses.
#[derive(Clone, Default)]
struct Runs(Vec<Rc<Run>>);

impl Runs {
    /// The address of a run, which is held from now on.
    fn hold(&mut self, run: &Rc<Run>) -> usize {
        if !self.0.iter().any(|held| Rc::ptr_eq(held, run)) {
            self.0.push(Rc::clone(run));
        }
        Rc::as_ptr(run) as usize
    }
}

/// Adds a chain as a trace. Returns this, and how many spans it has.
fn add(data: &mut TracesData, runs: &mut Runs, chain: &Chain) -> Option<(TraceId, usize)> {
    let trace = trace_id(chain)?;
    Some((trace, push_tree(data, runs, chain, trace, None, 0)))
}

/// The link that leads to a chain: its span's id, and the record's name.
struct Link {
    span: SpanId,
    record: Option<String>,
}

/// Adds a chain and what its CA links lead to; returns how many spans they have.
fn push_tree(
    data: &mut TracesData,
    runs: &mut Runs,
    chain: &Chain,
    trace: TraceId,
    link: Option<&Link>,
    depth: usize,
) -> usize {
    let mut count = chain.spans.len();
    let (run, context) = (runs.hold(&chain.run), chain.run.context());
    let ids = span_ids(chain);
    for (number, (span, id)) in chain.spans.iter().zip(ids.iter().copied()).enumerate() {
        let parent = match span.parent {
            Some(parent) => ids.get(parent).copied(),
            None => link.map(|link| link.span),
        };
        let start = chain.run.wall(span.start);
        let end = start.saturating_add_unsigned(span.end.saturating_sub(span.start));
        let mut otlp = OtlpSpan {
            trace_id: trace,
            span_id: id,
            parent_span_id: parent,
            name: String::new(),
            kind: shape::INTERNAL,
            start_time_unix_nano: since_1970(start),
            end_time_unix_nano: since_1970(end),
            attributes: Vec::new(),
            events: Vec::new(),
            status: None,
            lasts: false,
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
        let ioc = ioc_of(&context, span);
        push_span(data, run, &context, ioc, span, otlp);
        let SpanKind::Link(link) = &span.kind else { continue };
        if let Some(target) = &link.target {
            if depth < MAX_DEPTH {
                let record = link.record.map(|record| record_name(&context, record));
                count += push_tree(data, runs, target, trace, Some(&Link { span: id, record }), depth + 1);
            }
        }
    }
    count
}

/// Adds a span to those of its IOC, after making a resource for that if there is none.
fn push_span(
    data: &mut TracesData,
    run: usize,
    context: &Context,
    ioc: Option<&Ioc>,
    span: &Span,
    otlp: OtlpSpan,
) {
    let service = match ioc {
        Some(ioc) => Service::Ioc(ioc.id),
        None => Service::Address(server(context, span)),
    };
    // The latest first: chains of one IOC follow each other.
    let is_its = |resource: &&mut ResourceSpans| resource.of.run == run && resource.of.service == service;
    if let Some(resource) = data.resource_spans.iter_mut().rev().find(is_its) {
        let [scope] = &mut resource.scope_spans;
        return scope.spans.push(otlp);
    }
    let attributes = resource_attributes(context, ioc, &service);
    let scope_spans = [ScopeSpans { scope: SCOPE, spans: vec![otlp] }];
    let of = Of { run, service };
    let resource = Resource { attributes };
    data.resource_spans.push(ResourceSpans { resource, scope_spans, schema_url: SCHEMA, of });
}

/// The address of the server that a put went to.
fn server(context: &Context, span: &Span) -> Option<String> {
    let [_, server] = context.addresses(span.packet()?.circuit);
    server
}

pub(crate) fn resource_attributes(context: &Context, ioc: Option<&Ioc>, service: &Service) -> Vec<Attribute> {
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
            if let Some(container) = context.container(ioc.id) {
                let is_named = matches!(container.runtime, ContainerRuntime::Nspawn | ContainerRuntime::Lxc);
                let of = if is_named { "container.name" } else { "container.id" };
                text(&mut attributes, of, &container.id);
                let uid = if container.is_kubernetes { container.pod.as_str() } else { "" };
                text(&mut attributes, "k8s.pod.uid", uid);
                text(
                    &mut attributes,
                    "k8s.pod.name",
                    pod_name(container, Some(host_name)).unwrap_or_default(),
                );
            }
        }
        None => {
            // A server that is not on this host or was not inspected: use its address.
            let name = match service {
                Service::Address(Some(server)) => server,
                Service::Address(None) | Service::Ioc(_) => "unknown",
            };
            text(&mut attributes, "service.name", name);
        }
    }
    text(&mut attributes, "service.namespace", "epics");
    text(&mut attributes, "host.name", host_name);
    text(&mut attributes, "os.type", "linux");
    text(&mut attributes, "os.version", host.map_or("", |host| host.kernel.as_str()));
    attributes
}
