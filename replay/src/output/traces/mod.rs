//! Chains.

pub mod otlp;
pub mod text;
