//! Numbers of variable length, as in postcard: seven bits in each byte, lowest first; the high bit is set in all but
//! the last.

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` if it is truncated or too large for 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    match bytes.split_first() {
        // Nearly all numbers are small.
        Some((&byte, rest)) if byte & 0x80 == 0 => {
            *bytes = rest;
            Some(byte.into())
        }
        _ => take_long(bytes),
    }
}

#[inline]
fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
