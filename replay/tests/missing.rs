//! Whatever is asked of a log of which a part is missing, the answer says so: it may be that part where the truth is.

mod common;

use common::every::every_once;
use common::{
    ca_put, complete, definitions, happenings, iocreplay, outcome, process, segments, write_events,
    write_events_later, MS, SCAN, SECOND, WALL,
};
use iocrec_log::event::{
    Address, Attached, CaPut, CallSite, Channel, Circuit, CircuitEnds, CircuitTraffic, Detached, Event, Fact,
    Ioc, IocEnd, Loss, LossSource, Origin, PvaMonitor, Record, Resources, Snapshot, Stuck, StuckEnd, Thread,
    Tier, TierChoice, Value, Wait,
};
use iocrec_log::reader::{About, Segment};
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, State, Writer};
use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Puts, one each millisecond from this time on, which fill some segments.
fn noise(since: u64) -> impl Iterator<Item = (u64, Fact)> {
    let mut state = 1_u64;
    (0..20_000_u64).map(move |number| {
        // what can't be compressed fills segments
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let payload = f64::from_bits(state >> 2).to_be_bytes().to_vec();
        let put =
            CaPut { circuit: 1, channel: 1, notify: false, dbr: 6, count: 1, ioid: 1, length: 8, payload };
        (since + number * MS, Fact::CaPut(put))
    })
}

/// A log of some segments.
fn log_of_segments(directory: &Path) -> Vec<PathBuf> {
    write_events(directory, "box1", 7, noise(SECOND).collect());
    let files = segments(directory);
    assert!(files.len() >= 3, "{}", files.len());
    files
}

/// The commands whose answer about this log does not have these words.
fn silent(log: &Path, words: &[&str]) -> Vec<String> {
    let log = log.to_str().unwrap();
    let asked = every_once(log, "PS1:SETPOINT", "2026-09-21T14:13:30Z");
    let says = |asked: &Vec<String>| {
        let (_, out, err) = outcome(iocreplay(asked).output().unwrap());
        words.iter().any(|word| err.contains(word) || out.contains(word))
    };
    // a copy lacks what the log lacks, and tells so itself; only the past of that time is read for --at
    let is_due = |asked: &Vec<String>| asked[0] != "redact" && !asked.iter().any(|word| word == "--at");
    asked.into_iter().filter(is_due).filter(|asked| !says(asked)).map(|asked| asked.join(" ")).collect()
}

#[test]
fn every_command_says_that_segments_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let files = log_of_segments(&log);
    fs::remove_file(&files[1]).unwrap();
    let silent = silent(&log, &["missing"]);
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// An earlier run is there, the beginning of a later one is not: what was recorded then is missing.
#[test]
fn a_run_that_lost_its_beginning_behind_another_one_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let attached = |since| Fact::Attached(Attached { ioc: 1, from: since, since, cause: String::new() });
    let scanned = |time: u64, value: f64| {
        [(time, process(SCAN, -100, 2, 2)), (time + 1000, complete(SCAN, -200, 2, value, 0))]
    };
    let mut before = vec![(SECOND, attached(SECOND))];
    before.extend(scanned(2 * SECOND, 1.0));
    write_events_later(&log, "box1", 1, -60, before, 4 * SECOND);
    let mut after = vec![(SECOND / 2, attached(SECOND / 2))];
    after.extend(noise(SECOND));
    after.extend(scanned(22 * SECOND, 2.0));
    write_events(&log, "box1", 7, after);
    let ask = |words: &[&str]| {
        let words = words.iter().copied().chain([log.to_str().unwrap(), "--format", "jsonl"]);
        outcome(iocreplay(words).output().unwrap())
    };
    let is_missing = "1 segment of its run is missing before ";
    let (_, _, err) = ask(&["puts"]);
    assert!(!err.contains(is_missing), "{err}");

    fs::remove_file(&segments(&log)[1]).unwrap();
    let (_, _, err) = ask(&["puts"]);
    assert!(err.contains(is_missing), "{err}");
    // what lies before the end of the earlier run is there; what is missing may have begun right after it
    let (_, _, err) = ask(&["puts", "--until", "2026-09-21T14:12:22Z"]);
    assert!(!err.contains(is_missing), "{err}");
    let (_, _, err) = ask(&["puts", "--until", "2026-09-21T14:12:30Z"]);
    assert!(err.contains(is_missing), "{err}");
    let (_, out, _) = ask(&["values", "T:CALC"]);
    let cause = "\"cause\":\"not recorded: a part of the log is missing\"";
    assert!(out.contains(cause) && !out.contains("no recorder's run"), "{out}");
}

/// The first segments of a log are deleted in time. Neither another host's log in the same directory was written before it, nor
/// that of a later recorder on a machine whose clock is not set yet.
#[test]
fn a_log_that_begins_later_has_no_hole_behind_what_was_not_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let scanned = [(2 * SECOND, process(SCAN, -100, 2, 2)), (3 * SECOND, complete(SCAN, -200, 2, 1.0, 0))];
    for (host, later, is_first) in [("box2", -60, true), ("box1", -WALL / SECOND as i64, false)] {
        let log = directory.path().join(host);
        let other = || write_events_later(&log, host, 1, later, scanned.clone(), 4 * SECOND);
        if is_first {
            other();
        }
        write_events(&log, "box1", 7, noise(SECOND).collect());
        if !is_first {
            other();
        }
        fs::remove_file(&segments(&log)[usize::from(is_first)]).unwrap();
        let (_, _, err) = outcome(iocreplay(["puts", log.to_str().unwrap()]).output().unwrap());
        assert!(!err.contains("missing before"), "{host}: {err}");
    }
}

