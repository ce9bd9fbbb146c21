//! Rows as Parquet, with the low-level writer: columns are collected in memory, and written as a row group.
//!
//! - [`collected`] is a column in memory, and its texts are in [`texts`];
//! - [`chunk`] encodes a column of texts, with numbers as [`hybrid`] writes them; parquet's crate all others;
//! - [`packed`] packs their pages.

mod chunk;
mod collected;
mod hybrid;
mod packed;
mod texts;

use super::cells::Cell;
use super::schema::{Column, Kind, Table};
use bytes::Bytes;
use collected::{Collected, BYTES_OF_LEVEL};
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a row group, and about how many bytes of them are held in memory.
const ROWS: usize = 1 << 16;
const BYTES: usize = 3 << 20;

/// A column's pages, and what is to be noted of them.
type Encoded = (Vec<u8>, ColumnCloseResult);

/// A file being written.
pub struct Parquet<W: Write + Send> {
    /// The table.
    pub table: &'static Table,
    writer: SerializedFileWriter<W>,
    properties: WriterPropertiesPtr,
    columns: Vec<Collected>,
    /// Rows that are not written yet.
    rows: usize,
    /// Bytes that they take, about.
    pub size: usize,
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        // what the file below said, such as that the disk is full
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

/// The schema in Parquet's own words.
fn schema(table: &Table) -> String {
    let field = |column: &Column| {
        let presence = if column.nullable { "OPTIONAL" } else { "REQUIRED" };
        let name = column.name;
        let list = |of: &str| {
            let (kind, annotation) = of.split_once(' ').unwrap_or((of, ""));
            format!("{presence} group {name} (LIST) {{ REPEATED group list {{ REQUIRED {kind} element {annotation}; }} }}")
        };
        match column.kind {
            Kind::Time => format!("{presence} INT64 {name} (TIMESTAMP(NANOS,true));"),
            Kind::Int => format!("{presence} INT64 {name};"),
            Kind::Double => format!("{presence} DOUBLE {name};"),
            Kind::Bool => format!("{presence} BOOLEAN {name};"),
            Kind::Text => format!("{presence} BYTE_ARRAY {name} (STRING);"),
            Kind::Doubles => list("DOUBLE"),
            Kind::Ints => list("INT64"),
            Kind::Texts => list("BYTE_ARRAY (STRING)"),
        }
    };
    let fields: Vec<String> = table.columns.iter().map(field).collect();
    format!("message {} {{ {} }}", table.name, fields.join(" "))
}

/// How columns are encoded; of texts, see [`chunk`]. They are not compressed: see [`packed`].
fn properties(table: &Table) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("iocreplay ", env!("CARGO_PKG_VERSION")).to_owned())
        // One for each row group suffices to pass over it.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_statistics_truncate_length(Some(64));
    for column in table.columns {
        let path = || ColumnPath::from(column.name);
        // Times and lengths rarely repeat: a dictionary would be in the way.
        if column.kind == Kind::Time || column.name.ends_with("_ns") {
            properties = properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
        } else if column.kind == Kind::Double {
            properties = properties.set_column_dictionary_enabled(path(), false);
        }
    }
    properties.build()
}

impl<W: Write + Send> Parquet<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it can't be written; the same holds for the other functions.
    pub fn new(table: &'static Table, below: W) -> io::Result<Parquet<W>> {
        let schema = parse_message_type(&schema(table)).map_err(failed)?;
        let properties = Arc::new(properties(table));
        let writer = SerializedFileWriter::new(below, Arc::new(schema), Arc::clone(&properties));
        let writer = writer.map_err(failed)?;
        let described = writer.schema_descr().columns().iter().cloned();
        let columns =
            table.columns.iter().zip(described).map(|(column, of)| Collected::new(column, of)).collect();
        Ok(Parquet { table, writer, properties, columns, rows: 0, size: 0 })
    }

    /// Collects the cell of a row that has this number; those that are null are left out.
    #[inline]
    pub fn push(&mut self, number: usize, cell: &Cell) {
        if let Some(column) = self.columns.get_mut(number) {
            self.size += column.push(self.rows, cell);
        }
    }

    /// Ends a row.
    pub fn end_row(&mut self) {
        self.rows += 1;
        self.size += self.columns.len() * BYTES_OF_LEVEL;
    }

    /// Whether it is time for [`Self::flush`].
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.size >= BYTES
    }

    /// Writes what was collected as a row group.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut zstd = packed::zstd()?;
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in self.columns.iter_mut() {
            column.fill(self.rows);
            let encoded = column.encode(self.rows, &mut zstd, &self.properties);
            let (bytes, noted) = encoded.map_err(failed)?;
            group.append_column(&Bytes::from(bytes), noted).map_err(failed)?;
            column.clear();
        }
        group.close().map_err(failed)?;
        (self.rows, self.size) = (0, 0);
        self.writer.flush()
    }

    /// Gives back the memory that columns keep for the next rows.
    pub fn release(&mut self) {
        self.columns.iter_mut().for_each(Collected::release);
    }

    /// What is written to.
    pub fn below(&self) -> &W {
        self.writer.inner()
    }

    /// Writes the rest, and the end of the file.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.finish().map(drop).map_err(failed)
    }
}
