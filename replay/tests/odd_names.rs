//! A PV whose name has braces and brackets, as whole sites have them, is found by that name: an IOC ends a record's name at
//! the first point alone, and what looks like a pattern may be a name.

mod common;

use common::{ca_put, complete, iocreplay, outcome, process, put, write_events, CLIENT, MS, SECOND};
use iocrec_log::event::*;
use std::path::Path;

const NAME: &str = "XF:23ID1-OP{Slt[1]-Ax:T}Mtr";

fn write(log: &Path) {
    let channel = Channel {
        id: 9,
        circuit: 1,
        cid: Some(9),
        sid: Some(9),
        pv: format!("{NAME}.VAL"),
        dbr: Some(6),
        count: Some(1),
        origin: Origin::Opened,
    };
    let record = Record { id: 9, ioc: 1, address: 8192, name: NAME.into(), rtype: "ao".into() };
    let t = SECOND;
    write_events(
        log,
        "box1",
        1,
        vec![
            (MS, Fact::from(record)),
            (MS, Fact::from(channel)),
            (t, ca_put(1, 9, false, 1, 2.5)),
            (t + 1000, put(PutKind::PutField, CLIENT, -1000, 1, (9, 1), 1.0, 2.5)),
            (t + 1100, put(PutKind::Put, CLIENT, -1200, 0, (9, 1), 1.0, 2.5)),
            (t + 1200, process(CLIENT, -1200, 0, 9)),
            (t + 1300, complete(CLIENT, -1300, 9, 2.5, 0)),
        ],
    );
}

fn answer(words: &[&str]) -> String {
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
    out
}

#[test]
fn a_pv_with_braces_and_brackets_is_one_pv() {
    let place = tempfile::tempdir().unwrap();
    write(place.path());
    let log = place.path().to_str().unwrap();
    for pattern in [NAME, "XF:23ID1-OP{*}Mtr", "XF:23ID1-OP{Slt[[]1]-Ax:T}Mtr"] {
        let puts = answer(&["puts", "--format", "jsonl", "--pv", pattern, log]);
        assert_eq!(puts.lines().count(), 1, "{pattern}: {puts}");
        let put: serde_json::Value = serde_json::from_str(&puts).unwrap();
        assert_eq!(
            (&put["record"], &put["source"], &put["new"]),
            (&NAME.into(), &"both".into(), &2.5.into())
        );
        // what the put found, and what it made
        assert_eq!(answer(&["values", pattern, log]).lines().count(), 2, "{pattern}");
    }
    // names of the same field, as clients ask for its characters, for a part of it, or through filters
    for end in [".", ".$", ".VAL$", ".{\"dbnd\":{\"abs\":1.5}}", ".VAL[0:3]", ".VAL[1:2:-1]{\"ts\":{}}"] {
        for record in [NAME, "XF:*"] {
            let name = format!("{record}{end}");
            let puts = answer(&["puts", "--format", "jsonl", "--pv", &name, log]);
            assert_eq!(puts.lines().count(), 1, "{name}: {puts}");
            assert_eq!(answer(&["values", &name, log]).lines().count(), 2, "{name}");
            let (_, others, _) =
                outcome(iocreplay(["values", "*", "--exclude", &name, log]).output().unwrap());
            assert_eq!(others, "", "{name}");
        }
    }
    let others = ["puts", "--pv", "XF:*.VA[0-9]", "--pv", "XF:*.VAL[1]", log];
    let (_, others, _) = outcome(iocreplay(others).output().unwrap());
    assert_eq!(others, "", "patterns for other fields");
    let why = answer(&["why", NAME, log]);
    assert!(why.starts_with(&format!("{NAME} changed from 1 to 2.5 at ")), "{why}");
    assert!(why.contains(" by alice@console3 "), "{why}");
}

/// A record whose definition was lost has its number for a name. It is found by that, too.
#[test]
fn a_record_without_a_name_is_found_by_its_number() {
    let place = tempfile::tempdir().unwrap();
    let t = SECOND;
    let facts = vec![(t, process(CLIENT, -1200, 0, 8)), (t + 100, complete(CLIENT, -1300, 8, 2.5, 0))];
    write_events(place.path(), "box1", 1, facts);
    let log = place.path().to_str().unwrap();
    for command in [&["why"][..], &["values"], &["at", "2261-01-01", "--pv"]] {
        let words = [command, &["record #8", log]].concat();
        let answers = ["", "1"].map(|without_index| {
            let mut asked = iocreplay(&words);
            if !without_index.is_empty() {
                asked.env("IOCREPLAY_WITHOUT_INDEX", without_index);
            }
            let (code, out, err) = outcome(asked.output().unwrap());
            assert_eq!(code, 0, "{words:?}: {err}");
            out
        });
        assert!(answers[0].contains("2.5"), "{words:?}: {}", answers[0]);
        assert_eq!(answers[0], answers[1], "{words:?}");
    }
}
