//! An IOC that is started anew: what a record had in its former process is gone, and so is what was done to that.

mod common;

use common::{complete, process, put, write_events, CLIENT, MS, SCAN, SECOND};
use iocrec_log::event::*;
use serde_json::Value as Json;

/// The second process of the IOC `demo`, its thread, and its records T:SP, which is a string, and T:CALC.
const IOC: u32 = 9;
const THREAD: u32 = 70;
const SP: u32 = 40;
const CALC: u32 = 41;
const TEXT: u32 = 60;

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

/// alice puts to T:SP, T:CALC is scanned; the IOC ends and starts again, where both have other values.
fn log() -> tempfile::TempDir {
    log_with(Vec::new())
}

/// The same with more facts.
fn log_with(more: Vec<(u64, Fact)>) -> tempfile::TempDir {
    let mut all = more;
    let mut tell = |time: u64, fact: Fact| all.push((time, fact));
    for (time, old, new) in [(SECOND, 1.0, 2.0), (SECOND + 10 * MS, 2.0, 3.0)] {
        tell(time, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), old, new));
        tell(time + 10, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), old, new));
        tell(time + 20, process(CLIENT, -1200, 0, 1));
        tell(time + 30, complete(CLIENT, -1300, 1, new, 0));
    }
    tell(2 * SECOND, process(SCAN, -100, 2, 2));
    tell(2 * SECOND + 10, complete(SCAN, -200, 2, 5.0, 0));
    tell(3 * SECOND, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), 3.0, 4.0));
    tell(3 * SECOND + 10, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), 3.0, 4.0));
    tell(3 * SECOND + 20, process(CLIENT, -1200, 0, 1));
    tell(3 * SECOND + 30, complete(CLIENT, -1300, 1, 4.0, 0));
    tell(4 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() }));
    let demo = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.name == "demo" => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    tell(5 * SECOND, Fact::from(Ioc { id: IOC, pid: 500, start: 5_000_000_000, ..*demo }));
    tell(
        5 * SECOND,
        Fact::Thread(Thread { id: THREAD, ioc: IOC, tid: 500, name: "demo".into(), stack: 1 << 40 }),
    );
    for (id, name, rtype) in [(SP, "T:SP", "stringout"), (CALC, "T:CALC", "calc")] {
        tell(
            5 * SECOND,
            Fact::from(Record { id, ioc: IOC, address: 1, name: name.into(), rtype: rtype.into() }),
        );
    }
    let field = Field {
        id: TEXT,
        ioc: IOC,
        rtype: "stringout".into(),
        name: "VAL".into(),
        dbf: Dbf::String,
        menu: None,
    };
    tell(5 * SECOND, Fact::from(field));
    tell(6 * SECOND, process(THREAD, -100, 0, CALC));
    tell(6 * SECOND + 10, complete(THREAD, -200, CALC, 5.0, 0));
    let outer = Put {
        thread: THREAD,
        sp: -1000,
        site: 1,
        kind: PutKind::PutField,
        record: SP,
        field: Some(TEXT),
        dbf: Dbf::String,
        count: 1,
        requested: text("new"),
        old: Value::Unknown,
    };
    let inner = Put { sp: -1200, site: 0, kind: PutKind::Put, old: text("first"), ..outer.clone() };
    tell(7 * SECOND, Fact::from(outer));
    tell(7 * SECOND + 10, Fact::from(inner));
    tell(7 * SECOND + 20, process(THREAD, -1200, 0, SP));
    let done = Complete {
        thread: THREAD,
        sp: -1300,
        site: 0,
        record: SP,
        value: text("new"),
        severity: 0,
        status: 0,
    };
    tell(7 * SECOND + 30, Fact::Complete(done));
    all.sort_by_key(|(time, _)| *time);
    let log = tempfile::tempdir().unwrap();
    write_events(&log.path().join("log"), "box1", 7, all);
    log
}

fn ask(log: &tempfile::TempDir, words: &[&str]) -> String {
    let (code, out, err) = common::run(log.path(), &[words, &["log", "--utc"]].concat());
    assert_eq!(code, 0, "{err}");
    out
}

#[test]
fn why_does_not_look_behind_a_restart() {
    let log = log();
    // It had 5 before, too; but that was another process, and the put to T:SP was made to that one.
    let out = ask(&log, &["why", "T:CALC"]);
    assert!(out.starts_with("T:CALC became 5 at 2026-09-21T14:13:26."), "{out}");
    assert!(
        out.contains(
            "\nIts IOC had been started anew: before that, it was last seen at 2026-09-21T14:13:22."
        ),
        "{out}"
    );
    assert!(!out.contains("alice"), "{out}");
    let why: Json = serde_json::from_str(&ask(&log, &["why", "T:CALC", "--json"])).unwrap();
    assert_eq!(why["changed"], true);
    assert_eq!(why["from"], Json::Null);
    assert_eq!(why["first_since_start"], true);
    assert_eq!(why["meanwhile"], serde_json::json!([]));
    // The put itself shows what was there.
    let out = ask(&log, &["why", "T:SP"]);
    assert!(out.starts_with("T:SP changed from \"first\" to \"new\" at 2026-09-21T14:13:27."), "{out}");
    let before: Json =
        serde_json::from_str(&ask(&log, &["why", "T:SP", "--at", "2026-09-21T14:13:24Z", "--json"])).unwrap();
    assert_eq!((&before["from"], &before["started_anew"]), (&serde_json::json!(3.0), &Json::Bool(false)));
}

