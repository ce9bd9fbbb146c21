//! Rows as Parquet, with the low-level writer: columns are collected in memory, and written as a row group. Where there are
//! several CPUs a thread encodes and writes it, while the rows of the next one are collected: a few of them at a time, of all
//! files together. What is written is the same.
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
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Rows of a row group, and about how many bytes of them are held in memory.
const ROWS: usize = 1 << 16;
const BYTES: usize = 3 << 20;

/// A column's pages, and what is to be noted of them.
type Encoded = (Vec<u8>, ColumnCloseResult);

/// Row groups that threads encode at a time: each holds about [`BYTES`] of rows, and what becomes of them.
const MOST_THREADS: usize = 2;

/// Threads that are encoding row groups.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The right to one thread.
struct Permit;

impl Permit {
    fn get() -> Option<Permit> {
        // One CPU gains nothing.
        let others = thread::available_parallelism().map_or(0, |count| count.get() - 1);
        let most = others.min(MOST_THREADS);
        THREADS.fetch_update(Relaxed, Relaxed, |used| (used < most).then_some(used + 1)).ok().map(|_| Permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
    }
}

/// A file being written.
pub struct Parquet<W: Write + Send + 'static> {
    /// The table.
    pub table: &'static Table,
    to: To<W>,
    columns: Vec<Collected>,
    /// Rows that are not written yet.
    rows: usize,
    /// Bytes that they take, about.
    pub size: usize,
}

/// What a thread returns: what it was given, and whether all could be written; nothing if it was given nothing.
type Written<W> = Option<(Box<Groups<W>>, io::Result<()>)>;

/// Where row groups go.
enum To<W: Write + Send + 'static> {
    Here(Box<Groups<W>>),
    /// A thread adds one; it returns what it was given, and whether that could be written.
    Thread(JoinHandle<Written<W>>),
    /// A thread had it that has panicked.
    Gone,
}

/// The row groups of a file.
struct Groups<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    properties: WriterPropertiesPtr,
    /// What is done with the file after each.
    release: fn(&W),
}

impl<W: Write + Send> Groups<W> {
    /// Writes columns of so many rows as a row group, and empties them.
    fn add(&mut self, columns: &mut [Collected], rows: usize) -> io::Result<()> {
        let added = self.encode(columns, rows);
        (self.release)(self.writer.inner());
        added
    }

    fn encode(&mut self, columns: &mut [Collected], rows: usize) -> io::Result<()> {
        let mut zstd = packed::zstd()?;
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in columns {
            column.fill(rows);
            let encoded = column.encode(rows, &mut zstd, &self.properties);
            let (bytes, noted) = encoded.map_err(failed)?;
            group.append_column(&Bytes::from(bytes), noted).map_err(failed)?;
            column.clear();
        }
        group.close().map_err(failed)?;
        self.writer.flush()
    }

