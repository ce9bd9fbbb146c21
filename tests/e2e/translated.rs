//! Packets that pass through several recorded network namespaces, under changed addresses or not: each put counts once.
//!
//! The recorder's namespace stands between a container and another machine (also a namespace). It forwards, and changes
//! addresses as container engines do: the destination (a published port), the source (masquerade), or both.

use crate::rig::own_program::succeed;
use crate::rig::{self, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::fs;
use std::process::Command;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;
const NOTIFY: bool = true;

const PUBLISHED: &str = "chain in { type nat hook prerouting priority -100; \
     ip daddr 10.98.0.1 meta l4proto { tcp, udp } th dport 5074 dnat to 10.99.0.2; }";
const MASQUERADED_IN: &str =
    "chain out { type nat hook postrouting priority 100; ip daddr 10.99.0.2 masquerade; }";
const MASQUERADED_OUT: &str =
    "chain out { type nat hook postrouting priority 100; ip daddr 10.98.0.2 masquerade; }";

/// Joins a container and another machine by this thread's namespace, which forwards between them.
fn join(container: u32, machine: u32, rules: &[&str]) {
    rig::join_networks_by("inner", container, "10.99.0.1", "10.99.0.2");
    rig::join_networks_by("outer", machine, "10.98.0.1", "10.98.0.2");
    for (pid, gateway) in [(container, "10.99.0.1"), (machine, "10.98.0.1")] {
        let mut route = Command::new("ip");
        route.args(["route", "add", "default", "via", gateway]);
        succeed(&mut rig::beside(pid, route));
    }
    // that of this thread's namespace
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("it forwards");
    for (number, rule) in rules.iter().enumerate() {
        succeed(Command::new("nft").arg(format!("table ip rig{number} {{ {rule}; }}\n")));
    }
}

/// The puts of these values, by their values.
fn found(rig: &Rig, values: &[f64]) -> Vec<Value> {
    let mut puts = rig.puts(&["--all", "--since", "2020-01-01"]);
    puts.retain(|put| put["requested"].as_f64().is_some_and(|value| values.contains(&value)));
    puts
}

fn put(client: &mut Client, values: &[f64]) {
    for value in values {
        client.put("PATH:READY", DOUBLE, json!(value), NOTIFY);
    }
}

/// Puts until packets have shown a put to this IOC. Until its namespace is captured, puts are told where they pass through,
/// and, with probes, inside the IOC, too: nothing tells that they are the same.
fn put_until_seen(rig: &Rig, client: &mut Client, ioc: Option<&str>, source: &str) {
    let mut values = Vec::new();
    wait_until("puts are seen", || {
        values.push(values.len() as f64);
        put(client, &values[values.len() - 1..]);
        std::thread::sleep(std::time::Duration::from_millis(200));
        found(rig, &values).iter().any(|put| put["ioc"].as_str() == ioc && put["source"] == source)
    });
}

/// Puts from another machine to an IOC in a container.
fn inward(name: &str, (tier, source): (&str, &str), rules: &[&str]) {
    let Some(rig) = Rig::new(name) else { return };
    let machine = rig.ioc_apart("machine", PORT + 60, "puts.db", &[]);
    let container = rig.ioc_apart("container", PORT + 50, "puts.db", &[]);
    join(container.pid(), machine.pid(), rules);
    let target = if rules.is_empty() { "10.99.0.2" } else { "10.98.0.1" };
    let access = rig::rig_file("access.acf");
    let options = ["--access", access.to_str().expect("UTF-8"), "--address", "10.99.0.2"];
    let ioc = rig.ioc_beside(container.pid(), "inside", PORT, "paths.db", &options);
    let near = rig.ioc_with("near", PORT, "puts.db", &["--address", "127.0.0.1"]);
    let client =
        |user| rig.client_beside(machine.pid(), "caproto", PORT, &["--user", user, "--address", target]);
    let mut early = client("early");
    early.connect("PATH:READY");
    let pids = [ioc.pid_argument(), near.pid_argument()];
    let mut recorder = rig.record(&["--pid", &pids[0], "--pid", &pids[1], "--tier", tier]);
    put_until_seen(&rig, &mut early, Some("inside"), source);
    let (of_early, of_late, short) = ([1000.5, 1001.5, 1002.5], [2000.5, 2001.5], 3000.5);
    put(&mut early, &of_early);
    put(&mut client("late"), &of_late);
    put(&mut early, &[1003.5]);
    put(&mut client("short"), &[short]);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = [&of_early[..], &[1003.5], &of_late, &[short]].concat();
    let puts = found(&rig, &all);
    for (value, user) in of_early
        .iter()
        .chain(&[1003.5])
        .map(|value| (*value, "early"))
        .chain(of_late.iter().map(|value| (*value, "late")))
        .chain([(short, "short")])
    {
        let of_it: Vec<&Value> = puts.iter().filter(|put| put["requested"] == value).collect();
        assert!(of_it.len() == 1, "{user} {value}: {of_it:#?}\n{}", recorder.errors());
        assert_eq!((&of_it[0]["ioc"], &of_it[0]["user"]), (&json!("inside"), &json!(user)), "{}", of_it[0]);
    }
}

#[test]
fn puts_to_a_published_port_count_once_by_packets() {
    inward("published", ("packet", "packet"), &[PUBLISHED]);
}

#[test]
fn puts_to_a_published_port_count_once_by_both() {
    inward("published-ring", ("ring", "both"), &[PUBLISHED]);
}

#[test]
fn puts_to_a_published_port_of_masqueraded_clients_count_once() {
    inward("published-masqueraded", ("packet", "packet"), &[PUBLISHED, MASQUERADED_IN]);
}

/// Puts from a container with an IOC to a server on another machine, which no recorder watches.
fn outward(name: &str, rules: &[&str]) {
    let Some(rig) = Rig::new(name) else { return };
    let machine = rig.ioc_apart("machine", PORT + 60, "puts.db", &[]);
    let container = rig.ioc_apart("container", PORT + 50, "puts.db", &[]);
    join(container.pid(), machine.pid(), rules);
    let access = rig::rig_file("access.acf");
    let options = ["--access", access.to_str().expect("UTF-8"), "--address", "10.98.0.2"];
    let _server = rig.ioc_beside(machine.pid(), "outside", PORT, "paths.db", &options);
    let near = rig.ioc("near", PORT, "puts.db", &[]);
    let inside = rig.ioc_beside(container.pid(), "inside", PORT, "puts.db", &[]);
    let client = |user| {
        rig.client_beside(container.pid(), "caproto", PORT, &["--user", user, "--address", "10.98.0.2"])
    };
    let mut early = client("early");
    early.connect("PATH:READY");
    let pids = [inside.pid_argument(), near.pid_argument()];
    let mut recorder = rig.record(&["--pid", &pids[0], "--pid", &pids[1], "--tier", "packet"]);
    put_until_seen(&rig, &mut early, None, "packet");
    let (of_early, of_late) = ([1000.5, 1001.5, 1002.5], [2000.5, 2001.5]);
    put(&mut early, &of_early);
    put(&mut client("late"), &of_late);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = [&of_early[..], &of_late].concat();
    let puts = found(&rig, &all);
    for value in all {
        let of_it: Vec<&Value> = puts.iter().filter(|put| put["requested"] == value).collect();
        assert!(of_it.len() == 1 && of_it[0]["ioc"].is_null(), "{value}: {of_it:#?}\n{}", recorder.errors());
    }
}

#[test]
fn puts_to_another_machine_count_once() {
    outward("other-machine", &[]);
}

#[test]
fn puts_to_another_machine_by_another_address_count_once() {
    outward("other-machine-masqueraded", &[MASQUERADED_OUT]);
}

/// Two connections that only look alike stay two: the same numbers prove nothing where no packet is told twice.
#[test]
fn puts_through_and_puts_to_an_ioc_beside_stay_apart() {
    let Some(rig) = Rig::new("beside-translated") else { return };
    let machine = rig.ioc_apart("machine", PORT + 60, "puts.db", &[]);
    let container = rig.ioc_apart("container", PORT + 50, "puts.db", &[]);
    join(container.pid(), machine.pid(), &[PUBLISHED]);
    let access = rig::rig_file("access.acf");
    let access = access.to_str().expect("UTF-8");
    let options = ["--access", access, "--address", "10.99.0.2"];
    let inside = rig.ioc_beside(container.pid(), "inside", PORT, "paths.db", &options);
    let near = rig.ioc_with("near", PORT + 20, "paths.db", &["--access", access, "--address", "10.98.0.1"]);
    // without one at this port the recorder would not look at it here
    let other = rig.ioc_with("other", PORT, "puts.db", &["--address", "127.0.0.1"]);
    let pids = [inside.pid_argument(), near.pid_argument(), other.pid_argument()];
    let of_all: Vec<&str> = pids.iter().flat_map(|pid| ["--pid", pid]).collect();
    let mut recorder = rig.record(&[&of_all[..], &["--tier", "packet"]].concat());
    let client = |port, user| {
        rig.client_beside(machine.pid(), "caproto", port, &["--user", user, "--address", "10.98.0.1"])
    };
    let mut clients: Vec<(Client, &str, &str)> = Vec::new();
    for (port, ioc) in [(PORT, "inside"), (PORT + 20, "near")] {
        for user in ["a", "b", "c"] {
            clients.push((client(port, user), ioc, user));
        }
    }
    let (first, _, _) = &mut clients[0];
    put_until_seen(&rig, first, Some("inside"), "packet");
    let value = |round: usize, place: usize| 1000.25 + 100.0 * round as f64 + place as f64;
    for round in 0..5 {
        for (place, (client, _, _)) in clients.iter_mut().enumerate() {
            put(client, &[value(round, place)]);
        }
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    for round in 0..5 {
        for (place, (_, ioc, user)) in clients.iter().enumerate() {
            let puts = found(&rig, &[value(round, place)]);
            assert!(puts.len() == 1, "{user} at {ioc}: {puts:#?}");
            assert_eq!((&puts[0]["ioc"], &puts[0]["user"]), (&json!(ioc), &json!(user)), "{}", puts[0]);
        }
    }
}
