//! `last`: rates are over what was recorded, also across recorders; of floods the last is shown.

mod common;

use common::{ca_put, complete, definitions, process, run, write_events, write_log, MS, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use serde_json::Value as Json;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const CALC: u32 = 2;

/// A record processes so often from one second to another.
fn scans(from: u64, to: u64, each_ms: u64) -> impl Iterator<Item = (u64, Fact)> {
    let times = (from * 1000..to * 1000).step_by(each_ms as usize).map(|ms| ms * MS);
    times.flat_map(|t| [(t, process(SCAN, -100, 2, CALC)), (t + 1000, complete(SCAN, -200, CALC, 1.0, 0))])
}

/// One recorder's run, from its first fact to its last.
fn record(log: &Path, number: u128, from: u64, facts: Vec<(u64, Fact)>, to: u64) {
    let attached = Attached { ioc: 1, from: from * SECOND, since: from * SECOND, cause: String::new() };
    record_as(log, number, from, Fact::Attached(attached), facts, to);
}

/// The same, and how it was recorded.
fn record_as(log: &Path, number: u128, from: u64, how: Fact, facts: Vec<(u64, Fact)>, to: u64) {
    std::fs::create_dir_all(log).unwrap();
    let wall = Rc::new(Cell::new(WALL + (from * SECOND) as i64));
    let storage = Clocked { storage: Directory::open(log).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(storage, Options::default(), number).unwrap();
    for fact in definitions("box1") {
        let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: wall.get() }) } else { fact };
        writer.push(Event { time: from * SECOND, fact });
    }
    writer.push(Event { time: from * SECOND, fact: how });
    for (time, fact) in facts {
        writer.push(Event { time, fact });
        wall.set(WALL + time as i64);
        writer.tick(time);
    }
    writer.push(Event { time: to * SECOND, fact: Fact::Mark("end".into()) });
    wall.set(WALL + (to * SECOND) as i64);
    writer.close(to * SECOND);
}

fn last(here: &Path) -> (Json, String) {
    let (code, json, err) = run(here, &["last", "demo", "log", "--utc", "--json"]);
    assert_eq!(code, 0, "{err}");
    let (_, text, _) = run(here, &["last", "demo", "log", "--utc"]);
    (serde_json::from_str(&json).unwrap(), text)
}

fn rates(json: &Json) -> (f64, f64) {
    let scan = json["threads"].as_array().unwrap().iter().find(|line| line["thread"] == "scan-0.1").unwrap();
    (scan["rate"].as_f64().unwrap(), scan["rate_before"].as_f64().unwrap())
}

/// 10 a second, of which nobody saw half, then 5 a second, of which nobody saw a third.
#[test]
fn rates_are_over_the_time_that_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    record(&log, 7, 10, scans(10, 70, 100).collect(), 70);
    record(&log, 8, 130, scans(130, 150, 200).collect(), 150);
    record(&log, 9, 170, scans(170, 190, 200).collect(), 190);
    let (json, text) = last(here);
    let (rate, before) = rates(&json);
    assert!((rate - 5.0).abs() < 0.3 && (before - 10.0).abs() < 0.3, "{rate} {before}\n{text}");
    assert!(text.contains("no recorder's run is in the logs") && json["lost_before"] == false, "{text}");
    // three recorders saw it, but it is one thread
    let scan = json["threads"].as_array().unwrap().iter().find(|line| line["thread"] == "scan-0.1").unwrap();
    assert!(scan["count"] == 1 && !text.contains("scan-0.1 (3)"), "{scan}\n{text}");
}

/// Without probes nothing says when an IOC was recorded, but that no recorder ran.
#[test]
fn between_recorders_without_probes_nothing_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let packets = || Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![] });
    record_as(&log, 7, 10, packets(), vec![(12 * SECOND, ca_put(1, 1, false, 1, 3.0))], 20);
    record_as(&log, 8, 30, packets(), vec![(32 * SECOND, ca_put(1, 1, false, 2, 4.0))], 40);
    let (json, text) = last(here);
    let not_seen = json["not_seen"].as_array().unwrap();
    let says = |words: &str| not_seen.iter().find(|seen| seen["cause"].as_str().unwrap().contains(words));
    assert!(says("packets do not show them").is_some(), "{text}");
    let between = says("no recorder's run is in the logs").unwrap();
    assert_eq!(between["from"], "2026-09-21T14:13:40.000000000+00:00", "{text}");
    assert_eq!(between["to"], "2026-09-21T14:13:50.000000000+00:00", "{text}");
}

