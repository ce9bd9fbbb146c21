//! Descriptions of types.
//!
//! On the wire a description may define a number for what follows (`fd`) and refer to a type that was defined before
//! on the same connection by the same side (`fe`). [`describe`] writes it out **whole**: without either, sizes in little
//! endian, so that it can be read alone. What grows beyond [`LONGEST`] in that is given up, never expanded further.
//!
//! A whole description is a code, then what belongs to it: for a bounded or fixed type its size; for a structure or
//! union its id, the number of its fields, and of each its name and description; for an array of these the element's
//! description.

use super::{Cursor, Fault, Read};

/// Longest description, written out whole, in bytes. A group of 100 records with all their properties takes 45,000.
pub const LONGEST: usize = 64 << 10;
/// Levels of structures in structures. pvxs refuses more.
pub const DEEPEST: usize = 20;
/// Most fields of one structure.
const MOST_FIELDS: usize = 4096;
/// Longest name of a field or type. QSRV1 accepts names of PVs up to this length.
const LONGEST_NAME: usize = 500;

/// A structure.
pub const STRUCTURE: u8 = 0x80;
/// A union: one of its members.
pub const UNION: u8 = 0x81;
/// A value of any type.
pub const ANY: u8 = 0x82;
/// A text of a bounded length, which follows.
const BOUNDED_STRING: u8 = 0x83;
/// No type at all.
pub const NULL: u8 = 0xff;
/// Added for an array of any length.
pub const ARRAY: u8 = 0x08;
const BOUNDED: u8 = 0x10;
const FIXED: u8 = 0x18;
const DEFINES: u8 = 0xfd;
/// A number of a type that was defined before follows.
pub const REFERS: u8 = 0xfe;

/// The types that one side of a connection has defined.
pub trait Registry {
    /// A number stands for a type from now on, described whole.
    fn define(&mut self, id: u16, description: &[u8]);

    /// The type that a number stands for.
    fn find(&self, id: u16) -> Option<&[u8]>;
}

/// No types.
impl Registry for () {
    fn define(&mut self, _: u16, _: &[u8]) {}

    fn find(&self, _: u16) -> Option<&[u8]> {
        None
    }
}

/// A type of one number, truth value or text, by its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar(pub u8);

impl Scalar {
    /// A truth value.
    pub const BOOLEAN: Scalar = Scalar(0x00);
    /// A 32-bit float.
    pub const FLOAT: Scalar = Scalar(0x42);
    /// A 64-bit float.
    pub const DOUBLE: Scalar = Scalar(0x43);
    /// A text.
    pub const STRING: Scalar = Scalar(0x60);

    /// The scalar type with this code, if it is one.
    pub fn of(code: u8) -> Option<Scalar> {
        matches!(code, 0x00 | 0x20..=0x27 | 0x42 | 0x43 | 0x60).then_some(Scalar(code))
    }

    /// Bytes of a value; `None` for a text.
    pub fn width(self) -> Option<usize> {
        match self.0 {
            0x00 => Some(1),
            code @ 0x20..=0x27 => Some(1 << (code & 3)),
            0x42 => Some(4),
            0x43 => Some(8),
            _ => None,
        }
    }

    /// Its name in the specification.
    pub fn name(self) -> &'static str {
        match self.0 {
            0x00 => "boolean",
            0x20 => "byte",
            0x21 => "short",
            0x22 => "int",
            0x23 => "long",
            0x24 => "ubyte",
            0x25 => "ushort",
            0x26 => "uint",
            0x27 => "ulong",
            0x42 => "float",
            0x43 => "double",
            _ => "string",
        }
    }
}

/// How many values of a scalar type there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One. Texts may be bounded.
    One,
    /// Any number, which the value begins with.
    Array,
    /// This number.
    Fixed(usize),
}

/// The beginning of a whole description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// Scalars.
    Scalar(Scalar, Shape),
    /// A structure or (true) a union: its id, and the number of its fields, which follow.
    Fields(bool, &'a [u8], usize),
    /// An array of structures or unions; the element's description follows.
    Elements,
    /// A value of any type, or (true) an array of such.
    Any(bool),
}

