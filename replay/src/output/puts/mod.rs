//! Puts.

pub mod text;
