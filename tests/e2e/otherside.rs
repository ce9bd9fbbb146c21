//! The other side of a put: the process that made it, and of an IOC the link, as compared with what was started.

use crate::rig::own_program::{Build, Own};
use crate::rig::{iocreplay, json_lines, rig_file, run, wait_until, Rig, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PORT: u16 = 5174;
const DOUBLE: u16 = 6;
/// The kernel's own description of its structures.
const BTF: &str = "/sys/kernel/btf/vmlinux";
const NOTIFY: bool = true;

fn text(rig: &Rig, command: &str, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&rig.replay(command, arguments).stdout).into_owned()
}

/// The processes of the puts of this value.
fn processes(puts: &[Value], value: f64) -> Vec<&Value> {
    puts.iter().filter(|put| put["requested"].as_f64() == Some(value)).map(|put| &put["process"]).collect()
}

#[test]
fn the_process_of_a_client_is_named() {
    for tier in ["ring", "packet"] {
        let Some(rig) = Rig::new(&format!("process-{tier}")) else { return };
        let ioc = rig.ioc("served", PORT, "puts.db", &[]);
        let mut recorder = rig.record(&["--tier", tier, "--pid", &ioc.pid_argument()]);
        let mut first = rig.client("libca", &[PORT], &[]);
        let source = if tier == "ring" { "both" } else { "packet" };
        rig.wait_until_recording(&mut first, "PUT:DOUBLE", source);
        // one that was there before, one that comes, one in another network with an address of its own
        let mut second = rig.client("caproto", &[PORT], &["--user", "somebody"]);
        let addresses = [&mut first, &mut second].map(|client| client.connect("PUT:DOUBLE"));
        first.put("PUT:DOUBLE", DOUBLE, json!(901.0), NOTIFY);
        second.put("PUT:DOUBLE", DOUBLE, json!(902.0), NOTIFY);
        let named = |value: f64, pid: u32| {
            let puts = rig.puts(&["--pv", "PUT:DOUBLE"]);
            let found = processes(&puts, value);
            found.len() == 1 && found[0]["pid"] == pid && found[0]["program"] == "client.py"
        };
        wait_until("both are named", || named(901.0, first.pid()) && named(902.0, second.pid()));
        let pids = [first.pid(), second.pid()];
        drop(second);
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let puts = rig.puts(&["--pv", "PUT:DOUBLE"]);
        let process = processes(&puts, 902.0)[0];
        assert_eq!((&process["all_looked_at"], &process["by_other_log"]), (&json!(true), &json!(false)));
        assert!(
            process["command"].as_str().is_some_and(|line| line.contains("client.py caproto")),
            "{process}"
        );
        assert_eq!((&process["ioc"], &process["holders"]), (&Value::Null, &json!([])), "{process}");
        let clients = json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
        for (address, pid) in addresses.iter().zip(pids) {
            let line = clients.iter().find(|line| line["client"] == *address).expect("its circuit");
            assert_eq!(line["process"]["pid"], pid, "{line}");
            let said = format!("(client.py pid {pid})");
            assert!(text(&rig, "puts", &["--pv", "PUT:DOUBLE"]).contains(&said), "{said}");
        }
        if tier == "packet" {
            continue; // nobody sees the record change
        }
        let why = rig.why("PUT:DOUBLE");
        assert!(
            String::from_utf8_lossy(&why.stdout).contains(&format!("client.py pid {}", pids[1])),
            "{why:?}"
        );
    }
}

