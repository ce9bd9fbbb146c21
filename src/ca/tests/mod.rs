//! Tests of the decoder from packets to facts.

mod capture;
mod connections;
mod filter;
mod fuzz;
mod golden;
mod namespaces;
mod properties;
pub mod wire;
