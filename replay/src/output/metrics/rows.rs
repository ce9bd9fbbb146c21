//! Metrics as a listing: a row for each point, in order of time, as text, JSON lines or CSV.
//!
//! A row has the name by the rules of OpenTelemetry and the unit beside it, so that it is the same in all of these.

use super::table::{Point, Table};
use crate::out::{line, Out};
use crate::output::format::{Format, Writer};
use crate::output::rows::{write_row, Shape};
use crate::time::Zone;
use serde::Serialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io;

/// A line for people for each point.
pub(super) const TEXT: Format<Table> =
    Format { name: "text", writer: |zone| Box::new(Rows::new(Shape::Text, zone)) };
/// A JSON object for each point.
pub(super) const JSON_LINES: Format<Table> =
    Format { name: "jsonl", writer: |zone| Box::new(Rows::new(Shape::JsonLines, zone)) };
/// CSV with a heading.
pub(super) const CSV: Format<Table> =
    Format { name: "csv", writer: |zone| Box::new(Rows::new(Shape::Csv, zone)) };

/// The keys of a point. They never change; add new ones at the end.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pid: Option<u32>,
    name: &'static str,
    /// An object, empty if there is none.
    labels: BTreeMap<&'static str, &'a str>,
    value: Value,
    /// As the Unified Code for Units of Measure writes it.
    unit: &'static str,
    /// Since when it was counted; null of what was measured at that time.
    from: Option<String>,
}

struct Rows<'a> {
    shape: Shape,
    zone: &'a Zone,
    has_begun: bool,
}

impl<'a> Rows<'a> {
    fn new(shape: Shape, zone: &'a Zone) -> Rows<'a> {
        Rows { shape, zone, has_begun: false }
    }

    fn line<'p>(&self, point: &'p Point) -> Line<'p> {
        let known = |text: &'p str| Some(text).filter(|text| !text.is_empty());
        let family = point.metric.family();
        Line {
            time: self.zone.format(point.time, 9),
            host: known(&point.of.host),
            ioc: known(&point.of.ioc),
            pid: point.of.pid,
            name: family.name,
            labels: point.labels.iter().map(|(key, value)| (*key, value.as_str())).collect(),
            value: number(point),
            unit: family.unit.ucum(),
            from: point.start.map(|start| self.zone.format(start, 9)),
        }
    }
}

/// Its number; what is counted in whole things has no fraction.
fn number(point: &Point) -> Value {
    match point.metric.family().unit.is_whole() {
        true => json!(point.number as i64),
        false => json!(point.number),
    }
}

impl Writer<Table> for Rows<'_> {
    fn write(&mut self, out: &mut Out, table: &Table) -> io::Result<()> {
        for point in table.points() {
            if self.shape == Shape::Text {
                line!(out, "{}", text(&point, self.zone))?;
            } else {
                let is_first = !std::mem::replace(&mut self.has_begun, true);
                write_row(out, self.shape, is_first, &self.line(&point))?;
            }
        }
        Ok(())
    }
}

/// A point as a line of text: when, whose it is, what, and how much.
fn text(point: &Point, zone: &Zone) -> String {
    let of = if point.of.ioc.is_empty() { &point.of.host } else { &point.of.ioc };
    let of = if of.is_empty() { "-" } else { of };
    let family = point.metric.family();
    let labels: Vec<String> = point.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let name = match labels.as_slice() {
        [] => family.name.to_owned(),
        labels => format!("{} {}", family.name, labels.join(" ")),
    };
    // what is counted is in the name
    let unit = family.unit.suffix().map_or(String::new(), |unit| format!(" {unit}"));
    format!("{:<32}  {of:<12}  {name:<44}  {}{unit}", zone.format(point.time, 6), number(point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::metrics::families::Metric;
    use crate::output::resources::Resource;
    use crate::time::SECOND;
    use std::rc::Rc;

    const S: i64 = SECOND as i64;

    /// Two puts of one IOC, what it used, and a mark of its host, in the order in which they are read.
    fn table() -> Table {
        let of = |host: &str, ioc: &str, pid| {
            let (host, ioc) = (host.to_owned(), ioc.to_owned());
            Rc::new(Resource { attributes: Vec::new(), host, ioc, pid, started: None })
        };
        let (ioc, host) = (of("box,1", "=demo", Some(7)), of("box,1", "", None));
        let mut table = Table::new(None, Some(0), 20 * S);
        let labels = || vec![("via", "ca_write".to_owned()), ("status", "ok".to_owned())];
        for (metric, of, labels, at, number) in [
            (Metric::Puts, &ioc, labels(), 3, 1.0),
            (Metric::Puts, &ioc, labels(), 5, 1.0),
            (Metric::CpuTime, &ioc, Vec::new(), 6, 0.25),
            (Metric::Resident, &ioc, Vec::new(), 6, 2048.0),
            (Metric::Marks, &host, Vec::new(), 7, 1.0),
        ] {
            table.take(metric, of, labels, at * S, number).unwrap();
        }
        table
    }

    fn written(format: &Format<Table>) -> String {
        let (zone, mut bytes) = (Zone::utc(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = (format.writer)(&zone);
        writer.begin(&mut out).unwrap();
        writer.write(&mut out, &table()).unwrap();
        writer.end(&mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_point_has_a_row_in_order_of_time() {
        let text = written(&TEXT);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
        assert_eq!(
            words,
            [
                vec!["=demo", "epics.ioc.memory.resident", "2048", "bytes"],
                vec!["=demo", "epics.ioc.puts", "via=ca_write", "status=ok", "2"],
                vec!["=demo", "epics.ioc.cpu.time", "0.25", "seconds"],
                vec!["box,1", "iocrec.marks", "1"],
            ]
        );
    }

    #[test]
    fn rows_have_the_same_keys_in_json_and_csv() {
        let rows: Vec<Value> =
            written(&JSON_LINES).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 4);
        let puts = &rows[1];
        assert_eq!(puts["name"], "epics.ioc.puts");
        assert_eq!(puts["labels"], json!({ "via": "ca_write", "status": "ok" }));
        assert_eq!((&puts["value"], &puts["unit"]), (&json!(2), &json!("{put}")));
        assert!(puts["from"].as_str().unwrap().starts_with("1970-01-01T00:00:00"), "{puts}");
        assert_eq!((&rows[0]["from"], &rows[0]["unit"]), (&Value::Null, &json!("By")));
        assert_eq!((&rows[3]["ioc"], &rows[3]["host"]), (&Value::Null, &json!("box,1")));
        let csv = written(&CSV);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 5, "{csv}");
        assert_eq!(lines[0], "time,host,ioc,pid,name,labels,value,unit,from");
        assert!(lines[1].contains(",\"box,1\",'=demo,7,epics.ioc.memory.resident,{},2048,By,"), "{csv}");
        let labels = "\"{\"\"status\"\":\"\"ok\"\",\"\"via\"\":\"\"ca_write\"\"}\"";
        assert!(lines[2].contains(labels), "{csv}");
    }
}
