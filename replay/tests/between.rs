//! A recorder is killed and another one begins later: tables, `logs` and `follow` say that the time between was not recorded,
//! and the textfile of `follow` knows how new the newest event is.

mod common;

use common::{
    complete, definitions, iocreplay, outcome, process, write_events, write_events_later, write_later,
    SECOND, WALL,
};
use iocrec_log::event::{
    Attached, Clock, Event, Fact, Ioc, IocEnd, Loss, LossSource, Record, Snapshot, Thread, Value,
};
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use serde_json::Value as Json;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

fn lines(words: &[&str]) -> Vec<Json> {
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!(code, 0, "{words:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of the table of losses that are about times between runs: their hosts, kinds, seconds since the first run.
fn rows(place: &Path, logs: &[&str], options: &[&str]) -> Vec<(String, String, f64, f64)> {
    let to = place.join(format!("tables{}", options.len()));
    let words = [&["export", "--ndjson", to.to_str().unwrap(), "--table", "losses"], logs, options].concat();
    let (code, _, err) = outcome(iocreplay(&words).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let mut found = Vec::new();
    let mut left = vec![to];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "ndjson") {
            for line in std::fs::read_to_string(path).unwrap().lines() {
                let row: Json = serde_json::from_str(line).unwrap();
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                let seconds = |key: &str| (row[key].as_i64().unwrap() - WALL) as f64 / 1e9;
                if row["kind"] != "lost" {
                    assert_eq!(
                        (&row["ioc"], &row["cause"]),
                        (&Json::Null, &Json::from("no recorder's run is in the logs")),
                        "{row}"
                    );
                    found.push((text("host"), text("kind"), seconds("since_ns"), seconds("time_ns")));
                }
            }
        }
    }
    found.sort_by(|one, other| one.partial_cmp(other).unwrap());
    found
}

#[test]
fn the_time_between_two_recorders_is_told_by_all_and_only_once() {
    let place = tempfile::tempdir().unwrap();
    let [box1, beside, box2] = ["box1", "beside", "box2"].map(|name| place.path().join(name));
    // box1: 0 to 4 s, 10 to 14 s, 12 to 16 s from another directory, 16.0 s is covered, 20 to 24 s
    write_later(&box1, "box1", 1, 0);
    write_later(&box1, "box1", 2, 10);
    write_later(&beside, "box1", 3, 12);
    write_later(&box1, "box1", 4, 20);
    // another host was recorded meanwhile, which covers nothing of the first
    write_later(&box2, "box2", 5, 5);
    let logs = [&box1, &beside, &box2].map(|path| path.to_str().unwrap());
    let expected = [
        ("box1".to_owned(), "unrecorded".to_owned(), 4.0, 10.0),
        ("box1".to_owned(), "unrecorded".to_owned(), 16.0, 20.0),
    ];
    assert_eq!(rows(place.path(), &logs, &[]), expected);
    // that which ends in the time asked for
    assert_eq!(rows(place.path(), &logs, &["--since", "2026-09-21T14:13:35Z"]), expected[1..]);
    assert!(rows(place.path(), &logs, &["--until", "2026-09-21T14:13:22Z", "--host", "*"]).is_empty());

    let words = ["logs", "--utc", "--kind", "losses"];
    let (code, out, _) = outcome(iocreplay([words.as_slice(), &logs].concat()).output().unwrap());
    assert_eq!(code, 0);
    let told: Vec<&str> =
        out.lines().filter(|line| line.contains("no recorder's run is in the logs")).collect();
    let sentence = |time: &str, seconds: &str| {
        format!("{time}+00:00  loss     box1          nothing was recorded for {seconds} s: no recorder's run is in the logs")
    };
    let both =
        [sentence("2026-09-21T14:13:30.000000", "6.000"), sentence("2026-09-21T14:13:40.000000", "4.000")];
    assert_eq!(told, both, "{out}");
    let times: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(times.is_sorted(), "{out}");

    let followed = lines(&["follow", "--once", "--utc", "--what", "losses", "--format", "jsonl", logs[0]]);
    let told: Vec<&Json> = followed.iter().filter(|line| line["what"] == "unrecorded").collect();
    // without the recorder beside them
    let texts: Vec<&str> = told.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "nothing was recorded for 6.000 s: no recorder's run is in the logs",
            "nothing was recorded for 6.000 s: no recorder's run is in the logs"
        ],
        "{followed:?}"
    );
}

