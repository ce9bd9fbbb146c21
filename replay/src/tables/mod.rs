//! Tables for analysis: logs as Parquet, JSON lines or CSV, in a directory that can be exported to again and again.
//!
//! docs/tables.md is the contract: columns, layout, guarantees. [`schema`] has every column once; the files of all formats are
//! written from it, and a test compares it with that page.
//!
//! - [`rows`] makes rows of what the logs hold;
//! - [`places`] tells in which segment a row falls;
//! - [`sheets`] hands rows to files, with a bounded part of them in memory;
//! - [`directory`] decides which files are written, kept and removed; `names` names them;
//! - [`encoder`] collects the rows of a file; `ndjson`, `csv` and `parquet` are its formats.

pub mod cells;
mod csv;
pub mod directory;
pub mod encoder;
pub mod export;
mod names;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
pub mod places;
pub mod refused;
pub mod rows;
pub mod schema;
pub mod sheets;
mod utc;

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// A JSON object on each line.
    JsonLines,
    /// CSV.
    Csv,
}

impl Format {
    /// Its name, which is the extension of its files.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::JsonLines => "ndjson",
            Format::Csv => "csv",
        }
    }

    /// Whether this program can write it.
    pub fn is_built_in(self) -> bool {
        self != Format::Parquet || cfg!(feature = "parquet")
    }
}
