//! Names of Channel Access status codes.
//!
//! A code is `number * 8 + severity` (`DEFMSG` in EPICS Base's caerr.h; severities: 0 warning, 1
//! success, 2 error, 3 information, 6 fatal). The names are found by number alone, as EPICS itself
//! does for the messages.

/// `ECA_NORMAL`: done.
pub const NORMAL: u32 = 1;
/// `ECA_NOWTACCESS`: write access denied.
pub const NO_WRITE_ACCESS: u32 = 47 << 3;

/// The name of `code`, such as `ECA_PUTFAIL`.
pub fn name(code: u32) -> Option<&'static str> {
    NAMES.get(usize::try_from(code >> 3).ok()?).copied()
}

/// In the order of their numbers.
const NAMES: [&str; 61] = [
    "ECA_NORMAL",
    "ECA_MAXIOC",
    "ECA_UKNHOST",
    "ECA_UKNSERV",
    "ECA_SOCK",
    "ECA_CONN",
    "ECA_ALLOCMEM",
    "ECA_UKNCHAN",
    "ECA_UKNFIELD",
    "ECA_TOLARGE",
    "ECA_TIMEOUT",
    "ECA_NOSUPPORT",
    "ECA_STRTOBIG",
    "ECA_DISCONNCHID",
    "ECA_BADTYPE",
    "ECA_CHIDNOTFND",
    "ECA_CHIDRETRY",
    "ECA_INTERNAL",
    "ECA_DBLCLFAIL",
    "ECA_GETFAIL",
    "ECA_PUTFAIL",
    "ECA_ADDFAIL",
    "ECA_BADCOUNT",
    "ECA_BADSTR",
    "ECA_DISCONN",
    "ECA_DBLCHNL",
    "ECA_EVDISALLOW",
    "ECA_BUILDGET",
    "ECA_NEEDSFP",
    "ECA_OVEVFAIL",
    "ECA_BADMONID",
    "ECA_NEWADDR",
    "ECA_NEWCONN",
    "ECA_NOCACTX",
    "ECA_DEFUNCT",
    "ECA_EMPTYSTR",
    "ECA_NOREPEATER",
    "ECA_NOCHANMSG",
    "ECA_DLCKREST",
    "ECA_SERVBEHIND",
    "ECA_NOCAST",
    "ECA_BADMASK",
    "ECA_IODONE",
    "ECA_IOINPROGRESS",
    "ECA_BADSYNCGRP",
    "ECA_PUTCBINPROG",
    "ECA_NORDACCESS",
    "ECA_NOWTACCESS",
    "ECA_ANACHRONISM",
    "ECA_NOSEARCHADDR",
    "ECA_NOCONVERT",
    "ECA_BADCHID",
    "ECA_BADFUNCPTR",
    "ECA_ISATTACHED",
    "ECA_UNAVAILINSERV",
    "ECA_CHANDESTROY",
    "ECA_BADPRIORITY",
    "ECA_NOTTHREADED",
    "ECA_16KARRAYCLIENT",
    "ECA_CONNSEQTMO",
    "ECA_UNRESPTMO",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes as seen on the wire.
    #[test]
    fn known_codes() {
        assert_eq!(name(NORMAL), Some("ECA_NORMAL"));
        assert_eq!(name(NO_WRITE_ACCESS), Some("ECA_NOWTACCESS"));
        assert_eq!(NO_WRITE_ACCESS, 0x178);
        assert_eq!(name(160), Some("ECA_PUTFAIL"));
        assert_eq!(name(114), Some("ECA_BADTYPE"));
        assert_eq!(name(480), Some("ECA_UNRESPTMO"));
        assert_eq!(name(488), None);
        assert_eq!(name(u32::MAX), None);
    }
}
