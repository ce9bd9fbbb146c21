//! How IOCs die: what is said of it, compared with what was done to them.
//!
//! The IOC is a C program (own_ioc.c) whose records crash in ways that routines.c knows.

use crate::attaching::utc_now;
use crate::rig::own_program::{Build, Own};
use crate::rig::{enter_mounts_with_tracefs, not_run, wait_until, Ioc, Needs, Rig, Running, IOCREC};
use serde_json::{json, Value};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::OnceLock;

const PORT: u16 = 5860;
const NOBODY: u32 = 65534;

/// The IOC, recorded.
struct Dying {
    rig: Rig,
    ioc: Ioc,
    recorder: Running,
    /// Whether crashes are told with their stack here.
    whole: bool,
}

/// What `iocrec check` says is missing of deaths. It does not change, and takes seconds.
fn missing() -> Vec<String> {
    static MISSING: OnceLock<Vec<String>> = OnceLock::new();
    let check = || {
        let output = Command::new(IOCREC).args(["check", "--json"]).output().expect("iocrec runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let missing = report["no_deaths"].as_array().expect("a list").iter();
        missing.map(|reason| reason.as_str().expect("a text").to_owned()).collect()
    };
    MISSING.get_or_init(check).clone()
}

impl Dying {
    fn start(name: &str, options: &[&str]) -> Option<Dying> {
        let rig = Rig::new(name)?;
        // not optimized: each routine is a function of its own
        let own = Own::build_with(&rig, Build::Shared, &["-DROUTINES=\"routines.c\"", "-O0"])?;
        let ioc = own.start(&rig, PORT, "dying.db", &[]);
        let missing = if options.contains(&"--tier") { vec!["".into()] } else { missing() };
        let recorder = rig.record(&[&["--pid", &ioc.pid_argument()], options].concat());
        wait_until("it is recorded", || {
            rig.facts("attached") > 0 || rig.facts("ioc") > 0 && options.contains(&"packet")
        });
        Some(Dying { whole: missing.is_empty(), rig, ioc, recorder })
    }

    /// Has a record process, which ends the IOC; its wait status.
    fn process(&mut self, record: &str) -> std::process::ExitStatus {
        self.ioc.tell(&format!("dbpf {record}.PROC 1"));
        self.ioc.wait()
    }

    /// What the log says of it.
    fn said(&mut self) -> Value {
        let begin = format!("own (pid {}) has ended: ", self.ioc.pid());
        wait_until("its end is noticed", || self.recorder.errors().contains(&begin));
        assert!(self.recorder.stop().success(), "{}", self.recorder.errors());
        let output = self.rig.replay("iocs", &["--json"]);
        let mut lines = crate::rig::json_lines(&output.stdout);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }
}

fn functions(crash: &Value) -> Vec<&str> {
    let frames = crash["stack"].as_array().expect("frames").iter();
    frames.filter_map(|frame| frame["function"].as_str()).collect()
}

/// The calls between dbpf and the subroutine, as far as the linker has them by name, innermost first.
const CALLS: [&str; 3] = ["dbProcess", "dbPutField", "dbpf"];

fn calls_are_there(crash: &Value) {
    let found: Vec<&str> = functions(crash).into_iter().filter(|name| CALLS.contains(name)).collect();
    let mut once = found.clone();
    once.dedup();
    assert_eq!(once, CALLS, "{crash:#}");
}

#[test]
fn a_crash_at_a_known_address() {
    let Some(mut dying) = Dying::start("deaths-at", &[]) else { return };
    let status = dying.process("DIE:AT");
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    let said = dying.said();
    if !dying.whole {
        return not_run("deaths-at", Needs::Kernel("registers of crashes".into()));
    }
    let core = if status.core_dumped() { ", with a core dump" } else { "" };
    let thread = &said["crash"]["thread"].as_str().expect("a name");
    // of the program, whose main thread has its name
    assert!(thread.starts_with("shared"), "{said}");
    assert_eq!(
        said["end"],
        format!(
            "killed by SIGSEGV at address 0x1230 in crash_at, thread {thread}, while processing DIE:AT{core}"
        )
    );
    let crash = &said["crash"];
    assert_eq!((&crash["function"], &crash["address"]), (&json!("crash_at"), &json!("0x1230")), "{crash:#}");
    assert_eq!((&crash["record"], &crash["tid"]), (&json!("DIE:AT"), &json!(dying.ioc.pid())), "{crash:#}");
    assert_eq!(crash["handled"], false);
    calls_are_there(crash);
    let records = crash["stack_records"].as_array().expect("records");
    assert!(!records.is_empty() && records.iter().all(|found| found["record"] == "DIE:AT"), "{crash:#}");
    let pins = dying.rig.facts("pinned");
    assert_eq!(pins, 1, "a death is pinned");
}

#[test]
fn aborts_divisions_jumps_and_full_stacks() {
    for (record, signal, words) in [
        ("DIE:ABORT", libc::SIGABRT, "killed by SIGABRT, sent by itself, thread "),
        ("DIE:DIVIDE", libc::SIGFPE, "killed by SIGFPE in divide, thread "),
        (
            "DIE:JUMP",
            libc::SIGSEGV,
            "killed by SIGSEGV at address 0x2340 in no file's code (at 0x2340), thread ",
        ),
        ("DIE:OVERFLOW", libc::SIGSEGV, "killed by SIGSEGV at address "),
    ] {
        let Some(mut dying) = Dying::start("deaths-more", &[]) else { return };
        let status = dying.process(record);
        assert_eq!(status.signal(), Some(signal), "{record}");
        let said = dying.said();
        if !dying.whole {
            return not_run("deaths-more", Needs::Kernel("registers of crashes".into()));
        }
        let end = said["end"].as_str().expect("an end");
        assert!(end.starts_with(words), "{record}: {end}");
        assert!(end.contains(&format!(", while processing {record}")), "{record}: {end}");
        let crash = &said["crash"];
        match record {
            "DIE:OVERFLOW" => {
                assert!(
                    end.contains(" in deeper, ") && end.contains(", whose stack had overflowed"),
                    "{end}"
                );
                assert!(functions(crash).iter().filter(|name| **name == "deeper").count() > 5, "{crash:#}");
            }
            _ => calls_are_there(crash),
        }
    }
}

#[test]
fn an_exit_status_is_no_crash() {
    let Some(mut dying) = Dying::start("deaths-exit", &[]) else { return };
    assert_eq!(dying.process("DIE:LEAVE").code(), Some(3));
    let said = dying.said();
    assert_eq!((&said["end"], &said["crash"]), (&json!("exit status 3"), &Value::Null));
}

/// The end has its own time, not that at which it was seen.
#[test]
fn an_end_while_the_recorder_is_stopped() {
    let Some(mut dying) = Dying::start("deaths-late", &[]) else { return };
    dying.recorder.signal(libc::SIGSTOP);
    assert_eq!(dying.process("DIE:LEAVE").code(), Some(3));
    let by = utc_now();
    std::thread::sleep(std::time::Duration::from_secs(5));
    dying.recorder.signal(libc::SIGCONT);
    let said = dying.said();
    if !dying.whole {
        return not_run("deaths-late", Needs::Kernel("programs that tell of deaths".into()));
    }
    assert_eq!(said["end"], "exit status 3");
    let lines = crate::rig::json_lines(&dying.rig.replay("iocs", &["--json", "--utc"]).stdout);
    let ended = lines[0]["ended"].as_str().expect("a time");
    assert!(*ended <= *by, "{ended}, and it was over by {by}");
}

#[test]
fn a_handler_that_passes_the_signal_on() {
    let Some(mut dying) = Dying::start("deaths-handler", &[]) else { return };
    dying.ioc.command("dbpf DIE:HANDLE.PROC 1");
    assert_eq!(dying.process("DIE:AT").signal(), Some(libc::SIGSEGV));
    let said = dying.said();
    if !dying.whole {
        return not_run("deaths-handler", Needs::Kernel("registers of crashes".into()));
    }
    let end = said["end"].as_str().expect("an end");
    assert!(end.starts_with("killed by SIGSEGV at address 0x1230 in crash_at, thread "), "{end}");
    assert!(end.contains("; a handler of its own got it first"), "{end}");
}

/// A handler that faults, too: the first fault and the last are told, and the end names the last.
#[test]
fn a_handler_that_faults() {
    let Some(mut dying) = Dying::start("deaths-twice", &[]) else { return };
    assert_eq!(dying.process("DIE:TWICE").signal(), Some(libc::SIGSEGV));
    let said = dying.said();
    if !dying.whole {
        return not_run("deaths-twice", Needs::Kernel("registers of crashes".into()));
    }
    let end = said["end"].as_str().expect("an end");
    assert!(end.starts_with("killed by SIGSEGV at address 0x3450 in stumble, thread "), "{end}");
    assert_eq!(dying.rig.facts("crash"), 2);
}

/// The kernel sends it when the timer is due, whichever process runs then: that one is not blamed.
#[test]
fn a_timer() {
    let Some(mut dying) = Dying::start("deaths-timer", &[]) else { return };
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    let status = dying.process("DIE:TIMER");
    busy.kill().and_then(|()| busy.wait()).expect("it ends");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    let end = dying.said()["end"].clone();
    assert_eq!(end, "killed by SIGTERM, sent by a timer, a message queue or the like (si_code -2)");
}

/// A child between vfork and exec has the memory of its parent, and its crash is not the IOC's.
#[test]
fn a_child_that_crashes() {
    let Some(mut dying) = Dying::start("deaths-child", &[]) else { return };
    dying.ioc.command("dbpf DIE:CHILD.PROC 1");
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(dying.ioc.runs());
    let sender = send("KILL", dying.ioc.pid(), None);
    dying.ioc.wait();
    let said = dying.said();
    assert_eq!(said["end"], format!("killed by SIGKILL, sent by pid {sender} (sh, user root)"));
    assert_eq!((&said["crash"], dying.rig.facts("crash")), (&Value::Null, 0), "{said:#}");
}

/// A shell that sends a signal as another user's process and ends at once; its pid.
fn send(signal: &str, pid: u32, uid: Option<u32>) -> u32 {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("kill -{signal} {pid}")]);
    uid.map(|uid| command.uid(uid));
    let mut sender = command.spawn().expect("a shell");
    let pid = sender.id();
    sender.wait().expect("it ends");
    pid
}

