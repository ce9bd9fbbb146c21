//! A column of the row group that is being collected.

use super::packed::{compression, Packed, Zstd};
use super::texts::Texts;
use super::{chunk, Encoded};
use crate::tables::cells::Cell;
use crate::tables::schema::{Column, Kind};
use parquet::column::writer::{get_column_writer, ColumnWriter};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::ColumnDescPtr;
use std::sync::Arc;

/// See the module.
pub struct Collected {
    of: ColumnDescPtr,
    values: Values,
    is_nullable: bool,
    is_list: bool,
    /// Rows that are in it; those after them are null so far.
    rows: usize,
    /// Definition levels: how much of a cell is there. For a column that can be null, or a list.
    defined: Vec<i16>,
    /// Repetition levels: whether a value belongs to the same list as the one before. For a list.
    repeated: Vec<i16>,
}

/// Where its values are until they are written.
enum Values {
    Ints(Vec<i64>),
    Doubles(Vec<f64>),
    Bools(Vec<bool>),
    Texts(Texts),
}

/// Bytes of a level.
pub const BYTES_OF_LEVEL: usize = size_of::<i16>();

impl Collected {
    /// Nothing yet.
    pub fn new(column: &Column, of: ColumnDescPtr) -> Collected {
        let values = match column.kind {
            Kind::Time | Kind::Int | Kind::Ints => Values::Ints(Vec::new()),
            Kind::Double | Kind::Doubles => Values::Doubles(Vec::new()),
            Kind::Bool => Values::Bools(Vec::new()),
            Kind::Text | Kind::Texts => Values::Texts(Texts::new()),
        };
        let is_list = matches!(column.kind, Kind::Doubles | Kind::Ints | Kind::Texts);
        let (defined, repeated) = (Vec::new(), Vec::new());
        Collected { of, values, is_nullable: column.nullable, is_list, rows: 0, defined, repeated }
    }

    /// Nothing yet, of the same column.
    pub fn empty(&self) -> Collected {
        let values = match &self.values {
            Values::Ints(_) => Values::Ints(Vec::new()),
            Values::Doubles(_) => Values::Doubles(Vec::new()),
            Values::Bools(_) => Values::Bools(Vec::new()),
            Values::Texts(_) => Values::Texts(Texts::new()),
        };
        let (of, is_nullable, is_list) = (Arc::clone(&self.of), self.is_nullable, self.is_list);
        Collected { of, values, is_nullable, is_list, rows: 0, defined: Vec::new(), repeated: Vec::new() }
    }

    /// Adds the cell of the row with this number; those that are null are left out. Returns the bytes that it takes.
    pub fn push(&mut self, row: usize, cell: &Cell) -> usize {
        if self.rows != row {
            self.fill(row);
        }
        self.rows = row + 1;
        if self.is_list {
            return self.push_list(cell);
        }
        if self.is_nullable {
            self.defined.push(1);
        }
        self.values.push(cell)
    }

    fn push_list(&mut self, cell: &Cell) -> usize {
        let there = i16::from(self.is_nullable);
        let length = match cell {
            Cell::Doubles(list) => list.len(),
            Cell::Ints(list) => list.len(),
            Cell::Texts(list) => list.len(),
            // of another kind than its column's: an empty list, so that rows stay in step
            _ => 0,
        };
        if length == 0 {
            self.defined.push(there);
            self.repeated.push(0);
            return 0;
        }
        for number in 0..length {
            self.defined.push(there + 1);
            self.repeated.push(i16::from(number > 0));
        }
        2 * BYTES_OF_LEVEL * length + self.values.push(cell)
    }

    /// Makes the cells null that were left out, up to this row.
    pub fn fill(&mut self, row: usize) {
        let missing = row.saturating_sub(self.rows);
        self.rows = row;
        if self.is_nullable || self.is_list {
            self.defined.resize(self.defined.len() + missing, 0);
        } else {
            // which can't be null
            (0..missing).for_each(|_| _ = self.values.push(&Cell::Null));
        }
        if self.is_list {
            self.repeated.resize(self.repeated.len() + missing, 0);
        }
    }

