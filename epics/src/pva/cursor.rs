//! Reads PVAccess's numbers, sizes, strings and statuses.

use super::{Fault, Read};

/// A size that stands for "none": the null string, no member of a union.
const NONE: u8 = 0xff;
/// A size of four bytes follows.
const LONG: u8 = 0xfe;

/// Bytes, read from front to back in one byte order.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    big_endian: bool,
}

/// A server's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// 0 OK, 1 warning (both are successes), 2 error, 3 fatal.
    pub code: u8,
    /// The message; empty if there is none.
    pub text: &'a [u8],
}

impl Status<'_> {
    /// Whether the request was carried out.
    pub fn is_success(&self) -> bool {
        self.code <= 1
    }
}

impl<'a> Cursor<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8], big_endian: bool) -> Cursor<'a> {
        Cursor { rest: bytes, big_endian }
    }

    /// Whether numbers have their highest byte first.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next byte, which stays.
    pub fn peek(&self) -> Read<u8> {
        self.rest.first().copied().ok_or(Fault::Short)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Read<u8> {
        let byte = self.peek()?;
        self.take(1)?;
        Ok(byte)
    }

    /// The next two bytes, a number.
    pub fn u16(&mut self) -> Read<u16> {
        Ok(self.number(2)? as u16)
    }

    /// The next four bytes, a number.
    pub fn u32(&mut self) -> Read<u32> {
        Ok(self.number(4)? as u32)
    }

    /// A number of up to eight bytes.
    pub fn number(&mut self, width: usize) -> Read<u64> {
        let bytes = self.take(width)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    /// A size; `None` for none.
    pub fn size(&mut self) -> Read<Option<usize>> {
        match self.u8()? {
            NONE => Ok(None),
            LONG => match self.u32()? {
                // eight bytes follow: nothing that large can be here
                0x7fff_ffff => Err(Fault::TooMuch),
                size => Ok(Some(size as usize)),
            },
            size => Ok(Some(size.into())),
        }
    }

    /// A size that must be there.
    pub fn count(&mut self) -> Read<usize> {
        self.size()?.ok_or(Fault::Wrong)
    }

    /// A string's bytes; the null string counts as empty.
    pub fn string(&mut self) -> Read<&'a [u8]> {
        let size = self.size()?.unwrap_or(0);
        self.take(size)
    }

    /// A status.
    pub fn status(&mut self) -> Read<Status<'a>> {
        let code = self.u8()?;
        if code == NONE {
            return Ok(Status { code: 0, text: b"" });
        }
        if code > 3 {
            return Err(Fault::Wrong);
        }
        // the second text says where in the server's source it was
        let text = self.string()?;
        self.string()?;
        Ok(Status { code, text })
    }

    /// A set of bits: its bytes, the lowest bit first.
    pub fn bits(&mut self) -> Read<&'a [u8]> {
        let size = self.count()?;
        self.take(size)
    }
}

/// Whether a set has a bit.
pub fn has_bit(bits: &[u8], number: usize) -> bool {
    bits.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
}

/// Text of bytes that are mostly UTF-8; others become `\xNN`.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_orders() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let mut little = Cursor::new(&bytes, false);
        assert_eq!(
            (little.u16(), little.u32(), little.u8()),
            (Ok(0x0201), Ok(0x0605_0403), Err(Fault::Short))
        );
        let mut big = Cursor::new(&bytes, true);
        assert_eq!((big.u16(), big.u32()), (Ok(0x0102), Ok(0x0304_0506)));
        assert!(big.is_empty() && big.u16() == Err(Fault::Short));
    }

    #[test]
    fn sizes_strings_and_statuses() {
        assert_eq!(Cursor::new(&[253], false).size(), Ok(Some(253)));
        assert_eq!(Cursor::new(&[0xff], false).size(), Ok(None));
        assert_eq!(Cursor::new(&[0xfe, 0, 0, 1, 0], true).size(), Ok(Some(256)));
        assert_eq!(Cursor::new(&[0xfe, 0xff, 0xff, 0xff, 0x7f, 1], false).size(), Err(Fault::TooMuch));
        assert_eq!(Cursor::new(b"\x02abc", false).string(), Ok(&b"ab"[..]));
        assert_eq!(Cursor::new(b"\x04abc", false).string(), Err(Fault::Short));
        assert_eq!(Cursor::new(&[0xff], false).status(), Ok(Status { code: 0, text: b"" }));
        let denied = Cursor::new(b"\x02\x02No\x00", false).status();
        assert_eq!(denied, Ok(Status { code: 2, text: b"No" }));
        assert!(!denied.unwrap().is_success());
        assert_eq!(Cursor::new(&[9, 0, 0], false).status(), Err(Fault::Wrong));
    }

    #[test]
    fn bits_beyond_the_set_are_not_in_it() {
        assert!(has_bit(&[0b10, 1], 1) && has_bit(&[0b10, 1], 8));
        assert!(!has_bit(&[0b10, 1], 0) && !has_bit(&[0b10, 1], 9) && !has_bit(&[], 3));
        assert_eq!(text(b"a\xffb"), "a\\xffb");
    }
}