/// Each in a network of its own, at the same addresses: loopback is another network in each.
#[test]
fn clients_in_two_networks_are_not_mixed_up() {
    let Some(rig) = Rig::new("process-networks") else { return };
    let mut pairs = Vec::new();
    for name in ["left", "right"] {
        let ioc = rig.ioc_apart(name, PORT, "puts.db", &[]);
        let client = rig.client_beside(ioc.pid(), "libca", PORT, &[]);
        pairs.push((name, ioc, client));
    }
    let pids = [pairs[0].1.pid_argument(), pairs[1].1.pid_argument()];
    let mut recorder = rig.record(&["--tier", "packet", "--pid", &pids[0], "--pid", &pids[1]]);
    let of = |name: &str, puts: &[Value]| -> Vec<Value> {
        let last = puts.iter().rfind(|put| put["ioc"] == name && !put["process"]["pid"].is_null());
        last.into_iter().map(|put| put["process"]["pid"].clone()).collect()
    };
    wait_until("both are named", || {
        pairs.iter_mut().for_each(|(_, _, client)| _ = client.put("PUT:DOUBLE", DOUBLE, json!(1.0), NOTIFY));
        let puts = rig.puts(&[]);
        pairs.iter().all(|(name, ..)| !of(name, &puts).is_empty())
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&[]);
    for (name, _, client) in &pairs {
        let wrong = |put: &&Value| {
            put["ioc"] == *name && !put["process"]["pid"].is_null() && put["process"]["pid"] != client.pid()
        };
        assert_eq!(puts.iter().find(wrong), None, "{name}");
        assert_eq!(of(name, &puts), [json!(client.pid())], "{name}");
    }
}

/// A process may call itself anything, and share its circuit.
#[test]
fn a_shared_circuit_and_a_hostile_name() {
    let Some(rig) = Rig::new("process-shared") else { return };
    let ioc = rig.ioc("served", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--tier", "packet", "--pid", &ioc.pid_argument()]);
    let mut probe = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut probe, "PUT:DOUBLE", "packet");
    let mut command = Command::new("/usr/bin/python3");
    command.arg0("evil\n\u{1b}[31mname").arg("-S").arg(rig_file("sharing_client.py"));
    command.args([&PORT.to_string(), "PUT:DOUBLE", "--password=hunter2"]);
    let mut hostile = rig.ioc_by("hostile", &mut command);
    // before the circuit says anything: who holds it is looked for when it does
    let child: u32 = hostile.command("fork")[0].parse().expect("a number");
    hostile.command("put 910");
    wait_until("it is seen", || !processes(&rig.puts(&["--pv", "PUT:DOUBLE"]), 910.0).is_empty());
    wait_until("they are named", || {
        let puts = rig.puts(&["--pv", "PUT:DOUBLE"]);
        processes(&puts, 910.0)[0]["holders"].as_array().is_some_and(|holders| holders.len() == 2)
    });
    let pid = hostile.pid();
    drop(hostile);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:DOUBLE"]);
    let process = processes(&puts, 910.0)[0];
    assert_eq!(process["pid"], Value::Null, "{process}");
    let holders = process["holders"].as_array().expect("a list");
    assert_eq!([&holders[0]["pid"], &holders[1]["pid"]], [&json!(pid), &json!(child)], "{process}");
    let command = holders[0]["command"].as_str().expect("a text");
    assert!(command.contains("***") && !command.contains("hunter2"), "{command}");
    for (command, arguments) in [("puts", &[][..]), ("clients", &[]), ("traces", &[])] {
        let text = text(&rig, command, arguments);
        assert!(text.contains(&format!("pid {pid}")) && text.contains(&format!("pid {child}")), "{text}");
        assert!(text.contains("which share it") && !text.contains('\u{1b}'), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("name")), "{text}");
    }
}

/// Has dbCaPutLinkCallback, as gcc 12 compiles it, begin with an instruction that the kernel would single-step: the same
/// (`mov $0x1ff0003,%eax; cmp $0x26,%si`), encoded as no compiler does.
fn make_stepped(program: &str) {
    const FOUND: [u8; 9] = [0xb8, 3, 0, 0xff, 1, 0x66, 0x83, 0xfe, 0x26];
    const MADE: [u8; 9] = [0xc7, 0xc0, 3, 0, 0xff, 1, 0x83, 0xfe, 0x26];
    let mut bytes = std::fs::read(program).expect("the program");
    let places: Vec<usize> =
        bytes.windows(FOUND.len()).enumerate().filter(|(_, at)| *at == FOUND).map(|(at, _)| at).collect();
    let [at] = places.as_slice() else { panic!("{} functions begin so", places.len()) };
    bytes[*at..][..MADE.len()].copy_from_slice(&MADE);
    std::fs::write(program, bytes).expect("it is written");
}

