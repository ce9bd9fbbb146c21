//! Times for people: reading `--since` and friends, printing ISO 8601.
//!
//! Inside the reader a time is an `i64`, nanoseconds since 1970-01-01 UTC. This module converts to and from calendar
//! time, in the zone of the reading machine (not of the recording one) or in UTC.
//!
//! The zone is the one named by `TZ` (`Europe/Zurich`, a path, or POSIX's `CET-1CEST,M3.5.0,M10.5.0/3`), else that of
//! /etc/localtime. The program itself looks names up in the system's zone database (/usr/share/zoneinfo, or `TZDIR`): a
//! static binary has no C library to do it. If the zone is unknown, times are in UTC.
//!
//! Once a year an hour occurs twice, and once an hour is skipped. A time without an offset in such an hour is resolved
//! so that the requested range contains everything that can be meant, and [`Ambiguity`] says how.

pub mod relative;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::Timestamp;
use std::fmt::{self, Write};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The zone for reading and printing times.
#[derive(Clone)]
pub struct Zone(TimeZone);

/// The moment to choose if the clocks show a time twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The earlier: the time is the start of a range.
    Start,
    /// The later: the time is the end of a range.
    End,
}

/// A parsed time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Nanoseconds since 1970.
    pub wall: i64,
    /// How it was resolved, if the clocks of the zone don't show it exactly once.
    pub ambiguity: Option<Ambiguity>,
}

/// The moment chosen for a time that the clocks don't show exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It occurs twice: the first.
    First,
    /// It occurs twice: the second.
    Second,
    /// It never occurs: the moment of the clock change.
    Change,
}

/// How a time was resolved that the clocks of the zone don't show exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguity {
    /// The time as written.
    pub text: String,
    /// The moment chosen.
    pub taken: Taken,
    /// That moment, in the zone.
    pub moment: String,
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.taken {
            Taken::First => "occurs twice: taking the first",
            Taken::Second => "occurs twice: taking the second",
            Taken::Change => "is skipped by the clocks: taking the moment of the change",
        };
        write!(f, "{} {how}, {}; add an offset to choose another", self.text, self.moment)
    }
}

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotATime(pub String);

impl fmt::Display for NotATime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        let civil = text.split(['Z', '+']).next().unwrap_or(text);
        let is_time = text.parse::<Timestamp>().is_ok() || civil.parse::<DateTime>().is_ok();
        if is_time && !names_zone(text) {
            return write!(
                f,
                "'{text}' lies outside of 1677-09-22 to 2262-04-11, the times that a log can hold; write one in it, such \
                 as 2026-01-31T12:00:00, or leave the option out for no limit"
            );
        }
        write!(
            f,
            "'{}' is not a time; write 2026-01-31T12:00:00, with +01:00 or Z if needed, or 12:00, -10m, yesterday",
            self.0
        )
    }
}

impl std::error::Error for NotATime {}

/// `TZ` names a zone that is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone(pub String);

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TZ={} names no time zone that is known here: times are in UTC; write a name like Europe/Zurich (looked up \
             in /usr/share/zoneinfo), or where that is not installed a rule like CET-1CEST,M3.5.0,M10.5.0/3",
            self.0
        )
    }
}

