//! Clocks that were set back while they were recorded: answers follow the order in which things happened, and show the
//! times that the machine showed.

mod common;

use common::{complete, definitions, process, put, run, CLIENT, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const SP: u32 = 1;
const CALC: u32 = 2;
/// By how much the clock is set back, and when.
const BACK: i64 = 60 * SECOND as i64;
const AT: u64 = 100 * SECOND;

/// A scan of T:CALC each 10 s, whose value is the seconds that have passed, and a put of the same to T:SP 1 s later.
/// `runs`: whether the recorder is started anew when the clock is set.
fn record(directory: &Path, runs: bool) {
    record_losing(directory, runs, None);
}

/// The same, with a loss of hits in six seconds that begin at a time.
fn record_losing(directory: &Path, runs: bool, lost: Option<u64>) {
    let shown = |time: u64| WALL + time as i64 - if time < AT { 0 } else { BACK };
    let mut at = 0;
    for (number, until) in if runs { vec![(1, AT), (2, 2 * AT)] } else { vec![(1, 2 * AT)] } {
        let wall = Rc::new(Cell::new(shown(at)));
        let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
        let options = Options { segment: Some(64 << 10), ..Options::default() };
        let mut writer = Writer::open(storage, options, number).unwrap();
        for fact in definitions("box1") {
            let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: shown(at) }) } else { fact };
            writer.push(Event { time: at, fact });
        }
        while at < until {
            wall.set(shown(at));
            writer.push(Event { time: at, fact: Fact::Clock(Clock { wall: shown(at) }) });
            let value = (at / SECOND) as f64;
            let severity = if (AT..AT + 20 * SECOND).contains(&at) { 2 } else { 0 };
            let t = at + SECOND;
            for (time, fact) in [
                (at, process(SCAN, -100, 2, CALC)),
                (at + 1000, complete(SCAN, -200, CALC, value, severity)),
                (t, put(PutKind::PutField, CLIENT, -1000, 1, (SP, 1), 0.0, value)),
                (t + 10, put(PutKind::Put, CLIENT, -1200, 0, (SP, 1), value - 10.0, value)),
                (t + 20, process(CLIENT, -1200, 0, SP)),
                (t + 30, complete(CLIENT, -1300, SP, value, 0)),
            ] {
                writer.push(Event { time, fact });
            }
            if let Some(since) = lost.filter(|lost| (at..at + 10 * SECOND).contains(lost)) {
                let cause = "ring buffer full".to_owned();
                let loss = Loss { source: LossSource::Hits, count: 17, since, cause };
                writer.push(Event { time: since + 6 * SECOND, fact: Fact::Loss(loss) });
            }
            at += 10 * SECOND;
            writer.tick(at - 1);
        }
        writer.close(at - 1);
    }
}

/// What a command prints of the log of one run, and what it says on standard error.
fn one(words: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    record(&directory.path().join("log"), false);
    let words: Vec<&str> = words.iter().copied().chain(["log", "--utc"]).collect();
    let (code, out, err) = run(directory.path(), &words);
    assert_eq!(code, 0, "{words:?}: {err}");
    (out, err)
}

/// What a command prints of both logs, and what it says on standard error.
fn both(words: &[&str]) -> (String, String) {
    let found = [false, true].map(|runs| {
        let directory = tempfile::tempdir().unwrap();
        record(&directory.path().join("log"), runs);
        let words: Vec<&str> = words.iter().copied().chain(["log", "--utc"]).collect();
        let (code, out, err) = run(directory.path(), &words);
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    });
    let [(one, said), (two, _)] = found;
    // between two runs something may have gone unseen
    let two = two.replace("at least ", "");
    assert_eq!(one, two, "{words:?}: as one run and as two");
    (one, said)
}

