//! Values: decoding Channel Access payloads, comparing, converting and printing.

use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value as shared;
pub use iocrec_log::value::{elements, from_channel_access, push_lossy};
use shared::{not_finite, until_nul};

/// Appends `value` for people, as [`shared::push_text`] does. Most values are floating-point numbers with many digits: these
/// take a third of the time that the standard library needs, and are the same.
///
/// Both write the fewest digits that denote the number. They may differ only where two such texts are equally near to it:
/// then it has a finite number of digits itself, one more than these. Below 2^32 its lowest twelve bits are 0 then: with m
/// bits after the point, of which j are used, it has j digits after the point, and one digit fewer denotes it if
/// 5 / 10^j < 1 / 2^(m + 1), but two fewer do not if m > 3.3 (j - 2). With m of 20 at least, m - j is 12 at least.
pub fn push_text(out: &mut String, value: &Value) {
    match value {
        Value::Double(number)
            if (1e-4..4_294_967_296.0).contains(&number.abs()) && number.to_bits().trailing_zeros() < 12 =>
        {
            let mut buffer = zmij::Buffer::new();
            let digits = buffer.format_finite(*number);
            out.push_str(digits.strip_suffix(".0").unwrap_or(digits));
        }
        _ => shared::push_text(out, value),
    }
}

/// Room for the text of most numbers.
const NUMBER: usize = 24;

/// `value` for people; see [`push_text`].
pub fn text(value: &Value) -> String {
    let mut text = String::with_capacity(NUMBER);
    push_text(&mut text, value);
    text
}

/// Bytes that a value takes beside itself on the heap.
pub fn heap(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Array(array) => array.bytes.len(),
        _ => 0,
    }
}

/// A number as a double; `None` for text and arrays.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(v) => Some(*v as f64),
        Value::UInt(v) => Some(*v as f64),
        Value::Float(v) => Some(f64::from(*v)),
        Value::Double(v) => Some(*v),
        _ => None,
    }
}

/// Whether two values are the same, as far as both are known. `None` if one is unknown.
pub fn same(a: &Value, b: &Value) -> Option<bool> {
    Some(match (a, b) {
        (Value::Unknown, _) | (_, Value::Unknown) => return None,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::UInt(a), Value::UInt(b)) => a == b,
        (Value::Int(a), Value::UInt(b)) | (Value::UInt(b), Value::Int(a)) => u64::try_from(*a) == Ok(*b),
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => {
            // Both may be cut, and at different lengths.
            let common = a.bytes.len().min(b.bytes.len());
            let equal = a.bytes.get(..common) == b.bytes.get(..common);
            a.dbf.size() == b.dbf.size() && a.count == b.count && equal
        }
        // The characters of a text, and the text itself.
        (Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, count, bytes }), Value::Text(text))
        | (Value::Text(text), Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, count, bytes })) => {
            let whole = bytes.contains(&0) || usize::try_from(*count) == Ok(bytes.len());
            if whole {
                until_nul(bytes) == text.as_slice()
            } else {
                text.starts_with(bytes)
            }
        }
        // An array of one element, and the element: senders encode that differently.
        (Value::Array(array), single) | (single, Value::Array(array)) if array.count == 1 => {
            return elements(array).next().and_then(|first| same(&first, single));
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        },
    })
}

/// Whether a value can be one of which a put found the beginning, or all of it. `None` if one is unknown.
pub fn agrees(known: &Value, found: &Value, is_cut: bool) -> Option<bool> {
    let whole = match known {
        Value::Text(text) => text.as_slice(),
        Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, bytes, .. }) => until_nul(bytes),
        _ => return same(known, found),
    };
    match found {
        Value::Text(beginning) if is_cut => Some(whole.starts_with(beginning)),
        _ => same(known, found),
    }
}

/// The same of two values, of each of which it is known whether it may be only the beginning.
pub fn agree((one, is_cut): (&Value, bool), (other, is_other_cut): (&Value, bool)) -> Option<bool> {
    match (is_cut, is_other_cut) {
        (false, _) => agrees(one, other, is_other_cut),
        (true, false) => agrees(other, one, true),
        // they may have been cut at different lengths
        (true, true) => match agrees(one, other, true) {
            Some(false) => agrees(other, one, true),
            decided => decided,
        },
    }
}

