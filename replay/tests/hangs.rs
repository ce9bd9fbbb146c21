//! Threads that stand still, late scans and queues that fill: how long they lasted, and what is to blame, where a recorder
//! ends, a bound is given, or a record is asynchronous.

mod common;

use common::{
    ca_put, complete, happenings, iocreplay, outcome, process, segments, write_events, write_events_later,
    CLIENT, MS, SCAN, SECOND, WALL,
};
use iocrec_log::event::*;
use iocrec_log::reader::Segment;
use serde_json::Value as Json;
use std::path::Path;

fn lines(log: &Path, options: &[&str]) -> Vec<Json> {
    let words = [&["stuck", "--utc", "--format", "jsonl", log.to_str().unwrap()], options].concat();
    let (code, out, err) = outcome(iocreplay(&words).output().unwrap());
    assert_eq!(code, 0, "{words:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A scan thread sleeps in T:SP since some time after 2 s, as the recorder saw at 5 s.
fn sleeps() -> Fact {
    Fact::from(Stuck {
        id: 7,
        ioc: 1,
        tid: 1003,
        thread: "scan-0.1".into(),
        after: 2 * SECOND,
        since: 3 * SECOND,
        wait: Wait::Sleep,
        object: String::new(),
        call: None,
        record: Some(1),
        is_lockset: false,
        holder: None,
    })
}

fn fills(queue: Queue, ioc: u32, since: u64, last: u64, is_over: bool) -> Fact {
    Fact::from(QueueFill {
        ioc,
        queue,
        since,
        last,
        is_over,
        size: 2000,
        used: 1500,
        most: 1600,
        overflows: 0,
        thread: String::new(),
        record: None,
    })
}

/// What lasts when a recorder ends is no longer told of the time of the next one, days later.
#[test]
fn a_hang_that_a_recorder_leaves_behind() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let filled = (4 * SECOND, fills(Queue::Low, 1, 2 * SECOND, 4 * SECOND, false));
    write_events_later(&log, "box1", 1, 0, [filled, (5 * SECOND, sleeps())], 8 * SECOND);
    let rows = lines(&log, &[]);
    let [queue, hang] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&hang["ended"], &hang["seconds_max"]), (&Json::from("open"), &Json::Null), "{hang}");
    assert!(hang["text"].as_str().unwrap().ends_with("it still does at the end of the log"), "{hang}");
    assert!(queue["text"].as_str().unwrap().contains(" fills: "), "{queue}");

    // three days later, T:SP is put to as ever
    let days = 3 * 24 * 3600;
    write_events_later(&log, "box1", 2, days, happenings(), 4 * SECOND);
    let rows = lines(&log, &[]);
    let [queue, hang] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&hang["ended"], &hang["end"]), (&Json::from("recorder_ended"), &Json::Null), "{hang}");
    let least = hang["seconds_min"].as_f64().unwrap();
    assert!((2.0..=5.0).contains(&least) && hang["seconds_max"].is_null(), "{hang}");
    let text = hang["text"].as_str().unwrap();
    assert!(text.starts_with("scan-0.1 slept at least ") && !text.contains("still"), "{text}");
    let text = queue["text"].as_str().unwrap();
    assert!(text.contains("was filled for at least 1 s") && queue["end"].is_null(), "{text}");
    assert!(lines(&log, &["--since", "2026-09-24T00:00:00Z"]).is_empty(), "nobody saw it then");
    assert_eq!(lines(&log, &["--since", "2026-09-21T14:13:24Z"]).len(), 2, "the recorder still ran");
    let asked = ["why", "--utc", "T:SP", log.to_str().unwrap()];
    let (code, out, _) = outcome(iocreplay(asked).output().unwrap());
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("2026-09-24T14:13:2") && !out.contains("Stuck"), "{out}");
}

/// A recorder beside it, which began earlier, goes on for minutes: that tells of later times, too.
#[test]
fn a_hang_of_one_recorder_of_two() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    write_events_later(&one, "box1", 1, 10, [(5 * SECOND, sleeps())], 8 * SECOND);
    let told = |last: u64| {
        let _ = std::fs::remove_dir_all(&other);
        write_events_later(&other, "box1", 2, 0, [(last, Fact::Mark("end".into()))], last);
        let rows = lines(directory.path(), &[]);
        let [hang] = &rows[..] else { panic!("{rows:?}") };
        hang["ended"].clone()
    };
    assert_eq!(told(20 * SECOND), "open", "both run still");
    assert_eq!(told(300 * SECOND), "recorder_ended");
}

