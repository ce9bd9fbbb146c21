//! Values of options: sizes, times, numbers. An error shows a valid form; argh prefixes the option's name.

use std::time::Duration;

use iocrec_log::event::Tier;

use crate::bpf::transport::Room;
use crate::probes::tiers::TierRequest;

/// `64M`, `512K`, `1G`, or bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return Err(format!("invalid size {text}; write 64M, 512K, 1G or a number of bytes")),
    };
    let number = number.ok_or_else(|| format!("invalid size {text}; write it as 64M"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is more than any disk holds"))
}

/// Room for hits: `6M`.
pub fn room(text: &str) -> Result<Room, String> {
    Room::for_bytes(size(text)?).ok_or_else(|| format!("{text} is too much; the maximum is 48M"))
}

/// `500ms`, `30s`, `5m`, `24h`, `30d`; at least a millisecond.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("invalid duration {text}; write it as 500ms, 30s, 5m, 24h or 30d")),
    };
    let number = number.ok_or_else(|| format!("invalid duration {text}; write it as 30s"))?;
    match number.checked_mul(milliseconds) {
        Some(total @ 1..) => Ok(Duration::from_millis(total)),
        Some(0) => Err(format!("duration {text} is too short; the minimum is 1ms")),
        None => Err(format!("duration {text} is too long")),
    }
}

/// `1ns`, `1us`, `1ms`: nanoseconds.
pub fn time_step(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let unit = match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        _ => None,
    };
    match number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit)) {
        Some(step @ 1..=1_000_000) => Ok(step),
        _ => Err(format!("invalid time step {text}; write it as 1ns, 256ns, 1us or, at most, 1ms")),
    }
}

/// A part of the log. That it is too much is said elsewhere.
pub fn percent(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("invalid percentage {text}; write it as 25"))
}

/// A number of chains a second, at least 1.
pub fn chains(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("--thin must be at least 1; to record no processing use --no-process".into()),
        Ok(chains) => Ok(chains),
        Err(_) => Err(format!("invalid number of chains a second {text}; write it as 1 or 10")),
    }
}

/// The number of a process.
pub fn pid(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(pid) if pid > 0 && i32::try_from(pid).is_ok() => Ok(pid),
        _ => Err(format!("{text} is no number of a process; iocrec check shows those of IOCs")),
    }
}

/// A TCP port.
pub fn port(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(port @ 1..) => Ok(port),
        _ => Err(format!("{text} is no TCP port; write a number from 1 to 65535")),
    }
}

/// A number of lines a second, at least 1.
pub fn lines(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => {
            Err("--console-rate must be at least 1; to leave out what IOCs print use --no-console".into())
        }
        Ok(lines) => Ok(lines),
        Err(_) => Err(format!("invalid number of lines a second {text}; write it as 20")),
    }
}

/// `auto`, or the name of a tier.
pub fn tier(text: &str) -> Result<TierRequest, String> {
    match text {
        "auto" => Ok(TierRequest::Auto),
        "ring" => Ok(TierRequest::Only(Tier::Ring)),
        "perf" => Ok(TierRequest::Only(Tier::Perf)),
        "packet" => Ok(TierRequest::Only(Tier::Packet)),
        _ => Err(format!("unknown tier {text}; choose auto, ring, perf or packet")),
    }
}

/// The digits at the start, and the rest.
fn number_and_unit(text: &str) -> (Option<u64>, &str) {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    (digits.parse().ok(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert!(size("").is_err() && size("M").is_err() && size("64X").is_err() && size("-1").is_err());
        assert!(size("99999999999G").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert!(duration("5").is_err() && duration("0s").is_err() && duration("99999999999999999h").is_err());
    }

    #[test]
    fn time_steps() {
        assert_eq!([time_step("1ns"), time_step("1us"), time_step("1ms")], [Ok(1), Ok(1000), Ok(1_000_000)]);
        for wrong in ["0ns", "256", "2ms", "1s", "ns", "99999999999999999999us"] {
            assert!(time_step(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages() {
        assert_eq!((percent("0"), percent("25"), percent("76")), (Ok(0), Ok(25), Ok(76)));
        for wrong in ["-1", "", "25%", "256"] {
            assert_eq!(percent(wrong), Err(format!("invalid percentage {wrong}; write it as 25")));
        }
    }

    #[test]
    fn numbers_of_processes_and_ports() {
        assert_eq!((pid("1"), pid("2147483647")), (Ok(1), Ok(i32::MAX as u32)));
        for wrong in ["-1", "0", "abc", "", "2147483648", "99999999999", "1.5"] {
            let line = pid(wrong).unwrap_err();
            assert!(line.contains("iocrec check"), "{line}");
        }
        assert_eq!((port("1"), port("65535")), (Ok(1), Ok(65535)));
        for wrong in ["-1", "0", "http", "65536"] {
            let line = port(wrong).unwrap_err();
            assert!(line.contains("from 1 to 65535"), "{line}");
        }
    }

    #[test]
    fn chains_a_second() {
        assert_eq!(chains("2"), Ok(2));
        assert!(chains("0").is_err() && chains("-1").is_err() && chains("1.5").is_err());
    }
}