    /// Writes the end of the file.
    fn finish(&mut self) -> io::Result<()> {
        let finished = self.writer.finish().map(drop).map_err(failed);
        (self.release)(self.writer.inner());
        finished
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that encodes a table has ended")
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

impl<W: Write + Send + 'static> Parquet<W> {
    /// Begins a file. After each part of it that was written, `release` is called.
    ///
    /// # Errors
    /// If it can't be written; the same holds for the other functions.
    pub fn new(table: &'static Table, below: W, release: fn(&W)) -> io::Result<Parquet<W>> {
        let schema = parse_message_type(&schema(table)).map_err(failed)?;
        let properties = Arc::new(properties(table));
        let writer = SerializedFileWriter::new(below, Arc::new(schema), Arc::clone(&properties));
        let writer = writer.map_err(failed)?;
        let described = writer.schema_descr().columns().iter().cloned();
        let columns =
            table.columns.iter().zip(described).map(|(column, of)| Collected::new(column, of)).collect();
        let to = To::Here(Box::new(Groups { writer, properties, release }));
        Ok(Parquet { table, to, columns, rows: 0, size: 0 })
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

    /// Writes what was collected as a row group, or gives it to a thread: what can't be written may be told by the next call,
    /// at the latest by [`Self::finish`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.wait()?;
        match Permit::get().filter(|_| self.rows > 0) {
            Some(permit) => self.hand_over(permit),
            None => self.write(),
        }
    }

    /// Writes it here.
    fn write(&mut self) -> io::Result<()> {
        let rows = mem::take(&mut self.rows);
        self.size = 0;
        match &mut self.to {
            _ if rows == 0 => Ok(()),
            To::Here(groups) => groups.add(&mut self.columns, rows),
            _ => Err(gone()),
        }
    }

    /// Gives it to a thread.
    fn hand_over(&mut self, permit: Permit) -> io::Result<()> {
        let rows = self.rows;
        let (hand_over, handed_over) = sync_channel::<(Box<Groups<W>>, Vec<Collected>)>(1);
        let work = move || {
            let _permit = permit;
            let (mut groups, mut columns) = handed_over.recv().ok()?;
            let added = groups.add(&mut columns, rows);
            Some((groups, added))
        };
        let Ok(thread) = thread::Builder::new().name("encode".into()).spawn(work) else {
            return self.write();
        };
        let To::Here(groups) = mem::replace(&mut self.to, To::Thread(thread)) else { return Err(gone()) };
        let empty = self.columns.iter().map(Collected::empty).collect();
        let columns = mem::replace(&mut self.columns, empty);
        (self.rows, self.size) = (0, 0);
        // The thread waits for it, so this can't fail.
        let _ = hand_over.send((groups, columns));
        Ok(())
    }

    /// Waits for the thread, if there is one.
    fn wait(&mut self) -> io::Result<()> {
        match mem::replace(&mut self.to, To::Gone) {
            To::Thread(thread) => {
                let Ok(Some((groups, added))) = thread.join() else { return Err(gone()) };
                self.to = To::Here(groups);
                added
            }
            here => {
                self.to = here;
                Ok(())
            }
        }
    }

    /// Gives back the memory that columns keep for the next rows.
    pub fn release(&mut self) {
        self.columns.iter_mut().for_each(Collected::release);
    }

    /// Writes the rest, and the end of the file.
    pub fn finish(&mut self) -> io::Result<()> {
        self.wait()?;
        self.write()?;
        match &mut self.to {
            To::Here(groups) => groups.finish(),
            _ => Err(gone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::schema::Of;
    use std::iter;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Below(Arc<Mutex<Vec<u8>>>);

    impl Write for Below {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.lock().unwrap().len() > 1 << 20 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Adds rows from this number on; each has a cell of its kind in every column, but some that are null.
    fn add(parquet: &mut Parquet<Below>, rows: std::ops::Range<i64>) {
        for row in rows {
            let number = row.wrapping_mul(6_364_136_223_846_793_005);
            for (place, column) in parquet.table.columns.iter().enumerate() {
                let cell = match column.kind {
                    _ if column.nullable && (row + place as i64) % 3 == 0 => continue,
                    Kind::Time | Kind::Int => Cell::Int(number),
                    Kind::Double => Cell::Double(number as f64),
                    Kind::Bool => Cell::Bool(number < 0),
                    Kind::Text => Cell::from(format!("text {}", number >> 50)),
                    Kind::Doubles => Cell::Doubles(vec![number as f64; (row % 4) as usize]),
                    Kind::Ints => Cell::Ints(vec![number; (row % 4) as usize]),
                    Kind::Texts => Cell::Texts(vec!["text".into(); (row % 4) as usize]),
                };
                parquet.push(place, &cell);
            }
            parquet.end_row();
        }
    }

    #[test]
    fn threads_write_the_same() {
        let write = || {
            let below = Below::default();
            let mut parquet = Parquet::new(Of::Values.table(), below.clone(), |_| ()).unwrap();
            for group in 0..5 {
                add(&mut parquet, group * 300..group * 300 + 300);
                parquet.flush().unwrap();
            }
            add(&mut parquet, 1500..1507);
            parquet.finish().unwrap();
            drop(parquet);
            Arc::into_inner(below.0).unwrap().into_inner().unwrap()
        };
        let on_several = write();
        // nobody else gets a thread
        let _permits: Vec<Permit> = iter::from_fn(Permit::get).collect();
        assert!(on_several == write());
    }

    #[test]
    fn what_a_thread_can_not_write_is_told() {
        let mut parquet = Parquet::new(Of::Values.table(), Below::default(), |_| ()).unwrap();
        let failed = (0..400).find_map(|group| {
            add(&mut parquet, group * 300..group * 300 + 300);
            parquet.flush().err()
        });
        assert_eq!(failed.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        assert!(parquet.finish().is_err(), "the file is not whole");
    }
}
