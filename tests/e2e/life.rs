//! How recorders and IOCs start and end, and what that costs.

use crate::plant::{iso, nanoseconds};
use crate::rig::{epics_versions, iocreplay, json_lines, wait_until, Delays, Ioc, Rig, FLUSH};
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PORT: u16 = 5074;
const MS: i64 = 1_000_000;

/// Nanoseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("now").as_nanos() as i64
}

/// The requested values of the puts to a PV in the log.
fn requested(rig: &Rig, pv: &str) -> Vec<i64> {
    rig.puts(&["--pv", pv]).iter().filter_map(|put| put["requested"].as_f64()).map(|v| v as i64).collect()
}

#[test]
fn kill_loses_no_more_than_the_flush_interval() {
    let Some(rig) = Rig::new("kill") else { return };
    let ioc = rig.ioc("kill", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let delays = Delays::measure();
    let begin = Instant::now();
    let mut done = Vec::new();
    // several flushes, and enough of them in the log
    while begin.elapsed() < FLUSH * 6 || requested(&rig, "PUT:LONG").len() < 20 {
        client.put("PUT:LONG", 5, json!(done.len()), true);
        done.push((Instant::now(), delays.total()));
    }
    let (end, delay) = (Instant::now(), delays.total());
    recorder.kill();
    let found = requested(&rig, "PUT:LONG");
    // Everything is there but the puts of the last flush interval. Half an interval more is for writing.
    let missing = done.get(found.len());
    let lost = missing.map_or(Duration::ZERO, |(time, _)| end.duration_since(*time));
    let limit = FLUSH * 3 / 2 + missing.map_or(Duration::ZERO, |(_, before)| delay - *before);
    assert!(found.len() > 10, "only {} puts: nothing is tested", found.len());
    assert!(lost <= limit, "puts of the last {lost:?} are lost: {} of {}", found.len(), done.len());
    assert!(found.iter().copied().eq(0..found.len() as i64), "a gap or disorder in {found:?}");
    let info = rig.replay("info", &[]);
    assert_eq!(info.status.code(), Some(0), "{}", String::from_utf8_lossy(&info.stderr));
}

#[test]
fn a_stopped_recorder_leaves_nothing_out_and_can_go_on() {
    let Some(rig) = Rig::new("stop") else { return };
    let ioc = rig.ioc("stop", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    for run in 0..2 {
        // With this flush interval, only the clean exit can have written the last puts.
        let dir = rig.log();
        let mut recorder =
            rig.agent(&["record", "--dir", &dir, "--pid", &ioc.pid_argument(), "--flush", "1s"]);
        rig.wait_until_recording(&mut client, "PUT:READY", "both");
        for number in 0..50 {
            client.put("PUT:LONG", 5, json!(run * 50 + number), true);
        }
        let status = recorder.stop();
        assert_eq!(status.code(), Some(0), "{}", recorder.errors());
        // Both runs are in one directory.
        let found = requested(&rig, "PUT:LONG");
        assert!(found.iter().copied().eq(0..(run as i64 + 1) * 50), "run {run}: {found:?}");
    }
}

/// The kernel takes seconds to remove the probes of a recorder that has ended. Two processes wait for that, in less time than
/// one, and the IOC serves meanwhile.
#[test]
fn two_processes_remove_the_probes() {
    let Some(rig) = Rig::alone("closing") else { return };
    let ioc = rig.ioc("closing", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let closing = || {
        let is_one = |process: &fs::DirEntry| {
            fs::read_to_string(process.path().join("comm"))
                .is_ok_and(|name| name.trim_end() == "iocrec-closing")
        };
        fs::read_dir("/proc").expect("/proc").flatten().filter(is_one).count()
    };
    assert_eq!(recorder.stop().code(), Some(0), "{}", recorder.errors());
    wait_until("two processes remove the probes", || closing() == 2);
    assert_eq!(client.put("PUT:LONG", 5, json!(7), true), 1);
    wait_until("all probes are removed", || closing() == 0);
    assert_eq!(client.put("PUT:LONG", 5, json!(8), true), 1);
}

/// Stops a recorder in the middle of a flood of puts.
fn end_while_busy(tier: &str) {
    let Some(rig) = Rig::new(&format!("busy-{tier}")) else { return };
    let ioc = rig.ioc("busy", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "ONE:READY", "both");
    let before = rig.log_bytes();
    client.begin_flood("ONE:SP", 100_000_000);
    wait_until("the flood is recorded", || rig.log_bytes() > before + 10_000);
    // Fails after the rig's patience; the flood would last for hours.
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// It exits on SIGTERM, though hits and packets never stop.
#[test]
fn a_busy_ioc_does_not_keep_it_from_ending_over_the_ring_buffer() {
    end_while_busy("ring");
}

#[test]
fn a_busy_ioc_does_not_keep_it_from_ending_over_perf_buffers() {
    end_while_busy("perf");
}

#[test]
fn duration_ends_it() {
    let Some(rig) = Rig::new("duration") else { return };
    let ioc = rig.ioc("duration", PORT, "puts.db", &[]);
    let begin = Instant::now();
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--duration", "2s"]);
    let status = recorder.wait();
    assert_eq!(status.code(), Some(0), "{}", recorder.errors());
    assert!(begin.elapsed() >= Duration::from_secs(2), "too early: {:?}", begin.elapsed());
    assert_eq!(rig.replay("info", &[]).status.code(), Some(0));
}

#[test]
fn an_ioc_that_starts_later_is_found_and_one_that_dies_is_missed() {
    let Some(rig) = Rig::new("come-and-go") else { return };
    let mut first = rig.ioc("goes", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    // Without --pid it has to find the processes, and finds those of other tests as well.
    let mut recorder = rig.record(&["--only", "PUT:READY", "--only", "TWO:*"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");

    let _second = rig.ioc("comes", PORT + 10, "second.db", &[]);
    let mut second_client = rig.client("libca", &[PORT + 10], &[]);
    rig.wait_until_recording(&mut second_client, "TWO:READY", "both");

    first.kill();
    wait_until("the end of the IOC is recorded", || {
        let info = rig.replay("info", &["--json"]);
        let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap_or_default();
        let iocs = info["runs"][0]["iocs"].as_array().cloned().unwrap_or_default();
        iocs.iter().any(|ioc| ioc["pid"] == first.pid() && ioc["ended"] == true)
    });
    // The one that stays is recorded as before.
    second_client.put("TWO:SP", 6, json!(42.5), true);
    wait_until("puts to the other", || {
        let puts = rig.puts(&["--pv", "TWO:SP", "--ioc", "comes"]);
        puts.iter().any(|put| put["requested"] == json!(42.5) && put["source"] == "both")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

#[test]
fn an_ioc_is_none_the_worse_for_being_recorded() {
    let Some(rig) = Rig::new("unharmed") else { return };
    let mut ioc = rig.ioc("unharmed", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut value = 0;
    let mut works = |ioc: &mut crate::rig::Ioc, client: &mut crate::rig::Client| {
        let begin = Instant::now();
        for _ in 0..100 {
            value += 1;
            client.put("ONE:SP", 5, json!(value), false);
            assert_eq!(client.get("ONE:A1"), json!(f64::from(value) * 2.0 + 2.0));
        }
        client.flood("ONE:SP", 5000);
        assert_eq!(client.get("ONE:A1"), json!(10000.0));
        assert!(ioc.runs());
        begin.elapsed()
    };
    let before = works(&mut ioc, &mut client);
    for tier in ["ring", "perf"] {
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
        rig.wait_until_recording(&mut client, "ONE:READY", "both");
        let during = works(&mut ioc, &mut client);
        assert!(recorder.runs(), "{}", recorder.errors());
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let after = works(&mut ioc, &mut client);
        // Not a timed test: the limit is far beyond what load on the machine explains.
        let limit = before * 20 + Duration::from_secs(5);
        assert!(during < limit && after < limit, "{before:?} before, {during:?} during, {after:?} after");
    }
    // A killed recorder leaves no harmful probe behind.
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:READY", "both");
    recorder.kill();
    works(&mut ioc, &mut client);
    assert!(ioc.command("dbgf ONE:A1").concat().contains("10000"));
}

/// As a service: SIGHUP changes nothing; on SIGTERM the recorder writes everything and exits.
#[test]
fn signals_of_a_service_manager() {
    let Some(rig) = Rig::new("signals") else { return };
    let ioc = rig.ioc("signals", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let dir = rig.log();
    // with this flush interval, only the exit can have written the last put
    let mut recorder = rig.agent(&["record", "--dir", &dir, "--flush", "4s", "--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    recorder.signal(libc::SIGHUP);
    client.put("PUT:LONG", 5, json!(1), true);
    assert!(recorder.runs(), "SIGHUP has ended it: {}", recorder.errors());
    let (begin, delays) = (Instant::now(), Delays::measure());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let took = begin.elapsed();
    assert!(took < LEAVES_WITHIN + delays.total(), "it took {took:?}");
    assert_eq!(requested(&rig, "PUT:LONG"), [1]);
}

/// Requirement: time from SIGTERM to the end of the process.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// The number of probes in a process's EPICS Base: bytes of code that differ from the file.
fn probes_in(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let code = maps.lines().filter(|line| line.contains(" r-xp ") && line.contains("/libdbCore.so"));
    code.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).expect("a number");
        let (begin, end) = words[0].split_once('-').expect("a range");
        let (begin, end) = (hexadecimal(begin), hexadecimal(end));
        let mut here = vec![0; usize::try_from(end - begin).expect("a size")];
        memory.read_exact_at(&mut here, begin).expect("its code");
        let file = std::fs::read(words[5]).expect("the library");
        let there = &file[usize::try_from(hexadecimal(words[2])).expect("an offset")..];
        here.iter().zip(there).filter(|(here, there)| here != there).count()
    })
    .sum()
}

/// The kernel needs many grace periods to remove many probes; the recorder does not wait for them.
#[test]
fn it_leaves_within_a_second_and_its_probes_go() {
    let Some(rig) = Rig::alone("leaving") else { return };
    let versions: Vec<String> =
        epics_versions().into_iter().filter(|version| !version.contains('-')).collect();
    let versions: Vec<&[&str]> = std::iter::once(&[][..])
        .chain(versions.iter().map(|version| &*Vec::leak(vec!["--epics", version])))
        .collect();
    assert!(versions.len() >= 3, "of each version there are probes, so it takes some: {versions:?}");
    let iocs: Vec<Ioc> = (0..)
        .zip(&versions)
        .map(|(number, version)| {
            rig.ioc_with(&format!("leaving-{number}"), PORT + 10 * number, "puts.db", version)
        })
        .collect();
    let pids: Vec<String> = iocs.iter().flat_map(|ioc| ["--pid".into(), ioc.pid_argument()]).collect();
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let log = rig.log();
    let record = [&["record", "--dir", &log][..], &pids].concat();
    let watch = [&["watch"][..], &pids].concat();
    for command in [&record, &record, &watch] {
        // the second one begins while the first one's probes are still being taken out
        let mut recorder = rig.agent(command);
        wait_until("all are recorded", || {
            recorder.errors().matches("recording leaving-").count() == iocs.len()
        });
        assert!(iocs.iter().all(|ioc| probes_in(ioc.pid()) > 0));
        let (begin, delays) = (Instant::now(), Delays::measure());
        let status = recorder.stop();
        let took = begin.elapsed();
        assert!(status.success(), "{}", recorder.errors());
        assert!(took < LEAVES_WITHIN + delays.total(), "{} took {took:?}", command[0]);
        // its output is closed as well
        while recorder.has_output() {}
        let took = begin.elapsed();
        assert!(
            took < LEAVES_WITHIN * 2 + delays.total(),
            "{} kept its output open for {took:?}",
            command[0]
        );
    }
    let (begin, delays) = (Instant::now(), Delays::measure());
    wait_until("all probes are gone", || iocs.iter().all(|ioc| probes_in(ioc.pid()) == 0));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(30) + delays.total(), "there were probes for {took:?}");
}

/// Other users cannot read the log.
#[test]
fn the_log_is_for_its_group_at_most() {
    use std::os::unix::fs::PermissionsExt;
    let Some(rig) = Rig::new("modes") else { return };
    let mut recorder = rig.agent(&["record", "--dir", &rig.log(), "--flush", "100ms", "--duration", "1s"]);
    assert!(recorder.wait().success(), "{}", recorder.errors());
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(rig.log().as_ref()), 0o750);
    let files = std::fs::read_dir(rig.log()).expect("the log").map(|file| file.expect("a file").path());
    let files = files.filter(|path| path.is_file());
    let modes: Vec<u32> = files.map(|file| mode(&file)).collect();
    assert!(!modes.is_empty() && modes.iter().all(|&mode| mode == 0o640), "{modes:?}");
}

#[test]
fn a_directory_has_one_recorder() {
    let Some(rig) = Rig::new("two") else { return };
    let mut first = rig.record(&[]);
    wait_until("the first records", || {
        std::fs::read_dir(rig.log()).is_ok_and(|mut log| log.next().is_some())
    });
    let mut second = rig.agent(&["record", "--dir", &rig.log(), "--duration", "1s"]);
    assert_eq!(second.wait().code(), Some(1));
    let errors = second.errors();
    assert!(
        errors.lines().count() == 1 && errors.contains("another recorder") && errors.contains(&rig.log()),
        "{errors}"
    );
    assert!(first.stop().success(), "{}", first.errors());
}

/// A supervisor restarts a killed recorder at once: the new one waits for the lock of the old one.
#[test]
fn a_restart_right_after_a_kill() {
    let Some(rig) = Rig::new("restart") else { return };
    let versions: Vec<String> =
        epics_versions().into_iter().filter(|version| !version.contains('-')).take(2).collect();
    // probes of several versions: what the kernel must take out before the process is gone
    let iocs: Vec<Ioc> = (0..)
        .zip(&versions)
        .map(|(number, version)| {
            rig.ioc_with(
                &format!("restart-{number}"),
                PORT + 200 + 10 * number,
                "puts.db",
                &["--epics", version],
            )
        })
        .collect();
    let pids: Vec<String> = iocs.iter().flat_map(|ioc| ["--pid".into(), ioc.pid_argument()]).collect();
    let log = rig.log();
    let mut arguments = vec!["record", "--dir", &log];
    arguments.extend(pids.iter().map(String::as_str));
    let mut recorder = rig.agent(&arguments);
    // no more, since each leaves seconds of work to the kernel, for which other tests wait
    for _ in 0..3 {
        wait_until("all are recorded", || {
            recorder.errors().matches("recording restart-").count() == iocs.len() || !recorder.runs()
        });
        assert!(recorder.runs(), "it was refused: {}", recorder.errors());
        recorder.signal(libc::SIGKILL);
        let next = rig.agent(&arguments);
        recorder.wait();
        recorder = next;
    }
    // a second recorder does not wait for a living one, even a stopped one
    wait_until("it records", || recorder.errors().contains("recording restart-"));
    recorder.signal(libc::SIGSTOP);
    let (begin, delays) = (Instant::now(), Delays::measure());
    let mut second = rig.agent(&["record", "--dir", &log, "--duration", "1s"]);
    assert_eq!(second.wait().code(), Some(1));
    let errors = second.errors();
    assert!(errors.contains("another recorder") && errors.contains(&recorder.pid().to_string()), "{errors}");
    assert!(begin.elapsed() < Duration::from_secs(3) + delays.total(), "it waited {:?}", begin.elapsed());
    recorder.signal(libc::SIGCONT);
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// A loss during a stall begins when the recorder last ran, not when it runs again.
#[test]
fn a_stall_is_missing_from_its_beginning() {
    let Some(rig) = Rig::new("stall") else { return };
    let ioc = rig.ioc("stall", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--no-puts"]);
    wait_until("it records", || recorder.errors().contains("recording stall"));
    client.connect("ONE:SP");
    recorder.signal(libc::SIGSTOP);
    let stall = Duration::from_secs(5);
    client.begin_flood("ONE:SP", 100_000_000);
    std::thread::sleep(stall);
    recorder.signal(libc::SIGCONT);
    let losses = || {
        let info = rig.replay("info", &["--json", "--utc"]);
        let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap_or_default();
        info["runs"][0]["losses"].as_array().cloned().unwrap_or_default()
    };
    let of_hits = |loss: &&serde_json::Value| loss["source"] == "hits";
    wait_until("the loss is in the log", || losses().iter().any(|loss| of_hits(&loss)));
    drop(client);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let losses = losses();
    let loss = losses.iter().find(of_hits).expect("hits were lost");
    let second = |key: &str| -> f64 {
        let time = loss[key].as_str().expect("a time").split_once('T').expect("a date").1;
        let parts: Vec<f64> = time
            .trim_end_matches('Z')
            .split('+')
            .next()
            .expect("a time")
            .split(':')
            .map(|part| part.parse().expect("a number"))
            .collect();
        parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]
    };
    let length = (second("last") - second("first") + 86_400.0) % 86_400.0;
    assert!(length >= stall.as_secs_f64(), "a stall of {stall:?} is a loss of {length} s: {losses:?}");
}

/// The log of a stopped recorder goes on for a moment without hits: no value is certain then.
#[test]
fn no_value_is_certain_once_the_recorder_is_stopped() {
    let Some(rig) = Rig::new("stopped") else { return };
    let ioc = rig.ioc("stopped", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    let signal = now();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let exit = now();

    let iocs = json_lines(&rig.replay("iocs", &["--format", "jsonl", "--utc"]).stdout);
    let to = &iocs[0]["attached"][0]["to"];
    assert!(to.is_string(), "hits up to the end of the log: {iocs:?}");
    let to = nanoseconds(to);
    assert!((signal - MS..=exit).contains(&to), "stopped from {signal} to {exit}, but hits end at {to}");
    let known = |time: i64| {
        let mut command = Command::new(iocreplay());
        let told = command.args(["at", &iso(time), &rig.log(), "--format", "jsonl"]).output().expect("at");
        let ticks = json_lines(&told.stdout).into_iter().find(|line| line["pv"] == "ONE:TICK");
        ticks.expect("the record that processes ten times a second")["known"].clone()
    };
    assert_eq!((known(to - MS), known(to + 2 * MS)), (json!("yes"), json!("doubt")));
}

/// IOCs keep their names even if they are examined while they die.
#[test]
fn names_outlive_iocs() {
    let Some(rig) = Rig::new("names") else { return };
    let mut iocs: Vec<Ioc> = (0..8)
        .map(|number| rig.ioc(&format!("name-{number}"), PORT + 300 + 10 * number, "puts.db", &[]))
        .collect();
    let pids: Vec<String> = iocs.iter().flat_map(|ioc| ["--pid".into(), ioc.pid_argument()]).collect();
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let mut recorder = rig.record(&pids);
    wait_until("all are recorded", || recorder.errors().matches("recording name-").count() == iocs.len());
    for (number, ioc) in iocs.iter_mut().enumerate() {
        std::thread::sleep(Duration::from_millis(number as u64 * 37 % 250));
        ioc.kill();
    }
    wait_until("their ends are noticed", || recorder.errors().matches(" has ended: ").count() == iocs.len());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let known = crate::rig::json_lines(&rig.replay("iocs", &["--json"]).stdout);
    let mut names: Vec<&str> = known.iter().filter_map(|ioc| ioc["ioc"].as_str()).collect();
    names.sort_unstable();
    let expected: Vec<String> = (0..8).map(|number| format!("name-{number}")).collect();
    assert_eq!(names, expected, "{known:?}");
    assert!(
        expected.iter().all(|name| recorder.errors().contains(&format!("{name} (pid "))),
        "{}",
        recorder.errors()
    );
}