/// Whether a field holds what was asked for, perhaps in another type: texts read as numbers, or numbers with 32 bits. A number
/// that lost its fraction, or became another one, is not what was asked for.
pub fn is_as_asked(asked: &Value, found: &Value) -> bool {
    match (asked, found) {
        // Both may be cut, and at different lengths.
        (Value::Array(asked), Value::Array(found)) => {
            let mut pairs = elements(asked).zip(elements(found));
            asked.count == found.count && pairs.all(|(asked, found)| is_as_asked(&asked, &found))
        }
        (Value::Array(asked), found) if asked.count == 1 => {
            elements(asked).next().is_some_and(|asked| is_as_asked(&asked, found))
        }
        (asked, Value::Array(found)) if found.count == 1 => {
            elements(found).next().is_some_and(|found| is_as_asked(asked, &found))
        }
        // an empty text is no number, though it is written as 0
        (Value::Text(text), found) if text.is_empty() => same(asked, found) == Some(true),
        _ => {
            let dbf = match (asked, found) {
                (_, Value::Float(_)) => Some(Dbf::Float),
                (Value::Text(_), Value::Double(_)) => Some(Dbf::Double),
                // which an integer field takes without its fraction
                (Value::Text(text), Value::Int(_) | Value::UInt(_)) if text.contains(&b'.') => {
                    Some(Dbf::Double)
                }
                // or without its sign
                (Value::Text(text), Value::UInt(_)) if text.contains(&b'-') => Some(Dbf::Double),
                (Value::Text(_), Value::Int(_)) => Some(Dbf::Int64),
                (Value::Text(_), Value::UInt(_)) => Some(Dbf::UInt64),
                _ => None,
            };
            let read = dbf.map_or_else(|| asked.clone(), |dbf| convert(asked, dbf));
            same(&read, found) == Some(true)
        }
    }
}

/// Whether a link that was given `given` can have sent `sent`, converted to the target's type. Like [`same`], but
/// allows for that conversion.
pub fn same_through_link(given: &Value, sent: &Value) -> Option<bool> {
    match (given, sent) {
        (Value::Double(_) | Value::Float(_) | Value::Int(_) | Value::UInt(_), Value::Int(sent)) => {
            is_shortened(given, *sent)
        }
        (Value::Double(v), Value::Float(sent)) => Some(*v as f32 == *sent || (v.is_nan() && sent.is_nan())),
        (Value::Text(text), other) if number(other).is_some() => {
            let text = std::str::from_utf8(text).ok()?;
            same_through_link(&Value::Double(text.trim().parse().ok()?), other)
        }
        // Links write numbers to string fields with the record's precision: not comparable.
        (_, Value::Text(_)) if number(given).is_some() => None,
        _ => same(given, sent),
    }
}

/// Whether a number can have become this integer of Channel Access, of which it is not known here how long it is: 8, 16 or 32
/// bits. `None` if that depends on it.
fn is_shortened(given: &Value, sent: i64) -> Option<bool> {
    let whole = match given {
        Value::Int(whole) => *whole,
        Value::UInt(whole) => *whole as i64,
        _ => {
            let whole = number(given)?.trunc();
            // C leaves open what becomes of one that is not a number, or does not fit, and machines differ
            if !(-TWO_31..TWO_31).contains(&whole) {
                return if whole == sent as f64 { Some(true) } else { None };
            }
            whole as i64
        }
    };
    if whole == sent {
        return Some(true);
    }
    let types = [Dbf::Char, Dbf::UChar, Dbf::Short, Dbf::UShort, Dbf::Long, Dbf::ULong];
    match types.iter().any(|dbf| shared::wrapped(whole, *dbf) == sent) {
        true => None,
        false => Some(false),
    }
}

/// Whether [`same_through_link`] can hold for these numbers, whatever their types are; always if the one sent is not a number.
pub fn can_become(given: f64, sent: f64) -> bool {
    let whole = given.trunc();
    given == sent
        || whole == sent
        || f64::from(given as f32) == sent
        || sent.is_nan()
        || !(-TWO_31..TWO_31).contains(&whole)
        // a shorter integer has the lowest bits
        || whole as i64 as u8 == sent as i64 as u8
}

