//! Walks over a value by the whole description of its type ([`super::types`]).
//!
//! [`whole`] takes a value that was sent with all its fields, [`changed`] one of which only the fields in a set of bits
//! were sent. Bits count the fields depth first, from 0 for the structure itself; a structure's bit means all of it; a
//! union, an any and an array of structures have one bit. Bits beyond the type are ignored, as servers do.

use super::cursor::has_bit;
use super::types::{self, head, skip, Head, Scalar, Shape, DEEPEST};
use super::{Cursor, Fault, Read};

/// Most steps of one walk. An array of structures repeats its element's description for each element, so few bytes
/// could mean much work.
const MOST_STEPS: usize = 50_000;
/// Bytes of a description that is passed over in the time of a step.
const BYTES_A_STEP: usize = 8;

/// A part of a value that has no parts with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// A number or truth value, in the value's byte order; a text without its size.
    One(Scalar, &'a [u8]),
    /// Some of these: how many, and their bytes as sent, texts with their sizes. Fewer bytes than that if the value was
    /// cut.
    Many(Scalar, usize, &'a [u8]),
    /// The beginning of a text whose other bytes are not there: the value was cut.
    Beginning(&'a [u8]),
    /// An array of structures, unions or anys that has no elements.
    Empty,
    /// No member of a union, no value in an any, or an element that isn't there.
    Nothing,
}

/// Takes the parts of a value in their order.
pub trait Visitor {
    /// What follows belongs to this field, element (`[3]`), or member of a union.
    fn enter(&mut self, name: &[u8]);

    /// What belongs to it ends here.
    fn leave(&mut self);

    /// A part without parts.
    fn leaf(&mut self, leaf: Leaf<'_>);

    /// Reads the type of an any from `value` and appends its whole description to `out`; false for the null type.
    ///
    /// # Errors
    /// It can't be read.
    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool>;
}

/// Walks over a value with all its fields.
///
/// # Errors
/// The value ends early or does not fit the type. What came before was passed on.
pub fn whole(description: &[u8], value: &mut Cursor<'_>, visitor: &mut dyn Visitor) -> Read<()> {
    counted(description, None, value, visitor).0
}

/// Walks over a value of which the fields in `bits` were sent.
///
/// # Errors
/// As for [`whole`].
pub fn changed(
    description: &[u8],
    bits: &[u8],
    value: &mut Cursor<'_>,
    visitor: &mut dyn Visitor,
) -> Read<()> {
    counted(description, Some(bits), value, visitor).0
}

/// The same for either, and the number of steps that the walk has taken.
pub fn counted(
    description: &[u8],
    bits: Option<&[u8]>,
    value: &mut Cursor<'_>,
    visitor: &mut dyn Visitor,
) -> (Read<()>, usize) {
    let mut walk = Walk { visitor, steps: MOST_STEPS };
    let description = &mut Cursor::new(description, false);
    let done = match bits {
        Some(bits) => walk.changed(description, bits, &mut 0, value, 0),
        None => walk.value(description, value, 0),
    };
    (done, MOST_STEPS - walk.steps)
}

struct Walk<'v> {
    visitor: &'v mut dyn Visitor,
    steps: usize,
}

impl Walk<'_> {
    fn step(&mut self, depth: usize) -> Read<()> {
        self.steps = self.steps.checked_sub(1).ok_or(Fault::TooMuch)?;
        if depth > DEEPEST {
            return Err(Fault::TooMuch);
        }
        Ok(())
    }

    /// Passes over a description, which counts as steps too.
    fn pass(&mut self, description: &mut Cursor<'_>, depth: usize) -> Read<usize> {
        let before = description.rest().len();
        let bits = skip(description, depth)?;
        self.charge(before - description.rest().len())?;
        Ok(bits)
    }

    /// Counts these bytes of a description as steps.
    fn charge(&mut self, bytes: usize) -> Read<()> {
        self.steps = self.steps.checked_sub(bytes / BYTES_A_STEP).ok_or(Fault::TooMuch)?;
        Ok(())
    }

    fn changed(
        &mut self,
        description: &mut Cursor<'_>,
        bits: &[u8],
        next: &mut usize,
        value: &mut Cursor<'_>,
        depth: usize,
    ) -> Read<()> {
        self.step(depth)?;
        let bit = *next;
        let mut ahead = *description;
        if has_bit(bits, bit) {
            *next += self.pass(&mut ahead, depth)?;
            return self.value(description, value, depth);
        }
        match head(&mut ahead)? {
            Head::Fields(false, _, count) => {
                *next += 1;
                *description = ahead;
                for _ in 0..count {
                    let name = description.string()?;
                    self.visitor.enter(name);
                    let done = self.changed(description, bits, next, value, depth + 1);
                    self.visitor.leave();
                    done?;
                }
            }
            _ => *next += self.pass(description, depth)?,
        }
        Ok(())
    }

    fn value(&mut self, description: &mut Cursor<'_>, value: &mut Cursor<'_>, depth: usize) -> Read<()> {
        self.step(depth)?;
        match head(description)? {
            Head::Scalar(scalar, Shape::One) => {
                let bytes = match scalar.width() {
                    Some(width) => value.take(width)?,
                    None => text(value, self.visitor)?,
                };
                self.visitor.leaf(Leaf::One(scalar, bytes));
            }
            Head::Scalar(scalar, Shape::Array) => {
                let count = value.count()?;
                self.many(scalar, count, value)?;
            }
            Head::Scalar(scalar, Shape::Fixed(count)) => self.many(scalar, count, value)?,
            Head::Fields(false, _, count) => {
                for _ in 0..count {
                    let name = description.string()?;
                    self.named(name, |walk| walk.value(description, value, depth + 1))?;
                }
            }
            Head::Fields(true, _, count) => {
                let selected = value.size()?;
                if selected.is_none() {
                    self.visitor.leaf(Leaf::Nothing);
                }
                for member in 0..count {
                    let name = description.string()?;
                    if selected == Some(member) {
                        self.named(name, |walk| walk.value(description, value, depth + 1))?;
                    } else {
                        self.step(depth)?;
                        self.pass(description, depth + 1)?;
                    }
                }
                if selected.is_some_and(|selected| selected >= count) {
                    return Err(Fault::Wrong);
                }
            }
            Head::Elements => {
                let element = *description;
                self.pass(description, depth + 1)?;
                self.elements(value, |walk, value| walk.value(&mut { element }, value, depth + 1))?;
            }
            Head::Any(false) => self.any(value, depth)?,
            Head::Any(true) => self.elements(value, |walk, value| walk.any(value, depth + 1))?,
        }
        Ok(())
    }

    fn named(&mut self, name: &[u8], walk: impl FnOnce(&mut Self) -> Read<()>) -> Read<()> {
        self.visitor.enter(name);
        let done = walk(self);
        self.visitor.leave();
        done
    }

    /// An array of structures, unions or anys: a byte tells of each element whether it is there.
    fn elements(
        &mut self,
        value: &mut Cursor<'_>,
        mut element: impl FnMut(&mut Self, &mut Cursor<'_>) -> Read<()>,
    ) -> Read<()> {
        let count = value.count()?;
        if count == 0 {
            self.visitor.leaf(Leaf::Empty);
        }
        for number in 0..count {
            let there = value.u8()? != 0;
            self.step(0)?;
            self.named(format!("[{number}]").as_bytes(), |walk| match there {
                true => element(walk, value),
                false => {
                    walk.visitor.leaf(Leaf::Nothing);
                    Ok(())
                }
            })?;
        }
        Ok(())
    }

    fn any(&mut self, value: &mut Cursor<'_>, depth: usize) -> Read<()> {
        let mut description = Vec::new();
        if !self.visitor.any(value, &mut description)? {
            self.visitor.leaf(Leaf::Nothing);
            return Ok(());
        }
        self.charge(description.len())?;
        self.value(&mut Cursor::new(&description, false), value, depth + 1)
    }

    /// `count` scalars.
    fn many(&mut self, scalar: Scalar, count: usize, value: &mut Cursor<'_>) -> Read<()> {
        let here = value.rest();
        let length = match scalar.width() {
            Some(width) => count.saturating_mul(width),
            None => {
                let mut ahead = *value;
                // a text takes a byte at least, so this ends with the bytes
                let taken = (0..count).try_for_each(|_| ahead.string().map(drop));
                match taken {
                    Ok(()) => here.len() - ahead.rest().len(),
                    Err(_) => usize::MAX,
                }
            }
        };
        self.visitor.leaf(Leaf::Many(scalar, count, here.get(..length).unwrap_or(here)));
        value.take(length)?;
        Ok(())
    }
}

/// A text's bytes. If the value was cut in it, passes on what is there.
fn text<'a>(value: &mut Cursor<'a>, visitor: &mut dyn Visitor) -> Read<&'a [u8]> {
    let size = value.size()?.unwrap_or(0);
    let here = value.rest();
    if here.len() < size {
        visitor.leaf(Leaf::Beginning(here));
    }
    value.take(size)
}

