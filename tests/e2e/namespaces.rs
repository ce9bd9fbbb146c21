//! To which IOC a put belongs: IOCs that share a port, in one network namespace and in several, and IOCs as clients.

use crate::rig::{self, json_lines, python, run, wait_until, Client, Ioc, Rig, Running, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::process::Command;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;
const NOTIFY: bool = true;
const WRITE: bool = false;

/// An IOC, its own client, and the client's puts.
struct Pair {
    ioc: Ioc,
    name: &'static str,
    client: Client,
    address: String,
    put: Vec<(f64, &'static str, &'static str)>,
}

impl Pair {
    fn new(ioc: Ioc, name: &'static str, mut client: Client) -> Pair {
        let address = client.connect("PATH:READY");
        Pair { ioc, name, client, address, put: Vec::new() }
    }

    /// Puts that are carried out and puts that are denied, with callback and without.
    fn play(&mut self, first: f64) {
        for (number, (pv, notify)) in
            [("PATH:READY", WRITE), ("PATH:SECURE", NOTIFY), ("PATH:SECURE", WRITE), ("PATH:READY", NOTIFY)]
                .into_iter()
                .enumerate()
        {
            let value = first + number as f64;
            self.client.put(pv, DOUBLE, json!(value), notify);
            self.put.push((value, pv, if pv == "PATH:SECURE" { "denied" } else { "ok" }));
        }
    }

    /// Compares the log with the client's puts.
    #[track_caller]
    fn compare(&self, rig: &Rig, packets_alone: bool) {
        let lines = rig.puts(&["--since", "2020-01-01"]);
        let own = lines.iter().filter(|line| line["requested"].as_f64().is_some_and(|value| value >= 1000.0));
        let own: Vec<&Value> = own.filter(|line| line["client"] == *self.address).collect();
        let of_us: Vec<&Value> = lines
            .iter()
            .filter(|line| {
                line["ioc"] == self.name && line["requested"].as_f64().is_some_and(|value| value >= 1000.0)
            })
            .collect();
        assert_eq!(own.len(), self.put.len(), "{}: {own:#?}", self.name);
        assert_eq!(own, of_us, "{}: all of its client's, and no others", self.name);
        for (line, (value, pv, status)) in own.iter().zip(&self.put) {
            assert_eq!((&line["requested"], &line["pv"]), (&json!(value), &json!(pv)), "{line}");
            // without callback and without probes nobody says that it was carried out
            if !(packets_alone && line["via"] == "ca_write" && *status == "ok") {
                assert_eq!(line["status"], *status, "{line}");
            }
            assert_eq!(
                (&line["user"], &line["ioc"]),
                (&json!(self.client.user), &json!(self.name)),
                "{line}"
            );
        }
    }
}

fn access() -> String {
    rig::rig_file("access.acf").to_str().expect("a UTF-8 path").to_string()
}

/// Waits until the log has a put of each client with this source. These puts are not compared.
fn wait_until_all_are_seen(rig: &Rig, pairs: &mut [Pair], source: &str) {
    for pair in pairs {
        let mut number = 0;
        wait_until("its puts are seen", || {
            number += 1;
            pair.client.put("PATH:READY", DOUBLE, json!(number), NOTIFY);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let seen = |put: &Value| put["client"] == *pair.address && put["source"] == source;
            rig.puts(&["--pv", "PATH:READY"]).iter().any(seen)
        });
    }
}

/// Two IOCs with the same port and records, but different addresses.
fn two_on_a_port(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("addresses-{tier}")) else { return };
    let (access, mut pairs) = (access(), Vec::new());
    for (name, address) in [("first", "127.0.0.1"), ("second", "127.0.0.2")] {
        let ioc = rig.ioc_with(name, PORT, "paths.db", &["--access", &access, "--address", address]);
        let client = rig.client("caproto", &[PORT], &["--user", name, "--address", address]);
        pairs.push(Pair::new(ioc, name, client));
    }
    let pids: Vec<String> = pairs.iter().map(|pair| pair.ioc.pid_argument()).collect();
    let mut recorder = rig.record(&["--pid", &pids[0], "--pid", &pids[1], "--tier", tier]);
    wait_until_all_are_seen(&rig, &mut pairs, source);
    for round in 0..3 {
        for (place, pair) in pairs.iter_mut().enumerate() {
            pair.play(1000.0 + f64::from(round) * 100.0 + place as f64 * 10.0);
        }
    }
    // the same values at both, too, at the same time
    for pair in &mut pairs {
        pair.play(5000.0);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    pairs.iter().for_each(|pair| pair.compare(&rig, source == "packet"));
}

#[test]
fn two_iocs_at_one_port_of_two_addresses_by_packets() {
    two_on_a_port("packet", "packet");
}

#[test]
fn two_iocs_at_one_port_of_two_addresses_by_both() {
    two_on_a_port("ring", "both");
}

/// Two IOCs with the same address, port and records in different network namespaces; the recorder is in a third.
fn two_at_an_address(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("namespaces-{tier}")) else { return };
    let (access, mut pairs) = (access(), Vec::new());
    for name in ["left", "right"] {
        let ioc = rig.ioc_apart(name, PORT, "paths.db", &["--access", &access]);
        let client = rig.client_beside(ioc.pid(), "caproto", PORT, &["--user", name]);
        pairs.push(Pair::new(ioc, name, client));
    }
    let pids: Vec<String> = pairs.iter().map(|pair| pair.ioc.pid_argument()).collect();
    let arguments = ["--pid", &pids[0], "--pid", &pids[1], "--tier", tier];
    let mut recorder = rig.record(&arguments);
    wait_until_all_are_seen(&rig, &mut pairs, source);
    for (place, pair) in pairs.iter_mut().enumerate() {
        pair.play(1000.0 + place as f64 * 10.0);
    }
    pairs.iter_mut().for_each(|pair| pair.play(5000.0));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    // once more: everything is open already
    let mut recorder = rig.record(&arguments);
    let before = rig.puts(&[]).len();
    wait_until("it records again", || {
        pairs.iter_mut().for_each(|pair| _ = pair.client.put("PATH:READY", DOUBLE, json!(1), NOTIFY));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let new = rig.puts(&[]).split_off(before);
        pairs
            .iter()
            .all(|pair| new.iter().any(|put| put["client"] == *pair.address && put["source"] == source))
    });
    pairs.iter_mut().for_each(|pair| pair.play(7000.0));
    // a client that comes and goes
    let mut brief = rig.client_beside(pairs[1].ioc.pid(), "libca", PORT, &["--uid", "65534"]);
    let address = brief.connect("PATH:READY");
    brief.put("PATH:READY", DOUBLE, json!(77.0), WRITE);
    drop(brief);
    let sockets = sockets_of(&recorder);
    // a namespace goes away with its last process, though it was captured
    let Pair { ioc, client, .. } = pairs.pop().expect("the second");
    let right = fs::read_link(format!("/proc/{}/ns/net", ioc.pid())).expect("its namespace");
    drop((ioc, client));
    // its last look at the connections there may still go on
    wait_until("its capture is closed", || {
        sockets_of(&recorder) < sockets && !captures(&recorder).contains(&right)
    });
    pairs[0].play(8000.0);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    pairs[0].compare(&rig, source == "packet");
    let lines = rig.puts(&["--ioc", "right"]);
    let brief: Vec<&Value> = lines.iter().filter(|line| line["client"] == *address).collect();
    assert!(brief.len() == 1 && brief[0]["requested"] == 77.0, "{brief:?}");
    assert_eq!(brief[0]["user"], "nobody");
}

