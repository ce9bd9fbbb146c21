//! Axes: round numbers and times.

use crate::time::Zone;

const SECOND: i64 = 1_000_000_000;

/// A scale of numbers with round ticks. Always finite, and never empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Distance between ticks.
    pub step: f64,
}

impl Scale {
    /// The scale for values in this range, with about `ticks` ticks.
    pub fn new(low: f64, high: f64, ticks: usize) -> Scale {
        // so that no difference overflows
        let (low, high) = (low.clamp(-1e300, 1e300), high.clamp(-1e300, 1e300));
        // a constant, or all but one
        let least = low.abs().max(high.abs()) * 1e-12;
        let (low, high) = match high - low <= least {
            true if low == 0.0 => (-1.0, 1.0),
            true => (low - low.abs() * 0.1, high + high.abs() * 0.1),
            false => (low, high),
        };
        let raw = (high - low) / ticks.max(1) as f64;
        let power = 10f64.powi(raw.log10().floor() as i32);
        let step = match raw / power {
            part if part <= 1.0 => power,
            part if part <= 2.0 => 2.0 * power,
            part if part <= 5.0 => 5.0 * power,
            _ => 10.0 * power,
        };
        let scale = Scale { low: (low / step).floor() * step, high: (high / step).ceil() * step, step };
        match step > 0.0 && scale.low.is_finite() && scale.high > scale.low {
            true => scale,
            false => Scale { low: low - 1.0, high: high + 1.0, step: 1.0 },
        }
    }

    /// The ticks, from the lowest.
    pub fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round().clamp(0.0, 100.0) as u32;
        (0..=count).map(|number| self.low + f64::from(number) * self.step).collect()
    }

    /// Place of a value, 0 at the lower end, 1 at the upper.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// A tick's text: as many digits as the step needs.
    pub fn text(&self, value: f64) -> String {
        let largest = self.low.abs().max(self.high.abs());
        // large numbers that differ in their last digits only
        let is_narrow = self.step >= 1.0 && largest < 1e11 && largest > self.step * 1e3;
        if !is_narrow && !(1e-4..1e7).contains(&largest) {
            // of 0.1 + 0.2, the digits that matter: those in which the ticks differ
            let digits = (largest / self.step).log10().ceil().clamp(3.0, 15.0) as usize;
            let text = format!("{value:.digits$e}");
            let Some((mantissa, exponent)) = text.split_once('e') else { return text };
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            return if value == 0.0 { "0".to_owned() } else { format!("{mantissa}e{exponent}") };
        }
        let decimals = (-self.step.log10().floor()).clamp(0.0, 17.0) as usize;
        let text = format!("{value:.decimals$}");
        if text.trim_start_matches('-').chars().all(|letter| matches!(letter, '0' | '.')) {
            return text.trim_start_matches('-').to_owned();
        }
        text
    }
}

/// Round times between two times, about `count`; each with its text, the part that changes between them.
pub fn times(from: i64, to: i64, count: usize, zone: &Zone) -> Vec<(i64, String)> {
    const STEPS: [i64; 22] = [
        SECOND / 1000,
        SECOND / 100,
        SECOND / 10,
        SECOND / 2,
        SECOND,
        2 * SECOND,
        5 * SECOND,
        10 * SECOND,
        15 * SECOND,
        30 * SECOND,
        60 * SECOND,
        120 * SECOND,
        300 * SECOND,
        600 * SECOND,
        1800 * SECOND,
        3600 * SECOND,
        3 * 3600 * SECOND,
        6 * 3600 * SECOND,
        12 * 3600 * SECOND,
        86_400 * SECOND,
        7 * 86_400 * SECOND,
        30 * 86_400 * SECOND,
    ];
    let span = to.saturating_sub(from).max(1);
    let raw = span / i64::try_from(count.max(1)).unwrap_or(1);
    let years = 365 * 86_400 * SECOND;
    let longest = || years.saturating_mul((raw / years).saturating_add(1));
    let step = STEPS.into_iter().find(|step| *step >= raw).unwrap_or_else(longest);
    let first = from.div_euclid(step).saturating_add(1).saturating_mul(step);
    let ticks = (0..100).map_while(|number: i64| Some(first.saturating_add(number.checked_mul(step)?)));
    ticks.take_while(|time| *time <= to).map(|time| (time, text(time, step, zone))).collect()
}