/// Long after its IOC has ended, a record has its name and who wrote it; and that the value is gone is said.
#[test]
fn why_knows_a_process_that_ended_long_ago() {
    let later = (10..300).flat_map(|second| {
        let at = second * SECOND;
        [(at, process(THREAD, -100, 0, CALC)), (at + 10, complete(THREAD, -200, CALC, second as f64, 0))]
    });
    let log = log_with(later.collect());
    let pid = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.name == "demo" => Some(ioc.pid),
        _ => None,
    });
    let first = format!("demo pid {}", pid.expect("an IOC"));
    let out = ask(&log, &["why", "T:SP", "--ioc", &first]);
    assert!(out.starts_with("T:SP changed from 3 to 4 at 2026-09-21T14:13:23."), "{out}");
    assert!(out.contains("\nIts IOC ended at 2026-09-21T14:13:24"), "{out}");
    assert!(out.contains("T:SP 3 -> 4") && !out.contains("record #"), "{out}");
    // not of the one that lives, nor before the end
    assert!(!ask(&log, &["why", "T:SP"]).contains("ended at"));
    let before = ask(&log, &["why", "T:SP", "--at", "2026-09-21T14:13:23.5Z", "--json"]);
    assert_eq!(serde_json::from_str::<Json>(&before).unwrap()["ended"], Json::Null);
}

#[test]
fn undo_does_not_put_a_number_where_a_text_is_now() {
    let log = log();
    let script = ask(&log, &["undo", "--since", "2026-09-21T14:13:20Z"]);
    assert!(script.contains("# not put back: its record has another type now"), "{script}");
    assert!(!script.contains("back one new"), "{script}");
}

/// A record that the new process lacks does not make the IOC two. A state of another name is another value.
#[test]
fn diff_joins_the_processes_of_an_ioc() {
    let (was, is) = (30, 42);
    let mut more = Vec::new();
    for (record, ioc, time, state) in
        [(was, 1, 1500 * MS, ["Off", "Auto"]), (is, IOC, 5500 * MS, ["Zero", "One"])]
    {
        let (name, rtype) = ("T:MODE".to_owned(), "mbbo".to_owned());
        more.push((time, Fact::from(Record { id: record, ioc, address: 1, name, rtype })));
        let states = state.map(str::to_owned).to_vec();
        more.push((time, Fact::EnumStrings(EnumStrings { record, states })));
        let value = Value::UInt(1);
        let read = Snapshot { record, value, severity: 0, status: 0, stamp: Some(1) };
        more.push((time + MS, Fact::Snapshot(read)));
    }
    let log = log_with(more);
    let out = ask(
        &log,
        &["diff", "2026-09-21T14:13:23.5Z", "2026-09-21T14:13:28Z", "--format", "jsonl", "--exclude", "R:*"],
    );
    let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<[&Json; 5]> = rows
        .iter()
        .map(|row| ["pv", "before", "after", "before_text", "after_text"].map(|key| &row[key]))
        .collect();
    let [mode, sp, auto, one, new] = ["T:MODE", "T:SP", "Auto", "One", "new"].map(Json::from);
    let (number, four) = (Json::from(1), Json::from(4.0));
    // T:SLOW, which only the former process had, is unknown at both times
    assert_eq!(
        rows,
        [[&mode, &number, &number, &auto, &one], [&sp, &four, &new, &Json::Null, &Json::Null]],
        "{out}"
    );
}

/// Puts of the report are of the process that ran then, which has the same name as the one after it.
#[test]
fn the_report_gives_puts_to_the_process_that_they_went_to() {
    let log = log();
    ask(&log, &["report", "-o", "page.html"]);
    let page = std::fs::read_to_string(log.path().join("page.html")).unwrap();
    let (_, rest) = page.split_once(r#"id="data">"#).unwrap();
    let data: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let iocs: Vec<&serde_json::Value> = data["puts"]["ioc"].as_array().unwrap().iter().collect();
    let [first, second, third, fourth] = iocs[..] else { panic!("{iocs:?}") };
    assert!(first == second && second == third && third != fourth, "{iocs:?}");
}

/// The module caPutLog of an IOC that is started anew finds what the record holds then, not what its former process left.
#[test]
fn caputlog_begins_anew_with_the_process() {
    let (client, name) = (THREAD + 1, "CAS-client".to_owned());
    let outer = Put {
        thread: client,
        sp: -1000,
        site: 0,
        kind: PutKind::PutField,
        record: SP,
        field: Some(TEXT),
        dbf: Dbf::String,
        count: 1,
        requested: text("newer"),
        old: Value::Unknown,
    };
    let inner = Put { sp: -1200, kind: PutKind::Put, old: text("new"), ..outer.clone() };
    let log = log_with(vec![
        (6 * SECOND, Fact::Thread(Thread { id: client, ioc: IOC, tid: 501, name, stack: 1 << 40 })),
        (9 * SECOND, Fact::from(outer)),
        (9 * SECOND + 10, Fact::from(inner)),
    ]);
    let out = ask(&log, &["puts", "--format", "caputlog", "--burst", "1s", "--level", "1"]);
    let values: Vec<&str> = out.lines().filter_map(|line| line.split(" new=").nth(1)).collect();
    let values: Vec<String> =
        values.iter().map(|rest| rest.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(values, ["3 old=1", "4 old=3", "\"newer\" old=\"new\""], "{out}");
}
