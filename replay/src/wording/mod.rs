//! Wording for puts, chains and alarms, shared by all text output.

pub mod alarm;
pub mod cause;
pub mod inputs;
pub mod origin;
pub mod put;
