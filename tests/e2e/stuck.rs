//! Threads of real IOCs that stand still, compared with what held them up: records whose subroutines sleep, wait for a
//! device, an event or a mutex, or fail an assertion (tests/rig/stuck.c). And IOCs that only rest.

use crate::rig::own_program::{shared_library, shared_library_for, Build, Own};
use crate::rig::{epics_versions, iocreplay, rig_file, wait_until, Ioc, Rig};
use serde_json::{json, Value};
use std::process::Command;
use std::time::{Duration, Instant};

const PORT: u16 = 5076;

/// What iocreplay stuck tells of the log.
fn stuck(rig: &Rig) -> Vec<Value> {
    let log = rig.log();
    let out = Command::new(iocreplay())
        .args(["stuck", &log, "--format", "jsonl"])
        .output()
        .expect("iocreplay runs");
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Those of threads.
fn hangs(rig: &Rig) -> Vec<Value> {
    stuck(rig).into_iter().filter(|row| row["kind"] == "stuck").collect()
}

fn of_thread<'a>(rows: &'a [Value], thread: &str) -> &'a Value {
    rows.iter()
        .find(|row| row["thread"] == thread)
        .unwrap_or_else(|| panic!("nothing of {thread}: {rows:#?}"))
}

fn start(rig: &Rig) -> Ioc {
    let library = shared_library(rig, "stuck.c");
    rig.ioc_with("stuck", PORT, "stuck.db", &["--macros", "P=H:", "--routines", &library])
}

/// Waits until the recorder watches the threads of the IOC: a beat has come after its records.
fn wait_until_watched(rig: &Rig) {
    wait_until_told(rig, "records", "H:LOW");
}

/// Waits until a command tells this, and a second more, in which the threads are looked at.
fn wait_until_told(rig: &Rig, command: &str, part: &str) {
    let log = rig.log();
    wait_until("the IOC is in the log", || {
        let out = Command::new(iocreplay()).args([command, &log]).output().expect("iocreplay runs");
        String::from_utf8_lossy(&out.stdout).contains(part)
    });
    std::thread::sleep(Duration::from_millis(1500));
}

fn put(ioc: &mut Ioc, field: &str, value: f64) {
    ioc.command(&format!("dbpf H:{field} {value}"));
}

/// Waits until the log has as many hangs that are over.
fn wait_for_ends(rig: &Rig, count: usize) {
    wait_until("the log has the ends", || {
        hangs(rig).iter().filter(|row| row["ended"] == "runs").count() >= count
    });
}

/// A record that sleeps holds up a scan thread by their lock set.
fn a_lock_set_is_held(tier: &str) {
    let Some(rig) = Rig::new(&format!("stuck-{tier}")) else { return };
    let ioc = start(&rig);
    a_lock_set_is_held_in(&rig, ioc, tier);
}

fn a_lock_set_is_held_in(rig: &Rig, mut ioc: Ioc, tier: &str) {
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    wait_until_watched(rig);
    put(&mut ioc, "LOW.A", 5.2);
    let begin = Instant::now();
    put(&mut ioc, "EVENT.PROC", 1.0);
    wait_for_ends(rig, 2);
    // no less than the sleep, and what the log takes to show its end
    let asked = begin.elapsed();
    assert!(asked > Duration::from_millis(5200), "{asked:?}");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let rows = hangs(rig);
    assert_eq!(rows.len(), 2, "{rows:#?}");
    let low = of_thread(&rows, "cbLow");
    assert_eq!((low["waits_for"].as_str(), low["record"].as_str()), (Some("sleep"), Some("H:LOW")), "{low}");
    let scan = of_thread(&rows, "scan-0.1");
    assert_eq!(scan["waits_for"], "mutex", "{scan}");
    assert_eq!((scan["record"].as_str(), scan["lockset"].as_bool()), (Some("H:FAST"), Some(true)), "{scan}");
    assert_eq!(
        (scan["holder"].as_str(), scan["holder_record"].as_str()),
        (Some("cbLow"), Some("H:LOW")),
        "{scan}"
    );
    assert_eq!((&scan["holder_tid"], &scan["holder_certain"]), (&low["tid"], &Value::Bool(true)), "{scan}");
    for row in [low, scan] {
        let (least, most) = (row["seconds_min"].as_f64().unwrap(), row["seconds_max"].as_f64().unwrap());
        // the truth, and what the beat of a busy machine may be late by
        // a busy machine lets it sleep for longer than asked for, never for less
        let longest = asked.as_secs_f64();
        assert!(least < longest + 0.2 && most > 5.0 && most < longest + 5.0, "{longest}: {row}");
        if tier != "packet" {
            assert!(most < longest + 0.4 && least > 4.9, "its hits tell it, {longest}: {row}");
        }
    }
    let text = scan["text"].as_str().unwrap();
    assert!(text.ends_with(" for the lockset of H:FAST, held by cbLow processing H:LOW"), "{text}");
    // the scan that was held up came too late, and nothing else
    let late: Vec<Value> = stuck(rig).into_iter().filter(|row| row["kind"] == "overrun").collect();
    assert!(late.iter().any(|row| row["scan"] == ".1 second"), "{late:#?}");
}

