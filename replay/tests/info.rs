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
