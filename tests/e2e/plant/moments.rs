//! What everything was at a time, and what differs between two: `at`, `diff`.

use super::states::{state, states, State};
use super::truth::time;
use super::{is_right, iso, nanoseconds, plant, same, Plant};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// The moments at which the script read every record, in order.
const MOMENTS: [&str; 7] = ["T0", "T1", "T2", "T3", "T4", "T5", "END"];

/// The lines of `at`, by PV. Its summary on stderr is allowed.
fn at(plant: &Plant, when: i64) -> BTreeMap<String, Value> {
    let (code, out, err) = plant.outcome(&["at", &iso(when), "--utc", "--format", "jsonl"]);
    assert_eq!(code, 0, "{err}");
    let lines = crate::rig::json_lines(out.as_bytes());
    let count = lines.len();
    let name = |line: &Value| line["pv"].as_str().expect("a PV").to_owned();
    let lines: BTreeMap<String, Value> = lines.into_iter().map(|line| (name(&line), line)).collect();
    assert_eq!(lines.len(), count, "a PV has one value");
    lines
}

/// Whether a record's IOC was dead then.
fn is_dead(plant: &Plant, record: &str, when: i64) -> bool {
    time(plant.truth.ioc_of(record), "begin") < when
}

/// Every record is there, with the value and the alarm that it had by its IOC's word; of a dead IOC nothing is known.
#[test]
fn at_every_moment_every_record_is_what_it_was() {
    let Some(plant) = plant("plant-at") else { return };
    let truth = &plant.truth;
    let mut wrong = Vec::new();
    for moment in MOMENTS {
        let when = truth.quiet(truth.moment(moment));
        let mut lines = at(plant, when);
        for record in truth.part("records").as_object().expect("records").keys() {
            let Some(line) = lines.remove(record) else {
                wrong.push(format!("{moment}: {record} is missing"));
                continue;
            };
            if is_dead(plant, record, when) {
                if line["known"] != "no" || !line["value"].is_null() {
                    wrong.push(format!("{moment}: the IOC of {record} is dead: {line}"));
                }
                continue;
            }
            // what came last by the observer; for what is not scanned, the script has read it, too
            let (known, _) = states(truth, record, when, when);
            let read = &truth.part("moments")[moment]["readings"][record];
            let is_scanned = truth.list("scanned").contains(&json!(record));
            assert!(is_scanned || known.is(&state(read)), "{record} at {moment}: {known:?}, {read}");
            let found = State {
                time: known.time,
                value: line["value"].clone(),
                severity: line["severity"].clone(),
                status: line["status"].clone(),
            };
            if line["known"] != "yes" || !found.is(&known) {
                wrong.push(format!("{moment}: {record} is not {known:?} in {line}"));
            }
        }
        // fields other than values: those that were written to before
        let written =
            |field: &str| truth.puts().iter().any(|put| put["pv"] == *field && time(put, "begin") < when);
        wrong.extend(lines.keys().filter(|pv| !written(pv)).map(|pv| format!("{moment}: {pv} is invented")));
        for put in truth.puts().iter().filter(|put| time(put, "begin") < when) {
            let pv = put["pv"].as_str().expect("a PV");
            let Some(line) = lines.get(pv).filter(|line| line["known"] == "yes") else { continue };
            // each was written once, but for LI:PUMP:RATIO.B
            let last = truth.puts().iter().rfind(|put| put["pv"] == pv && time(put, "begin") < when);
            if !same(&line["value"], &last.expect("a put")["after"]) {
                wrong.push(format!("{moment}: {pv} is not {} in {line}", last.expect("a put")["after"]));
            }
        }
    }
    is_right(&wrong);
}

/// Units, precision and description are those of the database.
#[test]
fn properties_are_those_of_the_database() {
    let Some(plant) = plant("plant-properties") else { return };
    let lines = at(plant, plant.truth.moment("T0"));
    let mut wrong = Vec::new();
    for (record, about) in plant.truth.part("records").as_object().expect("records") {
        let line = &lines[record];
        for (key, field) in [("units", "EGU"), ("description", "DESC")] {
            // shown where there is any
            let loaded = about["fields"][field].as_str().unwrap_or_default();
            if line[key].as_str().unwrap_or_default() != loaded {
                wrong.push(format!("{record}: {key} is not {loaded:?} in {line}"));
            }
        }
        if let Some(precision) = about["fields"]["PREC"].as_str() {
            if line["precision"].as_i64() != precision.parse().ok() {
                wrong.push(format!("{record}: precision is not {precision} in {line}"));
            }
        }
    }
    is_right(&wrong);
}

/// Between any two moments: exactly what the observer saw to differ, and how often it changed.
#[test]
fn differences_are_those_between_the_moments() {
    let Some(plant) = plant("plant-diff") else { return };
    let truth = &plant.truth;
    let mut wrong = Vec::new();
    for (one, other) in [("T0", "T1"), ("T1", "T2"), ("T2", "T3"), ("T3", "T4"), ("T0", "T4")] {
        let (since, until) = (truth.quiet(truth.moment(one)), truth.quiet(truth.moment(other)));
        let (code, out, err) =
            plant.outcome(&["diff", &iso(since), &iso(until), "--utc", "--format", "jsonl"]);
        assert_eq!(code, 0, "{err}");
        let lines = crate::rig::json_lines(out.as_bytes());
        let mut found: BTreeMap<&str, &Value> = lines
            .iter()
            .filter(|line| line["field"] == "VAL")
            .map(|line| (line["record"].as_str().expect("a record"), line))
            .collect();
        for record in truth.part("records").as_object().expect("records").keys() {
            let (before, within) = states(truth, record, since, until);
            let after = within.last().unwrap_or(&before);
            let line = found.remove(record.as_str());
            if same(&before.value, &after.value) {
                if let Some(line) = line {
                    wrong.push(format!("{one} to {other}: {record} does not differ: {line}"));
                }
                continue;
            }
            let Some(line) = line else {
                wrong.push(format!("{one} to {other}: {record} is missing: {before:?} -> {after:?}"));
                continue;
            };
            if !same(&line["before"], &before.value) || !same(&line["after"], &after.value) {
                wrong.push(format!("{one} to {other}: not {before:?} -> {after:?} in {line}"));
            }
            let all: Vec<&State> = std::iter::once(&before).chain(&within).collect();
            let changes = all.windows(2).filter(|pair| !same(&pair[0].value, &pair[1].value)).count() as u64;
            // of loops the observer was not sent all
            let is_looping = truth.list("looping").contains(&json!(record));
            if !is_looping && line["changes"].as_u64() != Some(changes) {
                wrong.push(format!("{one} to {other}: not {changes} changes in {line}"));
            }
            let when = nanoseconds(&line["time"]);
            if when < after.time - 256 || when > after.time + 100_000_000 {
                wrong.push(format!("{one} to {other}: the last change is not of {after:?} in {line}"));
            }
        }
        wrong.extend(found.keys().map(|record| format!("{one} to {other}: {record} is invented")));
    }
    is_right(&wrong);
}
