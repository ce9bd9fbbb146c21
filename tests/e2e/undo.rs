//! `iocreplay undo`: its script gives a real IOC the values back that it had.
//!
//! The script runs EPICS Base's caput and caget; on machines for which there are none, their stand-ins (tests/rig/caput.py).
//! Names and values that try to be commands are tested in replay/tests/undo.rs.

use crate::rig::{iocreplay, wait_until, Client, Rig};
use crate::scripts::{self, Tools};
use serde_json::{json, Value};
use std::fs;
use std::process::{Command, Output};

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const CHAR: u16 = 4;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

const NOTIFY: bool = true;
const WRITE: bool = false;

/// PVs with the DBR type and values of two puts to each.
fn puts() -> Vec<(&'static str, u16, Value, Value)> {
    vec![
        ("PUT:DOUBLE", DOUBLE, json!(0.1), json!(-1.0 / 3.0)),
        ("PUT:LONG", LONG, json!(7), json!(-8)),
        ("PUT:INT64", STRING, json!("9007199254740993"), json!("5")),
        ("PUT:TEXT", STRING, json!("it's \"odd\" $(reboot) \\n"), json!("`reboot`")),
        ("PUT:BINARY", DOUBLE, json!(1.0), json!(0.0)),
        ("PUT:ENUM", STRING, json!("On"), json!("Standby")),
        ("PUT:LONG.DESC", STRING, json!("first"), json!("")),
        ("PUT:LONG.SCAN", STRING, json!("1 second"), json!("Passive")),
        (
            "PUT:LONGTEXT.$",
            CHAR,
            characters("a text that is longer than a string of forty letters"),
            characters("b"),
        ),
        ("PUT:SHORTS", DOUBLE, json!([1.0, -2.0, 3.0]), json!([4.0])),
        ("PUT:DOUBLES", DOUBLE, json!([0.1, 0.0, 2.5]), json!([1.0, 2.0])),
        ("PUT:TEXTS", STRING, json!(["a b", "", "c"]), json!(["d", "e"])),
        ("PUT:OTHERNAME", DOUBLE, json!(4.0), json!(5.0)),
        // links as long strings
        ("PUT:SLOW.INPB$", CHAR, characters("PUT:LONG.PHAS CA"), characters("PUT:DOUBLE.VAL CP MSS")),
        ("PUT:SLOW.INPC$", CHAR, characters("PUT:LONG.PHAS"), characters("{\"const\":5}")),
    ]
}

fn characters(text: &str) -> Value {
    text.bytes().chain([0]).collect()
}

/// Runs the script with these tools.
fn script(rig: &Rig, tools: &Tools, options: &[&str]) -> Output {
    scripts::run(&rig.dir.join("undo.sh"), &tools.directory, options)
}

fn values(client: &mut Client) -> Vec<Value> {
    puts().iter().map(|(pv, ..)| client.get(pv)).collect()
}

#[test]
fn undo_gives_a_real_ioc_its_values_back() {
    let Some(rig) = Rig::new("undo") else { return };
    let tools = scripts::tools("undo", &rig.dir);
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut operator = rig.client("libca", &[PORT], &[]);
    let mut visitor = rig.client("libca", &[PORT], &["--uid", "65534"]);
    rig.wait_until_recording(&mut operator, "PUT:READY", "both");
    for (pv, dbr, value, _) in puts() {
        operator.put(pv, dbr, value, NOTIFY);
    }
    let before = values(&mut operator);
    for (pv, dbr, _, value) in puts() {
        visitor.put(pv, dbr, value.clone(), WRITE);
    }
    let count = 2 * puts().len();
    let is_known = |line: &Value| line["new"] != Value::Null && line["status"] == "ok";
    wait_until("the log has the outcome of all puts", || {
        let log = rig.puts(&[]);
        log.iter().filter(|line| line["pv"] != "PUT:READY" && is_known(line)).count() >= count
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let made = Command::new(iocreplay())
        .args(["undo", "--since", "2026-01-01", "--user", "nobody", "-o", &rig.path("undo.sh"), &rig.log()])
        .output()
        .expect("it runs");
    let remarks = String::from_utf8_lossy(&made.stderr).into_owned();
    // the log begins later than the time asked for, and nothing else is to be said
    assert!(made.status.success() && remarks.lines().count() == 1, "{remarks}");
    assert!(remarks.contains("the log begins at") && remarks.contains("is not undone"), "{remarks}");
    let text = fs::read_to_string(rig.path("undo.sh")).expect("a script");

    let shown = script(&rig, &tools, &[]);
    assert!(shown.status.success(), "{text}\n{shown:?}");
    assert_ne!(values(&mut operator), before, "without --yes it writes nothing");
    operator.put("PUT:LONG", LONG, json!(99), NOTIFY);
    let done = script(&rig, &tools, &["--yes"]);
    assert!(done.status.success(), "{text}\n{done:?}");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(errors.contains("PUT:LONG is left as it is: it has the value 99, no longer -8"), "{errors}");
    let expected: Vec<Value> = puts()
        .iter()
        .zip(&before)
        .map(|((pv, ..), before)| if *pv == "PUT:LONG" { json!(99) } else { before.clone() })
        .collect();
    assert_eq!(values(&mut operator), expected, "{text}\n{done:?}");
    let again = script(&rig, &tools, &["--yes"]);
    assert!(again.status.success() && !String::from_utf8_lossy(&again.stdout).contains("done"), "{again:?}");
}
