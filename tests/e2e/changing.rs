//! IOCs that start, or change into other programs, during the recording.

use crate::rig::own_program::{Build, Own};
use crate::rig::{iocreplay, json_lines, rig_file, wait_until, Ioc, Rig, Running};
use serde_json::{json, Value};
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;
/// Longer than the recorder needs to notice a change: it checks once a second.
const NOTICED: Duration = Duration::from_millis(2500);

fn records(rig: &Rig) -> Vec<Value> {
    json_lines(&rig.replay("records", &["--json", "--ioc", "own"]).stdout)
}

/// The log's entries for the IOC and for earlier ones in the same process.
fn iocs(rig: &Rig, ioc: &Ioc) -> Vec<Value> {
    let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
    iocs.into_iter().filter(|found| found["pid"] == ioc.pid()).collect()
}

fn traces(rig: &Rig, pv: &str) -> String {
    String::from_utf8_lossy(&rig.replay("traces", &["--pv", pv]).stdout).into_owned()
}

/// An IOC that starts slowly is known by the end of its start: records have names and types from the first hit on, and the
/// log has what iocInit itself sets off.
#[test]
fn an_ioc_that_starts_slowly() {
    for (build, strip) in [(Build::Shared, false), (Build::Unexported, true)] {
        let Some(rig) = Rig::alone("changing-slow") else { return };
        let Some(own) = Own::build(&rig, build) else { return };
        if strip {
            own.strip();
        }
        // before its record types are loaded, before the records, before iocInit
        let mut ioc = own.start_slowly(&rig, PORT, "starting.db");
        // --pid accepts a process that is not an IOC yet, beside one that is
        let other = rig.ioc("other", PORT + 10, "second.db", &[]);
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &other.pid_argument()]);
        ioc.command_until("", "step");
        std::thread::sleep(NOTICED);
        ioc.command_until("", "step");
        // iocInit is next
        std::thread::sleep(NOTICED);
        wait_until("the log has the records", || records(&rig).len() == 3);
        if build == Build::Shared {
            wait_until("its probes are in place", || recorder.errors().contains("recording own"));
        }
        ioc.command_until("", "ready");
        wait_until("it is recorded", || traces(&rig, "START:TICK").lines().count() > 4);
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let records = records(&rig);
        let types: Vec<_> =
            records.iter().map(|found| (found["record"].as_str(), found["type"].as_str())).collect();
        let expected = [("START:FIRST", "ai"), ("START:NEXT", "calc"), ("START:TICK", "calc")];
        assert_eq!(types, expected.map(|(record, rtype)| (Some(record), Some(rtype))), "{build:?}");
        // without symbols the process routines are known only when iocInit has set them
        if build == Build::Shared {
            let first = traces(&rig, "START:FIRST");
            assert!(first.contains("pini") && first.contains("START:NEXT"), "{first}");
            assert!(traces(&rig, "START:TICK").contains("= 1"), "the first scan");
        }
        assert_eq!(iocs(&rig, &ioc).len(), 1);
    }
}

/// It is found before iocInit, when it has no server yet. Its other threads of EPICS Base end before it calls exit.
#[test]
fn an_ioc_that_starts_beside_the_recorder_and_quits() {
    let Some(rig) = Rig::alone("changing-quits") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start_slowly(&rig, PORT, "starting.db");
    let other = rig.ioc("other", PORT + 10, "second.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &other.pid_argument()]);
    for until in ["step", "step"] {
        ioc.command_until("", until);
        std::thread::sleep(NOTICED);
    }
    wait_until("its probes are in place", || recorder.errors().contains("recording own"));
    ioc.command_until("", "ready");
    wait_until("it is recorded", || traces(&rig, "START:TICK").lines().count() > 4);
    std::thread::sleep(NOTICED);
    ioc.tell("quit");
    assert_eq!(ioc.wait().code(), Some(3));
    wait_until("its end is noticed", || recorder.errors().contains("has ended"));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = json_lines(&rig.replay("console", &["--format", "jsonl"]).stdout);
    let gave_up: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "gave_up").collect();
    assert_eq!(gave_up.len(), 1, "{lines:#?}");
    assert_eq!(gave_up[0]["text"], "calls exit(3)");
}

/// The process loads another database, perhaps with other records at the same addresses. No hit gets the name of an old
/// record.
#[test]
fn an_ioc_that_is_loaded_anew() {
    becomes_another("reload", "its record database was taken away", "done");
}

/// The process executes the program anew.
#[test]
fn an_ioc_that_becomes_another_program() {
    becomes_another("exec", "its process runs another program", "ready");
}

fn becomes_another(command: &str, why: &str, word: &str) {
    let Some(rig) = Rig::new(&format!("changing-{command}")) else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let how: &[&str] = if command == "reload" { &["alone"] } else { &[] };
    let mut ioc = own.start(&rig, PORT, "starting.db", how);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("it is recorded", || traces(&rig, "START:TICK").contains("START:TICK"));
    ioc.command_until(&format!("{command} {}", rig_file("first.db").display()), word);
    let reports = |recorder: &Running| recorder.errors().lines().any(|line| line.contains(why));
    wait_until("the change is noticed", || reports(&recorder));
    wait_until("the new records are recorded", || traces(&rig, "ONE:TOCK").contains("ONE:TOCK"));
    // hits come before all records have been read
    wait_until("the new one is recorded", || iocs(&rig, &ioc).len() == 2);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let found = iocs(&rig, &ioc);
    let [old, new] = found.as_slice() else { panic!("{found:?}") };
    assert!(old["end"].as_str().is_some_and(|how| how.starts_with(why)), "{old}");
    assert_eq!((&old["ended"].is_null(), &new["ended"]), (&false, &Value::Null), "{found:?}");
    assert_eq!(records(&rig).iter().filter(|record| record["ioc"] == json!("own")).count(), 3 + 16);
    // each later hit has the name of a current record
    let output = rig.replay("traces", &["--pv", "ONE:*"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("ONE:TICK") && !text.contains("START:"), "{text}");
    // and is recorded once, though the kernel takes its time to remove the old probes: this record counts itself
    let values =
        Command::new(iocreplay()).args(["values", "--format", "jsonl", "ONE:TICK", &rig.log()]).output();
    let ticks = json_lines(&values.expect("iocreplay runs").stdout);
    let ticks = ticks.iter().filter(|line| line["source"] == "process");
    let mut counts: Vec<f64> = ticks.filter_map(|line| line["value"].as_f64()).collect();
    let all = counts.len();
    counts.dedup();
    assert!(all > 0 && counts.len() == all, "{all} ticks, {} of them different", counts.len());
}
