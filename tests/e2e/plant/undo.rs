//! Putting back what was written: `undo`, compared with the truth, and applied to the plant's first IOC.

use super::restoring::{unescaped, words};
use super::truth::{time, Truth};
use super::{is_right, iso, plant, same, Plant};
use crate::rig::{iocreplay, json_lines, wait_until, Client, Rig};
use crate::scripts;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the script is to find and to write, by PV: from the first and the last put since then that was accepted. Of
/// some puts, from those after the last one of others; nothing, if others put last.
fn expected(
    truth: &Truth,
    since: i64,
    is_selected: &dyn Fn(&Value) -> bool,
) -> BTreeMap<String, (Value, Value)> {
    let mut expected: BTreeMap<String, (Value, Value)> = BTreeMap::new();
    for put in truth.puts().iter().filter(|put| time(put, "begin") >= since) {
        let pv = put["pv"].as_str().expect("a PV");
        let is_refused = ["denied", "ECA_PUTFAIL"].iter().any(|outcome| put["outcome"] == **outcome);
        if is_refused || put["dbr"].as_u64() >= Some(35) || pv.ends_with(".PROC") {
            continue;
        }
        let pv = pv.replace(".VAL$", ".$");
        if !is_selected(put) {
            expected.remove(&pv);
            continue;
        }
        let entry = expected.entry(pv).or_insert_with(|| (Value::Null, put["before"].clone()));
        entry.0 = put["after"].clone();
    }
    expected.retain(|_, (found, wanted)| !same(found, wanted));
    expected
}

/// Whether a text is a number, but for the last bit: the tests' reader of JSON is not exact there.
pub fn is_near(number: &serde_json::Number, text: &str) -> bool {
    let (number, text) = (number.as_f64().unwrap_or(f64::NAN), text.parse::<f64>().unwrap_or(f64::NAN));
    number == text || (number - text).abs() <= number.abs() * f64::EPSILON
}

/// A value of the script's: text, or a number as text.
fn is_written_as(value: &Value, text: &str) -> bool {
    match value {
        Value::Number(number) => is_near(number, text),
        // not a number to the shell, and to caput
        Value::String(own) if own == "NaN" && text == "nan" => true,
        Value::String(own) if own.ends_with("Infinity") => *own == text.replace("inf", "Infinity"),
        Value::String(own) => *own == unescaped(text),
        _ => true, // arrays: applied to a real IOC below
    }
}

/// Since each moment: the PVs that were written, the value that each has and the one that it had, and no others.
#[test]
fn what_is_put_back_is_what_was_there() {
    let Some(plant) = plant("plant-undo") else { return };
    is_right(&differences(plant, &["T0", "T1", "T2", "T3", "T4", "T5", "END"]));
}

/// What is wrong with the scripts that undo everything since these moments.
pub fn differences(plant: &Plant, moments: &[&str]) -> Vec<String> {
    differences_of(plant, moments, &[], &|_| true)
}

/// The same of the puts that filters select.
pub fn differences_of(
    plant: &Plant,
    moments: &[&str],
    filters: &[&str],
    is_selected: &dyn Fn(&Value) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for moment in moments {
        let since = plant.truth.moment(moment);
        let (code, script, said) = plant.outcome(&[&["undo", "--since", &iso(since)], filters].concat());
        assert_eq!(code, 0, "{said}");
        let mut expected = expected(&plant.truth, since, is_selected);
        let backs =
            || script.lines().filter(|line| line.starts_with("back ") && !line.ends_with("() {")).map(words);
        let record = |pv: &str| pv.split('.').next().unwrap_or_default().to_owned();
        for line in script.lines().filter(|line| line.starts_with("back ") && !line.ends_with("() {")) {
            let words = words(line);
            let Some((found, wanted)) = expected.remove(&words[5]) else {
                // it has its value, but another field of its record, which is put back, changes it
                let is_coupled = backs().filter(|other| record(&other[5]) == record(&words[5])).count() > 1;
                if words[2] == words[3] && is_coupled {
                    continue;
                }
                wrong.push(format!("{moment} {filters:?}: {line} is invented"));
                continue;
            };
            if !is_written_as(&found, &words[2]) || !is_written_as(&wanted, &words[3]) {
                wrong.push(format!("{moment}: not {wanted} in place of {found}: {line}"));
            }
        }
        // what caput can't write is named
        expected.retain(|pv, _| !said.contains(&format!(" {pv} ")));
        wrong.extend(
            expected.iter().map(|(pv, values)| format!("{moment} {filters:?}: {pv} is missing: {values:?}")),
        );
    }
    wrong
}

const PORT: u16 = 5074;
const STRING: u16 = 0;
const CHAR: u16 = 4;
const DOUBLE: u16 = 6;
const NOTIFY: bool = true;

