//! Formats of the put log. To add one, add a file here and a row below.

pub mod jsonl;
#[cfg(test)]
pub mod sample;
pub mod text;

use super::format::Format;
use crate::model::putlog::PutLine;

/// The formats; the first is the default.
pub static FORMATS: [Format<PutLine>; 2] = [
    Format { name: "text", writer: |zone| Box::new(text::Text { zone }) },
    Format { name: "jsonl", writer: |zone| Box::new(jsonl::JsonLines { zone }) },
];
