//! Finds and attaches to IOCs, whatever their build and surroundings.

use crate::rig::own_program::{libraries, succeed, Build, Own};
use crate::rig::{
    enter_private_mounts, json_lines, mount_small, not_run, python, rig_file, run, wait_until, Delays, Ioc,
    Needs, Rig, Running, IOCREC,
};
use serde_json::{json, Value};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PORT: u16 = 5074;

/// Starts ioc.py with a copy of epicscorelibs in the directory `site`.
fn run_from(rig: &Rig, site: &str, name: &str) -> Ioc {
    let mut command = python("ioc.py");
    command.arg(name).arg(PORT.to_string()).arg(rig_file("first.db")).env("PYTHONPATH", site);
    rig.ioc_by(name, &mut command)
}

/// The report of `iocrec check` on an IOC.
pub fn checked(ioc: &Ioc) -> Value {
    let output = run(Command::new(IOCREC).args(["check", "--json"]));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let iocs = json["iocs"].as_array().cloned().unwrap_or_default();
    iocs.into_iter().find(|found| found["pid"] == ioc.pid()).unwrap_or_else(|| panic!("not found: {json}"))
}

/// Opens a channel before the recorder starts and puts afterwards: packets and probes both show the put by name.
pub fn is_recorded(rig: &Rig, ioc: &Ioc) {
    let mut client = rig.client("libca", &[PORT], &[]);
    let address = client.connect("ONE:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    client.put("ONE:SP", 6, json!(-8.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = rig.puts(&["--pv", "ONE:SP"]);
    let put = log.iter().rfind(|put| put["requested"] == json!(-8.5)).expect("the last put");
    assert_eq!(put["source"], "both", "{put}");
    assert_eq!(put["record"], "ONE:SP", "{put}");
    assert_eq!(put["client"], json!(address), "{put}");
    assert_eq!(put["new"], json!(-8.5), "{put}");
}

/// The executable holds the live `pdbbase` (a copy relocation), also when only its dynamic symbols are left.
#[test]
fn a_program_linked_to_the_libraries_also_when_stripped() {
    for strip in [false, true] {
        let Some(rig) = Rig::new("attach-own") else { return };
        let Some(own) = Own::build(&rig, Build::Shared) else { return };
        let symbols = run(Command::new("readelf").args(["-W", "-r", &own.program]));
        let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
        let copied = |line: &str| line.contains("_COPY") && line.contains("pdbbase");
        assert!(symbols.lines().any(copied), "nothing is tested: {symbols}");
        if strip {
            own.strip();
        }
        let ioc = own.start(&rig, PORT, "first.db", &[]);
        let found = checked(&ioc);
        assert_eq!(found["name"], "own");
        assert_eq!(found["linkage"], "shared");
        assert!(found["record_types"].as_u64().is_some_and(|types| types > 20), "{found}");
        is_recorded(&rig, &ioc);
    }
}

/// A container's network is not the recorder's: it sees no packets, but finds the client in the IOC's memory.
#[test]
fn an_ioc_in_a_network_of_its_own() {
    let Some(inside) = Rig::new("attach-network") else { return };
    let ioc = inside.ioc("networked", PORT, "first.db", &[]);
    let mut client = inside.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    let address = client.connect("ONE:SP");
    // From here on this thread, and so the recorder, is in another.
    let Some(rig) = Rig::new("attach-network") else { return };
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    // its packets as well: they are captured there
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let put = rig.puts(&["--pv", "ONE:SP"]).pop().expect("a put");
    assert_eq!(put["client"], json!(address), "{put}");
    assert_eq!(put["user"], "nobody", "{put}");
    assert_eq!(put["client_host"], "console-3", "{put}");
}

/// Whoever has read that an IOC is recorded may rely on it: the first put after it is there by its packet, too, from a channel
/// that was open before. So it is with several IOCs, in the recorder's network and in another.
#[test]
fn the_first_put_after_it_says_that_it_records() {
    let Some(inside) = Rig::new("attach-first") else { return };
    let far = inside.ioc("far", PORT, "first.db", &[]);
    let mut far_client = inside.client("libca", &[PORT], &[]);
    far_client.connect("ONE:SP");
    let Some(rig) = Rig::new("attach-first") else { return };
    let near = rig.ioc("near", PORT, "first.db", &[]);
    let second = rig.ioc("second", PORT + 10, "second.db", &[]);
    let mut client = rig.client("libca", &[PORT, PORT + 10], &[]);
    client.connect("ONE:SP");
    client.connect("TWO:SP");
    let pids = [&far, &near, &second].map(|ioc| ioc.pid_argument());
    let arguments: Vec<&str> = pids.iter().flat_map(|pid| ["--pid", pid]).collect();
    for round in 1..=4 {
        let mut recorder = rig.record(&arguments);
        wait_until("all are recorded", || recorder.errors().matches("recording ").count() >= 3);
        let value = json!(f64::from(round));
        far_client.put("ONE:SP", 6, value.clone(), true);
        client.put("ONE:SP", 6, value.clone(), true);
        client.put("TWO:SP", 6, value.clone(), true);
        assert!(recorder.stop().success(), "{}", recorder.errors());
        for (ioc, pv) in [("far", "ONE:SP"), ("near", "ONE:SP"), ("second", "TWO:SP")] {
            let puts = rig.puts(&["--ioc", ioc, "--pv", pv]);
            let put = puts.iter().find(|put| put["requested"] == value);
            let put = put.unwrap_or_else(|| panic!("round {round}: none of {ioc}: {puts:#?}"));
            assert_eq!(put["source"], "both", "round {round}: {put}");
        }
    }
}

/// Without probes the recorder says so, too, once packets are captured.
#[test]
fn it_says_that_it_records_an_ioc_without_probes() {
    let Some(rig) = Rig::new("attach-packets") else { return };
    let ioc = rig.ioc("near", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("ONE:SP");
    let mut recorder = rig.record(&["--tier", "packet", "--pid", &ioc.pid_argument()]);
    wait_until("it is recorded", || recorder.errors().contains("recording near (pid "));
    client.put("ONE:SP", 6, json!(7.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&[]);
    let is_told = |put: &Value| put["requested"] == json!(7.5) && put["status"] == "ok";
    assert!(puts.iter().any(is_told), "{puts:#?}");
}

/// The capture of another network namespace is opened once an IOC is found there: until then its clients' puts have no packets,
/// and the log says so.
#[test]
fn puts_before_the_packets_of_a_new_ioc_are_in_a_gap() {
    let Some(inside) = Rig::new("attach-later") else { return };
    let mut client = inside.client("libca", &[PORT], &[]);
    let Some(rig) = Rig::new("attach-later") else { return };
    let mut recorder = rig.record(&["--only", "ONE:*"]);
    // its first line comes when it has examined all processes
    wait_until("it records", || !recorder.errors().is_empty());
    let ioc = rig.ioc_beside(client.pid(), "later", PORT, "first.db", &[]);
    client.connect("ONE:SP");
    let mut made = 0;
    let puts = || rig.puts(&["--pv", "ONE:SP", "--ioc", "later", "--utc"]);
    wait_until("packets are captured", || {
        for _ in 0..50 {
            made += 1;
            client.put("ONE:SP", 6, json!(f64::from(made)), true);
        }
        puts().iter().any(|put| put["source"] == "both")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let iocs = json_lines(&rig.replay("iocs", &["--json", "--utc"]).stdout);
    let told = iocs.iter().find(|line| line["pid"] == ioc.pid()).expect("the IOC");
    assert_eq!(told["ca_ports"], json!([PORT]), "{told}");
    // to the millisecond, as gaps are
    let moment = |time: &Value| time.as_str().and_then(|time| time.get(..23)).map(str::to_owned);
    let gaps = told["gaps"].as_array().cloned().unwrap_or_default();
    let last = gaps.iter().filter_map(|gap| moment(&gap["to"])).max();
    for put in puts().iter().filter(|put| put["source"] == "probe") {
        assert!(moment(&put["time"]) <= last, "it is in no gap: {put}, {gaps:?}");
    }
}

/// A program in C with its own shell, whose `exit` is what ends it.
#[test]
fn the_soft_ioc_of_epics_base() {
    let Some(rig) = Rig::new("attach-soft") else { return };
    let Some(mut ioc) = rig.soft_ioc("soft", PORT, "first.db") else {
        return not_run("soft-ioc", Needs::Machine("x86-64"));
    };
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("ONE:SP");
    let found = checked(&ioc);
    assert_eq!((&found["name"], &found["linkage"]), (&json!("soft"), &json!("shared")), "{found}");
    is_recorded(&rig, &ioc);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    ioc.tell("exit");
    assert!(ioc.wait().success());
    wait_until("its end is told", || recorder.errors().contains("has ended: "));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = json_lines(&rig.replay("console", &["--format", "jsonl"]).stdout);
    let gave_up: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "gave_up").collect();
    assert_eq!(gave_up.len(), 1, "{lines:#?}");
    assert_eq!(gave_up[0]["text"], "calls exit(0)");
}

/// Kernels from 6.15 on report how a process ended, once its parent has waited for it.
#[test]
fn the_end_of_an_ioc_is_reported() {
    let Some(rig) = Rig::new("attach-end") else { return };
    let mut ioc = rig.ioc("ends", PORT, "first.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let says = |recorder: &Running, what: &str| recorder.errors().lines().any(|line| line.contains(what));
    wait_until("it is recorded", || says(&recorder, "recording ends"));
    ioc.kill();
    let begin = format!("ends (pid {}) has ended: ", ioc.pid());
    wait_until("its end is reported", || says(&recorder, &begin));
    let how = ["killed by SIGKILL", "its process is gone"];
    assert!(how.iter().any(|how| says(&recorder, &format!("{begin}{how}"))), "{}", recorder.errors());
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// The first thread has ended, so most files in /proc/PID are empty.
#[test]
fn an_ioc_without_its_first_thread() {
    let Some(rig) = Rig::new("attach-left") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let ioc = own.start(&rig, PORT, "first.db", &["leave"]);
    wait_until("its first thread ends", || {
        std::fs::read(format!("/proc/{}/maps", ioc.pid())).is_ok_and(|maps| maps.is_empty())
    });
    let found = checked(&ioc);
    assert_eq!(found["name"], "own");
    assert_eq!(found["ca_ports"], json!([PORT]));
    is_recorded(&rig, &ioc);
}

/// The libraries are updated under a running IOC, which goes on with the old files, now without a name. Another IOC has its
/// libraries elsewhere.
#[test]
fn libraries_replaced_under_a_running_ioc() {
    let Some(rig) = Rig::alone("attach-replaced") else { return };
    let libraries = libraries();
    let site = rig.path("site");
    let copy = |to: &str| {
        std::fs::create_dir_all(to).expect("a directory");
        succeed(Command::new("cp").arg("-r").arg(&libraries).arg(to));
    };
    copy(&site);
    let ioc = run_from(&rig, &site, "replaced");
    std::fs::remove_dir_all(&site).expect("the old libraries go");
    copy(&site);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", ioc.pid())).expect("its mappings");
    assert!(maps.lines().any(|line| line.contains("libdbCore") && line.ends_with(" (deleted)")), "{maps}");

    let other = rig.ioc("other", PORT + 10, "puts.db", &[]);
    let mut other_client = rig.client("libca", &[PORT + 10], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &other.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    rig.wait_until_recording(&mut other_client, "PUT:DOUBLE", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// A program that looks up symbols has mapped the library once more, below the place where it was loaded.
#[test]
fn a_library_that_is_mapped_as_data_too() {
    let Some(rig) = Rig::new("attach-data") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    ioc.command("map dbProcess");
    let found = checked(&ioc);
    assert_eq!((&found["records"], &found["not_probed"]), (&json!(16), &json!([])), "{found}");
    is_recorded(&rig, &ioc);
}

/// Packages for Python bring their own EPICS Base. The one that is loaded last lies below the other, and runs no records.
#[test]
fn two_libraries_of_base_in_one_process() {
    let Some(rig) = Rig::new("attach-two") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let is_core = |path: &std::path::PathBuf| path.to_string_lossy().contains("/libdbCore.so");
    let files = std::fs::read_dir(libraries().join("lib")).expect("its libraries");
    let library = files.flatten().map(|file| file.path()).find(is_core).expect("libdbCore");
    let other = rig.path("libother.so");
    std::fs::copy(library, &other).expect("room for it");
    ioc.command(&format!("load {other}"));
    is_recorded(&rig, &ioc);
}

/// Containers' file systems are overlays, whose files have other inode numbers in /proc/PID/maps than in stat().
#[test]
fn an_ioc_on_an_overlay() {
    let Some(rig) = Rig::new("attach-overlay") else { return };
    let Some(mut own) = Own::build(&rig, Build::Static) else { return };
    enter_private_mounts();
    let small = rig.path("small");
    mount_small(&small, "size=64m");
    let at = |name: &str| format!("{small}/{name}");
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(at(name)).expect("a directory");
    }
    std::fs::copy(&own.program, at("lower/own")).expect("room for it");
    let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let mut mount = Command::new("mount");
    let mounted = run(mount.args(["-t", "overlay", "-o", &layers, "iocrec-test", &at("merged")]));
    if !mounted.status.success() {
        let error = String::from_utf8_lossy(&mounted.stderr);
        return not_run("an_ioc_on_an_overlay", Needs::Kernel(format!("overlay: {}", error.trim())));
    }
    own.program = at("merged/own");
    let ioc = own.start(&rig, PORT, "first.db", &[]);
    assert_eq!(checked(&ioc)["linkage"], "static");
    is_recorded(&rig, &ioc);
}

/// In a container, nobody outside can open the libraries by name.
#[test]
fn an_ioc_in_a_mount_namespace_of_its_own() {
    let Some(rig) = Rig::new("attach-container") else { return };
    let inside = rig.path("inside");
    std::fs::create_dir_all(&inside).expect("a directory");
    let ioc_py = python("ioc.py");
    let mut command = Command::new("unshare");
    let script = r#"mount -t tmpfs iocrec-test "$1" && cp -r "$2" "$1" && shift 2 && exec "$@""#;
    command.args(["--mount", "sh", "-c", script, "sh", &inside]).arg(libraries());
    command.arg(ioc_py.get_program()).args(ioc_py.get_args());
    command.arg("inside").arg(PORT.to_string()).arg(rig_file("first.db")).env("PYTHONPATH", &inside);
    let ioc = rig.ioc_by("inside", &mut command);
    assert!(!Path::new(&inside).join("epicscorelibs").exists(), "nothing is tested");
    assert_eq!(checked(&ioc)["name"], "inside");
    is_recorded(&rig, &ioc);
}

/// The time since when the log has an IOC's hits, and whether it reports a gap before that.
fn recorded_since(rig: &Rig, pid: u32) -> Option<(String, bool)> {
    let iocs = json_lines(&rig.replay("iocs", &["--json", "--utc"]).stdout);
    let ioc = iocs.into_iter().find(|ioc| ioc["pid"] == pid && !ioc["attached"][0].is_null())?;
    let since = ioc["attached"][0]["from"].as_str()?.to_string();
    Some((since, ioc["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty())))
}

/// Eight IOCs start at once, and one more that lives for three seconds. Each is recorded, with a gap for its unseen
/// beginning.
#[test]
fn iocs_that_start_at_once_are_all_recorded() {
    let Some(rig) = Rig::alone("attach-many") else { return };
    let log = rig.log();
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "300ms"]);
    // its first line comes when it has examined all processes
    wait_until("it records", || !recorder.errors().is_empty());
    let start = |name: String, port: u16| {
        let mut command = python("ioc.py");
        command.arg(&name).arg(port.to_string()).arg(rig_file("puts.db"));
        command.spawn_piped()
    };
    let mut children: Vec<Child> =
        (0..9).map(|number| start(format!("many-{number}"), PORT + 10 * number)).collect();
    // nine interpreters start at once
    let maps = |child: &Child| std::fs::read(format!("/proc/{}/maps", child.id())).unwrap_or_default();
    wait_until("the last is an IOC", || {
        children.last().is_some_and(|child| String::from_utf8_lossy(&maps(child)).contains("libdbCore"))
    });
    let delays = Delays::measure();
    std::thread::sleep(Duration::from_secs(3));
    std::thread::sleep(delays.total());
    let short = children.pop().map(|mut child| {
        let pid = child.id();
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        pid
    });
    let mut pids: Vec<u32> = children.iter().map(Child::id).collect();
    let is_recorded = |pid: u32| recorded_since(&rig, pid).is_some();
    pids.extend(short);
    wait_until("all are recorded", || pids.iter().all(|&pid| is_recorded(pid)));
    for &pid in &pids {
        let (since, gap) = recorded_since(&rig, pid).expect("it is recorded");
        assert!(gap, "{pid} since {since}: the unseen beginning is not reported");
    }
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// An IOC gets puts from its start on. The log has all of them from the moment on since when it claims to have the hits.
#[test]
fn nothing_is_missing_once_the_log_says_that_hits_are_taken() {
    let Some(rig) = Rig::new("attach-complete") else { return };
    let log = rig.log();
    let mut recorder = rig.agent(&["record", "--dir", &log, "--flush", "300ms"]);
    // its first line comes when it has examined all processes
    wait_until("it records", || !recorder.errors().is_empty());
    let ioc = rig.ioc("complete", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut made: Vec<(String, i64)> = Vec::new();
    let mut put = |count: i64| {
        for _ in 0..count {
            let (before, number) = (utc_now(), made.len() as i64);
            client.put("PUT:LONG", 5, json!(number), true);
            made.push((before, number));
        }
    };
    put(300);
    wait_until("it is recorded", || {
        put(50);
        recorded_since(&rig, ioc.pid()).is_some()
    });
    put(50);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let (since, gap) = recorded_since(&rig, ioc.pid()).expect("it is recorded");
    assert!(gap, "the unseen beginning is not reported");
    let expected: Vec<i64> =
        made.iter().filter(|(time, _)| *time > since).map(|(_, number)| *number).collect();
    let puts = rig.puts(&["--pv", "PUT:LONG", "--ioc", "complete"]);
    let inside = puts.iter().filter(|put| put["source"] != "packet");
    let found: Vec<i64> =
        inside.filter_map(|put| put["requested"].as_f64()).map(|value| value as i64).collect();
    assert!(!expected.is_empty(), "nothing is tested: recorded since {since}");
    assert!(expected.iter().all(|number| found.contains(number)), "since {since}: {expected:?} {found:?}");
}

/// The current time in the reader's format, to the millisecond.
pub fn utc_now() -> String {
    let output = run(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.%3N+00:00"]));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Starts a child whose input stays open.
trait Piped {
    fn spawn_piped(&mut self) -> Child;
}

impl Piped for Command {
    fn spawn_piped(&mut self) -> Child {
        self.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    }
}
