//! Metrics of OpenTelemetry.
//!
//! Field numbers are those of opentelemetry-proto 1.x, `metrics.proto`.

use super::families::Metric;
use super::table::{Point, Table};
use crate::collector::signal::{Signal, METRICS};
use crate::output::otlp::{Part, Parts, Telemetry};
use crate::output::protobuf::Message;
use crate::output::resources::Resource;
use crate::output::traces::otlp::proto::attributes;
use crate::output::traces::otlp::shape::{as_string, text, Attribute};
use crate::output::traces::otlp::since_1970;
use serde::Serialize;
use std::rc::Rc;

/// AGGREGATION_TEMPORALITY_CUMULATIVE
const CUMULATIVE: u8 = 2;

#[derive(Serialize)]
pub struct OtlpMetric {
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

impl Part for Point {
    const SIGNAL: &'static Signal = &METRICS;
    const KEYS: [&'static str; 3] = ["resourceMetrics", "scopeMetrics", "metrics"];
    type Line<'a> = OtlpMetric;

    fn of(&self) -> &Rc<Resource> {
        &self.of
    }

    /// Each metric stands once.
    fn add_to(&self, lines: &mut Vec<OtlpMetric>) {
        let place = lines.iter().position(|own| own.metric == self.metric).unwrap_or_else(|| {
            lines.push(OtlpMetric::from(self.metric));
            lines.len() - 1
        });
        if let Some(metric) = lines.get_mut(place) {
            metric.data.points().push(DataPoint::from(self));
        }
    }

    fn encode(metric: &OtlpMetric, to: &mut Message) {
        to.text(1, metric.name);
        to.text(2, metric.description);
        to.text(3, metric.unit);
        match &metric.data {
            Data::Gauge { data_points } => {
                to.message(5, |to| data_points.iter().for_each(|of| to.message(1, |to| data_point(to, of))));
            }
            Data::Sum { data_points, aggregation_temporality, is_monotonic } => to.message(7, |to| {
                data_points.iter().for_each(|of| to.message(1, |to| data_point(to, of)));
                to.number(2, u64::from(*aggregation_temporality));
                to.number(3, u64::from(*is_monotonic));
            }),
        }
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

impl Telemetry for Table {
    type Batch = Parts<Point>;

    fn parts<E>(&self, each: impl FnMut(&Point) -> Result<(), E>) -> Result<(), E> {
        self.points().iter().try_for_each(each)
    }

    fn is_empty(&self) -> bool {
        Table::is_empty(self)
    }
}