#[test]
fn lines_come_in_the_order_in_which_things_happened() {
    let seconds = |text: &str, column: usize| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().nth(column).unwrap().to_owned()).collect()
    };
    let expected: Vec<String> = (0..20).map(|n| (10 * n).to_string()).collect();
    let (values, said) = both(&["values", "T:CALC"]);
    assert_eq!(seconds(&values, 2), expected, "{values}");
    assert!(said.contains("the clock of box1 was set back by 60.000 s: some times come twice"), "{said}");
    // 14:13:20 and 100 s is 14:15:00, which the clock showed as 14:14:00
    let line = values.lines().find(|line| line.contains("  100  ")).unwrap();
    assert!(line.starts_with("2026-09-21T14:14:00.000001+00:00"), "{line}");
    let (puts, _) = both(&["puts"]);
    assert_eq!(seconds(&puts, 4), expected, "{puts}");
    let (traces, _) = both(&["traces", "--pv", "T:CALC"]);
    let chains: Vec<&str> = traces.lines().filter_map(|line| line.split("= ").nth(1)).collect();
    let chains: Vec<&str> = chains.iter().map(|rest| rest.split_whitespace().next().unwrap()).collect();
    assert_eq!(chains, expected, "{traces}");
}

/// 14:14:32 came after 72 s and after 132 s. The last change until 14:14:40 came after 130 s: what was lost before is no reason
/// why there may be a later one.
#[test]
fn what_was_lost_before_the_clock_was_set_back_is_not_missing_later() {
    for (lost, is_later) in [(72, false), (132, true)] {
        let directory = tempfile::tempdir().unwrap();
        record_losing(&directory.path().join("log"), false, Some(lost * SECOND));
        let words = ["why", "T:CALC", "--at", "2026-09-21T14:14:40Z", "log", "--utc"];
        let (code, out, err) = run(directory.path(), &words);
        assert!(code == 0 && out.starts_with("T:CALC changed from 120 to 130 at "), "{lost}: {out}{err}");
        assert_eq!(out.contains("There may be later changes"), is_later, "{lost}: {out}");
    }
}

#[test]
fn the_latest_is_what_happened_last() {
    let (why, _) = both(&["why", "T:CALC"]);
    assert!(why.contains("190"), "{why}");
    let (at, _) = both(&["at", "2026-09-21T14:16:00", "--pv", "T:CALC"]);
    assert!(at.contains(" 190 "), "{at}");
    // 14:14:25 came twice: after 65 s and after 125 s
    let (at, _) = both(&["at", "2026-09-21T14:14:25", "--pv", "T:CALC"]);
    assert!(at.contains(" 120 "), "{at}");
    // 14:14:55 came once more: after 95 s and after 155 s
    let (at, _) = both(&["at", "2026-09-21T14:13:55", "--pv", "T:CALC"]);
    assert!(at.contains(" 30 "), "only once, before the clock was set back: {at}");
    let (diff, _) = both(&["diff", "2026-09-21T14:13:55", "2026-09-21T14:14:25", "--pv", "T:CALC"]);
    assert!(diff.contains("30 -> 120") && diff.contains("9 changes"), "{diff}");
}

#[test]
fn alarms_last_as_long_as_they_did() {
    let (alarms, _) = one(&["alarms", "--format", "jsonl"]);
    let first: serde_json::Value = serde_json::from_str(alarms.lines().next().unwrap()).unwrap();
    assert_eq!(first["time"], "2026-09-21T14:14:00.000001000+00:00", "{alarms}");
    assert_eq!(first["lasted_s"], 20.0, "{alarms}");
}

#[test]
fn what_goes_by_the_clock_says_so() {
    let (_, said) = both(&["net"]);
    assert!(
        said.contains("was set back by 60.000 s: what happened before and after that is mixed here"),
        "{said}"
    );
}

