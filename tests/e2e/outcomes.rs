//! Outcomes of puts: the put log agrees with the IOC's fields afterwards, and claims no more than is known.

use crate::rig::{iocreplay, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const CHAR: u16 = 4;
const DOUBLE: u16 = 6;
const STS_STRING: u16 = 7;
const TIME_DOUBLE: u16 = 20;
const CTRL_DOUBLE: u16 = 34;
const PUT_ACKT: u16 = 35;
const PUT_ACKS: u16 = 36;

/// ECA_PUTFAIL with its severity (caerr.h): what the server answers to a put that the record refused.
const PUTFAIL: u64 = 160;

const NOTIFY: bool = true;
const WRITE: bool = false;

fn put_log(rig: &Rig, arguments: &[&str]) -> Vec<Value> {
    rig.puts(arguments).into_iter().filter(|line| line["pv"] != "PUT:READY").collect()
}

/// The keys of these lines whose values are not the expected ones.
fn differences(log: &[Value], expected: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, expected) in log.iter().zip(expected) {
        for (key, value) in expected.as_object().expect("an object") {
            if line[key] != *value {
                wrong.push(format!("{key} is not {value} in {line}"));
            }
        }
    }
    wrong
}

/// Does the log have these outcomes, and no other puts?
fn has_outcomes(rig: &Rig, expected: &[Value]) -> bool {
    let log = put_log(rig, &[]);
    log.len() == expected.len() && differences(&log, expected).is_empty()
}

/// Does the log have a line for each put so far, with this outcome of the last one?
fn has_outcome(rig: &Rig, puts: usize, last: &Value) -> bool {
    let log = put_log(rig, &[]);
    log.len() == puts && differences(&log[puts - 1..], std::slice::from_ref(last)).is_empty()
}

/// Waits for that: the recorder looks at a field again after the put.
fn wait_for_outcome(rig: &Rig, puts: usize, last: &Value) {
    wait_until("the log has the outcome of the put", || has_outcome(rig, puts, last));
}

fn compare(log: &[Value], expected: &[Value]) {
    let wrong = differences(log, expected);
    assert!(wrong.is_empty() && log.len() == expected.len(), "{}\n{log:?}", wrong.join("\n"));
}

fn why(rig: &Rig, pv: &str) -> Value {
    let why = Command::new(iocreplay()).args(["why", "--json", pv, &rig.log()]).output().expect("it runs");
    serde_json::from_slice(&why.stdout).expect("JSON")
}

/// Floating-point JSON numbers: serde_json distinguishes 4 from 4.0.
fn numbers(values: impl IntoIterator<Item = i64>) -> Value {
    Value::Array(values.into_iter().map(|value| json!(value as f64)).collect())
}

