//! Values: of fields, of requests, of messages.

pub use epics::Dbf;
use serde::{Deserialize, Serialize};

/// A value as found in memory, in the type of its field or request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// The value is not known.
    Unknown,
    /// An integer, enum or menu index.
    Int(i64),
    /// An unsigned 64-bit integer.
    UInt(u64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// The bytes of a string before its NUL; they may have any encoding.
    Text(Vec<u8>),
    /// An array.
    Array(Array),
}

/// The first elements of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Type of an element.
    pub dbf: Dbf,
    /// Number of elements in the whole array.
    pub count: u32,
    /// The first elements, little endian, each whole (strings: 40 bytes each).
    pub bytes: Vec<u8>,
}