/// What hung, and then ran once more, ends with its IOC before the recorder looks again. Of a process any thread shows that,
/// of a thread only its own hits.
#[test]
fn a_hang_that_was_over_before_its_ioc_ended() {
    let directory = tempfile::tempdir().unwrap();
    let hits = |thread| [process(thread, -100, 2, 2), complete(thread, -200, 2, 20.0, 0)];
    for (name, wait, thread, is_over) in [
        ("process", Wait::Stopped, Some(CLIENT), true),
        ("silent", Wait::Stopped, None, false),
        ("thread", Wait::Sleep, Some(SCAN), true),
        ("other", Wait::Sleep, Some(CLIENT), false),
    ] {
        let Fact::Stuck(mut stuck) = sleeps() else { panic!("a hang") };
        stuck.wait = wait;
        if wait == Wait::Stopped {
            (stuck.thread, stuck.record) = (String::new(), None);
        }
        let mut events = vec![(5 * SECOND, Fact::Stuck(stuck))];
        events.extend(thread.into_iter().flat_map(hits).map(|hit| (5400 * MS, hit)));
        let end = IocEnd { ioc: 1, how: "killed by SIGSEGV".into() };
        events.push((5900 * MS, Fact::IocEnd(end)));
        let log = directory.path().join(name);
        write_events(&log, "box1", 7, events);
        let rows = lines(&log, &[]);
        let [hang] = &rows[..] else { panic!("{name}: {rows:?}") };
        let text = hang["text"].as_str().unwrap();
        assert_eq!(text.ends_with(", until the IOC ended, as far as was seen"), !is_over, "{name}: {text}");
        let ended = if is_over { "runs" } else { "ioc_ended" };
        assert_eq!(hang["ended"], ended, "{name}: {hang}");
        let span = [&hang["seconds_min"], &hang["seconds_max"]].map(|bound| bound.as_f64().unwrap());
        if !is_over {
            // it stood still at the look at 5 s, and may have run after it, unseen
            assert!((span[0] - 2.0).abs() < 0.01 && (span[1] - 3.9).abs() < 0.01, "{name}: {hang}");
        }
        if is_over {
            assert!((span[0] - 2.0).abs() < 0.01 && (span[1] - 3.4).abs() < 0.01, "{name}: {hang}");
            assert!(hang["end"].as_str().unwrap().contains("14:13:25.4"), "{name}: {hang}");
        }
    }
}

/// The log of another host that begins later says nothing of the first.
#[test]
fn a_hang_at_the_end_of_one_host_of_two() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    write_events_later(&one, "box1", 1, 0, [(5 * SECOND, sleeps())], 8 * SECOND);
    write_events_later(&other, "box2", 2, 100, happenings(), 4 * SECOND);
    let rows = lines(directory.path(), &[]);
    let [hang] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(hang["ended"], "open", "{hang}");
}

/// Puts, one each millisecond, which fill some segments.
fn noise(since: u64) -> impl Iterator<Item = (u64, Fact)> {
    let mut state = since | 1;
    (0..20_000_u64).map(move |number| {
        // what can't be compressed fills segments
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (since + number * MS, ca_put(1, 1, false, 1, f64::from_bits(state >> 2)))
    })
}

/// A hang that ended minutes after the bound is told with that end; a queue's filling, too.
#[test]
fn a_hang_that_ended_behind_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let end = StuckEnd { id: 7, ioc: 1, after: 229 * SECOND, has_ended: false };
    let mut events: Vec<(u64, Fact)> = noise(SECOND).chain(noise(210 * SECOND)).collect();
    events.extend(noise(400 * SECOND));
    events.extend([
        (5 * SECOND, sleeps()),
        (5 * SECOND, fills(Queue::High, 2, 4 * SECOND, 5 * SECOND, false)),
        (230 * SECOND, Fact::StuckEnd(end)),
        (410 * SECOND, fills(Queue::High, 2, 4 * SECOND, 399 * SECOND, true)),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let all = lines(&log, &[]);
    let [hang, queue] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&hang["ended"], &hang["seconds_min"]), (&Json::from("runs"), &Json::from(226.0)), "{hang}");
    assert_eq!(queue["seconds_max"], 395.0, "{queue}");
    assert_eq!(lines(&log, &["--until", "2026-09-21T14:13:50Z"]), all);
    assert!(lines(&log, &["--until", "2026-09-21T14:13:21Z"]).is_empty(), "before both");
}

