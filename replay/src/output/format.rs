//! The interface of output formats.

use crate::out::Out;
use crate::time::Zone;
use std::{fmt, io};

/// Writes items, one at a time, in one format.
pub trait Writer<T> {
    /// Writes the part before the first item.
    ///
    /// # Errors
    /// If the output can't be written; the same holds for the other methods.
    fn begin(&mut self, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }

    /// Writes an item.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn write(&mut self, out: &mut Out, item: &T) -> io::Result<()>;

    /// Writes what waits for the time to pass, as it has up to this wall-clock time (nanoseconds since 1970 UTC): the log
    /// is being followed, and no item is older.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn pass(&mut self, _out: &mut Out, _until: i64) -> io::Result<()> {
        Ok(())
    }

    /// Writes what was put aside to be written together with more: the log is being followed, and there is nothing more
    /// for the moment.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn flush(&mut self, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }

    /// Writes the part after the last item.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn end(&mut self, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }

    /// What the reader must know of what was written; for standard error.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A row in a table of formats.
pub struct Format<T: 'static> {
    /// Its name for `--format`.
    pub name: &'static str,
    /// Makes its writer, which prints times in the given zone.
    pub writer: for<'a> fn(&'a Zone) -> Box<dyn Writer<T> + 'a>,
}

impl<T> fmt::Debug for Format<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No format has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    /// The given name.
    pub name: String,
    /// The names of all formats.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format '{}'; choose ", self.name)?;
        for (number, name) in self.known.iter().enumerate() {
            let separator = match number {
                0 => "",
                _ if number + 1 == self.known.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownFormat {}

/// Finds the format of that name.
///
/// # Errors
/// If the table does not have it.
pub fn find<T>(formats: &'static [Format<T>], name: &str) -> Result<&'static Format<T>, UnknownFormat> {
    formats.iter().find(|format| format.name == name).ok_or_else(|| UnknownFormat {
        name: name.to_owned(),
        known: formats.iter().map(|format| format.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_formats_name_those_there_are() {
        let error = find(&crate::output::traces::FORMATS, "xml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown format 'xml'; choose text, otlp, otlp-proto, otlp-proto-delimited, zipkin, perfetto, jsonl or csv"
        );
        let three = UnknownFormat { name: "x".into(), known: vec!["a", "b", "c"] };
        assert_eq!(three.to_string(), "unknown format 'x'; choose a, b or c");
    }
}
