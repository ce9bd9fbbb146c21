//! Where the values of scanned records come from: the input links in the log, and what `why` says of them
//! (tests/rig/inputs.db).

use crate::rig::{epics_versions, iocreplay, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::process::{Command, Output};
use std::time::Duration;

const PORT: u16 = 5074;
/// DBR type, the protocol's number.
const DOUBLE: u16 = 6;

/// A log of puts to what scanned records read.
fn record(name: &str, options: &[&str], agent: &[&str]) -> Option<Rig> {
    let rig = Rig::new(name)?;
    let ioc = rig.ioc_with("inputs", PORT, "inputs.db", options);
    let mut recorder = rig.record(&[&["--pid", &ioc.pid_argument()], agent].concat());
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "IN:READY", "both");
    // all have processed with what they read at first
    std::thread::sleep(Duration::from_millis(2200));
    put(&mut client, "IN:SET", 21.0, ("IN:TOP", 42.0));
    client.put("IN:OTHER", DOUBLE, json!(1000.0), true);
    wait_until("the sum", || client.get("IN:SUM").as_f64() > Some(1000.0));
    put(&mut client, "IN:SET.HIHI", 77.0, ("IN:LIMIT", 77.0));
    wait_until("the CP link", || client.get("IN:FOLLOWS") == json!(78.0));
    put(&mut client, "IN:WRITER", 7.0, ("IN:WRITTEN", 70.0));
    client.put("IN:ALONE.HIHI", DOUBLE, json!(2.0), true);
    wait_until("the alarm by the limit", || client.get("IN:ALONE.SEVR") == json!(2));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    Some(rig)
}

/// Puts, and waits for what follows.
fn put(client: &mut Client, pv: &str, value: f64, (record, end): (&str, f64)) {
    client.put(pv, DOUBLE, json!(value), true);
    wait_until(record, || client.get(record) == json!(end));
}

/// Asks iocreplay; the log comes last.
fn ask(rig: &Rig, words: &[&str]) -> Output {
    Command::new(iocreplay()).args(words).arg(rig.log()).output().expect("iocreplay runs")
}

fn why(rig: &Rig, pv: &str) -> Value {
    let output = ask(rig, &["why", "--json", pv]);
    assert!(output.status.success(), "{pv}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The input with this field.
fn source<'a>(why: &'a Value, link: &str) -> &'a Value {
    let sources = why["sources"].as_array().expect("sources");
    sources.iter().find(|source| source["link"] == link).unwrap_or_else(|| panic!("{link}: {why:#}"))
}

