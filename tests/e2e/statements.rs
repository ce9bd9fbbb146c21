//! Statements of iocreplay that were once false, compared with the IOC (tests/rig/statements.db): puts to attributes such
//! as RTYP, the alarm DISABLE, momentary outputs, recordings without processing.

use crate::rig::{iocreplay, wait_until, Rig};
use serde_json::{json, Value};
use std::process::{Command, Output};

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const DOUBLE: u16 = 6;

/// Runs iocreplay with these words; LOG stands for the log.
fn ask(rig: &Rig, words: &str) -> Output {
    let log = rig.log();
    let words = words.split(' ').map(|word| if word == "LOG" { log.as_str() } else { word });
    Command::new(iocreplay()).args(words).output().expect("iocreplay runs")
}

fn lines(rig: &Rig, words: &str) -> Vec<Value> {
    let out = ask(rig, &format!("{words} --format jsonl")).stdout;
    String::from_utf8_lossy(&out).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn what_the_ioc_did_is_said_and_nothing_else() {
    let Some(rig) = Rig::new("statements") else { return };
    let mut ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    // an attribute, which no put changes
    ioc.command("dbpf SAY:AI.RTYP other");
    client.put("SAY:AI.DESC", STRING, json!("words"), true);
    client.put("SAY:PING.B", DOUBLE, json!(200.0), true);
    wait_until("the end of the loop", || client.get("SAY:PONG") == json!(200.0));
    client.put("SAY:PULSE", DOUBLE, json!(1.0), true);
    wait_until("the end of the pulse", || client.get("SAY:PULSE") == json!(0));
    client.put("SAY:SWITCH", DOUBLE, json!(1.0), true);
    wait_until("the alarm", || client.get("SAY:SWITCHED.STAT") == json!(18));
    assert_eq!(client.get("SAY:SWITCHED.SEVR"), json!(2));
    let of_switched = |rig: &Rig| {
        let all = lines(rig, "alarms LOG --pv SAY:SWITCHED");
        let all = all.into_iter().filter(|line| line["what"] == "change");
        all.map(|line| (line["severity"].clone(), line["status"].clone())).collect::<Vec<_>>()
    };
    let disabled = (json!("MAJOR"), json!("DISABLE"));
    wait_until("the log has the alarm", || of_switched(&rig).last() == Some(&disabled));
    let at = lines(&rig, "at now LOG --pv SAY:SWITCHED");
    assert_eq!((&at[0]["severity"], &at[0]["status"]), (&disabled.0, &disabled.1), "{at:?}");
    client.put("SAY:SWITCH", DOUBLE, json!(0.0), true);
    wait_until("no alarm", || client.get("SAY:SWITCHED.SEVR") == json!(0));
    wait_until("the log has its end", || of_switched(&rig).last().is_some_and(|last| last.0 == "NO_ALARM"));
    assert_eq!(of_switched(&rig).iter().filter(|alarm| **alarm == disabled).count(), 1);
    wait_until("the log has what was read after the put", || {
        lines(&rig, "puts LOG --pv SAY:AI.DESC").first().is_some_and(|put| put["new"] == "words")
    });
    let rtype = client.get("SAY:AI.RTYP");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = lines(&rig, "puts LOG --pv SAY:AI*");
    let of = |key: &str| puts.iter().map(|put| put[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("field"), ["RTYP", "DESC"], "{puts:?}");
    assert_eq!(of("pv"), ["SAY:AI.RTYP", "SAY:AI.DESC"]);
    assert_eq!(puts[0]["old"], rtype);
    // its text afterwards, or that nothing tells it
    assert!(puts[0]["new"] == rtype || puts[0]["new"].is_null(), "{puts:?}");
    assert!(!lines(&rig, "values SAY:AI.NAME LOG").iter().any(|line| line["value"] == "ai"));
    let loops = lines(&rig, "top LOG --by loops");
    let names: Vec<&str> = loops.iter().filter_map(|line| line["name"].as_str()).collect();
    assert!(!names.iter().any(|name| name.contains("PULSE")), "{names:?}");
    assert!(names.iter().any(|name| name.contains("PING") && name.contains("PONG")), "{names:?}");
}

#[test]
fn a_recording_without_processing_says_so() {
    let Some(rig) = Rig::new("statements-puts-alone") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--no-process"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    client.put("SAY:AI", DOUBLE, json!(4.5), true);
    wait_until("the put", || lines(&rig, "puts LOG --pv SAY:AI").len() == 1);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let info = String::from_utf8_lossy(&ask(&rig, "info LOG").stdout).into_owned();
    assert!(info.contains("not probed: processing: not recorded (--no-process)"), "{info}");
    for command in ["why SAY:AI LOG", "top LOG", "last LOG", "alarms LOG", "traces LOG", "at now LOG"] {
        let said = ask(&rig, command).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("was recorded with --no-process"), "{command}: {said}");
    }
    let put = lines(&rig, "puts LOG --pv SAY:AI");
    let time = put[0]["time"].as_str().expect("a time");
    let at = lines(&rig, &format!("at {time} LOG --pv SAY:AI"));
    assert_eq!(at[0]["known"], "doubt", "{at:?}");
    assert!(at[0]["doubt"].as_str().is_some_and(|doubt| doubt.contains("--no-process")), "{at:?}");
}