/// Reads the beginning of a whole description.
///
/// # Errors
/// It isn't one.
pub fn head<'a>(description: &mut Cursor<'a>) -> Read<Head<'a>> {
    let code = description.u8()?;
    match code {
        STRUCTURE | UNION => {
            let id = description.string()?;
            Ok(Head::Fields(code == UNION, id, description.count()?))
        }
        ANY => Ok(Head::Any(false)),
        BOUNDED_STRING => {
            description.count()?;
            Ok(Head::Scalar(Scalar::STRING, Shape::One))
        }
        _ if code == ANY | ARRAY => Ok(Head::Any(true)),
        _ if code & !1 == STRUCTURE | ARRAY => Ok(Head::Elements),
        _ => {
            let scalar = Scalar::of(code & !FIXED).ok_or(Fault::Wrong)?;
            let shape = match code & FIXED {
                0 => Shape::One,
                ARRAY => Shape::Array,
                BOUNDED => {
                    description.count()?;
                    Shape::Array
                }
                _ => Shape::Fixed(description.count()?),
            };
            Ok(Head::Scalar(scalar, shape))
        }
    }
}

/// Passes over a whole description; returns the number of its bits in a set of changed fields.
///
/// # Errors
/// It isn't one, or too deep.
pub fn skip(description: &mut Cursor<'_>, depth: usize) -> Read<usize> {
    if depth > DEEPEST {
        return Err(Fault::TooMuch);
    }
    match head(description)? {
        Head::Scalar(..) | Head::Any(_) => Ok(1),
        Head::Elements => {
            skip(description, depth + 1)?;
            Ok(1)
        }
        Head::Fields(union, _, count) => {
            let mut bits = 1;
            for _ in 0..count {
                description.string()?;
                bits += skip(description, depth + 1)?;
            }
            Ok(if union { 1 } else { bits })
        }
    }
}

/// Reads a description from the wire and appends it whole to `out`. Returns false for the null type, which appends
/// nothing.
///
/// # Errors
/// It is none, or refers to a type that is not known, or is too large. The registry may have new types all the same.
pub fn describe(wire: &mut Cursor<'_>, registry: &mut dyn Registry, out: &mut Vec<u8>) -> Read<bool> {
    if wire.peek()? == NULL {
        wire.u8()?;
        return Ok(false);
    }
    part(wire, registry, out, 0)?;
    Ok(true)
}

fn part(wire: &mut Cursor<'_>, registry: &mut dyn Registry, out: &mut Vec<u8>, depth: usize) -> Read<()> {
    if depth > DEEPEST || out.len() > LONGEST {
        return Err(Fault::TooMuch);
    }
    let code = wire.u8()?;
    match code {
        DEFINES => {
            let id = wire.u16()?;
            let start = out.len();
            part(wire, registry, out, depth + 1)?;
            registry.define(id, out.get(start..).unwrap_or_default());
        }
        REFERS => {
            let known = registry.find(wire.u16()?).ok_or(Fault::UnknownType)?;
            if out.len() + known.len() > LONGEST {
                return Err(Fault::TooMuch);
            }
            skip(&mut Cursor::new(known, false), depth)?;
            out.extend_from_slice(known);
        }
        STRUCTURE | UNION => {
            out.push(code);
            name(wire, out)?;
            let count = wire.count()?;
            if count > MOST_FIELDS {
                return Err(Fault::TooMuch);
            }
            size(count, out);
            for _ in 0..count {
                name(wire, out)?;
                part(wire, registry, out, depth + 1)?;
            }
        }
        _ if code & !1 == STRUCTURE | ARRAY => {
            out.push(code);
            part(wire, registry, out, depth + 1)?;
        }
        _ => {
            // the rest has no names: read as if it were whole, but for the order of a size's bytes
            out.push(code);
            if code & !ARRAY != ANY {
                let is_text = code == BOUNDED_STRING;
                if !is_text && Scalar::of(code & !FIXED).is_none() {
                    return Err(Fault::Wrong);
                }
                if is_text || code & BOUNDED != 0 {
                    size(wire.count()?, out);
                }
            }
        }
    }
    Ok(())
}

