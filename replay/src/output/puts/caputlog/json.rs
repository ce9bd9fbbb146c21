//! A line of JSON of the module.
//!
//! Its own can be invalid: it writes NaN and infinities as numbers into `min` and `max`, strings as they are even if they
//! are not UTF-8, and no value where an array of one element is empty. Here `min` and `max` are left out then, and
//! such bytes are replaced (U+FFFD).

use super::burst::Line;
use super::message::{Kind, Message, Side};
use crate::output::c_number::general;
use crate::time::Zone;
use iocrec_log::escape::is_unsafe;
use iocrec_log::event::Value;
use iocrec_log::value::until_nul;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The JSON object, and whether it is marked as inexact by a last key.
pub fn json(line: &Line, zone: &Zone, metadata: &BTreeMap<String, String>) -> (String, bool) {
    let put = &line.put;
    let mut json = String::from("{");
    let mut string = |key: &str, value: Option<&str>| {
        let separator = if json.len() > 1 { "," } else { "" };
        let value = value.map_or("null".to_owned(), |value| quoted(value.as_bytes()));
        let _ = write!(json, "{separator}{}:{value}", quoted(key.as_bytes()));
    };
    string("date", Some(&zone.strftime(put.time, "%Y-%m-%d")));
    string("time", Some(&zone.strftime(put.time, "%H:%M:%S.%3f")));
    string("host", put.host.as_deref());
    string("user", put.user.as_deref());
    for (key, value) in metadata {
        string(key, Some(value));
    }
    string("pv", put.pv.as_deref());
    push_value(&mut json, "new", put, &put.new, put.new.size, put.new.kept());
    // as many elements as there were before the last put, of the value before the first
    push_value(&mut json, "old", put, &line.old, put.old.size, put.old.kept());
    if let Some((min, max)) = &line.range {
        if let (Some(min), Some(max)) = (finite(min), finite(max)) {
            let _ = write!(json, ",\"min\":{min},\"max\":{max}");
        }
        let _ = write!(json, ",\"burst\":{}", line.count);
    }
    let named = put.host.is_some() && put.user.is_some() && put.pv.is_some();
    let shaped = put.is_shape_sure;
    let old_known = line.old.sure && put.old.kept().is_some_and(|kept| has(&line.old, kept));
    let inexact = line.in_doubt || !named || !shaped || !put.new.is_whole() || !old_known;
    if inexact {
        json.push_str(",\"inexact\":true");
    }
    json.push('}');
    (json, inexact)
}

/// Whether what the module would have read of it is known: elements behind the end are zero.
fn has(side: &Side, kept: usize) -> bool {
    side.elements.len() >= kept.min(side.kept().unwrap_or(usize::MAX))
}

fn push_value(
    json: &mut String,
    key: &str,
    put: &Message,
    side: &Side,
    size: Option<usize>,
    kept: Option<usize>,
) {
    let _ = write!(json, ",\"{key}\":");
    let Some(kept) = kept.filter(|_| side.size.is_some()) else {
        json.push_str("null");
        return;
    };
    let mut elements = side.elements.clone();
    if has(side, kept) {
        elements.resize(kept, put.kind.nothing());
    }
    if put.is_array {
        json.push('[');
    }
    if put.kind == Kind::Char {
        let bytes =
            elements.iter().map(|element| if let Value::Int(byte) = element { *byte as u8 } else { 0 });
        let bytes: Vec<u8> = bytes.collect();
        json.push_str(&quoted(until_nul(&bytes)));
    } else {
        for (number, element) in elements.iter().enumerate() {
            json.push_str(if number > 0 { "," } else { "" });
            push_element(json, element);
        }
    }
    if put.is_array {
        let size = size.map_or("null".to_owned(), |size| size.to_string());
        let _ = write!(json, "],\"{key}-size\":{size}");
    }
}

fn push_element(json: &mut String, element: &Value) {
    let special = match element {
        Value::Float(number) => special(f64::from(*number)),
        Value::Double(number) => special(*number),
        _ => None,
    };
    match (special, element) {
        (Some(name), _) => json.push_str(&quoted(name.as_bytes())),
        (None, Value::Text(bytes)) => json.push_str(&quoted(bytes)),
        (None, number) => json.push_str(&finite(number).unwrap_or_else(|| "null".to_owned())),
    }
}

fn special(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("Nan"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// A number that JSON has. A whole double ends in `.0`.
fn finite(value: &Value) -> Option<String> {
    let mut text = match value {
        Value::Int(number) => return Some(number.to_string()),
        Value::UInt(number) => return Some(number.to_string()),
        Value::Float(number) if number.is_finite() => general(f64::from(*number), 8),
        Value::Double(number) if number.is_finite() => general(*number, 17),
        _ => return None,
    };
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        text.push_str(".0");
    }
    Some(text)
}

/// A string of JSON as yajl writes it. What must not reach a terminal is escaped, too, which means the same.
fn quoted(bytes: &[u8]) -> String {
    let mut json = String::from("\"");
    for letter in String::from_utf8_lossy(bytes).chars() {
        let _ = match letter {
            '"' | '\\' => write!(json, "\\{letter}"),
            '\n' => write!(json, "\\n"),
            '\r' => write!(json, "\\r"),
            '\t' => write!(json, "\\t"),
            '\x0c' => write!(json, "\\f"),
            '\x08' => write!(json, "\\b"),
            _ if is_unsafe(letter) => {
                letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(json, "\\u{unit:04X}"))
            }
            _ => write!(json, "{letter}"),
        };
    }
    json.push('"');
    json
}
