//! Values: their elements, their form in Channel Access, and their display for people.
//!
//! They are here because the recorder's `watch` and the reader must show a value in the same way.

use crate::escape::push_letter;
use crate::event::{Array, Dbf, Value};
use epics::dbf::Kind;
use epics::limits::MAX_STRING_SIZE;
use epics::Dbr;
use std::fmt::Write;

/// Number of array elements that a line of text shows, and of the characters that they spell.
const SHOWN: usize = 8;
const SPELLED: usize = 100;

/// The value in the payload of a WRITE: `dbr` and `count` of the request, payload big endian. `Unknown` if the type is
/// invalid or the payload is too short.
pub fn from_channel_access(dbr: u16, count: u32, payload: &[u8]) -> Value {
    let dbr = Dbr(dbr);
    let (Some(dbf), Some(offset)) = (dbr.put_element(), dbr.value_offset()) else {
        return Value::Unknown;
    };
    let Some(payload) = payload.get(offset..).filter(|payload| offset == 0 || !payload.is_empty()) else {
        return Value::Unknown;
    };
    if dbf == Dbf::String && count == 1 {
        // A scalar string ends with its NUL or with the payload (libca sends strlen + 1).
        return Value::Text(
            until_nul(payload.get(..MAX_STRING_SIZE.min(payload.len())).unwrap_or(payload)).to_vec(),
        );
    }
    let size = dbf.size();
    let wanted = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size);
    let whole = payload.len().min(wanted) / size * size;
    let mut bytes = payload.get(..whole).unwrap_or_default().to_vec();
    if dbf != Dbf::String {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if count == 1 {
        return element(dbf, &bytes).unwrap_or(Value::Unknown);
    }
    Value::Array(Array { dbf, count, bytes })
}

/// One element from its little-endian bytes.
pub fn element(dbf: Dbf, bytes: &[u8]) -> Option<Value> {
    if dbf.kind() == Kind::Text {
        return Some(Value::Text(until_nul(bytes).to_vec()));
    }
    let size = dbf.size();
    let mut low = [0; 8];
    low.get_mut(..size)?.copy_from_slice(bytes.get(..size)?);
    let bits = u64::from_le_bytes(low);
    Some(match (dbf.kind(), size) {
        (Kind::Float, 4) => Value::Float(f32::from_bits(bits as u32)),
        (Kind::Float, _) => Value::Double(f64::from_bits(bits)),
        (Kind::Unsigned, 8) => Value::UInt(bits),
        (Kind::Signed, _) => Value::Int(sign_extended(bits, size)),
        _ => Value::Int(bits as i64),
    })
}

/// The lowest `size` bytes (1 to 8) as an integer in two's complement.
fn sign_extended(bits: u64, size: usize) -> i64 {
    let unused = 64 - 8 * size.clamp(1, 8);
    ((bits << unused) as i64) >> unused
}

/// `number` as an integer field of type `dbf` holds it: its lowest bytes. [`Dbf::UInt64`] does not fit an `i64`; such a
/// number is returned unchanged.
pub fn wrapped(number: i64, dbf: Dbf) -> i64 {
    let unused = 64 - 8 * dbf.size().clamp(1, 8);
    match dbf.kind() {
        Kind::Signed => sign_extended(number as u64, dbf.size()),
        Kind::Unsigned => (((number as u64) << unused) >> unused) as i64,
        Kind::Text | Kind::Float => number,
    }
}

/// The elements of an array, as far as the log holds them.
pub fn elements(array: &Array) -> impl Iterator<Item = Value> + '_ {
    let present = usize::try_from(array.count).unwrap_or(usize::MAX);
    array.bytes.chunks_exact(array.dbf.size()).take(present).filter_map(|bytes| element(array.dbf, bytes))
}