impl std::error::Error for UnknownZone {}

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Zone(TimeZone::UTC)
    }

    /// The local zone of this machine. If none can be read: UTC, and the name of the requested zone, if any.
    pub fn local() -> (Self, Option<UnknownZone>) {
        let named = std::env::var_os("TZ").filter(|name| !name.is_empty());
        match (TimeZone::try_system(), named) {
            (Ok(zone), _) => (Zone(zone), None),
            (Err(_), Some(name)) => (Zone::utc(), Some(UnknownZone(name.to_string_lossy().into_owned()))),
            // no TZ and no /etc/localtime: such a machine shows UTC everywhere
            (Err(_), None) => (Zone::utc(), None),
        }
    }

    /// Appends `wall` as ISO 8601 with `digits` digits of the second's fraction and the offset.
    pub fn push(&self, out: &mut String, wall: i64, digits: usize) {
        // An i64 of nanoseconds reaches from 1677 to 2262, well inside jiff's range.
        let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(wall)) else { return };
        let offset = self.0.to_offset(timestamp);
        let t = offset.to_datetime(timestamp);
        // each row of an answer has a time or two, and `write!` takes several times as long for its numbers
        let year = i32::from(t.year());
        push_two(out, year / 100);
        push_two(out, year % 100);
        for (before, number) in
            [('-', t.month()), ('-', t.day()), ('T', t.hour()), (':', t.minute()), (':', t.second())]
        {
            out.push(before);
            push_two(out, number.into());
        }
        let digits = digits.min(9);
        if digits > 0 {
            let (mut fraction, mut rest) = (['0'; 9], t.subsec_nanosecond().unsigned_abs());
            for place in fraction.iter_mut().rev() {
                *place = digit(rest.into());
                rest /= 10;
            }
            out.push('.');
            out.extend(fraction.into_iter().take(digits));
        }
        let minutes = offset.seconds() / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        out.push(sign);
        push_two(out, minutes.abs() / 60);
        out.push(':');
        push_two(out, minutes.abs() % 60);
    }

    /// `wall` as ISO 8601; see [`Zone::push`].
    pub fn format(&self, wall: i64, digits: usize) -> String {
        let mut out = String::with_capacity("2026-01-31T23:59:59.123456789+00:00".len());
        self.push(&mut out, wall, digits);
        out
    }

    /// `wall` as C's `strftime` writes it, with `%3f` for milliseconds.
    pub fn strftime(&self, wall: i64, format: &str) -> String {
        let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(wall)) else { return String::new() };
        timestamp.to_zoned(self.0.clone()).strftime(format).to_string()
    }

    /// Reads a time as people write it: ISO 8601 with an offset or `Z`; without one it is in this zone; a date alone
    /// means its midnight.
    ///
    /// # Errors
    /// If it is not a valid time, or is outside 1677 to 2262.
    pub fn parse(&self, text: &str, boundary: Boundary) -> Result<Parsed, NotATime> {
        let parsed = match text.parse::<Timestamp>() {
            _ if names_zone(text) => None,
            Ok(timestamp) => nanoseconds(timestamp).map(|wall| Parsed { wall, ambiguity: None }),
            Err(_) => text.parse().ok().and_then(|civil| self.resolve(text, civil, boundary)),
        };
        parsed.ok_or_else(|| NotATime(text.to_owned()))
    }

    /// The moment at which the clocks of this zone show a time.
    fn resolve(&self, text: &str, civil: DateTime, boundary: Boundary) -> Option<Parsed> {
        let at = |offset: Offset| offset.to_timestamp(civil).ok();
        let (moment, taken) = match self.0.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => (at(offset)?, None),
            AmbiguousOffset::Fold { before, after } => match boundary {
                Boundary::Start => (at(before)?, Some(Taken::First)),
                Boundary::End => (at(after)?, Some(Taken::Second)),
            },
            // With the offset after the change, the skipped time lies before the change, which is the next one then.
            AmbiguousOffset::Gap { after, .. } => {
                let changes = self.0.following(at(after)?).next()?;
                (changes.timestamp(), Some(Taken::Change))
            }
        };
        let wall = nanoseconds(moment)?;
        let ambiguity =
            taken.map(|taken| Ambiguity { text: text.to_owned(), taken, moment: self.format(wall, 0) });
        Some(Parsed { wall, ambiguity })
    }
}

/// Whether a time has the name of a zone or a calendar in brackets (RFC 9557). jiff passes over these: what is meant is in
/// that zone, and not in this one.
fn names_zone(text: &str) -> bool {
    text.contains('[')
}

/// Nanoseconds, within the range of the reader's times: 1677 to 2262.
fn nanoseconds(timestamp: Timestamp) -> Option<i64> {
    i64::try_from(timestamp.as_nanosecond()).ok()
}

/// A duration in the most readable unit: `0.12 ms`, `3.4 s`.
pub fn duration(nanoseconds: u64) -> String {
    let mut text = String::new();
    push_duration(&mut text, nanoseconds);
    text
}

