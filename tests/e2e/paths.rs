//! Puts by every path are in the put log once, with the old, requested and new value, and with what they set off
//! (tests/rig/paths.db).

use crate::rig::spans::{shape, spans};
use crate::rig::{iocreplay, json_lines, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::process::Command;
use std::thread;
use std::time::Duration;

const PORT: u16 = 5074;
const FAR: u16 = 5084;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

/// With callback or without.
const NOTIFY: bool = true;
const WRITE: bool = false;

/// The current put log, without the records by which tests find out whether the recorder records.
fn put_log(rig: &Rig) -> Vec<Value> {
    let ready = |line: &Value| line["pv"].as_str().is_some_and(|pv| pv.ends_with(":READY"));
    rig.puts(&["--all"]).into_iter().filter(|line| !ready(line)).collect()
}

/// Checks that the put log has exactly these lines, with the expected keys.
fn compare(log: &[Value], expected: &[Value]) {
    let mut wrong = Vec::new();
    for (number, expected) in expected.iter().enumerate() {
        let line = log.get(number).unwrap_or(&Value::Null);
        for (key, value) in expected.as_object().expect("an object") {
            if line[key] != *value {
                wrong.push(format!("line {number}: {key} is not {value} in {line}"));
            }
        }
    }
    if wrong.is_empty() && log.len() == expected.len() {
        return;
    }
    let log: Vec<String> = log.iter().map(Value::to_string).collect();
    panic!("{}\n{} lines, not {}:\n{}", wrong.join("\n"), log.len(), expected.len(), log.join("\n"));
}

/// The chains that begin with a put that nothing else caused, in the order of time.
fn chains(rig: &Rig) -> Vec<String> {
    let spans = spans(rig);
    let ready = |name: &str| name.split(':').next_back().is_some_and(|word| word.starts_with("READY"));
    let linked = |id: &String| spans.iter().any(|span| span.id == *id);
    let roots = spans
        .iter()
        .filter(|span| span.parent.is_empty() && !span.links.iter().any(linked) && !ready(&span.name));
    roots.map(|root| shape(&spans, root)).collect()
}

fn text(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Waits until a PV has that value.
fn wait_for(client: &mut Client, pv: &str, value: f64) {
    wait_until(pv, || client.get(pv) == json!(value));
}

fn puts_of_channel_access_and_the_shell(tier: &str) {
    let Some(rig) = Rig::new(&format!("paths-ca-{tier}")) else { return };
    let mut ioc = rig.ioc("paths", PORT, "paths.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    rig.wait_until_recording(&mut client, "PATH:READY", "both");
    client.put("PATH:SP", DOUBLE, json!(5.0), WRITE);
    client.put("PATH:SP", DOUBLE, json!(500.0), NOTIFY);
    client.put("PATH:ARRAY", DOUBLE, json!([1.0, 2.5]), WRITE);
    client.put("PATH:ARRAY", DOUBLE, json!([3.0]), NOTIFY);
    client.put("PATH:SP.DESC", STRING, json!("words"), WRITE);
    client.put("PATH:SP.DRVH", DOUBLE, json!(50.0), NOTIFY);
    client.put("PATH:SP.PROC", LONG, json!(1), WRITE);
    client.put("PATH:STILL", DOUBLE, json!(7.0), WRITE);
    client.put("PATH:STILL", DOUBLE, json!(8.0), NOTIFY);
    ioc.command("dbpf PATH:SP 9");
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let client = json!({"user": client.user, "client_host": client.host, "status": "ok"});
    let by_client = |line: Value| {
        let mut line = line;
        line.as_object_mut().expect("an object").extend(client.as_object().expect("an object").clone());
        line
    };
    compare(
        &put_log(&rig),
        &[
            by_client(
                json!({"pv": "PATH:SP", "via": "ca_write", "field": "VAL", "old": 0.0, "requested": 5.0,
                "new": 5.0, "inexact": false}),
            ),
            by_client(json!({"pv": "PATH:SP", "via": "ca_write_notify", "old": 5.0, "requested": 500.0,
                "new": 100.0, "inexact": false})),
            by_client(json!({"pv": "PATH:ARRAY", "via": "ca_write", "old": [], "requested": [1.0, 2.5],
                "count": 2, "new": [1.0, 2.5], "inexact": false})),
            by_client(json!({"pv": "PATH:ARRAY", "via": "ca_write_notify", "old": [1.0, 2.5]})),
            by_client(json!({"pv": "PATH:SP.DESC", "record": "PATH:SP", "field": "DESC", "old": "",
                "requested": "words", "new": "words", "inexact": false})),
            by_client(json!({"pv": "PATH:SP.DRVH", "field": "DRVH", "old": 100.0, "requested": 50.0,
                "new": 50.0})),
            by_client(json!({"pv": "PATH:SP.PROC", "field": "PROC", "requested": 1})),
            by_client(
                json!({"pv": "PATH:STILL", "via": "ca_write", "old": 0.0, "new": 7.0, "inexact": false}),
            ),
            by_client(json!({"pv": "PATH:STILL", "via": "ca_write_notify", "old": 7.0, "new": 8.0,
                "inexact": false})),
            json!({"pv": "PATH:SP", "via": "dbpf", "old": 50.0, "requested": "9", "new": 9.0, "user": null,
                "client": null, "status": "ok", "inexact": false}),
        ],
    );
    let process = ["  process PATH:SP", "    process PATH:AFTER"];
    assert_eq!(
        chains(&rig),
        [
            text(&["caput PATH:SP", process[0], process[1]]),
            text(&["caput PATH:SP", process[0], process[1]]),
            text(&["caput PATH:ARRAY", "  process PATH:ARRAY"]),
            text(&["caput PATH:ARRAY", "  process PATH:ARRAY"]),
            text(&["caput PATH:SP.DESC"]),
            text(&["caput PATH:SP.DRVH", process[0], process[1]]),
            text(&["caput PATH:SP.PROC", process[0], process[1]]),
            text(&["caput PATH:STILL"]),
            text(&["caput PATH:STILL"]),
            text(&["put PATH:SP", process[0], process[1]]),
        ]
    );
}

fn puts_through_links(tier: &str) {
    let Some(rig) = Rig::new(&format!("paths-links-{tier}")) else { return };
    let far = rig.ioc("far", FAR, "second.db", &[]);
    let near = rig.ioc("near", PORT, "paths.db", &[FAR]);
    let mut client = rig.client("libca", &[PORT, FAR], &[]);
    // Once a CA link has carried a value, it carries all.
    for (pv, target) in [("PATH:CALINK", "PATH:CATARGET"), ("PATH:FARLINK", "TWO:SP")] {
        wait_until("the CA link is connected", || {
            client.put(pv, DOUBLE, json!(1.0), WRITE);
            thread::sleep(Duration::from_millis(50));
            client.get(target) == json!(1.0)
        });
    }
    let mut recorder =
        rig.record(&["--pid", &near.pid_argument(), "--pid", &far.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PATH:READY", "both");
    rig.wait_until_recording(&mut client, "TWO:READY", "both");
    client.put("PATH:OUT", DOUBLE, json!(3.0), WRITE);
    client.put("PATH:OUTONLY", DOUBLE, json!(4.0), NOTIFY);
    client.put("PATH:CALINK", DOUBLE, json!(5.0), WRITE);
    wait_for(&mut client, "PATH:CATARGET", 5.0);
    client.put("PATH:FARLINK", DOUBLE, json!(6.0), NOTIFY);
    wait_for(&mut client, "TWO:CALC", 106.0);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let linked = json!({"user": null, "status": "ok"});
    let by_link = |line: Value| {
        let mut line = line;
        line.as_object_mut().expect("an object").extend(linked.as_object().expect("an object").clone());
        line
    };
    compare(
        &put_log(&rig),
        &[
            json!({"pv": "PATH:OUT", "via": "ca_write", "new": 3.0}),
            by_link(json!({"pv": "PATH:TARGET", "via": "db_link", "field": "VAL", "old": 0.0,
                "requested": 3.0, "new": 3.0, "inexact": false})),
            json!({"pv": "PATH:OUTONLY", "via": "ca_write_notify", "new": 4.0}),
            by_link(json!({"pv": "PATH:QUIET", "via": "db_link", "old": 0.0, "requested": 4.0, "new": 4.0,
                "inexact": true})),
            json!({"pv": "PATH:CALINK", "via": "ca_write", "old": 1.0, "new": 5.0}),
            by_link(json!({"pv": "PATH:CATARGET", "via": "ca_link", "ioc": "near", "old": 1.0,
                "requested": 5.0, "new": 5.0, "thread": "dbCaLink", "source": "probe",
                "cause_record": "PATH:CALINK"})),
            json!({"pv": "PATH:FARLINK", "via": "ca_write_notify", "old": 1.0, "new": 6.0}),
            json!({"pv": "TWO:SP", "via": "ca_link", "ioc": "far", "old": 1.0, "requested": 6.0, "new": 6.0,
                "source": "both", "cause_record": "PATH:FARLINK"}),
            by_link(json!({"pv": "TWO:CALC.A", "via": "db_link", "ioc": "far", "field": "A", "old": 1.0,
                "requested": 6.0})),
        ],
    );
    assert_eq!(
        chains(&rig),
        [
            text(&[
                "caput PATH:OUT",
                "  process PATH:OUT",
                "    process PATH:TARGET",
                "      process PATH:TARGETED"
            ]),
            text(&["caput PATH:OUTONLY", "  process PATH:OUTONLY"]),
            text(&[
                "caput PATH:CALINK",
                "  process PATH:CALINK",
                "    caputlink PATH:CATARGET",
                "      process PATH:CATARGET"
            ]),
            text(&[
                "caput PATH:FARLINK",
                "  process PATH:FARLINK",
                "    caputlink TWO:SP",
                "      caput TWO:SP",
                "        process TWO:SP",
                "          process TWO:CALC",
                "            process TWO:END"
            ]),
        ]
    );
}

fn puts_that_are_refused_or_find_the_record_disabled_or_busy(tier: &str) {
    let Some(rig) = Rig::new(&format!("paths-refused-{tier}")) else { return };
    let access = crate::rig::rig_file("access.acf");
    let access = access.to_str().expect("a UTF-8 path");
    let ioc = rig.ioc_with("paths", PORT, "paths.db", &["--access", access]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("caproto", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PATH:READY", "both");
    client.put("PATH:SECURE", DOUBLE, json!(1.0), WRITE);
    client.put("PATH:SECURE", DOUBLE, json!(2.0), NOTIFY);
    client.put("PATH:LOCKED", DOUBLE, json!(3.0), WRITE);
    client.put("PATH:LOCKED", DOUBLE, json!(4.0), NOTIFY);
    client.put("PATH:DISABLED", DOUBLE, json!(5.0), WRITE);
    client.put("PATH:DISABLED", DOUBLE, json!(6.0), NOTIFY);
    // The second finds the record waiting; it processes again when that is over.
    client.put("PATH:BUSY.A", DOUBLE, json!(7.0), WRITE);
    client.put("PATH:BUSY.A", DOUBLE, json!(8.0), WRITE);
    wait_for(&mut client, "PATH:BUSY", 8.0);
    // until the delay is over
    wait_until("PATH:BUSY.PACT", || client.get("PATH:BUSY.PACT") == json!(0));
    client.put("PATH:BUSY.A", DOUBLE, json!(9.0), WRITE);
    client.put("PATH:BUSY.A", DOUBLE, json!(10.0), NOTIFY);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let busy = |via: &str, old: f64, new: f64| json!({"pv": "PATH:BUSY.A", "via": via, "old": old, "requested": new, "new": new, "status": "ok"});
    compare(
        &put_log(&rig),
        &[
            json!({"pv": "PATH:SECURE", "via": "ca_write", "requested": 1.0, "new": null, "status": "denied"}),
            json!({"pv": "PATH:SECURE", "via": "ca_write_notify", "requested": 2.0, "new": null,
                "status": "denied"}),
            json!({"pv": "PATH:LOCKED", "via": "ca_write", "requested": 3.0, "new": null,
                "status": "ECA_PUTFAIL"}),
            json!({"pv": "PATH:LOCKED", "via": "ca_write_notify", "requested": 4.0, "new": null,
                "status": "ECA_PUTFAIL"}),
            json!({"pv": "PATH:DISABLED", "via": "ca_write", "old": 0.0, "requested": 5.0, "new": 5.0,
                "status": "ok", "inexact": false}),
            json!({"pv": "PATH:DISABLED", "via": "ca_write_notify", "old": 5.0, "requested": 6.0, "new": 6.0,
                "status": "ok", "inexact": false}),
            busy("ca_write", 0.0, 7.0),
            busy("ca_write", 7.0, 8.0),
            busy("ca_write", 8.0, 9.0),
            busy("ca_write_notify", 9.0, 10.0),
        ],
    );
    let busy = text(&["caput PATH:BUSY.A", "  process PATH:BUSY"]);
    let disabled = text(&["caput PATH:DISABLED", "  process PATH:DISABLED"]);
    let refused = |pv: &str| text(&[&format!("caput {pv}")]);
    assert_eq!(
        chains(&rig),
        [
            refused("PATH:SECURE"),
            refused("PATH:SECURE"),
            refused("PATH:LOCKED"),
            refused("PATH:LOCKED"),
            disabled.clone(),
            disabled,
            busy.clone(),
            busy.clone(),
            busy.clone(),
            busy,
        ]
    );
}

#[test]
fn channel_access_and_the_shell_over_the_ring_buffer() {
    puts_of_channel_access_and_the_shell("ring");
}

#[test]
fn channel_access_and_the_shell_over_perf_buffers() {
    puts_of_channel_access_and_the_shell("perf");
}

#[test]
fn links_over_the_ring_buffer() {
    puts_through_links("ring");
}

#[test]
fn links_over_perf_buffers() {
    puts_through_links("perf");
}

#[test]
fn refused_disabled_and_busy_over_the_ring_buffer() {
    puts_that_are_refused_or_find_the_record_disabled_or_busy("ring");
}

#[test]
fn refused_disabled_and_busy_over_perf_buffers() {
    puts_that_are_refused_or_find_the_record_disabled_or_busy("perf");
}

/// PVAccess, with both servers for it.
fn puts_over_pvaccess(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("paths-{server}")) else { return };
    let ioc = rig.ioc_with("paths", PORT, "paths.db", &["--pva", server]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut pva = rig.client("p4p", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PATH:READY", "both");
    pva.put("PATH:SP", DOUBLE, json!(5.0), WRITE);
    pva.put("PATH:SP", DOUBLE, json!(500.0), NOTIFY);
    pva.put("PATH:ARRAY", DOUBLE, json!([1.0, 2.5]), WRITE);
    pva.put("PATH:OUT", DOUBLE, json!(3.0), NOTIFY);
    pva.put("PATH:GROUP", DOUBLE, json!({"first": 1.5, "second": 7}), WRITE);
    pva.put("PATH:GROUP", DOUBLE, json!({"second": 8}), NOTIFY);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let by_pva = |line: Value| {
        let mut line = line;
        let more = json!({
            "via": "pva", "protocol": "pva", "user": pva.user, "client_host": pva.host,
            "server": format!("127.0.0.1:{}", PORT + 1000), "source": "both", "status": "ok", "inexact": false
        });
        line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        line
    };
    let member = |name: &str, old: Value, new: Value| {
        json!({
            "record": name, "field": "VAL", "old": old, "requested": new, "new": new, "status": "ok",
            "inexact": false, "old_text": null, "new_text": null
        })
    };
    compare(
        &put_log(&rig),
        &[
            by_pva(json!({"pv": "PATH:SP", "field": "VAL", "old": 0.0, "requested": 5.0, "new": 5.0})),
            by_pva(json!({"pv": "PATH:SP", "old": 5.0, "requested": 500.0, "new": 100.0})),
            by_pva(json!({"pv": "PATH:ARRAY", "old": [], "requested": [1.0, 2.5], "new": [1.0, 2.5]})),
            by_pva(json!({"pv": "PATH:OUT", "old": 0.0, "requested": 3.0, "new": 3.0})),
            json!({"pv": "PATH:TARGET", "via": "db_link", "old": 0.0, "requested": 3.0, "new": 3.0}),
            // Of a group, the members that were put to.
            by_pva(json!({
                "pv": "PATH:GROUP", "record": null, "field": null, "dbr": "structure", "requested": null,
                "fields": {"first": 1.5, "second": 7},
                "members": [
                    member("PATH:FIRST", json!(0.0), json!(1.5)), member("PATH:SECOND", json!(0), json!(7))
                ]
            })),
            by_pva(json!({
                "pv": "PATH:GROUP", "fields": {"second": 8},
                "members": [member("PATH:SECOND", json!(7), json!(8))]
            })),
        ],
    );
    assert_eq!(
        chains(&rig),
        [
            text(&["put PATH:SP", "  process PATH:SP", "    process PATH:AFTER"]),
            text(&["put PATH:SP", "  process PATH:SP", "    process PATH:AFTER"]),
            text(&["put PATH:ARRAY", "  process PATH:ARRAY"]),
            text(&[
                "put PATH:OUT",
                "  process PATH:OUT",
                "    process PATH:TARGET",
                "      process PATH:TARGETED"
            ]),
            // a group's put is one, with its members
            text(&[
                "put PATH:GROUP",
                "  process PATH:FIRST",
                "    process PATH:AFTERFIRST",
                "  process PATH:SECOND"
            ]),
            text(&["put PATH:GROUP", "  process PATH:SECOND"]),
        ]
    );
}

#[test]
fn puts_over_pvaccess_to_qsrv() {
    puts_over_pvaccess("qsrv", "ring");
}

#[test]
fn puts_over_pvaccess_to_pvxs() {
    puts_over_pvaccess("pvxs", "perf");
}

/// Python code that hosts an IOC changes its records: set() of an output record is a put; set() of an input record makes it
/// process by I/O Intr and then fetch its value.
#[test]
fn puts_of_python_code() {
    let Some(rig) = Rig::new("paths-python") else { return };
    let mut ioc = rig.python_ioc("python", PORT);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PY:READY", "both");
    ioc.command("PY:OUT 3.5");
    ioc.command("PY:IN 4.5");
    wait_for(&mut client, "PY:IN", 4.5);
    client.put("PY:BUSY", DOUBLE, json!(5.5), NOTIFY);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let from_outside: Vec<Value> =
        rig.puts(&[]).iter().map(|line| line["pv"].clone()).filter(|pv| pv != "PY:READY").collect();
    assert_eq!(from_outside, ["PY:BUSY"], "what Python code does to its own records comes from inside");
    compare(
        &put_log(&rig),
        &[
            json!({"pv": "PY:OUT", "via": "python", "field": "VAL", "old": 0.0, "requested": 3.5, "new": 3.5,
                "user": null, "status": "ok", "inexact": false}),
            json!({"pv": "PY:IN", "via": "python", "field": "VAL", "requested": 4.5, "new": 4.5, "user": null,
                "status": "ok", "source": "probe", "inexact": false}),
            json!({"pv": "PY:BUSY", "via": "ca_write_notify", "old": 0.0, "requested": 5.5, "new": 5.5,
                "status": "ok", "inexact": false}),
        ],
    );
    assert_eq!(
        chains(&rig),
        [
            text(&["put PY:OUT", "  process PY:OUT"]),
            text(&["process PY:IN"]),
            text(&["caput PY:BUSY", "  process PY:BUSY"]),
        ]
    );
}

/// A record that still processes takes puts meanwhile, and processes once more for them. Each put's values are those that
/// the field had then, not those that its processing ended with.
#[test]
fn puts_to_a_record_that_still_processes() {
    let Some(rig) = Rig::new("paths-busy") else { return };
    let ioc = rig.python_ioc("busy", PORT);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PY:READY", "both");
    let asked = [1.5, 2.5, 3.5, 4.5];
    for value in asked {
        client.put("PY:BUSY", DOUBLE, json!(value), false);
    }
    // the last of them is answered when all have been written
    client.put("PY:BUSY", DOUBLE, json!(5.5), NOTIFY);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let lines: Vec<Value> = rig.puts(&["--pv", "PY:BUSY"]);
    let values: Vec<_> = lines.iter().map(|put| (&put["old"], &put["requested"], &put["new"])).collect();
    let mut old = 0.0;
    assert_eq!(values.len(), 5, "{values:?}");
    for (found, asked) in values.iter().zip([1.5, 2.5, 3.5, 4.5, 5.5]) {
        assert_eq!(*found, (&json!(old), &json!(asked), &json!(asked)), "{values:?}");
        old = asked;
    }
    let output = Command::new(iocreplay())
        .args(["values", "--format", "jsonl", "PY:BUSY", &rig.log()])
        .output()
        .expect("iocreplay runs");
    let mut changes = json_lines(&output.stdout);
    changes.retain(|line| line["source"] != "snapshot");
    let mut values: Vec<_> = changes.iter().filter_map(|line| line["value"].as_f64()).collect();
    values.dedup();
    values.retain(|value| *value != 0.0);
    assert_eq!(values, [1.5, 2.5, 3.5, 4.5, 5.5], "{changes:#?}");
    for line in changes.iter().filter(|line| line["value"].is_number()) {
        assert_ne!(line["source"], "found", "every value was put, and was seen so: {line:#}");
    }
}