fn compare(rig: &Rig) {
    // through two scans to the put
    let top = why(rig, "IN:TOP");
    assert_eq!((&top["to"], top["sources"].as_array().unwrap().len()), (&json!(42.0), 2), "{top:#}");
    assert_eq!(source(&top, "IN:TOP.SIOL")["recorded"], json!(false), "{top:#}");
    let middle = source(&top, "IN:TOP.INP");
    assert_eq!(
        (&middle["source"], &middle["since_last"]),
        (&json!("IN:MIDDLE.VAL"), &json!(true)),
        "{top:#}"
    );
    assert_eq!(middle["change"]["to"], json!(42.0));
    let set = source(&middle["change"], "IN:MIDDLE.INPA");
    assert_eq!((&set["source"], &set["since_last"]), (&json!("IN:SET:ALIAS"), &json!(true)), "{top:#}");
    let put = &set["change"];
    assert_eq!((&put["pv"], &put["from"], &put["to"]), (&json!("IN:SET"), &json!(1.0), &json!(21.0)));
    assert!(put["by"].is_string() && put["sources"] == json!([]), "{put:#}");
    let text = String::from_utf8(ask(rig, &["why", "IN:TOP"]).stdout).expect("text");
    assert!(text.contains("IN:TOP.INP reads IN:MIDDLE.VAL, which changed "), "{text}");
    assert!(text.contains("IN:SET changed from 1 to 21 at "), "{text}");
    assert!(!text.contains("not known"), "{text}");

    // either may have been it; the constant is none
    let sum = why(rig, "IN:SUM");
    let links: Vec<&Value> =
        sum["sources"].as_array().unwrap().iter().map(|source| &source["link"]).collect();
    assert_eq!(links.len(), 2, "{sum:#}");
    let count = source(&sum, "IN:SUM.INPB");
    assert_eq!(count["since_last"], json!(true), "it counts twice a second: {sum:#}");
    let own = source(&count["change"], "IN:COUNT.INPA");
    assert_eq!((&own["circle"], &own["change"]), (&json!(true), &Value::Null), "{sum:#}");
    assert!(sum["user"].is_null() && sum["begun_by"].is_null(), "none is picked");

    // a limit, which only puts change; and an argument, which processing changes
    let limit = why(rig, "IN:LIMIT");
    let hihi = source(&limit, "IN:LIMIT.INPA");
    assert_eq!(
        (&hihi["change"]["pv"], &hihi["change"]["to"]),
        (&json!("IN:SET.HIHI"), &json!(77.0)),
        "{limit:#}"
    );
    let argument = why(rig, "IN:ARGUMENT");
    let of_middle = source(&argument, "IN:ARGUMENT.INPA");
    assert_eq!(
        (&of_middle["of_value"], &of_middle["change"]["pv"]),
        (&json!(true), &json!("IN:MIDDLE")),
        "{argument:#}"
    );
    let follows = why(rig, "IN:FOLLOWS");
    let link = &follows["links"][0];
    assert_eq!(
        (&link["source"], &link["change"]["to"]),
        (&json!("IN:SET.HIHI"), &json!(77.0)),
        "{follows:#}"
    );
    assert!(
        follows["begun_by"].as_str().is_some_and(|by| by.contains("IN:SET.HIHI 100 -> 77")),
        "{follows:#}"
    );

    // asked for by an alias: the record's, and both names are said
    let by_alias = |command: &str, arguments: &[&str]| {
        let output = ask(rig, &[&[command], arguments].concat());
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains("IN:SET:ALIAS is an alias of IN:SET"), "{command}: {said}");
        String::from_utf8(output.stdout).expect("text")
    };
    let own = |command: &str, arguments: &[&str]| {
        String::from_utf8(ask(rig, &[&[command], arguments].concat()).stdout).expect("text")
    };
    for (command, of_alias, of_record) in [
        ("why", vec!["IN:SET:ALIAS"], vec!["IN:SET"]),
        ("why", vec!["IN:SET:ALIAS.HIHI"], vec!["IN:SET.HIHI"]),
        ("values", vec!["IN:SET:ALIAS"], vec!["IN:SET"]),
        ("at", vec!["2100-01-01", "--pv", "IN:SET:ALIAS"], vec!["2100-01-01", "--pv", "IN:SET"]),
        (
            "diff",
            vec!["2020-01-01", "2100-01-01", "--pv", "IN:SET:ALIAS"],
            vec!["2020-01-01", "2100-01-01", "--pv", "IN:SET"],
        ),
    ] {
        let found = by_alias(command, &of_alias);
        assert!(!found.is_empty() && found == own(command, &of_record), "{command}: {found}");
    }
    let undo = by_alias("undo", &["--since", "2020-01-01", "--pv", "IN:SET:ALIAS"]);
    assert!(undo.contains("IN:SET"), "{undo}");

    let alone = why(rig, "IN:ALONE");
    assert_eq!((&alone["sources"], &alone["device"]), (&json!([]), &json!("Soft Channel")), "{alone:#}");
    assert!(alone["inputs"].is_null(), "{alone:#}");

    // what a link wrote to the record itself is named, with the record that has the link
    let written = why(rig, "IN:WRITTEN");
    assert_eq!((&written["to"], &written["sources"]), (&json!(70.0), &json!([])), "{written:#}");
    let meanwhile = written["meanwhile"].as_array().expect("puts");
    let of_link = meanwhile.iter().find(|put| put["pv"] == "IN:WRITTEN.A");
    let of_link = of_link.unwrap_or_else(|| panic!("the link's put: {written:#}"));
    assert_eq!(
        (&of_link["own_field"], &of_link["by"]),
        (&json!(true), &json!("link of IN:WRITER")),
        "{written:#}"
    );
    assert!(meanwhile.iter().any(|put| put["pv"] == "IN:WRITER" && put["own_field"] == false), "{written:#}");
    let puts = rig.puts(&["--all", "--pv", "IN:WRITTEN.A"]);
    let by: Vec<_> = puts.iter().map(|put| (&put["via"], &put["cause_record"])).collect();
    assert_eq!(by, [(&json!("db_link"), &json!("IN:WRITER"))], "{puts:#?}");
}

/// `alarms` in this format, of this record.
fn alarms(rig: &Rig, record: &str, format: &str, more: &[&str]) -> String {
    let words = [&["alarms", "--pv", record, "--format", format], more].concat();
    String::from_utf8(ask(rig, &words).stdout).expect("text")
}

