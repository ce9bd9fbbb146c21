//! Metrics of OpenTelemetry: JSON lines, protobuf, or what is sent to a collector.
//!
//! Field numbers are those of opentelemetry-proto 1.x, `metrics.proto`.

use super::families::Metric;
use super::table::{Point, Table};
use crate::collector::signal::{Signal, METRICS};
use crate::collector::Batch as _;
use crate::out::Out;
use crate::output::format::Writer;
use crate::output::protobuf::Message;
use crate::output::resources::Resource as Of;
use crate::output::traces::otlp::proto::{attributes, length};
use crate::output::traces::otlp::shape::{as_string, text, Attribute, Scope, SCHEMA, SCOPE};
use crate::output::traces::otlp::{since_1970, Encoding};
use serde::Serialize;
use std::io;
use std::rc::Rc;

/// AGGREGATION_TEMPORALITY_CUMULATIVE
const CUMULATIVE: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricsData<'a> {
    resource_metrics: Vec<ResourceMetrics<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: Resource<'a>,
    scope_metrics: [ScopeMetrics; 1],
    schema_url: &'static str,
    #[serde(skip)]
    of: &'a Rc<Of>,
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: &'a [Attribute],
}

#[derive(Serialize)]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<OtlpMetric>,
}

#[derive(Serialize)]
struct OtlpMetric {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    data: Data,
    #[serde(skip)]
    metric: Metric,
}

#[derive(Serialize)]
enum Data {
    #[serde(rename = "gauge", rename_all = "camelCase")]
    Gauge { data_points: Vec<DataPoint> },
    #[serde(rename = "sum", rename_all = "camelCase")]
    Sum { data_points: Vec<DataPoint>, aggregation_temporality: u8, is_monotonic: bool },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataPoint {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute>,
    /// 0 where it is not known.
    #[serde(serialize_with = "as_string", skip_serializing_if = "is_zero")]
    start_time_unix_nano: u64,
    #[serde(serialize_with = "as_string")]
    time_unix_nano: u64,
    #[serde(flatten)]
    number: Number,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Copy, Serialize)]
enum Number {
    #[serde(rename = "asInt", serialize_with = "as_string")]
    Int(i64),
    #[serde(rename = "asDouble")]
    Double(f64),
}

impl From<&Point> for DataPoint {
    fn from(point: &Point) -> DataPoint {
        let mut attributes = Vec::new();
        for (key, value) in point.labels.iter() {
            text(&mut attributes, key, value);
        }
        let number = match point.metric.family().unit.is_whole() {
            true => Number::Int(point.number as i64),
            false => Number::Double(point.number),
        };
        DataPoint {
            attributes,
            start_time_unix_nano: since_1970(point.start.unwrap_or(0)),
            time_unix_nano: since_1970(point.time),
            number,
        }
    }
}

/// Points on their way out.
#[derive(Default)]
pub struct Batch(Vec<Point>);

impl Batch {
    /// By their resources and metrics, each of which stands once.
    fn data(&self) -> MetricsData<'_> {
        let mut all: Vec<ResourceMetrics> = Vec::new();
        for point in &self.0 {
            let place = all.iter().position(|own| Rc::ptr_eq(own.of, &point.of)).unwrap_or_else(|| {
                all.push(ResourceMetrics {
                    resource: Resource { attributes: &point.of.attributes },
                    scope_metrics: [ScopeMetrics { scope: SCOPE, metrics: Vec::new() }],
                    schema_url: SCHEMA,
                    of: &point.of,
                });
                all.len() - 1
            });
            let Some(ResourceMetrics { scope_metrics: [scope], .. }) = all.get_mut(place) else { continue };
            let metrics = &mut scope.metrics;
            let place = metrics.iter().position(|own| own.metric == point.metric).unwrap_or_else(|| {
                metrics.push(OtlpMetric::from(point.metric));
                metrics.len() - 1
            });
            if let Some(metric) = metrics.get_mut(place) {
                metric.data.points().push(DataPoint::from(point));
            }
        }
        MetricsData { resource_metrics: all }
    }
}

