//! `info` counts what the table of facts says, whatever a log holds.

mod common;

use common::{run, write_events, SECOND};
use iocrec_log::event::*;

/// What `info` says of a log in which nothing but this happened.
fn info(facts: Vec<Fact>) -> String {
    let directory = tempfile::tempdir().unwrap();
    let facts = (2..).map(|second| second * SECOND).zip(facts).collect();
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (code, out, err) = run(directory.path(), &["info", "--utc", "log"]);
    assert_eq!((code, err.as_str()), (0, ""));
    out
}

/// Hits that came after the first version of the format, and a record whose `dbProcess` cannot be found.
#[test]
fn every_hit_is_something_that_happened() {
    let process = Process { thread: 1, sp: -8, site: 0, record: 3, active: false };
    for fact in [
        Fact::Process(process),
        Fact::RsetProcess(process),
        Fact::PactCheck(PactCheck { record: 3, active: true, disabled: false }),
        Fact::FieldValue(FieldValue { record: 3, field: 1, value: Value::Int(5) }),
        Fact::ChainsLeftOut(ChainsLeftOut { record: 3, count: 9, since: SECOND }),
        Fact::Snapshot(Snapshot { record: 3, value: Value::Int(5), severity: 0, status: 0, stamp: None }),
        Fact::SnapshotEnd(SnapshotEnd { ioc: 1, since: 0, taken: 1, unread: 0, left: 0, properties_left: 0 }),
        Fact::Mark("beam lost".into()),
    ] {
        let name = fact.kind().name;
        assert!(matches!(fact.class(), Class::Hit | Class::Note), "{name}");
        let out = info(vec![fact]);
        assert!(!out.contains("nothing happened"), "{name}: {out}");
        assert!(out.contains("2026-09-21T14:13:22"), "{name}: {out}");
        assert!(out.contains(name), "{name}: {out}");
    }
}

/// What the log says about itself did not happen at an IOC.
#[test]
fn a_log_without_hits_says_so() {
    let out = info(vec![]);
    assert!(out.contains("nothing happened"), "{out}");
}

/// The clock of a log's machine is set by an hour in the middle, and what info and values say of that.
fn stepped(by: i64) -> (String, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = common::happenings();
    let (time, hour) = (2 * SECOND + SECOND / 2, 3600 * SECOND as i64);
    facts.push((time, Fact::Clock(Clock { wall: common::WALL + time as i64 + by * hour })));
    facts.sort_by_key(|(time, _)| *time);
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (_, info, quiet) = run(directory.path(), &["info", "--utc", "log"]);
    assert_eq!(quiet, "");
    let (code, _, err) = run(directory.path(), &["alarms", "--utc", "log"]);
    assert_eq!(code, 0, "{err}");
    let (_, page, _) = run(directory.path(), &["report", "--utc", "log"]);
    assert_eq!(page.contains("The clock was set back by 3600.000 s"), by < 0, "{by}");
    let (_, json, _) = run(directory.path(), &["info", "--json", "--utc", "log"]);
    (info, err, json)
}

#[test]
fn a_clock_that_was_set_back_is_said() {
    let (info, err, json) = stepped(-1);
    let from = "from 2026-09-21T14:13:22.500+00:00 to 2026-09-21T13:13:22.500+00:00";
    assert!(info.contains(&format!("clock     set back by 3600.000 s, {from}: times in between")), "{info}");
    assert!(err.contains("the clock of box1 was set back by 3600.000 s"), "{err}");
    assert_eq!(err.matches("set back").count(), 1, "{err}");
    assert!(json.contains("\"by_s\": -3600.0"), "{json}");
    let (info, err, _) = stepped(1);
    assert!(info.contains("clock     set forward by 3600.000 s, from 2026-09-21T14:13:22.500"), "{info}");
    assert!(!err.contains("clock"), "{err}");
    let (info, err, _) = stepped(0);
    assert!(!info.contains("clock     set") && !err.contains("clock"), "{info}{err}");
}