#[test]
fn every_command_says_that_a_segment_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let last = log_of_segments(&log).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    let silent = silent(&log, &["is cut", "ends within a block"]);
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The end of a segment is missing, from the boundary of a block on: nothing in it is damaged, but the next one tells how many
/// blocks it had. Commands that skip most blocks say it, too.
#[test]
fn a_missing_end_of_a_segment_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let file = log_of_segments(&log).remove(1);
    let said = "blocks are missing at the end of the segment before";
    let silent = |words: &[&str]| {
        let (_, _, err) = outcome(iocreplay(words).arg(&log).output().unwrap());
        !err.contains(said)
    };
    assert!(silent(&["iocs"]) && silent(&["net"]) && silent(&["stuck"]), "nothing is missing yet");
    let mut segment = Segment::open(&file).unwrap();
    let abouts: Vec<About> = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok).collect();
    let last = &abouts[abouts.len() / 2];
    assert!(last.sequence + 2 < abouts.len() as u32, "{}", abouts.len());
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..(last.offset + last.length) as usize]).unwrap();
    let since = &["puts", "--since", "2026-09-21T14:13:21.5Z"][..];
    for words in [&["iocs"][..], &["records"], &["net"], &["stuck"], &["info"], &["puts"], since] {
        assert!(!silent(words), "{words:?}");
    }
}

/// What the table of losses has of parts that are missing: since when, in seconds after the first event, and whether it lasts.
fn missing_in_table(place: &Path, log: &Path) -> Vec<(f64, bool)> {
    let to = place.join("tables");
    let words = ["export", "--table", "losses", "--ndjson", to.to_str().unwrap(), log.to_str().unwrap()];
    let (_, _, err) = outcome(iocreplay(words).output().unwrap());
    let (mut left, mut found) = (vec![to.clone()], Vec::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect(&err).map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "ndjson") {
            for line in fs::read_to_string(path).unwrap().lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                if row["kind"] == "missing" {
                    let since = row["since_ns"].as_i64().unwrap() - WALL - SECOND as i64;
                    found.push((since as f64 / 1e9, row["open"].as_bool().unwrap()));
                }
            }
        }
    }
    fs::remove_dir_all(to).unwrap();
    found
}

/// Of two copies of a header one is damaged, so nothing is missing. Then the end of a segment is, and then the last block.
#[test]
fn the_table_of_losses_has_what_is_missing_and_no_more() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let files = log_of_segments(&log);
    let missing = || missing_in_table(place.path(), &log);
    let mut bytes = fs::read(&files[1]).unwrap();
    bytes[20] ^= 1;
    fs::write(&files[1], &bytes).unwrap();
    assert!(missing().is_empty(), "{:?}", missing());
    let last_block = |file: &Path| {
        let mut segment = Segment::open(file).unwrap();
        let last = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok).last();
        last.unwrap()
    };
    let about = last_block(&files[1]);
    fs::write(&files[1], &bytes[..about.offset as usize]).unwrap();
    let cut = missing();
    assert!(matches!(cut[..], [(since, false)] if since > 0.0), "{cut:?}");
    let last = files.last().unwrap();
    let (about, mut bytes) = (last_block(last), fs::read(last).unwrap());
    bytes[(about.offset + about.length - 1) as usize] ^= 1;
    fs::write(last, &bytes).unwrap();
    let both = missing();
    assert!(matches!(both[..], [_, (since, true)] | [(since, true), _] if since > cut[0].0), "{both:?}");
}

/// What is in a missing segment is not counted, nor what was lost in a time of which only the beginning is asked for.
#[test]
fn counts_are_minima_where_anything_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let said = |more: &[&str]| {
        let (_, _, err) = outcome(iocreplay(["top", "--utc"]).args(more).arg(&log).output().unwrap());
        err.contains("counts are minima")
    };
    let files = log_of_segments(&log);
    assert!(!said(&[]));
    fs::remove_file(&files[1]).unwrap();
    assert!(said(&[]));
    fs::remove_dir_all(&log).unwrap();
    write_events(&log, "box1", 7, happenings()); // 17 hits lost between 3 s and 4 s
    let until = |time: &str| said(&["--until", &format!("2026-09-21T14:13:{time}Z")]);
    assert_eq!([until("22.9"), until("23.5"), until("24.5")], [false, true, true]);
}

/// How much was lost may not be known: counts are minima nevertheless.
#[test]
fn a_loss_of_an_unknown_number_makes_counts_minima() {
    let said = |lost: Option<(LossSource, u64)>| {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut events = vec![
            (2 * SECOND, process(SCAN, -100, 2, 2)),
            (2 * SECOND + 1000, complete(SCAN, -200, 2, 1.0, 0)),
        ];
        events.extend(lost.map(|(source, count)| {
            let cause = "a test".to_owned();
            (4 * SECOND, Fact::Loss(Loss { source, count, since: 3 * SECOND, cause }))
        }));
        write_events(&log, "box1", 7, events);
        let (code, _, err) = outcome(iocreplay(["top", log.to_str().unwrap()]).output().unwrap());
        assert_eq!(code, 0, "{err}");
        err.contains("counts are minima")
    };
    let hits = [17, 0].map(|count| said(Some((LossSource::Hits, count))));
    let stored = [17, 0].map(|count| said(Some((LossSource::Storage, count))));
    assert_eq!((said(None), hits), (false, [true, true]));
    assert_eq!(stored, [true, false], "it was interrupted, as by a directory that was moved");
}

