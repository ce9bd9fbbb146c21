//! Chains as a trace of Perfetto: protobuf, which its page (ui.perfetto.dev) and its `trace_processor` open.
//!
//! They are the spans of [`otlp`](super::otlp). Each is one slice, with the attributes as its arguments; nothing is left out
//! or cut to fit. A child often begins after its parent has ended (a forward link is followed when the record is done), so
//! arrows show causes, and slices only say when and where.
//!
//! A put that a client asked for is on a track of the client, a record that completes later on a track of its own, and
//! everything else on the track of its thread. Numbers that records had when they were done are counters.

mod packets;
mod tracks;

use super::otlp::shape::{AnyValue, Attribute, OtlpSpan, Resource, SERVER};
use super::otlp::Batch;
use crate::collector::Batch as _;
use crate::model::chain::Chain;
use crate::model::span_ids::SpanId;
use crate::out::Out;
use crate::output::format::Writer;
use packets::{Packets, Slice};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;
use tracks::{Folder, Tracks};

/// Bytes of slices that wait until no earlier one can come. If they are more, the earliest are written; slices that come
/// too late then are beside the others of their track.
const MAX_WAITING: usize = 16 << 20;

/// Writes chains as packets.
#[derive(Default)]
pub struct Perfetto {
    packets: Packets,
    tracks: Tracks,
    /// The earliest first; of the same time, parents before their children.
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    /// Counts slices and instants: their order, and the numbers of arrows.
    count: u64,
}

/// A slice or an instant on its way to its track.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    start: u64,
    number: u64,
    /// `None` for an instant.
    end: Option<u64>,
    track: usize,
    slice: Slice,
    /// Instants of the slice: time, and the same.
    inner: Vec<(u64, Slice)>,
}

impl Writer<Chain> for Perfetto {
    fn begin(&mut self, out: &mut Out) -> io::Result<()> {
        self.packets.begin();
        self.packets.flush(out)
    }

    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.add(chain);
        // Chains come in the order in which they began.
        let began = chain.root().map_or(0, |root| super::otlp::since_1970(chain.run.wall(root.start)));
        self.release(|start, _| start < began);
        self.add(&batch);
        self.release(|_, bytes| bytes > MAX_WAITING);
        if self.tracks.are_many() {
            self.release(|_, _| true);
            self.tracks.begin_anew(&mut self.packets);
        }
        self.packets.flush(out)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.release(|_, _| true);
        self.tracks.end(&mut self.packets);
        self.packets.flush(out)
    }
}

impl Perfetto {
    /// Adds the spans of a chain to those that wait.
    fn add(&mut self, batch: &Batch) {
        let resources = &batch.data().resource_spans;
        let spans: Vec<(&Resource, &OtlpSpan)> = resources
            .iter()
            .flat_map(|of| of.scope_spans[0].spans.iter().map(|span| (&of.resource, span)))
            .collect();
        let places: HashMap<SpanId, usize> =
            spans.iter().enumerate().map(|(place, (_, span))| (span.span_id, place)).collect();
        let first = self.count;
        self.count += spans.len() as u64;
        // The arrows that leave each span; one leads to each of its children, by whose number it is known.
        let mut leaving: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut arriving = vec![None; spans.len()];
        for (place, (_, span)) in spans.iter().enumerate() {
            let Some(parent) = span.parent_span_id.and_then(|id| places.get(&id).copied()) else { continue };
            let Some((_, of)) = spans.get(parent) else { continue };
            // No arrow leads back in time, where the clocks of two hosts differ.
            if (of.start_time_unix_nano, parent) < (span.start_time_unix_nano, place) {
                let arrow = first + place as u64 + 1;
                leaving.entry(parent).or_default().push(arrow);
                if let Some(arriving) = arriving.get_mut(place) {
                    *arriving = Some(arrow);
                }
            }
        }
        for (place, (resource, span)) in spans.iter().enumerate() {
            let (from, to) = (arriving.get(place).copied().flatten(), leaving.remove(&place));
            self.add_span(resource, span, first + place as u64, from, to.unwrap_or_default());
        }
    }