    /// Its pages, of `rows` cells that were added, and what is to be noted of them.
    pub fn encode(
        &self,
        rows: usize,
        zstd: &mut Zstd,
        properties: &WriterPropertiesPtr,
    ) -> Result<Encoded, ParquetError> {
        let (defined, repeated) = (self.defined.as_slice(), self.repeated.as_slice());
        if let Values::Texts(texts) = &self.values {
            return chunk::Column { of: &self.of, rows, texts, defined, repeated }.encode(zstd);
        }
        let levels = |levels| Some(levels).filter(|levels: &&[i16]| !levels.is_empty());
        let (defined, repeated) = (levels(defined), levels(repeated));
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(Packed::new(zstd, &mut sink));
        let mut writer = get_column_writer(Arc::clone(&self.of), Arc::clone(properties), pages);
        match (&mut writer, &self.values) {
            (ColumnWriter::Int64ColumnWriter(writer), Values::Ints(values)) => {
                writer.write_batch(values, defined, repeated)?
            }
            (ColumnWriter::DoubleColumnWriter(writer), Values::Doubles(values)) => {
                writer.write_batch(values, defined, repeated)?
            }
            (ColumnWriter::BoolColumnWriter(writer), Values::Bools(values)) => {
                writer.write_batch(values, defined, repeated)?
            }
            _ => return Err(ParquetError::General("a column has another type than its schema".into())),
        };
        let mut close = writer.close()?;
        // the writer was told of none
        close.metadata = close.metadata.into_builder().set_compression(compression()).build()?;
        Ok((sink.into_inner()?, close))
    }

    /// Gives back the memory that is kept for the next rows, once what was written is forgotten.
    pub fn release(&mut self) {
        match &mut self.values {
            Values::Ints(values) => *values = Vec::new(),
            Values::Doubles(values) => *values = Vec::new(),
            Values::Bools(values) => *values = Vec::new(),
            Values::Texts(texts) => *texts = Texts::new(),
        }
        (self.defined, self.repeated) = (Vec::new(), Vec::new());
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        match &mut self.values {
            Values::Ints(values) => values.clear(),
            Values::Doubles(values) => values.clear(),
            Values::Bools(values) => values.clear(),
            Values::Texts(texts) => texts.clear(),
        }
        self.rows = 0;
        self.defined.clear();
        self.repeated.clear();
    }
}

impl Values {
    #[inline]
    fn push(&mut self, cell: &Cell) -> usize {
        match (self, cell) {
            (Values::Ints(values), Cell::Int(number)) => push(values, *number),
            (Values::Ints(values), Cell::Ints(list)) => extend(values, list),
            (Values::Doubles(values), Cell::Double(number)) => push(values, *number),
            (Values::Doubles(values), Cell::Doubles(list)) => extend(values, list),
            (Values::Bools(values), Cell::Bool(is)) => push(values, *is),
            (Values::Texts(texts), Cell::Text(text)) => texts.push(text),
            (Values::Texts(texts), Cell::Texts(list)) => list.iter().map(|text| texts.push(text)).sum(),
            // A cell of another kind than its column's: something, so that rows stay in step. A test looks at every row.
            (Values::Ints(values), _) => push(values, 0),
            (Values::Doubles(values), _) => push(values, f64::NAN),
            (Values::Bools(values), _) => push(values, false),
            (Values::Texts(texts), _) => texts.push(""),
        }
    }
}

/// Adds a number; returns its bytes.
fn push<T>(values: &mut Vec<T>, value: T) -> usize {
    values.push(value);
    size_of::<T>()
}

/// Adds numbers; returns their bytes.
fn extend<T: Copy>(values: &mut Vec<T>, list: &[T]) -> usize {
    values.extend_from_slice(list);
    size_of_val(list)
}
