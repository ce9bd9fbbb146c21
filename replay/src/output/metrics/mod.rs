//! Metrics: rates, losses and resources, as OpenMetrics text, as metrics of OpenTelemetry, or a row for each point. To add a
//! format, add a file here and a row below.

pub mod collect;
mod families;
mod openmetrics;
mod otlp;
mod rows;
mod table;

pub use self::table::{Point, Table, TooMany};

use super::format::Format;
use super::otlp::Encoding;

/// The formats; the first is the default.
pub static FORMATS: [Format<Table>; 7] = [
    Format { name: "openmetrics", writer: |_| Box::new(openmetrics::OpenMetrics) },
    Encoding::JsonLines.format(),
    Encoding::Protobuf.format(),
    Encoding::Delimited.format(),
    rows::TEXT,
    rows::JSON_LINES,
    rows::CSV,
];