#[test]
fn a_lock_set_is_held_in_the_ring_tier() {
    a_lock_set_is_held("ring");
}

#[test]
fn a_lock_set_is_held_in_the_packet_tier() {
    a_lock_set_is_held("packet");
}

#[test]
fn a_lock_set_is_held_in_earlier_versions() {
    for version in epics_versions().iter().filter(|version| !version.contains('-')) {
        let Some(rig) = Rig::new(&format!("stuck-{version}")) else { return };
        let library = shared_library_for(&rig, "stuck.c", Some(version));
        let options = ["--macros", "P=H:", "--routines", &library, "--epics", version];
        let ioc = rig.ioc_with("stuck", PORT, "stuck.db", &options);
        a_lock_set_is_held_in(&rig, ioc, "ring");
    }
}

/// Its locks and their holder are read from memory, where pointers have four bytes.
#[test]
fn a_lock_set_is_held_in_a_32_bit_ioc() {
    let Some(rig) = Rig::new("stuck-32-bit") else { return };
    let Some(own) = Own::build_with(&rig, Build::Shared32, &["-DROUTINES=\"stuck.c\""]) else { return };
    let database = rig.path("stuck.db");
    let text = std::fs::read_to_string(rig_file("stuck.db")).expect("the database");
    std::fs::write(&database, text.replace("$(P)", "H:")).expect("a copy");
    let ioc = own.start(&rig, PORT, &database, &[]);
    a_lock_set_is_held_in(&rig, ioc, "packet");
}

/// Every other wait, one after the other; each has a record of its own.
#[test]
fn devices_events_and_mutexes() {
    let Some(rig) = Rig::new("stuck-waits") else { return };
    let mut ioc = start(&rig);
    let device = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = device.local_addr().unwrap().port();
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until_watched(&rig);
    put(&mut ioc, "ASK.B", f64::from(port));
    put(&mut ioc, "RECEIVE.B", f64::from(port));
    let expected = [
        ("ASK", "poll", format!("127.0.0.1:{port}")),
        ("RECEIVE", "receive", format!("127.0.0.1:{port}")),
        ("AWAIT", "event", String::new()),
    ];
    for (number, (record, _, _)) in (1..).zip(&expected) {
        put(&mut ioc, &format!("{record}.A"), 4.0);
        wait_for_ends(&rig, number);
    }
    // a scan thread, which no other holds up
    put(&mut ioc, "HALF.A", 5.0);
    wait_for_ends(&rig, 4);
    put(&mut ioc, "HALF.A", 0.0);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let rows = hangs(&rig);
    for (record, waits, object) in &expected {
        let record = format!("H:{record}");
        let row =
            rows.iter().find(|row| row["record"] == *record).unwrap_or_else(|| panic!("{record}: {rows:#?}"));
        assert_eq!(row["waits_for"], *waits, "{row}");
        assert_eq!(row["object"].as_str().unwrap_or_default(), object, "{row}");
        assert!(row["holder"].is_null() && row["lockset"] == false, "{row}");
    }
    let half = of_thread(&rows, "scan-0.5");
    assert_eq!(
        (half["waits_for"].as_str(), half["record"].as_str()),
        (Some("sleep"), Some("H:HALF")),
        "{half}"
    );
    assert!(rows.iter().all(|row| row["thread"] != "scan-0.1" && row["thread"] != "scan-10"), "{rows:#?}");
    let late: Vec<Value> = stuck(&rig).into_iter().filter(|row| row["scan"] == ".5 second").collect();
    assert_eq!(late.first().map(|row| row["longest"].as_str()), Some(Some("H:HALF")), "{late:#?}");
}

