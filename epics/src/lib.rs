//! What EPICS Base defines and every program of ours needs: once, for the agent, the log and the reader.
//!
//! - [`dbf`]: types of record fields, and how each version of Base numbers them;
//! - [`dbr`]: types of Channel Access requests;
//! - [`eca`]: Channel Access status codes;
//! - [`alarm`]: alarm severities and statuses;
//! - [`pv`]: PV names and the texts of links;
//! - [`limits`]: the sizes of strings and names.
//!
//! Each is one table: a new type or code is one row. Nothing here reads, allocates without need, or depends on an
//! operating system. The optional feature `serde` makes [`Dbf`] serialisable.

pub mod alarm;
pub mod dbf;
pub mod dbr;
pub mod eca;
pub mod limits;
pub mod pv;

pub use dbf::Dbf;
pub use dbr::Dbr;
pub use pv::Pv;
