//! Somebody on the network sends segments with the addresses of a circuit's ends: resets, openings, data. The circuit's
//! puts are recorded with their names all the same, none is made up, and the log says what was not believed.

use crate::rig::{python, wait_until, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;
const PUTS: u32 = 300;

/// The IOC's real client puts while somebody injects segments of this kind.
fn under_attack(kind: &str, tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("forged-{kind}-{tier}")) else { return };
    let ioc = rig.ioc("target", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PUT:READY", source);
    let address = client.connect("PUT:LONG");
    let mut command = python("inject.py");
    command.arg(kind).arg(&address).arg(format!("127.0.0.1:{PORT}"));
    let mut injector = rig.by("injector", &mut command);
    wait_until("it injects", || injector.has_output());
    for number in 0..PUTS {
        client.put("PUT:LONG", 5, json!(number), true);
    }
    injector.kill();
    client.put("PUT:LONG", 5, json!(PUTS), true);
    // The real end of the circuit, and others after it.
    drop(client);
    let mut next = rig.client("libca", &[PORT], &[]);
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
    // At most an ECHO: it may have been missed before anything was injected, but no put has so few bytes.
    let missed = |line: &str| {
        let count = line.split("stream: ").nth(1)?.split(' ').next()?.parse::<u64>().ok()?;
        line.contains("bytes were not captured").then_some(count)
    };
    assert!(text.lines().filter_map(missed).sum::<u64>() == 0, "{text}");
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
fn all_of_it_beside_probes() {
    under_attack("all", "ring", "both");
}
