//! What puts and chains are called in text, wherever they are printed.

pub mod cause;
pub mod put;