/// Of all that tells of an IOC the keyframe of a segment is left: it ran when that segment began.
#[test]
fn what_a_keyframe_names_ran_then() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let ended = 10 * SECOND;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.push((ended, Fact::IocEnd(IocEnd { ioc: 2, how: "exit status 0".into() })));
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let files = segments(&log);
    let begun = |file: &PathBuf| Segment::open(file).unwrap().header().created;
    let left = files.iter().rposition(|file| begun(file) <= ended).unwrap();
    assert!(left > 0 && left + 1 < files.len(), "{left} of {}", files.len());
    files[..left].iter().for_each(|file| fs::remove_file(file).unwrap());
    let mut segment = Segment::open(&files[left]).unwrap();
    let abouts = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok);
    let keyframe = abouts.take_while(|about| about.keyframe).last().unwrap();
    let bytes = fs::read(&files[left]).unwrap();
    fs::write(&files[left], &bytes[..(keyframe.offset + keyframe.length) as usize]).unwrap();
    let words = ["last", "--ioc", "second", "--utc", "--json", log.to_str().unwrap()];
    let (_, out, err) = outcome(iocreplay(words).output().unwrap());
    let last: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let [end, by] = ["end", "ended_by"].map(|key| last[key].as_str().unwrap_or_default());
    assert!(!end.is_empty() && end < by, "{last}");
}

/// A segment is copied while it is written, and again, whole, after it has been pinned or renamed: the first copy makes no hole,
/// whatever its name is.
#[test]
fn of_two_copies_of_a_segment_the_whole_one_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let files = log_of_segments(&log);
    let ask = |command: &str| outcome(iocreplay([command, "--utc", log.to_str().unwrap()]).output().unwrap());
    let whole = ask("puts");
    assert_eq!(whole.0, 0, "{}", whole.2);
    let bytes = fs::read(&files[1]).unwrap();
    for name in ["0-copied-before.iocrec", "zz-copied-before.iocrec"] {
        let copy = log.join(name);
        fs::write(&copy, &bytes[..bytes.len() / 2]).unwrap();
        let (code, out, err) = ask("puts");
        assert!(code == 0 && out == whole.1 && err == whole.2, "{name}: {code} {err}");
        let (code, out, err) = ask("verify");
        assert_eq!(code, 0, "{name}: {out} {err}");
        fs::remove_file(copy).unwrap();
    }
}

/// The longer copy was damaged after it was made, and something was appended to it.
#[test]
fn of_two_copies_of_a_segment_the_sound_one_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let files = log_of_segments(&log);
    let ask = |command: &str| outcome(iocreplay([command, "--utc", log.to_str().unwrap()]).output().unwrap());
    let whole = ask("puts");
    let sound = fs::read(&files[1]).unwrap();
    let mut damaged = [&sound[..], &[0; 100]].concat();
    damaged[sound.len() / 2] ^= 1;
    for name in ["0-copied-before.iocrec", "zz-copied-before.iocrec"] {
        let copy = log.join(name);
        for (bytes, other) in [(&sound, &damaged), (&damaged, &sound)] {
            fs::write(&copy, bytes).unwrap();
            fs::write(&files[1], other).unwrap();
            let (code, out, err) = ask("puts");
            assert!(code == 0 && out == whole.1 && err == whole.2, "{name}: {code} {err}");
            let (code, out, err) = ask("verify");
            assert_eq!(code, 0, "{name}: {out} {err}");
        }
        fs::remove_file(copy).unwrap();
        fs::write(&files[1], &sound).unwrap();
    }
}

/// The last segment had just begun when it was copied: what can be read ends with the one before.
#[test]
fn a_log_ends_with_what_can_be_read_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let last = log_of_segments(&log).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    fs::write(&last, &whole[..300]).unwrap();
    let puts = |options: &[&str]| {
        let words = [&["puts", "--utc", log.to_str().unwrap()], options].concat();
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        assert!(err.contains("is cut"), "{err}");
        out
    };
    let all = puts(&[]);
    let (end, _) = all.lines().last().unwrap().split_once("  ").unwrap();
    assert!(end.starts_with("2026-09-21T14:13:"), "{end}");
    let of_last_second = puts(&["--since", "-1s"]);
    let count = of_last_second.lines().count();
    assert!((1_000..=1_001).contains(&count), "a put comes each millisecond: {count}");
    assert_eq!(of_last_second.lines().last(), all.lines().last());
    let (_, shown, _) = outcome(iocreplay(["last", "--utc", log.to_str().unwrap()]).output().unwrap());
    let told = format!("still ran when the log ends, at {}", end.get(..22).unwrap());
    assert!(shown.contains(&told), "{told}: {shown}");
}

/// The last minute of an IOC says from when to when a part is missing: from the last put before it to the first after it.
#[test]
fn the_last_minute_says_how_much_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let files = log_of_segments(&log);
    fs::remove_file(&files[1]).unwrap();
    let ask = |command: &str| {
        let words = [command, "--utc", "--format", "jsonl", log.to_str().unwrap()];
        outcome(iocreplay(words).output().unwrap()).1
    };
    let puts = ask("puts");
    let object = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let times: Vec<String> = puts.lines().map(|line| object(line)["time"].as_str().unwrap().into()).collect();
    let millisecond = |time: &str| {
        let (minute, second) = (time.get(14..16).unwrap(), time.get(17..23).unwrap());
        minute.parse::<f64>().unwrap() * 60e3 + second.parse::<f64>().unwrap() * 1e3
    };
    let gap = times.windows(2).find(|pair| millisecond(&pair[1]) - millisecond(&pair[0]) > 100.0);
    let gap = gap.expect("a segment holds more than 100 puts");
    let shown = object(&ask("last"));
    let told = shown["not_seen"].as_array().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    for (key, truth) in [("from", &gap[0]), ("to", &gap[1])] {
        let told = told[0][key].as_str().unwrap();
        assert!((millisecond(told) - millisecond(truth)).abs() <= 1.0, "{key}: {told}, in truth {truth}");
    }
}

