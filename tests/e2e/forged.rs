//! Somebody on the network sends segments with the addresses of a circuit's ends: resets, openings, data. The circuit's
//! puts are recorded with their names all the same, none is made up, and the log says what was not believed.

use crate::rig::{
    beside, join_networks, join_networks_by, own_program, python, wait_until, Client, Ioc, Rig,
};
use serde_json::{json, Value};
use std::fs;
use std::process::{Command, Output};

const PORT: u16 = 5074;
const PUTS: u32 = 300;

/// The IOC's real client puts while somebody injects segments of this kind.
fn under_attack(kind: &str, tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("forged-{kind}-{tier}")) else { return };
    let ioc = rig.ioc("target", PORT, "puts.db", &[]);
    let client = || rig.client("libca", &[PORT], &[]);
    attacked(&rig, &ioc, "127.0.0.1", &client, &|command| command, (kind, tier, source));
}

/// The same by somebody on a third host, who sends with the addresses of the client and of the IOC.
fn under_attack_from_a_third_host(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("third-host-{tier}")) else { return };
    // processes that hold the namespaces of the client and of the attacker
    let [there, third] = ["there", "third"].map(|name| rig.ioc_apart(name, PORT + 50, "puts.db", &[]));
    join_networks(there.pid(), "10.99.0.1", "10.99.0.2");
    join_networks_by("third", third.pid(), "10.98.0.1", "10.98.0.2");
    let mut route = Command::new("ip");
    route.args(["route", "add", "default", "via", "10.98.0.1"]);
    own_program::succeed(&mut beside(third.pid(), route));
    for (setting, value) in [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/third/rp_filter", "0")]
    {
        // of this thread's network
        fs::write(format!("/proc/sys/net/ipv4/{setting}"), value).expect("a setting of the network");
    }
    let ioc = rig.ioc_with("target", PORT, "puts.db", &["--address", "10.99.0.1"]);
    let client = || rig.client_beside(there.pid(), "libca", PORT, &["--address", "10.99.0.1"]);
    let from_there = |command: Command| beside(third.pid(), command);
    attacked(&rig, &ioc, "10.99.0.1", &client, &from_there, ("all", tier, source));
}

/// Bytes that were not captured.
fn missed(info: &Output) -> u64 {
    let of = |line: &str| {
        let count = line.split("stream: ").nth(1)?.split(' ').next()?.parse::<u64>().ok()?;
        line.contains("bytes were not captured").then_some(count)
    };
    String::from_utf8_lossy(&info.stdout).lines().filter_map(of).sum()
}

/// `by`: where the attacker is. `how`: what is injected, the tier, and the source of its puts.
fn attacked(
    rig: &Rig,
    ioc: &Ioc,
    server: &str,
    new_client: &dyn Fn() -> Client,
    by: &dyn Fn(Command) -> Command,
    how: (&str, &str, &str),
) {
    let (kind, tier, source) = how;
    let mut client = new_client();
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PUT:READY", source);
    let address = client.connect("PUT:LONG");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let missed_before = missed(&rig.replay("info", &[]));
    let mut command = python("inject.py");
    command.arg(kind).arg(&address).arg(format!("{server}:{PORT}"));
    let mut injector = rig.by("injector", &mut by(command));
    wait_until("it injects", || injector.has_output());
    for number in 0..PUTS {
        client.put("PUT:LONG", 5, json!(number), true);
    }
    injector.kill();
    client.put("PUT:LONG", 5, json!(PUTS), true);
    // The real end of the circuit, and others after it.
    drop(client);
    let mut next = new_client();
    let second = next.connect("PUT:LONG");
    next.put("PUT:LONG", 5, json!(PUTS + 1), true);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let puts = rig.puts(&["--pv", "PUT:LONG"]);
    let requested: Vec<Option<f64>> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    let all: Vec<Option<f64>> = (0..PUTS + 2).map(|number| Some(f64::from(number))).collect();
    assert_eq!(requested, all, "each once, in order");
    let wrong = |put: &&Value| {
        let last = put["requested"] == f64::from(PUTS + 1);
        put["client"] != *if last { &second } else { &address }
            || put["status"] != "ok"
            || put["source"] != source
    };
    let wrong: Vec<&Value> = puts.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{} of {PUTS}: {:#?}", wrong.len(), wrong.first());
    let made_up = rig.puts(&["--all"]).iter().filter(|put| put["requested"] == 66666.0).count();
    assert_eq!(made_up, 0);
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    let expected: &[&str] = match kind {
        "reset" => &["TCP resets not believed"],
        "open" => &["TCP openings of circuits that are open"],
        "data" => &["TCP segments not believed"],
        "blind" => &["TCP segments to servers that did not confirm them"],
        _ => &[
            "TCP segments to servers that did not confirm them",
            "TCP resets not believed",
            "TCP openings of circuits that are open",
            "TCP segments not believed",
        ],
    };
    for line in expected {
        assert!(text.contains(line), "{line}: {text}");
    }
    // What was missed before anything was injected, as of a circuit that opened before it was captured, and no more.
    assert!(missed(&info) <= missed_before, "{missed_before}: {text}");
    // The circuit ended once: when its client ended it.
    let clients = rig.replay("clients", &["--format", "jsonl"]);
    let clients = crate::rig::json_lines(&clients.stdout);
    let of_it: Vec<&Value> = clients.iter().filter(|line| line["client"] == *address).collect();
    assert!(of_it.len() == 1 && of_it[0]["puts"].as_u64() >= Some(u64::from(PUTS)), "{of_it:#?}");
}

#[test]
fn resets_of_others_are_not_believed() {
    under_attack("reset", "packet", "packet");
}

#[test]
fn openings_of_others_are_not_believed() {
    under_attack("open", "packet", "packet");
}

#[test]
fn data_of_others_make_up_no_put() {
    under_attack("data", "packet", "packet");
}

#[test]
fn puts_from_ports_in_no_use_are_none() {
    under_attack("blind", "packet", "packet");
}

#[test]
fn all_of_it_from_a_third_host() {
    under_attack_from_a_third_host("packet", "packet");
}

#[test]
fn all_of_it_from_a_third_host_beside_probes() {
    under_attack_from_a_third_host("ring", "both");
}

#[test]
fn all_of_it_beside_probes() {
    under_attack("all", "ring", "both");
}