/// Appends what [`duration`] returns.
pub fn push_duration(text: &mut String, nanoseconds: u64) {
    let rounded = |unit: u64| (nanoseconds + unit / 2) / unit;
    match nanoseconds {
        0..1_000_000 => {
            // to even, as floating-point numbers are printed
            let is_even = nanoseconds % 2000 == 500;
            push_small(text, if is_even { nanoseconds / 1000 } else { rounded(1000) });
            text.push_str(" µs");
        }
        // 1.005 is a little less as a floating-point number, 1.015 a little more
        1_000_000..1_000_000_000 if nanoseconds % 10_000 == 5000 => {
            let _ = write!(text, "{:.2} ms", nanoseconds as f64 / 1e6);
        }
        1_000_000..1_000_000_000 => {
            let hundredths = rounded(10_000);
            push_small(text, hundredths / 100);
            text.push('.');
            push_two(text, (hundredths % 100) as i32);
            text.push_str(" ms");
        }
        _ => _ = write!(text, "{:.3} s", nanoseconds as f64 / 1e9),
    }
}

/// Appends a number below ten thousand. Nearly each line of a log of scanning has one, and they need none of what `write!` can.
fn push_small(text: &mut String, number: u64) {
    for unit in [1000, 100, 10] {
        if number >= unit {
            text.push(digit(number / unit));
        }
    }
    text.push(digit(number));
}

/// Appends the last two digits of a number that is not negative.
fn push_two(text: &mut String, number: i32) {
    let number = u64::from(number.unsigned_abs());
    text.extend([number / 10, number].map(digit));
}

