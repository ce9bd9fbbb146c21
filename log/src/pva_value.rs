//! Takes apart values that PVAccess sent: fields by name.
//!
//! The log holds a value as it was sent and the number of its type. Where the type is not known (the circuit is older
//! than the recording), the usual forms of a put to a record still show its value: the set of changed fields has bit 1
//! alone, and what follows is as long as a number, or as a text's size says.

mod main;

use crate::context::Context;
use crate::event::{Array, Dbf, PvaTypeId, PvaValue, Value};
use epics::pva::cursor::text;
use epics::pva::types::{describe, Registry, Scalar};
use epics::pva::value::{self, Visitor};
use epics::pva::{Cursor, Fault, Leaf, Read};

/// Fields that are kept of a value: no record and few groups have as many.
const MAX_FIELDS: usize = 200;
/// Bytes of the path of a field.
const MAX_PATH: usize = 300;
/// Bytes of an element of an array of texts, as Channel Access has them.
const TEXT: usize = 40;

/// A value, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// The fields that were sent, by path (`value`, `alarm.severity`), in their order.
    pub fields: Vec<(String, Value)>,
    /// The name of the type of the first field.
    pub kind: String,
    /// Whether fields are missing here: the log holds only the beginning, or the type is not known.
    pub is_cut: bool,
    /// Whether the type is known.
    pub is_known: bool,
    /// Which of the fields is the value that a record's field gets ([`Sent::main`]), if one is.
    pub main: Option<usize>,
    /// Whether that is a text, and only its beginning.
    pub main_cut: bool,
}

impl Sent {
    /// The value that a record's field gets: `value`, the index of an enum, the member of a union. What has several
    /// parts, as a table has, has none: no part of it stands for all.
    pub fn main(&self) -> Option<&Value> {
        self.fields.get(self.main?).map(|(_, value)| value)
    }

    /// The text of this index among the choices of an enum that were sent.
    pub fn choice(&self, index: &Value) -> Option<String> {
        let Value::Int(index) = index else { return None };
        let index = usize::try_from(*index).ok()?;
        let long = format!("value.choices[{index}]");
        let found = self.fields.iter().find_map(|(path, value)| match value {
            Value::Array(choices) if path == "value.choices" => crate::value::elements(choices).nth(index),
            Value::Text(_) if *path == long => Some(value.clone()),
            _ => None,
        })?;
        match found {
            Value::Text(bytes) => Some(text(&bytes)),
            _ => None,
        }
    }
}

/// A part of a value for people. Where [`Value::Unknown`] is sent, it is known that there is nothing: no member of a
/// union, no element.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Unknown => "none".to_owned(),
        value => crate::value::text(value),
    }
}

/// Takes a value apart. `changed`: it begins with the set of changed fields.
pub fn sent(context: &Context, value: &PvaValue, changed: bool) -> Sent {
    let Some((first, others)) = value.types.split_first() else { return Sent::default() };
    let whole = usize::try_from(value.length).is_ok_and(|length| length == value.bytes.len());
    let Some(of) = context.in_force().pva_types.get(*first) else {
        return if changed { guess(value) } else { Sent { is_cut: true, ..Sent::default() } };
    };
    let mut fields =
        Fields { context, others: others.iter(), big_endian: value.big_endian, ..Fields::new(context) };
    let cursor = &mut Cursor::new(&value.bytes, value.big_endian);
    let done = match changed {
        true => cursor.bits().and_then(|bits| value::changed(&of.description, bits, cursor, &mut fields)),
        false => value::whole(&of.description, cursor, &mut fields),
    };
    let is_cut = done.is_err() || fields.left_out || !whole && cursor.is_empty();
    let main = main::place(&of.description, &fields.found);
    let kind = match (main, fields.kinds.as_slice()) {
        (Some(place), _) if fields.found.get(place).is_some_and(|(path, _)| path == "value.index") => {
            "enum".to_owned()
        }
        (Some(place), kinds) => kinds.get(place).map(|kind| kind.name()).unwrap_or_default(),
        (None, [only]) => only.name(),
        (None, []) => String::new(),
        (None, _) => "structure".to_owned(),
    };
    let main_cut = main.is_some() && main == fields.beginning;
    Sent { fields: fields.found, kind, is_cut, is_known: true, main, main_cut }
}

/// The options in a request: `process`, `block` and others of `record._options`.
pub fn options(context: &Context, value: &PvaValue) -> Vec<(String, String)> {
    let option = |(path, value): (String, Value)| {
        let name = path.strip_prefix("record._options.")?.to_owned();
        Some((
            name,
            match value {
                Value::Text(bytes) => text(&bytes),
                other => crate::value::text(&other),
            },
        ))
    };
    sent(context, value, false).fields.into_iter().filter_map(option).collect()
}

