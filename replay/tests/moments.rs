//! Properties of what is known at a time: `at` is the fold of `values`, whatever the time; `diff` is the difference of
//! two `at`. Folded here once more, from what `values` prints.

mod common;

use common::{iocreplay, outcome};
use iocrec_testing::chance::{fuzz, Random};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Host, IOC and PV.
type Key = (String, String, String);

fn lines(arguments: &[&str], log: &Path) -> Vec<Value> {
    let log = log.to_str().unwrap();
    let arguments = [arguments, &["--format", "jsonl", "--utc", log]].concat();
    let (code, out, err) = outcome(iocreplay(&arguments).output().unwrap());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn word(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

fn key(line: &Value) -> Key {
    (word(line, "host"), word(line, "ioc"), word(line, "pv"))
}

/// What is known of a PV.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Value(Value),
    /// It may have changed since.
    Doubt(Value),
    No,
}

/// All times in UTC and of the same length, so that they are in order as text.
fn fold(values: &[Value], time: &str) -> BTreeMap<Key, Known> {
    let mut known = BTreeMap::new();
    for line in values {
        if line["source"] != "gap" {
            if word(line, "time").as_str() <= time {
                let unknown = line["value"].is_null() || line["cut"] == true && line["value"] == "";
                let value = line["value"].clone();
                known.insert(key(line), if unknown { Known::No } else { Known::Value(value) });
            }
            continue;
        }
        // it began when it began, however late the recorder noted it
        if word(line, "since").as_str() > time {
            continue;
        }
        let place = |(host, ioc, _): &&Key| {
            *host == word(line, "host") && (*ioc == word(line, "ioc") || line["ioc"].is_null())
        };
        let concerned: Vec<Key> = known.keys().filter(place).cloned().collect();
        for key in concerned {
            let now = match known.remove(&key) {
                Some(Known::Value(value) | Known::Doubt(value)) if line["unseen"] != "ended" => {
                    Known::Doubt(value)
                }
                _ => Known::No,
            };
            known.insert(key, now);
        }
    }
    known
}

fn at(log: &Path, time: &str) -> BTreeMap<Key, Known> {
    lines(&["at", time], log)
        .into_iter()
        .map(|line| {
            let value = line["value"].clone();
            let known = match line["known"].as_str() {
                Some("yes") => Known::Value(value),
                Some("doubt") => Known::Doubt(value),
                _ => Known::No,
            };
            (key(&line), known)
        })
        .collect()
}

/// Logs of recorders, and one that was written for tests.
fn logs(directory: &Path) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    common::write_log(&directory.join("written"), "box", 1);
    vec![
        here.join("plant/log"),
        here.join("travelled/x86_64-6.1/log"),
        here.join("travelled/armv7-6.1/log"),
        here.join("travelled/arm64-ioc-6.12/log"),
        directory.join("written"),
    ]
}

/// A time of the log: of a value, just before or after it, or somewhere.
fn some_time(random: &mut Random, values: &[Value]) -> String {
    let line = &values[random.below(values.len())];
    let time = word(line, "time");
    let (head, tail) = time.split_at(20);
    let nanoseconds: u32 = tail[..9].parse().unwrap();
    let shifted = match random.below(4) {
        0 => nanoseconds,
        1 => nanoseconds.saturating_sub(1),
        2 => nanoseconds + 1,
        _ => random.below(999_999_999) as u32,
    };
    format!("{head}{:09}+00:00", shifted.min(999_999_999))
}

#[test]
fn what_is_at_a_time_is_the_fold_of_the_values_before() {
    let directory = tempfile::tempdir().unwrap();
    let logs: Vec<(PathBuf, Vec<Value>)> =
        logs(directory.path()).into_iter().map(|log| (log.clone(), lines(&["values", "*"], &log))).collect();
    let mut compared = 0;
    fuzz(25, |random: &mut Random| {
        let (log, values) = &logs[random.below(logs.len())];
        let time = some_time(random, values);
        let (folded, found) = (fold(values, &time), at(log, &time));
        for (key, folded) in &folded {
            match (folded, found.get(key)) {
                // a process that nothing is known of, and what may have been written, make more doubts than lines do
                (Known::Value(value), Some(Known::Value(found) | Known::Doubt(found))) => {
                    assert_eq!(value, found, "{key:?} at {time} in {}", log.display())
                }
                (Known::Doubt(value), Some(Known::Doubt(found))) => {
                    assert_eq!(value, found, "{key:?} at {time} in {}", log.display())
                }
                (Known::No, Some(Known::No)) => {}
                (folded, found) => panic!(
                    "{key:?} at {time} in {}: {folded:?} by its values, {found:?} by at",
                    log.display()
                ),
            }
            compared += 1;
        }
        // what was not seen before is unknown
        for (key, found) in found.iter().filter(|(key, _)| !folded.contains_key(*key)) {
            assert_eq!(*found, Known::No, "{key:?} at {time} in {} has no values before", log.display());
        }
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || compared > 500, "{compared}");
}

#[test]
fn what_differs_is_what_is_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let logs: Vec<(PathBuf, Vec<Value>)> =
        logs(directory.path()).into_iter().map(|log| (log.clone(), lines(&["values", "*"], &log))).collect();
    let mut differing = 0;
    fuzz(10, |random: &mut Random| {
        let (log, values) = &logs[random.below(logs.len())];
        let mut times = [some_time(random, values), some_time(random, values)];
        times.sort();
        let [first, second] = &times;
        let (before, after) = (at(log, first), at(log, second));
        let mut expected = BTreeMap::new();
        for (key, after) in &after {
            if let (Some(Known::Value(one)), Known::Value(other)) = (before.get(key), after) {
                if one != other {
                    expected.insert(key.clone(), (one.clone(), other.clone()));
                }
            }
        }
        differing += expected.len();
        let known = |line: &&Value| line["before_known"] == "yes" && line["after_known"] == "yes";
        let lines = lines(&["diff", first, second], log);
        let found: BTreeMap<Key, (Value, Value)> = lines
            .iter()
            .filter(known)
            .map(|line| (key(line), (line["before"].clone(), line["after"].clone())))
            .collect();
        assert_eq!(found, expected, "{first} to {second} in {}", log.display());
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || differing > 50, "{differing}");
}