/// An IOC whose dbCaPutLinkCallback can't be probed: a CA link is known by its text, and by its IOC's process.
#[test]
fn a_link_that_cannot_be_probed_is_found() {
    for unprobed in [false, true] {
        let Some(rig) = Rig::new(&format!("link-unprobed-{unprobed}")) else { return };
        let build = if unprobed { Build::Unexported } else { Build::Shared };
        let Some(own) = Own::build(&rig, build) else { return };
        if unprobed {
            make_stepped(&own.program);
        }
        let second = rig.ioc("second", PORT + 10, "second.db", &[]);
        let mut command = own.command(PORT, "first.db", &[]);
        command.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT} 127.0.0.1:{}", PORT + 10));
        let first = rig.ioc_by("own", &mut command);
        let pids = [first.pid_argument(), second.pid_argument()];
        let mut recorder = rig.record(&["--tier", "ring", "--pid", &pids[0], "--pid", &pids[1]]);
        let mut probe = rig.client("libca", &[PORT + 10], &[]);
        rig.wait_until_recording(&mut probe, "TWO:READY", "both");
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "ONE:READY", "both");
        let mut value = 50.0;
        wait_until("the link is known", || {
            value += 1.0;
            client.put("ONE:SP", DOUBLE, json!(value), NOTIFY);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let puts = rig.puts(&["--pv", "TWO:SP", "--all"]);
            puts.last().is_some_and(|put| {
                put["process"]["pid"] == first.pid() && put["process"].to_string().contains("ONE:LINK.OUT")
            })
        });
        for value in [500.0, 501.0] {
            client.put("ONE:SP", DOUBLE, json!(value), NOTIFY);
            wait_until("the link writes", || probe.get("TWO:SP").as_f64() == Some(2.0 * value));
        }
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let iocs = text(&rig, "iocs", &["--json"]);
        assert_eq!(iocs.contains("dbCaPutLinkCallback"), unprobed, "{iocs}");
        let puts = rig.puts(&["--pv", "TWO:SP", "--all"]);
        for value in [1000.0, 1002.0] {
            let put =
                puts.iter().find(|put| put["requested"].as_f64() == Some(value)).expect("the link's put");
            let process = &put["process"];
            assert_eq!((&put["via"], &put["client_ioc"]), (&json!("ca_link"), &json!("own")), "{put}");
            assert_eq!((&process["pid"], &process["ioc"]), (&json!(first.pid()), &json!("own")), "{put}");
            assert_eq!(put["cause_record"].is_null(), unprobed, "{put}");
            if unprobed {
                assert!(process.to_string().contains("ONE:LINK.OUT"), "{put}");
            } else {
                assert_eq!(
                    (&process["record"], &process["thread"]),
                    (&json!("ONE:LINK.OUT"), &json!("dbCaLink")),
                    "{put}"
                );
            }
        }
        let why = rig.why("TWO:SP");
        let why = String::from_utf8_lossy(&why.stdout);
        assert!(why.contains("ONE:LINK") && (!unprobed || why.contains("IOC own")), "{why}");
    }
}

