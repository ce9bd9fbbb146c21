//! Lengths of time for people.

/// A length of time in nanoseconds: two units, the smaller one where it matters.
pub fn age(nanoseconds: i64) -> String {
    let milliseconds = nanoseconds.max(0) / 1_000_000;
    let seconds = milliseconds / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 1 => format!("{milliseconds} ms"),
        (0, 0, 0) => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_order() {
        let second = 1_000_000_000;
        for (length, expected) in [
            (-1, "0 ms"),
            (12_345_678, "12 ms"),
            (second, "1.0 s"),
            (59_990_000_000, "59.9 s"),
            (61 * second, "1 min 1 s"),
            (7200 * second, "2 h 0 min"),
            (90_000 * second, "1 d 1 h"),
            (i64::MAX, "106751 d 23 h"),
        ] {
            assert_eq!(age(length), expected);
        }
    }
}
