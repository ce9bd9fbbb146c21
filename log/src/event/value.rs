//! Values: of fields, of requests, of messages.

pub use epics::Dbf;
use serde::{Deserialize, Serialize};

/// A value as it lay in memory, in the field's or the request's own type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// It is not known.
    Unknown,
    /// An integer, enum or menu index.
    Int(i64),
    /// An unsigned 64-bit integer.
    UInt(u64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// A string up to its NUL, any bytes.
    Text(Vec<u8>),
    /// An array.
    Array(Array),
}

/// The first elements of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Type of an element.
    pub dbf: Dbf,
    /// How many elements the array really has.
    pub count: u32,
    /// The first elements, little endian, each whole (strings: 40 bytes each).
    pub bytes: Vec<u8>,
}
