//! Tests of the decoder from packets to facts.

mod connections;
mod golden;
mod properties;
pub mod wire;
