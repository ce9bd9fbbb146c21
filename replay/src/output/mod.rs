//! What is printed: one file an output.

pub mod info;
pub mod puts;
pub mod traces;
pub mod verify;
pub mod why;
