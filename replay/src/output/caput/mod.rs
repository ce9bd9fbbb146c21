//! Arguments of EPICS Base's `caput` and `caget`, and how they stand in a shell script.
//!
//! What `caput` does with them (tried with that of 7.0): it decodes C's escapes (`\n`, `\x1b`; octal ones not), sends text,
//! which the IOC reads with all digits, and cuts a text of more than 39 characters, before it decodes the escapes, without
//! a failure. An enum takes a
//! number only with `-n`, else a label. Numbers closer to 0 than normal ones are refused.

pub mod shell;

use crate::model::obstacle::Obstacle;
use crate::model::value::elements;
use crate::output::c_number::general;
use iocrec_log::escape::is_unsafe;
use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::until_nul;
use std::fmt::Write as _;

/// Characters that fit in a string field (`MAX_STRING_SIZE`, less the NUL).
pub const MAX_TEXT: usize = 39;

/// What a value is written to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Name of the PV; without `$`.
    pub pv: &'a str,
    /// Type of the field, if known.
    pub dbf: Option<Dbf>,
    /// The field is a text that can be longer than a string: it is written by the name with `$`.
    pub is_long_text: bool,
}

/// Whether a number of this field stands for a text.
fn is_enum(dbf: Option<Dbf>) -> bool {
    matches!(dbf, Some(Dbf::Enum | Dbf::Menu | Dbf::Device))
}

/// Whether a name can be given to the tools.
///
/// # Errors
/// Why not.
pub fn check_name(pv: &str) -> Result<(), Obstacle> {
    // A backslash may come from bytes that are no text.
    let odd =
        |letter: char| letter.is_whitespace() || is_unsafe(letter) || matches!(letter, '\\' | '"' | '\'');
    match pv {
        "" => Err(Obstacle::Unnamed),
        _ if pv.starts_with('-') || pv.contains(odd) => Err(Obstacle::OddName),
        _ => Ok(()),
    }
}

/// The name by which a text is read and written as characters.
pub fn long_name(pv: &str) -> String {
    match pv.contains('.') {
        true => format!("{pv}$"),
        false => format!("{pv}.$"),
    }
}

/// The arguments of `caput` after its options that write the value, the PV among them.
///
/// # Errors
/// Why `caput` can't write it.
pub fn arguments(target: Target, value: &Value) -> Result<Vec<String>, Obstacle> {
    check_name(target.pv)?;
    let pv = target.pv.to_owned();
    if target.is_long_text {
        let text = match value {
            Value::Text(text) => text.as_slice(),
            Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, bytes, .. }) => until_nul(bytes),
            _ => return Err(Obstacle::NotText),
        };
        return Ok(vec!["-S".to_owned(), long_name(&pv), escaped(text)]);
    }
    match value {
        Value::Array(array) => {
            // of an array of states, which has no names for them, caput can read and write only numbers
            let mut arguments = match array.dbf {
                Dbf::Enum | Dbf::Menu | Dbf::Device => vec!["-n".to_owned()],
                _ => Vec::new(),
            };
            arguments.extend(["-a".to_owned(), pv, array.count.to_string()]);
            let before = arguments.len();
            for element in elements(array) {
                arguments.push(element_text(&element, array.dbf)?);
            }
            match u32::try_from(arguments.len() - before) == Ok(array.count) {
                true => Ok(arguments),
                false => Err(Obstacle::Part),
            }
        }
        Value::Text(text) if is_enum(target.dbf) || target.dbf.is_none() => {
            Ok(vec!["-s".to_owned(), pv, short(text)?])
        }
        Value::Int(_) | Value::UInt(_) if is_enum(target.dbf) || target.dbf.is_none() => {
            Ok(vec!["-n".to_owned(), pv, element_text(value, Dbf::Enum)?])
        }
        Value::Float(_) | Value::Double(_) if is_enum(target.dbf) => match value {
            Value::Double(number) if number.fract() == 0.0 && (0.0..65536.0).contains(number) => {
                Ok(vec!["-n".to_owned(), pv, general(*number, 17)])
            }
            _ => Err(Obstacle::NotState),
        },
        value => Ok(vec![pv, element_text(value, target.dbf.unwrap_or(Dbf::Double))?]),
    }
}

/// An element, or a single value.
fn element_text(value: &Value, dbf: Dbf) -> Result<String, Obstacle> {
    Ok(match value {
        Value::Unknown | Value::Array(_) => return Err(Obstacle::Unknown),
        Value::Text(text) => short(text)?,
        // CA knows characters only with a sign
        Value::Int(number) if matches!(dbf, Dbf::Char | Dbf::UChar) => (*number as i8).to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) if number.is_subnormal() => return Err(Obstacle::CaputTooSmall),
        Value::Double(number) if number.is_subnormal() => return Err(Obstacle::CaputTooSmall),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Double(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => single(*number),
        Value::Double(number) => general(*number, 17),
    })
}

/// A 32-bit number. The IOC refuses a text that is not between the smallest and the largest of them (epicsParseFloat32), so
/// these two have fewer digits than the others, and are rounded to what they are.
fn single(number: f32) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    match number.abs() {
        f32::MAX => format!("{sign}3.4028234e+38"),
        f32::MIN_POSITIVE => format!("{sign}1.1754944e-38"),
        _ => general(f64::from(number), 9),
    }
}

/// A text for a string field. caput cuts what it is given, before it decodes the escapes.
fn short(text: &[u8]) -> Result<String, Obstacle> {
    let escaped = escaped(text);
    match escaped.len() {
        0..=MAX_TEXT => Ok(escaped),
        _ => Err(Obstacle::CaputCuts),
    }
}