/// Of a log only the pinned segments are left where a queue filled: nobody knows how long that lasted.
#[test]
fn a_queue_whose_end_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let write = |more: Vec<(u64, Fact)>| {
        let _ = std::fs::remove_dir_all(&log);
        let mut events: Vec<(u64, Fact)> = noise(SECOND).chain(noise(210 * SECOND)).collect();
        events.extend(noise(400 * SECOND));
        events.push((5 * SECOND, fills(Queue::High, 1, 2 * SECOND, 5 * SECOND, false)));
        events.push((212 * SECOND, fills(Queue::High, 1, 2 * SECOND, 202 * SECOND, true)));
        events.extend(more);
        events.sort_by_key(|(time, _)| *time);
        write_events(&log, "box1", 7, events);
        let files = segments(&log);
        assert!(files.len() >= 6, "{}", files.len());
        for file in &files[files.len() / 4..files.len() * 2 / 3] {
            std::fs::remove_file(file).unwrap();
        }
    };
    write(Vec::new());
    let rows = lines(&log, &[]);
    let [queue] = &rows[..] else { panic!("{rows:?}") };
    let text = queue["text"].as_str().unwrap();
    assert!(text.contains(" was filled for at least 2 s") && text.ends_with("that is missing"), "{text}");
    assert!(queue["end"].is_null() && queue["seconds_max"].is_null(), "{queue}");
    assert!(lines(&log, &["--since", "2026-09-21T14:15:00Z"]).is_empty(), "nobody saw it then");
    assert_eq!(lines(&log, &["--until", "2026-09-21T14:13:50Z"]), rows);
    // it lasted, as was told later
    write(vec![(415 * SECOND, fills(Queue::High, 1, 2 * SECOND, 405 * SECOND, true))]);
    let rows = lines(&log, &[]);
    let [queue] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(queue["seconds_max"], 403.0, "{queue}");
}

/// Damages the blocks that may hold what happened at a time, but for the keyframes.
fn damage(log: &Path, time: u64) {
    for file in segments(log) {
        let mut bytes = std::fs::read(&file).unwrap();
        let mut segment = Segment::open(&file).unwrap();
        for about in std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok) {
            if !about.keyframe && (about.first..=about.last).contains(&time) {
                bytes[(about.offset + about.length - 1) as usize] ^= 1;
            }
        }
        std::fs::write(&file, bytes).unwrap();
    }
}

/// The only row about a damaged log.
fn of_damaged(log: &Path) -> Json {
    let words = ["stuck", "--utc", "--format", "jsonl", log.to_str().unwrap()];
    let (_, out, err) = outcome(iocreplay(words).output().unwrap());
    assert!(err.contains("is damaged"), "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The end of a queue's filling is in a block that is damaged: nobody knows how long it lasted.
#[test]
fn a_queue_whose_end_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let over = 12 * SECOND;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.push((5 * SECOND, fills(Queue::High, 1, 2 * SECOND, 5 * SECOND, false)));
    events.push((over, fills(Queue::High, 1, 2 * SECOND, over, true)));
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    assert_eq!(lines(&log, &[])[0]["seconds_max"], 10.0, "nothing is damaged yet");
    damage(&log, over);
    let queue = of_damaged(&log);
    let text = queue["text"].as_str().unwrap();
    assert!(text.contains(" was filled for at least 2 s") && text.ends_with("that is missing"), "{text}");
    assert!(queue["end"].is_null() && queue["seconds_max"].is_null(), "{queue}");
}

/// The end of a hang is in a damaged block, and no later segment tells whether it goes on.
#[test]
fn a_hang_whose_end_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let over = 20_900 * MS;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.push((5 * SECOND, sleeps()));
    events.push((over, Fact::StuckEnd(StuckEnd { id: 7, ioc: 1, after: 20 * SECOND, has_ended: false })));
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    assert_eq!(lines(&log, &[])[0]["ended"], "runs", "nothing is damaged yet");
    damage(&log, over);
    let hang = of_damaged(&log);
    let text = hang["text"].as_str().unwrap();
    assert!(text.ends_with("; how it went on is in a part of the log that is missing"), "{text}");
    assert_eq!((&hang["ended"], &hang["end"]), (&Json::from("not_known"), &Json::Null), "{hang}");
}

