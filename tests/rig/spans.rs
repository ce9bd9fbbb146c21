//! Exported traces, read back: spans and the trees that they make.

use super::{json_lines, Rig};
use serde_json::Value;
use std::collections::BTreeMap;

/// A span of the exported traces.
pub struct Span {
    /// Its number, 16 hexadecimal digits.
    pub id: String,
    /// Number of its parent; empty for a root.
    pub parent: String,
    /// Number of its trace.
    pub trace: String,
    /// Name: `caput PV`, `put PV`, `process RECORD`, `caputlink PV`.
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// Spans that this one points to, in whatever trace.
    pub links: Vec<String>,
    /// Its attributes, as JSON scalars.
    pub attributes: BTreeMap<String, Value>,
}

/// All spans of the log, in the order of time.
pub fn spans(rig: &Rig) -> Vec<Span> {
    let output = rig.replay("traces", &["--format", "otlp"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    parse(&output.stdout)
}

/// All spans in what `iocreplay traces --format otlp` printed, in the order of time.
pub fn parse(traces: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for data in json_lines(traces) {
        for resource in list(&data["resourceSpans"]) {
            for scope in list(&resource["scopeSpans"]) {
                spans.extend(list(&scope["spans"]).iter().map(span));
            }
        }
    }
    spans.sort_by_key(|span| span.start);
    spans
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn span(value: &Value) -> Span {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let nanoseconds = |key: &str| text(key).parse().expect("nanoseconds");
    Span {
        id: text("spanId"),
        parent: text("parentSpanId"),
        trace: text("traceId"),
        name: text("name"),
        start: nanoseconds("startTimeUnixNano"),
        end: nanoseconds("endTimeUnixNano"),
        links: list(&value["links"])
            .iter()
            .map(|l| l["spanId"].as_str().unwrap_or_default().into())
            .collect(),
        attributes: list(&value["attributes"])
            .iter()
            .map(|a| (a["key"].as_str().unwrap_or_default().to_string(), scalar(&a["value"])))
            .collect(),
    }
}

/// What an OTLP AnyValue holds.
fn scalar(value: &Value) -> Value {
    value.as_object().and_then(|object| object.values().next().cloned()).unwrap_or(Value::Null)
}

/// The tree below a span, a line each, indented. Puts by database links are left out, what they set
/// off stands in their place.
pub fn shape(spans: &[Span], root: &Span) -> String {
    let mut text = String::new();
    draw(spans, root, 0, &mut text);
    text
}

fn draw(spans: &[Span], span: &Span, depth: usize, text: &mut String) {
    let inner_put = depth > 0 && span.name.starts_with("put ");
    if !inner_put {
        text.push_str(&"  ".repeat(depth));
        text.push_str(&span.name);
        text.push('\n');
    }
    // A chain in another IOC is pointed to, where it is not a child.
    for child in spans.iter().filter(|child| child.parent == span.id || child.links.contains(&span.id)) {
        draw(spans, child, if inner_put { depth } else { depth + 1 }, text);
    }
}
