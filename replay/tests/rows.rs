//! Rows as JSON lines and CSV of commands whose text is no list of rows, compared with what the log was written from.

mod common;

use common::{happenings, run, write_log};
use iocrec_log::event::Fact;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;

fn works(here: &Path, words: &[&str]) -> String {
    let (code, out, err) = run(here, words);
    assert_eq!(code, 0, "{words:?}: {err}");
    out
}

fn rows(here: &Path, words: &[&str]) -> Vec<Json> {
    let out = works(here, &[words, &["--format", "jsonl"]].concat());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn csv_has_the_keys_and_rows_of_json_lines() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    for words in [
        vec!["info", "log"],
        vec!["verify", "log"],
        vec!["why", "T:SP", "log"],
        vec!["last", "log"],
        vec!["traces", "log"],
        vec!["profile", "log"],
        vec!["undo", "--since", "2026-01-01", "log"],
        vec!["logs", "log"],
        vec!["metrics", "log"],
        vec!["metrics", "log", "--step", "1s"],
    ] {
        let json = rows(here, &words);
        let csv = works(here, &[words.as_slice(), &["--format", "csv"]].concat());
        assert!(!json.is_empty(), "{words:?}");
        assert_eq!(csv.lines().count(), json.len() + 1, "{words:?}: {csv}");
        let heading: BTreeSet<&str> = csv.lines().next().unwrap().split(',').collect();
        for row in &json {
            let keys: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, heading, "{words:?}");
        }
    }
}

/// What was counted is what the commands of each sort list.
#[test]
fn rows_of_metrics_count_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let all = rows(here, &["metrics", "log"]);
    let sum = |name: &str, label: Option<(&str, &str)>| -> i64 {
        let of_it =
            |row: &&Json| row["name"] == name && label.is_none_or(|(key, value)| row["labels"][key] == value);
        all.iter().filter(of_it).map(|row| row["value"].as_i64().expect("a whole number")).sum()
    };
    let puts = rows(here, &["puts", "log"]);
    assert_eq!(sum("epics.ioc.puts", None), puts.len() as i64);
    assert_eq!(sum("epics.ioc.puts", Some(("status", "denied"))), 1);
    // five scans
    assert_eq!(sum("epics.ioc.record.processings", Some(("trigger", "scan"))), 5);
    assert_eq!((sum("iocrec.marks", None), sum("iocrec.lost", None)), (1, 17));
    for row in &all {
        assert!(row["host"] == "box1" && row["unit"].is_string() && row["labels"].is_object(), "{row}");
    }
    let text = works(here, &["metrics", "log"]);
    assert!(text.starts_with("# TYPE"), "OpenMetrics is what comes by itself: {text}");
    // a line for each
    let text = works(here, &["metrics", "log", "--format", "text"]);
    assert_eq!(text.lines().count(), all.len());
    assert!(text.lines().any(|line| line.contains("iocrec.lost") && line.ends_with("  17")), "{text}");
}

/// What happened has a row where the commands of each sort have one.
#[test]
fn rows_of_logs_are_those_of_each_sort() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let all = rows(here, &["logs", "log"]);
    for (what, command, name) in [("put", "puts", "pv"), ("alarm", "alarms", "record")] {
        let own = rows(here, &[command, "log"]);
        let own = own.iter().filter(|row| what == "put" || row["what"] != "still");
        let expected: Vec<_> = own.map(|row| (&row["time"], &row["ioc"], &row[name])).collect();
        let rows = all.iter().filter(|row| row["what"] == what);
        let found: Vec<_> = rows.map(|row| (&row["time"], &row["ioc"], &row["pv"])).collect();
        assert!(!found.is_empty() && found == expected, "{found:?} {expected:?}");
    }
    let text = works(here, &["logs", "log"]);
    assert_eq!(text.lines().count(), all.len());
    for (row, line) in all.iter().zip(text.lines()) {
        assert!(line.ends_with(row["text"].as_str().unwrap()), "{line}: {row}");
    }
}

#[test]
fn values_of_what_is_left_out_are_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let all = rows(here, &["values", "T:*", "log"]);
    let is_other = |row: &&Json| row["pv"] != "T:SP" && !row["pv"].as_str().unwrap_or("").starts_with("T:C");
    let others: Vec<&Json> = all.iter().filter(is_other).collect();
    assert!(!others.is_empty() && others.len() < all.len(), "{all:#?}");
    for name in ["T:SP", "T:SP.VAL"] {
        let left = rows(here, &["values", "T:*", "log", "--exclude", name, "--exclude", "T:C*"]);
        assert_eq!(left.iter().collect::<Vec<_>>(), others, "{name}");
    }
}

#[test]
fn rows_of_traces_are_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let all = rows(here, &["traces", "log"]);
    let processed = all.iter().filter(|row| row["what"] == "process").count();
    let written = happenings().into_iter().filter(|(_, fact)| matches!(fact, Fact::Process(_))).count();
    assert_eq!(processed, written);
    // numbers rise by one in a chain; what led to a row is above it
    let mut before = (0, 0);
    for row in &all {
        let (chain, number) = (row["chain"].as_u64().unwrap(), row["number"].as_u64().unwrap());
        assert_eq!((chain, number), if number == 1 { (before.0 + 1, 1) } else { (before.0, before.1 + 1) });
        assert!(row["parent"].as_u64().map_or(number == 1, |parent| parent < number), "{row}");
        assert_eq!(row["cause"].is_null(), number > 1, "{row}");
        before = (chain, number);
    }
    let puts = rows(here, &["puts", "log"]);
    assert!(!puts.is_empty());
    for put in puts {
        let is_it = |row: &&Json| {
            let same = |key: &str| row[key] == put[key];
            row["number"] == 1
                && ["time", "host", "ioc", "pv", "record", "user", "client", "via"].into_iter().all(same)
                && row["value"] == put["requested"]
        };
        assert_eq!(all.iter().filter(is_it).count(), 1, "{put}: {all:#?}");
    }
}

#[test]
fn rows_of_undo_are_what_its_script_does() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let words = ["undo", "--since", "2026-01-01", "log"];
    let script = works(here, &words);
    let lines: Vec<&str> = script.lines().collect();
    let all = rows(here, &words);
    assert!(!all.is_empty());
    for row in all {
        let about = format!("# {} of {}", row["pv"].as_str().unwrap(), row["ioc"].as_str().unwrap());
        let place = lines.iter().position(|line| *line == about).expect("the field is in the script");
        let done =
            lines[place..].iter().find(|line| line.starts_with("back ") || line.contains("not put back"));
        let done = done.unwrap();
        assert_eq!(row["put_back"], done.starts_with("back "), "{row}: {done}");
        match row["reason"].as_str() {
            Some(reason) => assert!(done.contains(reason), "{row}: {done}"),
            None => {
                let numbers = done.split(' ').skip(2).take(2).map(|word| word.parse::<f64>().ok());
                let own = [&row["from"], &row["to"]].into_iter().map(Json::as_f64);
                assert!(numbers.eq(own), "{row}: {done}");
            }
        }
    }
}
