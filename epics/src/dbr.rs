//! Types of Channel Access requests (DBR, db_access.h): the numbers of the protocol.
//!
//! Inside an IOC other numbers are in use, those of [`dbf`](crate::dbf).

use crate::dbf::Dbf;
use crate::limits::MAX_STRING_SIZE;
use std::fmt;

/// A type by its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dbr(pub u16);

impl Dbr {
    /// `DBR_DOUBLE`.
    pub const DOUBLE: Dbr = Dbr(6);
    /// Sets whether a transient alarm must be acknowledged.
    pub const PUT_ACKT: Dbr = Dbr(35);
    /// Acknowledges an alarm, up to a severity.
    pub const PUT_ACKS: Dbr = Dbr(36);
    /// A string with its alarm, and whether that must be acknowledged; for reading only.
    pub const STSACK_STRING: Dbr = Dbr(37);
    /// The name of the record's type; for reading only.
    pub const CLASS_NAME: Dbr = Dbr(38);
    /// The highest there is.
    pub const LAST: Dbr = Dbr(TYPES.len() as u16 - 1);
    /// The highest native type: what a channel is of.
    pub const LAST_NATIVE: Dbr = Dbr::DOUBLE;
}

/// What db_access.h says of a type.
struct Type {
    name: &'static str,
    /// The type of its elements inside an IOC.
    element: Dbf,
    /// Bytes before the first element.
    offset: usize,
}

const fn row(name: &'static str, element: Dbf, offset: usize) -> Type {
    Type { name, element, offset }
}

/// By their numbers. The offset is `dbr_value_offset`: status, time, limits and units of the STS, TIME, GR and CTRL forms. CHAR is an epicsUInt8 in the protocol, whatever the field is.
static TYPES: [Type; 39] = [
    row("DBR_STRING", Dbf::String, 0),
    row("DBR_SHORT", Dbf::Short, 0),
    row("DBR_FLOAT", Dbf::Float, 0),
    row("DBR_ENUM", Dbf::Enum, 0),
    row("DBR_CHAR", Dbf::UChar, 0),
    row("DBR_LONG", Dbf::Long, 0),
    row("DBR_DOUBLE", Dbf::Double, 0),
    row("DBR_STS_STRING", Dbf::String, 4),
    row("DBR_STS_SHORT", Dbf::Short, 4),
    row("DBR_STS_FLOAT", Dbf::Float, 4),
    row("DBR_STS_ENUM", Dbf::Enum, 4),
    row("DBR_STS_CHAR", Dbf::UChar, 5),
    row("DBR_STS_LONG", Dbf::Long, 4),
    row("DBR_STS_DOUBLE", Dbf::Double, 8),
    row("DBR_TIME_STRING", Dbf::String, 12),
    row("DBR_TIME_SHORT", Dbf::Short, 14),
    row("DBR_TIME_FLOAT", Dbf::Float, 12),
    row("DBR_TIME_ENUM", Dbf::Enum, 14),
    row("DBR_TIME_CHAR", Dbf::UChar, 15),
    row("DBR_TIME_LONG", Dbf::Long, 12),
    row("DBR_TIME_DOUBLE", Dbf::Double, 16),
    row("DBR_GR_STRING", Dbf::String, 4),
    row("DBR_GR_SHORT", Dbf::Short, 24),
    row("DBR_GR_FLOAT", Dbf::Float, 40),
    row("DBR_GR_ENUM", Dbf::Enum, 422),
    row("DBR_GR_CHAR", Dbf::UChar, 19),
    row("DBR_GR_LONG", Dbf::Long, 36),
    row("DBR_GR_DOUBLE", Dbf::Double, 64),
    row("DBR_CTRL_STRING", Dbf::String, 4),
    row("DBR_CTRL_SHORT", Dbf::Short, 28),
    row("DBR_CTRL_FLOAT", Dbf::Float, 48),
    row("DBR_CTRL_ENUM", Dbf::Enum, 422),
    row("DBR_CTRL_CHAR", Dbf::UChar, 21),
    row("DBR_CTRL_LONG", Dbf::Long, 44),
    row("DBR_CTRL_DOUBLE", Dbf::Double, 80),
    row("DBR_PUT_ACKT", Dbf::UShort, 0),
    row("DBR_PUT_ACKS", Dbf::UShort, 0),
    row("DBR_STSACK_STRING", Dbf::String, 8),
    row("DBR_CLASS_NAME", Dbf::String, 0),
];

impl Dbr {
    fn row(self) -> Option<&'static Type> {
        TYPES.get(usize::from(self.0))
    }

    /// The type of its elements inside an IOC; none if there is no type with this number.
    pub fn element(self) -> Option<Dbf> {
        Some(self.row()?.element)
    }

    /// The type of a put's elements; none if a put can't be of this type: DBR_STSACK_STRING and DBR_CLASS_NAME are for
    /// reading only.
    pub fn put_element(self) -> Option<Dbf> {
        self.element().filter(|_| !matches!(self, Dbr::STSACK_STRING | Dbr::CLASS_NAME))
    }

    /// Bytes before the first element (`dbr_value_offset`).
    pub fn value_offset(self) -> Option<usize> {
        Some(self.row()?.offset)
    }

    /// Bytes of an element (`dbr_value_size`).
    pub fn value_size(self) -> Option<usize> {
        Some(self.row()?.element.size())
    }

    /// Its name; none if there is no type with this number.
    pub fn name(self) -> Option<&'static str> {
        Some(self.row()?.name)
    }
}

/// The name, or `DBR_` and the number if there is no such type.
impl fmt::Display for Dbr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "DBR_{}", self.0),
        }
    }
}

const _: () = assert!(Dbf::String.size() == MAX_STRING_SIZE);

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and sizes of db_access.h (`dbr_size`, `dbr_value_offset`).
    #[test]
    fn numbers_names_and_sizes() {
        for (dbr, name, offset, size) in [
            (Dbr(0), "DBR_STRING", 0, 40),
            (Dbr(11), "DBR_STS_CHAR", 5, 1),
            (Dbr(16), "DBR_TIME_FLOAT", 12, 4),
            (Dbr(24), "DBR_GR_ENUM", 422, 2),
            (Dbr(34), "DBR_CTRL_DOUBLE", 80, 8),
            (Dbr::DOUBLE, "DBR_DOUBLE", 0, 8),
            (Dbr::PUT_ACKT, "DBR_PUT_ACKT", 0, 2),
            (Dbr::PUT_ACKS, "DBR_PUT_ACKS", 0, 2),
            (Dbr(37), "DBR_STSACK_STRING", 8, 40),
            (Dbr::LAST, "DBR_CLASS_NAME", 0, 40),
        ] {
            assert_eq!(dbr.to_string(), name);
            assert_eq!((dbr.value_offset(), dbr.value_size()), (Some(offset), Some(size)), "{name}");
        }
        assert_eq!(Dbr::LAST.0, 38);
        let none = Dbr(39);
        assert_eq!((none.name(), none.element(), none.value_offset()), (None, None, None));
        assert_eq!(none.to_string(), "DBR_39");
        let put = [Dbr::PUT_ACKS, Dbr(37), none].map(Dbr::put_element);
        assert_eq!(put, [Some(Dbf::UShort), None, None]);
    }

    /// The forms of a type hold elements of that type.
    #[test]
    fn forms_keep_the_element() {
        for number in 7..35 {
            assert_eq!(Dbr(number).element(), Dbr(number % 7).element(), "{}", Dbr(number));
        }
    }
}