/// Nor does it last until its IOC ends, minutes later.
#[test]
fn an_end_behind_a_hang_whose_end_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let over = 20_900 * MS;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (5 * SECOND, sleeps()),
        (over, Fact::StuckEnd(StuckEnd { id: 7, ioc: 1, after: 20 * SECOND, has_ended: false })),
        // so that the end is in a block of its own
        (23 * SECOND, Fact::Mark("later".into())),
        (180 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exited".into() })),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    assert_eq!(lines(&log, &[])[0]["ended"], "runs", "nothing is damaged yet");
    damage(&log, over);
    let hang = of_damaged(&log);
    assert!(["not_known", "unseen"].map(Json::from).contains(&hang["ended"]), "{hang}");
}

/// Nor is such a hang the reason of all scans that come too late after it.
#[test]
fn late_scans_behind_a_hang_whose_end_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let list = ScanList { id: 1, ioc: 1, kind: ScanKind::Periodic, name: ".1 second".into(), callback: 0 };
    let late = ScanOverruns { ioc: 1, list: 1, more: 3, total: 3, since: 58 * SECOND };
    let over = 20_900 * MS;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (MS, Fact::ScanList(list)),
        (5 * SECOND, sleeps()),
        (over, Fact::StuckEnd(StuckEnd { id: 7, ioc: 1, after: 20 * SECOND, has_ended: false })),
        // so that the scans are in a block of their own
        (23 * SECOND, Fact::Mark("later".into())),
        (60 * SECOND, Fact::ScanOverruns(late)),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let told = || {
        let words = ["stuck", "--utc", "--format", "jsonl", log.to_str().unwrap()];
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |kind: &str| rows.iter().find(|row| row["kind"] == kind).cloned();
        let (hang, scans) = of("stuck").zip(of("overrun")).unwrap_or_else(|| panic!("{out}{err}"));
        let text = scans["text"].as_str().unwrap();
        assert!(text.ends_with("; it is not known what took so long"), "{text}");
        hang["ended"].clone()
    };
    assert_eq!(told(), "runs", "nothing is damaged yet");
    damage(&log, over);
    assert_ne!(told(), "runs");
}

/// A process that was stopped by a signal or a control group, or held by a debugger, scanned nothing: what came too late then
/// needs no other reason.
#[test]
fn late_scans_of_a_process_that_was_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let list = ScanList { id: 1, ioc: 1, kind: ScanKind::Periodic, name: ".1 second".into(), callback: 0 };
    for (wait, is_why) in
        [(Wait::Stopped, true), (Wait::Frozen, true), (Wait::Traced, true), (Wait::Sleep, false)]
    {
        let Fact::Stuck(mut stuck) = sleeps() else { panic!("a hang") };
        (stuck.wait, stuck.thread, stuck.record) = (wait, String::new(), None);
        let late = ScanOverruns { ioc: 1, list: 1, more: 1, total: 1, since: 19_500 * MS };
        let end = StuckEnd { id: 7, ioc: 1, after: 20 * SECOND, has_ended: false };
        let events = vec![
            (MS, Fact::ScanList(list.clone())),
            (5 * SECOND, Fact::Stuck(stuck)),
            (20_500 * MS, Fact::StuckEnd(end)),
            (20_500 * MS, Fact::ScanOverruns(late)),
        ];
        let log = directory.path().join(wait.name());
        write_events(&log, "box1", 7, events);
        let rows = lines(&log, &[]);
        let scans = rows.iter().find(|row| row["kind"] == "overrun").unwrap();
        let why = if is_why { "; their thread stood still" } else { "; it is not known what took so long" };
        let text = scans["text"].as_str().unwrap();
        assert!(text.ends_with(why), "{wait:?}: {text}");
    }
}

/// The notes of many queues are one row for each filling.
#[test]
fn many_queues_that_fill_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut events = Vec::new();
    // eighty queues, each of which fills twice
    for ioc in 1000..1020 {
        for queue in Queue::ALL {
            for begin in [10, 40] {
                let since = begin * SECOND;
                events.push((since + SECOND, fills(queue, ioc, since, since + SECOND, false)));
                events.push((since + 9 * SECOND, fills(queue, ioc, since, since + 9 * SECOND, false)));
                events.push((since + 22 * SECOND, fills(queue, ioc, since, since + 12 * SECOND, true)));
            }
            for more in 0..5 {
                let time = (60 + more) * SECOND;
                let late =
                    ScanOverruns { ioc, list: queue as u32, more: 1, total: more, since: time - SECOND };
                events.push((time, Fact::ScanOverruns(late)));
            }
        }
    }
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let rows = lines(&log, &[]);
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
    assert_eq!((of("queue"), of("overrun")), (160, 80));
    let queues = rows.iter().filter(|row| row["kind"] == "queue");
    assert!(queues.map(|row| &row["seconds_max"]).all(|most| *most == 12.0));
    let late = rows.iter().filter(|row| row["kind"] == "overrun");
    assert!(late.map(|row| &row["overruns"]).all(|count| *count == 5));
}