/// A put of which the type is not known.
fn guess(value: &PvaValue) -> Sent {
    let mut cursor = Cursor::new(&value.bytes, value.big_endian);
    let (bits, rest) = match cursor.bits() {
        Ok(bits) => (bits, cursor.rest()),
        Err(_) => return Sent { is_cut: true, ..Sent::default() },
    };
    let unknown = Sent { is_cut: true, ..Sent::default() };
    let found = match (bits, rest.len()) {
        // an enum's index
        ([4], 4) => cursor.u32().ok().map(|index| Value::Int(i64::from(index as i32))),
        ([2], _) => cursor
            .string()
            .ok()
            // as long as a number: it may be one
            .filter(|_| cursor.is_empty() && !matches!(rest.len(), 1 | 2 | 4 | 8))
            .map(|bytes| Value::Text(bytes.to_vec())),
        _ => None,
    };
    match found {
        Some(Value::Text(text)) if text.iter().all(|byte| *byte >= b' ') => {
            Sent { fields: vec![("value".to_owned(), Value::Text(text))], main: Some(0), ..unknown }
        }
        Some(index @ Value::Int(_)) => {
            Sent { fields: vec![("value.index".to_owned(), index)], main: Some(0), ..unknown }
        }
        _ => unknown,
    }
}

/// The number or short text that a put of an unknown type may hold, read as each type that fits.
pub fn possible(value: &PvaValue) -> Vec<Value> {
    let mut cursor = Cursor::new(&value.bytes, value.big_endian);
    if cursor.bits() != Ok(&[2]) {
        return Vec::new();
    }
    let rest = cursor.rest();
    let codes = [0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x42, 0x43].map(Scalar);
    let fitting = codes.into_iter().filter(|scalar| scalar.width() == Some(rest.len()));
    let mut possible: Vec<Value> = fitting.map(|scalar| one(scalar, rest, value.big_endian)).collect();
    let text = cursor.string().ok().filter(|_| cursor.is_empty());
    possible.extend(text.filter(|_| !possible.is_empty()).map(|text| Value::Text(text.to_vec())));
    possible
}

/// Collects fields.
struct Fields<'a> {
    context: &'a Context,
    others: std::slice::Iter<'a, PvaTypeId>,
    big_endian: bool,
    path: Vec<String>,
    found: Vec<(String, Value)>,
    /// The type of each, in the specification's words.
    kinds: Vec<Kind>,
    /// The last one that is a text of which only the beginning is there.
    beginning: Option<usize>,
    left_out: bool,
}

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    One(Scalar),
    Many(Scalar),
    Structures,
    Nothing,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::One(scalar) => scalar.name().to_owned(),
            Kind::Many(scalar) => format!("{}[]", scalar.name()),
            Kind::Structures => "structure[]".to_owned(),
            Kind::Nothing => String::new(),
        }
    }
}

impl<'a> Fields<'a> {
    fn new(context: &'a Context) -> Fields<'a> {
        Fields {
            context,
            others: [].iter(),
            big_endian: false,
            path: Vec::new(),
            found: Vec::new(),
            kinds: Vec::new(),
            beginning: None,
            left_out: false,
        }
    }
}

impl Fields<'_> {
    fn keep(&mut self, path: String, kind: Kind, value: Value) {
        if self.found.len() >= MAX_FIELDS || path.len() > MAX_PATH {
            self.left_out = true;
            return;
        }
        self.found.push((path, value));
        self.kinds.push(kind);
    }
}

