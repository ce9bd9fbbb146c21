//! Times in UTC as text, from nanoseconds since 1970. Every row has some, so they are made without a zone.

use std::io::Write;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The day of a time, counted from 1970-01-01.
pub fn day(time: i64) -> i64 {
    time.div_euclid(SECOND * DAY)
}

/// Year, month and day of a day (the proleptic Gregorian calendar; years begin in March here, so that leap days are last).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468; // days from 0000-03-01
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A day as `YYYY-MM-DD`.
pub fn date(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Appends a time as ISO 8601 with nanoseconds.
pub fn push(out: &mut Vec<u8>, time: i64) {
    let (year, month, day) = civil(day(time));
    let nanoseconds = time.rem_euclid(SECOND);
    let seconds = time.div_euclid(SECOND).rem_euclid(DAY);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // writing to a vector cannot fail
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Zone;

    #[test]
    fn times_are_those_of_the_zone_utc() {
        let zone = Zone::utc();
        let mut times = vec![0, 1, -1, i64::MIN, i64::MAX, 951_782_400 * SECOND, 4_107_542_399 * SECOND];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            times.push(state as i64);
        }
        for time in times {
            let mut text = Vec::new();
            push(&mut text, time);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.replace('Z', "+00:00"), zone.format(time, 9), "{time}");
            assert!(text.starts_with(&date(day(time))));
        }
    }
}
