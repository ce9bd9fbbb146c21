//! Output: one file for each command's.

pub mod alarms;
pub mod at;
pub mod c_number;
pub mod caput;
pub mod clients;
pub mod console;
mod crash;
pub mod diff;
pub mod follow;
pub mod format;
pub mod graph;
pub mod health;
pub mod info;
pub mod io;
pub mod iocs;
pub mod last;
mod moments;
pub mod net;
pub mod plot;
pub mod profile;
pub mod puts;
pub mod records;
pub mod report;
pub mod rows;
#[cfg(test)]
pub mod sample;
pub mod settings;
pub mod stuck;
pub mod top;
pub mod traces;
pub mod undo;
pub mod values;
pub mod verify;
pub mod why;
pub mod wording;
