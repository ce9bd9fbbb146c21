//! Processes that try to hold the recorder up. It still records the others, answers, exits and restarts, and does not
//! grow.

use crate::rig::own_program::{Build, Own};
use crate::rig::{
    not_run, python, rig_file, run, wait_until, Delays, Ioc, Needs, Rig, Running, IOCREC, PATIENCE,
};
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
/// The recorder's highest allowed resident memory, kB.
const MAX_MEMORY: u64 = 24 << 10;
/// The user of the one IOC of a test.
const BESIDE_LOCKED: u32 = 61_234;
/// Requirement: time from SIGTERM to the end of the process.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);

/// Starts a process that maps odd files.
fn odd(rig: &Rig, kind: &str) -> Ioc {
    let mut command = python("odd_files.py");
    command.arg(kind).arg(rig.path(kind));
    rig.ioc_by(kind, &mut command)
}

/// Peak resident memory of a process, kB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn can_mount(name: &str) -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if device.is_err() {
        not_run(name, Needs::Kernel("/dev/fuse".into()));
    }
    device.is_ok()
}

/// Records an IOC beside an odd process: the log has every put, and the recorder answers and exits in time.
fn holds(rig: &Rig, odd: &mut Ioc, says: &str) -> Running {
    // a name of its own, since the recorder sees other tests' IOCs as well
    let name = format!("beside-{}", odd.pid());
    let ioc = rig.ioc(&name, PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let log = rig.log();
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "500ms", "--only", "PUT:*"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    // one that begins meanwhile
    let later = rig.ioc("later", PORT + 10, "second.db", &[]);
    wait_until("it is recorded", || recorder.errors().contains("recording later"));
    for number in 0..100 {
        client.put("PUT:LONG", 5, json!(number), true);
    }
    if !says.is_empty() {
        let line = format!("process {} ", odd.pid());
        wait_until("it reports which process does not answer", || {
            recorder.errors().lines().any(|text| text.contains(&line) && text.contains(says))
        });
    }
    let (begin, delays) = (Instant::now(), Delays::measure());
    let status = run(Command::new(IOCREC).args(["status", "--dir", &log]));
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(begin.elapsed() < Duration::from_secs(2) + delays.total(), "status took {:?}", begin.elapsed());
    let memory = peak_memory(recorder.pid());
    assert!(memory < MAX_MEMORY, "the recorder needed {memory} kB");
    eprintln!("{}: VmHWM {memory} kB", odd.pid());
    let (begin, delays) = (Instant::now(), Delays::measure());
    let ended = recorder.stop();
    let took = begin.elapsed();
    eprintln!("ended in {took:?}");
    assert!(ended.success(), "{}", recorder.errors());
    assert!(took < LEAVES_WITHIN + delays.total(), "it took {took:?}");
    let puts: Vec<i64> = rig
        .puts(&["--pv", "PUT:LONG", "--ioc", &name])
        .iter()
        .filter_map(|put| put["requested"].as_f64())
        .map(|value| value as i64)
        .collect();
    assert!(puts.iter().copied().eq(0..100), "{puts:?}");
    // the next recorder gets the directory at once
    let mut again = rig.agent(&["record", "--dir", &log, "--flush", "500ms"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    assert!(again.stop().success(), "{}", again.errors());
    assert!(odd.runs(), "the odd process was harmed");
    drop((ioc, later));
    recorder
}

#[test]
fn a_file_system_that_never_answers_holds_nobody_up() {
    for kind in ["hung", "silent"] {
        if !can_mount("attacks-fuse") {
            return;
        }
        let Some(rig) = Rig::alone(&format!("attacks-{kind}")) else { return };
        let mut odd = odd(&rig, kind);
        holds(&rig, &mut odd, "did not return in time");
        // check finishes and names the process
        let begin = Instant::now();
        let output = run(Command::new(IOCREC).arg("check"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
        assert!(text.lines().any(|line| line.contains(&odd.pid().to_string())), "{text}");
        assert!(text.contains("beside") || text.contains("IOC"), "{text}");
    }
}

#[test]
fn files_that_claim_gigabytes_cost_no_memory() {
    let Some(rig) = Rig::alone("attacks-sparse") else { return };
    let mut odd = odd(&rig, "sparse");
    holds(&rig, &mut odd, "");
}

#[test]
fn a_flood_of_files_without_a_name_costs_no_memory() {
    let Some(rig) = Rig::alone("attacks-flood") else { return };
    let mut odd = odd(&rig, "flood");
    holds(&rig, &mut odd, "");
}

/// To place a probe, the kernel takes the lock of every process's memory that has the file mapped, and nobody can fork while it
/// waits for one: so none is placed meanwhile. (Forks are not measured here: another recorder of an earlier version would be.)
#[test]
fn no_probe_waits_for_a_process_that_keeps_its_memory_locked() {
    const NAME: &str = "attacks-locked";
    let release = nix::sys::utsname::uname().expect("uname");
    let version = release.release().to_string_lossy().into_owned();
    let mut numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(9)) {
        not_run(NAME, Needs::Kernel("Linux 6.9".into()));
        return;
    }
    if !can_mount(NAME) {
        return;
    }
    let Some(rig) = Rig::alone(NAME) else { return };
    let Some(own) = Own::build(&rig, Build::Static) else { return };
    let log = rig.log();
    // a user of its own, so that no time is spent on other processes
    let mut recorder = rig.record(&["--user", &BESIDE_LOCKED.to_string()]);
    wait_until("the recorder runs", || {
        run(Command::new(IOCREC).args(["status", "--dir", &log])).status.success()
    });
    let mut odd = odd(&rig, "locked");
    let ioc = rig.ioc_by("own", own.command(PORT, "puts.db", &[]).uid(BESIDE_LOCKED));
    let place = format!("own (pid {}) is ", ioc.pid());
    let held = format!("{place}not probed: process {} (python", odd.pid());
    wait_until("it says who holds it up", || recorder.errors().contains(&held));
    let free = format!("{place}probed from now on: no process holds it up any more");
    wait_until("it places the probes", || recorder.errors().contains(&free));
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(odd.runs(), "the odd process was harmed");
}

#[test]
fn an_ioc_whose_command_line_would_fill_a_block_is_named() {
    let Some(rig) = Rig::new("attacks-command") else { return };
    // each of these bytes is shown as four
    let macros = format!("A={}", "\u{1}".repeat(100_000));
    let mut command = python("ioc.py");
    command.args(["endless", &PORT.to_string()]).arg(rig_file("puts.db")).args(["--macros", &macros]);
    let _ioc = rig.ioc_by("endless", &mut command);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--only", "PUT:*"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.put("PUT:LONG", 5, json!(7), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:LONG", "--ioc", "endless"]);
    assert_eq!(puts.len(), 1, "{puts:?}");
}
