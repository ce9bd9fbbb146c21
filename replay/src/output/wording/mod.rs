//! Wording for puts and chains, shared by all text output.

pub mod age;
pub mod alarm;
pub mod cause;
pub mod origin;
pub mod put;

/// Times in a second, `12.5/s`: with two digits that say something where it is less than one, since 0.0 would be never.
pub fn rate(per_second: f64) -> String {
    let digits = match per_second.log10() {
        log if log.is_finite() => (1.0 - log.floor()).clamp(1.0, 9.0) as usize,
        _ => 1,
    };
    format!("{per_second:.digits$}/s")
}

/// A count with its noun: `1 put`, `2 puts`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_what_happened_are_not_zero() {
        for (rate_of, text) in [
            (1234.56, "1234.6/s"),
            (10.0, "10.0/s"),
            (1.04, "1.0/s"),
            (0.25, "0.25/s"),
            (1.0 / 3600.0, "0.00028/s"),
            (0.0, "0.0/s"),
            (f64::NAN, "NaN/s"),
        ] {
            assert_eq!(rate(rate_of), text);
        }
        assert_eq!((counted(1, "put"), counted(2, "put")), ("1 put".into(), "2 puts".into()));
    }
}
