//! Units of time in pcapng: each interface has its own.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The unit of an interface's times, and their zero point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The option if_tsresol: the unit is 10 to the power of minus this, or, if the highest bit is set, 2 to the power
    /// of minus the rest.
    resolution: u8,
    /// The option if_tsoffset, seconds.
    offset: i64,
}

impl Default for Ticks {
    fn default() -> Ticks {
        // microseconds since 1970, if the interface says nothing else
        Ticks { resolution: 6, offset: 0 }
    }
}

impl Ticks {
    /// With another unit.
    pub fn with_resolution(self, resolution: u8) -> Ticks {
        Ticks { resolution, ..self }
    }

    /// With another zero point, seconds after 1970.
    pub fn with_offset(self, offset: i64) -> Ticks {
        Ticks { offset, ..self }
    }

    /// Nanoseconds since 1970 of a time; `None` if they exceed 64 bits.
    pub fn wall(self, time: u64) -> Option<i64> {
        let exponent = u32::from(self.resolution & 0x7f);
        let (seconds, rest) = if self.resolution & 0x80 != 0 {
            binary(time, exponent)
        } else {
            let unit = 10u64.checked_pow(exponent);
            let (seconds, rest) = unit.map_or((0, time), |unit| (time / unit, time % unit));
            let rest = match exponent {
                0..=9 => rest * 10u64.pow(9 - exponent),
                _ => 10u64.checked_pow(exponent - 9).map_or(0, |unit| rest / unit),
            };
            (seconds, rest)
        };
        let seconds = i64::try_from(seconds).ok()?.checked_add(self.offset)?;
        seconds.checked_mul(SECOND as i64)?.checked_add_unsigned(rest)
    }
}

/// Seconds and nanoseconds of a time in units of 2 to the power of minus `exponent`.
fn binary(time: u64, exponent: u32) -> (u64, u64) {
    let seconds = time.checked_shr(exponent).unwrap_or(0);
    let rest = time.wrapping_sub(seconds.checked_shl(exponent).unwrap_or(0));
    // 34 bits times a second still fit; finer parts are less than a nanosecond
    let finer = exponent.saturating_sub(34);
    let rest = rest.checked_shr(finer).unwrap_or(0) * SECOND;
    (seconds, rest >> (exponent - finer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time() {
        let wall = |resolution, time| Ticks::default().with_resolution(resolution).wall(time);
        let moment = 1_700_000_000_123_456_789;
        assert_eq!(wall(9, moment as u64), Some(moment));
        assert_eq!(wall(6, 1_700_000_000_123_456), Some(1_700_000_000_123_456_000));
        assert_eq!(wall(0, 1_700_000_000), Some(1_700_000_000_000_000_000));
        assert_eq!(wall(10, 17_000_000_001_234_567_890), Some(1_700_000_000_123_456_789));
        assert_eq!(wall(19, u64::MAX), Some(1_844_674_407));
        assert_eq!(wall(20, u64::MAX), Some(184_467_440));
        assert_eq!((wall(40, u64::MAX), wall(0x7f, u64::MAX)), (Some(0), Some(0)));
        assert_eq!((wall(0, u64::MAX), wall(6, u64::MAX)), (None, None));
        assert_eq!(wall(0x80, 1_700_000_000), Some(1_700_000_000_000_000_000));
        assert_eq!(wall(0x80 | 32, 1_700_000_000 << 32 | 1 << 31), Some(1_700_000_000_500_000_000));
        assert_eq!(wall(0x80 | 40, 3 << 39), Some(1_500_000_000));
        assert_eq!(wall(0x80 | 63, 3 << 62), Some(1_500_000_000));
        assert_eq!((wall(0x80 | 64, 1 << 63), wall(0xff, u64::MAX)), (Some(500_000_000), Some(0)));
        let moved = |offset| Ticks::default().with_offset(offset).wall(1_000_000);
        assert_eq!((moved(2), moved(-2)), (Some(3_000_000_000), Some(-1_000_000_000)));
        assert_eq!((moved(i64::MAX), moved(i64::MIN), moved(1 << 40)), (None, None, None));
    }
}