#[test]
fn who_sent_it() {
    for (signal, number) in
        [("KILL", libc::SIGKILL), ("TERM", libc::SIGTERM), ("USR1", libc::SIGUSR1), ("34", 34)]
    {
        let Some(mut dying) = Dying::start("deaths-sender", &[]) else { return };
        // one that is not the cause
        send("WINCH", dying.ioc.pid(), None);
        let sender = send(signal, dying.ioc.pid(), None);
        assert_eq!(dying.ioc.wait().signal(), Some(number));
        let said = dying.said();
        let name = if number == 34 { "signal 34".to_owned() } else { format!("SIG{signal}") };
        assert_eq!(said["end"], format!("killed by {name}, sent by pid {sender} (sh, user root)"));
        assert!(dying.rig.facts("signal_sent") >= 1);
    }
}

/// A signal that a handler gets, and after which the IOC goes on, is not what a later exit is blamed on; and one that the
/// handler passes on names both.
#[test]
fn a_handler_of_term() {
    let Some(mut dying) = Dying::start("deaths-term", &[]) else { return };
    dying.ioc.command("dbpf DIE:HANDLE.PROC 1");
    let sender = send("TERM", dying.ioc.pid(), None);
    assert_eq!(dying.ioc.wait().signal(), Some(libc::SIGTERM));
    let end = dying.said()["end"].clone();
    assert_eq!(
        end,
        format!("killed by SIGTERM, sent by itself after pid {sender} (sh, user root) had sent it")
    );
}

