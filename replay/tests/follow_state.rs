//! `follow` where something is down or ends: a collector that takes nothing holds up no other output, and with `--state` a
//! later run goes on where the one before ended, whatever of it the collector had taken by then. Collector and syslog are
//! stand-ins of our own; rotel, a real collector, is in `send_to_rotel.py`.

mod common;

use common::collector::{Mode, StandIn};
use common::growing::{end, follow, lines, sorted, wait_until, whole, Follower, Recorder};
use common::{ca_put, complete, iocreplay, process, put, run, write_events, write_log, CLIENT, MS, SECOND};
use iocrec_log::event::*;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Follows with standard output appended to `shown`.
fn follow_into(here: &Path, options: &[&str]) -> Follower {
    let words = [&["follow", "log", "--utc", "--interval", "1", "--format", "jsonl"], options].concat();
    let shown = File::options().create(true).append(true).open(here.join("shown")).unwrap();
    let mut command = iocreplay(words);
    Follower(Some(command.current_dir(here).stdout(shown).stderr(Stdio::piped()).spawn().unwrap()))
}

/// What tells a line from others: how long an alarm lasted depends on when that is asked.
fn essence(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    ["event", "time", "pv", "record", "what", "text"].map(|key| line[key].to_string()).join(" ")
}

/// The whole lines that were shown.
fn shown(here: &Path) -> Vec<String> {
    let text = fs::read_to_string(here.join("shown")).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(essence).collect()
}

/// What a run shows of all that is there.
fn all(here: &Path) -> Vec<String> {
    let (code, out, err) = run(here, &["follow", "log", "--utc", "--format", "jsonl", "--once"]);
    assert_eq!(code, 0, "{err}");
    out.lines().map(essence).collect()
}

#[test]
fn other_outputs_go_on_while_a_collector_takes_nothing() {
    for mode in [Mode::Down, Mode::Busy, Mode::Slow] {
        let here = tempfile::tempdir().unwrap();
        let here = here.path();
        let mut recorder = Recorder::begin(&here.join("log"));
        let collector = StandIn::start();
        collector.set(mode);
        let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
        syslog.set_nonblocking(true).unwrap();
        let target = format!("udp://{}", syslog.local_addr().unwrap());
        recorder.go_on(0);
        let options = ["--otlp", &collector.url, "--signals", "traces,logs,metrics", "--textfile", "counts"];
        let child = follow_into(here, &[&options[..], &["--syslog", &target]].concat());
        let mut messages = Vec::new();
        let mut message = [0; 4096];
        for round in 0..3 {
            if round > 0 {
                recorder.go_on(round);
            }
            let text = format!("line {round}");
            wait_until("the line", || shown(here).iter().any(|line| line.contains(&text)));
            wait_until("the message", || {
                while let Ok(length) = syslog.recv(&mut message) {
                    messages.push(String::from_utf8_lossy(&message[..length]).into_owned());
                }
                messages.iter().any(|message| message.contains(&text))
            });
        }
        let puts: usize = shown(here).iter().filter(|line| line.starts_with("\"put\"")).count();
        assert!(puts > 3, "{puts}");
        wait_until("the counts", || {
            let text = fs::read_to_string(here.join("counts")).unwrap_or_default();
            let of = |line: &str| line.starts_with("iocrec_follow_puts_total{");
            let number = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap();
            text.lines().filter(|line| of(line)).map(number).sum::<usize>() >= puts
        });
        assert!(collector.refused() > 0 && collector.taken("logs").is_empty(), "{mode:?}");
        collector.set(Mode::Takes);
        recorder.writer.close(20 * SECOND);
        let expected = ["traces", "logs"].map(|signal| sorted(lines(&whole(here, signal))));
        wait_until("the collector's part", || {
            ["traces", "logs"].map(|signal| lines(&collector.taken(signal)).len())
                == [expected[0].len(), expected[1].len()]
        });
        std::thread::sleep(Duration::from_secs(1));
        let (code, said) = end(child);
        assert_eq!(code, 0, "{said}");
        assert!(said.lines().all(|line| line.contains("next try in")) && !said.is_empty(), "{said}");
        assert_eq!(
            ["traces", "logs"].map(|signal| sorted(lines(&collector.taken(signal)))),
            expected,
            "{mode:?}"
        );
        assert_eq!(sorted_lines(shown(here)), sorted_lines(all(here)), "{mode:?}");
    }
}

