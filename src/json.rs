//! The little JSON that the agent writes. (It does without a JSON crate for two pages.)

use std::fmt::Write;

/// A JSON array of values that are JSON already.
pub fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A JSON string (RFC 8259, section 7).
pub fn string(text: &str) -> String {
    let mut json = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            control if control < ' ' => _ = write!(json, "\\u{:04x}", control as u32),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}
