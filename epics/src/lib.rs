//! Definitions of EPICS Base that the agent, the log and the reader share.
//!
//! - [`dbf`]: types of record fields, and their numbers in each version of Base;
//! - [`dbr`]: types of Channel Access requests;
//! - [`eca`]: Channel Access status codes;
//! - [`alarm`]: alarm severities and statuses;
//! - [`pv`]: PV names and the texts of links;
//! - [`pva`]: types and values of PVAccess;
//! - [`limits`]: the sizes of strings and names.
//!
//! Each is one table: a new type or code is one row. Nothing here performs I/O, allocates needlessly, or depends on an
//! operating system. The optional feature `serde` makes [`Dbf`] serialisable.

pub mod alarm;
pub mod dbf;
pub mod dbr;
pub mod eca;
pub mod limits;
pub mod pv;
pub mod pva;

pub use dbf::Dbf;
pub use dbr::Dbr;
pub use pv::Pv;
