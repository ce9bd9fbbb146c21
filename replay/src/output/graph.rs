//! Graphs of the links that were seen: DOT for Graphviz, Mermaid, and rows.
//!
//! An arrow is a link that was followed in the log, with its kind and how often; links that nothing followed are not in
//! it. Solid: database links. Dashed: CP links and CA links. A box with round corners is a cause of chains: a scan, an
//! event, puts from outside.

use super::format::{Format, Writer};
use super::rows::{self, Row};
use crate::answers::recorded::Recorded;
use crate::model::links_seen::LinksSeen;
use crate::model::naming::{Name, Naming};
use crate::out::{line, Out};
use crate::time::Zone;
use crate::words;
use iocrec_log::escape;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// The formats of a whole graph.
pub static FORMATS: [Format<Graph>; 5] = [
    Format { name: "text", writer: |zone| Box::new(Listed((rows::text::<Arrow>().writer)(zone))) },
    Format { name: "dot", writer: |_| Box::new(Dot) },
    Format { name: "mermaid", writer: |_| Box::new(Mermaid) },
    Format { name: "jsonl", writer: |zone| Box::new(Listed((rows::jsonl::<Arrow>().writer)(zone))) },
    Format { name: "csv", writer: |zone| Box::new(Listed((rows::csv::<Arrow>().writer)(zone))) },
];

/// Arrows, and characters, that Mermaid takes if its `maxEdges` and `maxTextSize` do not allow more. A graph can't say so
/// itself.
const MOST_OF_MERMAID: (usize, usize) = (500, 50_000);

/// Where the other end of a link is if that was not seen: in an IOC that was not recorded, or behind a gateway.
const NO_IOC: &str = "IOC not known";

/// One end of an arrow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Record(Name),
    Cause(String),
}

impl Node {
    fn label(&self) -> &str {
        match self {
            Node::Record(name) => &name.record,
            Node::Cause(cause) => cause,
        }
    }
}

/// An arrow.
pub struct Arrow {
    from: Node,
    to: Name,
    kind: String,
    count: u64,
    per_second: Option<f64>,
}

/// The keys of a row. They never change; add new ones at the end.
#[derive(Serialize)]
pub struct Line<'a> {
    from: &'a str,
    from_ioc: Option<&'a str>,
    to: &'a str,
    ioc: Option<&'a str>,
    host: Option<&'a str>,
    kind: &'a str,
    count: u64,
    per_second: Option<f64>,
}

impl Row for Arrow {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, _: &'a Zone) -> Line<'a> {
        let text = |text: &'a str| (!text.is_empty()).then_some(text);
        let from_ioc = match &self.from {
            Node::Record(name) => text(&name.ioc),
            Node::Cause(_) => None,
        };
        Line {
            from: self.from.label(),
            from_ioc,
            to: &self.to.record,
            ioc: text(&self.to.ioc),
            host: text(&self.to.host),
            kind: &self.kind,
            count: self.count,
            per_second: self.per_second,
        }
    }

    /// `COUNT  RATE  FROM --KIND--> TO  [IOC]`; FROM has its IOC if that is another one.
    fn text(&self, _: &Zone) -> String {
        let Arrow { from, to, kind, count, per_second } = self;
        let rate = per_second.map_or(String::new(), words::rate);
        let place = |name: &Name| if name.ioc.is_empty() { NO_IOC.into() } else { Rc::clone(&name.ioc) };
        let from = match from {
            Node::Record(name) if place(name) != place(to) => format!("{} [{}]", name.record, place(name)),
            Node::Record(name) => name.record.to_string(),
            Node::Cause(cause) => format!("({cause})"),
        };
        format!("{count:>9}  {rate:>10}  {from} --{kind}--> {}  [{}]", to.record, place(to))
    }
}

/// The graph.
pub struct Graph {
    arrows: Vec<Arrow>,
}

impl Graph {
    /// The graph of these links; the arrows in order of their ends.
    pub fn new(seen: &LinksSeen, naming: &Naming, recorded: &Recorded) -> Graph {
        let rate = |count: u64, record: usize| {
            let Name { host, ioc, .. } = naming.name(record);
            recorded.seconds(&host, &ioc).map(|seconds| count as f64 / seconds)
        };
        let links = seen.links.iter().map(|(link, count)| Arrow {
            from: Node::Record(naming.name(link.from)),
            to: naming.name(link.to),
            kind: link.kind.to_owned(),
            count: *count,
            per_second: rate(*count, link.to),
        });
        let roots = seen.roots().into_iter().map(|((cause, record), count)| Arrow {
            from: Node::Cause(cause.to_owned()),
            to: naming.name(record),
            kind: cause.split(' ').next().unwrap_or_default().to_owned(),
            count,
            per_second: rate(count, record),
        });
        let mut arrows: Vec<Arrow> = links.chain(roots).collect();
        arrows.sort_by(|a, b| (&a.from, &a.to, &a.kind).cmp(&(&b.from, &b.to, &b.kind)));
        Graph { arrows }
    }