#[test]
fn rates_are_not_counted_over_a_time_that_is_not_known() {
    let (top, _) = both(&["top", "--by", "records", "--format", "jsonl"]);
    let first: serde_json::Value = serde_json::from_str(top.lines().next().unwrap()).unwrap();
    // in 200 s, of which the clock showed 140
    assert_eq!(
        (&first["count"], &first["per_second"]),
        (&serde_json::json!(20), &serde_json::Value::Null),
        "{top}"
    );
    let (graph, _) = both(&["graph", "--format", "jsonl"]);
    assert!(graph.contains(r#""count":20,"per_second":null"#), "{graph}");
    for words in [&["last"][..], &["report"]] {
        let (_, said) = one(words);
        assert!(said.contains("is mixed here"), "{words:?}: {said}");
    }
}

/// The clock is set forward by an hour after 100 s: a record that processes each 10 s has that rate, in 200 s, and an alarm that
/// was over 100 s after it began lasted so long. Values are as old as they are.
#[test]
fn what_the_clock_skipped_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let shown = |time: u64| WALL + time as i64 + if time < AT { 0 } else { 3600 * SECOND as i64 };
    let wall = Rc::new(Cell::new(shown(0)));
    let storage = Clocked { storage: Directory::open(directory.path()).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(storage, Options::default(), 7).unwrap();
    for fact in definitions("box1") {
        let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: shown(0) }) } else { fact };
        writer.push(Event { time: 0, fact });
    }
    for at in (0..20).map(|number| number * 10 * SECOND) {
        wall.set(shown(at));
        let clock = Fact::Clock(Clock { wall: shown(at) });
        let severity = if (50 * SECOND..150 * SECOND).contains(&at) { 2 } else { 0 };
        let value = if at < 50 * SECOND { 1.0 } else { 2.0 };
        let scanned = [process(SCAN, -100, 2, CALC), complete(SCAN, -200, CALC, value, severity)];
        for (number, fact) in (0..).zip([clock].into_iter().chain(scanned)) {
            writer.push(Event { time: at + number * 1000, fact });
        }
        writer.tick(at + 9 * SECOND);
    }
    writer.close(199 * SECOND);
    let words = ["top", ".", "--by", "records", "--format", "jsonl"];
    let (_, top, err) = run(directory.path(), &words);
    let first: serde_json::Value = serde_json::from_str(top.lines().next().expect(&err)).unwrap();
    let rate = first["per_second"].as_f64().unwrap();
    assert!(first["count"] == 20 && (0.095..0.115).contains(&rate), "{top}");
    let (_, alarms, err) = run(directory.path(), &["alarms", ".", "--format", "jsonl"]);
    let mut alarms = alarms.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let major = alarms.find(|line| line["severity"] == "MAJOR").expect(&err);
    assert_eq!(major["lasted_s"].as_f64().unwrap().round(), 100.0, "{major}");
    let until = "2026-09-21T15:15:20Z";
    let (_, at, err) = run(directory.path(), &["at", until, ".", "--pv", "T:CALC", "--format", "jsonl"]);
    let at: serde_json::Value = serde_json::from_str(at.lines().next().expect(&err)).unwrap();
    assert!((69.0..72.0).contains(&at["age"].as_f64().unwrap()), "{at}");
    // the last minute by the clock, of which twenty seconds have passed
    let (_, last, err) = run(directory.path(), &["last", "demo", ".", "--json", "--utc", "--until", until]);
    let last: serde_json::Value = serde_json::from_str(&last).expect(&err);
    let causes: Vec<&serde_json::Value> =
        last["not_seen"].as_array().unwrap().iter().map(|seen| &seen["cause"]).collect();
    assert_eq!(causes, ["none of this time has passed: the clock was set forward"], "{last}");
}

#[test]
fn puts_for_tools_come_in_order_and_as_far_apart_as_they_were() {
    let (log, _) = one(&["puts", "--format", "caputlog"]);
    let values: Vec<&str> = log.lines().filter_map(|line| line.split(" new=").nth(1)).collect();
    let values: Vec<&str> = values.iter().filter_map(|rest| rest.split_whitespace().next()).collect();
    let expected: Vec<String> = (0..20).map(|n| (10 * n).to_string()).collect();
    assert_eq!(values, expected, "{log}");
    let (script, _) = one(&["puts", "--format", "caput", "--timing"]);
    let pauses: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("pause ")).collect();
    assert_eq!(pauses, ["10.000"; 19], "{script}");
}