/// Writes a run of a second that begins at a monotonic time, while the clock is ahead of [`WALL`] by so much more.
fn write_ahead(log: &Path, run: u128, from: u64, ahead: i64) {
    let wall = Rc::new(Cell::new(WALL + ahead + from as i64));
    let clocked = Clocked { storage: Directory::open(log).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, Options::default(), run).unwrap();
    let clock = |fact| if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: wall.get() }) } else { fact };
    for fact in definitions("box1").into_iter().map(clock).chain([Fact::Mark("begins".into())]) {
        writer.push(Event { time: from, fact });
    }
    writer.tick(from);
    writer.push(Event { time: from + SECOND, fact: Fact::Mark("ends".into()) });
    wall.set(wall.get() + SECOND as i64);
    writer.close(from + SECOND);
}

/// Between two runs the clock is set forward by an hour: nothing is recorded for three seconds, not for an hour.
#[test]
fn the_clock_is_set_between_two_recorders() {
    let place = tempfile::tempdir().unwrap();
    write_ahead(place.path(), 1, 10 * SECOND, 0);
    write_ahead(place.path(), 2, 14 * SECOND, 3600 * SECOND as i64);
    let words = ["logs", "--utc", "--kind", "losses", place.path().to_str().unwrap()];
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("nothing was recorded for 3.000 s: no recorder's run"), "{out}");
}

/// It is set back by an hour: the second run seems to be the first, and an hour to be missing before the other.
#[test]
fn the_clock_is_set_back_between_two_recorders() {
    let place = tempfile::tempdir().unwrap();
    write_ahead(place.path(), 1, 10 * SECOND, 3600 * SECOND as i64);
    write_ahead(place.path(), 2, 100 * SECOND, 0);
    let words = ["logs", "--utc", "--kind", "losses", place.path().to_str().unwrap()];
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("nothing was recorded for ").count(), 1, "{out}");
    assert!(out.contains("nothing was recorded for 89.000 s: no recorder's run"), "{out}");
}

/// The same soon after the first run: their order is that of the clock that nobody sets.
#[test]
fn the_clock_is_set_back_between_two_recorders_that_follow_soon() {
    let place = tempfile::tempdir().unwrap();
    write_ahead(place.path(), 1, 10 * SECOND, 3600 * SECOND as i64);
    write_ahead(place.path(), 2, 40 * SECOND, 0);
    let words = ["logs", "--utc", "--kind", "losses", place.path().to_str().unwrap()];
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("nothing was recorded for ").count(), 1, "{out}");
    assert!(out.contains("nothing was recorded for 29.000 s: no recorder's run"), "{out}");
}

/// What follows the metric's name in the textfile of `follow`.
fn metric(file: &Path, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?.to_owned();
    line.split_whitespace().next_back()?.parse().ok()
}

#[test]
fn the_textfile_tells_the_newest_event_while_a_log_grows() {
    let place = tempfile::tempdir().unwrap();
    let (log, file) = (place.path().join("log"), place.path().join("file.prom"));
    write_later(&log, "box1", 1, 0);
    let words = ["follow", "--what", "deaths", "--interval", "1", "--textfile"];
    let mut command = iocreplay(words);
    let mut follower = command.arg(&file).arg(&log).stdout(std::process::Stdio::null()).spawn().unwrap();
    let newest = || metric(&file, "iocrec_follow_newest_event_timestamp_seconds{");
    let mut told = Vec::new();
    for (run, later) in [(2, 10), (3, 20), (4, 30)] {
        let expected = (WALL / 1_000_000_000 + later - 10 + 4) as f64;
        let begun = std::time::Instant::now();
        while newest() != Some(expected) && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        told.push((newest(), Some(expected)));
        // not at the moment at which the file was written
        std::thread::sleep(std::time::Duration::from_millis(300));
        write_later(&log, "box1", run, later);
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(told.iter().all(|(newest, expected)| newest == expected), "{told:?}");
}

#[test]
fn clocks_that_change_as_logs_grow_are_refused() {
    let place = tempfile::tempdir().unwrap();
    write_later(place.path(), "box1", 1, 0);
    let log = place.path().to_str().unwrap();
    let (code, out, err) =
        outcome(iocreplay(["follow", "--once", "--clock-offset", "auto", log]).output().unwrap());
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("changes as the logs grow"), "{err}");
}