/// Another recorder of that host goes on meanwhile, which tells nothing of the part that is missing.
#[test]
fn the_last_minute_says_how_much_is_missing_of_one_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let [log, beside] = ["log", "beside"].map(|name| directory.path().join(name));
    let files = log_of_segments(&log);
    let scans = (10..230).flat_map(|turn| {
        let time = turn * 100 * MS;
        [(time, process(SCAN, -100, 2, 2)), (time + 1000, complete(SCAN, -200, 2, 1.0, 0))]
    });
    write_events(&beside, "box1", 8, scans.collect());
    fs::remove_file(&files[1]).unwrap();
    let missing = |logs: &[&Path]| {
        let words = [&["last", "demo", "--utc", "--json"].map(Path::new), logs].concat();
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        let shown: serde_json::Value = serde_json::from_str(&out).expect(&err);
        let told = shown["not_seen"].as_array().unwrap().clone();
        let of_log = |told: &serde_json::Value| told["cause"] == "a part of the log is missing";
        told.into_iter().filter(of_log).map(|told| told["to"].clone()).collect::<Vec<_>>()
    };
    let alone = missing(&[&log]);
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert_eq!(missing(&[&log, &beside]), alone);
}

/// The last change that was seen need not be the last: there may be another in what is missing.
#[test]
fn the_cause_says_that_later_changes_may_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    // of which nothing is lost
    let mut events: Vec<(u64, Fact)> = happenings();
    events.retain(|(_, fact)| !matches!(fact, Fact::Loss(_)));
    let start = events.last().unwrap().0 + SECOND;
    events.extend(noise(start));
    write_events(&log, "box1", 7, events);
    let files = segments(&log);
    assert!(files.len() >= 3);
    let why = |options: &[&str]| {
        let words = [&["why", "T:SP", "--utc", log.to_str().unwrap()], options].concat();
        let (code, out, err) = outcome(iocreplay(words).output().unwrap());
        assert_eq!(code, 0, "{err}");
        out
    };
    let told = "There may be later changes: after it, not all was recorded: a part of the log is missing.";
    let whole = why(&[]);
    assert!(whole.starts_with("T:SP changed from ") && !whole.contains("later changes"), "{whole}");
    fs::remove_file(&files[1]).unwrap();
    let now = why(&[]);
    assert!(now.starts_with("T:SP changed from ") && now.contains(told), "{now}");
    // before that part
    let before = why(&["--at", "2026-09-21T14:13:25Z"]);
    assert!(before.starts_with("T:SP changed from ") && !before.contains("later changes"), "{before}");
}

/// T:CALC has these values from one second to the next; much later the recorder reads another one, and then hits are lost.
fn scanned_and_lost(directory: &Path, values: &[f64]) -> PathBuf {
    let log = directory.join("log");
    let mut events = Vec::new();
    for (second, value) in (1..).zip(values) {
        let time = second * SECOND;
        events.push((time, process(SCAN, -100, 2, 2)));
        events.push((time + 1000, complete(SCAN, -200, 2, *value, 0)));
    }
    let read = Snapshot { record: 2, value: Value::Double(7.0), severity: 0, status: 0, stamp: None };
    events.push((30 * SECOND, Fact::Snapshot(read)));
    let cause = "ring buffer full".to_owned();
    let loss = Loss { source: LossSource::Hits, count: 17, since: 50 * SECOND, cause };
    events.push((60 * SECOND, Fact::Loss(loss)));
    write_events(&log, "box1", 7, events);
    log
}

/// The last change that was seen is found from the end of the log, but what was lost and read long after it counts, too.
#[test]
fn the_cause_knows_what_came_long_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = scanned_and_lost(directory.path(), &[1.0, 1.0, 2.0]);
    let why = |options: &[&str]| {
        let words = [&["why", "T:CALC", "--utc", log.to_str().unwrap()], options].concat();
        let (code, out, err) = outcome(iocreplay(words).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with("T:CALC changed from 1 to 2 at 2026-09-21T14:13:23"), "{out}");
        out
    };
    let lost = "There may be later changes: after it, not all was recorded: 17 hits or events lost";
    let read = "It had another value, 7, when it was read at 2026-09-21T14:13:50";
    let all = why(&[]);
    assert!(all.contains(lost) && all.contains(read), "{all}");
    // noted after that time, but begun before it
    let during = why(&["--at", "2026-09-21T14:14:12Z"]);
    assert!(during.contains(lost) && during.contains(read), "{during}");
    let before = why(&["--at", "2026-09-21T14:14:00Z"]);
    assert!(!before.contains("later changes") && before.contains(read), "{before}");
}