impl Visitor for Fields<'_> {
    fn enter(&mut self, name: &[u8]) {
        self.path.push(text(name));
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    fn leaf(&mut self, leaf: Leaf<'_>) {
        let path = self.path.join(".").replace(".[", "[");
        let (kind, value) = match leaf {
            Leaf::One(scalar, bytes) => (Kind::One(scalar), one(scalar, bytes, self.big_endian)),
            Leaf::Beginning([]) => return, // the error that follows says that it is not there
            Leaf::Beginning(bytes) => {
                self.beginning = Some(self.found.len());
                (Kind::One(Scalar::STRING), Value::Text(whole_letters(bytes).to_vec()))
            }
            Leaf::Many(Scalar::STRING, _, bytes) if has_long(bytes, self.big_endian) => {
                // arrays of texts have room for short ones
                let mut cursor = Cursor::new(bytes, self.big_endian);
                let mut number = 0;
                while let Ok(text) = cursor.string() {
                    self.keep(
                        format!("{path}[{number}]"),
                        Kind::One(Scalar::STRING),
                        Value::Text(text.to_vec()),
                    );
                    number += 1;
                }
                return;
            }
            Leaf::Many(scalar, count, bytes) => {
                (Kind::Many(scalar), many(scalar, count, bytes, self.big_endian))
            }
            Leaf::Empty => {
                (Kind::Structures, Value::Array(Array { dbf: Dbf::String, count: 0, bytes: Vec::new() }))
            }
            Leaf::Nothing => (Kind::Nothing, Value::Unknown),
        };
        self.keep(path, kind, value);
    }

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        // what the wire says may refer to other messages; the log has the type
        let is_there = describe(value, &mut Whatever, &mut Vec::new())?;
        let of = self.others.next().copied().unwrap_or_default();
        if !is_there {
            return Ok(false);
        }
        let of = self.context.in_force().pva_types.get(of).ok_or(Fault::UnknownType)?;
        out.extend_from_slice(&of.description);
        Ok(true)
    }
}

/// Whether one of these texts is too long for an array.
fn has_long(bytes: &[u8], big_endian: bool) -> bool {
    let mut cursor = Cursor::new(bytes, big_endian);
    std::iter::from_fn(|| cursor.string().ok()).any(|text| text.len() >= TEXT)
}

/// The bytes of the beginning of a text, without those of a letter that is cut.
fn whole_letters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        _ => bytes,
    }
}

/// Knows every type, as something.
struct Whatever;

impl Registry for Whatever {
    fn define(&mut self, _: u16, _: &[u8]) {}

    fn find(&self, _: u16) -> Option<&[u8]> {
        Some(&[0])
    }
}

fn one(scalar: Scalar, bytes: &[u8], big_endian: bool) -> Value {
    let bits = || Cursor::new(bytes, big_endian).number(bytes.len()).unwrap_or_default();
    match scalar {
        Scalar::STRING => Value::Text(bytes.to_vec()),
        Scalar::FLOAT => Value::Float(f32::from_bits(bits() as u32)),
        Scalar::DOUBLE => Value::Double(f64::from_bits(bits())),
        _ => match value::integer(scalar, bytes, big_endian) {
            Some(number) => i64::try_from(number).map_or(Value::UInt(number as u64), Value::Int),
            None => Value::Unknown,
        },
    }
}