/// A segment that was cut is said once, however often an answer reads it, and nothing more than what is damaged.
#[test]
fn a_cut_segment_is_said_once() {
    let place = tempfile::tempdir().unwrap();
    write_later(place.path(), "box1", 1, 0);
    let segment = common::segments(place.path()).remove(0);
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let log = place.path().to_str().unwrap();
    for words in [["logs", log].as_slice(), &["metrics", log], &["follow", "--once", log], &["puts", log]] {
        let (code, _, err) = outcome(iocreplay(words).output().unwrap());
        assert_eq!((code, err.lines().count(), err.contains("is cut")), (1, 1, true), "{words:?}: {err}");
    }
}

/// The IOC went on after its first recorder, and ended before the eyes of the second.
#[test]
fn an_ioc_that_outlived_its_recorder_was_not_recorded_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| place.path().join(name));
    let attached = |since| Fact::Attached(Attached { ioc: 1, from: since, since, cause: String::new() });
    let end = Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() });
    write_events(&first, "box", 1, vec![(SECOND, attached(SECOND)), (3 * SECOND, process(3, -100, 2, 2))]);
    write_events(&second, "box", 2, vec![(9 * SECOND, attached(9 * SECOND)), (11 * SECOND, end)]);
    let logs = [&first, &second].map(|path| path.to_str().unwrap());
    let (code, out, err) =
        outcome(iocreplay([&["iocs", "--utc", "--ioc", "demo"][..], &logs].concat()).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let told: Vec<&str> = out.lines().filter(|line| line.contains("attached")).map(str::trim).collect();
    let expected = [
        "attached   2026-09-21T14:13:21.000+00:00 to the end of the recorder's run",
        "attached   2026-09-21T14:13:29.000+00:00 to 2026-09-21T14:13:31.000+00:00",
    ];
    assert_eq!(told, expected, "{out}");
}

/// The second recorder came to the IOC three seconds after its run had begun: of these the reason is another.
#[test]
fn a_recorder_that_has_not_attached_yet_is_in_the_logs() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| place.path().join(name));
    let attached = |since| Fact::Attached(Attached { ioc: 1, from: since, since, cause: String::new() });
    let before = vec![(SECOND, attached(SECOND)), (3 * SECOND, process(3, -100, 2, 2))];
    let waits = [1, 2].map(|second| (second * SECOND, Fact::Mark("waits".into())));
    let after = [(5 * SECOND, attached(5 * SECOND)), (6 * SECOND, process(3, -100, 2, 2))];
    write_events(&first, "box", 1, before);
    write_events_later(&second, "box", 2, 9, waits.into_iter().chain(after), 7 * SECOND);
    let words = ["last", "--ioc", "demo", "--utc", "--json"];
    let (code, out, err) = outcome(iocreplay(words).args([&first, &second]).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let told: Json = serde_json::from_str(&out).unwrap();
    let unseen: Vec<(&Json, &Json)> =
        told["not_seen"].as_array().unwrap().iter().map(|seen| (&seen["to"], &seen["cause"])).collect();
    let [(begun, log), (to, yet)] = unseen[..] else { panic!("{unseen:?}") };
    assert_eq!(log, "not recorded: no recorder's run is in the logs");
    assert_eq!(yet, "not recorded: the next recorder had not attached to it yet");
    assert_eq!(to, "2026-09-21T14:13:34.000000000+00:00");
    assert!(begun.as_str().unwrap() < "2026-09-21T14:13:32", "{begun}");
}

