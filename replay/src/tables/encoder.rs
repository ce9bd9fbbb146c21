//! Rows of a file in its format, on their way to it.

use super::cells::Cell;
use super::schema::Table;
use super::{csv, ndjson, Format};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// Bytes of text that are written at once.
const TEXT: usize = 1 << 18;

/// A file that is appended to; it is open only in between. What somebody has put in its place meanwhile, such as a link to
/// another file, is not written to.
pub struct Appended {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// A lock, since the writer of Parquet gives no other access to it.
    file: Mutex<Option<File>>,
}

impl Appended {
    /// To the end of this file, which is open here.
    ///
    /// # Errors
    /// Nothing can be known of it.
    pub fn to(path: PathBuf, file: &File) -> io::Result<Appended> {
        Ok(Appended { path, identity: identity(file)?, file: Mutex::new(None) })
    }

    fn release(&self) {
        if let Ok(mut file) = self.file.lock() {
            *file = None;
        }
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.get_mut().map_err(|_| io::Error::other("a lock is broken"))?;
        match file {
            Some(file) => file.write(bytes),
            None => {
                // to read as well: a pipe that was put there would be waited for
                let found = OpenOptions::new().read(true).append(true).open(&self.path)?;
                if identity(&found)? != self.identity {
                    return Err(io::Error::other("another file was put in its place meanwhile"));
                }
                file.insert(found).write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is the same for all names of a file, and for no other file.
#[cfg(unix)]
fn identity(file: &File) -> io::Result<Option<(u64, u64)>> {
    use std::os::unix::fs::MetadataExt;
    let about = file.metadata()?;
    Ok(Some((about.dev(), about.ino())))
}

#[cfg(not(unix))]
fn identity(_: &File) -> io::Result<Option<(u64, u64)>> {
    Ok(None)
}

/// See the module.
pub enum Encoder {
    /// JSON lines or CSV.
    Text {
        /// Which of them.
        format: Format,
        /// The table.
        table: &'static Table,
        /// The file.
        below: Appended,
        /// What is not written yet.
        bytes: Vec<u8>,
    },
    /// Parquet.
    #[cfg(feature = "parquet")]
    Parquet(Box<super::parquet::Parquet<Appended>>),
}

/// A row that is being added: its cells come in the order of the table's columns.
pub struct Row<'a> {
    encoder: &'a mut Encoder,
    /// The number of the next cell.
    next: usize,
}

impl Row<'_> {
    /// Adds a cell.
    #[inline]
    pub fn push(&mut self, cell: Cell) {
        self.add(&cell);
    }

    /// Adds cells.
    #[inline]
    pub fn extend(&mut self, cells: &[Cell]) {
        cells.iter().for_each(|cell| self.add(cell));
    }

    /// Adds a cell. Most cells are null, so none is as cheap.
    #[inline]
    fn add(&mut self, cell: &Cell) {
        match (&mut *self.encoder, cell) {
            #[cfg(feature = "parquet")]
            (Encoder::Parquet(_), Cell::Null) => {}
            #[cfg(feature = "parquet")]
            (Encoder::Parquet(parquet), cell) => parquet.push(self.next, cell),
            (Encoder::Text { format: Format::Csv, table, bytes, .. }, cell) => {
                csv::push(bytes, table, self.next, cell);
            }
            (Encoder::Text { table, bytes, .. }, cell) => ndjson::push(bytes, table, self.next, cell),
        }
        self.next += 1;
    }
}

impl Encoder {
    /// For a file of the table.
    ///
    /// # Errors
    /// If it can't be written; the same holds for the other functions.
    pub fn new(format: Format, table: &'static Table, below: Appended) -> io::Result<Encoder> {
        let mut bytes = Vec::new();
        match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                return super::parquet::Parquet::new(table, below, Appended::release)
                    .map(|file| Encoder::Parquet(Box::new(file)))
            }
            Format::Csv => csv::push_heading(&mut bytes, table),
            _ => {}
        }
        Ok(Encoder::Text { format, table, below, bytes })
    }

    /// Adds a row; `push` adds its cells.
    pub fn add(&mut self, push: impl FnOnce(&mut Row)) {
        let mut row = Row { encoder: self, next: 0 };
        push(&mut row);
        let count = row.next;
        let table = match self {
            Encoder::Text { format, table, bytes, .. } => {
                bytes.extend_from_slice(if *format == Format::Csv { b"\n" } else { b"}\n" });
                *table
            }
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => {
                parquet.end_row();
                parquet.table
            }
        };
        debug_assert_eq!(count, table.columns.len(), "{}", table.name);
    }

    /// Bytes that are held in memory, about.
    pub fn size(&self) -> usize {
        match self {
            Encoder::Text { bytes, .. } => bytes.len(),
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => parquet.size,
        }
    }

    /// Whether enough is in memory to be written.
    pub fn is_full(&self) -> bool {
        match self {
            Encoder::Text { bytes, .. } => bytes.len() >= TEXT,
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => parquet.is_full(),
        }
    }

    /// Writes what is in memory; a thread may do so, and what goes wrong be told by the next call.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Text { below, bytes, .. } => {
                let written = below.write_all(bytes);
                bytes.clear();
                below.release();
                written
            }
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => parquet.flush(),
        }
    }

    /// Gives back the memory that is kept for the next rows, after [`Self::flush`].
    pub fn release(&mut self) {
        match self {
            Encoder::Text { bytes, .. } => *bytes = Vec::new(),
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => parquet.release(),
        }
    }

    /// Writes the rest.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Encoder::Text { .. } => self.flush(),
            #[cfg(feature = "parquet")]
            Encoder::Parquet(parquet) => parquet.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Whoever may write to the directory could put a link there.
    #[cfg(unix)]
    #[test]
    fn what_was_put_in_its_place_is_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| place.path().join(name));
        fs::write(&other, "other").unwrap();
        let file = File::create_new(&own).unwrap();
        let mut appended = Appended::to(own.clone(), &file).unwrap();
        appended.write_all(b"first").unwrap();
        appended.release();
        appended.write_all(b", second").unwrap();
        appended.release();
        assert_eq!(fs::read_to_string(&own).unwrap(), "first, second");
        fs::remove_file(&own).unwrap();
        std::os::unix::fs::symlink(&other, &own).unwrap();
        assert!(appended.write_all(b"third").is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
    }
}
