//! Formats of process chains. To add one, add a file here and a row below.

pub mod otlp;
pub mod perfetto;
mod rows;
pub mod text;
mod tree;
pub mod zipkin;

use super::format::Format;
use super::otlp::Encoding;
use super::rows::Shape;
use crate::model::chain::Chain;

/// The formats; the first is the default.
pub static FORMATS: [Format<Chain>; 8] = [
    Format { name: "text", writer: |zone| Box::new(text::Text::new(zone)) },
    Format { name: "otlp", writer: |_| Box::new(otlp::Written::new(Encoding::JsonLines)) },
    Format { name: "otlp-proto", writer: |_| Box::new(otlp::Written::new(Encoding::Protobuf)) },
    Format { name: "otlp-proto-delimited", writer: |_| Box::new(otlp::Written::new(Encoding::Delimited)) },
    Format { name: "zipkin", writer: |_| Box::new(zipkin::Zipkin::default()) },
    Format { name: "perfetto", writer: |_| Box::new(perfetto::Perfetto::default()) },
    Format { name: "jsonl", writer: |zone| Box::new(rows::Rows::new(zone, Shape::JsonLines)) },
    Format { name: "csv", writer: |zone| Box::new(rows::Rows::new(zone, Shape::Csv)) },
];

/// Whether a format is complete only with its end, which `--follow` never writes.
pub fn needs_end(format: &Format<Chain>) -> bool {
    matches!(format.name, "zipkin" | "perfetto")
}