/// The last digit of a number.
fn digit(number: u64) -> char {
    char::from(b'0' + (number % 10) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * SECOND as i64;

    fn wall(zone: &Zone, text: &str) -> i64 {
        let parsed = zone.parse(text, Boundary::Start).unwrap();
        assert_eq!(parsed.ambiguity, None, "{text}");
        parsed.wall
    }

    #[test]
    fn times_are_printed_and_read_back() {
        let zone = Zone::utc();
        let time = 1_790_000_000_123_456_789;
        let text = zone.format(time, 9);
        assert_eq!(text, "2026-09-21T14:13:20.123456789+00:00");
        assert_eq!(wall(&zone, &text), time);
        assert_eq!(zone.format(time, 3), "2026-09-21T14:13:20.123+00:00");
        assert_eq!(zone.format(time, 0), "2026-09-21T14:13:20+00:00");
    }

    #[test]
    fn all_digits_of_a_time_are_there() {
        let zones = ["UTC0", "NST3:30NDT,M3.2.0,M11.1.0", "CET-1CEST,M3.5.0,M10.5.0/3"];
        for zone in zones.map(|rules| Zone(TimeZone::posix(rules).unwrap())) {
            let mut time = i64::MIN;
            while let Some(next) = time.checked_add(12_345_678_901_234_567) {
                time = next;
                let timestamp = Timestamp::from_nanosecond(time.into()).unwrap();
                let t = zone.0.to_offset(timestamp).to_datetime(timestamp);
                let fraction = format!("{:09}", t.subsec_nanosecond());
                for digits in [0, 3, 9] {
                    let text = zone.format(time, digits);
                    let dot = if digits > 0 { "." } else { "" };
                    let expected = format!(
                        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{dot}{}",
                        t.year(),
                        t.month(),
                        t.day(),
                        t.hour(),
                        t.minute(),
                        t.second(),
                        &fraction[..digits]
                    );
                    let (begin, offset) = text.split_at(expected.len());
                    assert_eq!(begin, expected);
                    assert_eq!((offset.len(), offset.get(3..4)), (6, Some(":")), "{text}");
                }
            }
        }
        let zone = Zone(TimeZone::posix("NST3:30").unwrap());
        assert_eq!(zone.format(1_790_000_000_000_000_000, 1), "2026-09-21T10:43:20.0-03:30");
    }

    #[test]
    fn what_people_write_is_understood() {
        let zone = Zone::utc();
        let noon = wall(&zone, "2026-01-31T12:00:00Z");
        assert_eq!(wall(&zone, "2026-01-31 12:00"), noon);
        assert_eq!(wall(&zone, "2026-01-31T13:00:00+01:00"), noon);
        assert_eq!(wall(&zone, "2026-01-31"), wall(&zone, "2026-01-31T00:00:00Z"));
        let refused = |text| {
            zone.parse(text, Boundary::Start).is_err_and(|e| e.to_string().contains("2026-01-31T12:00:00"))
        };
        for text in
            ["yesterday", "", "2026-13-01", "2026-01-31T25:00", "9999-12-31", "-9999-01-01", "12:00", "\n"]
        {
            assert!(refused(text), "{text}");
        }
        for text in ["2026-01-31T12:00[Europe/Zurich]", "2026-01-31T12:00+01:00[Europe/Zurich]"] {
            assert!(refused(text), "{text}");
        }
        for text in ["9999-12-31", "9999-12-31T00:00:00Z", "2262-04-12"] {
            let error = zone.parse(text, Boundary::Start).unwrap_err().to_string();
            assert!(error.contains("lies outside of 1677") && !error.contains("not a time"), "{error}");
        }
        assert!(
            zone.parse("2262-04-11", Boundary::End).is_ok()
                && zone.parse("1677-09-22", Boundary::End).is_ok()
        );
    }

    #[test]
    fn a_zone_with_an_offset() {
        let zone = Zone(TimeZone::fixed(jiff::tz::offset(-9).saturating_add(jiff::SignedDuration::ZERO)));
        assert_eq!(zone.format(0, 0), "1969-12-31T15:00:00-09:00");
    }

    /// The clocks of Zurich in 2026: at 01:00 UTC on March 29 from 2 to 3, on October 25 from 3 to 2.
    #[test]
    fn hours_that_come_twice_or_not_at_all() {
        let zone = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let utc = |text| wall(&Zone::utc(), text);
        for (text, begin, end) in [
            ("2026-03-29T01:59", "2026-03-29T00:59", "2026-03-29T00:59"),
            ("2026-03-29T02:30", "2026-03-29T01:00", "2026-03-29T01:00"),
            ("2026-03-29T03:00", "2026-03-29T01:00", "2026-03-29T01:00"),
            ("2026-10-25T01:59", "2026-10-24T23:59", "2026-10-24T23:59"),
            ("2026-10-25T02:30", "2026-10-25T00:30", "2026-10-25T01:30"),
            ("2026-10-25T03:00", "2026-10-25T02:00", "2026-10-25T02:00"),
        ] {
            let [first, last] =
                [Boundary::Start, Boundary::End].map(|meant| zone.parse(text, meant).unwrap());
            assert_eq!((first.wall, last.wall), (utc(begin), utc(end)), "{text}");
            assert_eq!(first.ambiguity.is_some(), text.contains("02:30"), "{text}");
            assert_eq!(last.ambiguity.is_some(), text.contains("02:30"), "{text}");
        }
        let note = zone.parse("2026-10-25T02:30", Boundary::End).unwrap().ambiguity.unwrap().to_string();
        assert!(note.contains("occurs twice: taking the second, 2026-10-25T02:30:00+01:00"), "{note}");
        let note = zone.parse("2026-03-29T02:30", Boundary::Start).unwrap().ambiguity.unwrap().to_string();
        assert!(note.contains("the moment of the change, 2026-03-29T03:00:00+02:00"), "{note}");
        // Printed times are read back, on both sides of the change.
        for hour in 0..4 {
            let time = utc("2026-10-24T23:30") + hour * HOUR;
            assert_eq!(wall(&zone, &zone.format(time, 0)), time);
        }
    }

    #[test]
    fn lengths_read_well() {
        assert_eq!(duration(12_300), "12 µs");
        assert_eq!(duration(12_300_000), "12.30 ms");
        assert_eq!(duration(1_000_000_000), "1.000 s");
        for n in (0..3_000_000).step_by(250).chain((3_000_000..1_000_000_000).step_by(62_500)) {
            let float = n as f64;
            let expected = if n < 1_000_000 {
                format!("{:.0} µs", float / 1e3)
            } else {
                format!("{:.2} ms", float / 1e6)
            };
            assert_eq!(duration(n), expected, "{n}");
        }
    }
}