fn name(wire: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<()> {
    let name = wire.string()?;
    if name.len() > LONGEST_NAME {
        return Err(Fault::TooMuch);
    }
    size(name.len(), out);
    out.extend_from_slice(name);
    Ok(())
}

fn size(size: usize, out: &mut Vec<u8>) {
    match u8::try_from(size) {
        Ok(short) if short < REFERS => out.push(short),
        _ => {
            out.push(REFERS);
            out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Types(HashMap<u16, Vec<u8>>);

    impl Registry for Types {
        fn define(&mut self, id: u16, description: &[u8]) {
            self.0.insert(id, description.to_vec());
        }

        fn find(&self, id: u16) -> Option<&[u8]> {
            self.0.get(&id).map(Vec::as_slice)
        }
    }

    fn whole(wire: &[u8], big: bool, types: &mut Types) -> Read<Vec<u8>> {
        let mut out = Vec::new();
        describe(&mut Cursor::new(wire, big), types, &mut out).map(|_| out)
    }

    #[test]
    fn what_refers_is_written_out_whole() {
        let mut types = Types::default();
        // a structure with a field `a` of type 2, defined in it, and `b`, again of type 2
        let wire = b"\xfd\x01\x00\x80\x01S\x02\x01a\xfd\x02\x00\x80\x00\x01\x01v\x43\x01b\xfe\x02\x00";
        let inner = b"\x80\x00\x01\x01v\x43";
        let expected = [b"\x80\x01S\x02\x01a", &inner[..], b"\x01b", inner].concat();
        assert_eq!(whole(wire, false, &mut types), Ok(expected.clone()));
        assert_eq!(types.find(2), Some(&inner[..]));
        assert_eq!(whole(b"\xfe\x00\x01", true, &mut types), Ok(expected.clone()));
        assert_eq!(skip(&mut Cursor::new(&expected, false), 0), Ok(5), "itself, a, a.v, b, b.v");
        assert_eq!(whole(b"\xfe\x07\x00", false, &mut types), Err(Fault::UnknownType));
        // defined twice: the newer counts
        assert!(whole(b"\xfd\x02\x00\x22", false, &mut types).is_ok());
        assert_eq!(whole(b"\xfe\x02\x00", false, &mut types), Ok(vec![0x22]));
        assert_eq!(whole(b"\xff", false, &mut types), Ok(vec![]));
    }

    #[test]
    fn all_codes() {
        let mut types = Types::default();
        let (array, bounded, fixed) = (b"\x4b", b"\x53\xfe\x00\x00\x01\x00", b"\x38\x03");
        assert_eq!(whole(array, false, &mut types).as_deref(), Ok(&array[..]));
        assert_eq!(whole(bounded, true, &mut types), Ok(b"\x53\xfe\x00\x01\x00\x00".to_vec()));
        assert_eq!(head(&mut Cursor::new(bounded, true)), Ok(Head::Scalar(Scalar(0x43), Shape::Array)));
        assert_eq!(head(&mut Cursor::new(fixed, true)), Ok(Head::Scalar(Scalar(0x20), Shape::Fixed(3))));
        // one text of up to nine bytes; up to nine texts
        assert_eq!(head(&mut Cursor::new(b"\x83\x09", true)), Ok(Head::Scalar(Scalar::STRING, Shape::One)));
        assert_eq!(head(&mut Cursor::new(b"\x70\x09", true)), Ok(Head::Scalar(Scalar::STRING, Shape::Array)));
        let long = whole(b"\x83\xfe\x00\x00\x01\x00", true, &mut types);
        assert_eq!(long, Ok(b"\x83\xfe\x00\x01\x00\x00".to_vec()));
        for (wire, bits) in [
            (&b"\x80\x00\x02\x01x\x83\x09\x01y\x60"[..], 3),
            (b"\x82", 1),
            (b"\x8a", 1),
            (b"\x88\x80\x00\x01\x01x\x60", 1),
            (b"\x81\x00\x01\x01x\x60", 1),
        ] {
            let found = whole(wire, false, &mut types).unwrap();
            assert_eq!(skip(&mut Cursor::new(&found, false), 0), Ok(bits));
        }
        for wrong in [&b"\x01"[..], b"\x44", b"\xfc\x00\x00", b"\x83", b"\x8b\x01", b"\x90\x01", b"\x92\x01"]
        {
            let found = whole(wrong, false, &mut types);
            assert!(matches!(found, Err(Fault::Wrong | Fault::Short)), "{wrong:x?} {found:?}");
        }
    }

    /// Each level is twice the one before.
    #[test]
    fn what_would_explode_is_given_up() {
        let mut types = Types::default();
        assert!(whole(b"\xfd\x00\x00\x80\x00\x01\x01a\x43", false, &mut types).is_ok());
        let mut last = Ok(Vec::new());
        for level in 1..40u8 {
            let wire = [0xfd, level, 0, 0x80, 0, 2, 1, b'a', 0xfe, level - 1, 0, 1, b'b', 0xfe, level - 1, 0];
            last = whole(&wire, false, &mut types);
        }
        assert!(last.is_err());
        assert!(types.0.values().all(|known| known.len() <= LONGEST));
        // one in the other, deeper than the stack would bear
        let mut types = Types::default();
        assert!(whole(b"\xfd\x00\x00\x43", false, &mut types).is_ok());
        for _ in 0..1000 {
            let _ = whole(b"\xfd\x00\x00\x80\x00\x01\x01a\xfe\x00\x00", false, &mut types);
        }
        assert!(skip(&mut Cursor::new(types.find(0).unwrap(), false), 0).is_ok());
    }
}
