//! Values of all forms over PVAccess to the records and groups of both servers that EPICS Base has: what the put log tells,
//! compared with what the server held before each put and after it (pva_records.py).

use crate::rig::{iocreplay, json_lines, python, rig_file, Rig};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5654;
const SEARCH: u16 = PORT + 2000;

/// What differs between the log and the truth of one put. `is_probed`: whether the IOC was looked at, too.
fn differences(line: &Value, sent: &Value, is_probed: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, logged: &Value, truth: &Value| {
        if logged != truth {
            wrong.push(format!("{what} of {}: {logged} in the log, in truth {truth}", sent["pv"]));
        }
    };
    // of what is too long for the log, it has the beginning, and says so
    let is_long = sent["pv"] == "R:LONGGROUP";
    expect("fields_cut", &line["fields_cut"], &json!(is_long));
    for key in ["pv", "fields", "requested", "options"] {
        if key != "fields" || !is_long {
            expect(key, &line[key], &sent[key]);
        }
    }
    expect("message", &line["message"], &sent["said"]);
    expect("status", &line["status"], &json!(if sent["said"].is_null() { "ok" } else { "denied" }));
    let (before, held) = (&sent["before"], &sent["held"]);
    let Some(own) = sent["pv"].as_str().filter(|pv| !held[*pv].is_null()) else {
        // a group: the members that were written to, whatever the server said of the whole
        // by packets alone, a member that is called value may be the value of a server without records
        let new = if is_probed { &Value::Null } else { &sent["requested"] };
        expect("new", &line["new"], new);
        if is_probed || new.is_null() {
            expect("old", &line["old"], &Value::Null);
        }
        let written = |(record, now): (&String, &Value)| {
            (before[record] != *now && is_probed).then(|| json!([record, before[record], now]))
        };
        let mut truth: Vec<Value> = held.as_object().into_iter().flatten().filter_map(written).collect();
        let member = |of: &Value| json!([of["record"], of["old"], of["new"]]);
        let mut logged: Vec<Value> = line["members"].as_array().into_iter().flatten().map(member).collect();
        for of in [&mut truth, &mut logged].into_iter().flatten().filter(|_| is_long) {
            *of = of[0].take();
        }
        // QSRV1 writes what it was not sent, too, as it was
        logged.retain(|of| sent["pv"] != "R:ARRAYGROUP" || of[1] != of[2]);
        for of in [&mut truth, &mut logged] {
            of.sort_by_key(ToString::to_string);
        }
        expect("members", &json!(logged), &json!(truth));
        return wrong;
    };
    // a text, or its bytes
    let plain = |value: &Value| if own.ends_with('$') { text(value) } else { value.clone() };
    let is_denied = !sent["said"].is_null();
    expect("old", &plain(&line["old"]), &plain(&before[own]));
    if is_denied {
        expect("new", &line["new"], &Value::Null);
    } else if line["inexact"] == false {
        expect("new", &plain(&line["new"]), &plain(&held[own]));
    } else {
        expect("new, as asked", &plain(&line["new"]), &plain(&sent["requested"]));
    }
    // without a look into the IOC nothing tells what the record made of it
    expect("inexact", &line["inexact"], &json!(!is_probed || is_denied));
    wrong
}

/// The text that an array of bytes is. Any other value unchanged.
fn text(value: &Value) -> Value {
    let Some(bytes) = value.as_array() else { return value.clone() };
    let bytes = bytes.iter().filter_map(Value::as_u64);
    bytes.take_while(|byte| *byte != 0).map(|byte| char::from(byte as u8)).collect::<String>().into()
}