/// A put by a program within an IOC is that thread's, whichever way Base is linked, and a CA link's is none of its.
#[test]
fn the_thread_of_an_ioc_that_puts_is_named() {
    let mut linked = Vec::new();
    for build in [Build::Shared, Build::Static, Build::Unexported] {
        let Some(rig) = Rig::new(&format!("program-{build:?}")) else { return };
        let Some(own) = Own::build(&rig, build) else { return };
        let second = rig.ioc("second", PORT + 10, "second.db", &[]);
        let mut command = own.command(PORT, "first.db", &[]);
        command.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT} 127.0.0.1:{}", PORT + 10));
        let mut first = rig.ioc_by("own", &mut command);
        let pids = [first.pid_argument(), second.pid_argument()];
        let mut recorder = rig.record(&["--tier", "ring", "--pid", &pids[0], "--pid", &pids[1]]);
        let mut probe = rig.client("libca", &[PORT + 10], &[]);
        rig.wait_until_recording(&mut probe, "TWO:READY", "both");
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "ONE:READY", "both");
        // two programs of the same IOC: their channels have the same number, each in its own context
        first.command("program sncRamp TWO:SP");
        first.command("program other TWO:OTHER");
        let mut value = 5000.0;
        wait_until("its process is known", || {
            value += 1.0;
            first.command(&format!("put sncRamp {value}"));
            first.command(&format!("put other {value}"));
            let puts = rig.puts(&["--all"]);
            ["TWO:SP", "TWO:OTHER"]
                .iter()
                .all(|pv| puts.iter().any(|put| put["pv"] == *pv && put["process"]["pid"] == first.pid()))
        });
        let made = [("put", "sncRamp", "TWO:SP", 701.0), ("notify", "sncRamp", "TWO:SP", 702.0)];
        let made = made.into_iter().chain([("notify", "other", "TWO:OTHER", 703.0)]);
        let made: Vec<_> = made.chain([("put", "other", "TWO:OTHER", 704.0)]).collect();
        for (how, program, _, value) in &made {
            first.command(&format!("{how} {program} {value}"));
        }
        // the link's channel has the same number and PV as that of sncRamp, which asks within a second: not told apart
        std::thread::sleep(std::time::Duration::from_millis(1200));
        client.put("ONE:SP", DOUBLE, json!(352.5), NOTIFY);
        wait_until("the link writes", || probe.get("TWO:SP").as_f64() == Some(705.0));
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let puts = rig.puts(&["--all"]);
        let of = |pv: &str, value: f64| {
            let mut found =
                puts.iter().filter(|put| put["pv"] == pv && put["requested"].as_f64() == Some(value));
            let put = found.next().unwrap_or_else(|| panic!("{build:?}: {pv} {value} in {puts:?}"));
            assert_eq!(found.next(), None);
            put["process"].clone()
        };
        for (_, program, pv, value) in &made {
            let process = of(pv, *value);
            assert_eq!((&process["ioc"], &process["thread"]), (&json!("own"), &json!(program)), "{process}");
            assert_eq!((&process["record"], &process["may_be_threads"]), (&Value::Null, &json!([])));
            let text = text(&rig, "puts", &["--all", "--pv", pv]);
            let (sequencer, said) = match *program {
                "sncRamp" => (json!("sncRamp"), "(program sncRamp, "),
                _ => (Value::Null, "(thread other, "),
            };
            assert!(process["sequencer_program"] == sequencer && text.contains(said), "{process} {text}");
        }
        let link = of("TWO:SP", 705.0);
        assert_eq!(link["record"], "ONE:LINK.OUT", "{link}");
        linked.push(link["thread"].clone());
        let why = String::from_utf8_lossy(&rig.why("TWO:OTHER").stdout).into_owned();
        assert!(why.contains("thread other"), "{why}");
    }
    assert_eq!(linked, ["dbCaLink"; 3]);
}

/// The perf tier has the probes that show the thread. On the packet tier none is named that did not put.
#[test]
fn the_thread_of_an_ioc_that_puts_below_the_ring_tier() {
    for (tier, source) in [("perf", "both"), ("packet", "packet")] {
        let Some(rig) = Rig::new(&format!("program-{tier}")) else { return };
        let Some(own) = Own::build(&rig, Build::Shared) else { return };
        let second = rig.ioc("second", PORT + 10, "second.db", &[]);
        let mut command = own.command(PORT, "first.db", &[]);
        command.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT} 127.0.0.1:{}", PORT + 10));
        let mut first = rig.ioc_by("own", &mut command);
        let pids = [first.pid_argument(), second.pid_argument()];
        let mut recorder = rig.record(&["--tier", tier, "--pid", &pids[0], "--pid", &pids[1]]);
        let mut probe = rig.client("libca", &[PORT + 10], &[]);
        rig.wait_until_recording(&mut probe, "TWO:READY", source);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "ONE:READY", source);
        first.command("program sncRamp TWO:SP");
        let mut value = 5000.0;
        wait_until("its process is known", || {
            value += 1.0;
            first.command(&format!("put sncRamp {value}"));
            let puts = rig.puts(&["--all"]);
            puts.iter().any(|put| put["pv"] == "TWO:SP" && put["process"]["pid"] == first.pid())
        });
        first.command("notify sncRamp 701");
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let puts = rig.puts(&["--all", "--pv", "TWO:SP"]);
        let found = processes(&puts, 701.0);
        let [process] = found[..] else { panic!("{tier}: one put: {puts:#?}") };
        assert_eq!((&process["pid"], &process["ioc"]), (&json!(first.pid()), &json!("own")), "{process}");
        let ramp = json!("sncRamp");
        if tier == "perf" {
            assert_eq!((&process["thread"], &process["sequencer_program"]), (&ramp, &ramp), "{process}");
        } else {
            let may_be = process["may_be_threads"].as_array().expect("a list");
            assert!(process["thread"].is_null() || process["thread"] == ramp, "{process}");
            assert!(may_be.is_empty() || may_be.contains(&ramp), "{process}");
        }
    }
}

