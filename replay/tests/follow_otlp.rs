//! `follow --otlp --signals`: what a collector gets while the log grows is what the commands of each signal find in the log
//! afterwards, also if the collector was down meanwhile. The collector is a stand-in of our own, which can be made to fail;
//! what it got is decoded by the official definitions (`check_signals.py`).

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::collector::{fields, Mode, StandIn};
use common::growing::{end, follow, lines, sorted, wait_until, whole, Follower, Recorder};
use common::{consumers, iocreplay, outcome, run, segments, write_log, SECOND};
use iocrec_log::event::*;
use iocrec_log::stream::{Position, Sender};
use not_run::{not_run, Needs};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A series: its resource, metric and labels.
type Series = (Vec<u8>, String, Vec<Vec<u8>>);

/// The last number of each series.
fn numbers(message: &[u8]) -> BTreeMap<Series, Vec<u8>> {
    let mut last = BTreeMap::new();
    for (resource, metric) in lines(message) {
        let metric = fields(&metric);
        let name =
            String::from_utf8(metric.iter().find(|(number, _)| *number == 1).unwrap().1.to_vec()).unwrap();
        let data = metric.iter().find(|(number, _)| matches!(number, 5 | 7)).unwrap().1;
        for (_, point) in fields(data) {
            let point = fields(point);
            let labels =
                point.iter().filter(|(number, _)| *number == 7).map(|(_, label)| label.to_vec()).collect();
            let value = point.iter().find(|(number, _)| matches!(number, 4 | 6)).unwrap().1.to_vec();
            last.insert((resource.clone(), name.clone(), labels), value);
        }
    }
    last
}

#[test]
fn each_signal_comes_once_also_if_the_collector_was_down() {
    let here = tempfile::tempdir().unwrap();
    let (here, log) = (here.path(), here.path().join("log"));
    let mut recorder = Recorder::begin(&log);
    let collector = StandIn::start();
    recorder.go_on(0);
    let child = follow(here, &["--otlp", &collector.url, "--signals", "traces,logs,metrics"]);
    wait_until("the first round", || !lines(&collector.taken("logs")).is_empty());
    recorder.go_on(1);
    wait_until("the second round", || {
        lines(&collector.taken("logs"))
            .iter()
            .any(|(_, record)| record.windows(6).any(|part| part == b"line 1"))
    });
    assert!(!lines(&collector.taken("metrics")).is_empty(), "metrics come while it is followed");
    collector.set(Mode::Down);
    for round in 2..5 {
        recorder.go_on(round);
    }
    wait_until("sending", || collector.refused() >= 3);
    recorder.go_on(5);
    let before = ["traces", "logs", "metrics"].map(|signal| collector.taken(signal).len());
    collector.set(Mode::Takes);
    recorder.go_on(6);
    let end_of = IocEnd { ioc: 2, how: "killed by SIGKILL".into() };
    recorder.writer.push(Event { time: 30 * SECOND, fact: Fact::IocEnd(end_of) });
    recorder.tick(31 * SECOND);
    recorder.writer.close(32 * SECOND);
    wait_until("the last of the log", || {
        let records = lines(&collector.taken("logs"));
        let has_ended =
            records.iter().any(|(_, record)| record.windows(17).any(|part| part == b"killed by SIGKILL"));
        has_ended && lines(&collector.taken("traces")).len() >= lines(&whole(here, "traces")).len()
    });
    // while the log stands still
    let counts = numbers(&whole(here, "metrics"));
    wait_until("the last of the metrics", || numbers(&collector.taken("metrics")) == counts);
    // long enough that anything sent twice would have come
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    let (code, said) = end(child);
    assert_eq!(code, 0, "{said}");
    assert!(said.lines().all(|line| line.contains("next try in")) && said.lines().count() >= 3, "{said}");
    let after = ["traces", "logs", "metrics"].map(|signal| collector.taken(signal).len());
    assert!(before.iter().zip(after).all(|(before, after)| *before < after), "{before:?} {after:?}");
    // with the ids that the whole log gives, and those of an IOC in the order of the log
    let (taken, all) = (lines(&collector.taken("logs")), lines(&whole(here, "logs")));
    assert_eq!(sorted(taken.clone()), sorted(all.clone()));
    let of = |all: &[(Vec<u8>, Vec<u8>)], resource: &[u8]| -> Vec<Vec<u8>> {
        all.iter().filter(|(own, _)| own == resource).map(|(_, record)| record.clone()).collect()
    };
    for (resource, _) in &all {
        assert_eq!(of(&taken, resource), of(&all, resource));
    }
    assert_eq!(sorted(lines(&collector.taken("traces"))), sorted(lines(&whole(here, "traces"))));
    assert_eq!(numbers(&collector.taken("metrics")), counts);
    assert!(counts.len() > 15, "{counts:?}");
    for name in
        ["epics.ioc.puts", "epics.ioc.cpu.time", "epics.ioc.chains.left_out", "epics.ioc.ends", "iocrec.lost"]
    {
        assert!(counts.keys().any(|(_, own, _)| own == name), "{name}");
    }
    let name = "follow_otlp::each_signal_comes_once_also_if_the_collector_was_down";
    let Some(python) = consumers::python().filter(|_| consumers::package("opentelemetry").is_some()) else {
        return not_run(name, Needs::Program("opentelemetry"));
    };
    for signal in ["logs", "metrics"] {
        let file = here.join(signal);
        fs::write(&file, collector.taken(signal)).unwrap();
        let checked = consumers::script(&python, "check_signals.py", &[signal, file.to_str().unwrap()]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// Everything that `iocrec cat` sends now.
fn stream(log: &Path, from: &str, with_end: bool) -> Vec<u8> {
    let mut sender = Sender::new(log, Position::parse(from));
    let mut bytes = Vec::new();
    while sender.step(&mut bytes).unwrap() {}
    if with_end {
        sender.rest(true, &mut bytes).unwrap();
    }
    bytes
}

/// Through a pipe that breaks off again and again, and once while the collector is down.
#[test]
fn a_spool_goes_on_without_a_record_twice_or_missing() {
    let here = tempfile::tempdir().unwrap();
    let (here, log) = (here.path(), here.path().join("log"));
    let mut recorder = Recorder::begin(&log);
    let collector = StandIn::start();
    let mut from = "oldest".to_owned();
    for round in 0..6 {
        if round < 5 {
            recorder.go_on(round);
        } else {
            // what had not settled comes when it has
            std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(1));
        }
        collector.set(if round == 2 { Mode::Down } else { Mode::Takes });
        let refused = collector.refused();
        let words = ["follow", "-", "--spool", "kept", "--otlp", &collector.url, "--signals", "logs,metrics"];
        let mut command = iocreplay(words);
        command.current_dir(here).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&stream(&log, &from, round == 5)).unwrap();
        let mut follower = Follower(Some(child));
        let (code, said) = if round == 2 {
            wait_until("sending", || collector.refused() > refused);
            end(follower)
        } else {
            let (code, _, said) = outcome(follower.0.take().unwrap().wait_with_output().unwrap());
            (code, said)
        };
        assert_eq!(code, i32::from(round != 5), "{said}");
        from = run(here, &["follow", "--position", "--spool", "kept"]).1.trim().to_owned();
    }
    assert_eq!(sorted(lines(&collector.taken("logs"))), sorted(lines(&whole(here, "logs"))));
}

/// Nothing waits for ever: a signal ends it, and the line says what is to be done.
#[test]
fn a_signal_ends_waiting_for_a_collector() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let collector = StandIn::start();
    collector.set(Mode::Down);
    let child = follow(here.path(), &["--otlp", &collector.url, "--signals", "logs"]);
    wait_until("sending", || collector.refused() >= 2);
    let begun = Instant::now();
    let (code, said) = end(child);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let last = said.lines().last().unwrap();
    let rest = "sent 0 log records in 0 requests before; the log has the rest: send it with --since";
    assert!(code == 1 && last.ends_with(rest), "{said}");
}