    fn add_span(
        &mut self,
        resource: &Resource,
        span: &OtlpSpan,
        number: u64,
        from: Option<u64>,
        to: Vec<u64>,
    ) {
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let process = self.tracks.process(&mut self.packets, &resource.attributes);
        let attributes = &span.attributes;
        let record = text(attributes, "epics.record.name").unwrap_or_default();
        let track = if span.kind == SERVER {
            self.tracks.track(&mut self.packets, process, Folder::Clients, &client(attributes))
        } else if span.lasts {
            self.tracks.track(&mut self.packets, process, Folder::Records, record)
        } else {
            let name = thread(attributes, "thread.name", "thread.id");
            self.tracks.track(&mut self.packets, process, Folder::Threads, &name)
        };
        let mut arriving: Vec<u64> = from.into_iter().collect();
        let mut inner = Vec::new();
        for event in &span.events {
            let time = event.time_unix_nano;
            if time >= start {
                inner.push((time, self.packets.slice("event", event.name, &event.attributes, &[], &[])));
            } else {
                // Its request, in another thread.
                let name = thread(attributes, "epics.cause.thread.name", "epics.cause.thread.id");
                let track = self.tracks.track(&mut self.packets, process, Folder::Threads, &name);
                self.count += 1;
                // The numbers of spans end where this one begins.
                let arrow = self.count | 1 << 63;
                arriving.push(arrow);
                let slice = self.packets.slice("event", event.name, &[], &[], &[arrow]);
                self.wait(Waiting {
                    start: time,
                    number: self.count,
                    end: None,
                    track,
                    slice,
                    inner: vec![],
                });
            }
        }
        let category = match &span.name {
            name if name.starts_with("process ") => "process",
            name if name.starts_with("caputlink ") => "link",
            _ => "put",
        };
        let mut all = attributes.clone();
        let mut add = |key, text: String| all.push(Attribute { key, value: AnyValue::Text(text) });
        add("trace_id", format!("{:032x}", span.trace_id.0));
        add("span_id", format!("{:016x}", span.span_id.0));
        if let Some(parent) = span.parent_span_id {
            add("parent_span_id", format!("{:016x}", parent.0));
        }
        if let Some(status) = &span.status {
            add("error", status.message.clone());
        }
        let slice = self.packets.slice(category, &span.name, &all, &arriving, &to);
        self.wait(Waiting { start, number, end: Some(end), track, slice, inner });
        if let Some(value) = number_of(attributes) {
            let counter = self.tracks.counter(&mut self.packets, process, record);
            self.packets.counter(end, counter, value);
        }
    }

    fn wait(&mut self, waiting: Waiting) {
        self.waiting_bytes += waiting.bytes();
        self.waiting.push(Reverse(waiting));
    }

    /// Puts on their tracks those that wait, the earliest first, as long as it is wanted by time and waiting bytes.
    fn release(&mut self, is_wanted: impl Fn(u64, usize) -> bool) {
        while self.waiting.peek().is_some_and(|Reverse(next)| is_wanted(next.start, self.waiting_bytes)) {
            let Some(Reverse(next)) = self.waiting.pop() else { return };
            self.waiting_bytes = self.waiting_bytes.saturating_sub(next.bytes());
            let packets = &mut self.packets;
            match next.end {
                None => {
                    let lane = self.tracks.any_lane(packets, next.track);
                    packets.instant(next.start, lane, &next.slice);
                }
                Some(end) => {
                    let lane = self.tracks.lane(packets, next.track, (next.start, end));
                    packets.begin_slice(next.start, lane, &next.slice);
                    for (time, slice) in &next.inner {
                        packets.instant(*time, lane, slice);
                    }
                }
            }
        }
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        let inner: usize = self.inner.iter().map(|(_, slice)| slice.bytes()).sum();
        size_of::<Waiting>() + self.slice.bytes() + inner
    }
}

/// Who asked: `USER at HOST, ADDRESS:PORT`, as far as known.
fn client(attributes: &[Attribute]) -> String {
    let part = |key| text(attributes, key).unwrap_or_default();
    let mut name = part("epics.client.user").to_owned();
    if !part("client.address").is_empty() {
        name += &format!(" at {}", part("client.address"));
    }
    if !part("network.peer.address").is_empty() {
        let port = int(attributes, "network.peer.port").unwrap_or_default();
        name += &match part("network.peer.address") {
            ip if ip.contains(':') => format!(", [{ip}]:{port}"),
            ip => format!(", {ip}:{port}"),
        };
    }
    let name = name.trim_start_matches([',', ' ']);
    if name.is_empty() { "unknown client" } else { name }.to_owned()
}

/// A thread: its name and number.
fn thread(attributes: &[Attribute], name: &str, id: &str) -> String {
    match int(attributes, id) {
        Some(id) => format!("{} ({id})", text(attributes, name).unwrap_or_default()),
        None => "unknown thread".to_owned(),
    }
}

fn text<'a>(attributes: &'a [Attribute], key: &str) -> Option<&'a str> {
    attributes.iter().filter(|attribute| attribute.key == key).find_map(|attribute| match &attribute.value {
        AnyValue::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

fn int(attributes: &[Attribute], key: &str) -> Option<i64> {
    attributes.iter().filter(|attribute| attribute.key == key).find_map(|attribute| match attribute.value {
        AnyValue::Int(number) => Some(number),
        _ => None,
    })
}

/// The value that a record had when it was done, if it is a number.
fn number_of(attributes: &[Attribute]) -> Option<&AnyValue> {
    let value = &attributes.iter().find(|attribute| attribute.key == "epics.record.value")?.value;
    matches!(value, AnyValue::Int(_) | AnyValue::Double(_)).then_some(value)
}
