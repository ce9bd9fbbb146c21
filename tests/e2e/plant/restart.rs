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
    assert!(page.text.contains("LINAC1 was killed by SIGKILL, sent by pid "), "{}", page.text);
    let restarted = "RF1 was started anew, unseen";
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

/// The moments at which every record was read, in order. Between T1 and T2 LINAC1 was started anew, between T3 and T4 the
/// recorder and RF1.
const MOMENTS: [&str; 6] = ["T0", "T1", "T2", "T3", "T4", "END"];

/// The processes of an IOC, in order.
fn processes<'a>(plant: &'a Plant, name: &str) -> Vec<&'a Value> {
    plant.truth.list("iocs").iter().filter(|ioc| ioc["name"] == name).collect()
}

/// Of any two moments: what differs, and no cause of a change that the recorder has not seen: neither its own reading, nor
/// what processed after a restart, is told as one.
#[test]
fn differences_over_restarts_claim_no_cause_that_was_not_seen() {
    let Some(plant) = plant("plant-restart-diff") else { return };
    let truth = &plant.truth;
    let mut wrong = Vec::new();
    let (mut seen, mut unseen) = (0, 0);
    for (number, one) in MOMENTS.iter().enumerate() {
        for other in &MOMENTS[number + 1..] {
            let (since, until) = (truth.moment(one), truth.moment(other));
            let words = ["diff", &iso(since), &iso(until), "--utc", "--format", "jsonl"];
            let (_, out, said) = plant.outcome(&words);
            assert!(said.lines().count() == 1, "{said}");
            let lines = crate::rig::json_lines(out.as_bytes());
            let readings = |moment: &str, pv: &str| &truth.part("moments")[moment]["readings"][pv]["value"];
            for record in truth.part("records").as_object().expect("records").keys() {
                let is_scanned = truth.list("scanned").iter().any(|scanned| scanned == record);
                if is_scanned {
                    continue;
                }
                let (before, after) = (readings(one, record), readings(other, record));
                let line = lines.iter().find(|line| line["pv"] == *record);
                let of = format!("{one} to {other}: {record}");
                let Some(line) = line else {
                    if !same(before, after) {
                        wrong.push(format!("{of} is missing: {before} -> {after}"));
                    }
                    continue;
                };
                if same(before, after) || !same(&line["before"], before) || !same(&line["after"], after) {
                    wrong.push(format!("{of} was {before} -> {after}: {line}"));
                    continue;
                }
                let name = if record.starts_with("RF:") { "RF1" } else { "LINAC1" };
                let anew = processes(plant, name)
                    .iter()
                    .skip(1)
                    .any(|ioc| (since..until).contains(&time(ioc, "started")));
                if line["started_anew"] != anew {
                    wrong.push(format!("{of}: its IOC was started anew, {anew}: {line}"));
                }
                let at = nanoseconds(&line["time"]);
                // when it truly got the value, by the observer
                let events = truth.part("events")[record].as_array().expect("events");
                let turned = events.iter().rev().skip_while(|event| time(event, "received") > until);
                let got = turned
                    .take_while(|event| same(&event["value"], after))
                    .map(|event| time(event, "stamp"))
                    // a record that has not processed has no time
                    .filter(|stamp| *stamp > since)
                    .last();
                match line["cause_known"].as_str().expect("a word") {
                    "yes" => {
                        seen += 1;
                        let right = got.is_some_and(|got| (got - at).abs() < 300_000_000);
                        if !right || !line["since"].is_null() {
                            wrong.push(format!("{of} became {after} at {got:?}: {line}"));
                        }
                    }
                    known => {
                        unseen += 1;
                        // by then it had it
                        let late = got.is_some_and(|got| got > at + 300_000_000);
                        let early = !line["since"].is_null()
                            && got.is_some_and(|got| got < nanoseconds(&line["since"]));
                        if late || early || known == "no" && !line["cause"].is_null() {
                            wrong.push(format!("{of} became {after} at {got:?}: {line}"));
                        }
                    }
                }
            }
            let words = ["diff", &iso(since), &iso(until), "--utc"];
            let (_, text, _) = plant.outcome(&words);
            assert!(!text.contains("read by the recorder"), "{text}");
        }
    }
    is_right(&wrong);
    assert!(seen > 50 && unseen > 20, "{seen} {unseen}");
}