/// A value that did not change where it was seen may have changed where it was not.
#[test]
fn what_did_not_change_may_have_changed_unseen() {
    let directory = tempfile::tempdir().unwrap();
    let log = scanned_and_lost(directory.path(), &[1.0, 1.0, 1.0]);
    let why = |options: &[&str]| {
        let words = [&["why", "T:CALC", "--utc", log.to_str().unwrap()], options].concat();
        let (code, out, err) = outcome(iocreplay(words).output().unwrap());
        assert_eq!(code, 0, "{err}");
        out
    };
    let told = "It may have changed unseen: not all was recorded: 17 hits or events lost: ring buffer full.";
    let all = why(&[]);
    assert!(all.contains(told), "{all}");
    let before = why(&["--at", "2026-09-21T14:14:00Z"]);
    assert!(!before.contains("unseen"), "{before}");
    // of another one nothing was seen at all
    for (options, is_lost) in [(&[][..], true), (&["--at", "2026-09-21T14:14:00Z"], false)] {
        let words = [&["why", "T:SP", "--utc", log.to_str().unwrap()], options].concat();
        let (code, _, err) = outcome(iocreplay(words).output().unwrap());
        assert!(code == 1 && err.contains("T:SP was neither processed nor written"), "{err}");
        assert_eq!(err.contains("; but not all was recorded: 17 hits or events lost"), is_lost, "{err}");
    }
}

/// That one IOC was not recorded for a while says nothing of the records of another one.
#[test]
fn nothing_is_missing_of_another_ioc() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let detached = Detached { ioc: 2, since: 5 * SECOND, cause: "its probes were removed".into() };
    write_events(&log, "box1", 7, vec![(6 * SECOND, Fact::Detached(detached)), (9 * SECOND, mark())]);
    for (pv, is_missing) in [("T:SP", false), ("R:FAR", true)] {
        let (code, _, err) = outcome(iocreplay(["why", pv, log.to_str().unwrap()]).output().unwrap());
        assert!(code == 1 && err.contains("neither processed nor written"), "{err}");
        assert_eq!(err.contains("not all was recorded: its probes were removed"), is_missing, "{err}");
    }
}

fn mark() -> Fact {
    Fact::Mark("later".into())
}

/// Of puts that were seen on the network alone it is not known what they did: not that there was none.
#[test]
fn puts_on_the_network_alone_are_no_silence() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    write_events(&log, "box1", 7, noise(SECOND).take(3).collect());
    let why = |pv: &str| {
        let (code, _, err) = outcome(iocreplay(["why", pv, log.to_str().unwrap()]).output().unwrap());
        assert_eq!(code, 1, "{err}");
        err
    };
    let written = why("T:SP");
    assert!(written.contains("puts to T:SP were seen on the network"), "{written}");
    for other in ["T:SP.DESC", "T:CALC.A"] {
        let silent = why(other);
        assert!(silent.contains("neither processed nor written"), "{silent}");
    }
}

/// Without probes nothing tells whether a record changed: not that it did not.
#[test]
fn without_probes_silence_says_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let storage = Directory::open(&log).unwrap();
    let wall = Rc::new(Cell::new(WALL));
    let mut writer = Writer::open(Clocked { storage, wall }, Options::default(), 7).unwrap();
    let packets = Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![] });
    let others = definitions("box1").into_iter().filter(|fact| !matches!(fact, Fact::Tier(_)));
    for fact in others.chain([packets]) {
        writer.push(Event { time: 0, fact });
    }
    writer.push(Event { time: SECOND, fact: ca_put(1, 1, false, 1, 3.0) });
    writer.close(2 * SECOND);
    for (pv, words) in [("T:SP", "were seen on the network"), ("T:CALC", "recorded without probes")] {
        let (code, _, err) = outcome(iocreplay(["why", pv, log.to_str().unwrap()]).output().unwrap());
        assert!(code == 1 && err.contains(words) && !err.contains("neither processed"), "{pv}: {err}");
    }
    // of each IOC, too, as tables of many hosts have nothing of their runs
    let (_, out, _) = outcome(iocreplay(["iocs", log.to_str().unwrap()]).output().unwrap());
    assert_eq!(out.matches("the packet tier has no probes").count(), 2, "{out}");
}