/// `value` as a field of type `dbf` would hold it, as far as the reader can know; otherwise unchanged.
pub fn convert(value: &Value, dbf: Dbf) -> Value {
    let read;
    let value = match single_text(value) {
        // Numbers requested as text, as `caput` and many panels do.
        Some(text) if dbf.is_number() => {
            let Some(number) = read_number(text, dbf) else { return value.clone() };
            read = number;
            &read
        }
        _ => value,
    };
    let Some(number) = number(value) else { return value.clone() };
    match dbf {
        Dbf::Float => Value::Float(number as f32),
        Dbf::Double => Value::Double(number),
        Dbf::String => {
            let mut text = String::new();
            push_text(&mut text, value);
            Value::Text(text.into_bytes())
        }
        _ if !dbf.is_number() => value.clone(),
        _ => match (value, dbf) {
            (Value::UInt(_) | Value::Int(0..), Dbf::UInt64) => value.clone(),
            (Value::Int(whole), Dbf::UInt64) => Value::UInt(*whole as u64),
            (Value::UInt(whole), _) => Value::Int(shared::wrapped(*whole as i64, dbf)),
            (Value::Int(whole), _) => Value::Int(shared::wrapped(*whole, dbf)),
            _ => without_fraction(number, dbf).unwrap_or_else(|| value.clone()),
        },
    }
}

/// Powers of two that bound integers.
const TWO_31: f64 = 2_147_483_648.0;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// A floating-point number in an integer field; `None` if C leaves open what that is, and machines differ: of one that is
/// not a number, or that does not fit.
fn without_fraction(number: f64, dbf: Dbf) -> Option<Value> {
    let whole = number.trunc();
    let fits = match dbf {
        Dbf::UInt64 => return (0.0..2.0 * TWO_63).contains(&whole).then_some(Value::UInt(whole as u64)),
        Dbf::Int64 | Dbf::ULong => (-TWO_63..TWO_63).contains(&whole),
        // smaller ones are the lowest bytes of one of 32 bits
        _ => (-TWO_31..TWO_31).contains(&whole),
    };
    fits.then(|| Value::Int(shared::wrapped(whole as i64, dbf)))
}

/// The number that the IOC reads in a text for a field of this type (dbFastLinkConv.c, epicsStdlib.c); `None` if it is no
/// number, too large, or read as another one by other versions of Base.
fn read_number(text: &str, dbf: Dbf) -> Option<Value> {
    if text.is_empty() {
        return Some(Value::Int(0));
    }
    let text = text.trim();
    let as_double = || text.parse().ok().map(Value::Double);
    match dbf {
        Dbf::Float | Dbf::Double => as_double(),
        // which Base takes for a double as well
        Dbf::ULong if text.contains(['e', 'E']) => as_double(),
        _ => read_integer(text, dbf),
    }
}

/// The same for an integer, which has all digits: as a double, those above 2^53 would be others.
fn read_integer(text: &str, dbf: Dbf) -> Option<Value> {
    // what follows the integer is taken for its units
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number: i128 = text.parse().ok().filter(|_| fraction.bytes().all(|digit| digit.is_ascii_digit()))?;
    let digits = text.trim_start_matches(['+', '-']);
    // recent versions read octal numbers
    if digits.len() > 1 && digits.starts_with('0') && number.unsigned_abs() > 7 {
        return None;
    }
    let half = 1_i128 << (8 * dbf.size() - 1);
    let (least, most) = match dbf {
        Dbf::Char | Dbf::Short | Dbf::Long | Dbf::Int64 => (-half, half - 1),
        // strtoul takes a sign: then they are counted from the end
        _ => (1 - 2 * half, 2 * half - 1),
    };
    let read = i64::try_from(number).map_or_else(|_| Value::UInt(number as u64), Value::Int);
    (least..=most).contains(&number).then_some(read)
}

/// A character array as text, for records with long strings and for fields read as `FIELD$`. Any other value unchanged.
pub fn long_text(value: &Value) -> Value {
    match value {
        Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, bytes, .. }) => {
            Value::Text(until_nul(bytes).to_vec())
        }
        _ => value.clone(),
    }
}

