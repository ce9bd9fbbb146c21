//! Wording for puts and chains, shared by all text output.

pub mod alarm;
pub mod cause;
pub mod origin;
pub mod put;
