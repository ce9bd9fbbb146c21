//! Alarms change when their records are seen to complete with another, whatever chains these are in, and in which order
//! the chains began.

mod common;

use common::{complete, definitions, overtaken, process, put, run, write_events, MS, SCAN, SECOND};
use iocrec_log::event::*;
use iocrec_testing::chance::{fuzz, Random};
use serde_json::Value as Json;
use std::path::Path;

/// Records of the common log: one that is scanned, and one that writes to it after a delay.
const CALC: u32 = 2;
const SLOW: u32 = 3;
const CB_LOW: u32 = 4;
const SEVERITIES: [&str; 4] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/// What a story's record had at which time, nanoseconds, and what the recorder saw of it.
#[derive(Default)]
struct Story {
    alarms: Vec<(u64, u16)>,
    facts: Vec<(u64, Fact)>,
}

impl Story {
    /// The record is scanned, and has this alarm.
    fn scanned(&mut self, time: u64, severity: u16) {
        self.completes(time, SCAN, -100, severity);
    }

    fn completes(&mut self, time: u64, thread: u32, sp: i64, severity: u16) {
        let site = if thread == SCAN { 2 } else { 0 };
        self.facts.push((time - 1000, process(thread, sp, site, CALC)));
        self.facts.push((time, complete(thread, sp - 100, CALC, time as f64, severity)));
        self.alarms.push((time, severity));
    }

    /// A chain begins that goes on after a delay, and processes the record then.
    fn delayed(&mut self, time: u64, delay: u64, severity: u16) {
        self.facts.push((time, process(SCAN, -100, 2, SLOW)));
        let kind = CauseKind::CallbackRequestProcessDelayed;
        let cause = Cause { thread: SCAN, sp: -200, site: 0, kind, object: 7, record: Some(SLOW) };
        self.facts.push((time + 1000, Fact::Cause(cause)));
        let then = time + delay;
        self.facts.push((then, put(PutKind::Put, CB_LOW, -500, 0, (CALC, 2), 0.0, 1.0)));
        self.completes(then + 2000, CB_LOW, -520, severity);
        self.facts.push((then + 3000, complete(CB_LOW, -200, SLOW, 1.0, 0)));
    }

    /// Its changes: time since the beginning, and the severity since then.
    fn changes(&self) -> Vec<(u64, String)> {
        let mut alarms = self.alarms.clone();
        alarms.sort_unstable();
        let mut before = 0;
        alarms.retain(|(_, severity)| std::mem::replace(&mut before, *severity) != *severity);
        let named = |severity: u16| SEVERITIES[usize::from(severity)].to_string();
        alarms.into_iter().map(|(time, severity)| (time, named(severity))).collect()
    }

    /// The changes that `alarms --all` tells of it.
    fn told(&self) -> Vec<(u64, String)> {
        let rows = self.rows(&["--all"]);
        let changes = rows.iter().filter(|row| row["what"] == "change" && row["from_severity"] != Json::Null);
        let began = nanoseconds("2026-09-21T14:13:20.000000000Z");
        let time = |row: &Json| nanoseconds(row["time"].as_str().unwrap()) - began;
        changes.map(|row| (time(row), row["severity"].as_str().unwrap().into())).collect()
    }

    /// What `alarms` tells of it.
    fn rows(&self, options: &[&str]) -> Vec<Json> {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let mut facts = self.facts.clone();
        facts.sort_by_key(|(time, _)| *time);
        write_events(&here.join("log"), "box1", 7, facts);
        told(here, options)
    }
}

