//! Output: one file for each command's.

pub mod c_number;
pub mod caput;
pub mod format;
pub mod info;
pub mod iocs;
pub mod puts;
pub mod records;
pub mod rows;
#[cfg(test)]
pub mod sample;
pub mod settings;
pub mod traces;
pub mod verify;
pub mod why;
pub mod wording;
