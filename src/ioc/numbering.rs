//! How an IOC numbers its field types: Base 3.16.1 put 64-bit integers into the middle of the list.

use iocrec_log::event::Dbf;

/// The numbers of field types (dbFldTypes.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Before Base 3.16.1: no 64-bit integers.
    Before3161,
    /// Since Base 3.16.1.
    Since3161,
}

/// Field types in the order of their numbers since 3.16.1.
const TYPES: [Dbf; 18] = {
    use Dbf::*;
    [
        String, Char, UChar, Short, UShort, Long, ULong, Int64, UInt64, Float, Double, Enum, Menu, Device,
        InLink, OutLink, FwdLink, NoAccess,
    ]
};
/// Place of the first of the 64-bit integers, and how many there are.
const INT64: u16 = 7;
const INT64_TYPES: usize = 2;

impl Numbering {
    /// The numbering whose last type, NOACCESS, has this number.
    pub(super) fn of_last(number: u16) -> Option<Numbering> {
        match number {
            15 => Some(Numbering::Before3161),
            17 => Some(Numbering::Since3161),
            _ => None,
        }
    }

    /// The type of a field or of a request.
    pub fn dbf(self, number: u16) -> Option<Dbf> {
        let left_out = if self == Numbering::Before3161 && number >= INT64 { INT64_TYPES } else { 0 };
        TYPES.get(usize::from(number) + left_out).copied()
    }

    /// Does a request of this type acknowledge alarms instead of putting a value? Some(false): DBR_PUT_ACKT, which says
    /// whether transient alarms must be acknowledged; Some(true): DBR_PUT_ACKS, which acknowledges. Their numbers follow
    /// that of DBR_ENUM (dbFldTypes.h), as those of the field types MENU and DEVICE do, which no request has.
    pub fn acknowledges(self, dbr: u16) -> Option<bool> {
        match self.dbf(dbr) {
            Some(Dbf::Menu) => Some(false),
            Some(Dbf::Device) => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_bases_number_their_types_differently() {
        assert_eq!(Numbering::Before3161.dbf(8), Some(Dbf::Double));
        assert_eq!(Numbering::Before3161.dbf(6), Some(Dbf::ULong));
        assert_eq!(Numbering::Since3161.dbf(17), Some(Dbf::NoAccess));
        assert_eq!(Numbering::Since3161.dbf(18), None);
    }
}
