//! Times as the page shows them: one offset from UTC for the whole page, which its head states.
//!
//! The page's own code formats times, too, and knows no zones but the reader's. So it gets the offset that the zone has
//! at the begin of the log.

use crate::names::number_of;
use crate::time::Zone;
use jiff::tz::Offset;
use jiff::Timestamp;

/// Nanoseconds in a day.
const DAY: i64 = 86_400_000_000_000;

/// The page's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Time that the page counts from, nanoseconds since 1970 UTC; whole milliseconds.
    base: i64,
    offset: Offset,
    /// Whether the log is so long that times need their day.
    days: bool,
    /// Digits of a second that the log knows.
    digits: usize,
}

impl Clock {
    /// The clock of a page about the time from `first` to `last`, in steps of `step` nanoseconds.
    pub fn new(first: i64, last: i64, zone: &Zone, step: u64) -> Clock {
        let text = zone.format(first, 0);
        let offset = offset_of(&text).unwrap_or(Offset::UTC);
        let digits = match step {
            0..=1_048_576 => 3, // 2^20 ns, about a millisecond
            1_048_577..=10_000_000 => 2,
            10_000_001..=100_000_000 => 1,
            _ => 0,
        };
        let day =
            |wall: i64| wall.saturating_add(i64::from(offset.seconds()) * 1_000_000_000).div_euclid(DAY);
        Clock {
            base: first.div_euclid(1_000_000).saturating_mul(1_000_000),
            offset,
            days: day(first) != day(last),
            digits,
        }
    }

    fn text(&self, wall: i64, format: &str, digits: usize) -> String {
        let Ok(moment) = Timestamp::from_nanosecond(i128::from(wall)) else { return String::new() };
        let at = self.offset.to_datetime(moment);
        let mut text = match format {
            "date" => format!("{:04}-{:02}-{:02}", at.year(), at.month(), at.day()),
            _ => format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second()),
        };
        if digits > 0 && format != "date" {
            let fraction = format!("{:09}", at.subsec_nanosecond());
            text.push('.');
            text.push_str(fraction.get(..digits).unwrap_or_default());
        }
        text
    }

    /// The day.
    pub fn date(&self, wall: i64) -> String {
        self.text(wall, "date", 0)
    }

    /// The time of day, with its day if the log spans several, and at most so many digits of the second.
    pub fn time(&self, wall: i64, digits: usize) -> String {
        let time = self.text(wall, "time", digits.min(self.digits));
        match self.days {
            true => format!("{} {time}", self.date(wall)),
            false => time,
        }
    }

    /// The time from `from` to `to`.
    pub fn span(&self, from: i64, to: i64) -> String {
        format!("{}–{}", self.time(from, 1), self.time(to, 1))
    }

    /// Offset from UTC, like `+09:00`.
    pub fn offset(&self) -> String {
        let minutes = self.minutes();
        let sign = if minutes < 0 { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
    }

    /// Offset from UTC in minutes.
    pub fn minutes(&self) -> i32 {
        self.offset.seconds() / 60
    }

    /// Whether times need their day.
    pub fn has_days(&self) -> bool {
        self.days
    }

    /// Digits of a second that the log knows.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// Milliseconds since 1970 that the page's times count from.
    pub fn base_ms(&self) -> i64 {
        self.base / 1_000_000
    }

    /// A time as the page's data has it: milliseconds from the base, to the microsecond.
    pub fn ms(&self, wall: i64) -> f64 {
        (wall.saturating_sub(self.base) / 1000) as f64 / 1000.0
    }

    /// The link that chooses a time on the page.
    pub fn link(&self, from: i64, to: i64) -> String {
        format!("#t={:.0},{:.0}", self.ms(from).floor(), self.ms(to).ceil())
    }
}

/// The offset at the end of an ISO 8601 time.
fn offset_of(text: &str) -> Option<Offset> {
    let text = text.get(text.len().checked_sub(6)?..)?;
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    Offset::from_seconds(if text.starts_with('-') { -seconds } else { seconds }).ok()
}

/// A length of time in the unit that suits it.
pub fn length(nanoseconds: i64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// How many of these things were lost; 0 is not known.
pub fn lost(number: u64, things: &str) -> String {
    match number {
        0 | 1 => number_of(number, things),
        number => format!("{} {things}", count(number)),
    }
}

/// A count with narrow spaces between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `1 put`, `2 puts`.
pub fn plural(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_795_348_800_123_456_789; // 2026-11-22T12:00:00.123456789Z

    #[test]
    fn times_are_as_exact_as_the_log() {
        let clock = Clock::new(NOON, NOON + DAY / 24, &Zone::utc(), 1024);
        assert_eq!((clock.time(NOON, 3), clock.date(NOON)), ("12:00:00.123".into(), "2026-11-22".into()));
        assert_eq!((clock.time(NOON, 0), clock.offset()), ("12:00:00".into(), "+00:00".into()));
        assert_eq!(clock.ms(NOON + 1_000_000), 1.456);
        let coarse = Clock::new(NOON, NOON + DAY, &Zone::utc(), 1 << 25);
        assert_eq!(coarse.time(NOON, 3), "2026-11-22 12:00:00.1");
    }

    #[test]
    fn offsets_are_read_from_times() {
        let seconds = |text| offset_of(text).map(|offset| offset.seconds());
        assert_eq!(seconds("2026-11-22T12:00:00+09:00"), Some(32_400));
        assert_eq!(seconds("2026-11-22T12:00:00-03:30"), Some(-12_600));
        assert_eq!((seconds(""), seconds("x")), (None, None));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!((count(7), count(41_624)), ("7".into(), "41\u{202f}624".into()));
        assert_eq!((plural(1, "put"), plural(2000, "put")), ("1 put".into(), "2\u{202f}000 puts".into()));
        let hits = [0, 1, 2000].map(|number| lost(number, "hits"));
        assert_eq!(hits, ["an unknown number of hits", "1 hit", "2\u{202f}000 hits"]);
        assert_eq!((length(2_400_000_000), length(66_000_000_000)), ("2.4 s".into(), "66 s".into()));
    }
}
