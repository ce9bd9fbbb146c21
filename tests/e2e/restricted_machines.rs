//! Restricted machines: the recorder takes the highest possible tier, and gives the reason in one line.

use std::fs;
use std::process::Command;

use serde_json::{json, Value};

use crate::rig::{self, python, run, wait_until, Rig, IOCREC};

const PORT: u16 = 5074;

/// Runs `iocrec check` through a command: the tier, the reasons against higher ones, and the whole report.
fn checked(mut command: Command) -> (String, Vec<String>, Value) {
    let output = run(command.args([IOCREC, "check", "--json"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let reasons = found["refused"].as_array().expect("a list").iter();
    let reasons = reasons.map(|refused| refused["reason"].as_str().expect("a reason").to_string());
    (found["tier"].as_str().expect("a tier").to_string(), reasons.collect(), found)
}

/// A command that refuses these system calls to a program.
fn forbidding(rules: &str) -> Command {
    let mut command = python("forbid.py");
    command.arg(rules);
    command
}

/// A command that runs a program in a mount namespace of its own, after a shell script.
fn where_mounted(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        &format!("{script}\nexec \"$@\""),
        "sh",
    ]);
    command
}

#[track_caller]
fn expect_packet_tier((tier, reasons, _): &(String, Vec<String>, Value), words: &[&str]) {
    assert_eq!(tier, "packet", "{reasons:?}");
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    for reason in reasons {
        assert!(
            !reason.contains('\n') && words.iter().all(|word| reason.contains(word)),
            "{words:?}: {reason}"
        );
    }
}

#[test]
fn system_calls_that_are_refused_are_named() {
    let Some(_rig) = Rig::new("refused") else { return };
    let (tier, ..) = checked(where_mounted(":"));
    assert_eq!(tier, "ring", "on this kernel, where nothing is refused");
    expect_packet_tier(&checked(forbidding("bpf=ENOSYS")), &["bpf()"]);
    expect_packet_tier(&checked(forbidding("bpf=EPERM")), &["bpf()", "seccomp"]);
    expect_packet_tier(&checked(forbidding("perf_event_open=ENOSYS")), &["perf_event_open()"]);
    expect_packet_tier(&checked(forbidding("perf_event_open=EACCES")), &["perf_event_open()"]);
    let (.., found) = checked(forbidding("bpf=EPERM,socket-packet=EAFNOSUPPORT"));
    let reason = found["no_packets"].as_str().expect("a reason");
    assert!(reason.contains("CONFIG_PACKET"), "{reason}");
}

/// A kernel without CONFIG_CROSS_MEMORY_ATTACH, or a container's seccomp filter.
#[test]
fn records_are_read_through_proc_where_the_system_call_is_missing_or_forbidden() {
    let Some(rig) = Rig::new("memory") else { return };
    let ioc = rig.ioc("memory", PORT, "puts.db", &[]);
    let pid: u64 = ioc.pid_argument().parse().expect("a number");
    let of_it = |command| {
        let (.., found) = checked(command);
        let mut iocs = found["iocs"].as_array().expect("a list").iter();
        iocs.find(|found| found["pid"] == pid).expect("the IOC").clone()
    };
    let records = |found: &Value| {
        assert!(found["no_records"].is_null(), "{found}");
        found["records"].as_u64().expect("a number")
    };
    let read = records(&of_it(forbidding("process_vm_readv=ENOSYS")));
    assert!(read > 0);
    let probed = of_it(where_mounted(":"));
    assert_eq!(read, records(&probed));
    assert!(probed["probes"].as_array().is_some_and(|probes| probes.len() > 3), "{probed}");
    let forbidden = of_it(forbidding("process_vm_readv=EPERM"));
    assert_eq!((read, &forbidden["probes"]), (records(&forbidden), &probed["probes"]));
    // it promises no impossible probes
    let packets = of_it(forbidding("bpf=EPERM"));
    assert_eq!((read, &packets["probes"]), (records(&packets), &json!([])));
    assert_eq!(packets["not_probed"], json!(["the packet tier has no probes"]));
}

#[test]
fn an_error_names_what_is_missing_where_nothing_is_possible() {
    let Some(rig) = Rig::new("nothing") else { return };
    let mut command = forbidding("bpf=ENOSYS,socket-packet=EAFNOSUPPORT");
    let output = run(command.args([IOCREC, "record", "--dir", &rig.log(), "--duration", "1s"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(errors.contains("CONFIG_PACKET") && errors.contains("bpf()"), "{errors}");
}

/// What the recorder could not find out, it does not claim.
#[test]
fn too_few_files_are_no_statement_about_a_process() {
    let Some(rig) = Rig::new("few-files") else { return };
    let ioc = rig.ioc("few-files", PORT, "puts.db", &[]);
    for most in [16, 24, 32, 48, 64, 100] {
        let log = format!("{}-{most}", rig.log());
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={most}")).args([IOCREC, "record", "--dir", &log, "--duration", "2s"]);
        let output = run(command.args(["--pid", &ioc.pid_argument()]));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(&format!("{most} files may be open")), "{errors}");
        for untrue in ["there is no process", "was not found to be", "is not EPICS Base"] {
            assert!(!errors.contains(untrue), "{most}: {errors}");
        }
    }
}

/// The kernel stamps hits with its own clock, so the recorder's must be the same.
#[test]
fn clocks_that_are_not_the_kernels_are_refused() {
    let Some(rig) = Rig::new("time-namespace") else { return };
    let apart = |clocks: &[&str], arguments: &[&str]| {
        let mut command = Command::new("unshare");
        let output = run(command.args(["--time", "--fork"]).args(clocks).arg(IOCREC).args(arguments));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let log = rig.log();
    for clock in [["--monotonic", "-2"], ["--boottime", "100000"]] {
        for arguments in
            [&["record", "--dir", &log, "--duration", "1s"][..], &["watch", "--duration", "1s"], &["check"]]
        {
            let (code, errors) = apart(&clock, arguments);
            assert_eq!((code, errors.lines().count()), (Some(1), 1), "{errors}");
            assert!(errors.contains("time namespace") && errors.contains("nsenter --time"), "{errors}");
        }
    }
    let (code, errors) = apart(&["--monotonic", "0"], &["check"]);
    assert_eq!(code, Some(0), "its clocks are the same: {errors}");
}

#[test]
fn no_sys_no_proc_sys_and_a_root_that_is_read_only() {
    let Some(_rig) = Rig::new("no-sys") else { return };
    expect_packet_tier(&checked(where_mounted("mount -t tmpfs none /sys")), &["no /sys", "mount -t sysfs"]);
    let (tier, ..) = checked(where_mounted("mount -t tmpfs none /proc/sys"));
    assert_eq!(tier, "ring");
    let (tier, ..) = checked(where_mounted("mount -o remount,bind,ro / && ! touch /x 2>/dev/null"));
    assert_eq!(tier, "ring");
}

#[test]
fn capabilities_that_are_missing_are_named() {
    let Some(rig) = Rig::new("capabilities") else { return };
    let without = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", capabilities, "--inh-caps", capabilities]);
        checked(command)
    };
    expect_packet_tier(&without("-sys_admin,-perfmon,-bpf"), &["root", "CAP_SYS_ADMIN"]);
    // the files of an IOC can't be opened then, so what it is was not seen
    let ioc = rig.ioc("capabilities", PORT, "puts.db", &[]);
    let found = without("-sys_admin,-checkpoint_restore");
    expect_packet_tier(&found, &["CAP_SYS_ADMIN", "may be taken for other servers"]);
    let pid: u64 = ioc.pid_argument().parse().expect("a number");
    let mut iocs = found.2["iocs"].as_array().expect("a list").iter();
    let found = iocs.find(|found| found["pid"] == pid).expect("the IOC");
    assert!(found["no_records"].as_str().is_some_and(|why| why.contains("not found to be")), "{found}");
}

/// What may not be read is not called no IOC.
#[test]
fn processes_that_may_not_be_read_are_no_statement() {
    let Some(rig) = Rig::new("no-ptrace") else { return };
    let ioc = rig.ioc("no-ptrace", PORT, "puts.db", &[]);
    // its exit code, and what it says
    let without = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", IOCREC]);
        command.args(["record", "--dir", &rig.log(), "--duration", "8s"]).args(arguments);
        let mut said = (None, String::new());
        for _ in 0..5 {
            let output = run(&mut command);
            said = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
            // a busy machine may take longer than it waits for
            if !said.1.contains("not all processes have been inspected yet") {
                break;
            }
        }
        said
    };
    let (code, errors) = without(&["--pid", &ioc.pid_argument()]);
    let says = format!("process {} can't be read: run as root, with CAP_SYS_PTRACE", ioc.pid());
    assert!(code == Some(1) && errors.contains(&says), "{errors}");
    let (_, errors) = without(&["--port", "5099"]);
    assert!(errors.contains("those of others can't be: run as root, with CAP_SYS_PTRACE"), "{errors}");
}

/// In a PID namespace, processes have other numbers than the BPF programs see.
#[test]
fn in_a_container_the_self_test_fails() {
    let Some(_rig) = Rig::new("container") else { return };
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]);
    expect_packet_tier(&checked(command), &["self-test", "PID namespace"]);
}