/// The bytes before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// Appends bytes as text: UTF-8 unchanged, other bytes as `\xNN`.
pub fn push_lossy(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// Appends `value` for people: text quoted and escaped; arrays as their first elements and their length (`50 of 256` if
/// the log holds only the first 50), those of characters that spell a text with that text; `?` if it is unknown.
pub fn push_text(out: &mut String, value: &Value) {
    match value {
        Value::Unknown => out.push('?'),
        Value::Text(bytes) => {
            let mut text = String::new();
            push_lossy(&mut text, bytes);
            push_quoted(out, &text, usize::MAX, false);
        }
        Value::Array(array) => {
            out.push('[');
            let mut shown = 0;
            for value in elements(array).take(SHOWN) {
                if shown > 0 {
                    out.push_str(", ");
                }
                push_text(out, &value);
                shown += 1;
            }
            if shown < usize::try_from(array.count).unwrap_or(usize::MAX) {
                out.push_str(if shown > 0 { ", ..." } else { "..." });
            }
            let held = elements(array).count();
            let is_whole = usize::try_from(array.count) == Ok(held);
            let _ = match is_whole {
                true => write!(out, "] ({held})"),
                // the log holds only the first elements
                false => write!(out, "] ({held} of {})", array.count),
            };
            if let Some(text) = spelled(array) {
                out.push_str(" as text ");
                let is_cut = text.len() == array.bytes.len() && !is_whole;
                push_quoted(out, text, SPELLED, is_cut);
            }
        }
        number => push_number(out, number),
    }
}

/// Appends a name that somebody chose, such as a user's: in quotes if it has blanks, since its words would look like further
/// parts of the line.
pub fn push_name(out: &mut String, name: &str) {
    match name.contains(char::is_whitespace) {
        true => push_quoted(out, name, usize::MAX, false),
        false => out.push_str(name),
    }
}

/// What [`push_name`] appends.
pub fn named(name: &str) -> String {
    let mut shown = String::new();
    push_name(&mut shown, name);
    shown
}

/// Appends text in quotes, at most so many letters of it. `is_cut`: more of it is missing.
fn push_quoted(out: &mut String, text: &str, most: usize, is_cut: bool) {
    out.push('"');
    for c in text.chars().take(most) {
        match c {
            '"' => out.push_str("\\\""),
            c => push_letter(out, c),
        }
    }
    out.push('"');
    if is_cut || text.chars().nth(most).is_some() {
        out.push_str("...");
    }
}

/// The text that an array of characters spells: file names and messages are sent so, as longer than a string may be. `None`
/// if any of it can't be text.
fn spelled(array: &Array) -> Option<&str> {
    if !matches!(array.dbf, Dbf::Char | Dbf::UChar) || array.count < 2 {
        return None;
    }
    let text = until_nul(&array.bytes);
    let rest = array.bytes.get(text.len()..)?;
    let text = std::str::from_utf8(text).ok()?;
    let is_text = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    (!text.is_empty() && text.chars().all(is_text) && rest.iter().all(|byte| *byte == 0)).then_some(text)
}

/// Appends a number with the fewest digits that identify it in its own type.
fn push_number(out: &mut String, value: &Value) {
    let _ = match value {
        Value::Int(v) => write!(out, "{v}"),
        Value::UInt(v) => write!(out, "{v}"),
        Value::Float(v) if !v.is_finite() => write!(out, "{}", not_finite(f64::from(*v))),
        Value::Double(v) if !v.is_finite() => write!(out, "{}", not_finite(*v)),
        Value::Float(v) if plain(f64::from(*v)) => write!(out, "{v}"),
        Value::Double(v) if plain(*v) => write!(out, "{v}"),
        Value::Float(v) => write!(out, "{v:e}"),
        Value::Double(v) => write!(out, "{v:e}"),
        _ => Ok(()),
    };
}

/// Whether this number is more readable without an exponent.
fn plain(v: f64) -> bool {
    v == 0.0 || (1e-5..1e15).contains(&v.abs())
}

/// The name of a number that is not finite, as in JavaScript, and nearly as in caPutLog.
pub fn not_finite(v: f64) -> &'static str {
    if v.is_nan() {
        "NaN"
    } else if v > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// `value` for people; see [`push_text`].
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    push_text(&mut out, value);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_no_elements_is_one_of_any_type() {
        // DBR_STRING, DBR_DOUBLE, as `caput -a PV 0` sends them: what the payload holds besides is padding
        for (dbr, dbf) in [(0, Dbf::String), (6, Dbf::Double)] {
            let empty = Value::Array(Array { dbf, count: 0, bytes: vec![] });
            assert_eq!(from_channel_access(dbr, 0, b""), empty);
            assert_eq!(from_channel_access(dbr, 0, &[0; 8]), empty);
        }
        assert_eq!(from_channel_access(0, 1, b"a\0"), Value::Text(b"a".to_vec()));
    }

    #[test]
    fn a_name_is_one_word_of_a_line() {
        let shown = named;
        assert_eq!(shown("LAB\\alice"), "LAB\\alice");
        assert_eq!(shown("root@console (caput pid 7)"), "\"root@console (caput pid 7)\"");
        assert_eq!(shown("a\" status=ok"), "\"a\\\" status=ok\"");
        assert_eq!(shown("a\u{a0}b\n"), "\"a\u{a0}b\\n\"");
    }

    #[test]
    fn characters_that_spell_a_text_are_shown_with_it() {
        let shown = |count, bytes: &[u8]| {
            let mut out = String::new();
            push_text(&mut out, &Value::Array(Array { dbf: Dbf::Char, count, bytes: bytes.to_vec() }));
            out
        };
        assert_eq!(shown(3, b"/a\0"), "[47, 97, 0] (3) as text \"/a\"");
        assert_eq!(shown(4, b"\"\xc3\xbc\n"), "[34, -61, -68, 10] (4) as text \"\\\"ü\\n\"");
        assert_eq!(shown(9, b"/a"), "[47, 97, ...] (2 of 9) as text \"/a\"...");
        assert_eq!(shown(9, b"a\0\0"), "[97, 0, 0, ...] (3 of 9) as text \"a\"");
        let long = shown(101, &[b'x'; 101]);
        assert!(long.ends_with("x\"...") && long.matches('x').count() == SPELLED + 1, "{long}");
        for other in [&b"\0\0"[..], b"a\0b", b"a\x01", b"\xff\xfe", b"ab\xc3"] {
            assert!(!shown(2, other).contains("text"), "{other:?}");
        }
        assert_eq!(shown(0, b""), "[] (0)");
    }
}
