//! The little JSON that the agent writes. (It does without a JSON crate for two pages.)

use iocrec_log::escape::push_json;

/// A JSON array of values that are JSON already.
pub fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A JSON string. What a terminal would obey stands as `\uXXXX` in it.
pub fn string(text: &str) -> String {
    let mut json = String::from("\"");
    push_json(&mut json, text);
    json.push('"');
    json
}
