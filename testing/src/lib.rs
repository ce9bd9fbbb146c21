//! Random input for the tests of all crates, and strict readers of what they write. Nothing that is shipped depends on it.

pub mod chance;
pub mod readers;
