//! `iocrec cat | iocreplay follow -` beside a recorder that writes: each scripted put comes through once, as the log has
//! it afterwards; a pipe that broke goes on where it ended; and whoever reads too slowly costs the recorder nothing.

use crate::rig::{iocreplay, json_lines, wait_until, Rig, Running, IOCREC};
use serde_json::{json, Value};
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const PORT: u16 = 5078;
const DOUBLE: u16 = 6;
/// Rounds of puts; by their size they fill several segments.
const ROUNDS: u32 = 90;

/// `iocrec cat` with its pipe.
fn cat(rig: &Rig, more: &[&str]) -> (Child, ChildStdout) {
    let mut command = Command::new(IOCREC);
    command.args(["cat", "--dir", &rig.log()]).args(more).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("iocrec runs");
    let pipe = child.stdout.take().expect("a pipe");
    (child, pipe)
}

/// `iocreplay follow -` on that pipe.
fn follow(rig: &Rig, name: &str, pipe: ChildStdout) -> Running {
    let mut command = Command::new("sh");
    // a child of the rig has its own standard input; this one reads the pipe
    command.args(["-c", "exec \"$0\" \"$@\" <&9"]).arg(iocreplay());
    command.args(["follow", "-", "--spool", &rig.path("spool"), "--what", "puts", "--format", "jsonl"]);
    command.args(["--pv", "LI:MAG1:SP"]);
    let descriptor = std::os::fd::OwnedFd::from(pipe);
    // SAFETY: between fork and exec two system calls on a descriptor that is open.
    unsafe {
        use std::os::fd::AsRawFd;
        let from = descriptor.as_raw_fd();
        std::os::unix::process::CommandExt::pre_exec(&mut command, move || {
            // that it stays open has to be said if it has this number already
            match libc::dup2(from, 9) == 9 && libc::fcntl(9, libc::F_SETFD, 0) == 0 {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let running = rig.by(name, &mut command);
    drop(descriptor);
    running
}

fn take(running: &mut Running, lines: &mut Vec<String>) {
    while let Some(line) = running.line_within(Duration::from_millis(20)) {
        lines.push(line);
    }
}

/// Noise that no compression makes small, always the same.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / 4096.0
}

#[test]
fn each_put_comes_through_once_and_a_broken_pipe_goes_on() {
    let Some(rig) = Rig::new("streams") else { return };
    let ioc = rig.ioc("LINAC1", PORT, "plant/linac.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--max-disk", "2M"]);
    rig.wait_until_recording(&mut client, "LI:SHELL", "both");
    let (mut sender, pipe) = cat(&rig, &[]);
    let mut follower = follow(&rig, "follow-1", pipe);
    let (mut lines, mut state) = (Vec::new(), 1);
    for round in 1..=ROUNDS {
        client.put("LI:MAG1:SP", DOUBLE, json!(f64::from(round) / 2.0), round % 2 == 0);
        for _ in 0..6 {
            let curve: Vec<f64> = (0..16).map(|_| noise(&mut state)).collect();
            client.put("LI:CURVE", DOUBLE, json!(curve), false);
        }
        take(&mut follower, &mut lines);
        if round % 30 == 0 && round < ROUNDS {
            // the pipe breaks in the middle of it
            sender.kill().expect("cat is killed");
            sender.wait().expect("cat ends");
            assert_eq!(follower.wait().code(), Some(1), "{}", follower.errors());
            take(&mut follower, &mut lines);
            let said = follower.errors();
            let position = said.rsplit("iocrec cat --from ").next().unwrap().trim().to_owned();
            assert!(said.contains("the stream broke off") && position.contains(':'), "{said}");
            let spool = rig.path("spool");
            let asked = Command::new(iocreplay()).args(["follow", "--position", "--spool", &spool]).output();
            assert_eq!(String::from_utf8_lossy(&asked.unwrap().stdout).trim(), position);
            let (again, pipe) = cat(&rig, &["--from", &position]);
            sender = again;
            follower = follow(&rig, &format!("follow-{round}"), pipe);
        }
    }
    wait_until("the last put has come", || {
        take(&mut follower, &mut lines);
        lines.len() >= ROUNDS as usize
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    // nothing more comes
    std::thread::sleep(Duration::from_secs(5));
    take(&mut follower, &mut lines);
    follower.signal(libc::SIGTERM);
    assert_eq!(follower.wait().code(), Some(0), "{}", follower.errors());
    // its pipe is closed, which it notices though it has nothing to send
    wait_until("cat ends", || sender.try_wait().expect("it can be waited for").is_some());
    let plain: Vec<String> = lines.iter().map(|line| line.replacen("{\"event\":\"put\",", "{", 1)).collect();
    let afterwards = rig.replay("puts", &["--format", "jsonl", "--pv", "LI:MAG1:SP"]);
    let afterwards: Vec<String> =
        String::from_utf8_lossy(&afterwards.stdout).lines().map(str::to_owned).collect();
    assert_eq!(plain, afterwards);
    assert_eq!(plain.len(), ROUNDS as usize);
    let segments = std::fs::read_dir(rig.log()).expect("the log").count();
    assert!(segments > 1, "it went on from one segment to another");
    drop(ioc);
}

/// A reader that has stopped: the recorder goes on without a loss, the cap holds, and the gap is said later.
#[test]
fn a_reader_that_stops_costs_the_recorder_nothing() {
    let Some(rig) = Rig::new("streams-stopped") else { return };
    let ioc = rig.ioc("LINAC1", PORT, "plant/linac.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--max-disk", "512K"]);
    rig.wait_until_recording(&mut client, "LI:SHELL", "both");
    let (mut sender, mut pipe) = cat(&rig, &[]);
    let mut begun = [0; 16];
    pipe.read_exact(&mut begun).expect("the stream begins");
    let oldest = |rig: &Rig| {
        let names = std::fs::read_dir(rig.log()).expect("the log").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".iocrec")).min()
    };
    let (first, mut state) = (oldest(&rig), 1);
    let mut rounds = 0;
    // until the cap has deleted what cat has not sent, with room for what fits into the pipe
    wait_until("segments are deleted", || {
        rounds += 1;
        for _ in 0..150 {
            let curve: Vec<f64> = (0..16).map(|_| noise(&mut state)).collect();
            client.put("LI:CURVE", DOUBLE, json!(curve), false);
        }
        let number = |name: &Option<String>| -> u64 {
            name.as_deref().and_then(|name| name.get(17..27)?.parse().ok()).unwrap_or(0)
        };
        number(&oldest(&rig)) >= number(&first) + 3
    });
    // no segment that is deleted is held open, so its space is free
    let held = std::fs::read_dir(format!("/proc/{}/fd", sender.id())).expect("its descriptors").flatten();
    let held = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let held: Vec<_> = held.filter(|path| path.to_string_lossy().contains(".iocrec")).collect();
    assert!(held.is_empty(), "{held:?}");
    let status = Command::new(IOCREC).args(["status", "--json", "--dir", &rig.log()]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).expect("its status");
    // the reader goes on
    let reader = std::thread::spawn(move || {
        let mut stream = begun.to_vec();
        pipe.read_to_end(&mut stream).expect("the stream");
        stream
    });
    std::thread::sleep(Duration::from_secs(3));
    sender.kill().expect("cat is killed");
    sender.wait().expect("cat ends");
    let stream = reader.join().expect("the stream");
    let path = rig.path("stream");
    std::fs::write(&path, &stream).expect("a file");
    let file = std::fs::File::open(&path).expect("a file");
    let output =
        Command::new(iocreplay()).args(["follow", "-", "--format", "jsonl"]).stdin(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a gap: the recorder deleted "), "{said}");
    assert!(!json_lines(&output.stdout).is_empty());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let losses: Vec<Value> =
        rig.runs().iter().flat_map(|run| run["losses"].as_array().cloned().unwrap_or_default()).collect();
    assert!(losses.is_empty(), "{losses:?} {status}");
    drop(ioc);
}

#[test]
fn cat_says_what_is_wrong() {
    let here = std::env::temp_dir().join(format!("iocrec-cat-{}", std::process::id()));
    std::fs::create_dir_all(&here).expect("a directory");
    let run = |words: &[&str]| {
        let output =
            Command::new(IOCREC).arg("cat").args(words).stdin(Stdio::null()).output().expect("it runs");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let missing = here.join("missing").display().to_string();
    let (code, out, err) = run(&["--dir", &missing]);
    assert_eq!((code, out.len(), err.lines().count()), (Some(1), 0, 1), "{err}");
    assert!(err.contains(&missing) && err.contains("iocrec record"), "{err}");
    let own = here.display().to_string();
    for from in ["x", "20260131T235959Z-0000000042", "../x:1", "-1"] {
        let (code, out, err) = run(&["--dir", &own, &format!("--from={from}"), "--no-follow"]);
        let (code, err) = if err.contains("Unrecognized") {
            let (code, _, err) = run(&["--dir", &own, "--from", from, "--no-follow"]);
            (code, err)
        } else {
            (code, err)
        };
        assert!(code == Some(2) && out.is_empty() && err.lines().count() == 1, "{from}: {err}");
    }
    // an empty directory: a stream with nothing in it
    let (code, out, err) = run(&["--dir", &own, "--no-follow"]);
    assert!(code == Some(0) && out.starts_with(b"\x89IOCCAT\n") && err.is_empty(), "{err}");
    let _ = std::fs::remove_dir_all(&here);
}
