//! Output: one file for each command's.

pub mod format;
pub mod info;
pub mod iocs;
mod moments;
pub mod puts;
pub mod records;
#[cfg(test)]
pub mod sample;
pub mod traces;
pub mod verify;
pub mod why;
pub mod wording;
