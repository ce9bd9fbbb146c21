//! What a put left in a field that its record sets itself when it processes: known until then.

mod common;

use common::{complete, iocreplay, outcome, process, put, write_events, CLIENT, MS, SCAN, SECOND};
use iocrec_log::event::*;
use serde_json::{json, Value as Json};

/// Numbers of the fields of an ao.
const OVAL: u32 = 9;
const DRVH: u32 = 10;

/// The values of OVAL and DRVH as they are said to be after this many seconds: value, and how well it is known.
fn at(seconds: u64) -> [(Json, Json); 2] {
    let directory = tempfile::tempdir().unwrap();
    let field = |id, name: &str| {
        Fact::from(Field { id, ioc: 1, rtype: "ao".into(), name: name.into(), dbf: Dbf::Double, menu: None })
    };
    let mut told = vec![(SECOND / 2, field(OVAL, "OVAL")), (SECOND / 2, field(DRVH, "DRVH"))];
    let mut write = |time: u64, field: u32, to: f64, processes: bool| {
        told.push((time, put(PutKind::PutField, CLIENT, -1000, 1, (1, field), 1.0, to)));
        told.push((time + 1000, put(PutKind::Put, CLIENT, -1200, 0, (1, field), 1.0, to)));
        if processes {
            told.push((time + 2000, process(CLIENT, -1200, 0, 1)));
            told.push((time + 3000, complete(CLIENT, -1300, 1, 7.0, 0)));
        }
        let value = Value::Double(to);
        told.push((time + 100 * MS, Fact::FieldValue(FieldValue { record: 1, field, value })));
    };
    // each is read back after the put, also where that made the record process
    write(SECOND, OVAL, 3.0, true);
    write(2 * SECOND, DRVH, 50.0, false);
    write(6 * SECOND, OVAL, 4.0, false);
    told.push((4 * SECOND, process(SCAN, -100, 2, 1)));
    told.push((4 * SECOND + 1000, complete(SCAN, -200, 1, 7.0, 0)));
    // the log goes on
    told.push((9 * SECOND, process(SCAN, -100, 2, 2)));
    told.push((9 * SECOND + 1000, complete(SCAN, -200, 2, 20.0, 0)));
    told.sort_by_key(|(time, _)| *time);
    write_events(directory.path(), "box", 1, told);
    let log = directory.path().to_str().unwrap();
    let time = format!("2026-09-21T14:13:{}.5Z", 20 + seconds);
    let (code, out, err) = outcome(iocreplay(["at", &time, "--format", "jsonl", log]).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let lines: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    ["T:SP.OVAL", "T:SP.DRVH"].map(|pv| {
        let line = lines.iter().find(|line| line["pv"] == pv).unwrap_or(&Json::Null);
        (line["value"].clone(), line["known"].clone())
    })
}

#[test]
fn what_a_put_left_is_in_doubt_once_the_record_processes_again() {
    let (yes, doubt) = (json!("yes"), json!("doubt"));
    let drvh = (json!(50.0), yes.clone());
    assert_eq!(at(3), [(json!(3.0), yes.clone()), drvh.clone()]);
    assert_eq!(at(5), [(json!(3.0), doubt), drvh.clone()]);
    assert_eq!(at(7), [(json!(4.0), yes), drvh]);
}
