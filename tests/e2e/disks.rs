//! Disks that are full from the start, fill up, get free again, or become read-only: the recorder continues, reports the
//! state, and recovers by itself.

use crate::rig::{self, run, wait_until, Rig, Running, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::io::Write;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5074;

/// Fills the file system.
fn fill(path: &str) {
    let mut file = fs::File::create(path).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
}

fn remount(path: &str, options: &str) {
    let output = run(Command::new("mount").args(["-o", &format!("remount,{options}"), path]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn agent(arguments: &[&str]) -> Output {
    run(Command::new(IOCREC).args(arguments))
}

fn status(log: &str) -> Value {
    let output = agent(&["status", "--dir", log, "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Waits until the recorder reports that it cannot store, for this reason.
fn wait_until_paused(recorder: &Running, log: &str, reason: &str) {
    wait_until(reason, || {
        let about = status(log);
        about["storing"] == json!(false) && about["paused"].as_str().is_some_and(|text| text.contains(reason))
    });
    wait_until("it says so on stderr", || recorder.errors().contains(reason));
}

#[test]
fn full_read_only_and_back() {
    let Some(rig) = Rig::new("disks") else { return };
    rig::enter_private_mounts();
    let (disk, log, filler) = (rig.path("disk"), rig.path("disk/log"), rig.path("disk/filler"));
    rig::mount_small(&disk, "size=2m");
    fs::create_dir(&log).expect("a directory");
    let ioc = rig.ioc("disks", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let found = |number: i64| {
        let output =
            run(Command::new(rig::iocreplay()).args(["puts", &log, "--format", "jsonl", "--pv", "PUT:LONG"]));
        rig::json_lines(&output.stdout).iter().any(|put| put["requested"] == number)
    };

    // Full from the start.
    fill(&filler);
    let mut recorder = rig.agent(&[
        "record",
        "--dir",
        &log,
        "--pid",
        &ioc.pid_argument(),
        "--flush",
        "200ms",
        "--max-disk",
        "1M",
        "--pin-before",
        "1s",
        "--pin-after",
        "1s",
    ]);
    wait_until_paused(&recorder, &log, "No space left on device");
    let marked = agent(&["mark", "--dir", &log, "while it is full"]);
    let line = String::from_utf8_lossy(&marked.stderr).into_owned();
    assert_eq!(marked.status.code(), Some(1), "{line}");
    assert!(line.contains("storing is paused") && line.contains("waits in memory"), "{line}");

    // No file is open now, so the file system can become read-only. Once freed, it would be written to.
    fs::remove_file(&filler).expect("the filler goes");
    remount(&disk, "ro");
    wait_until_paused(&recorder, &log, "Read-only file system");
    remount(&disk, "rw");
    wait_until("it stores again", || status(&log)["storing"] == json!(true));
    client.put("PUT:LONG", 5, json!(4711), true);
    wait_until("puts are there", || found(4711));

    // The segments that follow are not pinned by the mark, which is stored by now.
    sleep(Duration::from_secs(2));

    // The disk fills up. The recorder uses up its preallocated space, and then deletes its first segments.
    fill(&filler);
    wait_until("it is full", || {
        client.flood("PUT:DOUBLE", 5000);
        let about = status(&log);
        about["disk"]["deleted"].as_u64() > Some(2)
    });
    assert_eq!(status(&log)["storing"], json!(true), "it deletes its first segments: {}", recorder.errors());
    client.put("PUT:LONG", 5, json!(4712), true);
    wait_until("puts are there", || found(4712));
    fs::remove_file(&filler).expect("the filler goes");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = recorder.errors().lines().count();
    assert!(lines < 25, "{lines} lines: {}", recorder.errors());
    let info = run(Command::new(rig::iocreplay()).args(["info", &log]));
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(text.contains("loss      storage: "), "{text}");
}

/// Exiting with events that could not be stored is a failure.
#[test]
fn what_was_not_stored_at_the_end_is_a_failure() {
    let Some(rig) = Rig::new("disks-end") else { return };
    rig::enter_private_mounts();
    let (disk, log) = (rig.path("disk"), rig.path("disk/log"));
    rig::mount_small(&disk, "size=256k");
    fs::create_dir(&log).expect("a directory");
    fill(&rig.path("disk/filler"));
    let ioc = rig.ioc("disks-end", PORT, "puts.db", &[]);
    let mut recorder = rig.agent(&["record", "--dir", &log, "--pid", &ioc.pid_argument()]);
    wait_until_paused(&recorder, &log, "No space left on device");
    sleep(Duration::from_millis(100));
    let ended = recorder.stop();
    let errors = recorder.errors();
    assert_eq!(ended.code(), Some(1), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(last.contains("were not stored: ") && last.contains("No space left on device"), "{errors}");
}
