//! Names of segment files: `20260131T235959Z-0000000042.iocrec`, and for pinned segments
//! `20260131T235959Z-0000000042-mark.iocrec`.
//!
//! The time, for people, is the start of the file in UTC. The number counts all files that were ever in the directory
//! and makes names unique. The order of names is always the order of creation: if the wall clock has jumped back (or
//! the box has no clock that survives a power cut), a new name repeats the time of the newest file, and only the number
//! rises.

use std::fmt;

/// Suffix of a segment's name.
pub(crate) const SUFFIX: &str = ".iocrec";
/// Digits of the number: enough for one segment per second for 300 years.
const DIGITS: usize = 10;
/// 9999-12-31T23:59:59Z, the last time that a name can hold.
const LAST_SECOND: u64 = 253_402_300_799;
const DAY: u64 = 86_400;

/// Whether and why a segment is pinned, that is, kept when older ones are deleted to free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// Not pinned: deleted when it is the oldest.
    #[default]
    No,
    /// Pinned for an event that the recorder noticed by itself.
    Auto,
    /// The same, for the death of an IOC: lesser pins are removed before it. Its file is named like that of an
    /// [`Auto`](Pin::Auto) pin, so the next run treats it as one.
    Death,
    /// Pinned for an operator's mark.
    Mark,
}

impl Pin {
    /// The part of the name after the number.
    fn suffix(self) -> &'static str {
        match self {
            Pin::No => "",
            Pin::Auto | Pin::Death => "-auto",
            Pin::Mark => "-mark",
        }
    }
}

/// A segment file's name. It sorts as the name's text does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// The time as the decimal number YYYYMMDDhhmmss.
    stamp: u64,
    number: u64,
    /// Its pin.
    pub pin: Pin,
}

impl SegmentName {
    /// The name of a file that begins now, after `newest`. `wall` is nanoseconds since 1970 UTC.
    pub fn next(newest: Option<SegmentName>, wall: i64) -> Self {
        let now = stamp(wall);
        match newest {
            None => SegmentName { stamp: now, number: 0, pin: Pin::No },
            Some(newest) => SegmentName {
                stamp: newest.stamp.max(now),
                number: newest.number.saturating_add(1),
                pin: Pin::No,
            },
        }
    }

    /// The same name with the next number.
    pub fn following(self) -> Self {
        SegmentName { number: self.number.saturating_add(1), ..self }
    }

    /// The same file's name with this pin.
    pub fn pinned(self, pin: Pin) -> Self {
        SegmentName { pin, ..self }
    }

    /// Whether this pin would give the file another name.
    pub fn differs_when_pinned(&self, pin: Pin) -> bool {
        self.pin.suffix() != pin.suffix()
    }

    /// The part that identifies a file and never changes. It sorts as names do.
    pub fn order(&self) -> (u64, u64) {
        (self.stamp, self.number)
    }

    /// Parses a name. `None` if the recorder would not have given it.
    pub fn parse(name: &str) -> Option<Self> {
        let (stamp, number) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let (number, pin) = match number.split_once('-') {
            None => (number, Pin::No),
            Some((number, "auto")) => (number, Pin::Auto),
            Some((number, "mark")) => (number, Pin::Mark),
            Some(_) => return None,
        };
        let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
        if date.len() != 8 || time.len() != 6 || number.len() != DIGITS {
            return None;
        }
        let digits =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (date, time): (u64, u64) = (digits(date)?, digits(time)?);
        Some(SegmentName { stamp: date * 1_000_000 + time, number: digits(number)?, pin })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, time) = (self.stamp / 1_000_000, self.stamp % 1_000_000);
        write!(f, "{date:08}T{time:06}Z-{:0DIGITS$}{}{SUFFIX}", self.number, self.pin.suffix())
    }
}

/// A wall-clock time as the decimal number YYYYMMDDhhmmss. Times outside 1970-9999 are clamped.
fn stamp(wall: i64) -> u64 {
    let seconds = (wall.max(0) as u64 / 1_000_000_000).min(LAST_SECOND);
    let (mut day, second) = (seconds / DAY, seconds % DAY);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    loop {
        let days = if leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        day -= days;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let date = (year * 100 + month) * 100 + day + 1;
    date * 1_000_000 + second / 3600 * 10_000 + second / 60 % 60 * 100 + second % 60
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_827_696, "20000229T123456Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_600, "20250101T000000Z"),
        ] {
            let name = SegmentName::next(None, seconds * SECOND).to_string();
            assert_eq!(name, format!("{expected}-0000000000.iocrec"));
        }
    }

    #[test]
    fn refuses_other_names() {
        for name in [
            "",
            "x.iocrec",
            "incident.iocrec",
            "20250101T000000Z-1.iocrec",
            "20250101T000000Z-0000000001",
            "+0250101T000000Z-0000000001.iocrec",
            "20250101T000000Z-0000000001-.iocrec",
            "20250101T000000Z-0000000001-pin.iocrec",
            "20250101T000000Z-000000000\u{0663}.iocrec",
        ] {
            assert_eq!(SegmentName::parse(name), None, "{name}");
        }
    }

    proptest! {
        /// Whatever the clock does, names are unique and sort in the order of creation.
        #[test]
        fn sorted_and_unique(walls in proptest::collection::vec((any::<i64>(), 0..3), 1..20)) {
            let mut newest: Option<SegmentName> = None;
            let mut before = String::new();
            for (wall, pin) in walls {
                let pin = [Pin::No, Pin::Auto, Pin::Mark][pin as usize];
                let name = SegmentName::next(newest, wall).pinned(pin);
                let text = name.to_string();
                prop_assert!(text > before);
                prop_assert_eq!(SegmentName::parse(&text), Some(name));
                before = text;
                newest = Some(name);
            }
        }
    }
}
