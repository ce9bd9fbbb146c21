//! Channel Access status codes (ECA, caerr.h).
//!
//! A code is a message's number shifted left by three bits, with a severity in these bits (`DEFMSG`). Like EPICS itself
//! (`CA_EXTRACT_MSG_NO`), this module finds a message by its number alone.

use std::borrow::Cow;

/// The severity of a message (`CA_K_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Not done.
    Warning = 0,
    /// Done.
    Success = 1,
    /// Failed; the program can continue.
    Error = 2,
    /// Done, with a remark.
    Info = 3,
    /// Failed; the program can't continue.
    Fatal = 6,
}

use Severity::*;

/// `ECA_NORMAL`: done.
pub const NORMAL: u32 = code(0, Success);
/// `ECA_TOLARGE`: the server has no room for a message of this size. RSRV tells by the header alone.
pub const TOLARGE: u32 = code(9, Warning);
/// `ECA_NOWTACCESS`: write access denied.
pub const NOWTACCESS: u32 = code(47, Warning);
/// The highest code that a message of this table can have.
pub const MAX_CODE: u32 = (MESSAGES.len() as u32 - 1) << 3 | 7;

/// Names and severities, in the order of the messages' numbers.
static MESSAGES: [(&str, Severity); 61] = [
    ("ECA_NORMAL", Success),
    ("ECA_MAXIOC", Error),
    ("ECA_UKNHOST", Error),
    ("ECA_UKNSERV", Error),
    ("ECA_SOCK", Error),
    ("ECA_CONN", Warning),
    ("ECA_ALLOCMEM", Warning),
    ("ECA_UKNCHAN", Warning),
    ("ECA_UKNFIELD", Warning),
    ("ECA_TOLARGE", Warning),
    ("ECA_TIMEOUT", Warning),
    ("ECA_NOSUPPORT", Warning),
    ("ECA_STRTOBIG", Warning),
    ("ECA_DISCONNCHID", Error),
    ("ECA_BADTYPE", Error),
    ("ECA_CHIDNOTFND", Info),
    ("ECA_CHIDRETRY", Info),
    ("ECA_INTERNAL", Fatal),
    ("ECA_DBLCLFAIL", Warning),
    ("ECA_GETFAIL", Warning),
    ("ECA_PUTFAIL", Warning),
    ("ECA_ADDFAIL", Warning),
    ("ECA_BADCOUNT", Warning),
    ("ECA_BADSTR", Error),
    ("ECA_DISCONN", Warning),
    ("ECA_DBLCHNL", Warning),
    ("ECA_EVDISALLOW", Error),
    ("ECA_BUILDGET", Warning),
    ("ECA_NEEDSFP", Warning),
    ("ECA_OVEVFAIL", Warning),
    ("ECA_BADMONID", Error),
    ("ECA_NEWADDR", Warning),
    ("ECA_NEWCONN", Info),
    ("ECA_NOCACTX", Warning),
    ("ECA_DEFUNCT", Fatal),
    ("ECA_EMPTYSTR", Warning),
    ("ECA_NOREPEATER", Warning),
    ("ECA_NOCHANMSG", Warning),
    ("ECA_DLCKREST", Warning),
    ("ECA_SERVBEHIND", Warning),
    ("ECA_NOCAST", Warning),
    ("ECA_BADMASK", Error),
    ("ECA_IODONE", Info),
    ("ECA_IOINPROGRESS", Info),
    ("ECA_BADSYNCGRP", Error),
    ("ECA_PUTCBINPROG", Error),
    ("ECA_NORDACCESS", Warning),
    ("ECA_NOWTACCESS", Warning),
    ("ECA_ANACHRONISM", Error),
    ("ECA_NOSEARCHADDR", Warning),
    ("ECA_NOCONVERT", Warning),
    ("ECA_BADCHID", Error),
    ("ECA_BADFUNCPTR", Error),
    ("ECA_ISATTACHED", Warning),
    ("ECA_UNAVAILINSERV", Warning),
    ("ECA_CHANDESTROY", Warning),
    ("ECA_BADPRIORITY", Error),
    ("ECA_NOTTHREADED", Error),
    ("ECA_16KARRAYCLIENT", Warning),
    ("ECA_CONNSEQTMO", Warning),
    ("ECA_UNRESPTMO", Warning),
];

/// Makes a code, like `DEFMSG`.
const fn code(number: u32, severity: Severity) -> u32 {
    number << 3 | severity as u32
}

fn message(code: u32) -> Option<&'static (&'static str, Severity)> {
    MESSAGES.get(usize::try_from(code >> 3).ok()?)
}

/// The name of `code`, such as `ECA_PUTFAIL`.
pub fn name(code: u32) -> Option<&'static str> {
    message(code).map(|(name, _)| *name)
}

/// The severity of `code`'s message in Base.
pub fn severity(code: u32) -> Option<Severity> {
    message(code).map(|(_, severity)| *severity)
}

/// The status of a put that was answered with `code`: `ok`, `denied`, a name, or `ECA 0x1f0` for an unknown code.
pub fn put_status(code: u32) -> Cow<'static, str> {
    match code {
        NORMAL => "ok".into(),
        NOWTACCESS => "denied".into(),
        code => name(code).map_or_else(|| format!("ECA {code:#x}").into(), Cow::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes as seen on the wire.
    #[test]
    fn known_codes() {
        for (code, name, severity) in [
            (1, "ECA_NORMAL", Success),
            (0x178, "ECA_NOWTACCESS", Warning),
            (160, "ECA_PUTFAIL", Warning),
            (114, "ECA_BADTYPE", Error),
            (362, "ECA_PUTCBINPROG", Error),
            (480, "ECA_UNRESPTMO", Warning),
        ] {
            assert_eq!((super::name(code), super::severity(code)), (Some(name), Some(severity)));
        }
        assert_eq!((NORMAL, NOWTACCESS), (1, 0x178));
        assert_eq!((name(488), name(u32::MAX)), (None, None));
    }

    #[test]
    fn statuses_of_puts() {
        let statuses = [1, 376, 160, 496].map(put_status);
        assert_eq!(statuses, ["ok", "denied", "ECA_PUTFAIL", "ECA 0x1f0"]);
    }
}