/// An assertion fails in a record: its thread is suspended for ever with the lock set, which a scan thread waits for.
#[test]
fn a_suspended_thread_holds_up_others() {
    let Some(rig) = Rig::new("stuck-suspended") else { return };
    let mut ioc = start(&rig);
    // hangs are told whatever is chosen, but records that are not chosen are in no log, not by name either
    let chosen = ["--only", "Z:*", "--exclude", "H:*", "--thin", "50"];
    let mut recorder = rig.record(&[&["--pid", &ioc.pid_argument()][..], &chosen].concat());
    // its records are not in the log: none of them is chosen
    wait_until_told(&rig, "info", "attached");
    put(&mut ioc, "GIVE_UP.A", 1.0);
    put(&mut ioc, "EVENT8.PROC", 1.0);
    wait_until("both are told", || hangs(&rig).len() >= 2);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let rows = hangs(&rig);
    assert_eq!(rows.len(), 2, "{rows:#?}");
    let given_up = of_thread(&rows, "cbMedium");
    assert_eq!((&given_up["waits_for"], &given_up["record"]), (&json!("suspended"), &Value::Null));
    let scan = of_thread(&rows, "scan-0.1");
    assert_eq!(
        (&scan["waits_for"], &scan["holder"], &scan["holder_record"]),
        (&json!("mutex"), &json!("cbMedium"), &Value::Null)
    );
    assert!(rows.iter().all(|row| row["ended"] == "open" && row["end"].is_null()), "{rows:#?}");
    ioc.kill();
}

/// A record that calculates for long, begun by another record's link; and afterwards one that sleeps on the same thread.
#[test]
fn a_record_that_spins() {
    let Some(rig) = Rig::new("stuck-spins") else { return };
    let mut ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until_watched(&rig);
    put(&mut ioc, "SECONDS", 6.0);
    put(&mut ioc, "EVENT9.PROC", 1.0);
    wait_until("it is told while it lasts", || !hangs(&rig).is_empty());
    assert_eq!(hangs(&rig)[0]["ended"], "open", "{:#?}", hangs(&rig));
    wait_for_ends(&rig, 1);
    put(&mut ioc, "SECONDS", 0.0);
    put(&mut ioc, "LOW.A", 3.5);
    put(&mut ioc, "EVENT.PROC", 1.0);
    wait_for_ends(&rig, 3);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let rows = hangs(&rig);
    let spins: Vec<&Value> = rows.iter().filter(|row| row["waits_for"] == "spins").collect();
    assert_eq!(spins.len(), 1, "{rows:#?}");
    let [thread, record] = ["thread", "record"].map(|key| spins[0][key].as_str().unwrap());
    assert_eq!((thread, record), ("cbLow", "H:SPIN"), "{rows:#?}");
    let (least, most) =
        (spins[0]["seconds_min"].as_f64().unwrap(), spins[0]["seconds_max"].as_f64().unwrap());
    // whole seconds end within the last of them
    assert!((4.9..6.2).contains(&least) && most < 6.2, "{}", spins[0]);
    let text = spins[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("cbLow spun ")
            && text.ends_with(" s, using CPU and never waiting, processing H:SPIN"),
        "{text}"
    );
    for command in [vec!["last", "stuck"], vec!["why", "H:SPIN"]] {
        let out = Command::new(iocreplay()).args(&command).arg(rig.log()).output().expect("iocreplay runs");
        let out = String::from_utf8_lossy(&out.stdout);
        assert!(out.contains("cbLow spun "), "{command:?}: {out}");
    }
}

/// IOCs that have nothing to do, one whose process is stopped, and a machine that is busy: no thread of theirs is stuck.
#[test]
fn those_who_rest_are_not_stuck() {
    let Some(rig) = Rig::new("stuck-idle") else { return };
    let ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut spinners: Vec<_> =
        (0..6).map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()).collect();
    // longer than the slowest scan, with the time allowed
    std::thread::sleep(Duration::from_secs(16));
    for spinner in &mut spinners {
        spinner.kill().unwrap();
        spinner.wait().unwrap();
    }
    assert_eq!(hangs(&rig), Vec::<Value>::new());
    ioc.signal(libc::SIGSTOP);
    wait_until("the stop is told", || hangs(&rig).iter().any(|row| row["waits_for"] == "stopped"));
    std::thread::sleep(Duration::from_secs(3));
    ioc.signal(libc::SIGCONT);
    wait_for_ends(&rig, 1);
    std::thread::sleep(Duration::from_secs(4));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let rows = hangs(&rig);
    assert_eq!(rows.len(), 1, "the process, and no thread: {rows:#?}");
    assert!(rows[0]["text"].as_str().unwrap().starts_with("the process was, for "), "{}", rows[0]);
}
