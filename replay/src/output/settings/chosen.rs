//! The format of a question about values: rows, or a file that restores them.

use super::{SettingsFormat, FORMATS};
use crate::output::format::{Format, UnknownFormat};
use std::fmt;

/// A chosen format; rows are of type `T`.
pub enum Chosen<T: 'static> {
    /// A row for each PV.
    Rows(&'static Format<T>),
    /// A file that restores them.
    Settings(&'static SettingsFormat),
}

impl<T> Clone for Chosen<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Chosen<T> {}

impl<T> fmt::Debug for Chosen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Chosen::Rows(format) => format.name,
            Chosen::Settings(format) => format.name,
        })
    }
}

impl<T> Chosen<T> {
    /// Finds the format of that name, among these for rows and those for restoring.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(rows: &'static [Format<T>], name: &str) -> Result<Chosen<T>, UnknownFormat> {
        let of_rows = rows.iter().find(|format| format.name == name).map(Chosen::Rows);
        let settings = || FORMATS.iter().find(|format| format.name == name).map(Chosen::Settings);
        of_rows
            .or_else(settings)
            .ok_or_else(|| UnknownFormat { name: name.to_owned(), known: Chosen::names(rows) })
    }

    /// The names of all formats: these for rows, and those for restoring.
    pub fn names(rows: &[Format<T>]) -> Vec<&'static str> {
        let of_rows = rows.iter().map(|format| format.name);
        of_rows.chain(FORMATS.iter().map(|format| format.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::at;

    #[test]
    fn rows_and_files() {
        assert!(
            matches!(Chosen::find(&at::FORMATS, "csv"), Ok(Chosen::Rows(format)) if format.name == "csv")
        );
        assert!(matches!(Chosen::find(&at::FORMATS, "burt"), Ok(Chosen::Settings(_))));
        let error = Chosen::find(&at::FORMATS, "xml").expect_err("no such format").to_string();
        assert!(error.contains("choose text, ") && error.ends_with(" or phoebus-configuration"), "{error}");
    }
}