/// The change of an alarm to this severity, and what it says of the inputs.
fn change(rig: &Rig, record: &str, severity: &str, more: &[&str]) -> Option<(Value, String)> {
    let lines = crate::rig::json_lines(alarms(rig, record, "jsonl", more).as_bytes());
    let line = lines.into_iter().find(|line| line["what"] == "change" && line["severity"] == severity)?;
    let told: Vec<&str> = line["inputs"].as_array()?.iter().filter_map(Value::as_str).collect();
    let told = told.join("; ");
    Some((line, told))
}

/// Alarms of scanned records are told of as `why` tells of them: by the puts that were made, and who made them.
fn compare_alarms(rig: &Rig) {
    let (top, told) = change(rig, "IN:TOP", "MAJOR", &[]).expect("the alarm of IN:TOP");
    assert_eq!((&top["value"], &top["cause"]), (&json!(42.0), &json!("scan 1 second")), "{top:#}");
    assert!(told.starts_with("IN:TOP.INP reads IN:MIDDLE.VAL, which changed "), "{told}");
    assert!(
        told.contains(" before: scan .2 second; IN:MIDDLE.INPA reads IN:SET:ALIAS, which changed "),
        "{told}"
    );
    assert!(told.contains(" IN:SET 1 -> 21 by "), "{told}");
    for format in ["text", "csv"] {
        assert!(alarms(rig, "IN:TOP", format, &[]).contains(" IN:SET 1 -> 21 by "), "{format}");
    }
    let of_put = &rig.puts(&["--pv", "IN:SET"])[0];
    let user = of_put["user"].as_str().expect("a user");
    assert!(change(rig, "IN:TOP", "MAJOR", &["--user", user]).is_some(), "{user} made the put");
    assert!(change(rig, "IN:TOP", "MAJOR", &["--user", "somebody-else"]).is_none());
    let why = ask(rig, &["why", "--alarm", "--json", "IN:TOP"]);
    let why: Value = serde_json::from_slice(&why.stdout).expect("JSON");
    assert_eq!(source(&source(&why, "IN:TOP.INP")["change"], "IN:MIDDLE.INPA")["change"]["pv"], "IN:SET");

    // one of its inputs counts all the time: none is picked
    let (_, told) = change(rig, "IN:SUM", "MINOR", &[]).expect("the alarm of IN:SUM");
    assert!(told.starts_with("any of 2 inputs of IN:SUM may have been it, the latest first: "), "{told}");
    assert!(told.contains("IN:SUM.INPB reads IN:COUNT, which changed "), "{told}");
    assert!(told.contains(" IN:OTHER 0 -> 1000 by "), "{told}");

    // its limit was put
    let (_, told) = change(rig, "IN:ALONE", "MAJOR", &[]).expect("the alarm of IN:ALONE");
    assert!(
        told.contains("IN:ALONE.HIHI was written ") && told.contains(" IN:ALONE.HIHI 10 -> 2 by "),
        "{told}"
    );

    // the screen of its last minute has the same
    let last = String::from_utf8(ask(rig, &["last", "--json"]).stdout).expect("text");
    assert!(last.contains(" IN:SET 1 -> 21 by "), "{last}");
}

#[test]
fn scanned_records_are_followed_to_their_sources() {
    if let Some(rig) = record("inputs", &[], &[]) {
        compare(&rig);
        compare_alarms(&rig);
        let noted = rig.facts("field_value");
        assert!(noted >= 3 * 12, "{noted}");
    }
}

#[test]
fn scanned_records_are_followed_in_the_earliest_base_too() {
    if let Some(earliest) = epics_versions().first() {
        if let Some(rig) = record("inputs-earliest", &["--epics", earliest], &[]) {
            compare(&rig);
            compare_alarms(&rig);
        }
    }
}

#[test]
fn without_snapshots_inputs_are_unknown() {
    let Some(rig) = record("inputs-none", &[], &["--no-snapshots"]) else { return };
    let top = why(&rig, "IN:TOP");
    assert_eq!(top["sources"], json!([]), "{top:#}");
    assert!(top["inputs"].as_str().is_some_and(|inputs| inputs.contains("snapshots")), "{top:#}");
    assert!(top["meanwhile"].as_array().is_some(), "{top:#}");
    let (_, told) = change(&rig, "IN:TOP", "MAJOR", &[]).expect("the alarm of IN:TOP");
    assert!(told.starts_with("the inputs of IN:TOP are not known: "), "{told}");
}
