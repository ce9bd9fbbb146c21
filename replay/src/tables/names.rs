//! Names of partitions and files.

use super::Format;
use iocrec_log::escape::is_unsafe;
use std::fmt::Write as _;

/// Hive's name of a partition whose value is unknown.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";
/// Longest name of a partition: file systems take 255 bytes.
const LONGEST: usize = 200;

/// The name of a file.
pub fn file(run: &str, segment: u32, part: u32, format: Format) -> String {
    format!("{run}-{segment:08}-{part}.{}", format.name())
}

/// The segment of a file of this run; `None` if the name is no such file's.
pub fn parse(name: &str, run: &str, format: Format) -> Option<u32> {
    let rest = name.strip_prefix(run)?.strip_prefix('-')?;
    let (segment, part) = rest.strip_suffix(format.name())?.strip_suffix('.')?.split_once('-')?;
    part.parse::<u32>().ok()?;
    segment.parse().ok()
}

/// The name of a host's partition: letters, digits, `.`, `_` and `-` as they are, all else by its bytes as `%XX`, as Hive does.
/// One that is too long for a file name ends with `~` and a number that is made of it.
pub fn partition(host: &str) -> String {
    if host.is_empty() {
        return format!("host={UNKNOWN}");
    }
    let mut name = String::from("host=");
    for letter in host.chars() {
        let before = name.len();
        match letter {
            '.' | '_' | '-' => name.push(letter),
            // not the name of the unknown one
            letter if letter.is_alphanumeric() && !is_unsafe(letter) => name.push(letter),
            letter => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    // writing to a string cannot fail
                    let _ = write!(name, "%{byte:02X}");
                }
            }
        }
        if name.len() > LONGEST {
            name.truncate(before);
            let _ = write!(name, "~{:016x}", hash(host));
            break;
        }
    }
    match name.strip_prefix("host=") {
        Some(UNKNOWN) => name.replacen('_', "%5F", 1),
        _ => name,
    }
}

/// FNV-1a with 64 bits, the same for ever.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_do_not_leave_the_directory() {
        for (host, expected) in [
            ("box-1.site", "host=box-1.site"),
            ("..", "host=.."),
            ("../../etc", "host=..%2F..%2Fetc"),
            ("a=b/c%d\n\u{202e}", "host=a%3Db%2Fc%25d%0A%E2%80%AE"),
            ("", "host=__HIVE_DEFAULT_PARTITION__"),
            (UNKNOWN, "host=%5F_HIVE_DEFAULT_PARTITION__"),
            ("é電", "host=é電"),
        ] {
            assert_eq!(partition(host), expected);
        }
        let long = |last: char| partition(&("/".repeat(5000) + &last.to_string()));
        assert!(long('a').len() <= 230 && long('a') != long('b'));
    }

    #[test]
    fn only_own_files_are_recognized() {
        let run = "0123456789abcdef0123456789abcdef";
        let name = |rest: &str| parse(&format!("{run}{rest}"), run, Format::Csv);
        assert_eq!(name("-00000007-0.csv"), Some(7));
        assert_eq!(parse(&file(run, 123, 4, Format::Csv), run, Format::Csv), Some(123));
        for other in ["-00000007-0.parquet", "-00000007.csv", "-x-0.csv", "-00000007-x.csv", ".csv"] {
            assert_eq!(name(other), None, "{other}");
        }
        assert_eq!(parse("notes.csv", run, Format::Csv), None);
    }
}