    /// Whether it has no arrows.
    pub fn is_empty(&self) -> bool {
        self.arrows.is_empty()
    }

    /// Whether it is larger than what Mermaid draws unless it is told to.
    pub fn is_too_large_for_mermaid(&self) -> bool {
        let (arrows, characters) = MOST_OF_MERMAID;
        let text = || {
            let mut text = Vec::new();
            // memory takes all
            let _ = Mermaid.write(&mut Out::new(&mut text), self);
            String::from_utf8_lossy(&text).encode_utf16().count()
        };
        self.arrows.len() > arrows || text() > characters
    }

    /// The nodes with their numbers. Causes belong to the IOC of the record that they lead to.
    fn nodes(&self) -> BTreeMap<(Name, Node), usize> {
        let mut nodes = BTreeMap::new();
        for arrow in &self.arrows {
            let next = nodes.len();
            nodes.entry((place(&arrow.to), Node::Record(arrow.to.clone()))).or_insert(next);
            let next = nodes.len();
            nodes.entry(arrow.source()).or_insert(next);
        }
        nodes
    }
}

impl Arrow {
    fn source(&self) -> (Name, Node) {
        match &self.from {
            Node::Record(name) => (place(name), self.from.clone()),
            Node::Cause(_) => (place(&self.to), self.from.clone()),
        }
    }

    fn is_dashed(&self) -> bool {
        self.kind == "CP" || self.kind == "CA"
    }

    fn label(&self) -> String {
        match self.per_second {
            Some(rate) => format!("{} {} ({})", self.kind, self.count, words::rate(rate)),
            None => format!("{} {}", self.kind, self.count),
        }
    }
}

/// The IOC that a record is in.
fn place(name: &Name) -> Name {
    Name { record: "".into(), ..name.clone() }
}

fn place_text(place: &Name) -> String {
    match (&*place.ioc, &*place.host) {
        ("", _) => NO_IOC.to_owned(),
        (ioc, "") => ioc.to_owned(),
        (ioc, host) => format!("{ioc} on {host}"),
    }
}

struct Listed<W>(W);

impl Writer<Graph> for Listed<Box<dyn Writer<Arrow> + '_>> {
    fn write(&mut self, out: &mut Out, graph: &Graph) -> io::Result<()> {
        self.0.begin(out)?;
        graph.arrows.iter().try_for_each(|arrow| self.0.write(out, arrow))?;
        self.0.end(out)
    }
}

struct Dot;

impl Writer<Graph> for Dot {
    fn write(&mut self, out: &mut Out, graph: &Graph) -> io::Result<()> {
        let nodes = graph.nodes();
        line!(out, "digraph records {{")?;
        line!(out, "  rankdir=LR; node [shape=box, fontname=\"sans-serif\", fontsize=10];")?;
        line!(out, "  edge [fontname=\"sans-serif\", fontsize=9];")?;
        let mut places: BTreeMap<&Name, Vec<(&Node, usize)>> = BTreeMap::new();
        for ((place, node), number) in &nodes {
            places.entry(place).or_default().push((node, *number));
        }
        for (number, (place, nodes)) in places.into_iter().enumerate() {
            line!(out, "  subgraph cluster_{number} {{ label={};", quoted(&place_text(place)))?;
            for (node, number) in nodes {
                let style = if matches!(node, Node::Cause(_)) { ", style=rounded" } else { "" };
                line!(out, "    n{number} [label={}{style}];", quoted(node.label()))?;
            }
            line!(out, "  }}")?;
        }
        for arrow in &graph.arrows {
            let style = if arrow.is_dashed() { ", style=dashed" } else { "" };
            let (from, to) = ends(&nodes, arrow);
            line!(out, "  n{from} -> n{to} [label={}{style}];", quoted(&arrow.label()))?;
        }
        line!(out, "}}")
    }
}

struct Mermaid;