/// A program that puts in its monitor's callback: the update is told. What it had not subscribed to is not, though it changes
/// ten times a second, nor anything of a put that followed no update.
#[test]
fn the_update_before_a_put_of_a_program_is_told() {
    let Some(rig) = Rig::new("acting") else { return };
    let first = rig.ioc("first", PORT, "first.db", &[]);
    let second = rig.ioc("second", PORT + 10, "second.db", &[]);
    let pids = [first.pid_argument(), second.pid_argument()];
    let mut recorder = rig.record(&["--tier", "ring", "--pid", &pids[0], "--pid", &pids[1]]);
    let mut person = rig.client("libca", &[PORT, PORT + 10], &[]);
    rig.wait_until_recording(&mut person, "ONE:READY", "both");
    rig.wait_until_recording(&mut person, "TWO:READY", "both");
    let mut program = rig.client("libca", &[PORT, PORT + 10], &[]);
    program.repeat("ONE:READY", "TWO:OTHER");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(500));
    let mut value = 700.0;
    wait_until("its process is known", || {
        value += 1.0;
        person.put("ONE:READY", DOUBLE, json!(value), NOTIFY);
        pause();
        let puts = rig.puts(&["--pv", "TWO:OTHER"]);
        processes(&puts, value).first().is_some_and(|process| process["pid"] == program.pid())
    });
    program.put("TWO:OTHER", DOUBLE, json!(900.0), NOTIFY);
    let values = [1001.0, 1002.0, 1003.0];
    for value in values {
        pause();
        person.put("ONE:READY", DOUBLE, json!(value), NOTIFY);
        wait_until("it puts", || person.get("TWO:OTHER").as_f64() == Some(value));
    }
    // what clients had subscribed to is written once a minute, and at the end
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let arguments = ["--format", "jsonl", "--updates", "--pv", "TWO:OTHER"];
    let puts = json_lines(&rig.replay("puts", &arguments).stdout);
    let after = |value: f64| {
        let found = processes(&puts, value);
        let [process] = found[..] else { panic!("one put of {value}: {puts:#?}") };
        assert_eq!(process["pid"], program.pid(), "{process}");
        &process["perhaps_after"]
    };
    assert_eq!(after(900.0), &Value::Null, "no update was before it");
    let mut told = 0;
    for value in values {
        let found = after(value);
        // a busy machine may take longer than what counts as shortly before
        let Some(updates) = found["updates"].as_array() else { continue };
        let [update] = updates.as_slice() else { panic!("one update: {found}") };
        assert_eq!((&update["pv"], &update["ioc"]), (&json!("ONE:READY"), &json!("first")), "{found}");
        assert_eq!(update["times"], 1, "{found}");
        let before = update["before_ms"].as_f64().expect("milliseconds");
        assert!(before > 0.0 && before <= 200.0, "{found}");
        told += 1;
    }
    assert!(told > 0, "{puts:#?}");
    let said = text(&rig, "puts", &["--updates", "--pv", "TWO:OTHER"]);
    let all = puts.iter().filter(|put| !put["process"]["perhaps_after"].is_null()).count();
    assert_eq!(said.matches("perhaps after ONE:READY changed ").count(), all, "{said}");
    // without being asked, it says what is certain
    assert!(!text(&rig, "puts", &["--pv", "TWO:OTHER"]).contains("perhaps after"));
    let why = String::from_utf8_lossy(&rig.why("TWO:OTHER").stdout).into_owned();
    assert_eq!(why.contains("Perhaps after: ONE:READY changed "), !after(1003.0).is_null(), "{why}");
}