/// What `alarms` tells of the record.
fn told(here: &Path, options: &[&str]) -> Vec<Json> {
    let command = ["alarms", "log", "--utc", "--pv", "T:CALC", "--format", "jsonl"];
    let (code, out, err) = run(here, &[&command, options].concat());
    assert_eq!(code, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Nanoseconds since the minute in which the common logs begin.
fn nanoseconds(time: &str) -> u64 {
    let (_, clock) = time.split_once('T').unwrap();
    let part = |range: std::ops::Range<usize>| clock[range].parse::<u64>().unwrap();
    (part(3..5) * 60 + part(6..8)) * SECOND + part(9..18)
}

/// A put that waits at the server is overtaken by a later one to its record. What another record had meanwhile is told in order.
#[test]
fn alarms_are_in_order_where_a_put_waits() {
    let mut story = Story::default();
    story.scanned(500 * MS, 0);
    story.delayed(900 * MS, 180 * MS, 0);
    story.scanned(1050 * MS, 2);
    story.facts.extend(overtaken());
    assert_eq!(story.told(), story.changes());
}

/// A chain that waits in its middle shows an alarm between two that a scan shows, which are alike.
#[test]
fn an_alarm_between_two_alike() {
    let mut story = Story::default();
    story.scanned(SECOND, 0);
    story.scanned(SECOND + 100 * MS, 2);
    story.delayed(SECOND + 150 * MS, 100 * MS, 0);
    story.scanned(SECOND + 200 * MS, 2);
    story.scanned(SECOND + 300 * MS, 2);
    assert_eq!(story.told(), story.changes());
}

/// A record that is active for long has to process once more, again and again: dbProcess gives it the alarm SCAN at the eleventh
/// time, and no hit shows that. Not so one that is INVALID.
#[test]
fn a_record_that_is_active_for_long() {
    for severity in [0, 3] {
        let mut story = Story::default();
        story.scanned(SECOND / 2, 0);
        story.scanned(SECOND, severity);
        story.facts.push((2 * SECOND, process(SCAN, -100, 2, CALC)));
        story.facts.push((
            2 * SECOND + 50 * MS,
            Fact::PactCheck(PactCheck { record: CALC, active: true, disabled: false }),
        ));
        let again = Process { thread: SCAN, sp: -100, site: 2, record: CALC, active: true };
        story.facts.extend((1..=15).map(|time| (2 * SECOND + time * 100 * MS, Fact::Process(again))));
        story.facts.push((5 * SECOND, complete(CB_LOW, -200, CALC, 1.0, 0)));
        story.alarms.extend([(3 * SECOND + 100 * MS, 3), (5 * SECOND, 0)]);
        assert_eq!(story.told(), story.changes());
    }
}

/// Ten times give it none, and count anew once it has completed.
#[test]
fn a_record_that_is_active_for_a_while() {
    let mut story = Story::default();
    story.scanned(SECOND, 0);
    let again = Process { thread: SCAN, sp: -100, site: 2, record: CALC, active: true };
    for begin in [2, 4] {
        story.facts.push((begin * SECOND, process(SCAN, -100, 2, CALC)));
        story.facts.push((
            begin * SECOND + MS,
            Fact::PactCheck(PactCheck { record: CALC, active: true, disabled: false }),
        ));
        let times = (1..=10).map(|time| begin * SECOND + time * 100 * MS);
        story.facts.extend(times.map(|time| (time, Fact::Process(again))));
        story.facts.push((begin * SECOND + 1500 * MS, complete(CB_LOW, -200, CALC, 1.0, 0)));
    }
    let told = story.told();
    assert!(told.is_empty(), "{told:?}");
}

/// A record that was not seen to complete was disabled, unless its end may be what was lost: then its alarm goes on. A loss is
/// noted later.
#[test]
fn what_was_lost_may_be_the_end_of_its_processing() {
    for is_lost in [false, true] {
        let mut story = Story::default();
        story.scanned(SECOND, 0);
        story.scanned(2 * SECOND, 2);
        story.facts.push((3 * SECOND, process(SCAN, -100, 2, CALC)));
        if is_lost {
            let (source, cause) = (LossSource::Hits, "the buffer was full".into());
            let loss = Loss { source, count: 1, since: 2500 * MS, cause };
            story.facts.push((4500 * MS, Fact::Loss(loss)));
        }
        story.scanned(4 * SECOND, 2);
        let rows = story.rows(&["--all"]);
        let changes = rows.iter().filter(|row| row["what"] == "change").count();
        assert_eq!(changes, if is_lost { 1 } else { 2 }, "{rows:?}");
    }
}

/// All records begin with the alarm UDF, and some still have it when they have processed. Then it is an alarm like others.
#[test]
fn an_alarm_that_processing_leaves_as_it_began() {
    let mut story = Story::default();
    let (value, udf) = (Value::Double(0.0), 17);
    let read = Snapshot { record: CALC, value, severity: 3, status: udf, stamp: None };
    story.facts.push((MS, Fact::Snapshot(read)));
    story.scanned(SECOND, 3);
    if let Some((_, Fact::Complete(complete))) = story.facts.last_mut() {
        complete.status = udf;
    }
    let lasts = story.rows(&[]);
    let [row] = &lasts[..] else { panic!("{lasts:?}") };
    assert_eq!((&row["what"], &row["severity"]), (&"still".into(), &"INVALID".into()));
    story.scanned(2 * SECOND, 0);
    let changes = story.rows(&[]);
    let [row] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((&row["from_severity"], &row["severity"]), (&"INVALID".into(), &"NO_ALARM".into()));
}

/// The recorder was started anew while the IOC went on: its records are the same, and nothing lasts that was seen to end.
#[test]
fn another_run_of_the_recorder_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let (mut first, mut second) = (Story::default(), Story::default());
    first.scanned(SECOND, 0);
    first.scanned(2 * SECOND, 3);
    write_events(&here.join("log"), "box1", 7, first.facts);
    let read = Snapshot { record: CALC, value: Value::Double(0.0), severity: 0, status: 0, stamp: Some(1) };
    second.facts.push((20 * SECOND, Fact::Snapshot(read)));
    second.scanned(21 * SECOND, 2);
    write_events(&here.join("log"), "box1", 8, second.facts);
    let rows = told(here, &["--all"]);
    let changes: Vec<(&str, &str, &str)> = rows
        .iter()
        .map(|row| ["what", "from_severity", "severity"].map(|key| row[key].as_str().unwrap_or("?")))
        .map(|[what, from, to]| (what, from, to))
        .collect();
    let expected = [
        ("change", "NO_ALARM", "INVALID"),
        ("change", "INVALID", "NO_ALARM"),
        ("change", "NO_ALARM", "MAJOR"),
        ("still", "?", "MAJOR"),
    ];
    assert_eq!(changes, expected);
}

/// An IOC that executes itself anew keeps its process, and has other records of the same names.
#[test]
fn what_a_process_was_before_it_became_another_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mut story = Story::default();
    story.scanned(SECOND, 0);
    story.scanned(2 * SECOND, 3);
    let how = "its process runs another program".into();
    story.facts.push((3 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how })));
    let log = &mut definitions("box1");
    let ioc = log.iter_mut().find_map(|fact| match fact {
        Fact::Ioc(ioc) => Some(&mut **ioc),
        _ => None,
    });
    let anew = Ioc { id: 9, ..ioc.unwrap().clone() };
    let (id, name, rtype) = (90, "T:CALC".into(), "calc".into());
    story.facts.push((3 * SECOND + 500 * MS, Fact::from(anew)));
    story.facts.push((3 * SECOND + 500 * MS, Fact::from(Record { id, ioc: 9, address: 1, name, rtype })));
    let read = Snapshot { record: id, value: Value::Double(0.0), severity: 0, status: 0, stamp: Some(1) };
    story.facts.push((4 * SECOND, Fact::Snapshot(read)));
    write_events(&here.join("log"), "box1", 7, story.facts);
    let rows = told(here, &["--all"]);
    let [change, still] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&change["severity"], &change["until"]), (&"INVALID".into(), &"ioc_end".into()));
    assert_eq!((&still["what"], &still["severity"]), (&"still".into(), &"INVALID".into()));
}

#[test]
fn changes_are_those_of_the_completions_in_order_of_time() {
    fuzz(60, |random: &mut Random| {
        let mut story = Story::default();
        story.scanned(SECOND, 0);
        let (mut time, mut free) = (SECOND, 0);
        for _ in 0..40 {
            time += MS * (1 + random.below(100) as u64);
            let severity = random.below(4) as u16;
            match random.below(3) {
                // the record is busy until its delay is over
                0 if time > free => {
                    let delay = MS / 2 + MS * random.below(300) as u64;
                    free = time + delay + MS;
                    story.delayed(time, delay, severity);
                }
                _ => story.scanned(time + MS / 4, severity),
            }
        }
        assert_eq!(story.told(), story.changes());
    });
}