/// The second recorder ran beside the first, and had not come to the IOC when the first one ended: its run is in the logs.
#[test]
fn a_recorder_that_ran_beside_the_first_is_in_the_logs() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| place.path().join(name));
    let attached = |since| Fact::Attached(Attached { ioc: 1, from: since, since, cause: String::new() });
    write_events(&first, "box", 1, vec![(SECOND, attached(SECOND)), (3 * SECOND, process(3, -100, 2, 2))]);
    let after = [(8 * SECOND, attached(8 * SECOND)), (10 * SECOND, process(3, -100, 2, 2))];
    write_events_later(&second, "box", 2, 1, after, 11 * SECOND);
    let words = ["last", "--ioc", "demo", "--utc", "--json"];
    let (code, out, err) = outcome(iocreplay(words).args([&first, &second]).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let told: Json = serde_json::from_str(&out).unwrap();
    let unseen: Vec<(&Json, &Json)> =
        told["not_seen"].as_array().unwrap().iter().map(|seen| (&seen["to"], &seen["cause"])).collect();
    let [(to, yet)] = unseen[..] else { panic!("{unseen:?}") };
    assert_eq!(yet, "not recorded: the next recorder had not attached to it yet");
    assert_eq!(to, "2026-09-21T14:13:29.000000000+00:00");
}

/// The alarm is the same before and after a time without a recorder. It may have been over in between.
#[test]
fn an_alarm_may_have_been_over_while_no_recorder_ran() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = &["first", "second"].map(|name| place.path().join(name));
    let [first, second]: [&Path; 2] = [first, second];
    let scanned = |time: u64, severity: u16| {
        [(time, process(3, -100, 2, 2)), (time + 1000, complete(3, -200, 2, 5.0, severity))]
    };
    write_events(first, "box", 1, [scanned(2 * SECOND, 0), scanned(3 * SECOND, 2)].concat());
    let attached = Fact::Attached(Attached { ioc: 1, from: SECOND, since: SECOND, cause: String::new() });
    let read = Snapshot { record: 2, value: Value::Double(5.0), severity: 2, status: 0, stamp: Some(WALL) };
    let after = vec![(SECOND, attached), (2 * SECOND, Fact::Snapshot(read))];
    write_events_later(second, "box", 2, 9, after, 4 * SECOND);
    let told = |logs: &[&Path]| {
        let mut words = vec!["alarms", "--format", "jsonl"];
        words.extend(logs.iter().map(|log| log.to_str().unwrap()));
        lines(&words).into_iter().filter(|line| line["severity"] == "MAJOR").collect::<Vec<_>>()
    };
    for line in told(&[first]) {
        assert!(line["unseen"].is_null(), "{line}");
    }
    let both = told(&[first, second]);
    assert_eq!(both.len(), 2, "the change, and that it lasts: {both:?}");
    for line in both {
        assert_eq!(line["unseen"], "not recorded: no recorder's run is in the logs", "{line}");
    }
    let logs = [first, second].map(|log| log.to_str().unwrap());
    let (_, text, _) = outcome(iocreplay([&["alarms"][..], &logs].concat()).output().unwrap());
    assert_eq!(text.matches("; perhaps not all of the time (not recorded").count(), 2, "{text}");
}

/// So it may have been where hits were lost meanwhile.
#[test]
fn an_alarm_may_have_been_over_while_hits_were_lost() {
    let place = tempfile::tempdir().unwrap();
    let scanned = |time: u64, severity: u16| {
        [(time, process(3, -100, 2, 2)), (time + 1000, complete(3, -200, 2, 5.0, severity))]
    };
    let lost = |time: u64| {
        let cause = "ring buffer full".to_owned();
        (time, Fact::Loss(Loss { source: LossSource::Hits, count: 17, since: time - SECOND, cause }))
    };
    let mut events = [scanned(2 * SECOND, 0), scanned(3 * SECOND, 2)].concat();
    events.push(lost(6 * SECOND));
    events.extend([scanned(8 * SECOND, 2), scanned(9 * SECOND, 0), scanned(20 * SECOND, 2)].concat());
    events.extend([scanned(22 * SECOND, 2), scanned(23 * SECOND, 0)].concat());
    write_events(place.path(), "box", 1, events);
    let words = ["alarms", "--format", "jsonl", place.path().to_str().unwrap()];
    let major: Vec<Json> = lines(&words).into_iter().filter(|line| line["severity"] == "MAJOR").collect();
    let [first, second] = &major[..] else { panic!("{major:?}") };
    assert!(first["until"] == "left" && second["until"] == "left", "{major:?}");
    assert!(first["unseen"].as_str().unwrap().contains("17 hits"), "{first}");
    assert!(second["unseen"].is_null(), "{second}");
}

