//! Numbers as C's printf writes them, which formats of other programs need to the digit.

/// `number` as `%.{digits}g` of glibc: at most `digits` significant digits, without zeros at the end.
pub fn general(number: f64, digits: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let digits = digits.max(1);
    // rounds to the digits first, so that the exponent is that of the rounded number
    let scientific = format!("{number:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let limit = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= limit {
        return with_exponent(trimmed(mantissa), exponent);
    }
    let decimals = usize::try_from(limit - 1 - exponent).unwrap_or_default();
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// `number` as `%.{decimals}e` of glibc.
pub fn exponential(number: f64, decimals: usize) -> String {
    if let Some(text) = not_finite(number) {
        return text;
    }
    let scientific = format!("{number:.decimals$e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) => with_exponent(mantissa, exponent.parse().unwrap_or_default()),
        None => scientific,
    }
}

fn not_finite(number: f64) -> Option<String> {
    let name = match number {
        _ if number.is_nan() => "nan",
        _ if number.is_infinite() => "inf",
        _ => return None,
    };
    Some(format!("{}{name}", if number.is_sign_negative() { "-" } else { "" }))
}

/// Without the zeros that `%g` leaves out.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_glibc_writes_them() {
        // printf("%g %.17g")
        for (number, short, long) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (5.0, "5", "5"),
            (0.1, "0.1", "0.10000000000000001"),
            (1.25e-7, "1.25e-07", "1.2499999999999999e-07"),
            (1e-4, "0.0001", "0.0001"),
            (1e300, "1e+300", "1.0000000000000001e+300"),
            (999_999.5, "1e+06", "999999.5"),
            (999_999.4, "999999", "999999.40000000002"),
            (123_456.789, "123457", "123456.789"),
            (1e16, "1e+16", "10000000000000000"),
            (1e17, "1e+17", "1e+17"),
            (5e-324, "4.94066e-324", "4.9406564584124654e-324"),
            (f64::NAN, "nan", "nan"),
            (-f64::NAN, "-nan", "-nan"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
        ] {
            assert_eq!((general(number, 6), general(number, 17)), (short.into(), long.into()), "{number}");
        }
        assert_eq!(general(f64::from(0.1f32), 8), "0.1");
        assert_eq!(exponential(1.5, 15), "1.500000000000000e+00");
        assert_eq!(exponential(-1e-9, 6), "-1.000000e-09");
        assert_eq!(exponential(f64::INFINITY, 3), "inf");
    }

    #[test]
    fn seventeen_digits_are_the_number() {
        for number in [0.1, 1.0 / 3.0, 2f64.powi(60), 1e22, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            assert_eq!(general(number, 17).parse(), Ok(number));
            assert_eq!(exponential(number, 16).parse(), Ok(number));
        }
    }
}
