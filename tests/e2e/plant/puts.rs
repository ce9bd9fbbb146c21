//! Who wrote what: every put, with its user, value before and after, and outcome.

use super::truth::{record_of, time, Truth};
use super::{is_right, nanoseconds, plant, same};
use serde_json::{json, Value};

/// How long a CA link may take to carry a value to another IOC, nanoseconds. A busy machine is no defect.
const LINK: i64 = 1_000_000_000;

const DBR: [&str; 7] = ["STRING", "SHORT", "FLOAT", "ENUM", "CHAR", "LONG", "DOUBLE"];

/// The lines that the put log must have, in order: the puts of the script.
pub fn expected(truth: &Truth) -> Vec<Value> {
    let is_acknowledgement = |number: usize| truth.list("acknowledgements").contains(&json!(number));
    let puts = truth.puts().iter().enumerate();
    puts.map(|(number, put)| expected_line(truth, put, is_acknowledgement(number))).collect()
}

/// What the CA link to the other IOC wrote of them.
fn expected_of_the_link(truth: &Truth) -> Vec<Value> {
    let mut far = json!(4.0); // what the script wrote before the recording
    let requests = truth.puts().iter().filter(|put| put["pv"] == "LI:RF:REQ");
    requests
        .map(|put| {
            let old = std::mem::replace(&mut far, put["requested"].clone());
            json!({
                "begin": put["begin"], "end": time(put, "end") + LINK, "pv": "RF:AMP:SP", "record": "RF:AMP:SP",
                "field": "VAL", "ioc": "RF1", "via": "ca_link", "cause_record": "LI:RF:REQ", "client_ioc": "LINAC1",
                "requested": put["requested"], "old": old, "new": put["requested"], "status": "ok",
                "source": "both",
            })
        })
        .collect()
}

fn expected_line(truth: &Truth, put: &Value, is_acknowledgement: bool) -> Value {
    let pv = put["pv"].as_str().expect("a PV");
    let ioc = truth.ioc_of(pv);
    let field = match (is_acknowledgement, put["dbr"] == 36) {
        (true, true) => "ACKS",
        (true, false) => "ACKT",
        _ => pv.split_once('.').map_or("VAL", |(_, field)| field.trim_end_matches('$')),
    };
    let mut line = json!({
        "begin": put["begin"], "end": put["end"], "pv": pv, "record": record_of(pv), "field": field, "ioc": ioc["name"],
        "requested": put["requested"], "status": put["outcome"],
    });
    // Of these the recorder reads the outcome some time later, and says so.
    if !is_acknowledgement && field != "PROC" && put["outcome"] != "unknown" {
        line["inexact"] = json!(false);
    }
    if put["outcome"] == "clamped" {
        line["status"] = json!("ok");
    }
    match put["outcome"].as_str() {
        Some("denied" | "ECA_PUTFAIL") => line["new"] = Value::Null,
        // what an acknowledgement finds is not recorded
        _ if is_acknowledgement => line["new"] = put["after"].clone(),
        _ => {
            line["old"] = put["before"].clone();
            line["new"] = put["after"].clone();
        }
    }
    match truth.client(&put["client"]) {
        Some(client) => {
            line["user"] = client["user"].clone();
            line["client_host"] = client["host"].clone();
            line["client"] = client["addresses"][ioc["port"].to_string()].clone();
            line["server"] = json!(format!("127.0.0.1:{}", ioc["port"]));
            line["via"] = json!(if put["notify"] == true { "ca_write_notify" } else { "ca_write" });
            let dbr = match put["dbr"].as_u64() {
                Some(35) => "PUT_ACKT",
                Some(36) => "PUT_ACKS",
                dbr => DBR[dbr.expect("a type") as usize],
            };
            line["dbr"] = json!(format!("DBR_{dbr}"));
            // the server refuses before any function that has a probe
            line["source"] = json!(if put["outcome"] == "denied" { "packet" } else { "both" });
            line["client_ioc"] = Value::Null;
        }
        None => {
            for unknown in ["user", "client_host", "client"] {
                line[unknown] = Value::Null;
            }
            line["via"] = json!("dbpf");
        }
    }
    line
}