/// A recorder that found no probes, as on a machine where it was killed and its next run had not the rights, says nothing of
/// the time in which another one had them.
#[test]
fn packets_alone_are_told_of_the_time_in_which_they_were_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let packets = || Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![] });
    record_as(&log, 7, 10, packets(), Vec::new(), 20);
    record(&log, 8, 20, scans(20, 40, 100).collect(), 40);
    let by_packets = |json: &Json| -> Vec<(String, String)> {
        let not_seen = json["not_seen"].as_array().unwrap().iter();
        let told =
            not_seen.filter(|seen| seen["cause"].as_str().unwrap().contains("packets do not show them"));
        told.map(|seen| (seen["from"].to_string(), seen["to"].to_string())).collect()
    };
    let (json, text) = last(here);
    let told = by_packets(&json);
    let [(from, to)] = &told[..] else { panic!("{json}") };
    assert!(from.contains("T14:13:30.0") && to.contains("T14:13:40.0"), "{from} {to}");
    assert!(!text.contains("recorded from packets alone") && json["in_alarm"] == 0, "{text}");
    // beside one with probes they tell less, and hide nothing
    record_as(&log, 9, 22, packets(), Vec::new(), 38);
    let (json, _) = last(here);
    assert_eq!(by_packets(&json).len(), 1, "{json}");
    // the last minute by packets alone, whatever was before
    record_as(&log, 10, 40, packets(), Vec::new(), 140);
    let (json, text) = last(here);
    assert!(text.contains("recorded from packets alone") && json["in_alarm"].is_null(), "{text}");
}

/// What a recorder saw begin before it was killed may have ended before the next one came.
#[test]
fn what_may_have_ended_unseen_is_not_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let open =
        || vec![(19 * SECOND, process(SCAN, -100, 2, CALC)), (19 * SECOND + MS, ca_put(1, 1, true, 1, 3.0))];
    record(&log, 7, 10, open(), 20);
    let (json, text) = last(here);
    let listed = |json: &Json| ["begun", "unanswered"].map(|list| json[list].as_array().unwrap().len());
    assert!(listed(&json) == [1, 1] && text.contains("put with callback, no answer seen"), "{text}");
    record(&log, 8, 30, scans(30, 40, 100).collect(), 40);
    let (json, text) = last(here);
    assert!(listed(&json) == [0, 0] && text.contains("no recorder's run is in the logs"), "{text}");
}

/// The IOC demo ends, since its process runs another program, or the same anew: an IOC 9 of this name.
fn runs_anew(name: &str) -> Vec<(u64, Fact)> {
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.name == "demo" => Some(ioc),
        _ => None,
    });
    let how = "its process runs another program, or the same anew".to_owned();
    let anew = Ioc { id: 9, name: name.into(), ..*demo.unwrap() };
    vec![(3 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how })), (4 * SECOND, Fact::from(anew))]
}

/// A process that runs another program, or the same anew, is another IOC, though it has the same number and start.
#[test]
fn an_ioc_that_runs_another_program_is_over_and_the_other_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let attached = Attached { ioc: 9, from: 4 * SECOND, since: 4 * SECOND, cause: String::new() };
    let mut facts = runs_anew("anew");
    facts.push((4 * SECOND, Fact::Attached(attached)));
    record(&log, 7, 1, facts, 10);
    let (code, text, err) = run(here, &["last", "anew", "log", "--utc"]);
    assert!(code == 0 && text.starts_with("IOC         anew") && text.contains("still ran"), "{text}{err}");
    let (_, text, _) = run(here, &["last", "demo", "log", "--utc"]);
    assert!(text.contains("runs another program"), "{text}");
    // more runs than one, so that they may tell of each other's
    write_log(&here.join("other"), "box2", 8);
    let (_, out, err) = run(here, &["iocs", "log", "other", "--host", "box1", "--json"]);
    let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = |name: &str| rows.iter().find(|row| row["ioc"] == name).expect(&err)["end"].clone();
    assert!(end("demo").is_string() && end("anew").is_null(), "{out}");
}