/// Puts by the IOC's shell get no answer, so the recorder reads the outcome from the field.
fn the_shell(tier: &str) {
    let Some(rig) = Rig::new(&format!("outcomes-shell-{tier}")) else { return };
    let mut ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    for line in [
        "dbpf PUT:LONG 12",
        "dbpf PUT:LONG bad",
        "dbpf PUT:ENUM nonsense",
        "dbpf PUT:ENUM Standby",
        "dbpf PUT:LONG.DESC words",
        "dbpf PUT:LONG.NAME other",
        "dbpf PUT:LOCKED 5",
        "dbpf PUT:DOUBLE 5000",
        "dbpf PUT:LONG.EGU 0123456789abcdefXYZ",
        "dbpf PUT:PLAIN.INP \"PUT:LONG CP MS\"",
    ] {
        ioc.command(line);
    }
    let egu = client.get("PUT:LONG.EGU");
    let link = client.get("PUT:PLAIN.INP");
    let line = |pv: &str, status: &str, old: Value, new: Value| json!({"pv": pv, "via": "dbpf", "status": status, "old": old, "new": new, "inexact": false});
    let expected = [
        line("PUT:LONG", "ok", json!(0), json!(12)),
        line("PUT:LONG", "unknown", json!(12), json!(12)),
        line("PUT:ENUM", "unknown", json!(0), json!(0)),
        line("PUT:ENUM", "ok", json!(0), json!(1)),
        line("PUT:LONG.DESC", "ok", json!(""), json!("words")),
        line("PUT:LONG.NAME", "unknown", json!("PUT:LONG"), json!("PUT:LONG")),
        // DISP: the put never reaches the field
        line("PUT:LOCKED", "unknown", json!(0.0), Value::Null),
        line("PUT:DOUBLE", "ok", json!(0.0), json!(1000.0)),
        line("PUT:LONG.EGU", "ok", json!(""), egu),
        line("PUT:PLAIN.INP", "ok", json!(""), link),
    ];
    // the recorder reads the fields again after the puts, in an order of its own
    wait_until("the log has the outcomes of all puts", || has_outcomes(&rig, &expected));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    compare(&put_log(&rig, &[]), &expected);
    let text = rig.replay("puts", &["--pv", "PUT:LONG"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains(r#"12 -> 12, not changed (asked for "bad")"#), "{text}");
    // A refused put is not a change.
    let why = why(&rig, "PUT:LONG");
    assert_eq!((&why["from"], &why["to"]), (&json!(0), &json!(12)), "{why}");
}

#[test]
fn outcomes_of_puts_by_the_shell_over_the_ring_buffer() {
    the_shell("ring");
}

#[test]
fn outcomes_of_puts_by_the_shell_over_perf_buffers() {
    the_shell("perf");
}

/// DBR_PUT_ACKS and DBR_PUT_ACKT are sent to a PV, but change its record's alarm.
#[test]
fn acknowledgements_are_not_puts_to_the_value() {
    let Some(rig) = Rig::new("outcomes-acks") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &["--uid", "65534"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.put("PUT:ALARM", DOUBLE, json!(20.0), NOTIFY);
    assert_eq!(client.get("PUT:ALARM.ACKS"), json!(2));
    client.put("PUT:ALARM", PUT_ACKS, json!(1), WRITE);
    wait_for_outcome(&rig, 2, &json!({"dbr": "DBR_PUT_ACKS", "new": 2}));
    assert_eq!(client.get("PUT:ALARM.ACKS"), json!(2), "MINOR acknowledges no MAJOR");
    client.put("PUT:ALARM", PUT_ACKS, json!(2), WRITE);
    client.put("PUT:ALARM", PUT_ACKT, json!(0), WRITE);
    assert_eq!((client.get("PUT:ALARM.ACKS"), client.get("PUT:ALARM.ACKT")), (json!(0), json!(0)));
    assert_eq!(client.get("PUT:ALARM"), json!(20.0));
    wait_for_outcome(&rig, 4, &json!({"dbr": "DBR_PUT_ACKT", "new": 0}));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let line = |dbr: &str, field: &str, asked: u16, old: Value, new: Value| {
        json!({"pv": "PUT:ALARM", "record": "PUT:ALARM", "dbr": dbr, "field": field, "requested": asked,
            "user": "nobody", "source": "both", "status": "ok", "old": old, "new": new})
    };
    let log = put_log(&rig, &[]);
    compare(
        &log[1..],
        &[
            line("DBR_PUT_ACKS", "ACKS", 1, Value::Null, json!(2)),
            line("DBR_PUT_ACKS", "ACKS", 2, Value::Null, json!(0)),
            line("DBR_PUT_ACKT", "ACKT", 0, Value::Null, json!(0)),
        ],
    );
    let text = rig.replay("puts", &["--pv", "PUT:ALARM"]);
    let text = String::from_utf8_lossy(&text.stdout);
    for text_of in [
        "acknowledged alarm (severity MAJOR)",
        "asked to acknowledge alarm (severity MINOR), MAJOR is left",
        "set ACKT to NO",
    ] {
        assert!(text.contains(text_of), "{text_of}: {text}");
    }
    let why = why(&rig, "PUT:ALARM");
    assert_eq!((&why["to"], &why["count"]), (&json!(20.0), &json!(1)), "{why}");
}

/// Base's server takes DBR_CTRL_DOUBLE and its like only without callback; with callback it hands a type of -1 to `dbPut`,
/// which refuses it. libca sends no such types, caproto does.
#[test]
fn a_put_of_a_type_that_the_server_refuses_is_one_refused_put() {
    let Some(rig) = Rig::new("outcomes-types") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut rig.client("libca", &[PORT], &[]), "PUT:READY", "both");
    let mut client = rig.client("caproto", &[PORT], &[]);
    let mut expected = Vec::new();
    let old = [("PUT:DOUBLE", json!(0.0)), ("PUT:TEXT", json!("at first"))];
    for (dbr, name, value) in [
        (CTRL_DOUBLE, "DBR_CTRL_DOUBLE", json!(12.5)),
        (TIME_DOUBLE, "DBR_TIME_DOUBLE", json!(13.5)),
        (STS_STRING, "DBR_STS_STRING", json!("other")),
    ] {
        let (pv, old) = &old[usize::from(dbr == STS_STRING)];
        assert_eq!(client.put(pv, dbr, value, NOTIFY), PUTFAIL);
        assert_eq!(client.get(pv), *old);
        expected.push(json!({"pv": pv, "record": pv, "dbr": name, "count": 1, "status": "ECA_PUTFAIL",
            "via": "ca_write_notify", "source": "both", "old": old, "new": old}));
    }
    wait_until("the log has the outcomes of all puts", || has_outcomes(&rig, &expected));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    compare(&put_log(&rig, &[]), &expected);
}

/// Clients that live for one put, by a record's name and by its alias.
#[test]
fn a_client_that_is_gone_soon_is_known_by_an_alias_too() {
    let Some(rig) = Rig::new("outcomes-alias") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let names =
        ["PUT:OTHERNAME", "PUT:ALIASED", "PUT:OTHERNAME.VAL", "PUT:OTHERNAME.DESC", "PUT:OTHERNAME.DESC$"];
    let mut expected = Vec::new();
    for (number, pv) in names.iter().chain(&names).enumerate() {
        let mut client = rig.client("libca", &[PORT], &["--host", &format!("console-{number}")]);
        let text = format!("text {number}");
        let (dbr, value) = match pv {
            pv if pv.ends_with('$') => (CHAR, json!([text.as_bytes(), b"\0"].concat())),
            pv if pv.ends_with("DESC") => (STRING, json!(text)),
            _ => (DOUBLE, json!(1.0 + number as f64)),
        };
        let address = put_once(&mut client, pv, dbr, value, number % 2 == 1);
        expected.push(json!({"pv": pv, "record": "PUT:ALIASED", "source": "both", "status": "ok",
            "client": address, "client_host": client.host, "inexact": false}));
    }
    wait_until("the log has the outcomes of all puts", || has_outcomes(&rig, &expected));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    compare(&put_log(&rig, &[]), &expected);
}

fn put_once(client: &mut Client, pv: &str, dbr: u16, value: Value, notify: bool) -> String {
    let address = client.connect(pv);
    assert_eq!(client.put(pv, dbr, value, notify), 1);
    address
}

/// Values too long for a probe are read afterwards. Cut values are marked.
#[test]
fn long_values_are_whole_or_say_that_they_are_cut() {
    let Some(rig) = Rig::new("outcomes-long") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let long: String = (0..600).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let chars = |text: &str| json!([text.as_bytes(), b"\0"].concat());
    client.put("PUT:DOUBLES", DOUBLE, numbers(0..256), NOTIFY);
    wait_for_outcome(&rig, 1, &json!({"new": numbers(0..256), "inexact": false}));
    client.put("PUT:DOUBLES", DOUBLE, numbers(1..257), WRITE);
    wait_for_outcome(&rig, 2, &json!({"new": numbers(1..257), "inexact": false}));
    client.put("PUT:DOUBLES", DOUBLE, numbers(0..20_000), NOTIFY);
    client.put("PUT:DOUBLE.DESC$", CHAR, chars("first"), NOTIFY);
    client.put("PUT:DOUBLE.DESC$", CHAR, chars("second"), WRITE);
    client.put("PUT:LONGTEXT.VAL$", CHAR, chars("short"), NOTIFY);
    client.put("PUT:LONGTEXT.VAL$", CHAR, chars(&long), NOTIFY);
    client.put("PUT:PLAIN.INP", STRING, json!("PUT:LONG NPP"), WRITE);
    let first_link = client.get("PUT:PLAIN.INP");
    wait_for_outcome(&rig, 8, &json!({"new": first_link, "inexact": false}));
    client.put("PUT:PLAIN.INP", STRING, json!("PUT:INT64 CP MS"), NOTIFY);
    let second_link = client.get("PUT:PLAIN.INP");
    let held = client.get("PUT:LONGTEXT.VAL$");
    wait_for_outcome(&rig, 9, &json!({"new": second_link, "inexact": false}));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = put_log(&rig, &[]);
    let flags = |requested: Value, old: Value, new: Value, inexact: bool| json!({"requested_cut": requested, "old_cut": old, "new_cut": new, "inexact": inexact, "status": "ok"});
    let with = |mut line: Value, more: Value| {
        line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        line
    };
    let (no, yes) = (json!(false), json!(true));
    let text = |text: &str| json!(text.as_bytes());
    compare(
        &log,
        &[
            with(
                flags(no.clone(), no.clone(), no.clone(), false),
                json!({"old": [], "requested": numbers(0..256), "new": numbers(0..256)}),
            ),
            with(
                flags(no.clone(), yes.clone(), no.clone(), false),
                json!({"old": numbers(0..50), "new": numbers(1..257)}),
            ),
            with(
                flags(yes.clone(), yes.clone(), yes.clone(), false),
                json!({"count": 20_000, "new": numbers(0..512)}),
            ),
            with(
                flags(no.clone(), no.clone(), no.clone(), false),
                json!({"old": [], "new": text("first"), "requested": chars("first")}),
            ),
            with(
                flags(no.clone(), no.clone(), no.clone(), false),
                json!({"old": text("first"), "new": text("second")}),
            ),
            with(flags(no.clone(), no.clone(), no.clone(), false), json!({"new": "short"})),
            with(flags(no.clone(), no.clone(), no.clone(), false), json!({"old": text("short")})),
            with(flags(no.clone(), no.clone(), no.clone(), false), json!({"old": "", "new": first_link})),
            with(flags(no.clone(), no.clone(), no, false), json!({"old": first_link, "new": second_link})),
        ],
    );
    let read: Vec<u8> = held.as_array().map_or(Vec::new(), |held| {
        held.iter().map_while(|byte| byte.as_u64().filter(|byte| *byte > 0)).map(|byte| byte as u8).collect()
    });
    assert_eq!(log[6]["new"].as_str().map(str::as_bytes), Some(read.as_slice()), "{held}");
    let text = rig.replay("puts", &["--pv", "PUT:DOUBLES"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("...] (50 of 256) -> ["), "{text}");
    assert!(text.contains("...] (512 of 20000)"), "{text}");
}