thread_local! {
    /// Whether no segment can be begun.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

fn reserve(_: &File, _: u64) -> io::Result<()> {
    if FAILS.get() {
        Err(io::Error::other("the disk fails"))
    } else {
        Ok(())
    }
}

/// Writes a log whose recorder could not store for some seconds: what happened before, meanwhile, and so long after that.
fn paused(log: &Path, before: Vec<Fact>, meanwhile: Vec<Fact>, after: Vec<(u64, Fact)>) {
    let wall = Rc::new(Cell::new(WALL));
    let storage = Directory::open(log).unwrap().reserving(reserve);
    let options = Options { segment: Some(64 << 10), ..Options::default() };
    let mut writer = Writer::open(Clocked { storage, wall: Rc::clone(&wall) }, options, 7).unwrap();
    for fact in definitions("box1").into_iter().chain(before) {
        writer.push(Event { time: 0, fact });
    }
    FAILS.set(true);
    let mut now = 0;
    for (time, fact) in noise(SECOND) {
        now = time;
        wall.set(WALL + now as i64);
        writer.push(Event { time, fact });
        writer.tick(now);
        if writer.status().state != State::Ok {
            break;
        }
    }
    assert!(matches!(writer.status().state, State::Paused { .. }));
    for fact in meanwhile {
        writer.push(Event { time: now + MS, fact });
    }
    FAILS.set(false);
    now += 5 * SECOND;
    wall.set(WALL + now as i64);
    writer.tick(now);
    assert_eq!(writer.status().state, State::Ok);
    let mut end = now;
    for (later, fact) in after {
        end = now + later;
        writer.push(Event { time: end, fact });
    }
    writer.close(end + MS);
    assert_eq!(segments(log).len(), 2);
}

/// A circuit and a channel that are opened while nothing can be stored are in the next keyframe alone, although no segment
/// is missing; an IOC that ends then is not.
#[test]
fn what_is_defined_while_storing_is_paused_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let circuit = Circuit {
        id: 9,
        client: Address::new(Ipv4Addr::new(10, 0, 0, 6), 41_009),
        server: Address::new(Ipv4Addr::new(10, 0, 0, 9), 5064),
        user: "bob".into(),
        host: "console4".into(),
        minor: 13,
        origin: Origin::Opened,
    };
    let (cid, sid, dbr, count) = (Some(9), Some(9), Some(6), Some(1));
    let channel =
        Channel { id: 9, circuit: 9, cid, sid, pv: "T:SP".into(), dbr, count, origin: Origin::Opened };
    let end = Fact::IocEnd(IocEnd { ioc: 2, how: "exit status 0".into() });
    let meanwhile = vec![Fact::from(circuit), Fact::from(channel), end];
    paused(&log, Vec::new(), meanwhile, vec![(MS, ca_put(9, 9, false, 1, 5.0))]);
    for options in [&[][..], &["--since", "-1s"]] {
        let words = [&["puts", "--format", "jsonl", log.to_str().unwrap()], options].concat();
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        assert!(!err.contains("missing"), "{err}");
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!((last["user"].as_str(), last["pv"].as_str()), (Some("bob"), Some("T:SP")), "{last}");
    }
    // nor does what ended then last
    let (code, out, err) =
        outcome(iocreplay(["iocs", "--format", "jsonl", log.to_str().unwrap()]).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let iocs: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_over =
        |name: &str| iocs.iter().find(|ioc| ioc["ioc"] == name).map(|ioc| ioc["ended_by"].is_string());
    assert_eq!((is_over("demo"), is_over("second")), (Some(false), Some(true)), "{out}");
}

/// A channel that was closed while nothing could be stored does not count among those that its IOC serves.
#[test]
fn what_was_closed_while_storing_was_paused_is_not_served() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let ends = CircuitEnds { circuit: 1, namespace: 7, server: Some(1), client: None };
    let used = Resources {
        ioc: 1,
        period: 1_000_000,
        cpu: Some(1000),
        waiting: None,
        minor_faults: 0,
        major_faults: 0,
        resident: None,
        threads: 20,
        descriptors: None,
        udp_drops: None,
        most: Vec::new(),
    };
    let after = vec![(3 * SECOND, Fact::from(used))];
    paused(&log, vec![Fact::CircuitEnds(ends)], vec![Fact::ChannelEnd(3)], after);
    let words = ["health", "--json", log.to_str().unwrap()];
    let (code, out, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!(code, 0, "{err}");
    let row: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    // of two channels of that circuit one is left
    assert_eq!((row["clients"].as_u64(), row["channels"].as_u64()), (Some(1), Some(1)), "{row}");
}

/// Damages the block that holds what ended or began at a time.
fn damage(log: &Path, time: u64) {
    let holds =
        |about: &About| about.defines && !about.keyframe && (about.first..=about.last).contains(&time);
    let found = segments(log).into_iter().find_map(|file| {
        let mut segment = Segment::open(&file).unwrap();
        let mut abouts = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok);
        let about = abouts.find(holds)?;
        Some((file, about))
    });
    let (file, about) = found.unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[(about.offset + about.length - 1) as usize] ^= 1;
    fs::write(&file, bytes).unwrap();
}

/// The first block, with the first reading of the clock, is damaged: the segment's header has one, too.
#[test]
fn times_are_known_without_the_first_reading_of_the_clock() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    write_events(&log, "box1", 7, noise(SECOND).take(5000).collect());
    let file = segments(&log).remove(0);
    let about = Segment::open(&file).unwrap().next_about().unwrap().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[(about.offset + about.length - 1) as usize] ^= 1;
    fs::write(&file, bytes).unwrap();
    let ask = |words: &[&str]| {
        let words = words.iter().copied().chain([log.to_str().unwrap()]);
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        assert!(!out.contains("1970-01-01"), "{out}{err}");
        out
    };
    let puts = ask(&["puts", "--all", "--format", "jsonl"]);
    let at = |line: &str| line.starts_with("{\"time\":\"2026-09-21T14:13:2");
    assert!(puts.lines().count() > 1000 && puts.lines().all(at), "{puts}");
    for command in ["info", "verify"] {
        let told = ask(&[command]);
        assert!(told.contains("2026-09-21T14:13:2"), "{command}: {told}");
    }
}

