//! CSV of puts holds what JSON lines hold, with arrays, quotation marks, NaN and control characters among them.

use serde_json::{Map, Value};
use std::path::PathBuf;
use std::process::Command;

fn puts(format: &str) -> String {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/caputlog");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocreplay"));
    let done = command
        .current_dir(place)
        .args(["puts", "--all", "--utc", "--format", format, "log"])
        .output()
        .unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}

/// The cells of a line, as RFC 4180 has them.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    assert!(!quoted, "{line}");
    cells.push(cell);
    cells
}

#[test]
fn csv_and_json_lines_of_puts_agree() {
    let (csv, json) = (puts("csv"), puts("jsonl"));
    let mut lines = csv.lines();
    let heading = cells(lines.next().unwrap());
    let mut arrays = 0;
    let mut count = 0;
    for (line, object) in lines.zip(json.lines()) {
        let object: Map<String, Value> = serde_json::from_str(object).unwrap();
        let cells = cells(line);
        assert_eq!((cells.len(), heading.len()), (object.len(), object.len()), "{line}");
        for (key, cell) in heading.iter().zip(cells) {
            match &object[key] {
                Value::Null => assert_eq!(cell, "", "{key}: {line}"),
                // control characters are escaped, so that a put is a line
                Value::String(text) => {
                    assert_eq!(cell, text.replace('\n', "\\n").replace('\t', "\\t"), "{key}: {line}")
                }
                Value::Array(_) => {
                    arrays += 1;
                    assert_eq!(serde_json::from_str::<Value>(&cell).unwrap(), object[key], "{key}: {line}");
                }
                other => assert_eq!(cell, other.to_string(), "{key}: {line}"),
            }
        }
        count += 1;
    }
    assert_eq!(count, json.lines().count());
    assert_eq!(count + 1, csv.lines().count());
    assert!(count > 400 && arrays > 100, "{count} {arrays}");
}
