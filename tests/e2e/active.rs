//! Records that something makes process while they are active, and that process once more when they are done: for whose
//! put that was (tests/rig/active.db).

use crate::rig::{iocreplay, json_lines, wait_until, Rig};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;
/// What is put to, the record that it makes process, and the record to which that writes its value.
const WAYS: [(&str, &str, &str); 5] = [
    ("ACT:SP:CP", "ACT:CP", "ACT:CP:OUT"),
    ("ACT:SP:SLOW", "ACT:SLOW", "ACT:SLOW:OUT"),
    ("ACT:SP:FLNK", "ACT:FLNK", "ACT:FLNK:OUT"),
    ("ACT:SP:OUT", "ACT:OUT", "ACT:OUT:OUT"),
    ("ACT:SELF.A", "ACT:SELF", "ACT:SELF:OUT"),
];

#[test]
fn what_finds_a_record_active_is_the_cause_of_its_processing_once_more() {
    let Some(rig) = Rig::new("active") else { return };
    let ioc = rig.ioc("active", PORT, "active.db", &[PORT]);
    let mut first = rig.client("caproto", &[PORT], &["--user", "first"]);
    let mut second = rig.client("caproto", &[PORT], &["--user", "second"]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut first, "ACT:READY", "both");
    for (pv, record, written) in WAYS {
        second.connect(pv);
        first.get(&format!("{record}.PACT"));
        first.put(pv, DOUBLE, json!(1.0), false);
        wait_until("the record is active", || first.get(&format!("{record}.PACT")) == json!(1));
        second.put(pv, DOUBLE, json!(5.0), false);
        assert_eq!(first.get(&format!("{record}.PACT")), json!(1), "{record} is slow enough");
        wait_until("the second value", || first.get(written) == json!(5.0));
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());

    // The first client's value is no alarm, the second's is one.
    let alarms = json_lines(&rig.replay("alarms", &["--format", "jsonl"]).stdout);
    for (pv, record, written) in WAYS {
        let alarm = alarms.iter().find(|line| line["record"] == written && line["severity"] == "MINOR");
        let alarm = alarm.unwrap_or_else(|| panic!("{written} is in no alarm: {alarms:#?}"));
        assert_eq!((&alarm["value"], &alarm["user"]), (&json!(5.0), &json!("second")), "{pv}: {alarm}");
        for asked in [record, written] {
            let why = Command::new(iocreplay()).args(["why", asked, "--json", &rig.log()]).output();
            let why: Value = serde_json::from_slice(&why.expect("iocreplay runs").stdout).expect("JSON");
            assert_eq!(why["to"], json!(5.0), "{why}");
            let cause = why["begun_by"].as_str().or(why["cause"].as_str()).unwrap_or_default();
            assert!(cause.contains("by second@"), "{asked}: {why:#}");
        }
    }
    // what processes once more for somebody else's put does not feed itself
    let loops = json_lines(&rig.replay("top", &["--by", "loops", "--format", "jsonl"]).stdout);
    assert_eq!(loops, [] as [Value; 0], "nothing here feeds itself");
}

/// EPICS Base writes to RPRO for nobody: the record processes for its CP link alone, and each time for that.
#[test]
fn a_put_to_rpro_makes_nothing_process() {
    let Some(rig) = Rig::new("active-rpro") else { return };
    let mut ioc = rig.ioc("active", PORT, "active.db", &[PORT]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ACT:READY", "both");
    let first = client.get("ACT:AGAIN").as_f64().expect("a number");
    for value in [1.0, 2.0] {
        client.put("ACT:SP:AGAIN", DOUBLE, json!(value), true);
        wait_until("the CP link", || client.get("ACT:AGAIN") == json!(first + value));
        ioc.command("dbpf ACT:AGAIN.RPRO 1");
        assert_eq!(client.get("ACT:AGAIN.RPRO"), json!(0), "it is refused");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(client.get("ACT:AGAIN"), json!(first + 2.0));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let values = ["values", "ACT:AGAIN", "--format", "jsonl", &rig.log()];
    let lines = json_lines(&Command::new(iocreplay()).args(values).output().expect("iocreplay runs").stdout);
    let causes: Vec<&str> = lines
        .iter()
        .filter(|line| line["source"] == "process")
        .map(|line| line["cause"].as_str().expect("a cause"))
        .collect();
    assert_eq!(causes, ["CP link ACT:AGAIN.INPA from ACT:SP:AGAIN"; 2]);
    let puts = rig.puts(&["--pv", "ACT:AGAIN.RPRO"]);
    assert_eq!(puts.len(), 2, "{puts:#?}");
    for put in &puts {
        assert!(put["new"].is_null() || put["new"] == json!(0), "{put:#}");
    }
}
