//! What ran, how often, and what made it: `top`, `graph`.

use super::chains::tree;
use super::truth::{record_of, time, Truth};
use super::{is_right, iso, plant, Plant};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Records that process by CP links, each with the record that its link reads.
const BY_CP: [(&str, &str); 7] = [
    ("LI:MAG1:SP", "LI:MAG1:FIELD"),
    ("LI:MAG1:FIELD", "LI:MAG1:GRADIENT"),
    ("LI:MAG1:GRADIENT", "LI:OPTICS:SUM"),
    ("RF:AMP:RB", "LI:BEAM:ENERGY"),
    ("LI:TEMP1:RAW", "LI:TEMP1"),
    ("RF:LOOP:A", "RF:LOOP:B"),
    ("RF:LOOP:B", "RF:LOOP:A"),
];

/// A part of the time in which a scan of any record is surely before or after the ends.
pub fn window(plant: &Plant) -> (i64, i64) {
    (plant.truth.quiet(plant.truth.moment("T0")), plant.truth.quiet(plant.truth.moment("T5")))
}

/// How often each link made its record process in that time: (source, target, kind).
pub fn links(truth: &Truth, since: i64, until: i64) -> BTreeMap<(String, String, &'static str), u64> {
    let mut links = BTreeMap::new();
    let mut count = |from: &str, to: &str, kind, times: u64| {
        if times > 0 {
            *links.entry((from.to_owned(), to.to_owned(), kind)).or_insert(0) += times;
        }
    };
    for put in truth.puts().iter().filter(|put| (since..until).contains(&time(put, "begin"))) {
        // the record of each depth of the tree
        let mut above: Vec<String> = Vec::new();
        for line in tree(truth, put).iter().skip(1) {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let (what, name) = line.trim_start().split_once(' ').expect("two words");
            above.truncate(depth - 1);
            let by = above.last().filter(|by| !by.is_empty());
            match what {
                "process" if name == "RF:EVENT:LOOP" && by.is_some() => count(name, name, "event", 1),
                "process" => {
                    if let Some(by) = by.filter(|by| *by != name) {
                        count(by, name, "FLNK", 1);
                    }
                }
                "caputlink" => count(above.last().expect("its record"), name, "CA", 1),
                _ => {}
            }
            above.push(if what == "process" { name.to_owned() } else { String::new() });
        }
    }
    for (from, to) in BY_CP {
        // each of these values was another one, so each came over the link
        let times = truth.events(from, since, until).count() as u64;
        let turns = truth
            .list("loops")
            .iter()
            .find(|it| it["records"].as_array().is_some_and(|all| all.contains(&from.into())));
        count(from, to, "CP", turns.map_or(times, |it| it["turns"].as_u64().expect("turns")));
    }
    links
}

/// How often each record processed in that time; what only a scan can tell is left to be compared with other records.
pub fn processed(truth: &Truth, since: i64, until: i64) -> BTreeMap<String, u64> {
    let mut processed = BTreeMap::new();
    for put in truth.puts().iter().filter(|put| (since..until).contains(&time(put, "begin"))) {
        for line in tree(truth, put) {
            // also RF:TUNER:MOVE, which was still at it when its IOC died
            if let Some(record) = line.trim_start().strip_prefix("process ") {
                *processed.entry(record.to_owned()).or_insert(0) += 1;
            }
        }
    }
    for ((_, to, kind), times) in links(truth, since, until) {
        if kind == "CP" {
            *processed.entry(to).or_insert(0) += times;
        }
    }
    for record in truth.list("scanned").iter().map(|record| record.as_str().expect("a name")) {
        // the scans of these always change their values
        let like = match record {
            "LI:FLAP" => "LI:TICK1",
            record => record,
        };
        if record != "LI:VAC1:PRESS" {
            processed.insert(record.to_owned(), truth.events(like, since, until).count() as u64);
        }
    }
    processed
}

pub fn table(plant: &Plant, by: &str, more: &[&str]) -> Vec<Value> {
    plant.lines(&[&["top", "--by", by, "-n", "0", "--utc"], more].concat())
}

#[test]
fn records_processed_as_often_as_they_did() {
    let Some(plant) = plant("plant-top") else { return };
    let (since, until) = window(plant);
    let mut truth = processed(&plant.truth, since, until);
    let rows = table(plant, "records", &["--since", &iso(since), "--until", &iso(until)]);
    let mut wrong = Vec::new();
    for row in &rows {
        let name = row["name"].as_str().expect("a name");
        if name == "LI:VAC1:PRESS" {
            // every half second
            let expected = (until - since) as f64 / 5e8;
            let count = row["count"].as_f64().expect("a count");
            assert!((count - expected).abs() <= 1.0, "{row}: {expected}");
            continue;
        }
        let expected = truth.remove(name);
        if row["count"].as_u64() != expected {
            wrong.push(format!("{name}: {} times, not {expected:?}", row["count"]));
        }
    }
    wrong.extend(truth.iter().map(|(name, times)| format!("{name} is missing: {times} times")));
    is_right(&wrong);
    let counts: Vec<u64> = rows.iter().filter_map(|row| row["count"].as_u64()).collect();
    assert!(counts.is_sorted_by(|one, other| one >= other), "{counts:?}");
}

