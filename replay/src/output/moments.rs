//! Times of many lines.
//!
//! Lines follow each other closely in time: the text of a second and the offset from UTC are kept from one to the next.

use crate::time::{Zone, SECOND};

/// Prints times to the microsecond.
pub struct Moments<'a> {
    zone: &'a Zone,
    /// The second of the kept text, since 1970.
    second: Option<i64>,
    /// Date and time to the second.
    date: String,
    /// Offset from UTC.
    offset: String,
}

impl<'a> Moments<'a> {
    /// Prints in this zone.
    pub fn new(zone: &'a Zone) -> Self {
        Moments { zone, second: None, date: String::new(), offset: String::new() }
    }

    /// Appends `wall` as [`Zone::push`] does with six digits.
    pub fn push(&mut self, out: &mut String, wall: i64) {
        let unit = SECOND as i64;
        let second = wall.div_euclid(unit);
        if self.second != Some(second) {
            // At the least time of all, the second begins before it can be told.
            let Some(start) = second.checked_mul(unit) else { return self.zone.push(out, wall, 6) };
            self.date.clear();
            self.zone.push(&mut self.date, start, 0);
            // Years are from 1677 to 2262.
            self.offset = self.date.split_off("2026-01-31T23:59:59".len().min(self.date.len()));
            self.second = Some(second);
        }
        out.push_str(&self.date);
        out.push('.');
        push_digits(out, wall.rem_euclid(unit) / 1000);
        out.push_str(&self.offset);
    }
}

/// Appends a number with six digits.
fn push_digits(out: &mut String, number: i64) {
    // units that are known when this is compiled need no division
    for unit in [100_000, 10_000, 1000, 100, 10, 1] {
        out.push(char::from(b'0' + (number / unit % 10) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_zone_prints_them() {
        let (zone, mut state) = (Zone::local().0, 1_u64);
        for zone in [zone, Zone::utc()] {
            let mut moments = Moments::new(&zone);
            let mut both = |wall: i64| {
                let mut text = String::from("x");
                moments.push(&mut text, wall);
                assert_eq!(text, format!("x{}", zone.format(wall, 6)), "{wall}");
            };
            [i64::MIN, i64::MIN + 1, -1_000_000_001, -1, 0, 999_999_999, i64::MAX]
                .into_iter()
                .for_each(&mut both);
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                both(state as i64);
                both((state as i64).saturating_add(1_000_000));
                both((state as i64).saturating_add(700_000_000));
            }
        }
    }
}
