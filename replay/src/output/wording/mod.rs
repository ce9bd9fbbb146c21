//! Wording for puts and chains, shared by all text output.

pub mod age;
pub mod alarm;
pub mod cause;
pub mod origin;
pub mod put;
