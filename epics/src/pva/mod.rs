//! Types and values as PVAccess sends them.
//!
//! - [`cursor`]: numbers, sizes, strings, statuses;
//! - [`types`]: descriptions of types, and the registry that they refer to;
//! - [`value`]: walks over a value by the description of its type.
//!
//! The agent logs a value as it was sent, with its type's description; the reader takes both apart. So both use this
//! room, and nothing here copies more than it is asked to.
//!
//! Promises: nothing panics, whatever the bytes say. Work is bounded by the bytes given and by fixed limits: 633 bytes
//! can describe a type of 1.6e12 fields, since each type may refer to others twice.

pub mod cursor;
pub mod types;
pub mod value;

pub use cursor::{Cursor, Status};
pub use types::{Registry, Scalar};
pub use value::{Leaf, Visitor};

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are too few.
    Short,
    /// They have no meaning.
    Wrong,
    /// They refer to a type that was not seen.
    UnknownType,
    /// They describe more than is looked at.
    TooMuch,
}

/// The result of reading something.
pub type Read<T> = Result<T, Fault>;
