//! Sizes of strings and names, in bytes, with the terminating NUL.

/// A string field or a `DBR_STRING` element (epicsTypes.h).
pub const MAX_STRING_SIZE: usize = 40;
/// A record's name, the first member of `dbCommon` (dbDefs.h).
pub const PVNAME_STRINGSZ: usize = 61;
/// One enum string (db_access.h): `ZNAM` of bi, `ZRST` of mbbi and similar fields are `char[26]` in every version of
/// Base.
pub const MAX_ENUM_STRING_SIZE: usize = 26;
/// Maximum number of enum strings of a record (db_access.h), as in mbbi and mbbo.
pub const MAX_ENUM_STATES: usize = 16;