#[test]
fn users_put_as_often_as_they_did() {
    let Some(plant) = plant("plant-users") else { return };
    let mut truth: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for put in plant.truth.puts() {
        let client = plant.truth.client(&put["client"]);
        let user = client.map_or("IOC shell of LINAC1", |client| client["user"].as_str().expect("a user"));
        let (count, refused) = truth.entry(user.to_owned()).or_default();
        *count += 1;
        *refused += u64::from(["denied", "ECA_PUTFAIL"].iter().any(|outcome| put["outcome"] == **outcome));
    }
    let users = table(plant, "users", &[]);
    let found: BTreeMap<String, (u64, u64)> = users
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().expect(key);
            (row["name"].as_str().expect("a name").to_owned(), (number("count"), number("refused")))
        })
        .collect();
    assert_eq!(found, truth);
    assert_eq!(users.len(), found.len());
}

/// There is the one fight, and there are the two loops.
#[test]
fn fights_and_loops_are_found_and_none_is_invented() {
    let Some(plant) = plant("plant-fights") else { return };
    let fights = table(plant, "fights", &[]);
    let truth = plant.truth.list("fights");
    assert_eq!(fights.len(), truth.len(), "{fights:?}");
    for (row, fight) in fights.iter().zip(truth) {
        assert_eq!(row["name"], fight["pv"]);
        // the first put overwrote nobody's
        let puts = fight["puts"].as_array().expect("puts").len() as u64;
        assert_eq!(row["count"].as_u64(), Some(puts - 1));
        for client in fight["clients"].as_array().expect("clients") {
            let client = plant.truth.client(client).expect("a client");
            let name = format!("{}@{}", client["user"].as_str().unwrap(), client["host"].as_str().unwrap());
            assert!(row["detail"].as_str().is_some_and(|detail| detail.contains(&name)), "{row}: {name}");
        }
    }
    let loops: BTreeMap<BTreeSet<String>, u64> = table(plant, "loops", &[])
        .iter()
        .map(|row| {
            let records = row["name"].as_str().expect("records").split(", ").map(str::to_owned).collect();
            (records, row["count"].as_u64().expect("a count"))
        })
        .collect();
    let truth: BTreeMap<BTreeSet<String>, u64> = plant
        .truth
        .list("loops")
        .iter()
        .map(|it| {
            let records = it["records"].as_array().expect("records");
            let names: BTreeSet<String> =
                records.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
            let times = it["turns"].as_u64().expect("turns") * names.len() as u64;
            (names, times)
        })
        .collect();
    assert_eq!(loops, truth);
}

/// Every link between records that was followed, as often as it was, and no other.
#[test]
pub fn links_were_followed_as_often_as_they_were() {
    let Some(plant) = plant("plant-graph") else { return };
    let (since, until) = window(plant);
    let rows = plant.lines(&["graph", "--utc", "--since", &iso(since), "--until", &iso(until)]);
    let truth = links(&plant.truth, since, until);
    let (mut found, mut puts) = (BTreeMap::new(), BTreeMap::new());
    for row in &rows {
        let word = |key: &str| row[key].as_str().expect(key).to_owned();
        let kind = ["FLNK", "CP", "CA", "event"].into_iter().find(|kind| row["kind"] == **kind);
        if let Some(kind) = kind {
            assert_eq!(row["ioc"], plant.truth.ioc_of(&word("to"))["name"], "{row}");
            assert_eq!(row["from_ioc"], plant.truth.ioc_of(&word("from"))["name"], "{row}");
            found.insert((word("from"), word("to"), kind), row["count"].as_u64().expect("a count"));
        } else if row["kind"] == "put" {
            puts.insert(word("to"), row["count"].as_u64().expect("a count"));
        } else {
            assert_eq!(row["kind"], "scan", "not in this plant: {row}");
        }
    }
    assert_eq!(found, truth);
    let mut accepted = BTreeMap::new();
    for put in plant.truth.puts().iter().filter(|put| (since..until).contains(&time(put, "begin"))) {
        let is_refused = ["denied", "ECA_PUTFAIL"].iter().any(|outcome| put["outcome"] == **outcome);
        if !is_refused && put["dbr"].as_u64() < Some(35) {
            *accepted.entry(record_of(put["pv"].as_str().expect("a PV")).to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(puts, accepted);
}