/// A thread of EPICS Base blocks SIGPIPE, and gets one each time that it writes to a client that has gone. Nobody sent it.
#[test]
fn writes_that_nobody_reads() {
    let Some(mut dying) = Dying::start("deaths-pipe", &[]) else { return };
    dying.ioc.command("dbpf DIE:PIPE.SCAN '.1 second'");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let sender = send("TERM", dying.ioc.pid(), None);
    assert_eq!(dying.ioc.wait().signal(), Some(libc::SIGTERM));
    let end = dying.said()["end"].clone();
    assert_eq!(end, format!("killed by SIGTERM, sent by pid {sender} (sh, user root)"));
    assert_eq!(dying.rig.facts("signal_sent"), 1);
}

/// A local user floods his IOC with signals: the recorder takes a bounded number of events, tells how many it left out, and
/// still knows who killed it.
#[test]
fn a_flood_of_signals() {
    let Some(mut dying) = Dying::start("deaths-flood", &[]) else { return };
    let pid = dying.ioc.pid();
    // one that a handler gets, after which the IOC goes on
    dying.ioc.command("dbpf DIE:ENDURE.PROC 1");
    let script = format!(
        "import os, signal, time\nend = time.time() + 4\nn = 0\n\
         while time.time() < end:\n os.kill({pid}, signal.SIGUSR1); n += 1\nprint(n)"
    );
    let output = Command::new("python3").args(["-c", &script]).output().expect("python3");
    let sent: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    assert!(sent > 1000, "{sent}");
    let killer = send("KILL", pid, None);
    assert_eq!(dying.ioc.wait().signal(), Some(libc::SIGKILL));
    let end = dying.said()["end"].as_str().expect("an end").to_owned();
    assert!(end.starts_with(&format!("killed by SIGKILL, sent by pid {killer} (sh, user root)")), "{end}");
    let told = dying.rig.facts("signal_sent");
    println!("{told} told of {sent} signals");
    assert!((2..100).contains(&told), "{told} of {sent}");
}

