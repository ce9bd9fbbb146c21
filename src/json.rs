//! JSON output. The agent writes so little of it that it needs no JSON crate.

use iocrec_log::escape::push_json;

/// A JSON array of values that are JSON already.
pub fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A JSON string. Control characters are written as `\uXXXX`.
pub fn string(text: &str) -> String {
    let mut json = String::from("\"");
    push_json(&mut json, text);
    json.push('"');
    json
}