/// The number of a recorder's sockets.
fn sockets_of(recorder: &Running) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", recorder.pid())).expect("it runs");
    let links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// The network namespaces of a recorder's threads.
fn captures(recorder: &Running) -> Vec<std::path::PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", recorder.pid())).expect("it runs");
    tasks.flatten().filter_map(|task| fs::read_link(task.path().join("ns/net")).ok()).collect()
}

#[test]
fn two_iocs_at_one_address_in_two_namespaces_by_packets() {
    two_at_an_address("packet", "packet");
}

#[test]
fn two_iocs_at_one_address_in_two_namespaces_by_both() {
    two_at_an_address("ring", "both");
}

/// A veth pair joins the recorder's namespace and a container's: packets are seen at both ends, and count once.
#[test]
fn puts_through_a_cable_count_once() {
    let Some(rig) = Rig::new("cable") else { return };
    let access = access();
    // a process that holds the container's namespace
    let holder = rig.ioc_apart("holder", PORT + 50, "puts.db", &[]);
    rig::join_networks(holder.pid(), "10.99.0.1", "10.99.0.2");
    let outside = rig.ioc_with("outside", PORT, "paths.db", &["--access", &access, "--address", "10.99.0.1"]);
    let options = ["--access", &access, "--address", "10.99.0.2"];
    let inside = rig.ioc_beside(holder.pid(), "inside", PORT, "paths.db", &options);
    let inward = rig.client("caproto", &[PORT], &["--user", "inward", "--address", "10.99.0.2"]);
    let outward =
        rig.client_beside(holder.pid(), "caproto", PORT, &["--user", "outward", "--address", "10.99.0.1"]);
    let pids = [inside.pid_argument(), outside.pid_argument()];
    let mut pairs = [Pair::new(inside, "inside", inward), Pair::new(outside, "outside", outward)];
    let mut recorder = rig.record(&["--pid", &pids[0], "--pid", &pids[1], "--tier", "packet"]);
    wait_until_all_are_seen(&rig, &mut pairs, "packet");
    for (place, pair) in pairs.iter_mut().enumerate() {
        pair.play(1000.0 + place as f64 * 10.0);
    }
    // circuits that open while it records
    for (user, place) in [("late-in", "10.99.0.2"), ("late-out", "10.99.0.1")] {
        let options = ["--user", user, "--address", place];
        let mut late = match user {
            "late-in" => rig.client("caproto", &[PORT], &options),
            _ => rig.client_beside(holder.pid(), "caproto", PORT, &options),
        };
        late.put("PATH:READY", DOUBLE, json!(500.0), NOTIFY);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    pairs.iter().for_each(|pair| pair.compare(&rig, true));
    let all = rig.puts(&[]);
    for (user, ioc) in [("late-in", "inside"), ("late-out", "outside")] {
        let late: Vec<&Value> = all.iter().filter(|line| line["user"] == user).collect();
        assert!(late.len() == 1 && late[0]["ioc"] == ioc, "{late:?}");
    }
}

/// A put through an IOC's link is attributed to that IOC from the first one on, though no probe shows the link; also across a
/// veth pair.
#[test]
fn an_ioc_that_is_a_client_is_no_person() {
    let Some(rig) = Rig::new("client-ioc") else { return };
    let mut recorder = rig.record(&["--tier", "packet"]);
    wait_until("it records", || fs::read_dir(rig.log()).is_ok_and(|mut log| log.next().is_some()));
    let holder = rig.ioc_apart("holder", PORT + 50, "puts.db", &[]);
    rig::join_networks(holder.pid(), "10.99.0.1", "10.99.0.2");
    let second = rig.ioc_with("second", PORT + 10, "second.db", &["--address", "10.99.0.1"]);
    let mut probe = rig.client("libca", &[PORT + 10], &["--address", "10.99.0.1"]);
    rig.wait_until_recording(&mut probe, "TWO:READY", "packet");
    let mut clients = Vec::new();
    for (number, name) in ["beside", "container"].into_iter().enumerate() {
        let find = (PORT + 10).to_string();
        let options = ["--find", &find, "--reach", "10.99.0.1"];
        let (first, mut client) = if name == "beside" {
            (rig.ioc_with(name, PORT, "first.db", &options), rig.client("libca", &[PORT], &[]))
        } else {
            let ioc = rig.ioc_beside(holder.pid(), name, PORT, "first.db", &options);
            (ioc, rig.client_beside(holder.pid(), "libca", PORT, &[]))
        };
        let values = [1.0, 2.0, 3.0].map(|value| value + 10.0 * number as f64);
        // ONE:SP is doubled on its way to TWO:SP
        for value in values {
            wait_until("the link writes", || {
                client.put("ONE:SP", DOUBLE, json!(value), NOTIFY);
                probe.get("TWO:SP").as_f64() == Some(2.0 * value)
            });
        }
        clients.push((first, name, values));
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let of_links = |options: &[&str]| {
        let mut puts = rig.puts(&[&["--pv", "TWO:SP"][..], options].concat());
        // the recorder sees other tests' IOCs, too
        puts.retain(|put| put["ioc"] == "second");
        puts
    };
    let all = of_links(&["--all"]);
    // another IOC's process is outside, too: who only looks like an IOC hides nothing
    assert_eq!(of_links(&[]), all);
    for (_, name, values) in &clients {
        for value in values {
            let sent = |put: &&Value| put["requested"].as_f64() == Some(2.0 * value);
            let sent: Vec<&Value> = all.iter().filter(sent).collect();
            assert!(!sent.is_empty(), "{value} in {all:#?}");
            for put in sent {
                assert_eq!((&put["via"], &put["client_ioc"]), (&json!("ca_link"), &json!(name)), "{put}");
            }
        }
    }
    drop((clients, second));
    let text = rig.replay("puts", &["--pv", "TWO:SP"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("IOC beside") && text.contains("IOC container"), "{text}");
}

/// `check`, the recorder and the log report where an IOC's clients cannot be seen.
#[test]
fn a_namespace_that_cannot_be_captured_is_named() {
    let Some(rig) = Rig::new("no-setns") else { return };
    let ioc = rig.ioc_apart("shut", PORT, "puts.db", &[]);
    let of_it = |mut command: Command| {
        let output = run(command.args([IOCREC, "check", "--json"]));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let iocs = found["iocs"].as_array().expect("a list").clone();
        iocs.into_iter().find(|found| found["pid"] == ioc.pid()).expect("the IOC")
    };
    let forbidding = || {
        let mut command = python("forbid.py");
        command.arg("setns=EPERM");
        command
    };
    let recorded = |found: &Value| found["recorded"].as_str().expect("a text").contains("puts by packets");
    let (open, shut) = (of_it(Command::new("env")), of_it(forbidding()));
    assert!(recorded(&open) && open["no_packets"].is_null(), "{open}");
    assert!(
        !recorded(&shut) && shut["no_packets"].as_str().is_some_and(|why| why.contains("setns")),
        "{shut}"
    );

    let mut command = forbidding();
    command.args([IOCREC, "record", "--dir", &rig.log(), "--flush", "200ms", "--pid", &ioc.pid_argument()]);
    let mut recorder = rig.by("forbidden", &mut command);
    let why = "its network namespace cannot be captured: setns";
    wait_until("it reports why", || recorder.errors().contains(why));
    wait_until("it is in the log", || {
        let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
        iocs.iter().any(|found| found["pid"] == ioc.pid() && found["not_probed"].to_string().contains(why))
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(recorder.errors().matches(why).count(), 1, "{}", recorder.errors());
    let info = rig.replay("info", &[]);
    assert!(String::from_utf8_lossy(&info.stdout).contains(why), "{info:?}");
    let text = run(forbidding().args([IOCREC, "check"]));
    assert!(String::from_utf8_lossy(&text.stdout).contains(why));
}

/// What `watch` prints names the IOC.
#[test]
fn watch_names_the_ioc() {
    let Some(rig) = Rig::new("watch-two") else { return };
    let ioc = rig.ioc_apart("apart", PORT, "puts.db", &[]);
    let near = rig.ioc("near", PORT, "puts.db", &[]);
    let mut clients = [
        ("apart", rig.client_beside(ioc.pid(), "libca", PORT, &[])),
        ("near", rig.client("libca", &[PORT], &[])),
    ];
    let mut watch = rig.agent(&["watch", "--pid", &ioc.pid_argument(), "--pid", &near.pid_argument()]);
    for (name, client) in &mut clients {
        let address = client.connect("PUT:DOUBLE");
        let mut number = 0;
        loop {
            number += 1;
            client.put("PUT:DOUBLE", DOUBLE, json!(number), WRITE);
            let line = watch.line_within(std::time::Duration::from_millis(300)).unwrap_or_default();
            // it is not known before the sockets were looked at
            if line.starts_with("Write:") && line.contains(&address) && line.contains(" ioc=") {
                assert!(line.contains(&format!(" ioc={name}")), "{line}");
                break;
            }
            assert!(number < 200, "{}", watch.errors());
        }
    }
    assert!(watch.stop().success(), "{}", watch.errors());
}