/// A recorder that comes later knows such a process as one IOC: it is what the process runs by then.
#[test]
fn an_ioc_that_ran_another_program_before_a_recorder_came_still_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    record(&log, 7, 1, runs_anew("demo"), 10);
    record(&log, 8, 20, Vec::new(), 30);
    let (_, out, err) = run(here, &["iocs", "log", "--json"]);
    let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<bool> =
        rows.iter().filter(|row| row["ioc"] == "demo").map(|row| row["end"].is_string()).collect();
    assert_eq!(ends, [true, false, false], "{out}{err}");
}

#[test]
fn what_was_lost_before_makes_its_rates_minima() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let mut facts: Vec<(u64, Fact)> = scans(1, 60, 100).chain(scans(90, 180, 100)).collect();
    let cause = "ring buffer full".to_owned();
    let loss = Loss { source: LossSource::Hits, count: 600, since: 60 * SECOND, cause };
    facts.push((90 * SECOND + 1, Fact::Loss(loss)));
    facts.sort_by_key(|(time, _)| *time);
    record(&log, 7, 1, facts, 180);
    let (json, text) = last(here);
    let (rate, before) = rates(&json);
    assert!((rate - 10.0).abs() < 0.2 && before < 9.0 && json["lost_before"] == true, "{json}");
    let line = text.lines().find(|line| line.contains("scan-0.1")).unwrap();
    assert!(line.contains(&format!(">={before:.1}")), "{text}");
}