impl Writer<Graph> for Mermaid {
    fn write(&mut self, out: &mut Out, graph: &Graph) -> io::Result<()> {
        let nodes = graph.nodes();
        line!(out, "flowchart LR")?;
        for ((_, node), number) in &nodes {
            let label = for_mermaid(node.label());
            match node {
                Node::Record(_) => line!(out, "  n{number}[\"{label}\"]")?,
                Node::Cause(_) => line!(out, "  n{number}([\"{label}\"])")?,
            }
        }
        for arrow in &graph.arrows {
            let (from, to) = ends(&nodes, arrow);
            let shaft = if arrow.is_dashed() { "-.->" } else { "-->" };
            line!(out, "  n{from} {shaft}|\"{}\"| n{to}", for_mermaid(&arrow.label()))?;
        }
        Ok(())
    }
}

fn ends(nodes: &BTreeMap<(Name, Node), usize>, arrow: &Arrow) -> (usize, usize) {
    let number = |key: (Name, Node)| nodes.get(&key).copied().unwrap_or(0);
    (number(arrow.source()), number((place(&arrow.to), Node::Record(arrow.to.clone()))))
}

/// A label in DOT's quotes. `"` and `\` mean something in them, and `&` begins an entity of HTML. What is escaped in all
/// output must be so before: its `\` is one, too.
fn quoted(text: &str) -> String {
    let mut shown = String::new();
    escape::push(&mut shown, text);
    format!("\"{}\"", shown.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;"))
}

/// A text for Mermaid's quotes, where `#` begins an entity and `<` a tag.
fn for_mermaid(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            // `%%{init: ...}%%` sets options, wherever it stands
            '#' | '"' | '<' | '>' | '&' | '`' | '\\' | '%' => safe.push_str(&format!("#{};", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let name = |record: &str| Name { host: "box".into(), ioc: "demo".into(), record: record.into() };
        let arrow =
            |from, to, kind: &str| Arrow { from, to, kind: kind.into(), count: 3, per_second: Some(1.5) };
        Graph {
            arrows: vec![
                arrow(Node::Record(name("A\"<b>")), name("B"), "FLNK"),
                arrow(Node::Record(name("B")), name("A\"<b>"), "CP"),
                arrow(Node::Cause("scan 1 second".into()), name("B"), "scan"),
            ],
        }
    }

    fn written(format: &str) -> String {
        let (zone, mut bytes) = (Zone::utc(), Vec::new());
        let format = FORMATS.iter().find(|known| known.name == format).unwrap();
        (format.writer)(&zone).write(&mut Out::new(&mut bytes), &graph()).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn names_are_quoted() {
        let dot = written("dot");
        assert!(dot.contains("[label=\"A\\\"<b>\"];"), "{dot}");
        assert!(dot.contains("label=\"demo on box\""), "{dot}");
        assert!(dot.contains("[label=\"CP 3 (1.5/s)\", style=dashed];"), "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 3);
        assert_eq!(quoted("A&lt;\u{202e}\\N"), "\"A&amp;lt;\\\\u{202e}\\\\N\"");
        let mermaid = written("mermaid");
        assert!(mermaid.contains("[\"A#34;#60;b#62;\"]"), "{mermaid}");
        assert!(mermaid.contains("([\"scan 1 second\"])"), "{mermaid}");
        assert_eq!(mermaid.matches("-.->|\"CP 3 (1.5/s)\"|").count(), 1, "{mermaid}");
        assert_eq!(for_mermaid("%%{init: {'theme':'dark'}}%%"), "#37;#37;{init: {'theme':'dark'}}#37;#37;");
    }

    /// It throws an exception at the 501st arrow, and draws the message that the text is too long.
    #[test]
    fn mermaid_has_limits() {
        let of = |count: usize, name: &str| {
            let arrow = |number: usize| {
                let record =
                    |which: usize| Name { record: format!("{name}{which}").into(), ..Name::default() };
                let (from, to) = (Node::Record(record(0)), record(number + 1));
                Arrow { from, to, kind: "FLNK".into(), count: 1, per_second: None }
            };
            Graph { arrows: (0..count).map(arrow).collect() }.is_too_large_for_mermaid()
        };
        assert!(!of(500, "A") && of(501, "A"));
        assert!(!of(20, &"x".repeat(2000)) && of(20, &"x".repeat(2500)));
    }

    #[test]
    fn rows() {
        assert!(written("text").contains("(scan 1 second) --scan--> B"));
        assert_eq!(written("jsonl").lines().count(), 3);
        assert_eq!(written("csv").lines().count(), 4);
    }
}