fn sorted_lines(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// It is ended while all goes well, while the collector is down, and after it took one request of several.
#[test]
fn a_later_run_goes_on_with_each_line_and_each_record_once() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let mut recorder = Recorder::begin(&here.join("log"));
    let collector = StandIn::start();
    let options = ["--state", "state", "--otlp", &collector.url, "--signals", "traces,logs"];
    for round in 0..6 {
        recorder.go_on(round);
        match round {
            1 | 3 => collector.take_only(1),
            2 => collector.set(Mode::Down),
            _ => collector.set(Mode::Takes),
        }
        let (refused, before) = (collector.refused(), shown(here).len());
        let child = follow_into(here, &options);
        wait_until("a line", || shown(here).len() > before);
        match round {
            1..=3 => wait_until("a request that is not taken", || collector.refused() > refused + 1),
            _ => wait_until("the records", || {
                let text = format!("line {round}");
                collector.taken("logs").windows(text.len()).any(|part| part == text.as_bytes())
            }),
        }
        let (code, said) = end(child);
        assert_eq!(code, i32::from((1..=3).contains(&round)), "{said}");
        if code == 1 {
            assert!(said.ends_with("before; a later run sends the rest\n"), "{said}");
        }
    }
    recorder.writer.close(30 * SECOND);
    let expected = ["traces", "logs"].map(|signal| sorted(lines(&whole(here, signal))));
    let child = follow_into(here, &options);
    wait_until("all", || {
        ["traces", "logs"].map(|signal| lines(&collector.taken(signal)).len())
            == [expected[0].len(), expected[1].len()]
            && shown(here).len() == all(here).len()
    });
    // long enough for what would come twice
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    let (code, said) = end(child);
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(["traces", "logs"].map(|signal| sorted(lines(&collector.taken(signal)))), expected);
    assert_eq!(sorted_lines(shown(here)), sorted_lines(all(here)));
}

/// The first pass over a log that is there already takes many requests; it is ended in the middle, again and again.
#[test]
fn a_first_pass_goes_on_in_the_middle() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    for n in 0..7000 {
        // four minutes, of which only the last is read again
        let (t, v) = (SECOND + n * 35 * MS, n as f64);
        facts.push((t, ca_put(1, 1, false, 1, v)));
        facts.push((t + 100, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), v - 1.0, v)));
        facts.push((t + 110, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), v - 1.0, v)));
        facts.push((t + 120, process(CLIENT, -1200, 0, 1)));
        facts.push((t + 160, complete(CLIENT, -1300, 1, v, 0)));
    }
    write_events(&here.join("log"), "box1", 7, facts);
    let collector = StandIn::start();
    let options = ["--state", "state", "--otlp", &collector.url, "--signals", "traces,logs"];
    for taken in [1, 7, 4] {
        collector.take_only(taken);
        let refused = collector.refused();
        let child = follow(here, &options);
        wait_until("a request that is not taken", || collector.refused() > refused);
        assert_eq!(end(child).0, 1);
    }
    collector.set(Mode::Takes);
    let words = ["follow", "log", "--utc", "--once"];
    let (code, _, said) = run(here, &[&words[..], &options].concat());
    assert_eq!((code, said.as_str()), (0, ""));
    for signal in ["traces", "logs"] {
        let (taken, all) = (sorted(lines(&collector.taken(signal))), sorted(lines(&whole(here, signal))));
        assert!(taken.len() >= 7000, "{}", taken.len());
        assert!(taken == all, "{signal}: {} of {}", taken.len(), all.len());
    }
    // and nothing more
    let (code, out, said) = run(here, &[&words[..], &options].concat());
    assert_eq!((code, out.as_str(), said.as_str()), (0, "", ""));
    assert_eq!(lines(&collector.taken("logs")).len(), 7000);
}

