//! Loops that feed themselves: `top` names those whose records made each other process, and no others (tests/rig/loops.db).

use crate::rig::{json_lines, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

const PORT: u16 = 5074;
/// Puts to the first record of each circle.
const PUTS: u64 = 3;
/// The circles.
const CIRCLES: [[&str; 2]; 4] =
    [["LOOP:A", "LOOP:B"], ["LOOP:W", "LOOP:X"], ["LOOP:D", "LOOP:E"], ["LOOP:F", "LOOP:G"]];

fn count(client: &mut Client, record: &str) -> u64 {
    client.get(record).as_f64().expect("a number") as u64
}

/// The tables of `top`.
fn tables(rig: &Rig) -> Vec<Value> {
    json_lines(&rig.replay("top", &["--format", "jsonl"]).stdout)
}

#[test]
fn a_circle_is_a_loop_if_it_makes_its_records_process() {
    let Some(rig) = Rig::new("loops") else { return };
    let ioc = rig.ioc("loops", PORT, "loops.db", &[PORT]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "LOOP:READY", "both");
    for (circle, number) in CIRCLES.iter().zip(1..) {
        for turn in 0..PUTS {
            for record in circle.iter().take(if number == 2 { 2 } else { 1 }) {
                client.put(&format!("{record}.B"), 5, json!(turn), true);
            }
        }
    }
    wait_until("the CA links turn", || count(&mut client, "LOOP:F") > 50);
    client.put("LOOP:STOP", 5, json!(1), true);
    let mut last = BTreeMap::new();
    wait_until("nothing turns any more", || {
        let all = CIRCLES.as_flattened().iter().map(|record| (*record, count(&mut client, record)));
        let now: BTreeMap<&str, u64> = all.collect();
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::mem::replace(&mut last, now.clone()) == now
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    eprintln!("{last:?}");
    // by its own count, a circle turned by itself if its first record computed more often than it was put to
    let truth: BTreeSet<BTreeSet<&str>> = CIRCLES
        .iter()
        .filter(|[first, _]| last[first] > PUTS)
        .map(|circle| circle.iter().copied().collect())
        .collect();
    let lines = tables(&rig);
    let of = |line: &Value, table: &str| line["table"] == table;
    let found: BTreeSet<BTreeSet<&str>> = lines
        .iter()
        .filter(|line| of(line, "loops"))
        .map(|line| line["name"].as_str().expect("names").split(", ").collect())
        .collect();
    assert_eq!(found, truth, "{lines:#?}");
    assert!(truth.iter().any(|circle| circle.contains("LOOP:F")), "{last:?}");
    assert!(!truth.iter().any(|circle| circle.contains("LOOP:A") || circle.contains("LOOP:W")), "{last:?}");
    // each is counted as often as it computed
    for line in lines.iter().filter(|line| of(line, "records")) {
        let Some(truth) = line["name"].as_str().and_then(|name| last.get(name)) else { continue };
        assert_eq!(line["count"].as_u64(), Some(*truth), "{line}");
    }
    drop(ioc);
}

/// Turns of the circles of CP links.
const TURNS: u64 = 200;

#[test]
fn a_circle_of_cp_links_is_a_loop_though_a_record_has_others() {
    let Some(rig) = Rig::new("loops-cp") else { return };
    let ioc = rig.ioc("loops", PORT, "loops.db", &[PORT]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "LOOP:READY", "both");
    // the first processing for a CP link tells the recorder of the links
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for (limit, first, second) in [("LOOP:LIMIT", "LOOP:P", "LOOP:Q"), ("LOOP:LIMIT2", "LOOP:R", "LOOP:S")] {
        client.put(limit, 5, json!(TURNS), true);
        wait_until("the circle comes to rest", || count(&mut client, second) == TURNS);
        assert_eq!(count(&mut client, first), TURNS);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let loops = json_lines(&rig.replay("top", &["--by", "loops", "--format", "jsonl"]).stdout);
    let found: BTreeMap<&str, &Value> =
        loops.iter().map(|line| (line["name"].as_str().expect("names"), line)).collect();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["LOOP:P, LOOP:Q", "LOOP:R, LOOP:S"], "{loops:#?}");
    // each was made to process by the other as often as that changed
    for line in found.values() {
        let turns = line["count"].as_u64().expect("a number");
        assert!(turns.abs_diff(2 * TURNS) <= 6, "{line}");
    }
    drop(ioc);
}
