//! Times as people say them: `-10m`, `10:03`, `yesterday`, `now`.
//!
//! A log is often read days after it was recorded, so relative times refer to the log where a calendar word doesn't:
//!
//! | text | means |
//! |---|---|
//! | `-90s` `-10m` `-2h` `-1d` `-1h30m` | that long before the end of the log |
//! | `10:03` `10:03:20.5` | the last such time before the end of the log |
//! | `today` `yesterday` | midnight at the start of that day, by this machine's calendar |
//! | `today 10:03` `yesterday 10:03` | that time on that day |
//! | `now` | now, by this machine's clock |

use super::{nanoseconds, Boundary, NotATime, Parsed, Zone, SECOND};
use jiff::civil::{DateTime, Time};
use jiff::{Span, Timestamp};

/// What relative times refer to. Nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// This machine's clock.
    pub now: i64,
    /// The end of the log.
    pub end: i64,
}

/// Whether a text needs the end of the log.
pub fn refers_to_log(text: &str) -> bool {
    text.starts_with('-') && ago(text).is_some() || clock(text).is_some()
}

impl Zone {
    /// Reads a time as [`Zone::parse`] does, or a relative one.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse_relative(
        &self,
        text: &str,
        boundary: Boundary,
        reference: Reference,
    ) -> Result<Parsed, NotATime> {
        let exactly = |wall: i64| Parsed { wall, ambiguity: None };
        let not_a_time = || NotATime(text.to_owned());
        if text == "now" {
            return Ok(exactly(reference.now));
        }
        if let Some(ago) = ago(text) {
            return Ok(exactly(reference.end.saturating_sub(ago)));
        }
        if let Some(time) = clock(text) {
            let day = self.civil(reference.end).ok_or_else(not_a_time)?.date();
            let on = |day: jiff::civil::Date, boundary| self.resolve(text, day.to_datetime(time), boundary);
            let is_over = |parsed: &Parsed| parsed.wall <= reference.end;
            // of an hour that comes twice the second may be still to come
            let today =
                on(day, boundary).filter(is_over).or_else(|| on(day, Boundary::Start).filter(is_over));
            let found = today.or_else(|| on(day.yesterday().ok()?, boundary));
            return found.ok_or_else(not_a_time);
        }
        let (word, rest) = text.split_once([' ', 'T']).unwrap_or((text, ""));
        let back = match word {
            "today" => 0,
            "yesterday" => 1,
            _ => return self.parse(text, boundary),
        };
        let time = match rest {
            "" => Time::midnight(),
            rest => clock(rest).ok_or_else(not_a_time)?,
        };
        let today = self.civil(reference.now).ok_or_else(not_a_time)?.date();
        let day = today.checked_sub(Span::new().days(back)).map_err(|_| not_a_time())?;
        self.resolve(text, day.to_datetime(time), boundary).ok_or_else(not_a_time)
    }

    /// Calendar time in this zone.
    fn civil(&self, wall: i64) -> Option<DateTime> {
        let timestamp = Timestamp::from_nanosecond(i128::from(wall)).ok()?;
        Some(self.0.to_offset(timestamp).to_datetime(timestamp))
    }
}

/// `-1h30m` in nanoseconds.
fn ago(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix('-')?;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, unit) = rest.split_at(digits);
        let letters = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let (unit, after) = unit.split_at(letters);
        let seconds = match unit {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    let wall = sum * SECOND as f64;
    nanoseconds(Timestamp::from_nanosecond(wall as i128).ok()?).filter(|_| text.len() > 1)
}

/// `10:03`, `10:03:20` or `10:03:20.5`.
fn clock(text: &str) -> Option<Time> {
    let digits = text.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '.');
    if !digits || !text.contains(':') {
        return None;
    }
    let hour = if text.find(':') == Some(1) { "0" } else { "" };
    format!("{hour}{text}").parse::<Time>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    /// In Zurich it is 12:00 on 2026-11-22; the log ended at 09:30 the day before.
    fn parsed(text: &str) -> Result<String, NotATime> {
        let zone = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let wall = |text| Zone::utc().parse(text, Boundary::Start).unwrap().wall;
        let reference = Reference { now: wall("2026-11-22T11:00:00Z"), end: wall("2026-11-21T08:30:00Z") };
        let parsed = zone.parse_relative(text, Boundary::Start, reference)?;
        Ok(zone.format(parsed.wall, if text.contains('.') { 3 } else { 0 }))
    }

    #[test]
    fn relative_times_refer_to_the_end_of_the_log() {
        for (text, time) in [
            ("-10m", "2026-11-21T09:20:00+01:00"),
            ("-1h30m", "2026-11-21T08:00:00+01:00"),
            ("-90s", "2026-11-21T09:28:30+01:00"),
            ("-0.5s", "2026-11-21T09:29:59.500+01:00"),
            ("-1d", "2026-11-20T09:30:00+01:00"),
            ("09:00", "2026-11-21T09:00:00+01:00"),
            ("9:30:00", "2026-11-21T09:30:00+01:00"),
            ("10:03", "2026-11-20T10:03:00+01:00"),
            ("10:03:20.5", "2026-11-20T10:03:20.500+01:00"),
        ] {
            assert!(refers_to_log(text), "{text}");
            assert_eq!(parsed(text).as_deref(), Ok(time), "{text}");
        }
    }

    /// The log ends between the two 02:30 of the day on which the clocks are set back.
    #[test]
    fn an_hour_that_comes_twice_may_have_come_once() {
        let zone = Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let end = Zone::utc().parse("2026-10-25T00:45:00Z", Boundary::Start).unwrap().wall;
        for boundary in [Boundary::Start, Boundary::End] {
            let parsed = zone.parse_relative("02:30", boundary, Reference { now: end, end }).unwrap();
            assert_eq!(zone.format(parsed.wall, 0), "2026-10-25T02:30:00+02:00");
        }
    }

    #[test]
    fn calendar_words_refer_to_this_machine() {
        for (text, time) in [
            ("today", "2026-11-22T00:00:00+01:00"),
            ("yesterday", "2026-11-21T00:00:00+01:00"),
            ("yesterday 10:03", "2026-11-21T10:03:00+01:00"),
            ("now", "2026-11-22T12:00:00+01:00"),
            ("2026-11-20", "2026-11-20T00:00:00+01:00"),
            ("2026-11-20T10:00Z", "2026-11-20T11:00:00+01:00"),
        ] {
            assert!(!refers_to_log(text), "{text}");
            assert_eq!(parsed(text).as_deref(), Ok(time), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["-", "-10", "-m", "-1x", "-1.2.3s", "25:00", "10:61", ":", "yesterday noon", "tomorrow", "-1e9d"]
        {
            assert_eq!(parsed(text), Err(NotATime(text.to_owned())), "{text}");
        }
        assert!(parsed("-99999999999999d").is_err());
    }
}
