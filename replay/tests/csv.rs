//! CSV holds what JSON lines hold: of puts, with arrays, quotation marks, NaN and control characters among them; and of all
//! kinds of what is followed, which share their columns.

mod common;

use common::{happenings, run, write_events, SECOND};
use iocrec_log::event::{ConsoleLine, Fact, IocEnd, Output};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
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

/// Checks that CSV has a line for each object, with all its values under their keys. Of several kinds, an object has a part
/// of the keys. Returns how many objects there are, and how many arrays in them.
fn check(csv: &str, json: &str, is_of_one_kind: bool) -> (usize, usize) {
    let mut lines = csv.lines();
    let heading = cells(lines.next().unwrap());
    let (mut count, mut arrays) = (0, 0);
    for (line, object) in lines.zip(json.lines()) {
        let object: Map<String, Value> = serde_json::from_str(object).unwrap();
        let cells = cells(line);
        assert_eq!(cells.len(), heading.len(), "{line}");
        assert!(!is_of_one_kind || heading.len() == object.len(), "{line}");
        assert!(object.keys().all(|key| heading.contains(key)), "{heading:?}: {object:?}");
        for (key, cell) in heading.iter().zip(cells) {
            match object.get(key).unwrap_or(&Value::Null) {
                Value::Null => assert_eq!(cell, "", "{key}: {line}"),
                // control characters are escaped, so that a put is a line
                Value::String(text) => {
                    assert_eq!(cell, text.replace('\n', "\\n").replace('\t', "\\t"), "{key}: {line}")
                }
                value @ Value::Array(_) => {
                    arrays += 1;
                    assert_eq!(serde_json::from_str::<Value>(&cell).unwrap(), *value, "{key}: {line}");
                }
                value @ Value::Object(_) => {
                    assert_eq!(serde_json::from_str::<Value>(&cell).unwrap(), *value, "{key}: {line}");
                }
                other => assert_eq!(cell, other.to_string(), "{key}: {line}"),
            }
        }
        count += 1;
    }
    assert_eq!(count, json.lines().count());
    assert_eq!(count + 1, csv.lines().count());
    (count, arrays)
}

#[test]
fn csv_and_json_lines_of_puts_agree() {
    let (count, arrays) = check(&puts("csv"), &puts("jsonl"), true);
    assert!(count > 400 && arrays > 100, "{count} {arrays}");
}

/// All kinds of what is followed stand under one heading, which has each key that one of them has, and no other.
#[test]
fn what_is_followed_has_one_heading() {
    let here = tempfile::tempdir().unwrap();
    let line = ConsoleLine {
        thread: common::SCAN,
        sp: -100,
        output: Output::Terminal,
        text: "sevr=major, \"it\" stands".into(),
        cut: 0,
        is_ended: true,
    };
    let mut facts = happenings();
    facts.push((5 * SECOND, Fact::from(line)));
    facts.push((6 * SECOND, Fact::IocEnd(IocEnd { ioc: 2, how: "killed by SIGKILL".into() })));
    write_events(&here.path().join("log"), "box1", 7, facts);
    let mut keys = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for log in ["log", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant/log")] {
        let follow = |format| {
            let words = ["follow", "--once", "--utc", "--format", format, log];
            let (code, out, err) = run(here.path(), &words);
            assert_eq!(code, 0, "{err}");
            out
        };
        let (csv, json) = (follow("csv"), follow("jsonl"));
        let (count, _) = check(&csv, &json, false);
        assert!(count >= 6, "{csv}");
        for object in json.lines() {
            let object: Map<String, Value> = serde_json::from_str(object).unwrap();
            kinds.insert(object["event"].as_str().unwrap().to_owned());
            keys.extend(object.into_iter().map(|(key, _)| key));
        }
        let heading = cells(csv.lines().next().unwrap());
        assert_eq!(heading[..4], ["event", "time", "host", "ioc"]);
        assert_eq!(heading.iter().collect::<BTreeSet<_>>().len(), heading.len(), "no name comes twice");
        if kinds.len() == 6 {
            assert_eq!(heading.into_iter().collect::<BTreeSet<String>>(), keys);
        }
    }
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    assert_eq!(kinds, ["alarm", "console", "death", "loss", "mark", "put"]);
}
