//! As CSVSampleImporter.java of Phoebus' Data Browser reads samples.

/// Signs of a locale: between groups of digits, before the decimals.
pub type Signs = (char, char);

/// How numbers are written in English, in German, in French and in Switzerland.
pub const LOCALES: [Signs; 4] = [(',', '.'), ('.', ','), ('\u{202f}', ','), ('\u{2019}', '.')];

/// A sample as CSVSampleImporter.java reads it where these signs are used: its time to the millisecond, and its value.
/// `None`: the line is skipped.
///
/// # Panics
/// Where an exception would stop the import, or the value would have error bars.
pub fn imported(line: &str, signs: Signs) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // it takes as many decimals as there are, or none
    let shape = "0000-00-00 00:00:00.";
    let (time, rest) = line.split_at_checked(shape.len())?;
    let fits = |(letter, of): (char, char)| match of {
        '0' => letter.is_ascii_digit(),
        '-' => matches!(letter, '-' | '/'),
        of => letter == of,
    };
    if !time.chars().zip(shape.chars()).all(fits) {
        return None;
    }
    let decimals = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (decimals, rest) = rest.split_at(decimals);
    let (value, rest) = column(rest)?;
    let is_statistics = column(rest).is_some_and(|(_, rest)| column(rest).is_some());
    assert!(!is_statistics, "error bars: {line}");
    // MILLI_FORMAT: three decimals
    let time = format!("{}{}", time.replace('/', "-"), decimals.get(..3).expect("stops the import"));
    let (group, decimal) = signs;
    let value = value.replace(group, "").replace(decimal, ".");
    Some((time, value.parse().expect("stops the import")))
}

/// A number of which the importer knows the letters, behind spaces, tabs or commas; and what is behind it.
fn column(rest: &str) -> Option<(&str, &str)> {
    let number = rest.trim_start_matches([' ', '\t', ',']);
    let end = number.find(|letter: char| !"-+0123456789.,eE".contains(letter)).unwrap_or(number.len());
    (number.len() < rest.len() && end > 0).then(|| number.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_importer_is_strict() {
        let english = (',', '.');
        let read = |line: &str| imported(line, english);
        assert_eq!(read("# T:AO"), None);
        assert_eq!(read("2026-11-22T02:30:00.123 25E-1"), None);
        assert_eq!(read("2026-11-22 02:30:00.123 NaN"), None);
        let sample = Some(("2026-11-22 02:30:00.123".to_owned(), 2.5));
        assert_eq!(read("2026-11-22 02:30:00.123456\t25E-1\tMINOR\tHIGH"), sample);
        assert_eq!(imported("2026-11-22 02:30:00.123 2.5", ('.', ',')).map(|sample| sample.1), Some(25.0));
    }
}
