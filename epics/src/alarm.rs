//! Alarm severities and statuses (alarm.h; menuAlarmSevr.dbd, menuAlarmStat.dbd). They are the same in all versions of
//! Base from 3.14 on.

/// No alarm.
pub const NO_ALARM: u16 = 0;
/// A minor alarm.
pub const MINOR: u16 = 1;
/// A major alarm.
pub const MAJOR: u16 = 2;
/// The value is not valid.
pub const INVALID: u16 = 3;

/// Names of severities, in the order of their numbers.
const SEVERITIES: [&str; 4] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/// Names of statuses, in the order of their numbers.
const STATUSES: [&str; 22] = [
    "NO_ALARM",
    "READ",
    "WRITE",
    "HIHI",
    "HIGH",
    "LOLO",
    "LOW",
    "STATE",
    "COS",
    "COMM",
    "TIMEOUT",
    "HWLIMIT",
    "CALC",
    "SCAN",
    "LINK",
    "SOFT",
    "BAD_SUB",
    "UDF",
    "DISABLE",
    "SIMM",
    "READ_ACCESS",
    "WRITE_ACCESS",
];

/// The status of a record that had to process while it was disabled (DISA equals DISV).
pub const DISABLE: u16 = 18;
/// Status of a record that has had to process several times while it was active.
pub const SCAN: u16 = 13;
/// Status of a record without a value, with which all begin.
pub const UDF: u16 = 17;

/// The name of a severity (a record's `SEVR`).
pub fn severity_name(severity: u16) -> Option<&'static str> {
    SEVERITIES.get(usize::from(severity)).copied()
}

/// The name of a status (a record's `STAT`).
pub fn status_name(status: u16) -> Option<&'static str> {
    STATUSES.get(usize::from(status)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        let severities = [NO_ALARM, MINOR, MAJOR, INVALID].map(|severity| severity_name(severity).unwrap());
        assert_eq!(severities, ["NO_ALARM", "MINOR", "MAJOR", "INVALID"]);
        // epicsAlarmHigh, epicsAlarmLink, epicsAlarmUDF and epicsAlarmWriteAccess of alarm.h
        let statuses = [4, 14, 17, 21].map(|status| status_name(status).unwrap());
        assert_eq!(statuses, ["HIGH", "LINK", "UDF", "WRITE_ACCESS"]);
        assert_eq!((severity_name(4), status_name(22)), (None, None));
    }
}
