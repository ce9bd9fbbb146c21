//! Values: their elements, what Channel Access carries, and how they are shown to people.
//!
//! Here because the recorder's `watch` and the reader must show the same value the same way.

use crate::escape::push_letter;
use crate::event::{Array, Dbf, Value};
use std::fmt::Write;

/// Bytes of an EPICS string (MAX_STRING_SIZE), its NUL included.
const STRING: usize = 40;
/// How many elements of an array a line of text shows.
const SHOWN: usize = 8;

/// What the payload of a WRITE holds: `dbr` and `count` of the request, payload big endian. Types that are none, and
/// payloads too short, are `Unknown`.
pub fn from_channel_access(dbr: u16, count: u32, payload: &[u8]) -> Value {
    let Some(dbf) = dbf_of_dbr(dbr) else { return Value::Unknown };
    let Some(payload) = payload.get(before_value(dbr)..) else { return Value::Unknown };
    if payload.is_empty() && before_value(dbr) > 0 {
        return Value::Unknown;
    }
    if dbf == Dbf::String && count <= 1 {
        // A scalar string ends with its NUL or with the payload (facts: libca sends strlen + 1).
        return Value::Text(until_nul(payload.get(..STRING.min(payload.len())).unwrap_or(payload)).to_vec());
    }
    let size = size(dbf);
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

/// Bytes before the value in a payload of that type: status, time, limits and the like of the STS, TIME, GR and CTRL
/// forms, which servers take in a WRITE as well (dbr_value_offset of EPICS Base's db_access.h).
fn before_value(dbr: u16) -> usize {
    const BEFORE: [[usize; 7]; 5] = [
        // STRING, SHORT, FLOAT, ENUM, CHAR, LONG, DOUBLE
        [0; 7],
        [4, 4, 4, 4, 5, 4, 8],
        [12, 14, 12, 14, 15, 12, 16],
        [4, 24, 40, 422, 19, 36, 64],
        [4, 28, 48, 422, 21, 44, 80],
    ];
    BEFORE.get(usize::from(dbr / 7)).and_then(|form| form.get(usize::from(dbr % 7))).copied().unwrap_or(0)
}

/// The IOC's type for a DBR type of the protocol, whatever its form.
pub fn dbf_of_dbr(dbr: u16) -> Option<Dbf> {
    let plain = if dbr < 35 { dbr % 7 } else { dbr };
    Some(match plain {
        0 => Dbf::String,
        1 => Dbf::Short,
        2 => Dbf::Float,
        3 => Dbf::Enum,
        // an epicsUInt8 in the protocol (db_access.h), whatever the field is
        4 => Dbf::UChar,
        5 => Dbf::Long,
        6 => Dbf::Double,
        // DBR_PUT_ACKT and DBR_PUT_ACKS, which acknowledge alarms.
        35 | 36 => Dbf::UShort,
        _ => return None,
    })
}

/// Bytes of one element; never 0.
pub fn size(dbf: Dbf) -> usize {
    match dbf {
        Dbf::String | Dbf::InLink | Dbf::OutLink | Dbf::FwdLink => STRING,
        Dbf::Char | Dbf::UChar | Dbf::NoAccess => 1,
        Dbf::Short | Dbf::UShort | Dbf::Enum | Dbf::Menu | Dbf::Device => 2,
        Dbf::Long | Dbf::ULong | Dbf::Float => 4,
        Dbf::Int64 | Dbf::UInt64 | Dbf::Double => 8,
    }
}

/// One element from its little-endian bytes.
pub fn element(dbf: Dbf, bytes: &[u8]) -> Option<Value> {
    fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.get(..N)?.try_into().ok()
    }
    Some(match dbf {
        Dbf::String | Dbf::InLink | Dbf::OutLink | Dbf::FwdLink => Value::Text(until_nul(bytes).to_vec()),
        Dbf::Char => Value::Int(i8::from_le_bytes(fixed(bytes)?).into()),
        Dbf::UChar | Dbf::NoAccess => Value::Int(u8::from_le_bytes(fixed(bytes)?).into()),
        Dbf::Short => Value::Int(i16::from_le_bytes(fixed(bytes)?).into()),
        Dbf::UShort | Dbf::Enum | Dbf::Menu | Dbf::Device => {
            Value::Int(u16::from_le_bytes(fixed(bytes)?).into())
        }
        Dbf::Long => Value::Int(i32::from_le_bytes(fixed(bytes)?).into()),
        Dbf::ULong => Value::Int(u32::from_le_bytes(fixed(bytes)?).into()),
        Dbf::Int64 => Value::Int(i64::from_le_bytes(fixed(bytes)?)),
        Dbf::UInt64 => Value::UInt(u64::from_le_bytes(fixed(bytes)?)),
        Dbf::Float => Value::Float(f32::from_le_bytes(fixed(bytes)?)),
        Dbf::Double => Value::Double(f64::from_le_bytes(fixed(bytes)?)),
    })
}

/// The elements of an array that the log holds.
pub fn elements(array: &Array) -> impl Iterator<Item = Value> + '_ {
    let present = usize::try_from(array.count).unwrap_or(usize::MAX);
    array.bytes.chunks_exact(size(array.dbf)).take(present).filter_map(|bytes| element(array.dbf, bytes))
}

/// What stands before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// Appends bytes as text: UTF-8 as it is, other bytes as `\xNN`.
pub fn push_lossy(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// Appends `value` for people: text in quotes and escaped, arrays as their first elements and their
/// length (`50 of 256` where the log holds no more), `?` where not known.
pub fn push_text(out: &mut String, value: &Value) {
    match value {
        Value::Unknown => out.push('?'),
        Value::Text(bytes) => {
            let mut text = String::new();
            push_lossy(&mut text, bytes);
            out.push('"');
            for c in text.chars() {
                match c {
                    '"' => out.push_str("\\\""),
                    c => push_letter(out, c),
                }
            }
            out.push('"');
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
            let _ = match usize::try_from(array.count) == Ok(held) {
                true => write!(out, "] ({held})"),
                // the log has the first of them only
                false => write!(out, "] ({held} of {})", array.count),
            };
        }
        number => push_number(out, number),
    }
}

/// Appends a number: the shortest digits that give the same number in its own type.
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

/// Is this number better read without an exponent?
fn plain(v: f64) -> bool {
    v == 0.0 || (1e-5..1e15).contains(&v.abs())
}

/// The name of a number that is none: as JSON for JavaScript, and caPutLog nearly, write it.
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
