//! Definitions, which give numbers their meaning, and their ends, which take it away.
//!
//! Each describes its life ([`Definition`](super::Definition)) beside its struct.

mod container;
mod database;
mod host;
mod ioc;
mod ip6;
mod network;
mod process;
mod pvaccess;

pub use container::*;
pub use database::*;
pub use host::*;
pub use ioc::*;
pub use ip6::*;
pub use network::*;
pub use process::*;
pub use pvaccess::*;