impl From<Metric> for OtlpMetric {
    fn from(metric: Metric) -> OtlpMetric {
        let family = metric.family();
        let data_points = Vec::new();
        let data = match family.is_counter {
            true => Data::Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true },
            false => Data::Gauge { data_points },
        };
        let unit = family.unit.ucum();
        OtlpMetric { name: family.name, description: family.help, unit, data, metric }
    }
}

impl Data {
    fn points(&mut self) -> &mut Vec<DataPoint> {
        match self {
            Data::Gauge { data_points } | Data::Sum { data_points, .. } => data_points,
        }
    }
}

impl crate::collector::Batch for Batch {
    type Part = Point;
    const SIGNAL: &'static Signal = &METRICS;
    const SIZE: usize = 1000;

    fn add(&mut self, point: &Point) {
        self.0.push(point.clone());
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn protobuf(&self) -> Vec<u8> {
        let mut message = Message::default();
        for of in &self.data().resource_metrics {
            message.message(1, |to| {
                to.message(1, |to| attributes(to, 1, of.resource.attributes));
                of.scope_metrics.iter().for_each(|scope| to.message(2, |to| scope_metrics(to, scope)));
                to.bytes(3, of.schema_url.as_bytes());
            });
        }
        message.0
    }

    fn halves(mut self) -> Result<(Batch, Batch), Batch> {
        match self.0.len() {
            0 | 1 => Err(self),
            count => {
                let second = self.0.split_off(count / 2);
                Ok((self, Batch(second)))
            }
        }
    }
}

fn scope_metrics(to: &mut Message, of: &ScopeMetrics) {
    to.message(1, |to| {
        to.bytes(1, of.scope.name.as_bytes());
        to.bytes(2, of.scope.version.as_bytes());
    });
    for metric in &of.metrics {
        to.message(2, |to| {
            to.text(1, metric.name);
            to.text(2, metric.description);
            to.text(3, metric.unit);
            match &metric.data {
                Data::Gauge { data_points } => {
                    to.message(5, |to| {
                        data_points.iter().for_each(|of| to.message(1, |to| data_point(to, of)))
                    });
                }
                Data::Sum { data_points, aggregation_temporality, is_monotonic } => to.message(7, |to| {
                    data_points.iter().for_each(|of| to.message(1, |to| data_point(to, of)));
                    to.number(2, u64::from(*aggregation_temporality));
                    to.number(3, u64::from(*is_monotonic));
                }),
            }
        });
    }
}

fn data_point(to: &mut Message, of: &DataPoint) {
    if of.start_time_unix_nano > 0 {
        to.fixed(2, of.start_time_unix_nano);
    }
    to.fixed(3, of.time_unix_nano);
    match of.number {
        Number::Double(number) => to.fixed(4, number.to_bits()),
        Number::Int(number) => to.fixed(6, number.cast_unsigned()),
    }
    attributes(to, 7, &of.attributes);
}

/// Writes a table as OTLP.
pub(super) struct Otlp(pub(super) Encoding);

impl Writer<Table> for Otlp {
    fn write(&mut self, out: &mut Out, table: &Table) -> io::Result<()> {
        let mut batch = Batch::default();
        for point in table.points() {
            batch.0.push(point);
            if batch.count() >= Batch::SIZE {
                self.batch(out, &std::mem::take(&mut batch))?;
            }
        }
        if batch.count() > 0 {
            self.batch(out, &batch)?;
        }
        Ok(())
    }
}

impl Otlp {
    fn batch(&self, out: &mut Out, batch: &Batch) -> io::Result<()> {
        match self.0 {
            Encoding::JsonLines => out.json(&batch.data()),
            Encoding::Protobuf => out.binary(&batch.protobuf()),
            Encoding::Delimited => {
                let message = batch.protobuf();
                out.binary(&length(message.len()))?;
                out.binary(&message)
            }
        }
    }
}
