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

/// Asserts that docs/json.md has each key of an object, and of what is in it, where it describes this command of iocrec.
#[cfg(test)]
pub fn assert_documented(command: &str, value: &serde_json::Value) {
    let page = include_str!("../docs/json.md");
    let section = page.split(&format!("\n## iocrec {command}\n")).nth(1).expect("a section");
    let section = section.split("\n## ").next().expect("a beginning");
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                assert!(section.contains(&format!("`{key}`")), "docs/json.md, iocrec {command}: no {key}");
                assert_documented(command, value);
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| assert_documented(command, value));
        }
        _ => {}
    }
}