/// An IOC whose end is in a damaged block, and that was started anew after it, is not two that ran side by side.
#[test]
fn an_ioc_started_anew_after_damage_is_not_two() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (ended, begun) = (10 * SECOND, 11500 * MS);
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (ended, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })),
        (begun, Fact::from(Ioc { id: 9, pid: 500, start: begun, ..*demo })),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let names = || -> Vec<String> {
        let words = ["iocs", "--format", "jsonl", log.to_str().unwrap()];
        let (_, out, _) = outcome(iocreplay(words).output().unwrap());
        let lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut names: Vec<String> = lines.map(|line| line["ioc"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["demo", "demo", "second"], "nothing is damaged yet");
    damage(&log, ended);
    assert_eq!(names(), ["demo", "demo", "second"]);
}

/// Two IOCs of a name that were seen side by side are two, also if the end of one is in a segment that is missing.
#[test]
fn two_iocs_are_two_until_something_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let [plain, log] = ["plain", "log"].map(|name| directory.path().join(name));
    let ended = 10 * SECOND;
    let begun = |file: &PathBuf| Segment::open(file).unwrap().header().created;
    let last = |files: &[PathBuf]| files.iter().rposition(|file| begun(file) <= ended).unwrap();
    let files = log_of_segments(&plain);
    let missing = last(&files);
    // in the segment before, of which the keyframe does not know it
    let other = (begun(&files[missing - 1]) + begun(&files[missing])) / 2;
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (other, Fact::from(Ioc { id: 9, pid: 500, start: other, ..*demo })),
        (ended, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let files = segments(&log);
    fs::remove_file(&files[last(&files)]).unwrap();
    let words = ["iocs", "--format", "jsonl", log.to_str().unwrap()];
    let (_, out, err) = outcome(iocreplay(words).output().unwrap());
    for name in ["demo pid 100", "demo pid 500"] {
        assert!(out.contains(&format!("\"ioc\":\"{name}\"")), "{name}: {out}{err}");
    }
}

/// The record of an IOC that was started anew after its end, which is in a damaged block, is the same: no other IOC has it.
#[test]
fn the_cause_follows_an_ioc_whose_end_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (ended, begun) = (10 * SECOND, 11500 * MS);
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let (function, module) = ("scanList".to_owned(), "libdbCore.so".to_owned());
    let (name, rtype) = ("T:CALC".to_owned(), "calc".to_owned());
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (ended, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })),
        (begun, Fact::from(Ioc { id: 9, pid: 500, start: begun, ..*demo })),
        (begun, Fact::Thread(Thread { id: 90, ioc: 9, tid: 501, name: "scan-0.1".into(), stack: 1 << 40 })),
        (begun, Fact::from(Record { id: 92, ioc: 9, address: 4096, name, rtype })),
        (begun, Fact::from(CallSite { id: 92, ioc: 9, address: 1, function, module })),
    ]);
    for (second, value, (thread, site, record)) in
        [(2, 1.0, (SCAN, 2, 2)), (3, 2.0, (SCAN, 2, 2)), (12, 5.0, (90, 92, 92)), (13, 6.0, (90, 92, 92))]
    {
        events.push((second * SECOND, process(thread, -100, site, record)));
        events.push((second * SECOND + 1000, complete(thread, -200, record, value, 0)));
    }
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let ask = || -> serde_json::Value {
        let words = ["why", "T:CALC", "--json", "--utc", log.to_str().unwrap()];
        let (_, out, err) = outcome(iocreplay(words).output().unwrap());
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"))
    };
    for is_damaged in [false, true] {
        let answer = ask();
        let told = (&answer["from"], &answer["to"], &answer["others"], &answer["started_anew"]);
        let (from, to) = (serde_json::json!(5.0), serde_json::json!(6.0));
        let truth = (&from, &to, &serde_json::json!([]), &serde_json::json!(true));
        assert_eq!(told, truth, "{is_damaged}: {answer}");
        if !is_damaged {
            damage(&log, ended);
        }
    }
}

/// A circuit that ended in a damaged block is not known to have been open when later blocks of the segment were written.
#[test]
fn what_ended_in_a_damaged_block_was_watched_until_then() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let ended = 10 * SECOND;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.push((ended, Fact::CircuitEnd(2)));
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    damage(&log, ended);
    let words = ["clients", "--utc", "--format", "jsonl", log.to_str().unwrap()];
    let (_, out, err) = outcome(iocreplay(words).output().unwrap());
    let until = |user: &str| {
        let mut lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let line = lines.find(|line| line["user"] == user).expect(user);
        line["watched_until"].as_str().unwrap_or_else(|| panic!("{line} {err}")).to_owned()
    };
    let told = "2026-09-21T14:13:30";
    let (gone, lasts) = (until("softioc"), until("alice"));
    assert!(gone.as_str() < told && lasts.as_str() > told, "{gone} {lasts}");
}

/// The last segment is damaged: no later one tells which circuits were still open. One of which something is read later was.
#[test]
fn what_was_open_before_damage_at_the_end_may_have_ended() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut events: Vec<(u64, Fact)> =
        (1..20).map(|second| (second * SECOND, Fact::Mark("tick".into()))).collect();
    let traffic = CircuitTraffic {
        circuit: 1,
        since: 15 * SECOND,
        from_client: 100,
        from_server: 100,
        messages: Vec::new(),
        not_looked_at: 0,
    };
    events.push((16 * SECOND, Fact::from(traffic)));
    events.push((10_500 * MS, Fact::CircuitEnd(2)));
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    damage(&log, 10_500 * MS);
    let (_, text, err) = outcome(iocreplay(["clients", "--utc"]).arg(&log).output().unwrap());
    assert!(err.contains("damaged"), "{err}");
    let line = |user: &str| text.lines().find(|line| line.contains(user)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("softioc").contains("not seen to end; a part of the log is missing after "), "{text}");
    assert!(line("alice").contains("still connected when its recording ended, "), "{text}");
}

/// A thread that stands still for long.
fn stuck() -> Stuck {
    Stuck {
        id: 7,
        ioc: 1,
        tid: 1003,
        thread: "scan-0.1".into(),
        after: SECOND,
        since: 3 * SECOND,
        wait: Wait::Sleep,
        object: String::new(),
        call: None,
        record: None,
        is_lockset: false,
        holder: None,
    }
}