fn many(scalar: Scalar, count: usize, bytes: &[u8], big_endian: bool) -> Value {
    let dbf = match scalar.0 {
        0x00 | 0x24 => Dbf::UChar,
        0x20 => Dbf::Char,
        0x21 => Dbf::Short,
        0x22 => Dbf::Long,
        0x23 => Dbf::Int64,
        0x25 => Dbf::UShort,
        0x26 => Dbf::ULong,
        0x27 => Dbf::UInt64,
        0x42 => Dbf::Float,
        0x43 => Dbf::Double,
        _ => Dbf::String,
    };
    let mut held = Vec::new();
    match scalar.width() {
        Some(width) => {
            for element in bytes.chunks_exact(width) {
                match big_endian {
                    true => held.extend(element.iter().rev()),
                    false => held.extend_from_slice(element),
                }
            }
        }
        None => {
            let mut cursor = Cursor::new(bytes, big_endian);
            while let Ok(text) = cursor.string() {
                let end = held.len() + TEXT;
                held.extend_from_slice(text.get(..TEXT - 1).unwrap_or(text));
                held.resize(end, 0);
                if cursor.is_empty() {
                    break;
                }
            }
        }
    }
    Value::Array(Array { dbf, count: u32::try_from(count).unwrap_or(u32::MAX), bytes: held })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Fact, PvaType};

    fn context(descriptions: &[&[u8]]) -> Context {
        let mut context = Context::default();
        for (id, description) in (1..).zip(descriptions) {
            context.apply(0, &Fact::PvaType(PvaType { id, description: description.to_vec() }));
        }
        context
    }

    fn value(types: &[u32], big_endian: bool, bytes: &[u8]) -> PvaValue {
        PvaValue { types: types.to_vec(), big_endian, length: bytes.len() as u32, bytes: bytes.to_vec() }
    }

    #[test]
    fn fields_by_name_in_both_orders() {
        let of = b"\x80\x00\x02\x05value\x43\x05alarm\x80\x00\x01\x08severity\x22";
        let context = context(&[of]);
        let bytes = [&[1, 0b1010][..], &3.5f64.to_be_bytes(), &2i32.to_be_bytes()].concat();
        let found = sent(&context, &value(&[1], true, &bytes), true);
        let fields =
            vec![("value".to_owned(), Value::Double(3.5)), ("alarm.severity".to_owned(), Value::Int(2))];
        assert_eq!(
            found,
            Sent { fields, kind: "double".into(), is_known: true, main: Some(0), ..Sent::default() }
        );
        assert_eq!(found.main(), Some(&Value::Double(3.5)));
        // nothing
        let found = sent(&context, &value(&[1], true, &[0]), true);
        assert!(found.main().is_none() && !found.is_cut);
        assert_eq!(sent(&context, &PvaValue::default(), true), Sent::default());
    }

    #[test]
    fn enums_unions_anys_and_arrays() {
        let of = b"\x80\x00\x04\x05value\x80\x06enum_t\x02\x05index\x22\x07choices\x68\x01u\x81\x00\x01\x01d\x43\x01x\x82\x01a\x2d";
        let context = context(&[of, b"\x80\x00\x01\x01n\x22"]);
        let found = sent(&context, &value(&[1], false, b"\x01\x04\x01\x00\x00\x00"), true);
        assert_eq!((found.main(), found.kind.as_str()), (Some(&Value::Int(1)), "enum"));
        // the any's type is the other one, whatever number the client has for it
        let found = sent(&context, &value(&[1, 2], false, b"\x01\x20\xfe\x63\x00\x07\x00\x00\x00"), true);
        assert_eq!(found.fields, [("x.n".to_owned(), Value::Int(7))]);
        let found = sent(&context, &value(&[1, 0], false, b"\x01\x20\xfe\x63\x00\x07\x00\x00\x00"), true);
        assert!(found.fields.is_empty() && found.is_cut);
        let mut array = value(&[1], false, b"\x01\x40\x04\x01\x00\x02\x00");
        array.length = 9;
        let found = sent(&context, &array, true);
        let expected = Array { dbf: Dbf::UShort, count: 4, bytes: vec![1, 0, 2, 0] };
        assert_eq!((found.fields, found.is_cut), (vec![("a".to_owned(), Value::Array(expected))], true));
        let texts = many(Scalar::STRING, 2, b"\x01a\x02bc", false);
        let both = [&b"a"[..], b"bc"].map(|text| [text, &[0; TEXT][text.len()..]].concat()).concat();
        assert_eq!(texts, Value::Array(Array { dbf: Dbf::String, count: 2, bytes: both }));
    }

    /// What has several parts is not said by one of them.
    #[test]
    fn parts_do_not_stand_for_the_whole() {
        let number = |big: bool, n: i32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        for big in [false, true] {
            let table = b"\x80\x00\x02\x05value\x80\x00\x02\x01a\x2a\x01b\x22\x01q\x22";
            let union = b"\x80\x00\x01\x05value\x81\x00\x02\x01n\x22\x01s\x80\x00\x02\x01x\x22\x01y\x22";
            let enumeration = b"\x80\x00\x01\x05value\x80\x00\x02\x05index\x22\x07choices\x68";
            let many = b"\x80\x00\x01\x05value\x88\x80\x00\x01\x01n\x22";
            let context = context(&[table, union, enumeration, many]);
            let found = |of: u32, parts: &[&[u8]]| sent(&context, &value(&[of], big, &parts.concat()), true);
            let [one, two] = [1, 2].map(|n| number(big, n));
            // a column, another field, both parts of the structure
            let column = found(1, &[b"\x01\x08", &two]);
            assert_eq!(column.main(), None);
            assert_eq!(column.fields, [("value.b".to_owned(), Value::Int(2))]);
            assert_eq!(found(1, &[b"\x01\x10", &two]).main(), None);
            let whole = found(1, &[b"\x01\x02\x01", &one, &two]);
            assert_eq!((whole.main(), whole.fields.len(), &*whole.kind), (None, 2, "structure"));
            assert!(!whole.is_cut);
            // the member of a union, if it has one part; none
            assert_eq!(found(2, &[b"\x01\x02\x00", &two]).main(), Some(&Value::Int(2)));
            let found_parts = found(2, &[b"\x01\x02\x01", &one, &two]);
            assert_eq!((found_parts.main(), found_parts.fields.len()), (None, 2));
            let none = found(2, &[b"\x01\x02\xff"]);
            assert_eq!(none.fields.iter().map(|(_, value)| shown(value)).collect::<Vec<_>>(), ["none"]);
            // an index, with or without choices
            assert_eq!(found(3, &[b"\x01\x04", &one]).main(), Some(&Value::Int(1)));
            let both = found(3, &[b"\x01\x02", &one, b"\x02\x03Off\x02On"]);
            assert_eq!((both.main(), both.kind.as_str()), (Some(&Value::Int(1)), "enum"));
            assert_eq!(both.choice(&Value::Int(1)).as_deref(), Some("On"));
            assert_eq!([2, -1].map(|index| both.choice(&Value::Int(index))), [None, None]);
            // elements that are not there, and no elements
            let elements = found(4, &[b"\x01\x02\x03\x01", &one, b"\x00\x01", &two]);
            let shown: Vec<String> =
                elements.fields.iter().map(|(path, value)| format!("{path}={}", shown(value))).collect();
            assert_eq!(shown, ["value[0].n=1", "value[1]=none", "value[2].n=2"]);
            let empty = found(4, &[b"\x01\x02\x00"]);
            assert!(matches!(empty.main(), Some(Value::Array(Array { count: 0, .. }))), "{empty:?}");
        }
    }

    #[test]
    fn texts_that_are_long_or_cut() {
        let context = context(&[b"\x80\x00\x01\x05value\x60", b"\x80\x00\x01\x05value\x68"]);
        // the log has a letter and a half of nine bytes
        let mut cut = value(&[1], false, "\u{1}\u{2}\u{9}\u{fc}\u{fc}".as_bytes());
        cut.bytes.truncate(6);
        let found = sent(&context, &cut, true);
        assert_eq!((found.main(), found.main_cut), (Some(&Value::Text("\u{fc}".into())), true));
        assert!(found.is_cut && found.kind == "string");
        cut.bytes.truncate(3);
        let found = sent(&context, &cut, true);
        assert!(found.fields.is_empty() && found.is_cut, "{found:?}");
        // arrays of texts have no room for more than 39 bytes
        let long = [&b"\x01\x02\x02\x01a\x28"[..], &[b'x'; 40]].concat();
        let found = sent(&context, &value(&[2], false, &long), true);
        let expected = [("value[0]", b"a".to_vec()), ("value[1]", vec![b'x'; 40])];
        let expected = expected.map(|(path, text)| (path.to_owned(), Value::Text(text)));
        assert_eq!((found.main(), found.is_cut), (None, false));
        assert_eq!(found.fields, expected);
    }

    /// As pvAccessCPP describes them: the text is sent as any other.
    #[test]
    fn texts_of_a_bounded_length() {
        let context = context(&[b"\x80\x00\x03\x05value\x83\x10\x01a\x70\x10\x01n\x22"]);
        let bytes = b"\x01\x0e\x02hi\x02\x01b\x02cd\x07\x00\x00\x00";
        let found = sent(&context, &value(&[1], false, bytes), true);
        assert_eq!((found.main(), found.kind.as_str()), (Some(&Value::Text(b"hi".to_vec())), "string"));
        let shown: Vec<String> = found.fields.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!((shown.join(" "), found.is_cut), ("value a n".to_owned(), false));
        assert_eq!(found.fields.last(), Some(&("n".to_owned(), Value::Int(7))));
    }

    /// What may be a number is not said to be a text.
    #[test]
    fn short_values_without_a_type_are_not_guessed() {
        let unknown = |bytes: &[u8]| value(&[0], false, bytes);
        let number = unknown(b"\x01\x02\x03abc");
        assert_eq!(sent(&Context::default(), &number, true).main(), None);
        assert!(possible(&number).contains(&Value::Text(b"abc".to_vec())), "{:?}", possible(&number));
    }

    #[test]
    fn what_can_be_said_without_a_type() {
        let context = Context::default();
        let found = |bytes: &[u8]| sent(&context, &value(&[0], false, bytes), true);
        assert_eq!(found(b"\x01\x04\x02\x00\x00\x00").main(), Some(&Value::Int(2)));
        assert_eq!(found(b"\x01\x02\x02hi").main(), Some(&Value::Text(b"hi".to_vec())));
        assert_eq!(found(&[1, 2, 0, 0, 0, 0, 0, 0, 0xc, 0x40]).main(), None);
        let possible = possible(&value(&[0], false, &[1, 2, 0, 0, 0, 0, 0, 0, 0xc, 0x40]));
        assert!(possible.contains(&Value::Double(3.5)) && possible.len() == 3, "{possible:?}");
        assert!(!found(b"\x01\x02\x02hi").is_known);
    }

    #[test]
    fn options_of_a_request() {
        let of = b"\x80\x00\x01\x06record\x80\x00\x01\x08_options\x80\x00\x02\x07process\x60\x05block\x60";
        let context = context(&[of]);
        let found = options(&context, &value(&[1], false, b"\x04true\x05false"));
        assert_eq!(found, [("process".into(), "true".into()), ("block".into(), "false".into())]);
    }
}
