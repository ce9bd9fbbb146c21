//! What users and clients led to, in the log of the plant, whose script (`tests/rig/plant/record.py`) says who put what: the
//! answers of `values` and `diff` that `--user` and `--client` choose.

mod common;

use common::run;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn plant() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plant")
}

fn rows(words: &[&str]) -> (Vec<Json>, String) {
    let (code, out, err) = run(&plant(), &[words, &["log", "--utc", "--format", "jsonl"]].concat());
    assert_eq!(code, 0, "{words:?}: {err}");
    (out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), err)
}

/// The values of a PV that a choice leaves.
fn values(pv: &str, choice: &[&str]) -> Vec<f64> {
    let (rows, _) = rows(&[&["values", pv], choice].concat());
    // a gap is of no PV
    let of_it = rows.iter().filter(|row| row["pv"] == pv);
    of_it.map(|row| row["value"].as_f64().expect("a number")).collect()
}

#[test]
fn values_are_of_those_who_led_to_them() {
    // tune the magnet: the operator, and then the expert
    assert_eq!(values("LI:MAG1:SP", &["--user", "nobody"]), [40.0, 100.0, 60.0, 60.0, 72.0, 20.0]);
    assert_eq!(values("LI:MAG1:SP", &["--user", "daemon"]), [98.0, 84.0]);
    assert_eq!(values("LI:MAG1:SP", &["--client", "laptop-7"]), [98.0, 84.0]);
    // its readback was processed for the same puts
    let readback = values("LI:MAG1:RB", &["--user", "daemon"]);
    assert_eq!(readback.len(), 2, "{readback:?}");
    // a choice of both is of those who match both
    assert_eq!(values("LI:MODE", &["--user", "al*", "--client", "control-2"]), [1.0, 2.0, 3.0, 2.0]);
    assert!(values("LI:MODE", &["--user", "alice", "--client", "laptop-7"]).is_empty());
    // what is scanned is nobody's
    assert!(values("LI:BPM1:X", &[]).len() > 10);
    let (found, said) = rows(&["values", "LI:BPM1:X", "--user", "alice"]);
    assert!(found.iter().all(|row| row["pv"].is_null()), "{found:?}");
    assert!(said.contains("no value matches all filters at once"), "{said}");
    let (_, said) = rows(&["values", "LI:MODE", "--user", "alise"]);
    assert!(said.contains("no user matches 'alise'") && said.contains("alice"), "{said}");
    // each has who is asked for, and nobody is left out
    let (all, _) = rows(&["values", "*"]);
    for user in ["alice", "bob", "daemon", "nobody", "bin"] {
        let (theirs, _) = rows(&["values", "*", "--user", user]);
        let theirs: Vec<&Json> = theirs.iter().filter(|row| !row["pv"].is_null()).collect();
        let expected: Vec<&Json> = all.iter().filter(|row| row["user"] == user).collect();
        assert!(!theirs.is_empty() && theirs == expected, "{user}");
    }
}

#[test]
fn differences_are_of_those_who_made_the_last_change() {
    // before the first put to the gun, and while the alarms are played with
    let between = ["diff", "2026-11-22T10:52:24Z", "2026-11-22T10:52:34Z"];
    let of = |choice: &[&str]| {
        let (rows, said) = rows(&[&between[..], choice].concat());
        let names = rows.iter().map(|row| row["pv"].as_str().unwrap().to_owned());
        (names.collect::<Vec<String>>(), said)
    };
    assert_eq!(of(&["--user", "bob"]).0, ["LI:PUMP:RATIO.B", "LI:TEMP1:RAW"]);
    let (daemon, said) = of(&["--client", "laptop-7"]);
    let expected = [
        "LI:BYTES",
        "LI:COUNT64",
        "LI:MAG1:RB",
        "LI:MAG1:SP",
        "LI:MAG2:SP",
        "LI:MAG2:SP.DESC",
        "LI:RF:REQ",
        "LI:STEPS",
        "LI:TEMP1.HIGH",
        "RF:AMP:RB",
        "RF:AMP:SP",
    ];
    let mut sorted = daemon.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    assert!(said.contains("11 of them are shown"), "{said}");
    // the magnet, too, but somebody else put to it later
    let (nobody, said) = of(&["--user", "nobody"]);
    assert!(nobody.is_empty() && said.contains("no value matches all filters at once"), "{nobody:?} {said}");
    let (everybody, said) = of(&[]);
    assert!(everybody.len() > 90 && !said.contains("are shown"), "{said}");
    // a script that puts back what they changed, and no more
    let words = [&between[..], &["--user", "bob", "--pv", "LI:TEMP1*", "--format", "caput", "log"]].concat();
    let (code, script, said) = run(&plant(), &words);
    assert_eq!(code, 0, "{said}");
    assert!(script.contains("LI:TEMP1:RAW") && !script.contains("LI:TEMP1.HIGH"), "{script}");
}

/// A line between the points of some would hide what others did in between.
#[test]
fn some_users_values_are_not_drawn() {
    for how in [&["--plot"][..], &["--svg", "x.svg"], &["--format", "databrowser"]] {
        let words = [&["values", "LI:MAG1:SP", "--user", "nobody", "log"], how].concat();
        let (code, out, err) = run(&plant(), &words);
        assert!(code == 2 && out.is_empty() && err.lines().count() == 1, "{words:?}: {code} {out} {err}");
        assert!(err.contains("leave --user and --client out"), "{err}");
    }
}