/// Each process has its end, also the one that nobody saw; `last` shows it.
#[test]
fn every_process_has_its_end() {
    let Some(plant) = plant("plant-restart-iocs") else { return };
    let lines = plant.lines(&["iocs", "--utc"]);
    for ioc in plant.truth.list("iocs") {
        let of: Vec<&Value> = lines.iter().filter(|line| line["pid"] == ioc["pid"]).collect();
        assert!(!of.is_empty(), "{ioc}");
        for line in of {
            let times = ["ended", "ended_after", "ended_by"].map(|key| &line[key]);
            match (ioc["name"].as_str(), ioc["how"].as_str()) {
                (_, None) => assert!(times.iter().all(|time| time.is_null()), "{line}"),
                // while no recorder ran
                (Some("RF1"), Some(_)) => {
                    let [ended, after, by] = times;
                    // in whole seconds
                    let second = 1_000_000_000;
                    let is_between = nanoseconds(after) <= time(ioc, "end")
                        && nanoseconds(by) + second >= time(ioc, "begin");
                    assert!(ended.is_null() && is_between, "{line}: {ioc}");
                    assert_eq!(line["end"], "restarted unseen");
                }
                // and by whom
                (_, Some(how)) => {
                    let end = line["end"].as_str().unwrap_or_default();
                    assert!(end.starts_with(how) && end.ends_with(", user root)"), "{line}");
                }
            }
        }
    }
    let first = &processes(plant, "RF1")[0]["pid"];
    let (code, out, said) = plant.outcome(&["last", &format!("RF1 pid {first}"), "--utc"]);
    assert!(code == 0 && said.is_empty(), "{said}");
    assert!(out.contains("not recorded since") && out.contains("ended unseen by"), "{out}");
}

/// `--ioc 'NAME pid N'` chooses one process in every command: both together give what the name gives; one that does not
/// exist is an error that names those that do.
#[test]
fn one_process_of_a_restarted_ioc_can_be_chosen_everywhere() {
    let Some(plant) = plant("plant-restart-pid") else { return };
    let truth = &plant.truth;
    let end = iso(truth.moment("END"));
    let begin = iso(truth.moment("T0"));
    let names = |ioc: &str| -> Vec<String> {
        processes(plant, ioc).iter().map(|of| format!("{ioc} pid {}", of["pid"])).collect()
    };
    let ask = |words: &[&str], ioc: &str| plant.outcome(&[words, &["--ioc", ioc]].concat());
    for ioc in ["LINAC1", "RF1"] {
        let pv = if ioc == "RF1" { "RF:CAV1:ON" } else { "LI:MAG1:SP" };
        for words in [&["puts", "--all"][..], &["records"], &["values", pv], &["clients"]] {
            let words = [words, &["--format", "jsonl"]].concat();
            let lines = |ioc: &str| {
                let out = ask(&words, ioc).1.replace("LINAC1 pid ", "").replace("RF1 pid ", "");
                let mut lines = crate::rig::json_lines(out.as_bytes());
                lines.iter_mut().for_each(|line| line["ioc"] = Value::Null);
                lines
            };
            let all = lines(ioc).len();
            let each = names(ioc).iter().map(|name| lines(name).len()).collect::<Vec<_>>();
            assert!(each.iter().all(|count| *count > 0), "{words:?} {ioc}: {each:?}");
            // both processes have the same records, of which each is listed once
            let once = words[0] == "records" && each.iter().all(|count| *count == each[0]);
            let expected = if once { each[0] } else { each.iter().sum::<usize>() };
            assert_eq!(expected, all, "{words:?} {ioc}");
        }
        // what each process did, by when it ran
        for (number, name) in names(ioc).iter().enumerate() {
            let (_, out, _) = ask(&["puts", "--format", "jsonl"], name);
            for put in crate::rig::json_lines(out.as_bytes()) {
                let of = processes(plant, ioc)[number];
                let at = nanoseconds(&put["time"]);
                assert_eq!(put["ioc"], name.as_str());
                assert!(at > time(of, "started") - 1_000_000_000, "{put} {of}");
                assert!(of["how"].is_null() || at < time(of, "end"), "{put} {of}");
            }
            // its own values, and that they are gone with it
            let (_, out, _) = ask(&["at", &end, "--format", "jsonl", "--pv", pv], name);
            let line = &crate::rig::json_lines(out.as_bytes())[0];
            let lives = processes(plant, ioc)[number]["how"].is_null();
            assert_eq!(line["value"].is_null(), !lives, "{line}");
        }
    }
    let operands: [&[&str]; 19] = [
        &["puts"],
        &["values", "LI:MAG1:SP"],
        &["at", &end],
        &["diff", &begin, &end],
        &["alarms"],
        &["why", "LI:MAG1:SP"],
        &["traces"],
        &["top"],
        &["graph"],
        &["profile"],
        &["last"],
        &["iocs"],
        &["records"],
        &["clients"],
        &["net"],
        &["report"],
        &["undo", "--since", "2020-01-01"],
        &["traces", "--format", "otlp"],
        &["puts", "--format", "caputlog"],
    ];
    for words in operands {
        let (_, out, said) = ask(words, "RF1 pid 1");
        let there = names("RF1").iter().all(|name| said.contains(name.as_str()));
        assert!(said.contains("no IOC matches 'RF1 pid 1'") && there, "{words:?}: {said}");
        assert!(!out.contains("RF:"), "{words:?}: {out}");
    }
}

