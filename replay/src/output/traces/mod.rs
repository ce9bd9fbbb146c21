//! Formats of process chains. To add one, add a file here and a row below.

pub mod otlp;
pub mod text;
mod tree;

use super::format::Format;
use crate::model::chain::Chain;

/// The formats; the first is the default.
pub static FORMATS: [Format<Chain>; 2] = [
    Format { name: "text", writer: |zone| Box::new(text::Text::new(zone)) },
    Format { name: "otlp", writer: |_| Box::new(otlp::Otlp) },
];
