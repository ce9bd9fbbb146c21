//! Formats of files that restore values: what control-room tools read. To add one, add a file here and a row below.
//!
//! A value that a format can't hold, or that is not known for certain, is left out and returned, never written wrong.

mod autosave;
mod burt;
mod caput;
mod check;
mod chosen;
mod phoebus;
#[cfg(test)]
mod tests;

pub use chosen::Chosen;

use crate::model::setting::{LeftOut, Setting};
use crate::out::Out;
use crate::time::Zone;
use std::io;

/// What a file says about itself.
pub struct Heading<'a> {
    /// One line: what the values are ("Values at 2026-11-22 10:03:20").
    pub title: &'a str,
    /// Wall-clock time of the values, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Zone of times that are written as text.
    pub zone: &'a Zone,
}

/// A format of a file that restores values.
#[derive(Debug)]
pub struct SettingsFormat {
    /// Its name for `--format`.
    pub name: &'static str,
    /// Writes the settings, in the order given. Returns those that it left out.
    pub write: fn(&mut Out, &Heading, &[Setting]) -> io::Result<Vec<LeftOut>>,
}

/// The formats.
pub static FORMATS: &[SettingsFormat] = &[
    SettingsFormat { name: "caput", write: caput::write },
    SettingsFormat { name: "autosave", write: autosave::write },
    SettingsFormat { name: "burt", write: burt::write },
    SettingsFormat { name: "phoebus-snapshot", write: phoebus::snapshot },
    SettingsFormat { name: "phoebus-configuration", write: phoebus::configuration },
];
