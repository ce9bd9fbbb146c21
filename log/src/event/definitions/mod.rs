//! Definitions, and their ends: what gives a number its meaning, and what takes it away.
//!
//! Each says beside its struct how it lives ([`Definition`](super::Definition)).

mod database;
mod host;
mod ioc;
mod network;

pub use database::*;
pub use host::*;
pub use ioc::*;
pub use network::*;