/// Two recorders that each see one of the two processes, as on two hosts, with clocks that differ.
#[test]
fn the_log_of_the_clients_host_names_it() {
    let Some(rig) = Rig::new("process-hosts") else { return };
    let library = rig.path("clock.so");
    let mut compile = Command::new("gcc");
    compile.args(["-shared", "-fPIC", "-O2", "-o", &library]).arg(rig_file("late_clock.c"));
    crate::rig::own_program::succeed(&mut compile);
    // an address that is no loopback one, which would belong to a host
    crate::rig::own_program::succeed(Command::new("ip").args([
        "address",
        "add",
        "10.99.0.1/24",
        "dev",
        "lo",
    ]));
    let find = (PORT + 10).to_string();
    let second = rig.ioc_with("second", PORT + 10, "second.db", &["--address", "10.99.0.1"]);
    let mut first = rig.ioc_with("first", PORT, "first.db", &["--find", &find, "--reach", "10.99.0.1"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.put("ONE:SP", DOUBLE, json!(1.0), NOTIFY);
    // the server's host does not have the client's process
    let empty = rig.path("empty");
    fs::create_dir(&empty).expect("a directory");
    let mut near = Command::new("unshare");
    // nor does its kernel tell who connects
    let hide = format!(
        "mount --bind {empty} /proc/{} && if [ -e {BTF} ]; then mount --bind /dev/null {BTF}; fi && exec \"$@\"",
        first.pid()
    );
    near.args(["--mount", "--propagation", "private", "sh", "-c", &hide, "sh", IOCREC, "record"]);
    near.args([
        "--dir",
        &rig.path("near"),
        "--flush",
        "300ms",
        "--tier",
        "ring",
        "--pid",
        &second.pid_argument(),
    ]);
    let mut far = Command::new("unshare");
    far.args(["--uts", "sh", "-c", "hostname far-host && exec \"$@\"", "sh", IOCREC, "record"]);
    far.args([
        "--dir",
        &rig.path("far"),
        "--flush",
        "300ms",
        "--tier",
        "ring",
        "--pid",
        &first.pid_argument(),
    ]);
    far.args(["--port", &find]).env("LD_PRELOAD", &library).env("CLOCK_IS_LATE_BY", "3");
    let mut recorders = [rig.by("near", &mut near), rig.by("far", &mut far)];
    let puts = |logs: &[&str]| -> Vec<Value> {
        let mut command = Command::new(iocreplay());
        command.args(["puts", "--format", "jsonl", "--all", "--pv", "TWO:SP"]);
        command.args(logs.iter().map(|log| rig.path(log)));
        json_lines(&run(&mut command).stdout)
    };
    wait_until("they record", || recorders.iter().all(|recorder| recorder.errors().contains("recording ")));
    // a circuit that both see beginning
    first.command("dbpf ONE:LINK.OUT 0");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    first.command("dbpf ONE:LINK.OUT \"TWO:SP CA\"");
    let mut value = 10.0;
    wait_until("both record", || {
        value += 1.0;
        client.put("ONE:SP", DOUBLE, json!(value), NOTIFY);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let sees = |log, source: &str| puts(&[log]).iter().any(|put| put["source"] == source);
        rig_has(&rig, "near") && rig_has(&rig, "far") && sees("near", "both") && sees("far", "packet")
    });
    for value in [600.0, 601.0] {
        client.put("ONE:SP", DOUBLE, json!(value), NOTIFY);
    }
    std::thread::sleep(std::time::Duration::from_millis(1000));
    for recorder in &mut recorders {
        assert!(recorder.stop().success(), "{}", recorder.errors());
    }
    let alone = puts(&["near"]);
    let of = |puts: &[Value], value: f64| -> Vec<Value> {
        puts.iter().filter(|put| put["requested"].as_f64() == Some(value)).cloned().collect()
    };
    assert!(of(&alone, 1200.0)[0]["process"]["pid"].is_null(), "{:?}", of(&alone, 1200.0));
    let both = puts(&["near", "far"]);
    for value in [1200.0, 1202.0] {
        let found = of(&both, value);
        let with_ioc: Vec<&Value> = found.iter().filter(|put| put["ioc"] == "second").collect();
        assert_eq!(with_ioc.len(), 1, "{found:?}");
        let process = &with_ioc[0]["process"];
        assert_eq!((&process["pid"], &process["ioc"]), (&json!(first.pid()), &json!("first")), "{found:?}");
        assert_eq!(
            (&process["host"], &process["by_other_log"]),
            (&json!("far-host"), &json!(true)),
            "{found:?}"
        );
    }
}

fn rig_has(rig: &Rig, log: &str) -> bool {
    fs::read_dir(rig.path(log)).is_ok_and(|mut files| files.next().is_some())
}