/// Two states of the plant: PV, DBR type, the value to come back, and the one to be undone.
type States = Vec<(&'static str, u16, Value, Value)>;

/// `empty`: with an array that was empty, which the client library of the stand-ins can't put.
fn states(empty: bool) -> States {
    let text = |text: &str| text.bytes().chain([0]).collect::<Value>();
    let mut states = vec![
        ("LI:MAG1:SP", DOUBLE, json!(40.25), json!(99.0)),
        ("LI:MAG2:SP", DOUBLE, json!(-1.0 / 3.0), json!(49.0)),
        ("LI:MAG2:SP.DESC", STRING, json!("Quadrupole 2, do not touch"), json!("touched")),
        ("LI:TEMP1.HIGH", DOUBLE, json!(41.5), json!(99.0)),
        ("LI:MODE", STRING, json!("Standby"), json!("Fault")),
        ("LI:VALVE", STRING, json!("Open"), json!("Closed")),
        ("LI:NOTE", STRING, json!("it's \"odd\" $(reboot)"), json!("")),
        (
            "LI:LONGNOTE.VAL$",
            CHAR,
            text("a note that is longer than the forty characters of a string"),
            text("gone"),
        ),
        ("LI:COUNT64", STRING, json!("9007199254740993"), json!("5")),
        ("LI:STEPS", DOUBLE, json!(-3.0), json!(7.0)),
        ("LI:CURVE", DOUBLE, json!([0.1, 0.0, -2.25]), json!([1.0, 2.0, 3.0, 4.0])),
        ("LI:NAMES", STRING, json!(["north", "", "south, east"]), json!(["x"])),
        ("LI:BYTES", CHAR, json!([1, 2, 7]), json!([9])),
        ("LI:PHASE:SP", DOUBLE, json!(1e-7), json!(30.0)),
        // which nothing was ever written to
        ("LI:SPARE1", DOUBLE, Value::Null, json!(9.5)),
        ("LI:SPARE4", STRING, Value::Null, json!("Out")),
    ];
    if empty {
        states.push(("LI:SPARE6", DOUBLE, Value::Null, json!([1.0, 2.0])));
    }
    states
}

fn values(client: &mut Client, states: &States) -> Vec<Value> {
    states.iter().map(|(pv, ..)| client.get(pv)).collect()
}

/// With EPICS Base's caput and caget, or stand-ins on machines for which there are none: the script gives the real IOC every
/// value back that it had at a time, and `at` says the same of it.
#[test]
fn the_ioc_gets_back_what_it_had() {
    let Some(rig) = Rig::new("plant-undo-applied") else { return };
    let tools = scripts::tools("plant-undo-applied", &rig.dir);
    let states = states(tools.are_real);
    let ioc = rig.ioc("LINAC1", PORT, "plant/linac.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "LI:SHELL", "both");
    for (pv, dbr, value, _) in states.iter().filter(|(_, _, value, _)| !value.is_null()) {
        client.put(pv, *dbr, value.clone(), NOTIFY);
    }
    let before = values(&mut client, &states);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
    let since = iso(now());
    for (pv, dbr, _, value) in &states {
        client.put(pv, *dbr, value.clone(), NOTIFY);
    }
    assert!(values(&mut client, &states).iter().zip(&before).all(|(now, before)| now != before));
    wait_until("the log has the outcome of all puts", || {
        let done =
            |line: &&Value| line["status"] == "ok" && !line["new"].is_null() && line["pv"] != "LI:SHELL";
        let first = states.iter().filter(|(_, _, value, _)| !value.is_null()).count();
        rig.puts(&[]).iter().filter(done).count() == first + states.len()
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let at = rig.replay("at", &[]);
    assert_eq!(at.status.code(), Some(2), "a time is needed");
    let at =
        Command::new(iocreplay()).args(["at", &since, &rig.log(), "--format", "jsonl"]).output().expect("at");
    let at = json_lines(&at.stdout);
    for ((pv, ..), before) in states.iter().zip(&before) {
        let name = pv.replace(".VAL$", "");
        let line = at.iter().find(|line| line["pv"] == name).unwrap_or_else(|| panic!("{pv} is missing"));
        // 64 bits do not go over Channel Access, and a long string comes as characters
        if ![*pv == "LI:COUNT64", pv.ends_with('$')].contains(&true) {
            assert!(same(&line["value"], before), "{line}: {before}");
        }
    }

    let script = rig.path("undo.sh");
    let undo = Command::new(iocreplay())
        .args(["undo", "--since", &since, "-o", &script, &rig.log()])
        .output()
        .expect("undo");
    let said = String::from_utf8_lossy(&undo.stderr).into_owned();
    assert!(undo.status.success() && said.is_empty(), "{said}");
    let done = scripts::run(Path::new(&script), &tools.directory, &["--yes"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(values(&mut client, &states), before, "{done:?}");
}