/// More alarms and more records that never completed than are kept: those before the end count.
#[test]
fn of_many_the_last_are_shown() {
    const MANY: u64 = 2600;
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let mut facts = Vec::new();
    let name = |n: u64| format!("T:MANY{n}");
    for n in 0..MANY {
        let id = 1000 + n as u32;
        let record = Record { id, ioc: 1, address: 4096, name: name(n), rtype: "ai".into() };
        facts.push((SECOND, Fact::from(record)));
        let t = 2 * SECOND + n * MS;
        facts.push((t, process(SCAN, -100, 2, id)));
        facts.push((t + 1000, complete(SCAN, -200, id, 1.0, 2)));
        // on the stack of another, which goes on
        let thread = 5000 + n as u32;
        facts.push((
            t + 2000,
            Fact::Thread(Thread { id: thread, ioc: 1, tid: thread, name: "x".into(), stack: 1 << 40 }),
        ));
        facts.push((t + 3000, process(thread, -100, 2, id)));
    }
    facts.push((6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGSEGV".into() })));
    write_events(&log, "box1", 7, facts);
    let (json, text) = last(here);
    assert_eq!(json["how"], "killed by SIGSEGV", "{text}");
    for list in ["alarms", "begun"] {
        let items = json[list].as_array().unwrap();
        assert_eq!(items.len(), 1000, "{list}");
        assert_eq!(items.last().unwrap()["record"], name(MANY - 1), "{list}");
    }
    assert!(text.contains(&format!("({} earlier changes", MANY - 5)), "{text}");
    assert!(text.contains(&format!("({} earlier records", MANY - 5)), "{text}");
    assert!(text.contains(&name(MANY - 1)) && !text.contains(&format!(" {} ", name(999))), "{text}");
}

/// Records that go into alarm early, and what they do later: one nothing, one processes on in alarm, one leaves it.
#[test]
fn an_alarm_that_began_before_all_that_is_read_still_lasts() {
    let (sp, slow) = (1, 3);
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let done = |time: u64, record: u32, severity: u16| {
        let completed = Complete {
            thread: SCAN,
            sp: -200,
            site: 0,
            record,
            value: Value::Double(9.0),
            severity,
            status: if severity > 0 { 4 } else { 0 },
        };
        [(time, process(SCAN, -100, 2, record)), (time + 1000, Fact::Complete(completed))]
    };
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    for record in [sp, CALC, slow] {
        facts.extend(done(20 * SECOND + u64::from(record) * MS, record, 2));
    }
    for second in 21..400 {
        facts.extend(done(second * SECOND + 500 * MS, CALC, 2));
    }
    facts.extend(done(200 * SECOND, slow, 0));
    facts.sort_by_key(|(time, _)| *time);
    record(&log, 7, 10, facts, 400);
    let (json, text) = last(here);
    assert_eq!(json["in_alarm"], 2, "{text}");
    assert!(text.contains("2 records were in alarm at the end; since before: T:SP MAJOR HIGH\n"), "{text}");
    let (code, out, err) = run(here, &["last", "demo", "log", "--utc", "--until", "2026-09-21T14:15:00Z"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("3 records were in alarm at the end\n"), "{out}");
}

/// The recorder finds a record in alarm, which has not changed in this minute as far as is known.
#[test]
fn an_alarm_that_was_found_did_not_begin_then() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let value = Value::Double(9.0);
    let snapshot = Snapshot { record: CALC, value, severity: 2, status: 3, stamp: Some(0) };
    let facts = vec![(350 * SECOND, Fact::Snapshot(snapshot))];
    record(&log, 7, 10, facts, 400);
    let (json, text) = last(here);
    assert!(text.contains("T:CALC ? -> MAJOR HIHI  found so by the recorder: since when"), "{text}");
    assert_eq!(json["alarms"][0]["source"], "snapshot", "{text}");
}

/// Hits are lost after a record has gone into alarm: whether it left it then is not known. Another is seen in alarm later.
#[test]
fn an_alarm_before_lost_hits_may_have_ended() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let alarmed = |time: u64, record: u32| {
        let (value, sp, site) = (Value::Double(9.0), -200, 0);
        let completed = Complete { thread: SCAN, sp, site, record, value, severity: 2, status: 4 };
        [(time, process(SCAN, -100, 2, record)), (time + 1000, Fact::Complete(completed))]
    };
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    facts.extend(alarmed(20 * SECOND, 1));
    facts.extend(alarmed(20 * SECOND + 500 * MS, CALC));
    let cause = "ring buffer full".to_owned();
    let loss = Loss { source: LossSource::Hits, count: 60, since: 30 * SECOND, cause };
    facts.push((31 * SECOND, Fact::Loss(loss)));
    facts.extend(alarmed(40 * SECOND, CALC));
    record(&log, 7, 10, facts, 50);
    let (json, text) = last(here);
    assert_eq!(
        (json["in_alarm"].as_u64(), json["in_alarm_when_seen"].as_u64()),
        (Some(1), Some(1)),
        "{text}"
    );
    assert!(text.contains("1 record was in alarm at the end\n"), "{text}");
    assert!(text.contains("1 record in alarm when last seen; at the end it is not known\n"), "{text}");
}

/// A record processes after its last alarm and is not seen to complete, as a motor record that moves its motor.
#[test]
fn an_alarm_before_processing_without_an_end_may_have_ended() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let alarmed = |time: u64| {
        let (value, sp, site) = (Value::Double(9.0), -200, 0);
        let completed = Complete { thread: SCAN, sp, site, record: CALC, value, severity: 2, status: 4 };
        [(time, process(SCAN, -100, 2, CALC)), (time + 1000, Fact::Complete(completed))]
    };
    let mut facts: Vec<(u64, Fact)> = alarmed(20 * SECOND).into();
    facts.push((30 * SECOND, process(SCAN, -100, 2, CALC)));
    record(&log, 7, 10, facts, 50);
    let (json, text) = last(here);
    assert_eq!(
        (json["in_alarm"].as_u64(), json["in_alarm_when_seen"].as_u64()),
        (Some(0), Some(1)),
        "{text}"
    );
}

