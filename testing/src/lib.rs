//! Random input for the tests of all crates. Nothing that is shipped depends on it.

pub mod chance;
