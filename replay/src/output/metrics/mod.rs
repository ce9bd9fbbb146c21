//! Metrics: rates, losses and resources, as OpenMetrics text or as metrics of OpenTelemetry. To add a format, add a file
//! here and a row below.

pub mod collect;
mod families;
mod openmetrics;
mod otlp;
mod table;

pub use self::otlp::Batch;
pub use self::table::{Point, Table, TooMany};

use super::format::Format;
use super::traces::otlp::Encoding;

/// The formats; the first is the default.
pub static FORMATS: [Format<Table>; 4] = [
    Format { name: "openmetrics", writer: |_| Box::new(openmetrics::OpenMetrics) },
    Format { name: "otlp", writer: |_| Box::new(otlp::Otlp(Encoding::JsonLines)) },
    Format { name: "otlp-proto", writer: |_| Box::new(otlp::Otlp(Encoding::Protobuf)) },
    Format { name: "otlp-proto-delimited", writer: |_| Box::new(otlp::Otlp(Encoding::Delimited)) },
];
