//! OpenMetrics 1.0, a text that Prometheus and its kin read: `promtool tsdb create-blocks-from openmetrics` takes it with
//! its times, other agents as the present.
//!
//! A value of a label is a text from outside: what could do harm is escaped as everywhere, and then by the rules of the
//! format.

use super::families::{Family, Metric};
use super::table::{Point, Table};
use crate::out::{add, line, Out};
use crate::output::format::Writer;
use crate::time::SECOND;
use iocrec_log::escape;
use std::io;

/// Writes a table.
pub(super) struct OpenMetrics;

impl Writer<Table> for OpenMetrics {
    fn write(&mut self, out: &mut Out, table: &Table) -> io::Result<()> {
        let mut last: Option<Metric> = None;
        for points in table.series() {
            for point in &points {
                let family = point.metric.family();
                if last != Some(point.metric) {
                    head(out, family)?;
                    last = Some(point.metric);
                }
                let suffix = if family.is_counter { "_total" } else { "" };
                sample(out, point, suffix, point.number)?;
                // Of many points, each would have to have it.
                if let (Some(start), [_]) = (point.start, &points[..]) {
                    sample(out, point, "_created", start as f64 / SECOND as f64)?;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        line!(out, "# EOF")
    }
}

/// A metric's name, with its unit.
fn name(family: &Family) -> String {
    let name = family.name.replace('.', "_");
    match family.unit.suffix() {
        Some(suffix) => format!("{name}_{suffix}"),
        None => name,
    }
}

fn head(out: &mut Out, family: &Family) -> io::Result<()> {
    let name = name(family);
    line!(out, "# TYPE {name} {}", if family.is_counter { "counter" } else { "gauge" })?;
    if let Some(unit) = family.unit.suffix() {
        line!(out, "# UNIT {name} {unit}")?;
    }
    line!(out, "# HELP {name} {}", family.help)
}

fn sample(out: &mut Out, point: &Point, suffix: &str, number: f64) -> io::Result<()> {
    add!(out, "{}{suffix}", name(point.metric.family()));
    let pid = point.of.pid.map(|pid| pid.to_string());
    let of = [("host", Some(&point.of.host)), ("ioc", Some(&point.of.ioc)), ("pid", pid.as_ref())];
    let of = of.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let own = point.labels.iter().map(|(key, value)| (*key, value));
    let mut separator = '{';
    for (key, value) in of.chain(own).filter(|(_, value)| !value.is_empty()) {
        add!(out, "{separator}{key}=\"{}\"", escaped(value));
        separator = ',';
    }
    if separator == ',' {
        add!(out, "}}");
    }
    // A number without a fraction is written without one; it is finite.
    let (seconds, nanos) = (point.time.div_euclid(SECOND as i64), point.time.rem_euclid(SECOND as i64));
    line!(out, " {number} {seconds}.{nanos:09}")
}

/// A text between quotes.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    escape::push(&mut shown, text);
    shown.replace('\\', "\\\\").replace('"', "\\\"")
}
