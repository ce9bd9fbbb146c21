//! Where a log begins: of what was before nothing is known, and answers of such a time say so.

mod common;

use common::{complete, definitions, process, put, run, write_later, write_set, CLIENT, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const SP: u32 = 1;
const CALC: u32 = 2;

/// A put each ten seconds, and a scan each second.
fn facts(seconds: u64) -> Vec<(u64, Fact)> {
    let puts = (5..seconds).step_by(10).flat_map(|at| {
        let (time, value) = (at * SECOND, at as f64);
        [
            (time, put(PutKind::PutField, CLIENT, -1000, 1, (SP, 1), 0.0, value)),
            (time + 10, put(PutKind::Put, CLIENT, -1200, 0, (SP, 1), value - 10.0, value)),
            (time + 20, process(CLIENT, -1200, 0, SP)),
            (time + 30, complete(CLIENT, -1300, SP, value, 0)),
        ]
    });
    let scans = (1..seconds).flat_map(|at| {
        let time = at * SECOND + SECOND / 2;
        [(time, process(SCAN, -100, 2, CALC)), (time + 1000, complete(SCAN, -200, CALC, 1.0, 0))]
    });
    let mut facts: Vec<(u64, Fact)> = puts.chain(scans).collect();
    facts.sort_by_key(|(time, _)| *time);
    facts
}

/// What is said on standard error.
fn said(here: &Path, words: &[&str]) -> (String, String) {
    let words: Vec<&str> = words.iter().copied().chain(["--utc"]).collect();
    let (code, out, err) = run(here, &words);
    assert_eq!(code, 0, "{words:?}: {err}");
    (out, err)
}

/// The log begins in 1970 by the clock, which is set right 20 s later.
#[test]
fn a_clock_that_is_set_later_tells_where_the_log_begins() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_set(&here.join("log"), "box1", 7, facts(60), 20 * SECOND);
    let begin = "the log begins at 2026-09-21T14:13:20.000+00:00";
    let (script, err) = said(here, &["undo", "--since", "2026-09-21T14:00:00Z", "log"]);
    assert!(err.contains(&format!("{begin}: what was written before is not undone")), "{err}");
    assert!(script.contains(&format!("({begin})")), "{script}");
    let (_, err) = said(here, &["undo", "--since", "2026-09-21T14:13:21Z", "log"]);
    assert!(!err.contains("begins"), "{err}");
    let (out, err) = said(here, &["last", "demo", "--until", "2026-09-21T14:13:00Z", "log"]);
    assert_eq!(out, "", "{err}");
    assert!(err.contains("nothing was recorded at that time; these logs hold 2026-09-21T14:13:2"), "{err}");
}

/// The clock is an hour ahead for 20 s, then it is set back.
#[test]
fn a_clock_that_is_set_back_does_not_hide_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let ahead = 3600 * SECOND as i64;
    let shown = |time: u64| WALL + time as i64 + if time < 20 * SECOND { ahead } else { 0 };
    let wall = Rc::new(Cell::new(shown(0)));
    let storage = Clocked { storage: Directory::open(&here.join("log")).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(storage, Options::default(), 7).unwrap();
    for fact in definitions("box1") {
        let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: shown(0) }) } else { fact };
        writer.push(Event { time: 0, fact });
    }
    for (time, fact) in facts(60) {
        wall.set(shown(time));
        writer.push(Event { time, fact: Fact::Clock(Clock { wall: shown(time) }) });
        writer.push(Event { time, fact });
        writer.tick(time);
    }
    writer.close(60 * SECOND);
    let (out, err) = said(here, &["last", "demo", "--until", "2026-09-21T14:14:10Z", "log"]);
    assert!(out.contains("T:SP 25 -> 35") && !err.contains("nothing was recorded"), "{out}{err}");
    let (_, err) = said(here, &["undo", "--since", "2026-09-21T14:14:00Z", "log"]);
    assert!(!err.contains("begins"), "{err}");
    let (_, err) = said(here, &["undo", "--since", "2026-09-21T14:00:00Z", "log"]);
    assert!(err.contains("the log begins at 2026-09-21T15:13:20"), "as the clock showed it: {err}");
}

/// Of the second host nothing is known for ten minutes of which the first one's log tells.
#[test]
fn each_host_has_its_own_begin() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (log, host, run, later) in [("one", "box1", 7, 0), ("two", "box2", 8, 600)] {
        write_later(&here.join(log), host, run, later);
    }
    let (script, err) = said(here, &["undo", "--since", "2026-09-21T14:20:00Z", "one", "two"]);
    let begin = "logs begin later: that of box2 at 2026-09-21T14:23:20.000+00:00";
    assert!(err.contains(begin) && script.contains(begin), "{err}");
    let (_, err) = said(here, &["undo", "--since", "2026-09-21T14:20:00Z", "--host", "box1", "one", "two"]);
    assert!(!err.contains("begin"), "{err}");
    let (_, err) = said(here, &["puts", "--since", "2026-09-21", "one", "two"]);
    let begins =
        "that of box1 at 2026-09-21T14:13:20.000+00:00, that of box2 at 2026-09-21T14:23:20.000+00:00";
    assert!(err.contains(begins), "{err}");
}

/// What is shown from a time before the begin on reads as if nothing had happened there.
#[test]
fn answers_from_before_the_log_say_where_it_begins() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_set(&here.join("log"), "box1", 7, facts(60), 0);
    let begin = "the log begins at 2026-09-21T14:13:20.000+00:00: what was before is not known";
    for command in ["puts", "values T:SP", "alarms", "top", "traces", "clients", "net"] {
        let command: Vec<&str> = command.split(' ').collect();
        let since = |since| [&command[..], &["--since", since, "log"]].concat();
        let (_, err) = said(here, &since("2026-09-21T14:00:00Z"));
        assert_eq!(err.matches(begin).count(), 1, "{command:?}: {err}");
        let (_, err) = said(here, &since("2026-09-21T14:13:20Z"));
        assert!(!err.contains("begins"), "{command:?}: {err}");
    }
    let range = ["puts", "--since", "2026-09-21T14:00:00Z", "--until", "2026-09-21T14:01:00Z", "log"];
    let (_, err) = said(here, &range);
    assert!(err.contains("nothing was recorded at that time") && !err.contains("begins"), "{err}");
}

/// An IOC that ran for long before it was recorded for two seconds.
#[test]
fn the_last_minute_is_not_complete_where_the_record_begins_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let from = 3 * SECOND;
    let attached = Attached { ioc: 1, from, since: from, cause: String::new() };
    let mut facts: Vec<(u64, Fact)> = facts(5).into_iter().filter(|(time, _)| *time > from).collect();
    facts.insert(0, (from, Fact::Attached(attached)));
    write_set(&here.join("log"), "box1", 7, facts, 0);
    let (text, _) = said(here, &["last", "demo", "log"]);
    assert!(text.contains("none recorded in this time\n"), "{text}");
    let begins = "before 14:13:23.000: its record begins then; nothing is known to be missing since";
    assert!(text.contains(begins), "{text}");
}
