//! `--follow` on a log that a recorder is writing: each put, value and change of an alarm once, whole and in order, over
//! changes of the segment, until it is interrupted.

use crate::rig::{iocreplay, wait_until, Rig, Running};
use serde_json::{json, Value};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;
/// Rounds of puts; by their size they fill several segments.
const ROUNDS: u32 = 150;

/// A command that follows the log, and the lines that it has written so far.
struct Follower {
    running: Running,
    lines: Vec<Value>,
}

impl Follower {
    fn start(rig: &Rig, words: &[&str]) -> Follower {
        let mut command = Command::new(iocreplay());
        command.args(words).args(["--follow", "--format", "jsonl", &rig.log()]);
        // whoever starts the tests in the background has a shell ignore it
        // SAFETY: between fork and exec one system call.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        Follower { running: rig.by(&format!("follow-{}", words[0]), &mut command), lines: Vec::new() }
    }

    /// Takes what it has written. Each line is whole as it comes.
    fn read(&mut self) {
        while let Some(line) = self.running.line_within(Duration::from_millis(50)) {
            self.lines.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
    }

    /// Interrupts it as a terminal does; returns all its lines.
    fn end(mut self) -> Vec<Value> {
        assert!(self.running.runs(), "it has ended by itself: {}", self.running.errors());
        self.running.signal(libc::SIGINT);
        self.running.wait();
        self.read();
        assert!(!self.running.errors().contains("panicked"), "{}", self.running.errors());
        self.lines
    }
}

/// Noise that no compression makes small, always the same.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / 4096.0
}

#[test]
fn every_line_comes_once_while_the_recorder_writes() {
    let Some(rig) = Rig::new("following") else { return };
    let ioc = rig.ioc("LINAC1", PORT, "plant/linac.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--max-disk", "1M"]);
    rig.wait_until_recording(&mut client, "LI:SHELL", "both");
    let mut puts = Follower::start(&rig, &["puts", "--pv", "LI:MAG1:SP"]);
    let mut values = Follower::start(&rig, &["values", "LI:MAG1:SP"]);
    let mut alarms = Follower::start(&rig, &["alarms", "--pv", "LI:TEMP1"]);
    let mut state = 1;
    for round in 1..=ROUNDS {
        client.put("LI:MAG1:SP", DOUBLE, json!(f64::from(round) / 2.0), round % 2 == 0);
        // above HIGH, and back
        client.put("LI:TEMP1:RAW", DOUBLE, json!(if round % 2 == 0 { 30.0 } else { 50.0 }), true);
        for _ in 0..6 {
            let curve: Vec<f64> = (0..16).map(|_| noise(&mut state)).collect();
            client.put("LI:CURVE", DOUBLE, json!(curve), false);
        }
        [&mut puts, &mut values, &mut alarms].into_iter().for_each(Follower::read_at_once);
    }
    let last = f64::from(ROUNDS) / 2.0;
    let has = |follower: &Follower, key: &str| follower.lines.iter().any(|line| line[key] == json!(last));
    wait_until("the last put has come", || {
        puts.read();
        has(&puts, "requested")
    });
    wait_until("the last value has come", || {
        values.read();
        has(&values, "value")
    });
    wait_until("the last change of the alarm has come", || {
        alarms.read();
        alarms.lines.iter().filter(|line| line["what"] == "change").count() >= ROUNDS as usize
    });
    let [puts, values, alarms] = [puts, values, alarms].map(Follower::end);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let segments = std::fs::read_dir(rig.log()).expect("the log").count();
    assert!(segments > 3, "only {segments} segments");

    let expected: Vec<f64> = (1..=ROUNDS).map(|round| f64::from(round) / 2.0).collect();
    let of = |lines: &[Value], key: &str| -> Vec<f64> {
        lines.iter().filter_map(|line| line[key].as_f64()).collect()
    };
    assert_eq!(of(&puts, "requested"), expected);
    for put in &puts {
        let is_whole = put["status"] == "ok" && put["new"] == put["requested"] && put["user"].is_string();
        assert!(is_whole, "{put}");
    }
    let mut seen = of(&values, "value");
    // the reading of the recorder, and values read again at each new segment, are no news
    assert_eq!(seen.split_off(seen.len() - expected.len()), expected);
    assert!(seen.len() <= 1, "{seen:?}");
    let changes: Vec<&Value> = alarms.iter().filter(|line| line["what"] == "change").collect();
    assert_eq!(changes.len(), ROUNDS as usize);
    for (number, change) in changes.iter().enumerate() {
        let severity = if number % 2 == 0 { "MINOR" } else { "NO_ALARM" };
        assert_eq!(change["severity"], severity, "{number}: {change}");
    }
    drop(ioc);
}

impl Follower {
    /// Takes what is there, without waiting.
    fn read_at_once(&mut self) {
        while let Some(line) = self.running.line_within(Duration::ZERO) {
            self.lines.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
    }
}