/// A scan thread begins an asynchronous record, which returns at once, and waits for its next turn. That record made no scan
/// late; one that holds the thread up until it is done does.
#[test]
fn an_asynchronous_record_makes_no_scan_late() {
    let directory = tempfile::tempdir().unwrap();
    let list = ScanList { id: 1, ioc: 1, kind: ScanKind::Periodic, name: ".1 second".into(), callback: 0 };
    let scanned = |record| Fact::RecordScan(RecordScan { record, list: Some(1) });
    let late = |time: u64, since: u64| {
        (time, Fact::ScanOverruns(ScanOverruns { ioc: 1, list: 1, more: 1, total: 1, since }))
    };
    let told = |name: &str, took: u64| {
        let mut events = vec![(MS, Fact::ScanList(list.clone())), (MS, scanned(2)), (MS, scanned(3))];
        for turn in 0..20 {
            let time = SECOND + turn * 100 * MS;
            events.push((time, process(SCAN, -100, 2, 2)));
            let took = if turn == 5 { took } else { MS };
            events.push((time + took, complete(SCAN, -200, 2, 20.0, 0)));
            // T:SLOW is completed by another thread, later
            events.push((time + took + MS, process(SCAN, -100, 2, 3)));
        }
        events.push(late(SECOND + 1950 * MS, SECOND - 50 * MS));
        let log = directory.path().join(name);
        write_events(&log, "box1", 7, events);
        let rows = lines(&log, &[]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0]["longest"].clone()
    };
    assert_eq!(told("asynchronous", MS), Json::Null);
    assert_eq!(told("slow", 90 * MS), "T:CALC");
}

/// What another thread does with a record of the list makes no scan late: here scanOnce, for a link. Nor does the clock that is
/// set meanwhile make it take an hour.
#[test]
fn late_scans_are_those_of_their_own_thread() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let list = ScanList { id: 1, ioc: 1, kind: ScanKind::Periodic, name: ".1 second".into(), callback: 0 };
    let once = Thread { id: 50, ioc: 1, tid: 1050, name: "scanOnce".into(), stack: 1 << 40 };
    let late = ScanOverruns { ioc: 1, list: 1, more: 3, total: 3, since: 8 * SECOND };
    let set = WALL + 3_600_000_000_000 + 10 * SECOND as i64;
    let events = vec![
        (MS, Fact::ScanList(list)),
        (MS, Fact::RecordScan(RecordScan { record: 2, list: Some(1) })),
        (MS, Fact::Thread(once)),
        (8500 * MS, process(50, -100, 0, 2)),
        (9500 * MS, complete(50, -200, 2, 20.0, 0)),
        (10 * SECOND, Fact::Clock(Clock { wall: set })),
        (12 * SECOND, Fact::ScanOverruns(late)),
    ];
    write_events(&log, "box1", 7, events);
    let rows = lines(&log, &[]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["longest"], &rows[0]["overruns"]), (&Json::Null, &Json::from(3)), "{rows:?}");
    assert_eq!(rows[0]["seconds_max"], 4.0, "{rows:?}");
}

/// A minute with more hangs than are kept: the last ones are nearest to the end.
#[test]
fn the_last_minute_has_the_last_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let Fact::Stuck(sleeps) = sleeps() else { panic!() };
    let mut events = Vec::new();
    for number in 0..1100_u32 {
        let since = 5 * SECOND + u64::from(number) * 20 * MS;
        let stuck = Stuck { id: number + 1, tid: 2000 + number, after: since - MS, since, ..*sleeps.clone() };
        events.push((since + 10 * MS, Fact::from(stuck)));
        let end = StuckEnd { id: number + 1, ioc: 1, after: since + 10 * MS, has_ended: false };
        events.push((since + 15 * MS, Fact::StuckEnd(end)));
    }
    events.push((40 * SECOND, Fact::Mark("end".into())));
    write_events(&log, "box1", 7, events);
    let asked = ["last", "demo", log.to_str().unwrap(), "--utc", "--json"];
    let (code, out, err) = outcome(iocreplay(asked).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let last: Json = serde_json::from_str(&out).unwrap();
    let stuck = last["stuck"].as_array().unwrap();
    assert_eq!((stuck.len(), &stuck[999]["tid"]), (1000, &Json::from(3099)));
}
