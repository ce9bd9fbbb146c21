//! Arrays of which the record alone knows where they lie and how many elements are in use: what the log says that they held
//! is what a client read, or nothing.

use crate::rig::{Client, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

/// Whether a value of the log is what a client read. An array of one element is a single value for some clients.
fn is_same(logged: &Value, read: &Value) -> bool {
    let elements = |value: &Value| -> Vec<Option<f64>> {
        match value {
            Value::Array(elements) => elements.iter().map(Value::as_f64).collect(),
            one => vec![one.as_f64()],
        }
    };
    elements(logged) == elements(read)
}

/// Puts, and reads before and after each: what was read before and after.
fn put_and_read(client: &mut Client, series: &[(&str, u16, Value)]) -> Vec<(Value, Value)> {
    series
        .iter()
        .map(|(pv, dbr, value)| {
            let before = client.get(pv);
            assert_eq!(client.put(pv, *dbr, value.clone(), true), 1, "{pv} {value}");
            (before, client.get(pv))
        })
        .collect()
}

fn before_and_after(tier: &str) {
    let Some(rig) = Rig::new(&format!("array-fields-{tier}")) else { return };
    let ioc = rig.ioc("arrays", PORT, "array_fields.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let series = [
        ("ARRAY:ONE", DOUBLE, json!(5.0)),
        ("ARRAY:ONE", DOUBLE, json!([6.0])),
        ("ARRAY:ONE:LONG", LONG, json!(1)),
        ("ARRAY:ONE:LONG", LONG, json!(2)),
        ("ARRAY:RING", DOUBLE, json!([1.0, 2.0])),
        ("ARRAY:RING", DOUBLE, json!([3.0, 4.0, 5.0, 6.0])),
        ("ARRAY:RING", DOUBLE, json!([7.0])),
        ("ARRAY:RING:ONE", DOUBLE, json!(3.0)),
        ("ARRAY:RING:ONE", DOUBLE, json!(4.0)),
        ("ARRAY:COUNTS", LONG, json!([3, 2])),
        ("ARRAY:COUNTS", LONG, json!([4])),
        ("ARRAY:COUNTS:ONE", LONG, json!(3)),
        ("ARRAY:COUNTS:ONE", LONG, json!(5)),
        ("ARRAY:SUB.A", DOUBLE, json!([1.0, 2.0])),
        ("ARRAY:SUB.A", DOUBLE, json!([3.0])),
        ("ARRAY:SUB.A", DOUBLE, json!([5.0, 6.0, 7.0])),
        ("ARRAY:SUB.B", LONG, json!(8)),
        ("ARRAY:SUB.B", LONG, json!(9)),
    ];
    let truth = put_and_read(&mut client, &series);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PUT:READY").collect();
    assert_eq!(log.len(), series.len(), "{log:#?}");
    let mut wrong = Vec::new();
    for ((line, (pv, _, asked)), (before, after)) in log.iter().zip(&series).zip(&truth) {
        assert_eq!((&line["pv"], &line["source"]), (&json!(pv), &json!("both")), "{line}");
        let (old, new) = (&line["old"], &line["new"]);
        if !old.is_null() && !is_same(old, before) {
            wrong.push(format!("{pv} held {before}, not {old}"));
        }
        let as_asked = line["inexact"] == true && is_same(new, asked);
        if !new.is_null() && !as_asked && !is_same(new, after) {
            wrong.push(format!("{pv} holds {after}, not {new}"));
        }
        // where the recorder knows where the array lies, it says what it held
        if ["ARRAY:ONE", "ARRAY:ONE:LONG", "ARRAY:SUB.B"].contains(pv) && old.is_null() {
            wrong.push(format!("{pv} held {before}, which is missing"));
        }
        // the value of a waveform is an array before and after, also of one element
        if pv.starts_with("ARRAY:ONE") && !(old.is_array() && new.is_array()) {
            wrong.push(format!("{pv} went from {old} to {new}, which are not two arrays"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_arrays_held_over_the_ring_buffer() {
    before_and_after("ring");
}

#[test]
fn what_arrays_held_over_perf_buffers() {
    before_and_after("perf");
}
