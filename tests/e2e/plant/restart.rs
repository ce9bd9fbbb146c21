//! IOCs that start again in the middle of the log, one of them while nobody records (tests/rig/plant/restart.py).
//!
//! `IOCREC_PLANT_RESTART=DIR` takes a plant that is recorded already.

use super::report::Page;
use super::truth::time;
use super::{is_right, iso, nanoseconds, record_with, same, Plant};
use crate::rig::{not_run, Needs};
use serde_json::Value;
use std::sync::OnceLock;

/// How late the recorder may learn of a connection's end, nanoseconds.
const LATE: i64 = 2_000_000_000;

fn plant(test: &str) -> Option<&'static Plant> {
    static PLANT: OnceLock<Plant> = OnceLock::new();
    if let Some(recorded) = std::env::var_os("IOCREC_PLANT_RESTART") {
        return Some(PLANT.get_or_init(|| Plant::of(recorded.into())));
    }
    if !not_run::is_root() {
        not_run(test, Needs::Root);
        return None;
    }
    Some(PLANT.get_or_init(|| record_with("restart.py", "plant-restart", &[])))
}

/// Each put once and in order, with the value that the process held which it reached.
#[test]
fn puts_on_both_sides_of_a_restart() {
    let Some(plant) = plant("plant-restart-puts") else { return };
    let lines = plant.lines(&["puts", "--utc"]);
    let lines: Vec<&Value> = lines.iter().filter(|line| line["via"] != "ca_link").collect();
    let truth = plant.truth.puts();
    assert_eq!(lines.len(), truth.len());
    let mut wrong = Vec::new();
    for (line, put) in lines.into_iter().zip(truth) {
        let client = plant.truth.client(&put["client"]).expect("a client");
        let right = line["pv"] == put["pv"]
            && (time(put, "begin")..=time(put, "end")).contains(&nanoseconds(&line["time"]))
            && same(&line["requested"], &put["requested"])
            && same(&line["new"], &put["after"])
            && line["user"] == client["user"];
        // what a new process holds may not have been read yet
        let old = line["old"].is_null() || same(&line["old"], &put["before"]);
        if !right || !old {
            wrong.push(format!("not {put}: {line}"));
        }
    }
    is_right(&wrong);
}

/// A circuit is said to be open no longer than somebody watched it; what `clients` lists of a time, was there then.
#[test]
fn clients_are_watched_until_the_recorder_stops() {
    let Some(plant) = plant("plant-restart-clients") else { return };
    let stopped = plant.truth.part("unseen").as_i64().expect("a time");
    let lines = plant.lines(&["clients", "--utc"]);
    let mut seen = 0;
    for line in lines.iter().filter(|line| line["process"]["program"] == "client.py") {
        let pid = &line["process"]["pid"];
        let client = plant.truth.list("clients").iter().find(|client| client["pid"] == *pid);
        let (began, ended) = client.map(|it| (time(it, "began"), time(it, "ended"))).expect("it is known");
        seen += 1;
        let last = match line["disconnected"].is_null() {
            true => &line["watched_until"],
            false => &line["disconnected"],
        };
        let last = nanoseconds(last);
        assert!(last >= began && last <= ended + LATE, "{line}: {ended}");
        // those of the first run
        if began < stopped && line["state"] == "open" {
            assert!(last <= stopped + LATE, "{line}: {stopped}");
        }
    }
    // each of six has a circuit to each IOC
    assert_eq!(seen, 12, "{lines:?}");
    let since = plant.truth.moment("T4");
    for line in plant.lines(&["clients", "--utc", "--since", &iso(since)]) {
        let pid = &line["process"]["pid"];
        if let Some(client) = plant.truth.list("clients").iter().find(|client| client["pid"] == *pid) {
            assert!(time(client, "ended") >= since, "{line} had left: {client}");
        }
    }
}

/// Between the two processes nothing is known of a value; the second one's are its own.
#[test]
fn values_end_with_their_process() {
    let Some(plant) = plant("plant-restart-at") else { return };
    let down = iso(plant.truth.part("down").as_i64().expect("a time"));
    let (_, out, _) = plant.outcome(&["at", &down, "--utc", "--format", "jsonl", "--ioc", "LINAC1"]);
    for line in crate::rig::json_lines(out.as_bytes()) {
        assert!(line["value"].is_null(), "LINAC1 is dead: {line}");
    }
    let mut wrong = Vec::new();
    for moment in ["T0", "T1", "T2", "T3", "T4", "END"] {
        let when = iso(plant.truth.moment(moment));
        let (_, out, _) = plant.outcome(&["at", &when, "--utc", "--format", "jsonl"]);
        for line in crate::rig::json_lines(out.as_bytes()) {
            let pv = line["pv"].as_str().expect("a PV");
            let reading = &plant.truth.part("moments")[moment]["readings"][pv];
            let scanned = plant.truth.list("scanned").iter().any(|scanned| scanned == pv);
            if !line["value"].is_null() && !scanned && !same(&line["value"], &reading["value"]) {
                wrong.push(format!("{moment}: {pv} was {}: {line}", reading["value"]));
            }
        }
    }
    is_right(&wrong);
}

/// The page tells both ends, the unseen one by the next process; and each IOC is recorded only once it has probes.
#[test]
fn the_page_tells_the_restart_that_nobody_saw() {
    let Some(plant) = plant("plant-restart-report") else { return };
    let page = Page::of(plant, &[]);
    assert!(page.text.contains("LINAC1 was killed by SIGKILL at "), "{}", page.text);
    let restarted = "RF1 was started anew while no recorder ran";
    assert!(page.text.contains(restarted), "{}", page.text);
    // of the time after the first end alone
    let page = Page::of(plant, &["--since", &iso(plant.truth.moment("T3"))]);
    assert!(page.text.starts_with("Flight report RF1 was started anew"), "{}", page.text);
    assert!(page.text.contains(", as far back as was asked for: "), "{}", page.text);
    for ioc in ["LINAC1", "RF1"] {
        assert!(page.text.contains(&format!("of {ioc} not recorded")), "{}", page.text);
    }
    // the first LINAC1 ended before
    let whole = plant.replay(&["report", "--utc", "--since", &iso(plant.truth.moment("T3"))]);
    assert_eq!(whole.matches("did not end in this log").count(), 2);
}
