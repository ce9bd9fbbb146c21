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

/// Numbers of input links of a calc.
const SDIS: u32 = 11;
const TSEL: u32 = 12;
const INPA: u32 = 13;
/// A of a calc.
const A: u32 = 2;

/// How well A of a calc is known after a put to it of 3, and after its record has processed again. `noted`: the links
/// that the recorder noted at its start, with their texts.
fn fetched(noted: &[(u32, &str)], link_is_put_to: bool, also: &[&str]) -> [(Json, Json); 2] {
    let directory = tempfile::tempdir().unwrap();
    let mut told: Vec<(u64, Fact)> = [(SDIS, "SDIS"), (TSEL, "TSEL"), (INPA, "INPA")]
        .into_iter()
        .map(|(id, name)| {
            let (rtype, name) = ("calc".into(), name.into());
            (SECOND / 4, Fact::from(Field { id, ioc: 1, rtype, name, dbf: Dbf::InLink, menu: None }))
        })
        .collect();
    let held = |field, value| Fact::FieldValue(FieldValue { record: 2, field, value });
    told.extend(noted.iter().map(|(field, text)| (SECOND / 2, held(*field, Value::Text((*text).into())))));
    if link_is_put_to {
        let link = Put {
            thread: CLIENT,
            sp: -1000,
            site: 1,
            record: 2,
            field: Some(INPA),
            dbf: Dbf::String,
            count: 1,
            kind: PutKind::PutField,
            requested: Value::Text(b"T:SP".to_vec()),
            old: Value::Text(b"".to_vec()),
        };
        told.push((SECOND, Fact::from(link)));
    }
    // as a client puts to it: its record processes in the same chain, and it is read back
    let at = 2 * SECOND;
    told.push((at, put(PutKind::PutField, CLIENT, -1000, 1, (2, A), 1.0, 3.0)));
    told.push((at + 1000, put(PutKind::Put, CLIENT, -1200, 0, (2, A), 1.0, 3.0)));
    told.push((at + 2000, process(CLIENT, -1200, 0, 2)));
    told.push((at + 3000, complete(CLIENT, -1300, 2, 7.0, 0)));
    told.push((at + 100 * MS, held(A, Value::Double(3.0))));
    told.push((4 * SECOND, process(SCAN, -100, 2, 2)));
    told.push((4 * SECOND + 1000, complete(SCAN, -200, 2, 8.0, 0)));
    told.push((9 * SECOND, process(SCAN, -100, 2, 1)));
    told.push((9 * SECOND + 1000, complete(SCAN, -200, 1, 20.0, 0)));
    write_events(directory.path(), "box", 1, told);
    let log = directory.path().to_str().unwrap();
    [3, 6].map(|seconds| {
        let time = format!("2026-09-21T14:13:{}.5Z", 20 + seconds);
        let asked = ["at", &time, "--format", "jsonl", log].into_iter().chain(also.iter().copied());
        let (code, out, err) = outcome(iocreplay(asked).output().unwrap());
        assert_eq!(code, 0, "{err}");
        let lines = out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        let line = lines.into_iter().find(|line| line["pv"] == "T:CALC.A").unwrap();
        (line["value"].clone(), line["known"].clone())
    })
}

#[test]
fn what_a_link_fetches_is_in_doubt_once_the_record_processes_again() {
    let (yes, doubt) = ((json!(3.0), json!("yes")), (json!(3.0), json!("doubt")));
    let none = [(SDIS, ""), (TSEL, "")];
    let set = [(SDIS, ""), (INPA, "T:SP NPP NMS"), (TSEL, "")];
    for also in [&[][..], &["--pv", "T:CALC.A"], &["--pv", "T:C*A"], &["--exclude", "T:CALC.VAL"]] {
        assert_eq!(fetched(&none, false, also), [yes.clone(), yes.clone()], "no link: {also:?}");
        assert_eq!(fetched(&set, false, also), [yes.clone(), doubt.clone()], "a link: {also:?}");
        assert_eq!(fetched(&none, true, also), [yes.clone(), doubt.clone()], "a put has set it: {also:?}");
        assert_eq!(fetched(&[], false, also), [yes.clone(), doubt.clone()], "not noted: {also:?}");
        assert_eq!(fetched(&set[1..2], false, also)[1], doubt, "noted after a put: {also:?}");
    }
}