/// A text with those of C's escapes that caput decodes.
pub fn escaped(text: &[u8]) -> String {
    let mut escaped = String::new();
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => escaped.push_str("\\\\"),
                letter if is_unsafe(letter) => {
                    let mut bytes = [0; 4];
                    push_bytes(&mut escaped, letter.encode_utf8(&mut bytes).as_bytes());
                }
                letter => escaped.push(letter),
            }
        }
        push_bytes(&mut escaped, chunk.invalid());
    }
    escaped
}

/// A text as `caget` shows it: in ASCII, with C's escapes (`epicsStrnEscapedFromRaw`).
pub fn escaped_by_caget(text: &[u8]) -> String {
    let mut escaped = String::new();
    for byte in text {
        let _ = match byte {
            b'\x07' => write!(escaped, "\\a"),
            b'\x08' => write!(escaped, "\\b"),
            b'\x0c' => write!(escaped, "\\f"),
            b'\n' => write!(escaped, "\\n"),
            b'\r' => write!(escaped, "\\r"),
            b'\t' => write!(escaped, "\\t"),
            b'\x0b' => write!(escaped, "\\v"),
            b'\\' | b'\'' | b'"' => write!(escaped, "\\{}", char::from(*byte)),
            b' '..=b'~' => write!(escaped, "{}", char::from(*byte)),
            byte => write!(escaped, "\\x{byte:02x}"),
        };
    }
    escaped
}

fn push_bytes(escaped: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = match byte {
            b'\n' => write!(escaped, "\\n"),
            b'\t' => write!(escaped, "\\t"),
            b'\r' => write!(escaped, "\\r"),
            byte => write!(escaped, "\\x{byte:02x}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(pv: &str, dbf: Option<Dbf>, value: Value) -> Result<String, String> {
        let arguments = arguments(Target { pv, dbf, is_long_text: false }, &value);
        arguments.map(|arguments| arguments.join(" ")).map_err(|obstacle| obstacle.to_string())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn values_as_caput_takes_them() {
        let bytes = |dbf, count, bytes: &[u8]| Value::Array(Array { dbf, count, bytes: bytes.to_vec() });
        for (dbf, value, expected) in [
            (Dbf::Double, Value::Double(0.1), Ok("T 0.10000000000000001")),
            (Dbf::Double, Value::Double(-5.0), Ok("T -5")),
            (Dbf::Double, Value::Double(f64::NAN), Ok("T nan")),
            (Dbf::Double, Value::Double(1e-320), Err("caput refuses numbers so close to 0")),
            (Dbf::Float, Value::Float(0.1), Ok("T 0.100000001")),
            (Dbf::Float, Value::Float(-f32::MAX), Ok("T -3.4028234e+38")),
            (Dbf::Float, Value::Float(f32::MIN_POSITIVE), Ok("T 1.1754944e-38")),
            (Dbf::Int64, Value::Int(i64::MIN), Ok("T -9223372036854775808")),
            (Dbf::UInt64, Value::UInt(u64::MAX), Ok("T 18446744073709551615")),
            (Dbf::Enum, Value::Int(2), Ok("-n T 2")),
            (Dbf::Menu, Value::Double(2.0), Ok("-n T 2")),
            (Dbf::Menu, Value::Double(2.5), Err("its value is no number of a state")),
            (Dbf::Enum, text("Slow ramp"), Ok("-s T Slow ramp")),
            (Dbf::String, text("a\\b \"é\"\n\u{1b}"), Ok("T a\\\\b \"é\"\\n\\x1b")),
            (Dbf::String, text(""), Ok("T ")),
            (
                Dbf::String,
                text(&"x".repeat(40)),
                Err("caput would cut its text after 39 characters, escapes included"),
            ),
            (
                Dbf::String,
                Value::Text(vec![1; 10]),
                Err("caput would cut its text after 39 characters, escapes included"),
            ),
            (Dbf::String, text(&"x".repeat(39)), Ok("T xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
            (Dbf::String, Value::Text(b"\xff".to_vec()), Ok("T \\xff")),
            (Dbf::NoAccess, bytes(Dbf::UChar, 2, &[200, 1]), Ok("-a T 2 -56 1")),
            (Dbf::NoAccess, bytes(Dbf::Double, 0, &[]), Ok("-a T 0")),
            (Dbf::NoAccess, bytes(Dbf::Short, 3, &[1, 0]), Err("the log holds only a part of its value")),
            (Dbf::Double, Value::Unknown, Err("its value is not known")),
        ] {
            assert_eq!(to("T", Some(dbf), value).as_deref().map_err(String::as_str), expected);
        }
        assert_eq!(to("T", None, Value::Int(2)).unwrap(), "-n T 2");
        let long = Target { pv: "T.DESC", dbf: Some(Dbf::String), is_long_text: true };
        assert_eq!(
            arguments(long, &text(&"x".repeat(60))).unwrap().join(" "),
            format!("-S T.DESC$ {}", "x".repeat(60))
        );
    }

    #[test]
    fn the_ends_of_32_bits_are_taken_for_themselves() {
        for number in [f32::MAX, -f32::MAX, f32::MIN_POSITIVE, -f32::MIN_POSITIVE] {
            let written: f64 = single(number).parse().unwrap();
            assert_eq!(written as f32, number);
            assert!(written.abs() < f64::from(f32::MAX) && written.abs() > f64::from(f32::MIN_POSITIVE));
        }
    }

    #[test]
    fn hostile_names_are_not_given_to_it() {
        for pv in ["", "-c", "T AO", "T\nrm", "T'", "T\\x1b", "T\u{202e}"] {
            assert!(to(pv, None, Value::Int(1)).is_err(), "{pv:?}");
        }
        assert!(to("LAB{Mtr:1-Ax:$x}Mtr.VAL", None, Value::Int(1)).is_ok());
    }
}
