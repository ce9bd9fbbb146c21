//! Pinned segments: around marks, severe alarms, chosen puts and the death of an IOC. They stay when the rest of the log is
//! deleted, and `iocrec status` reports them.

use crate::rig::{run, wait_until, Client, Rig, FLUSH, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5074;
/// What the recorders here are started with as --pin-after.
const PIN_AFTER: Duration = Duration::from_secs(1);

fn agent(arguments: &[&str]) -> Output {
    run(Command::new(IOCREC).args(arguments))
}

/// The report of `iocrec status`.
fn status(rig: &Rig) -> Value {
    let output = agent(&["status", "--dir", &rig.log(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Puts until the recorder has deleted that many segments.
fn turn_over(rig: &Rig, client: &mut Client, segments: u64) {
    wait_until("the log turns over", || {
        client.flood("PUT:DOUBLE", 1000); // no more than the ring holds
        status(rig)["disk"]["deleted"].as_u64() >= Some(segments)
    });
}

/// A recorder that was stopped makes the mark once it goes on. Who asked for it has gone by then, but knows.
#[test]
fn a_mark_that_comes_late() {
    let Some(rig) = Rig::new("late-mark") else { return };
    let ioc = rig.ioc("late-mark", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("it records", || recorder.errors().contains("recording late-mark"));
    recorder.signal(libc::SIGSTOP);
    let marked = agent(&["mark", "--dir", &rig.log(), "late"]);
    recorder.signal(libc::SIGCONT);
    let errors = String::from_utf8_lossy(&marked.stderr);
    assert!(marked.status.code() == Some(1) && errors.contains("the mark may be made later"), "{errors}");
    wait_until("the mark is made", || {
        rig.runs().first().is_some_and(|run| run["marks"][0]["text"] == "late")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

#[test]
fn segments_around_a_mark_outlive_the_rest_and_a_restart() {
    let Some(rig) = Rig::new("mark") else { return };
    let ioc = rig.ioc("mark", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let pid = ioc.pid_argument();
    let options = ["--pid", &pid, "--max-disk", "256K", "--pin-before", "3s", "--pin-after", "1s"];
    let mut recorder = rig.record(&options);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.put("PUT:TEXT", 0, json!("just before"), true);
    let marked = agent(&["mark", "--dir", &rig.log(), "beam", "lost \u{1b}[2J"]);
    assert_eq!(marked.status.code(), Some(0), "{}", String::from_utf8_lossy(&marked.stderr));
    client.put("PUT:TEXT", 0, json!("just after"), true);
    // what follows is pinned until a second after the mark
    sleep(PIN_AFTER + FLUSH);
    turn_over(&rig, &mut client, 8);
    let about = status(&rig);
    assert_eq!(
        (&about["running"], &about["storing"], &about["tier"]),
        (&json!(true), &json!(true), &json!("ring"))
    );
    assert_eq!(about["iocs"][0]["pid"], json!(ioc.pid()));
    assert!(
        about["pins"]["segments"].as_u64() > Some(0) && about["rates"]["puts"].as_f64() > Some(1.0),
        "{about}"
    );
    let text = agent(&["status", "--dir", &rig.log()]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("storing   yes") && text.contains("pins "), "{text}");
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let mut recorder = rig.record(&options);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    turn_over(&rig, &mut client, 8);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let texts = rig.puts(&["--pv", "PUT:TEXT"]);
    let texts: Vec<&str> = texts.iter().filter_map(|put| put["requested"].as_str()).collect();
    assert_eq!(texts, ["just before", "just after"]);
    let runs = rig.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0]["marks"][0]["text"], "beam lost \u{1b}[2J");
    assert!(runs[0]["pins"][0]["cause"].as_str().is_some_and(|cause| cause.starts_with("beam lost")));
    assert!(runs[0]["pinned_segments"].as_u64() > Some(0), "{}", runs[0]);
    assert!(
        runs[0]["missing_segments"].as_u64() > Some(0) || runs[0]["segments"] == runs[0]["pinned_segments"]
    );
    let info = rig.replay("info", &[]);
    assert!(!info.stdout.contains(&0x1b), "control characters on the terminal");
    let du = run(Command::new("du").args(["-s", "--block-size=1", &rig.log()]));
    let du = String::from_utf8_lossy(&du.stdout);
    let du: u64 = du.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number");
    assert!(du <= 256 << 10, "du shows {du} bytes");
}

#[test]
fn alarms_puts_and_deaths_are_pinned_automatically() {
    let Some(rig) = Rig::new("triggers") else { return };
    let mut ioc = rig.ioc("triggers", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&[
        "--pid",
        &ioc.pid_argument(),
        "--pin-on",
        "PUT:L*",
        "--pin-on-put",
        "PUT:BINARY",
        "--pin-before",
        "1s",
        "--pin-after",
        "1s",
    ]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let causes = || {
        let runs = rig.runs();
        let pins = runs.first().and_then(|run| run["pins"].as_array().cloned()).unwrap_or_default();
        pins.iter().filter_map(|pin| pin["cause"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    client.put("PUT:LONG", 5, json!(1), true);
    client.put("PUT:LONG.HIHI", 5, json!(10), true);
    client.put("PUT:LONG.HHSV", 5, json!(2), true);
    wait_until("the log has the last put", || !rig.puts(&["--pv", "PUT:LONG.HHSV"]).is_empty());
    assert_eq!(causes(), Vec::<String>::new(), "nothing happened yet");
    for _ in 0..5 {
        client.put("PUT:LONG", 5, json!(12), true);
        client.put("PUT:LONG", 5, json!(1), true);
    }
    client.put("PUT:BINARY", 3, json!(1), true);
    wait_until("alarm and put are noticed", || causes().len() >= 2);
    ioc.kill();
    wait_until("the death is noticed", || causes().len() >= 3);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let causes = causes();
    assert_eq!(causes[0], "PUT:LONG went into MAJOR alarm");
    // Repeated triggers are counted.
    assert!(causes[1].starts_with("put to PUT:BINARY"), "{causes:?}");
    assert!(causes.iter().any(|cause| cause.contains("since the last pin were left out")), "{causes:?}");
    assert!(causes[2].starts_with("IOC triggers ended: "), "{causes:?}");
    assert_eq!(causes.len(), 3, "{causes:?}");
    assert!(fs::read_dir(rig.log())
        .expect("the log")
        .flatten()
        .any(|file| { file.file_name().to_string_lossy().ends_with("-auto.iocrec") }));
}

/// Without a recorder, mark fails. A second recorder is refused without harm to the first.
#[test]
fn status_shows_whether_a_recorder_runs() {
    let Some(rig) = Rig::new("who-runs") else { return };
    let failed = |output: Output, words: &[&str]| {
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), line.trim_end().lines().count()), (Some(1), 1), "{line}");
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    };
    failed(agent(&["mark", "--dir", &rig.log(), "x"]), &["No such file", &rig.log()]);
    failed(agent(&["status", "--dir", &rig.log()]), &["No such file", &rig.log()]);
    fs::create_dir(rig.log()).expect("a directory");
    failed(agent(&["mark", "--dir", &rig.log(), "x"]), &["no recorder", "iocrec record"]);
    let at_rest = agent(&["status", "--dir", &rig.log(), "--json"]);
    let about: Value = serde_json::from_slice(&at_rest.stdout).expect("JSON");
    assert_eq!((&about["running"], &about["disk"]["segments"]), (&json!(false), &json!(0)));
    failed(at_rest, &["no recorder"]);
    assert_eq!(agent(&["mark", "--dir", &rig.log()]).status.code(), Some(2));

    let ioc = rig.ioc("who-runs", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    failed(agent(&["record", "--dir", &rig.log(), "--duration", "1s"]), &["another recorder", &rig.log()]);
    failed(agent(&["mark", "--dir", &rig.log(), &"x".repeat(2000)]), &["too long"]);
    assert_eq!(status(&rig)["running"], json!(true));
    // Killed, it is gone without a trace.
    recorder.kill();
    failed(agent(&["mark", "--dir", &rig.log(), "x"]), &["no recorder"]);
    let names: Vec<_> =
        fs::read_dir(rig.log()).expect("the log").flatten().map(|file| file.file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".iocrec")), "{names:?}");
}
