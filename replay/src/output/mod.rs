//! What is printed: one file an output.

pub mod attached;
pub mod info;
pub mod inventory;
pub mod otlp;
pub mod puts;
pub mod tree;
pub mod turns;
pub mod verify;
pub mod why;