/// Counts over restarts are the sums of those of the runs and processes.
#[test]
fn counts_over_restarts_are_sums() {
    let Some(plant) = plant("plant-restart-sums") else { return };
    let middle = iso(plant.truth.part("unseen").as_i64().expect("a time"));
    let counts = |more: &[&str]| {
        let rows =
            plant.outcome(&[&["top", "--by", "records", "-n", "0", "--format", "jsonl"], more].concat());
        let rows = crate::rig::json_lines(rows.1.as_bytes());
        let count = |row: &Value| (row["name"].to_string(), row["count"].as_u64().expect("a count"));
        rows.iter().map(count).collect::<std::collections::BTreeMap<_, _>>()
    };
    let sum = |parts: &[std::collections::BTreeMap<String, u64>]| {
        let mut sum = std::collections::BTreeMap::new();
        for (name, count) in parts.iter().flatten() {
            *sum.entry(name.clone()).or_insert(0) += count;
        }
        sum
    };
    let all = counts(&[]);
    assert!(all.len() > 50 && all["\"LI:TICK1\""] > 5, "{all:?}");
    assert_eq!(sum(&[counts(&["--until", &middle]), counts(&["--since", &middle])]), all);
    let each: Vec<_> = ["LINAC1", "RF1"]
        .into_iter()
        .flat_map(|ioc| processes(plant, ioc).into_iter().map(move |of| format!("{ioc} pid {}", of["pid"])))
        .map(|name| counts(&["--ioc", &name]))
        .collect();
    assert_eq!(sum(&each), all);
    // edges of the graph likewise
    let edges = |more: &[&str]| {
        let (_, out, _) = plant.outcome(&[&["graph", "--format", "jsonl"], more].concat());
        let edges = crate::rig::json_lines(out.as_bytes());
        edges.iter().map(|edge| edge["count"].as_u64().expect("a count")).sum::<u64>()
    };
    assert_eq!(edges(&["--until", &middle]) + edges(&["--since", &middle]), edges(&[]));
    // and stacks of the profile, in nanoseconds
    let time_of = |more: &[&str]| {
        let (_, out, _) = plant.outcome(&[&["profile"], more].concat());
        out.lines()
            .map(|line| line.rsplit_once(' ').expect("a time").1.parse::<u64>().expect("a number"))
            .sum::<u64>()
    };
    let all = time_of(&[]);
    assert!(all > 0 && all < 30_000_000_000, "{all} ns");
    assert_eq!(time_of(&["--until", &middle]) + time_of(&["--since", &middle]), all);
}
