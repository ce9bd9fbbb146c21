//! Another plant: records of every type of EPICS Base, and puts that a seed chooses (tests/rig/plant/kinds.py).
//!
//! `IOCREC_PLANT_SEED=N` makes another one of it; `IOCREC_PLANT_KINDS=DIR` takes one that is recorded already.

use super::listing::{self, LISTINGS};
use super::states::{state, states, State};
use super::truth::time;
use super::{is_right, iso, nanoseconds, puts, record_with, restoring, same, undo, Plant};
use crate::rig::{not_run, Needs};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const MOMENTS: [&str; 4] = ["T0", "T1", "T2", "T3"];
/// Types whose value the recorder does not read: it has no meaning, or lies where no other type has it. A `sub` without a
/// function is active for ever.
const NOT_READ: [&str; 5] = ["fanout", "seq", "compress", "histogram", "sub"];
/// Types that tell nobody of a change of their alarm.
const SILENT: [&str; 2] = ["permissive", "aSub"];

fn plant(test: &str) -> Option<&'static Plant> {
    static PLANT: OnceLock<Plant> = OnceLock::new();
    if let Some(recorded) = std::env::var_os("IOCREC_PLANT_KINDS") {
        return Some(PLANT.get_or_init(|| Plant::of(recorded.into())));
    }
    if !not_run::is_root() {
        not_run(test, Needs::Root);
        return None;
    }
    let seed = std::env::var("IOCREC_PLANT_SEED").unwrap_or("1".to_owned());
    Some(PLANT.get_or_init(|| record_with("kinds.py", "plant-kinds", &[&seed])))
}

fn records(plant: &Plant) -> impl Iterator<Item = (&String, &str)> {
    let records = plant.truth.part("records").as_object().expect("records");
    records.iter().map(|(name, about)| (name, about["type"].as_str().expect("a type")))
}

#[test]
fn puts_to_every_type() {
    let Some(plant) = plant("kinds-puts") else { return };
    let mut expected = puts::expected(&plant.truth);
    for line in &mut expected {
        // commands, what is scanned meanwhile, and what makes no record process and is read later: the log may say that
        // it is not certain of these
        const PERHAPS: [&str; 7] = [
            "K:COMPRESS.RES",
            "K:HISTOGRAM.CMD",
            "K:SUBARRAY.INDX",
            "K:AO.EGU",
            "K:AO.DESC",
            "K:AO.HHSV",
            "K:MBBODIRECT.B3",
        ];
        if PERHAPS.iter().any(|pv| line["pv"] == *pv) {
            line.as_object_mut().expect("an object").remove("inexact");
        }
    }
    is_right(&puts::differences(&plant.lines(&["puts", "--utc"]), &expected));
}

#[test]
fn values_of_every_type() {
    let Some(plant) = plant("kinds-values") else { return };
    let (since, until) = (plant.truth.moment("T0"), plant.truth.moment("T3"));
    let lines = plant.lines(&["values", "*", "--utc", "--since", &iso(since), "--until", &iso(until)]);
    let mut found: BTreeMap<&str, Vec<State>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["field"] == "VAL" && line["source"] == "process") {
        found.entry(line["record"].as_str().expect("a record")).or_default().push(State {
            time: nanoseconds(&line["time"]),
            value: line["value"].clone(),
            severity: line["severity"].clone(),
            status: line["status"].clone(),
        });
    }
    let mut wrong = Vec::new();
    for (record, kind) in records(plant) {
        let lines = found.remove(record.as_str()).unwrap_or_default();
        if NOT_READ.contains(&kind) {
            assert!(lines.iter().all(|line| line.value.is_null()), "{record}: {lines:?}");
            continue;
        }
        let is = |one: &State, other: &State| {
            same(&one.value, &other.value) && (SILENT.contains(&kind) || one.has_alarm_of(other))
        };
        let (before, within) = states(&plant.truth, record, since, until);
        let changes = |all: Vec<State>| {
            let mut last = before.clone();
            all.into_iter()
                .filter(|one| !is(&std::mem::replace(&mut last, one.clone()), one))
                .collect::<Vec<_>>()
        };
        let (lines, within) = (changes(lines), changes(within));
        if lines.len() != within.len() || !lines.iter().zip(&within).all(|(one, other)| is(one, other)) {
            wrong.push(format!("{record} ({kind}) was {lines:?}, not {within:?}"));
        }
    }
    is_right(&wrong);
}

