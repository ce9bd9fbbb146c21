//! Sizes of strings and names, in bytes, the terminating NUL included.

/// A string field or a `DBR_STRING` element (epicsTypes.h).
pub const MAX_STRING_SIZE: usize = 40;
/// A record's name, the first member of `dbCommon` (dbDefs.h).
pub const PVNAME_STRINGSZ: usize = 61;
/// One enum string (db_access.h): `ZNAM` of bi, `ZRST` of mbbi and their like are `char[26]` in every version of Base.
pub const MAX_ENUM_STRING_SIZE: usize = 26;
/// Enum strings of a record at most (db_access.h), as mbbi and mbbo have.
pub const MAX_ENUM_STATES: usize = 16;
