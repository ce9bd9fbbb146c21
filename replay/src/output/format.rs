//! What a format of output is.

use crate::out::Out;
use crate::time::Zone;
use std::fmt;
use std::io;

/// Writes items, one after the other, in one format.
pub trait Writer<T> {
    /// Before the first item.
    ///
    /// # Errors
    /// If the output can't be written; so do the others.
    fn begin(&mut self, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }

    /// An item.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn write(&mut self, out: &mut Out, item: &T) -> io::Result<()>;

    /// After the last item.
    ///
    /// # Errors
    /// See [`Writer::begin`].
    fn end(&mut self, _out: &mut Out) -> io::Result<()> {
        Ok(())
    }
}

/// A row in a table of formats.
pub struct Format<T: 'static> {
    /// What `--format` calls it.
    pub name: &'static str,
    /// Makes its writer; times are in that zone.
    pub writer: for<'a> fn(&'a Zone) -> Box<dyn Writer<T> + 'a>,
}

impl<T> fmt::Debug for Format<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// There is no format of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    /// The name that was given.
    pub name: String,
    /// Those that there are.
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

/// The format of that name.
///
/// # Errors
/// If the table has none.
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
        let error = find(&crate::output::puts::FORMATS, "xml").unwrap_err();
        assert_eq!(error.to_string(), "unknown format 'xml'; choose text or jsonl");
        let three = UnknownFormat { name: "x".into(), known: vec!["a", "b", "c"] };
        assert_eq!(three.to_string(), "unknown format 'x'; choose a, b or c");
    }
}