#[test]
fn every_type_at_every_moment() {
    let Some(plant) = plant("kinds-at") else { return };
    let mut wrong = Vec::new();
    for moment in MOMENTS {
        let (code, out, said) =
            plant.outcome(&["at", &iso(plant.truth.moment(moment)), "--utc", "--format", "jsonl"]);
        assert_eq!(code, 0, "{said}");
        let lines = crate::rig::json_lines(out.as_bytes());
        for (record, kind) in records(plant) {
            if plant.truth.list("scanned").contains(&json!(record)) {
                continue;
            }
            let line = lines.iter().find(|line| line["pv"] == **record);
            if NOT_READ.contains(&kind) {
                assert!(line.is_none_or(|line| line["known"] == "no" && line["value"].is_null()), "{line:?}");
                continue;
            }
            let read = state(&plant.truth.part("moments")[moment]["readings"][record]);
            let is = line.is_some_and(|line| {
                same(&line["value"], &read.value)
                    && line["severity"] == read.severity
                    && line["status"] == read.status
            });
            if !is {
                wrong.push(format!("{moment}: {record} ({kind}) was {read:?}, not {line:?}"));
            }
        }
    }
    is_right(&wrong);
}

#[test]
fn every_type_is_put_back() {
    let Some(plant) = plant("kinds-undo") else { return };
    is_right(&undo::differences(plant, &MOMENTS));
}

/// Of one user, and of some PVs: what others have put since then is left alone, and so is what they put over it.
#[test]
fn what_one_user_put_is_put_back() {
    let Some(plant) = plant("kinds-undo-user") else { return };
    let mut wrong = Vec::new();
    for client in plant.truth.list("clients") {
        let user = client["user"].as_str().expect("a user");
        let of_user = |put: &serde_json::Value| put["client"] == client["name"];
        wrong.extend(undo::differences_of(plant, &["T0", "T1", "T2"], &["--user", user], &of_user));
        let filters = ["--user", user, "--pv", "K:*OUT*", "--exclude", "K:LONGOUT"];
        let of_some = |put: &serde_json::Value| {
            let pv = put["pv"].as_str().expect("a PV");
            of_user(put) && pv.contains("OUT") && pv != "K:LONGOUT"
        };
        wrong.extend(undo::differences_of(plant, &["T0", "T1"], &filters, &of_some));
    }
    is_right(&wrong);
}

/// What no file can hold is named; what one holds is what was there, also of texts that a reader takes for something else.
#[test]
fn files_of_every_type() {
    let Some(plant) = plant("kinds-files") else { return };
    is_right(&restoring::wrong_files(plant, &["T0", "T1", "T3"]));
}

#[test]
fn every_type_in_csv() {
    let Some(plant) = plant("kinds-csv") else { return };
    is_right(
        &LISTINGS.iter().flat_map(|arguments| listing::differences(plant, arguments)).collect::<Vec<_>>(),
    );
}

/// What made each change that a put made at once: `why`, just after the put.
#[test]
fn why_names_each_put() {
    let Some(plant) = plant("kinds-why") else { return };
    let mut asked = 0;
    for put in plant.truth.puts() {
        let pv = put["pv"].as_str().expect("a PV");
        let is_plain = !pv.contains('.') && put["outcome"] == "ok" && !same(&put["before"], &put["after"]);
        let kind = plant.truth.part("records")[pv]["type"].as_str().unwrap_or_default();
        if !is_plain || NOT_READ.contains(&kind) || asked >= 25 {
            continue;
        }
        let why = plant.object(&["why", "--json", "--utc", "--at", &iso(time(put, "end")), pv]);
        let client = plant.truth.client(&put["client"]).expect("a client");
        assert!(same(&why["to"], &put["after"]) && same(&why["from"], &put["before"]), "{why}: {put}");
        assert_eq!((&why["user"], &why["client_host"]), (&client["user"], &client["host"]), "{why}");
        let at = nanoseconds(&why["time"]);
        assert!(at >= time(put, "begin") && at <= time(put, "end"), "{why}: {put}");
        asked += 1;
    }
    assert!(asked >= 20, "{asked}");
}