fn truth(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-records-{server}-{tier}")) else { return };
    let access = rig_file("access.acf");
    let options = ["--pva", server, "--access", access.to_str().expect("a path")];
    let ioc = rig.ioc_with("records", PORT, "pvaccess_records.db", &options);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let is_probed = tier != "packet";
    rig.wait_until_recording(&mut client, "PVA:READY", if is_probed { "both" } else { "packet" });
    let said = python("pva_records.py").arg(SEARCH.to_string()).output().expect("the client runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(ioc);
    let is_of_it = |line: &Value| line["pv"].as_str().is_some_and(|pv| pv.starts_with("R:"));
    let puts: Vec<Value> = rig.puts(&[]).into_iter().filter(is_of_it).collect();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let sent: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(sent.len() > 30 && sent.len() == puts.len(), "{} in the log: {said}", puts.len());
    let wrong: Vec<String> =
        puts.iter().zip(&sent).flat_map(|(line, sent)| differences(line, sent, is_probed)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    compare_redacted(&rig, &puts);
    // the members are named, whatever they are called
    let shown = rig.replay("puts", &["--pv", "R:VALUEGROUP"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for told in
        ["-> R:V:VALUE [] (0) -> [1.5, 2.5] (2)", "-> R:V:TEXT \"\" -> \"alone\"", "-> [3.5] (1), R:V:TEXT"]
    {
        assert!(!is_probed || shown.contains(told), "{told}: {shown}");
    }
    let why = rig.why("R:LONG");
    let told = String::from_utf8_lossy(if is_probed { &why.stdout } else { &why.stderr }).into_owned();
    assert!(
        told.contains(if is_probed { "R:LONG changed from 0 to" } else { "were seen on the network" }),
        "{told}"
    );
    // refused at its second member, when the first was written: never "not written"
    let half = sent.iter().find(|put| put["pv"] == "R:LOCKEDGROUP").expect("it was put");
    assert_eq!(half["held"], json!({"R:L:OPEN": 1.0, "R:L:LOCKED": 0.0}));
    let shown = rig.replay("puts", &["--pv", "R:LOCKEDGROUP"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let expected = if is_probed { "R:L:OPEN 0 -> 1" } else { "-> not known (asked for first=1, second=2)" };
    assert!(shown.contains(expected) && !shown.contains("not written"), "{shown}");
}

/// What a line tells without names and values.
fn shape(line: &Value) -> Value {
    let members = line["members"].as_array().map(Vec::len);
    let unknown = ["old", "new", "requested"].map(|key| line[key].is_null());
    json!([line["time"], line["status"], line["source"], line["via"], line["inexact"], members, unknown])
}

/// A redacted copy tells of the same puts, each with the same result.
fn compare_redacted(rig: &Rig, puts: &[Value]) {
    // of an index beyond 16 bits, what is left of it in the record is replaced by itself
    let is_told =
        |line: &&Value| line["pv"].as_str().is_some_and(|pv| pv.starts_with("R:") && pv != "R:MBBO");
    for values in ["replace", "scale"] {
        let copy = rig.path(values);
        let made = rig.replay("redact", &["--keep-names", "--values", values, "-o", &copy]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let told =
            Command::new(iocreplay()).args(["puts", "--format", "jsonl", &copy]).output().expect("it runs");
        let told = json_lines(&told.stdout);
        let pairs = puts.iter().filter(is_told).zip(told.iter().filter(is_told));
        let wrong: Vec<String> = pairs
            .filter(|(line, told)| shape(line) != shape(told))
            .map(|(line, told)| format!("{values}: {} {}\n  {}", line["pv"], shape(line), shape(told)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let count = |lines: &[Value]| lines.iter().filter(is_told).count();
        assert_eq!(count(puts), count(&told), "{values}");
    }
}

#[test]
fn records_of_qsrv() {
    truth("qsrv", "ring");
}

#[test]
fn records_of_pvxs() {
    truth("pvxs", "ring");
}

#[test]
fn records_of_qsrv_by_packets_alone() {
    truth("qsrv", "packet");
}

#[test]
fn records_of_pvxs_by_packets_alone() {
    truth("pvxs", "packet");
}
