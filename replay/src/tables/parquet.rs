//! Rows as Parquet, with the low-level writer: columns are collected in memory, and written as a row group.

use super::cells::Cell;
use super::schema::{Column, Kind, Table};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::{self, Write};
use std::sync::Arc;

/// The level of zstd: higher ones take twice the time for a few percent.
const LEVEL: i32 = 1;

/// Where a column's values are until they are written.
enum Values {
    Ints(Vec<i64>),
    Doubles(Vec<f64>),
    Bools(Vec<bool>),
    /// All texts in a row, and where each begins and how long it is.
    Texts {
        bytes: Vec<u8>,
        places: Vec<(u32, u32)>,
    },
}

/// A column of the row group that is being collected.
struct Collected {
    values: Values,
    /// Definition levels: how much of a cell is there. For a column that can be null, or a list.
    defined: Vec<i16>,
    /// Repetition levels: whether a value belongs to the same list as the one before. For a list.
    repeated: Vec<i16>,
}

/// A file being written.
pub struct Parquet<W: Write + Send> {
    table: &'static Table,
    writer: SerializedFileWriter<W>,
    columns: Vec<Collected>,
    /// Rows that are not written yet.
    pub rows: usize,
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

/// How columns are encoded.
fn properties(table: &Table) -> WriterProperties {
    let level = ZstdLevel::try_new(LEVEL).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("iocreplay ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        // One for each row group suffices to pass over it.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_statistics_truncate_length(Some(64));
    for column in table.columns {
        let path = || ColumnPath::from(column.name);
        // Times and lengths rarely repeat, and ids never: a dictionary would be in the way.
        if column.kind == Kind::Time || column.name.ends_with("_ns") {
            properties = properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
        } else if column.name == "chain" || column.kind == Kind::Double {
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
        let writer = SerializedFileWriter::new(below, Arc::new(schema), Arc::new(properties(table)));
        let columns = table.columns.iter().map(Collected::new).collect();
        Ok(Parquet { table, writer: writer.map_err(failed)?, columns, rows: 0 })
    }

    /// Collects a row.
    pub fn push(&mut self, row: &[Cell]) {
        self.rows += 1;
        for ((column, of), cell) in self.columns.iter_mut().zip(self.table.columns).zip(row) {
            column.push(of, cell);
        }
    }

    /// Writes what was collected as a row group.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(failed)? else { break };
            column.write(writer.untyped()).map_err(failed)?;
            writer.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        self.writer.flush()
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

impl Collected {
    fn new(column: &Column) -> Collected {
        let values = match column.kind {
            Kind::Time | Kind::Int | Kind::Ints => Values::Ints(Vec::new()),
            Kind::Double | Kind::Doubles => Values::Doubles(Vec::new()),
            Kind::Bool => Values::Bools(Vec::new()),
            Kind::Text | Kind::Texts => Values::Texts { bytes: Vec::new(), places: Vec::new() },
        };
        Collected { values, defined: Vec::new(), repeated: Vec::new() }
    }

    fn push(&mut self, column: &Column, cell: &Cell) {
        let there = i16::from(column.nullable);
        let length = match cell {
            Cell::Doubles(list) => list.len(),
            Cell::Ints(list) => list.len(),
            Cell::Texts(list) => list.len(),
            Cell::Null if column.nullable => {
                self.defined.push(0);
                if is_list(column.kind) {
                    self.repeated.push(0);
                }
                return;
            }
            single => {
                if column.nullable {
                    self.defined.push(there);
                }
                if is_list(column.kind) {
                    // a cell of another kind than its column's: an empty list, so that rows stay in step
                    self.repeated.push(0);
                    return;
                }
                return self.values.push(single);
            }
        };
        if length == 0 {
            self.defined.push(there);
            self.repeated.push(0);
        }
        for number in 0..length {
            self.defined.push(there + 1);
            self.repeated.push(i16::from(number > 0));
        }
        self.values.push(cell);
    }

    /// Writes it, and forgets it.
    fn write(&mut self, writer: &mut ColumnWriter) -> Result<(), ParquetError> {
        let defined = Some(self.defined.as_slice()).filter(|levels| !levels.is_empty());
        let repeated = Some(self.repeated.as_slice()).filter(|levels| !levels.is_empty());
        match (writer, &mut self.values) {
            (ColumnWriter::Int64ColumnWriter(writer), Values::Ints(values)) => {
                writer.write_batch(values, defined, repeated)?;
                values.clear();
            }
            (ColumnWriter::DoubleColumnWriter(writer), Values::Doubles(values)) => {
                writer.write_batch(values, defined, repeated)?;
                values.clear();
            }
            (ColumnWriter::BoolColumnWriter(writer), Values::Bools(values)) => {
                writer.write_batch(values, defined, repeated)?;
                values.clear();
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), Values::Texts { bytes, places }) => {
                let all = ByteArray::from(std::mem::take(bytes));
                let text = |(at, length): &(u32, u32)| all.slice(*at as usize, *length as usize);
                let texts: Vec<ByteArray> = places.iter().map(text).collect();
                writer.write_batch(&texts, defined, repeated)?;
                places.clear();
            }
            _ => return Err(ParquetError::General("a column has another type than its schema".into())),
        }
        self.defined.clear();
        self.repeated.clear();
        Ok(())
    }
}

impl Values {
    fn push(&mut self, cell: &Cell) {
        match (self, cell) {
            (Values::Ints(values), Cell::Int(number)) => values.push(*number),
            (Values::Ints(values), Cell::Ints(list)) => values.extend(list),
            (Values::Doubles(values), Cell::Double(number)) => values.push(*number),
            (Values::Doubles(values), Cell::Doubles(list)) => values.extend(list),
            (Values::Bools(values), Cell::Bool(is)) => values.push(*is),
            (Values::Texts { bytes, places }, Cell::Text(text)) => push_text(bytes, places, text),
            (Values::Texts { bytes, places }, Cell::Texts(list)) => {
                list.iter().for_each(|text| push_text(bytes, places, text));
            }
            // A cell of another kind than its column's: something, so that rows stay in step. A test looks at every row.
            (Values::Ints(values), _) => values.push(0),
            (Values::Doubles(values), _) => values.push(f64::NAN),
            (Values::Bools(values), _) => values.push(false),
            (Values::Texts { places, .. }, _) => places.push((0, 0)),
        }
    }
}

/// Adds a text, once if the one before was the same: hosts, IOCs and threads come many times in a row.
fn push_text(bytes: &mut Vec<u8>, places: &mut Vec<(u32, u32)>, text: &str) {
    if let Some((at, length)) = places.last().copied() {
        let last = bytes.get(at as usize..).and_then(|rest| rest.get(..length as usize));
        if last == Some(text.as_bytes()) {
            return places.push((at, length));
        }
    }
    // Row groups are far below 4 GiB.
    places.push((bytes.len() as u32, text.len() as u32));
    bytes.extend_from_slice(text.as_bytes());
}

fn is_list(kind: Kind) -> bool {
    matches!(kind, Kind::Doubles | Kind::Ints | Kind::Texts)
}