/// The perf tier's programs tell where the thread stood and the address, but no stack.
#[test]
fn the_perf_tier() {
    for (record, words) in [
        ("DIE:AT", "killed by SIGSEGV at address 0x1230 in crash_at, thread "),
        ("DIE:DIVIDE", "killed by SIGFPE in divide, thread "),
        ("DIE:JUMP", "killed by SIGSEGV at address 0x2340 in no file's code (at 0x2340), thread "),
        ("DIE:OVERFLOW", "killed by SIGSEGV at address "),
        ("DIE:ABORT", "killed by SIGABRT, sent by itself, thread "),
    ] {
        enter_mounts_with_tracefs();
        let Some(mut dying) = Dying::start("deaths-perf", &["--tier", "perf"]) else { return };
        assert!(dying.process(record).signal().is_some(), "{record}");
        let said = dying.said();
        let end = said["end"].as_str().expect("an end");
        assert!(end.starts_with(words), "{record}: {end}");
        assert!(end.contains(&format!(", while processing {record}")), "{record}: {end}");
        let crash = &said["crash"];
        assert_eq!((&crash["sp"], &crash["stack_bytes"]), (&Value::Null, &json!(0)), "{crash:#}");
        assert_eq!(functions(crash), [""; 0], "{crash:#}");
        if record == "DIE:OVERFLOW" {
            assert_eq!(crash["function"], "deeper", "{crash:#}");
        }
    }
}

/// The packet tier has no programs, but the end is told.
#[test]
fn the_packet_tier() {
    let Some(mut dying) = Dying::start("deaths-packet", &["--tier", "packet"]) else { return };
    send("KILL", dying.ioc.pid(), None);
    dying.ioc.wait();
    let said = dying.said();
    assert_eq!(said["end"], "killed by SIGKILL");
    // who sent it is missing, and the log says so
    let missing = said["not_probed"].to_string();
    assert!(missing.contains("signals and crashes: the packet tier has none"), "{said:#}");
}

/// The connector tells ends where it is not needed, if it is asked to. The kernel has it in the first network namespace, so
/// the recorder is started where this test was before its rig.
#[test]
fn the_connector() {
    let before = std::fs::File::open("/proc/thread-self/ns/net").expect("our network");
    for (record, how) in [("DIE:LEAVE", "exit status 3"), ("DIE:AT", "killed by SIGSEGV")] {
        let Some(rig) = Rig::new("deaths-connector") else { return };
        let Some(own) = Own::build_with(&rig, Build::Shared, &["-DROUTINES=\"routines.c\"", "-O0"]) else {
            return;
        };
        let ioc = own.start(&rig, PORT, "dying.db", &[]);
        let pid = ioc.pid_argument();
        let mut command = Command::new(IOCREC);
        command.args(["record", "--dir", &rig.log(), "--flush", "100ms", "--tier", "packet", "--pid", &pid]);
        let network = before.as_raw_fd();
        // SAFETY: between fork and exec one system call on a descriptor that is open.
        unsafe {
            command.pre_exec(move || match libc::setns(network, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let recorder = rig.by("iocrec", command.env("IOCREC_ENDS", "connector"));
        wait_until("it is recorded", || rig.facts("ioc") > 0);
        if recorder.errors().contains("how IOCs end is not known") {
            return not_run("deaths-connector", Needs::Kernel(recorder.errors()));
        }
        let sockets = std::fs::read_to_string(format!("/proc/{}/net/netlink", recorder.pid()));
        let sockets = sockets.expect("netlink's sockets");
        let pid = recorder.pid().to_string();
        let is_connector = |line: &str| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            words.get(1..4) == Some(&["11", &pid, "00000001"])
        };
        assert!(sockets.lines().any(is_connector), "it has a connector: {sockets}");
        let mut dying = Dying { whole: false, rig, ioc, recorder };
        dying.process(record);
        let end = dying.said()["end"].as_str().expect("an end").to_owned();
        assert!(end.starts_with(how), "{end}");
    }
}

#[test]
fn another_users_signal() {
    let Some(mut dying) = Dying::start("deaths-user", &[]) else { return };
    // root's IOC can't be killed by him: nothing is told of what did not happen
    send("KILL", dying.ioc.pid(), Some(NOBODY));
    assert!(dying.ioc.runs());
    let sender = send("TERM", dying.ioc.pid(), None);
    dying.ioc.wait();
    assert_eq!(dying.said()["end"], format!("killed by SIGTERM, sent by pid {sender} (sh, user root)"));
    assert_eq!(dying.rig.facts("signal_sent"), 1);
}