/// The part of a time that changes between ticks `step` apart. In ISO 8601 the date has ten letters.
fn text(time: i64, step: i64, zone: &Zone) -> String {
    let digits = if step < SECOND { 3 } else { 0 };
    let text = zone.format(time, digits);
    let part = match step {
        _ if step >= 86_400 * SECOND => text.get(..10),
        _ if step < SECOND => text.get(11..23),
        _ => text.get(11..19),
    };
    part.map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_around_the_values() {
        for (low, high, expected) in [
            (0.3, 9.7, "0 2 4 6 8 10"),
            (-30.0, 5.0, "-30 -20 -10 0 10"),
            (0.1, 0.3, "0.10 0.15 0.20 0.25 0.30"),
            (5.0, 5.0, "4.4 4.6 4.8 5.0 5.2 5.4 5.6"),
            (0.0, 0.0, "-1.0 -0.5 0.0 0.5 1.0"),
            (1e-9, 3e-9, "1e-9 1.5e-9 2e-9 2.5e-9 3e-9"),
            (12_345_671.0, 12_345_680.0, "12345670 12345672 12345674 12345676 12345678 12345680"),
            (1.00004e12, 1.00006e12, "1.00004e12 1.000045e12 1.00005e12 1.000055e12 1.00006e12"),
        ] {
            let scale = Scale::new(low, high, 5);
            let texts: Vec<String> = scale.ticks().into_iter().map(|tick| scale.text(tick)).collect();
            assert_eq!(texts.join(" "), expected, "{low} {high}");
        }
    }

    /// However little the numbers differ, the texts of the ticks do.
    #[test]
    fn no_two_ticks_have_one_text() {
        for (low, width) in [(1.0, 4e-10), (0.5, 3e-12), (-2e-4, 1e-15), (123_456.0, 1e-6)] {
            let scale = Scale::new(low, low + width, 5);
            let ticks: Vec<String> = scale.ticks().into_iter().map(|tick| scale.text(tick)).collect();
            let different: std::collections::HashSet<&String> = ticks.iter().collect();
            assert_eq!(different.len(), ticks.len(), "{ticks:?}");
        }
    }

    #[test]
    fn any_numbers_make_a_scale() {
        for (low, high) in
            [(f64::MIN, f64::MAX), (0.0, 5e-324), (1e308, 1e308), (1.0, 1.0 + f64::EPSILON), (-0.0, 0.0)]
        {
            let scale = Scale::new(low, high, 5);
            assert!(
                scale.low.is_finite() && scale.high.is_finite() && scale.high > scale.low,
                "{low} {high} {scale:?}"
            );
            assert!(scale.ticks().len() <= 101 && (0.0..=1.0).contains(&scale.place(high)));
        }
    }

    #[test]
    fn round_times() {
        let begin = 1_790_000_000 * SECOND;
        let texts = |span| -> Vec<String> {
            times(begin, begin + span, 4, &Zone::utc()).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(40 * SECOND), ["14:13:30", "14:13:40", "14:13:50", "14:14:00"]);
        assert_eq!(texts(SECOND), ["14:13:20.500", "14:13:21.000"]);
        assert_eq!(texts(4 * 86_400 * SECOND).first().map(String::as_str), Some("2026-09-22"));
        assert!(times(i64::MIN, i64::MAX, 4, &Zone::utc()).len() <= 100);
        assert!(times(5, 5, 4, &Zone::utc()).is_empty());
    }
}