/// A record that processes anew, and is not still active, is through with what it had begun: it was disabled, or its
/// completion was not seen.
#[test]
fn what_was_begun_before_a_record_processed_anew_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let begins = |time: u64| (time * SECOND, process(SCAN, -100, 2, CALC));
    record(&log, 7, 9, [10, 15, 20].map(begins).to_vec(), 25);
    let (json, text) = last(here);
    let begun: Vec<&str> =
        json["begun"].as_array().unwrap().iter().map(|line| line["time"].as_str().unwrap()).collect();
    assert_eq!(begun.len(), 1, "{text}");
    assert!(begun[0].contains("14:13:40"), "the last one may still be on its way: {begun:?}");
}

/// A CA link of another IOC puts from outside, also where the log does not say whose the circuit is that it came by.
#[test]
fn what_a_link_of_another_ioc_put_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let puts = |ioc: &str| -> Vec<String> {
        let (code, json, err) = run(here, &["last", ioc, "log", "--utc", "--json"]);
        assert_eq!(code, 0, "{err}");
        let json: Json = serde_json::from_str(&json).unwrap();
        let puts = json["puts"].as_array().unwrap().iter();
        puts.map(|put| put["pv"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(puts("second"), ["R:FAR"]);
    assert_eq!(puts("demo"), ["T:SP", "T:SP", "T:CALC.A"]);
}

/// Nothing is known of that time, so nothing is said of it.
#[test]
fn before_the_log_begins_nothing_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    record(&log, 7, 100, scans(100, 110, 100).collect(), 110);
    let (code, out, err) = run(here, &["last", "demo", "log", "--utc", "--until", "2026-09-21T14:14:00Z"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("nothing was recorded at that time; these logs hold"), "{err}");
}

/// Who sent a signal may take a line; when it ended is not cut off for that.
#[test]
fn a_long_story_of_the_end_leaves_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let how = "killed by SIGSEGV, sent by pid 1234567 (supervisor-of-iocs, user operations)";
    let mut facts: Vec<(u64, Fact)> = scans(1, 5, 100).collect();
    facts.push((6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: how.into() })));
    write_events(&here.join("log"), "box1", 7, facts);
    let (_, text) = last(here);
    let lines: Vec<&str> = text.lines().take(2).collect();
    assert!(lines[0].starts_with("IOC         demo on box1, pid 100: ended at 2026-09-21T14:13:"), "{text}");
    assert_eq!(lines[1].trim(), how, "{text}");
}

/// Its probes were still being placed when it ended: what is missing is all that came before.
#[test]
fn an_ioc_that_ended_before_it_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let cause = "its probes had to be placed".to_owned();
    let facts = vec![
        (14 * SECOND, Fact::Attached(Attached { ioc: 1, from: 12 * SECOND, since: 14 * SECOND, cause })),
        (14 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "it ended before it was recorded".into() })),
    ];
    record_as(&log, 7, 10, Fact::Mark("begin".into()), facts, 20);
    let (json, text) = last(here);
    let [gap] = json["not_seen"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert!(gap["to"] == json["end"] && gap["from"] != gap["to"], "{json}");
    assert!(text.contains("nothing of it is recorded") && !text.contains("missing     after"), "{text}");
}

/// As of a capture: packets tell of no IOC.
#[test]
fn a_log_without_an_ioc_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    std::fs::create_dir_all(&log).unwrap();
    let storage = Clocked { storage: Directory::open(&log).unwrap(), wall: Rc::new(Cell::new(WALL)) };
    let mut writer = Writer::open(storage, Options::default(), 7).unwrap();
    writer.push(Event { time: SECOND, fact: Fact::Clock(Clock { wall: WALL }) });
    writer.push(Event { time: SECOND, fact: Fact::Mark("read".into()) });
    writer.close(SECOND);
    for command in ["last", "iocs", "records"] {
        let (code, out, err) = run(here, &[command, "log"]);
        assert_eq!((code, out.as_str(), err.lines().count()), (0, "", 1), "{command}: {err}");
        assert!(
            err.contains("these logs hold no IOC") && err.contains("made of a capture"),
            "{command}: {err}"
        );
    }
}