/// Reasons are in the log, and once on stderr; puts are recorded from packets.
#[test]
fn what_is_left_is_recorded() {
    let Some(rig) = Rig::new("left") else { return };
    let ioc = rig.ioc("left", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let (pid, dir) = (ioc.pid_argument(), rig.log());
    let mut command = forbidding("bpf=EPERM");
    command.args([IOCREC, "record", "--dir", &dir, "--flush", "200ms", "--pid", &pid]);
    let mut recorder = rig.by("forbidden", &mut command);
    rig.wait_until_recording(&mut client, "PUT:READY", "packet");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let errors = recorder.errors();
    assert_eq!(errors.matches("seccomp").count(), 1, "once, though two tiers are refused: {errors}");
    assert!(errors.contains("packet tier") && errors.contains("ring and perf: "), "{errors}");
    let info = rig.replay("info", &[]);
    let info = String::from_utf8_lossy(&info.stdout);
    assert!(info.contains("seccomp"), "the log has no reason: {info}");
}

/// What packets would have told is missing from the log, and the log says so.
#[test]
fn the_log_says_that_there_are_no_packets() {
    let Some(rig) = Rig::new("no-packets") else { return };
    let ioc = rig.ioc("no-packets", PORT, "puts.db", &[]);
    let mut command = forbidding("socket-packet=EPERM");
    command.args([IOCREC, "record", "--dir", &rig.log(), "--flush", "200ms", "--pid", &ioc.pid_argument()]);
    let mut recorder = rig.by("forbidden", &mut command);
    let why = "its network namespace cannot be captured: not allowed to capture packets";
    wait_until("it reports why", || recorder.errors().contains(why));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let info = rig.replay("info", &[]);
    assert!(String::from_utf8_lossy(&info.stdout).contains(why), "{info:?}");
}

/// Where the kernel does not answer questions about sockets, /proc does.
#[test]
fn a_client_is_named_without_sock_diag() {
    let Some(rig) = Rig::new("no-sock-diag") else { return };
    let ioc = rig.ioc("asked", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let (pid, dir) = (ioc.pid_argument(), rig.log());
    let mut command = forbidding("socket-netlink=EPERM");
    command.args([IOCREC, "record", "--dir", &dir, "--flush", "200ms", "--pid", &pid]);
    let mut recorder = rig.by("forbidden", &mut command);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    wait_until("the client is named", || {
        client.put("PUT:LONG", 5, serde_json::json!(1), true);
        rig.puts(&["--pv", "PUT:LONG"]).iter().any(|put| put["process"]["pid"] == client.pid())
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// On a kernel without a PMU for uprobes, a killed recorder leaves stale uprobe events behind.
#[test]
fn events_of_dead_recorders_are_removed_from_tracefs() {
    let Some(rig) = Rig::new("stale-events") else { return };
    rig::enter_mounts_with_tracefs();
    let events = "/sys/kernel/tracing/uprobe_events";
    let mut dead = Command::new("true").spawn().expect("a process");
    dead.wait().expect("it ends");
    let (dead, living) = (dead.id(), std::process::id());
    let add = |line: String| {
        use std::io::Write;
        let file = fs::OpenOptions::new().append(true).open(events);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("an event");
    };
    let (of_dead, of_living) =
        (format!("uprobes/libbpf_{dead}_0__sh_0x5000"), format!("uprobes/libbpf_{living}_0__sh"));
    let foreign = format!("iocrec_test/libbpf_{dead}_0");
    for event in [&of_dead, &of_living, &foreign] {
        add(format!("p:{event} /bin/sh:0x5000\n"));
    }
    let output = run(Command::new(IOCREC).args(["record", "--dir", &rig.log(), "--duration", "100ms"]));
    let left = fs::read_to_string(events).expect("the events");
    for event in [&of_living, &foreign] {
        add(format!("-:{event}\n"));
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!left.contains(&of_dead), "{left}");
    assert!(left.contains(&of_living) && left.contains(&foreign), "{left}");
}

/// A capability set of a process, by the name of its line in /proc/PID/status.
fn status_of(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line is there");
    u64::from_str_radix(line.trim(), 16).expect("hexadecimal")
}

/// It keeps the capabilities for IOCs that start later, as another user and in another network.
#[test]
fn privileges_that_are_not_needed_are_given_up() {
    let Some(rig) = Rig::alone("privileges") else { return };
    let mut recorder = rig.record(&["--only", "PUT:LONG"]);
    wait_until("it records", || {
        recorder.runs() && fs::read_dir(rig.log()).is_ok_and(|mut log| log.next().is_some())
    });
    // DAC_READ_SEARCH, NET_RAW, SYS_PTRACE, SYS_ADMIN: docs/operating.md
    let needed = 1 << 2 | 1 << 13 | 1 << 19 | 1 << 21;
    let tasks = fs::read_dir(format!("/proc/{}/task", recorder.pid())).expect("its threads");
    for task in tasks {
        let tid = task.expect("a thread").file_name().to_string_lossy().parse().expect("its number");
        for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
            assert_eq!(status_of(tid, set), needed, "{set}");
        }
        assert_eq!((status_of(tid, "CapInh:"), status_of(tid, "CapAmb:")), (0, 0));
        assert_eq!(status_of(tid, "NoNewPrivs:"), 1);
    }
    let mut command = python("private_net.py");
    // so that it can read what belongs to root
    let capabilities = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"];
    command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(capabilities);
    let script = python("ioc.py");
    command.arg(script.get_program()).args(script.get_args());
    command.arg("later").arg(PORT.to_string()).arg(rig::rig_file("puts.db"));
    let mut ioc = rig.ioc_by("later", &mut command);
    wait_until("its puts are recorded", || {
        ioc.command("dbpf PUT:LONG 4711");
        rig.puts(&["--pv", "PUT:LONG"]).iter().any(|put| put["requested"] == "4711")
    });
    let info = rig.replay("iocs", &["--json"]);
    let info = String::from_utf8_lossy(&info.stdout);
    assert!(info.contains(&PORT.to_string()), "its port is found in its own network: {info}");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(recorder.errors().matches("capabilit").count(), 0, "{}", recorder.errors());
}

/// A machine boots in 1970 and gets the time during the recording: all times are right, also the earlier ones.
#[test]
fn a_clock_that_jumps_from_1970_to_now() {
    let Some(rig) = Rig::new("clock") else { return };
    let library = rig.path("clock.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O2", "-o", &library]).arg(rig::rig_file("clock.c")).arg("-ldl");
    let output = run(&mut compile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ioc = rig.ioc("clock", PORT, "puts.db", &[]);
    let (pid, dir, now) = (ioc.pid_argument(), rig.log(), rig.path("now"));
    let mut command = Command::new(IOCREC);
    command.args(["record", "--dir", &dir, "--flush", "200ms", "--tier", "ring", "--pid", &pid]);
    command.env("LD_PRELOAD", &library).env("CLOCK_IS_RIGHT_WITH", &now);
    let mut recorder = rig.by("1970", &mut command);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.put("PUT:LONG", 5, serde_json::json!(1), true);
    fs::write(&now, "").expect("a file");
    wait_until("the log has the jump of the clock", || {
        rig.runs().iter().any(|run| !run["clock_set"].is_null())
    });
    client.put("PUT:LONG", 5, serde_json::json!(2), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let times: Vec<String> =
        rig.puts(&["--pv", "PUT:LONG"]).iter().map(|put| put["time"].to_string()).collect();
    assert_eq!(times.len(), 2, "{times:?}");
    assert!(times.iter().all(|time| time.contains("\"20")) && times.is_sorted(), "{times:?}");
    let info = rig.replay("info", &[]);
    assert!(String::from_utf8_lossy(&info.stdout).contains("was not set before 20"), "{info:?}");
}
