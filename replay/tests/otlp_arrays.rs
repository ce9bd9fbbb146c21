//! Arrays in OTLP have elements of one type, whatever numbers they hold: as the official definitions decode them
//! (`check_otlp.py`, `check_signals.py`), and in each format that has the same attributes.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{ca_put, complete, consumers, iocreplay, process, put, write_events, CLIENT, SECOND};
use iocrec_log::event::{Array, Dbf, Fact, Put, PutKind, Value};
use not_run::{not_run, Needs};
use std::fs;
use std::path::Path;

/// Arrays that stood there before a put, and what `epics.put.old_value` has to be: an array of the only type.
fn arrays() -> Vec<(Dbf, u32, Vec<u8>, serde_json::Value)> {
    let doubles = |of: &[f64]| of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let floats = |of: &[f32]| of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let texts = |of: &[&str]| of.iter().map(|text| serde_json::json!({ "stringValue": text })).collect();
    let numbers = |of: &[f64]| of.iter().map(|v| serde_json::json!({ "doubleValue": v })).collect();
    vec![
        (Dbf::Double, 2, doubles(&[1.0, 2.5]), numbers(&[1.0, 2.5])),
        (
            Dbf::Double,
            4,
            doubles(&[1.0, f64::NAN, f64::INFINITY, 1e300]),
            texts(&["1.0", "NaN", "Infinity", "1e+300"]),
        ),
        (Dbf::Float, 2, floats(&[0.1, f32::NEG_INFINITY]), texts(&["0.1", "-Infinity"])),
        (
            Dbf::UInt64,
            2,
            [7_u64, u64::MAX].iter().flat_map(|v| v.to_le_bytes()).collect(),
            texts(&["7", "18446744073709551615"]),
        ),
    ]
}

fn write_arrays(log: &Path) {
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    for (n, (dbf, count, bytes, _)) in arrays().into_iter().enumerate() {
        let t = SECOND * (n as u64 + 1);
        facts.push((t, ca_put(1, 1, false, 1, 1.0)));
        facts.push((t + 100, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), 0.0, 1.0)));
        let value = Value::Array(Array { dbf, count, bytes });
        let inner = Put {
            thread: CLIENT,
            sp: -1200,
            site: 0,
            kind: PutKind::Put,
            record: 1,
            field: Some(1),
            dbf,
            count,
            requested: value.clone(),
            old: value,
        };
        facts.push((t + 110, Fact::from(inner)));
        facts.push((t + 120, process(CLIENT, -1200, 0, 1)));
        facts.push((t + 130, complete(CLIENT, -1300, 1, 1.0, 0)));
    }
    write_events(log, "box1", 7, facts);
}

fn written(here: &Path, command: &str, format: &str) -> String {
    let path = here.join(format!("{command}.{format}")).to_str().unwrap().to_owned();
    let words = [command, "log", "--format", format, "-o", &path];
    assert!(iocreplay(words).current_dir(here).status().unwrap().success());
    path
}

#[test]
fn an_array_has_one_type() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    write_arrays(&here.join("log"));
    let json = fs::read_to_string(written(here, "traces", "otlp")).unwrap();
    for (_, _, _, values) in arrays() {
        let value = serde_json::json!({ "arrayValue": { "values": values } }).to_string();
        assert!(json.contains(&format!(r#"{{"key":"epics.put.old_value","value":{value}}}"#)), "{value}");
    }
    let zipkin = fs::read_to_string(written(here, "traces", "zipkin")).unwrap();
    assert!(zipkin.contains(r#"[\"1.0\",\"NaN\",\"Infinity\",\"1e+300\"]"#), "{zipkin}");
    let Some(python) = consumers::python().filter(|_| consumers::package("opentelemetry").is_some()) else {
        return not_run("otlp_arrays::an_array_has_one_type", Needs::Program("opentelemetry"));
    };
    let files =
        |command| ["otlp", "otlp-proto", "otlp-proto-delimited"].map(|format| written(here, command, format));
    let [json, protobuf, framed] = &files("traces");
    let traces = consumers::script(&python, "check_otlp.py", &[json, protobuf, framed]);
    assert!(traces.status.success(), "{}", String::from_utf8_lossy(&traces.stderr));
    let [json, protobuf, framed] = &files("logs");
    let logs = consumers::script(&python, "check_signals.py", &["logs", json, protobuf, framed]);
    assert!(logs.status.success(), "{}", String::from_utf8_lossy(&logs.stderr));
}
