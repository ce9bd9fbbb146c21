//! Output: one file for each command's.

pub mod format;
pub mod info;
pub mod iocs;
pub mod puts;
pub mod records;
pub mod report;
#[cfg(test)]
pub mod sample;
pub mod traces;
pub mod verify;
pub mod why;
pub mod wording;