/// The number that bytes hold, as a signed or unsigned integer; `None` if they are none.
pub fn integer(scalar: Scalar, bytes: &[u8], big_endian: bool) -> Option<i128> {
    let width = scalar.width().filter(|width| *width == bytes.len())?;
    let number = Cursor::new(bytes, big_endian).number(width).ok()?;
    match scalar.0 {
        0x00 | 0x24..=0x27 => Some(number.into()),
        0x20 => Some((number as i8).into()),
        0x21 => Some((number as i16).into()),
        0x22 => Some((number as i32).into()),
        0x23 => Some((number as i64).into()),
        _ => None,
    }
}

/// Reads descriptions of anys where nothing is known of other messages.
///
/// # Errors
/// They refer to others.
pub fn any_alone(value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
    types::describe(value, &mut (), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints what it gets, one line a leaf.
    #[derive(Default)]
    struct Print(Vec<String>, Vec<String>);

    impl Visitor for Print {
        fn enter(&mut self, name: &[u8]) {
            self.0.push(String::from_utf8_lossy(name).into_owned());
        }

        fn leave(&mut self) {
            self.0.pop();
        }

        fn leaf(&mut self, leaf: Leaf<'_>) {
            self.1.push(format!("{}={leaf:x?}", self.0.join(".")));
        }

        fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
            any_alone(value, out)
        }
    }

    /// value double, alarm (severity int, message string), u union (d double, s string), x any, a structure[] (n int).
    const TYPE: &[u8] = b"\x80\x00\x05\x05value\x43\x05alarm\x80\x00\x02\x03sev\x22\x03msg\x60\
        \x01u\x81\x00\x02\x01d\x43\x01s\x60\x01x\x82\x01a\x88\x80\x00\x01\x01n\x22";

    fn walk(bits: Option<&[u8]>, value: &[u8]) -> (Read<()>, String) {
        let mut print = Print::default();
        let mut cursor = Cursor::new(value, false);
        let done = match bits {
            Some(bits) => changed(TYPE, bits, &mut cursor, &mut print),
            None => whole(TYPE, &mut cursor, &mut print),
        };
        (done, print.1.join(" "))
    }

    #[test]
    fn only_what_was_sent() {
        let number = 3.5f64.to_le_bytes();
        let (done, seen) = walk(Some(&[0b10]), &number);
        assert_eq!((done, seen.as_str()), (Ok(()), "value=One(Scalar(43), [0, 0, 0, 0, 0, 0, c, 40])"));
        // bit 4 is alarm.msg, bit 5 the union
        let (done, seen) = walk(Some(&[0b11_0000]), b"\x02hi\x01\x01!");
        assert_eq!(
            (done, seen.as_str()),
            (Ok(()), "alarm.msg=One(Scalar(60), [68, 69]) u.s=One(Scalar(60), [21])")
        );
        // a structure's bit means all of it; the bits in it are skipped
        let (done, seen) = walk(Some(&[0b1_1100]), b"\x07\0\0\0\x00");
        assert_eq!(
            (done, seen.as_str()),
            (Ok(()), "alarm.sev=One(Scalar(22), [7, 0, 0, 0]) alarm.msg=One(Scalar(60), [])")
        );
        assert_eq!(walk(Some(&[]), b"").0, Ok(()));
        assert_eq!(walk(Some(&[0, 0xff]), b"").0, Ok(()), "bits beyond the type");
    }

    #[test]
    fn everything_in_both_ways() {
        let value =
            [&1f64.to_le_bytes()[..], b"\x01\0\0\0\x00\xff\x22\x05\0\0\0\x02\x01\x09\0\0\0\x00"].concat();
        let expected = "value=One(Scalar(43), [0, 0, 0, 0, 0, 0, f0, 3f]) alarm.sev=One(Scalar(22), [1, 0, 0, 0]) \
            alarm.msg=One(Scalar(60), []) u=Nothing x=One(Scalar(22), [5, 0, 0, 0]) a.[0].n=One(Scalar(22), [9, 0, 0, 0]) \
            a.[1]=Nothing";
        assert_eq!(walk(None, &value), (Ok(()), expected.to_owned()));
        assert_eq!(walk(Some(&[1]), &value), (Ok(()), expected.to_owned()));
    }

    #[test]
    fn what_is_cut_is_passed_on_as_far_as_it_goes() {
        let array = b"\x80\x00\x02\x01a\x4b\x01s\x68";
        let mut print = Print::default();
        let value = [&b"\x03"[..], &[0; 12]].concat();
        assert_eq!(whole(array, &mut Cursor::new(&value, false), &mut print), Err(Fault::Short));
        assert_eq!(print.1, [format!("a=Many(Scalar(43), 3, {:?})", [0; 12])]);
        let mut print = Print::default();
        assert_eq!(changed(array, &[4], &mut Cursor::new(b"\x02\x01a\x01b", false), &mut print), Ok(()));
        assert_eq!(print.1, ["s=Many(Scalar(60), 2, [1, 61, 1, 62])"]);
        // counts that no bytes follow
        let huge = b"\xfe\xff\xff\xff\xff\x01";
        assert_eq!(
            changed(array, &[2], &mut Cursor::new(huge, false), &mut Print::default()),
            Err(Fault::Short)
        );
        assert_eq!(
            changed(array, &[4], &mut Cursor::new(huge, false), &mut Print::default()),
            Err(Fault::Short)
        );
    }

    /// Names types by a byte, each of 60,000 bytes, and counts them.
    struct Large(usize);

    impl Visitor for Large {
        fn enter(&mut self, _: &[u8]) {}

        fn leave(&mut self) {}

        fn leaf(&mut self, _: Leaf<'_>) {}

        fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
            value.u8()?;
            self.0 += 1;
            out.extend([&[types::UNION, 0xfe][..], &60_000u32.to_le_bytes(), &[b'x'; 60_000], &[0]].concat());
            Ok(true)
        }
    }

    #[test]
    fn large_types_of_anys_are_work() {
        // a thousand, each with no member of its union
        let value = [&b"\xfe\xe8\x03\x00\x00"[..], &b"\x01\x00\xff".repeat(1000)].concat();
        let mut large = Large(0);
        assert_eq!(whole(b"\x8a", &mut Cursor::new(&value, false), &mut large), Err(Fault::TooMuch));
        assert!(large.0 < 10, "{}", large.0);
    }

    #[test]
    fn few_bytes_are_little_work() {
        // each element has 4096 structures without fields
        let fields = b"\x01a\x80\x00\x00".repeat(4096);
        let description = [&b"\x88\x80\x00\xfe\x00\x10\x00\x00"[..], &fields].concat();
        let value = [&b"\xfe\x00\x10\x00\x00"[..], &[1; 4096]].concat();
        let done = whole(&description, &mut Cursor::new(&value, false), &mut Print::default());
        assert_eq!(done, Err(Fault::TooMuch));
        assert_eq!(integer(Scalar(0x21), &[0xff, 0xfe], true), Some(-2));
        assert_eq!(integer(Scalar(0x27), &[0xff; 8], true), Some(u64::MAX.into()));
        assert_eq!(integer(Scalar::DOUBLE, &[0; 8], false), None);
    }
}