/// Killed at any moment, nothing is missing; what comes twice is what came since the state was written.
#[test]
fn nothing_is_missing_after_a_kill() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let mut recorder = Recorder::begin(&here.join("log"));
    for round in 0..3 {
        recorder.go_on(round);
        let (before, state) = (shown(here).len(), fs::read(here.join("state")).ok());
        let mut child = follow_into(here, &["--state", "state"]);
        wait_until("a line", || shown(here).len() > before);
        // lines are written before the state: a kill in between would show all of them again
        wait_until("its state", || fs::read(here.join("state")).ok() != state);
        child.0.as_mut().unwrap().kill().unwrap();
    }
    recorder.writer.close(20 * SECOND);
    let mut child = follow_into(here, &["--state", "state", "--once"]);
    assert!(child.0.take().unwrap().wait().unwrap().success());
    let shown = shown(here);
    let missing: Vec<String> = all(here).into_iter().filter(|line| !shown.contains(line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // each line once more at most, however slow this machine is; without a state they would come twice more
    let (again, all) = (shown.len() - shown.iter().collect::<BTreeSet<_>>().len(), all(here).len());
    assert!(again < all, "{again} came again of {all}");
}

#[test]
fn a_state_of_something_else_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    write_log(&here.join("log"), "box1", 7);
    write_log(&here.join("other"), "box1", 8);
    let once = |log: &str, state: &str| run(here, &["follow", log, "--once", "--state", state]);
    let (code, out, err) = once("log", "state");
    assert!(code == 0 && err.is_empty() && out.lines().count() > 3, "{err}");
    let (code, out, err) = once("log", "state");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""), "all of it was shown");
    // the same log in another place is the same
    fs::rename(here.join("log"), here.join("moved")).unwrap();
    let (code, out, err) = once("moved", "state");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let kept = fs::read(here.join("state")).unwrap();
    let refused = |log: &str, state: &str, code: i32, reason: &str| {
        let (got, out, err) = once(log, state);
        assert!(
            (got, out.as_str()) == (code, "") && err.contains(reason) && err.lines().count() == 1,
            "{got} {err}"
        );
    };
    refused("other", "state", 1, "state is the state of another log, ");
    assert_eq!(fs::read(here.join("state")).unwrap(), kept);
    for text in ["", "hello\n", "{}", "{\"hosts\":[],\"alarms\":[]}"] {
        fs::write(here.join("notes"), text).unwrap();
        refused("moved", "notes", 1, "notes is no state of iocreplay follow, or damaged");
        assert_eq!(fs::read_to_string(here.join("notes")).unwrap(), text);
    }
    refused("moved", "none/state", 1, "can't keep in none/state");
    refused("moved", ".", 1, "is no state");
    refused("moved", "moved/state", 2, "--state");
    refused("moved", "", 2, "--state");
    let (code, _, err) = run(here, &["follow", "-", "--state", "x"]);
    assert!(code == 2 && err.contains("for - use --spool"), "{err}");
    // two that write it at a time would undo each other's
    let child = follow(here, &["--state", "busy"]);
    drop(child);
    fs::rename(here.join("moved"), here.join("log")).unwrap();
    let child = follow(here, &["--state", "busy"]);
    wait_until("the state", || here.join("busy").exists());
    refused("log", "busy", 1, "another iocreplay follow uses the state /");
    assert_eq!(end(child).0, 0);
}

/// Files that are made beside the state are never others': what stands there is neither written to nor waited for.
#[test]
#[cfg(unix)]
fn links_and_pipes_beside_a_state_are_left_alone() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    write_log(&here.join("log"), "box1", 7);
    fs::write(here.join("victim"), "precious").unwrap();
    std::os::unix::fs::symlink("victim", here.join("state.part")).unwrap();
    let once = |state: &str| run(here, &["follow", "log", "--once", "--state", state]);
    let (code, out, err) = once("state");
    assert!(code == 0 && err.is_empty() && out.lines().count() > 3, "{err}");
    assert_eq!(fs::read_to_string(here.join("victim")).unwrap(), "precious");
    assert_eq!(once("state"), (0, String::new(), String::new()), "it was kept");
    // neither begins to wait for somebody at the other end
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(here.join(name)).status().unwrap();
        assert!(made.success());
    };
    pipe("second.part");
    assert_eq!(once("second").0, 0);
    pipe("third.lock");
    std::os::unix::fs::symlink("nothing", here.join("fourth.lock")).unwrap();
    for state in ["third", "fourth"] {
        let (code, out, err) = once(state);
        assert!((code, out.as_str()) == (1, "") && err.contains(&format!("can't keep in {state}")), "{err}");
    }
    assert!(!here.join("nothing").exists());
}

/// `--since` chooses where the first run begins, and no more: a service that starts again says the same each time.
#[test]
fn since_is_that_of_the_first_run() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    write_log(&here.join("log"), "box1", 7);
    let words = ["follow", "log", "--utc", "--once"];
    let (_, whole, _) = run(here, &words);
    let since = whole.lines().nth(whole.lines().count() / 2).unwrap().split(' ').next().unwrap();
    let options = ["--state", "state", "--since", since];
    let (code, out, err) = run(here, &[&words[..], &options].concat());
    assert!(code == 0 && err.is_empty(), "{err}");
    assert!(!out.is_empty() && whole.ends_with(&out) && whole.len() > out.len());
    for later in [&options[..2], &["--state", "state", "--since", "-10m"]] {
        let (code, out, err) = run(here, &[&words[..], later].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    }
}
