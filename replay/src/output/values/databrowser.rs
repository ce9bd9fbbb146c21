//! Samples for the Data Browser of Phoebus: `Import Samples`, one PV, numbers only.
//!
//! A line is `2026-11-22 02:30:00.123456789 25E-1 MINOR HIGH`, in local time, of which it reads milliseconds. Numbers
//! have neither point nor comma: a German locale would read 2.5 as 25. It reads neither texts, arrays nor NaN, and knows
//! no gaps.

use crate::model::enum_strings::{severity_name, status_name};
use crate::model::history::ValueLine;
use crate::model::series::number;
use crate::out::{line, Out};
use crate::output::format::{Format, Writer};
use crate::time::Zone;
use iocrec_log::event::Value;
use std::fmt::LowerExp;
use std::io;

/// The format.
pub const fn format() -> Format<ValueLine> {
    Format { name: "databrowser", writer: |zone| Box::new(Samples { zone, begun: false }) }
}

struct Samples<'a> {
    zone: &'a Zone,
    begun: bool,
}

impl Writer<ValueLine> for Samples<'_> {
    fn write(&mut self, out: &mut Out, line: &ValueLine) -> io::Result<()> {
        if obstacle(line).is_some() {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            line!(out, "# {}", line.pv())?;
        }
        let value = match (&line.value, number(&line.value)) {
            // by their own digits, of which a double would have others
            (Value::Float(single), _) => digits(single),
            (Value::Int(number), _) => digits(number),
            (Value::UInt(number), _) => digits(number),
            (_, Some(number)) => digits(number),
            (_, None) => return Ok(()),
        };
        let time = self.zone.format(line.time, 9);
        let (date, clock) = (time.get(..10).unwrap_or_default(), time.get(11..29).unwrap_or_default());
        match line.alarm {
            Some((severity, status)) => {
                let (severity, status) = (severity_name(severity), status_name(status));
                line!(out, "{date} {clock} {value} {severity} {status}")
            }
            None => line!(out, "{date} {clock} {value}"),
        }
    }
}

/// What this line is, and why the Data Browser can't have it.
pub fn obstacle(line: &ValueLine) -> Option<&'static str> {
    match number(&line.value) {
        _ if line.unseen.is_some() => Some("gap: it has no lines for what went unseen"),
        None => Some("value: texts, arrays and what is not known are no samples"),
        Some(number) if !number.is_finite() => Some("value: infinities and NaN are no samples"),
        Some(_) => None,
    }
}

/// A finite number without a point: its shortest digits and an exponent.
fn digits(number: impl LowerExp) -> String {
    let text = format!("{number:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let places = i32::try_from(fraction.len()).unwrap_or_default();
    match exponent.parse::<i32>().unwrap_or_default() - places {
        0 => format!("{whole}{fraction}"),
        exponent => format!("{whole}{fraction}E{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_testing::chance::fuzz;
    use iocrec_testing::readers::samples::{imported, LOCALES};

    #[test]
    fn numbers_that_every_locale_reads_alike() {
        for (number, expected) in [
            (2.5, "25E-1"),
            (-0.1, "-1E-1"),
            (42.0, "42"),
            (0.0, "0"),
            (1200.0, "12E2"),
            (1e300, "1E300"),
            (0.1 + 0.2, "30000000000000004E-17"),
        ] {
            assert_eq!(digits(number), expected);
            assert_eq!(digits(number).parse::<f64>().unwrap(), number);
        }
    }

    #[test]
    fn samples_of_one_pv() {
        let (zone, mut bytes) = (Zone::utc(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = (format().writer)(&zone);
        for (time, value) in [(1_790_000_000_000_000_005, 1.5), (1_790_000_001_000_000_000, f64::NAN)] {
            writer.write(&mut out, &ValueLine::of_number(time, value)).unwrap();
        }
        drop(writer);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "# T:AO\n2026-09-21 14:13:20.000000005 15E-1 NO_ALARM NO_ALARM\n"
        );
    }

    #[test]
    fn each_type_has_its_own_digits() {
        let (zone, mut bytes) = (Zone::utc(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = (format().writer)(&zone);
        for value in [Value::Float(0.1), Value::Int(-9_007_199_254_740_993), Value::UInt(u64::MAX)] {
            writer.write(&mut out, &ValueLine { value, ..ValueLine::of_number(0, 0.0) }).unwrap();
        }
        drop(writer);
        let text = String::from_utf8(bytes).unwrap();
        let values: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(' ').nth(2)).collect();
        assert_eq!(values, ["1E-1", "-9007199254740993", "18446744073709551615"]);
    }

    /// Whatever a finite number is, and whatever its alarm: it is imported, and is the same in every locale.
    #[test]
    fn every_sample_is_imported() {
        let zone = Zone::utc();
        let mut read = 0;
        fuzz(1000, |random| {
            let bits = random.next();
            let (value, expected) = match random.below(5) {
                0 => (Value::Double(f64::from_bits(bits)), f64::from_bits(bits)),
                1 => (Value::Double(f64::from(bits as i16) / 8.0), f64::from(bits as i16) / 8.0),
                2 => (Value::Int(bits as i64), bits as i64 as f64),
                3 => (Value::UInt(bits), bits as f64),
                _ => {
                    let single = f32::from_bits(bits as u32);
                    (Value::Float(single), single.to_string().parse().unwrap())
                }
            };
            let time = (random.next() % 4_000_000_000_000_000_000) as i64;
            let alarm = (random.below(3) > 0).then(|| (random.below(5) as u16, random.below(23) as u16));
            let line = ValueLine { value, alarm, ..ValueLine::of_number(time, 0.0) };
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes);
            let mut writer = (format().writer)(&zone);
            writer.write(&mut out, &line).unwrap();
            drop(writer);
            let text = String::from_utf8(bytes).unwrap();
            for signs in LOCALES {
                let samples: Vec<(String, f64)> =
                    text.lines().filter_map(|line| imported(line, signs)).collect();
                if !expected.is_finite() {
                    assert!(samples.is_empty(), "{text}");
                    continue;
                }
                let shown = zone.format(time, 3);
                let shown = format!("{} {}", &shown[..10], &shown[11..23]);
                assert_eq!(samples, [(shown, expected)], "{text}");
                read += 1;
            }
        });
        assert!(read > 2000, "{read}");
    }
}