fn single_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// `value` for JSON: null if unknown; NaN and infinities as strings, since JSON has no such numbers.
pub fn json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Unknown => Json::Null,
        Value::Int(v) => (*v).into(),
        Value::UInt(v) => (*v).into(),
        Value::Float(v) if v.is_finite() => {
            // By its own digits: converted to a double, 0.1 would read 0.10000000149011612.
            v.to_string().parse::<f64>().map_or(Json::Null, Json::from)
        }
        Value::Double(v) if v.is_finite() => (*v).into(),
        Value::Float(v) => not_finite(f64::from(*v)).into(),
        Value::Double(v) => not_finite(*v).into(),
        Value::Text(bytes) => {
            let mut text = String::new();
            push_lossy(&mut text, bytes);
            text.into()
        }
        Value::Array(array) => elements(array).map(|v| json(&v)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_put_found_can_be_what_was_known() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let characters = Value::Array(Array { dbf: Dbf::Char, count: 5, bytes: b"whole".to_vec() });
        for known in [&text("whole"), &characters] {
            assert_eq!(agrees(known, &text("who"), true), Some(true), "{known:?}");
            assert_eq!(agrees(known, &text("who"), false), Some(false), "{known:?}");
            assert_eq!(agrees(known, &text("why"), true), Some(false), "{known:?}");
            assert_eq!(agrees(known, &text("whole"), false), Some(true), "{known:?}");
        }
        assert_eq!(agrees(&Value::Unknown, &text("who"), true), None);
        assert_eq!(agrees(&Value::Int(1), &Value::Int(1), false), Some(true));
    }

    /// Whichever of them was read in full.
    #[test]
    fn a_beginning_can_be_the_whole() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let (whole, beginning, other) = (text("whole"), text("who"), text("why"));
        for (one, cut, two, is_other_cut, expected) in [
            (&beginning, true, &whole, false, true),
            (&whole, false, &beginning, true, true),
            (&beginning, true, &whole, true, true),
            (&whole, true, &beginning, true, true),
            (&beginning, false, &whole, false, false),
            (&beginning, false, &whole, true, false),
            (&other, true, &whole, false, false),
            (&other, true, &whole, true, false),
        ] {
            assert_eq!(agree((one, cut), (two, is_other_cut)), Some(expected), "{one:?} {cut} {two:?}");
        }
        assert_eq!(agree((&Value::Unknown, false), (&whole, true)), None);
    }

    /// Channel Access has no unsigned integers but characters and states, and many clients put doubles to everything.
    #[test]
    fn what_was_asked_for_in_another_type() {
        let array = |dbf: Dbf, count, bytes: Vec<u8>| Value::Array(Array { dbf, count, bytes });
        let longs = |numbers: [i32; 2]| array(Dbf::Long, 2, numbers.map(i32::to_le_bytes).concat());
        let doubles = |numbers: [f64; 2]| array(Dbf::Double, 2, numbers.map(f64::to_le_bytes).concat());
        let shorts = array(Dbf::UShort, 2, [1u16, 40_000].map(u16::to_le_bytes).concat());
        let floats = array(Dbf::Float, 2, [0.1f32, f32::NAN].map(f32::to_le_bytes).concat());
        let wide = array(Dbf::UInt64, 2, [u64::MAX, 9_007_199_254_740_993].map(u64::to_le_bytes).concat());
        let texts = |texts: [&str; 2]| {
            let mut bytes = vec![0; 80];
            for (text, place) in texts.iter().zip(bytes.chunks_mut(40)) {
                place[..text.len()].copy_from_slice(text.as_bytes());
            }
            array(Dbf::String, 2, bytes)
        };
        for (asked, found, expected) in [
            (longs([1, 40_000]), &shorts, true),
            (doubles([1.0, 40_000.0]), &shorts, true),
            (doubles([1.0, 40_000.5]), &shorts, false),
            (longs([1, 105_536]), &shorts, false),
            (doubles([0.1, f64::NAN]), &floats, true),
            (doubles([0.2, f64::NAN]), &floats, false),
            (texts(["18446744073709551615", "9007199254740993"]), &wide, true),
            (texts(["18446744073709551615", "9007199254740992"]), &wide, false),
            (texts(["1", ""]), &shorts, false),
            (texts(["1.0", "40000"]), &shorts, true),
            (texts(["1.5", "40000"]), &shorts, false),
            (texts(["-1", "9007199254740993"]), &wide, false),
            (Value::Double(0.1), &Value::Float(0.1), true),
            (Value::Double(0.1), &array(Dbf::Float, 1, 0.1f32.to_le_bytes().to_vec()), true),
            (Value::Text(Vec::new()), &Value::Int(0), false),
            (Value::Unknown, &Value::Int(0), false),
        ] {
            assert_eq!(is_as_asked(&asked, found), expected, "{asked:?} {found:?}");
        }
    }

    /// Digits are those of the standard library, whatever the number.
    #[test]
    fn numbers_are_written_as_everywhere() {
        let mut state = 1_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut numbers =
            vec![0.0, -0.0, 1.0, 0.1, 1e-4, 9.999e-5, 1e15, 999_999_999_999_999.9, 1e14, f64::NAN];
        for _ in 0..300_000 {
            // with few bits after the point, where two texts may be equally near
            numbers.push((random() >> (random() % 64)) as f64 / 2_f64.powi((random() % 50) as i32));
            numbers.push(((random() % 1_000_000) as f64 + 0.5) / 2_f64.powi((random() % 30) as i32));
            numbers.push(f64::from_bits(random()));
            numbers.push(random() as i64 as f64 / [1e3, 1e5, 1e9, 1e16, 1e20][random() as usize % 5]);
            numbers.push((random() % 100_000) as f64 / 1000.0);
        }
        for number in numbers.iter().flat_map(|number| [*number, -number]) {
            let (mut fast, mut slow) = (String::new(), String::new());
            push_text(&mut fast, &Value::Double(number));
            shared::push_text(&mut slow, &Value::Double(number));
            assert_eq!(fast, slow);
        }
    }
    use serde_json::json as j;

    #[test]
    fn payloads_of_every_type() {
        let hex = |s: &str| -> Vec<u8> { s.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap()).collect() };
        for (dbr, payload, expected) in [
            (0, "6f 6e 00 00 00 00 00 00", Value::Text(b"on".to_vec())),
            (1, "ff fe 00 00 00 00 00 00", Value::Int(-2)),
            (2, "3f c0 00 00 00 00 00 00", Value::Float(1.5)),
            (3, "00 03 00 00 00 00 00 00", Value::Int(3)),
            (4, "c8 00 00 00 00 00 00 00", Value::Int(200)),
            (5, "ff ff ff fe 00 00 00 00", Value::Int(-2)),
            (6, "3f f8 00 00 00 00 00 00", Value::Double(1.5)),
            (35, "00 01 00 00 00 00 00 00", Value::Int(1)),
            (36, "00 02 00 00 00 00 00 00", Value::Int(2)),
            (20, "00 02 00 00 00 00 00 00", Value::Unknown),
            // with the metadata before the value: STS_LONG, STS_CHAR, TIME_DOUBLE, STS_STRING
            (12, "00 00 00 00 00 00 00 07", Value::Int(7)),
            (11, "00 00 00 00 00 c8 00 00", Value::Int(200)),
            (
                20,
                "00 00 00 00 00 00 00 01 00 00 00 02 00 00 00 00 3f f8 00 00 00 00 00 00",
                Value::Double(1.5),
            ),
            (7, "00 00 00 00 6f 6e 00 00", Value::Text(b"on".to_vec())),
            (7, "00 00 00 00", Value::Unknown),
            (37, "00 00 00 00 00 00 00 00", Value::Unknown),
            (6, "3f f8", Value::Unknown),
        ] {
            assert_eq!(from_channel_access(dbr, 1, &hex(payload)), expected, "dbr {dbr}");
        }
    }

    #[test]
    fn arrays_keep_their_true_count_when_cut() {
        let value = from_channel_access(1, 100, &[0, 1, 0, 2, 0, 3, 9]);
        assert_eq!(text(&value), "[1, 2, 3, ...] (3 of 100)");
        assert_eq!(json(&value), j!([1, 2, 3]));
        let mut two = vec![0; 80];
        two[..3].copy_from_slice(b"one");
        two[40..43].copy_from_slice(b"two");
        assert_eq!(text(&from_channel_access(0, 2, &two)), r#"["one", "two"] (2)"#);
        assert_eq!(text(&from_channel_access(6, 0, &[])), "[] (0)");
    }

    #[test]
    fn a_string_that_fills_its_field() {
        assert_eq!(from_channel_access(0, 1, &[b'x'; 48]), Value::Text(vec![b'x'; 40]));
        assert_eq!(from_channel_access(0, 1, &[]), Value::Text(vec![]));
    }

    #[test]
    fn numbers_and_text_for_people_and_json() {
        for (value, people, machine) in [
            (Value::Double(0.1), "0.1", j!(0.1)),
            (Value::Float(0.1), "0.1", j!(0.1)),
            (Value::Double(1e300), "1e300", j!(1e300)),
            (Value::Double(2.5e-9), "2.5e-9", j!(2.5e-9)),
            (Value::Double(f64::NAN), "NaN", j!("NaN")),
            (Value::Float(f32::NEG_INFINITY), "-Infinity", j!("-Infinity")),
            (Value::Int(9_007_199_254_740_993), "9007199254740993", j!(9_007_199_254_740_993_i64)),
            (Value::UInt(u64::MAX), "18446744073709551615", j!(u64::MAX)),
            (Value::Text(b"a \"b\"\n\xff".to_vec()), r#""a \"b\"\n\xff""#, j!("a \"b\"\n\\xff")),
            (Value::Unknown, "?", j!(null)),
        ] {
            assert_eq!(text(&value), people);
            assert_eq!(json(&value), machine);
        }
    }

    #[test]
    fn sameness() {
        let (d, i) = (Value::Double, Value::Int);
        assert_eq!(same(&d(1.0), &i(1)), Some(true));
        assert_eq!(same(&d(f64::NAN), &d(f64::NAN)), Some(true));
        assert_eq!(same(&d(1.5), &i(1)), Some(false));
        assert_eq!(same(&Value::Unknown, &i(1)), None);
        let high = 9_007_199_254_740_992; // 2^53, which has a neighbour that no double is
        assert_eq!(same(&i(high + 1), &Value::UInt(high as u64)), Some(false));
        assert_eq!(same(&Value::UInt(7), &i(7)), Some(true));
        assert_eq!(same(&i(-1), &Value::UInt(u64::MAX)), Some(false));
        assert_eq!(same_through_link(&d(1.5), &i(1)), Some(true));
        assert_eq!(same_through_link(&d(0.1), &Value::Float(0.1)), Some(true));
        assert_eq!(same_through_link(&Value::Text(b"3".to_vec()), &i(3)), Some(true));
        assert_eq!(same_through_link(&Value::Text(b"7.9".to_vec()), &i(7)), Some(true));
        let (long, cut) = (from_channel_access(4, 5, b"abcde"), from_channel_access(4, 5, b"abc"));
        assert_eq!(same(&long, &cut), Some(true));
        assert_eq!(same(&long, &from_channel_access(4, 4, b"abcd")), Some(false));
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let chars =
            |count, bytes: &[u8]| Value::Array(Array { dbf: Dbf::Char, count, bytes: bytes.to_vec() });
        assert_eq!(same(&chars(5, b"ab\0\0\0"), &text("ab")), Some(true));
        assert_eq!(same(&text("ab"), &chars(2, b"ab")), Some(true));
        assert_eq!(same(&text("abc"), &chars(2, b"ab")), Some(false));
        assert_eq!(same(&text("abc"), &chars(3, b"ab")), Some(true), "as far as is known");
        assert_eq!(
            same(&Value::Array(Array { dbf: Dbf::Char, count: 1, bytes: vec![5] }), &i(5)),
            Some(true)
        );
    }

    /// What Base 7.0 sent on x86_64 where a CA link wrote these to fields of DBF_LONG, DBF_SHORT, DBF_ENUM and DBF_UCHAR.
    #[test]
    fn links_to_shorter_integers() {
        let (d, i) = (Value::Double, Value::Int);
        for (given, sent) in [
            (d(5.7), 5),
            (d(-3.5), -3),
            (d(1e10), -2_147_483_648),
            (d(-1e10), -2_147_483_648),
            (d(f64::NAN), -2_147_483_648),
            (d(f64::INFINITY), -2_147_483_648),
            (d(70_000.0), 4464),
            (d(-40_000.5), 25_536),
            (i(-70_000), -4464),
            (d(-1.0), 65_535),
            (d(2.9), 2),
            (d(300.0), 44),
            (d(-1.0), 255),
            (d(256.0), 0),
            (i((1 << 40) + 5), 5),
        ] {
            assert_ne!(same_through_link(&given, &i(sent)), Some(false), "{given:?} {sent}");
            assert!(can_become(number(&given).unwrap(), sent as f64), "{given:?} {sent}");
        }
        for (given, sent) in [(d(5.7), 6), (d(70_000.0), 4465), (i(-70_000), 4464), (d(300.0), 300 - 255)] {
            assert_eq!(same_through_link(&given, &i(sent)), Some(false), "{given:?} {sent}");
        }
    }

    #[test]
    fn conversion_to_the_field() {
        assert_eq!(convert(&Value::Double(3.9), Dbf::Long), Value::Int(3));
        assert_eq!(convert(&Value::Text(b"4.5".to_vec()), Dbf::Double), Value::Double(4.5));
        assert_eq!(convert(&Value::Text(b"On".to_vec()), Dbf::Enum), Value::Text(b"On".to_vec()));
        assert_eq!(convert(&Value::Int(7), Dbf::String), Value::Text(b"7".to_vec()));
        assert_eq!(convert(&Value::Int(300), Dbf::UChar), Value::Int(44));
        assert_eq!(convert(&Value::Int(i64::MAX), Dbf::Int64), Value::Int(i64::MAX));
        assert_eq!(convert(&Value::UInt(1 << 63), Dbf::Int64), Value::Int(i64::MIN));
        assert_eq!(convert(&Value::Int(-1), Dbf::UInt64), Value::UInt(u64::MAX));
    }

    #[test]
    fn integers_in_texts_keep_all_digits() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let read = |number: &str, dbf| convert(&text(number), dbf);
        assert_eq!(read("9007199254740993", Dbf::Int64), Value::Int(9_007_199_254_740_993));
        assert_eq!(read("-9223372036854775808", Dbf::Int64), Value::Int(i64::MIN));
        assert_eq!(read(" 18446744073709551615 ", Dbf::UInt64), Value::UInt(u64::MAX));
        assert_eq!(read("-1", Dbf::UInt64), Value::UInt(u64::MAX));
        assert_eq!(read("-1", Dbf::UShort), Value::Int(65_535));
        assert_eq!(read("+3.9", Dbf::Long), Value::Int(3));
        assert_eq!(read("007", Dbf::Long), Value::Int(7));
        assert_eq!(read("1e3", Dbf::ULong), Value::Int(1000));
        assert_eq!([read("", Dbf::Long), read("", Dbf::Double)], [Value::Int(0), Value::Double(0.0)]);
        // refused; an octal number to some versions; units to others than ULONG
        for (number, dbf) in [
            ("3000000000", Dbf::Long),
            ("300", Dbf::UChar),
            ("9223372036854775808", Dbf::Int64),
            ("nan", Dbf::Long),
            ("010", Dbf::Long),
            ("0x10", Dbf::Long),
            ("1e3", Dbf::Long),
            ("5 mm", Dbf::Double),
        ] {
            assert_eq!(read(number, dbf), text(number), "{dbf:?}");
        }
    }

    /// C leaves it open what these become, and processors differ.
    #[test]
    fn numbers_that_do_not_fit_are_not_guessed() {
        for (number, dbf) in [
            (3e9, Dbf::Long),
            (-1e10, Dbf::Short),
            (1e19, Dbf::Int64),
            (-1.0, Dbf::UInt64),
            (f64::INFINITY, Dbf::ULong),
        ] {
            assert_eq!(convert(&Value::Double(number), dbf), Value::Double(number), "{dbf:?}");
        }
        let nan = convert(&Value::Double(f64::NAN), Dbf::Long);
        assert!(matches!(nan, Value::Double(number) if number.is_nan()), "{nan:?}");
        assert_eq!(convert(&Value::Double(-0.5), Dbf::UInt64), Value::UInt(0));
        assert_eq!(convert(&Value::Double(1e19), Dbf::UInt64), Value::UInt(10_000_000_000_000_000_000));
        assert_eq!(convert(&Value::Double(-1.0), Dbf::ULong), Value::Int(4_294_967_295));
    }
}