/// What ended in a segment that can't be read, or that was deleted between others that are pinned, does not last to the end
/// of the log.
#[test]
fn what_ended_in_a_missing_segment_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let ended = 10 * SECOND;
    let mut events: Vec<(u64, Fact)> = noise(SECOND).collect();
    events.extend([
        (3 * SECOND, Fact::from(stuck())),
        (4 * SECOND, Fact::PvaMonitor(PvaMonitor { circuit: 2, channel: 2, ioid: 1, starts: true })),
        (ended, Fact::StuckEnd(StuckEnd { id: 7, ioc: 1, after: ended - SECOND, has_ended: false })),
        (ended, Fact::CircuitEnd(2)),
        (ended, Fact::IocEnd(IocEnd { ioc: 2, how: "exit status 0".into() })),
    ]);
    events.sort_by_key(|(time, _)| *time);
    write_events(&log, "box1", 7, events);
    let ask = |words: &[&str]| {
        let (code, out, err) = outcome(iocreplay(words).arg("--utc").arg(&log).output().unwrap());
        let is_said = ["is cut", "ends within a block"].iter().any(|words| err.contains(words));
        assert!(code == 0 || is_said, "{words:?}: {err}");
        out
    };
    let lines = |command: &str| -> Vec<serde_json::Value> {
        let out = ask(&[command, "--format", "jsonl"]);
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let one = |command: &str, key: &str, value: &str| {
        let mut all = lines(command).into_iter();
        all.find(|line| line[key] == value).unwrap_or_else(|| panic!("{command}: no {key} {value}"))
    };
    assert_eq!(one("stuck", "kind", "stuck")["ended"], "runs", "nothing is missing yet");
    assert_eq!(one("iocs", "ioc", "second")["end"], "exit status 0");

    let files = segments(&log);
    let begun = |file: &PathBuf| Segment::open(file).unwrap().header().created;
    let missing = files.iter().rposition(|file| begun(file) <= ended).unwrap();
    assert!(missing > 0 && missing + 1 < files.len(), "{missing} of {}", files.len());
    let told = "2026-09-21T14:13:30";
    let time = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let whole = fs::read(&files[missing]).unwrap();
    for is_cut in [true, false] {
        match is_cut {
            true => fs::write(&files[missing], &whole[..300]).unwrap(),
            false => fs::remove_file(&files[missing]).unwrap(),
        }
        let hang = one("stuck", "kind", "stuck");
        assert_eq!(hang["ended"], "unseen", "{hang}");
        assert!(time(&hang, "end").as_str() > told, "{hang}");
        assert!(!time(&hang, "text").contains("it still does"), "{hang}");

        let clients = lines("clients");
        let [lasts, gone] = ["alice", "softioc"]
            .map(|user| clients.iter().find(|line| line["user"] == user).expect("both were there").clone());
        for line in [&lasts, &gone] {
            // it was not seen to be closed
            assert_eq!(
                (&line["state"], &line["disconnected"]),
                (&serde_json::json!("open"), &serde_json::Value::Null),
                "{line}"
            );
        }
        assert!(time(&gone, "watched_until").as_str() < told, "{gone}");
        assert!(time(&lasts, "watched_until").as_str() > told, "{lasts}");

        let net = ask(&["net", "--all", "--format", "jsonl"]);
        let mut net = net.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let monitored = net.find(|line| line["kind"] == "monitored").expect("it was started");
        assert!(monitored["going_on"].is_null() && time(&monitored, "last").as_str() < told, "{monitored}");
        let shown = ask(&["net", "--all"]);
        assert!(shown.contains(", and its end was not seen"), "{shown}");

        let ioc = one("iocs", "ioc", "second");
        assert!(ioc["ended"].is_null() && time(&ioc, "ended_by").as_str() >= told, "{ioc}");
        let other = one("iocs", "ioc", "demo");
        assert!(other["ended_by"].is_null() && other["end"].is_null(), "{other}");
        let last = ask(&["last", "--ioc", "second"]);
        assert!(last.contains("ended unseen after ") && !last.contains("still ran"), "{last}");
        // of what is missing nothing can be shown: the minute is that before it
        let last: serde_json::Value =
            serde_json::from_str(&ask(&["last", "--ioc", "second", "--json"])).unwrap();
        assert!(time(&last, "end").as_str() < told && time(&last, "ended_by").as_str() >= told, "{last}");
        // so it is where that part is asked for
        let end = time(&last, "end");
        let asked: serde_json::Value =
            serde_json::from_str(&ask(&["last", "--ioc", "second", "--json", "--until", &end])).unwrap();
        for key in ["until", "how", "end", "ended_by"] {
            assert_eq!(asked[key], last[key], "{key}: {asked}");
        }
        // whole seconds, and not those before
        let (seconds, exact) = (time(&ioc, "ended_by"), time(&last, "ended_by"));
        let is_whole = exact[19..].starts_with(".000000000");
        assert!(seconds[..19] > exact[..19] || is_whole && seconds[..19] == exact[..19], "{ioc} {last}");
        let last = ask(&["last", "--ioc", "demo"]);
        assert!(last.contains("still ran when the log ends"), "{last}");
        let logs = ask(&["logs", "--kind", "ends"]);
        assert!(logs.contains("the IOC had ended by then, unseen"), "{logs}");
        if !is_cut {
            let followed = ask(&["follow", "--once", "--what", "deaths"]);
            assert!(followed.contains("the IOC had ended by then, unseen"), "{followed}");
        }
        let report = ask(&["report"]);
        assert!(report.contains(" or before, unseen: a part of the log is missing."), "no such verdict");
    }
}