/// A long string is read as bytes, and is text to its record.
fn as_text(pv: &str, value: &Value) -> Value {
    let Some(bytes) = value.as_array().filter(|_| pv.ends_with("VAL$")) else { return value.clone() };
    // characters have a sign for some clients
    let bytes = bytes.iter().filter_map(|byte| byte.as_i64().map(|byte| (byte & 255) as u8));
    let bytes = bytes.take_while(|byte| *byte > 0);
    json!(String::from_utf8(bytes.collect()).expect("UTF-8"))
}

#[test]
fn every_put_and_no_other() {
    let Some(plant) = plant("plant-puts") else { return };
    is_right(&differences(&plant.lines(&["puts", "--utc"]), &expected(&plant.truth)));
    let by_link = |line: &Value| line["via"] == "ca_link";
    let lines: Vec<Value> = plant.lines(&["puts", "--utc", "--all"]).into_iter().filter(by_link).collect();
    is_right(&differences(&lines, &expected_of_the_link(&plant.truth)));
}

/// What lines have that they should not, and the other way round.
pub fn differences(lines: &[Value], expected: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, (line, expected)) in lines.iter().zip(expected).enumerate() {
        let pv = line["pv"].as_str().unwrap_or_default();
        for (key, value) in expected.as_object().expect("an object") {
            if key != "begin" && key != "end" && !same(&as_text(pv, &line[key]), &as_text(pv, value)) {
                wrong.push(format!("line {number}: {key} is not {value} in {line}"));
            }
        }
        let when = nanoseconds(&line["time"]);
        if when < time(expected, "begin") || when > time(expected, "end") {
            wrong.push(format!("line {number}: not at its time: {line}"));
        }
        // what comes after one put too many or too few is all wrong
        if line["pv"] != expected["pv"] {
            break;
        }
    }
    if lines.len() != expected.len() {
        wrong.push(format!("{} lines, not {}; the last is {:?}", lines.len(), expected.len(), lines.last()));
    }
    wrong
}

/// A put with callback is answered when all that it set off is done; one without has no answer.
#[test]
fn callbacks_take_as_long_as_they_took() {
    let Some(plant) = plant("plant-callbacks") else { return };
    let (lines, expected) = (plant.lines(&["puts", "--utc"]), expected(&plant.truth));
    for (line, expected) in lines.iter().zip(&expected) {
        let waited = line["callback_ms"].as_f64();
        assert_eq!(waited.is_some(), expected["via"] == "ca_write_notify", "{line}");
        let longest = (time(expected, "end") - time(expected, "begin")) as f64 / 1e6;
        assert!(waited.is_none_or(|waited| waited <= longest), "{line}");
        if line["pv"] == "LI:SLOW.A" {
            // its ODLY is 0.3 s
            assert!(waited.is_some_and(|waited| waited >= 299.0), "{line}");
        }
    }
}

/// Filters leave out what they say, and nothing else.
#[test]
fn puts_of_some() {
    let Some(plant) = plant("plant-puts-of-some") else { return };
    let all = plant.lines(&["puts", "--utc"]);
    for client in plant.truth.list("clients") {
        let user = client["user"].as_str().expect("a user");
        let own: Vec<&Value> = all.iter().filter(|line| line["user"] == user).collect();
        let found = plant.lines(&["puts", "--utc", "--user", user]);
        assert_eq!(found.iter().collect::<Vec<_>>(), own, "{user}");
        assert!(!own.is_empty(), "{user}");
    }
    let since = super::iso(plant.truth.moment("T2"));
    let until = super::iso(plant.truth.moment("T3"));
    let between = |line: &&Value| {
        let when = nanoseconds(&line["time"]);
        when >= plant.truth.moment("T2") && when <= plant.truth.moment("T3")
    };
    let found = plant.lines(&["puts", "--utc", "--since", &since, "--until", &until]);
    assert_eq!(found.iter().collect::<Vec<_>>(), all.iter().filter(between).collect::<Vec<_>>());
    let found = plant.lines(&["puts", "--utc", "--pv", "LI:MAG*", "--pv", "RF:*", "--exclude", "*.DESC"]);
    let chosen = |line: &&Value| {
        let pv = line["pv"].as_str().expect("a PV");
        (pv.starts_with("LI:MAG") || pv.starts_with("RF:")) && !pv.ends_with(".DESC")
    };
    assert_eq!(found.iter().collect::<Vec<_>>(), all.iter().filter(chosen).collect::<Vec<_>>());
}