/// What is sent alone is written nowhere, so it goes on where nobody reads standard output.
#[test]
fn sending_needs_no_reader() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let collector = StandIn::start();
    let mut command = iocreplay(["traces", "log", "--follow", "--otlp", &collector.url]);
    let command = command.current_dir(here.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut follower = Follower(Some(child));
    wait_until("sending", || !lines(&collector.taken("traces")).is_empty());
    // it looks twice a second
    std::thread::sleep(Duration::from_secs(2));
    let ended = follower.0.as_mut().unwrap().try_wait().unwrap();
    assert!(ended.is_none(), "{ended:?}");
}

#[test]
fn what_is_there_is_sent_at_once_and_options_choose() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let sent = |options: &[&str]| {
        let collector = StandIn::start();
        let words =
            [&["follow", "log", "--once", "--what", "marks", "--otlp", &collector.url], options].concat();
        let (code, out, err) = run(here.path(), &words);
        let why =
            if options.contains(&"none") { "iocreplay: no IOC matches 'none'; these logs have " } else { "" };
        assert!(code == 0 && err.starts_with(why) && err.is_empty() == why.is_empty(), "{err}");
        assert!(out.lines().all(|line| line.ends_with("mark: beam lost")), "{out}");
        ["traces", "logs", "metrics"].map(|signal| lines(&collector.taken(signal)).len())
    };
    let count = |command: &str| lines(&whole(here.path(), command)).len();
    let [traces, logs, metrics] = ["traces", "logs", "metrics"].map(count);
    assert!(traces > 0 && logs > 0 && metrics > 0);
    assert_eq!(sent(&[]), [traces, 0, 0], "as before there were signals to choose");
    assert_eq!(sent(&["--signals", "logs"]), [0, logs, 0]);
    assert_eq!(sent(&["--signals", "metrics, traces"]), [traces, 0, metrics]);
    // of another IOC there is nothing but what is about the host
    assert_eq!(sent(&["--signals", "logs", "--ioc", "none"]), [0, logs - ioc_records(here.path()), 0]);
    for (words, reason) in [
        (&["--signals", "logs"][..], "name it, too: --otlp http://HOST:4318"),
        (
            &["--otlp", "http://x:4318", "--signals", "logs,spans"],
            "'spans' is no signal; name some of traces,logs,metrics",
        ),
        (&["--otlp", "http://x:4318", "--signals", ""], "'' is no signal"),
        (&["--otlp", "http://x:4318", "--signals", "metrics", "--pv", "T:SP"], "metrics count all of an IOC"),
        (
            &["--otlp", "http://x:4318", "--signals", "metrics", "--user", "alice"],
            "metrics count all of an IOC",
        ),
    ] {
        let (code, out, err) = run(here.path(), &[&["follow", "log", "--once"], words].concat());
        assert!(code == 2 && out.is_empty() && err.contains(reason) && err.lines().count() == 1, "{err}");
    }
}