/// Another recorder comes while the first goes on: what the first had lost before, it did not see either.
#[test]
fn an_alarm_may_have_been_over_before_another_recorder_came() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = &["first", "second"].map(|name| place.path().join(name));
    let scanned = |time: u64, severity: u16| {
        [(time, process(3, -100, 2, 2)), (time + 1000, complete(3, -200, 2, 5.0, severity))]
    };
    let lost = |since: u64| {
        let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
        (since + SECOND, Fact::Loss(Loss { source, count: 17, since, cause }))
    };
    let read = Snapshot { record: 2, value: Value::Double(5.0), severity: 2, status: 0, stamp: Some(WALL) };
    let (from, cause) = (10 * SECOND, String::new());
    let attached = Fact::Attached(Attached { ioc: 1, from, since: from, cause });
    let ticks = |since: u64| (since..=30).map(|second| (second * SECOND, Fact::Mark("tick".into())));
    for (lost_at, is_told) in [(5, true), (15, false)] {
        let mut before = [scanned(2 * SECOND, 0), scanned(3 * SECOND, 2)].concat();
        before.push(lost(lost_at * SECOND));
        before.extend(ticks(20));
        write_events(first, "box", 1, before);
        let mut after = vec![(from, attached.clone()), (11 * SECOND, Fact::Snapshot(read.clone()))];
        after.extend(ticks(12));
        write_events(second, "box", 2, after);
        let logs = [first, second].map(|log| log.to_str().unwrap());
        let major = lines(&[&["alarms", "--format", "jsonl"][..], &logs].concat()).into_iter();
        let major: Vec<Json> = major.filter(|line| line["severity"] == "MAJOR").collect();
        let told: Vec<bool> = major.iter().map(|line| !line["unseen"].is_null()).collect();
        assert!(!told.is_empty() && told.iter().all(|told| *told == is_told), "{lost_at}: {major:?}");
        for log in [first, second] {
            std::fs::remove_dir_all(log).unwrap();
        }
    }
}

/// Its IOC was started anew while no recorder ran: what it had before is gone, though nobody saw an end.
#[test]
fn why_knows_that_an_ioc_was_started_anew_unseen() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = &["first", "second"].map(|name| place.path().join(name));
    let [first, second]: [&Path; 2] = [first, second];
    let done = |time: u64, value: f64| {
        [(time, process(3, -100, 2, 2)), (time + 1000, complete(3, -200, 2, value, 0))]
    };
    let before: Vec<_> = done(2 * SECOND, 1.0).into_iter().chain(done(3 * SECOND, 2.0)).collect();
    let demo = definitions("box").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let anew = Ioc { pid: 555, start: 12 * SECOND, ..*demo };
    let read = Snapshot { record: 2, value: Value::Double(2.0), severity: 0, status: 0, stamp: None };
    let after = vec![(0, Fact::from(anew)), (SECOND, Fact::Snapshot(read))];
    write_events(first, "box", 1, before);
    write_events_later(second, "box", 2, 9, after, 4 * SECOND);
    let why = |logs: &[&Path]| {
        let (code, out, err) = outcome(iocreplay(["why", "--utc", "T:CALC"]).args(logs).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with("T:CALC changed from 1 to 2 at 2026-09-21T14:13:23"), "{out}");
        out
    };
    let both = why(&[first, second]);
    assert!(both.contains("\nIts IOC had ended by 2026-09-21T14:13:30"), "{both}");
    assert!(both.contains(", which was not seen: ") && !both.contains("It had another value"), "{both}");
    assert!(!why(&[first]).contains("had ended"));
}

