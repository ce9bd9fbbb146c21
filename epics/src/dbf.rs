//! Types of record fields (DBF, dbFldTypes.h), and their numbers in the versions of Base.

use crate::limits::MAX_STRING_SIZE;

/// The interpretation of an element's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text up to its NUL.
    Text,
    /// An integer in two's complement.
    Signed,
    /// An unsigned integer; also the index of an enum string, a menu choice or a device support.
    Unsigned,
    /// An IEEE 754 number.
    Float,
}

/// Makes the type, and the properties of each variant from its row.
macro_rules! field_types {
    ($($variant:ident, $kind:ident, $size:expr, $request:literal;)*) => {
        /// A field's type. The values passed to dbPut and dbPutField also have one of these types, named `DBR_...`
        /// there.
        ///
        /// Logs hold the index of a variant (feature `serde`), so add new ones at the end, whatever their number in
        /// Base.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[allow(missing_docs)] // the names are Base's
        pub enum Dbf {
            $($variant,)*
        }

        impl Dbf {
            /// Size of one element, bytes; never 0.
            pub const fn size(self) -> usize {
                match self {
                    $(Dbf::$variant => $size,)*
                }
            }

            /// The interpretation of an element's bytes.
            pub const fn kind(self) -> Kind {
                match self {
                    $(Dbf::$variant => Kind::$kind,)*
                }
            }

            /// The name of a request of this type inside the IOC (dbAddr.h, dbFldTypes.h). Menus and device supports
            /// are put as enums, links as strings.
            pub const fn request_name(self) -> &'static str {
                match self {
                    $(Dbf::$variant => $request,)*
                }
            }
        }
    };
}

// variant, kind, size of an element, name of a request
field_types! {
    String, Text, MAX_STRING_SIZE, "DBR_STRING";
    Char, Signed, 1, "DBR_CHAR";
    UChar, Unsigned, 1, "DBR_UCHAR";
    Short, Signed, 2, "DBR_SHORT";
    UShort, Unsigned, 2, "DBR_USHORT";
    Long, Signed, 4, "DBR_LONG";
    ULong, Unsigned, 4, "DBR_ULONG";
    Int64, Signed, 8, "DBR_INT64";
    UInt64, Unsigned, 8, "DBR_UINT64";
    Float, Float, 4, "DBR_FLOAT";
    Double, Float, 8, "DBR_DOUBLE";
    Enum, Unsigned, 2, "DBR_ENUM";
    Menu, Unsigned, 2, "DBR_ENUM";
    Device, Unsigned, 2, "DBR_ENUM";
    InLink, Text, MAX_STRING_SIZE, "DBR_STRING";
    OutLink, Text, MAX_STRING_SIZE, "DBR_STRING";
    FwdLink, Text, MAX_STRING_SIZE, "DBR_STRING";
    NoAccess, Unsigned, 1, "DBR_NOACCESS";
}

impl Dbf {
    /// Whether a field of this type is a link.
    pub const fn is_link(self) -> bool {
        matches!(self, Dbf::InLink | Dbf::OutLink | Dbf::FwdLink)
    }

    /// Whether it is a plain number. Enums, menus and device supports are not: their numbers represent texts.
    pub const fn is_number(self) -> bool {
        !matches!(self.kind(), Kind::Text) && !self.stands_for_text() && !matches!(self, Dbf::NoAccess)
    }

    /// Whether it is the index of a text: of an enum string, a menu choice or a device support.
    pub const fn stands_for_text(self) -> bool {
        matches!(self, Dbf::Enum | Dbf::Menu | Dbf::Device)
    }

    /// Whether the field's own bytes hold its value. Those of links and NOACCESS fields do not: they hold structures
    /// and pointers.
    pub const fn holds_value(self) -> bool {
        !self.is_link() && !matches!(self, Dbf::NoAccess)
    }
}

/// The numbers that versions of Base assign to field types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Before Base 3.16.1: without 64-bit integers.
    Before3161,
    /// Since Base 3.16.1.
    Since3161,
}

impl Numbering {
    /// The types, in the order of their numbers (`dbfType` of dbFldTypes.h).
    const fn types(self) -> &'static [Dbf] {
        use Dbf::*;
        match self {
            Numbering::Before3161 => &[
                String, Char, UChar, Short, UShort, Long, ULong, Float, Double, Enum, Menu, Device, InLink,
                OutLink, FwdLink, NoAccess,
            ],
            Numbering::Since3161 => &[
                String, Char, UChar, Short, UShort, Long, ULong, Int64, UInt64, Float, Double, Enum, Menu,
                Device, InLink, OutLink, FwdLink, NoAccess,
            ],
        }
    }

    /// The type with this number; `None` if the version has no such number.
    pub fn dbf(self, number: u16) -> Option<Dbf> {
        self.types().get(usize::from(number)).copied()
    }

    /// The kind of a request that acknowledges alarms instead of putting a value; `None` for other requests. False:
    /// DBR_PUT_ACKT, which sets whether transient alarms must be acknowledged; true: DBR_PUT_ACKS, which acknowledges.
    /// Base numbers them after DBR_ENUM (dbFldTypes.h), like the field types MENU and DEVICE, which no request has.
    pub fn acknowledges(self, number: u16) -> Option<bool> {
        match self.dbf(number) {
            Some(Dbf::Menu) => Some(false),
            Some(Dbf::Device) => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of dbFldTypes.h.
    #[test]
    fn versions_number_types_differently() {
        let (before, since) = (Numbering::Before3161, Numbering::Since3161);
        for (number, dbf) in [(0, Dbf::String), (1, Dbf::Char), (5, Dbf::Long), (6, Dbf::ULong)] {
            assert_eq!((before.dbf(number), since.dbf(number)), (Some(dbf), Some(dbf)));
        }
        for (dbf, in_before, in_since) in [
            (Dbf::Float, 7, 9),
            (Dbf::Double, 8, 10),
            (Dbf::Enum, 9, 11),
            (Dbf::InLink, 12, 14),
            (Dbf::NoAccess, 15, 17),
        ] {
            assert_eq!((before.dbf(in_before), since.dbf(in_since)), (Some(dbf), Some(dbf)));
        }
        assert_eq!((before.dbf(16), since.dbf(18)), (None, None));
        assert_eq!((before.acknowledges(10), before.acknowledges(11)), (Some(false), Some(true)));
        assert_eq!((since.acknowledges(12), since.acknowledges(13)), (Some(false), Some(true)));
        assert_eq!(since.acknowledges(11), None);
    }

    #[test]
    fn classes_of_types() {
        let of = |test: fn(Dbf) -> bool| {
            Numbering::Since3161.types().iter().copied().filter(|dbf| test(*dbf)).collect::<Vec<_>>()
        };
        let numbers = of(Dbf::is_number);
        assert_eq!(
            (numbers.first(), numbers.last(), numbers.len()),
            (Some(&Dbf::Char), Some(&Dbf::Double), 10)
        );
        assert_eq!(of(Dbf::stands_for_text), [Dbf::Enum, Dbf::Menu, Dbf::Device]);
        assert_eq!(of(Dbf::is_link), [Dbf::InLink, Dbf::OutLink, Dbf::FwdLink]);
        assert_eq!(of(|dbf| !dbf.holds_value()), [Dbf::InLink, Dbf::OutLink, Dbf::FwdLink, Dbf::NoAccess]);
    }
}
