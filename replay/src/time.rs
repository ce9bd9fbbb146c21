//! Times for people: reading `--since` and friends, printing ISO 8601.
//!
//! Inside the reader a time is an `i64`, nanoseconds since 1970-01-01 UTC. Here it meets the
//! calendar, in the zone of the machine that reads (not of the one that recorded) or in UTC.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use std::fmt::Write;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The zone in which times are read and printed.
pub struct Zone(TimeZone);

impl Zone {
    /// UTC, or the local zone of this machine.
    pub fn new(utc: bool) -> Self {
        Zone(if utc { TimeZone::UTC } else { TimeZone::system() })
    }

    /// Appends `wall` as ISO 8601 with `digits` digits of the second's fraction and the offset.
    pub fn push(&self, out: &mut String, wall: i64, digits: usize) {
        // An i64 of nanoseconds reaches from 1677 to 2262, well inside what jiff can say.
        let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(wall)) else { return };
        let offset = self.0.to_offset(timestamp);
        let t = offset.to_datetime(timestamp);
        let _ = write!(
            out,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        );
        let digits = digits.min(9);
        if digits > 0 {
            let fraction = format!("{:09}", t.subsec_nanosecond());
            out.push('.');
            out.push_str(fraction.get(..digits).unwrap_or(&fraction));
        }
        let minutes = offset.seconds() / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let _ = write!(out, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60);
    }

    /// `wall` as ISO 8601; see [`Zone::push`].
    pub fn format(&self, wall: i64, digits: usize) -> String {
        let mut out = String::new();
        self.push(&mut out, wall, digits);
        out
    }

    /// Reads a time as people write it: ISO 8601 with an offset or `Z`; without one it is in this
    /// zone; a date alone is its midnight. Nanoseconds since 1970, or what to write instead.
    pub fn parse(&self, text: &str) -> Result<i64, String> {
        let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
            let civil: DateTime = text.parse().ok()?;
            self.0.to_timestamp(civil).ok()
        });
        timestamp.and_then(|t| i64::try_from(t.as_nanosecond()).ok()).ok_or_else(|| {
            format!("'{text}' is not a time; write 2026-01-31T12:00:00, with +01:00 or Z if need be")
        })
    }
}

/// A length of time in the unit that reads best: `0.12 ms`, `3.4 s`.
pub fn duration(nanoseconds: u64) -> String {
    let n = nanoseconds as f64;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", n / 1e6),
        _ => format!("{:.3} s", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_and_read_back() {
        let zone = Zone::new(true);
        let wall = 1_790_000_000_123_456_789;
        let text = zone.format(wall, 9);
        assert_eq!(text, "2026-09-21T14:13:20.123456789+00:00");
        assert_eq!(zone.parse(&text), Ok(wall));
        assert_eq!(zone.format(wall, 3), "2026-09-21T14:13:20.123+00:00");
        assert_eq!(zone.format(wall, 0), "2026-09-21T14:13:20+00:00");
    }

    #[test]
    fn what_people_write_is_understood() {
        let zone = Zone::new(true);
        let noon = zone.parse("2026-01-31T12:00:00Z");
        assert_eq!(zone.parse("2026-01-31 12:00"), noon);
        assert_eq!(zone.parse("2026-01-31T13:00:00+01:00"), noon);
        assert_eq!(zone.parse("2026-01-31"), zone.parse("2026-01-31T00:00:00Z"));
        assert!(zone.parse("yesterday").is_err_and(|e| e.contains("2026-01-31T12:00:00")));
    }

    #[test]
    fn a_zone_with_an_offset() {
        let zone = Zone(TimeZone::fixed(jiff::tz::offset(-9).saturating_add(jiff::SignedDuration::ZERO)));
        assert_eq!(zone.format(0, 0), "1969-12-31T15:00:00-09:00");
    }

    #[test]
    fn lengths_read_well() {
        assert_eq!(duration(12_300), "12 µs");
        assert_eq!(duration(12_300_000), "12.30 ms");
        assert_eq!(duration(1_000_000_000), "1.000 s");
    }
}