/// Log records that are of an IOC, not of the host.
fn ioc_records(here: &Path) -> usize {
    let (_, text, _) = run(
        here,
        &["logs", "log", "--kind", "puts", "--kind", "alarms", "--kind", "console", "--kind", "ends"],
    );
    text.lines().count()
}

/// While it waits, the recorder's cap deletes what was not read.
#[test]
fn what_was_deleted_meanwhile_is_a_gap() {
    let here = tempfile::tempdir().unwrap();
    let (here, log) = (here.path(), here.path().join("log"));
    let mut recorder = Recorder::begin(&log);
    recorder.go_on(0);
    let collector = StandIn::start();
    let options = ["--otlp", &collector.url, "--signals", "logs", "--textfile", "counts"];
    let child = follow(here, &options);
    wait_until("the first round", || !lines(&collector.taken("logs")).is_empty());
    collector.set(Mode::Down);
    let down = Instant::now();
    recorder.go_on(1);
    wait_until("sending", || collector.refused() > 0);
    for round in 2..8 {
        // text that does not pack fills a segment
        let noise =
            (0..60_000_u32).map(|n| char::from(b'!' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90));
        let fact = Fact::Mark(noise.chain(round.to_string().chars()).collect());
        recorder.writer.push(Event { time: (4 * round + 1) * SECOND, fact });
        recorder.go_on(round);
    }
    // what only waits for the collector was shown long ago
    let puts = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("iocrec_follow_puts_total{"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (_, all, _) = run(here, &["puts", "log"]);
    wait_until("showing", || {
        let counted = puts(&fs::read_to_string(here.join("counts")).unwrap_or_default());
        let sum: usize =
            counted.iter().map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum();
        sum == all.lines().count()
    });
    let mut there = segments(&log);
    let last = there.pop().unwrap();
    assert!(there.len() >= 4, "{there:?}");
    there.iter().for_each(|segment| fs::remove_file(segment).unwrap());
    collector.set(Mode::Takes);
    let (outage, up) = (down.elapsed(), Instant::now());
    wait_until("the gap", || {
        fs::read_to_string(here.join("counts"))
            .is_ok_and(|text| text.contains("iocrec_follow_gaps_total 1\n"))
    });
    // the pause before the next try is as long as all before; waiting is no reason to rest from reading
    let (after, longest) = (up.elapsed(), outage * 2 + Duration::from_secs(10));
    assert!(after < longest, "read again only {after:?} after {outage:?} without a collector");
    let (code, said) = end(child);
    assert_eq!(code, 0, "{said}");
    let gap = said.lines().find(|line| line.contains("a gap: ")).unwrap();
    // the first that is there, but for those that were read to their end: none, one or two
    let deleted: usize = gap.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!((there.len() - 2..=there.len()).contains(&deleted), "{gap}: {there:?} {last:?}");
    assert!(
        gap.ends_with(" gone before they were sent") && gap.contains("segments of the recorder of box1"),
        "{gap}"
    );
}

/// Who asks for what is there now gets an end.
#[test]
fn once_does_not_wait_for_ever() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let collector = StandIn::start();
    collector.set(Mode::Down);
    let begun = Instant::now();
    let (code, _, err) =
        run(here.path(), &["follow", "--once", "log", "--otlp", &collector.url, "--signals", "logs"]);
    assert!(code == 1 && err.contains("(tried 6 times); sent 0 log records"), "{err}");
    assert!(begun.elapsed() < Duration::from_secs(120) && collector.refused() == 6, "{err}");
}

/// `-o` is refused while a log is followed, so nobody is told to try it.
#[test]
fn a_full_standard_output_is_said_with_what_helps() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    for (words, helps) in [
        (&["follow", "--once", "log"][..], "; make room there, or write elsewhere: > FILE\n"),
        (&["puts", "--follow", "log"], "; make room there, or write elsewhere: > FILE\n"),
        (&["puts", "log"], "; try -o FILE\n"),
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = iocreplay(words).current_dir(here.path()).stdout(full).stderr(Stdio::piped()).output();
        let (code, _, err) = outcome(output.unwrap());
        assert!(code == 1 && err.lines().count() == 1 && err.ends_with(helps), "{words:?}: {err}");
        assert!(err.contains("can't write to standard output: No space left on device"), "{err}");
    }
}