/// A later recorder that does not know an IOC: neither the IOC nor its alarm lasts to the end of the logs.
#[test]
fn an_ioc_that_a_later_run_does_not_know_does_not_last() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = &["first", "second"].map(|name| place.path().join(name));
    let [first, second]: [&Path; 2] = [first, second];
    let demo = definitions("box").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let (name, rtype) = ("G:X".into(), "calc".into());
    let thread = Thread { id: 9, ioc: 9, tid: 909, name: "scan-0.1".into(), stack: 1 << 40 };
    let events = vec![
        (0, Fact::from(Ioc { id: 9, pid: 900, name: "gone".into(), ca_ports: vec![5099], ..*demo })),
        (0, Fact::from(Record { id: 9, ioc: 9, address: 4096, name, rtype })),
        (0, Fact::Thread(thread)),
        (SECOND, process(9, -100, 0, 9)),
        (SECOND + 1000, complete(9, -200, 9, 1.0, 0)),
        (2 * SECOND, process(9, -100, 0, 9)),
        (2 * SECOND + 1000, complete(9, -200, 9, 2.0, 2)),
    ];
    write_events(first, "box", 1, events);
    write_later(second, "box", 2, 100);
    let ask = |words: &[&str], logs: &[&Path]| {
        let (code, out, err) = outcome(iocreplay(words).arg("--utc").args(logs).output().unwrap());
        assert_eq!(code, 0, "{words:?}: {err}");
        out
    };
    let [last, alarms] = [&["last", "--ioc", "gone"][..], &["alarms", "--pv", "G:X"]];
    let told = ask(last, &[first]);
    assert!(told.contains("still ran when the log ends, at 2026-09-21T14:13:22"), "{told}");
    let told = ask(last, &[first, second]);
    assert!(told.contains("still ran when its recorder's run ended, at 2026-09-21T14:13:22"), "{told}");
    // of two recorders that run still the last events are seconds apart
    let beside = &place.path().join("beside");
    write_later(beside, "box", 3, 0);
    let told = ask(last, &[first, beside]);
    assert!(told.contains("still ran when the log ends, at 2026-09-21T14:13:22"), "{told}");
    let told = ask(alarms, &[first]);
    assert!(told.contains("is still MAJOR"), "{told}");
    let told = ask(alarms, &[first, second]);
    assert!(!told.contains("is still") && told.contains("the run of its recorder has ended"), "{told}");
}

/// It changed while no recorder ran: neither is the last change that was seen the last one, nor did nothing change since.
#[test]
fn why_does_not_pass_over_what_nobody_recorded() {
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| place.path().join(name));
    let attached = |since| Fact::Attached(Attached { ioc: 1, from: since, since, cause: String::new() });
    let done = |time: u64, value: f64| {
        [(time, process(3, -100, 2, 2)), (time + 1000, complete(3, -200, 2, value, 0))]
    };
    let read = Snapshot { record: 2, value: Value::Double(50.0), severity: 0, status: 0, stamp: None };
    let mut before = vec![(SECOND, attached(SECOND))];
    before.extend(done(2 * SECOND, 1.0).into_iter().chain(done(3 * SECOND, 2.0)));
    let mut after = vec![(0, attached(0)), (SECOND, Fact::Snapshot(read))];
    after.extend(done(2 * SECOND, 50.0));
    write_events(&first, "box", 1, before);
    write_events_later(&second, "box", 2, 9, after, 4 * SECOND);
    let logs = [&first, &second].map(|path| path.to_str().unwrap());
    let (code, out, err) =
        outcome(iocreplay([&["why", "--utc", "T:CALC"][..], &logs].concat()).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("It had another value, 50, when it was read at 2026-09-21T14:13:30"), "{out}");
    assert!(!out.contains("without a change"), "{out}");
    assert!(out.contains("no recorder's run is in the logs"), "{out}");
}
