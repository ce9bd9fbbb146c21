//! Errors in reading the record types of an IOC.

use std::fmt;

/// An implausible or missing part of the record database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// `pdbbase` is still NULL.
    NotLoaded,
    /// The address in `pdbbase` cannot be read.
    NoDatabase,
    /// The list of record types has not ended after this number.
    EndlessTypes(usize),
    /// A dbRecordType cannot be read.
    Type,
    /// A dbRecordType has no name.
    UnnamedType,
    /// A record type has no record size: its support is not registered yet.
    NotRegistered,
    /// A dbRecordType claims this number of fields.
    FieldCount(usize),
    /// The pointers to a record type's fields cannot be read.
    Fields,
    /// A dbFldDes cannot be read.
    Field,
    /// A dbFldDes has no name.
    UnnamedField,
    /// A dbFldDes does not point back to its dbRecordType.
    ForeignField,
    /// The type of the field with this name is not a 16-bit number.
    FieldType(String),
    /// No record type describes RDES, STAT and PACT.
    NoCommon,
    /// The highest number of a field type is not that of any known Base.
    Numbering(u16),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayoutError::NotLoaded => "its record database is not loaded yet",
            LayoutError::NoDatabase => "pdbbase points to nothing",
            LayoutError::EndlessTypes(count) => {
                return write!(f, "the list of record types does not end (after {count})");
            }
            LayoutError::Type => "a record type could not be read",
            LayoutError::UnnamedType => "a record type has no name",
            LayoutError::NotRegistered => "its record types are not registered yet",
            LayoutError::FieldCount(count) => return write!(f, "a record type claims {count} fields"),
            LayoutError::Fields => "a record type's fields could not be read",
            LayoutError::Field => "a field could not be read",
            LayoutError::UnnamedField => "a field has no name",
            LayoutError::ForeignField => "a field does not belong to its record type",
            LayoutError::FieldType(name) => return write!(f, "field {name} has no type"),
            LayoutError::NoCommon => "no record type describes RDES, STAT and PACT",
            LayoutError::Numbering(last) => {
                return write!(f, "the last field type is {last}, not 15 or 17");
            }
        })
    }
}

impl std::error::Error for LayoutError {}
