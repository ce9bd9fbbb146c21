//! How long things took, and how often they were: `top --by time`, `chains` and `clients`, `profile`, `graph`.
//!
//! Nobody but the recorder can time a record. What the script knows is how long its client waited: whatever a put did in
//! its own thread lies between the begin and the end of that, by the same clock.

use super::chains::tree;
use super::running::{links, processed, table, window};
use super::truth::{record_of, time, Truth};
use super::{is_right, iso, nanoseconds, plant, Plant};
use serde_json::Value;
use std::collections::BTreeMap;

/// Records whose thread did other things meanwhile.
const ASYNCHRONOUS: [&str; 2] = ["LI:SLOW", "RF:TUNER:MOVE"];
/// How late the recorder may learn of an end, nanoseconds.
const LATE: i64 = 1_000_000_000;
/// A record that processes as part of itself, too deep for a whole stack.
const DEEP: &str = "RF:EVENT:LOOP";

/// Puts in that time that made something process, each with how long its client waited for it, in nanoseconds.
fn puts(truth: &Truth, since: i64, until: i64) -> impl Iterator<Item = (&Value, Vec<String>, u64)> {
    let puts = truth.puts().iter().filter(move |put| (since..until).contains(&time(put, "begin")));
    puts.map(|put| (put, tree(truth, put), (time(put, "end") - time(put, "begin")) as u64))
        .filter(|(_, tree, _)| tree.iter().any(|line| line.trim_start().starts_with("process ")))
}

/// The chains that began in that time with the same record for the same reason: how many, how many records processed in
/// all of them, and the longest that a client waited for one, if a client did.
type Chains = BTreeMap<String, (u64, u64, Option<u64>)>;

fn chains(truth: &Truth, since: i64, until: i64) -> Chains {
    let mut chains = Chains::new();
    let mut add = |name: String, times: u64, records: u64, waited: Option<u64>| {
        let chain = chains.entry(name).or_insert((0, 0, waited));
        (chain.0, chain.1) = (chain.0 + times, chain.1 + records);
        chain.2 = chain.2.max(waited);
    };
    for (put, tree, waited) in puts(truth, since, until) {
        let record = record_of(put["pv"].as_str().expect("a PV"));
        // what a CA link led to is a chain of its own, at another IOC
        let far = tree.iter().position(|line| line.trim_start().starts_with("caputlink"));
        let (own, far) = tree.split_at(far.unwrap_or(tree.len()));
        let processed = |lines: &[String]| {
            lines.iter().filter(|line| line.trim_start().starts_with("process ")).count() as u64
        };
        add(format!("put {record}"), 1, processed(own), Some(waited));
        if let Some(root) = far.get(1) {
            let (_, target) = root.trim_start().split_once(' ').expect("two words");
            add(format!("put {target}"), 1, processed(far), None);
        }
    }
    for ((_, to, kind), times) in links(truth, since, until) {
        if kind == "CP" {
            add(format!("CP {to}"), times, times, None);
        }
    }
    let often = processed(truth, since, until);
    for record in truth.list("scanned").iter().map(|record| record.as_str().expect("a name")) {
        let times = often.get(record).copied().unwrap_or(0);
        add(format!("scan {record}"), times, times, None);
    }
    chains
}

/// Seconds that an IOC was recorded in that time: at least, at most. It may have ended within.
fn seconds(truth: &Truth, ioc: &Value, since: i64, until: i64) -> (f64, f64) {
    let ioc = truth.ioc(ioc);
    let length = |end: i64| (end.min(until) - since) as f64 / 1e9;
    (length(time(ioc, "begin")), length(time(ioc, "end") + LATE))
}

fn is_rate(truth: &Truth, row: &Value, ioc: &Value, (since, until): (i64, i64)) {
    let (least, most) = seconds(truth, ioc, since, until);
    let (count, rate) =
        (row["count"].as_f64().expect("a count"), row["per_second"].as_f64().expect("a rate"));
    // reckoned in floating point
    let near = 1.0 + 1e-9;
    assert!(
        rate * near >= count / most && rate <= count / least * near,
        "{row}: {} to {}",
        count / most,
        count / least
    );
}

fn range((since, until): (i64, i64)) -> [String; 5] {
    ["--utc".into(), "--since".into(), iso(since), "--until".into(), iso(until)]
}

fn words(range: &[String; 5]) -> Vec<&str> {
    range.iter().map(String::as_str).collect()
}

/// A rate is over the time in which the IOC was recorded, whatever is asked for.
#[test]
fn rates_are_over_the_time_that_was_recorded() {
    let Some(plant) = plant("plant-rates") else { return };
    let within = window(plant);
    for only in [&[][..], &["--pv", "LI:COR20:SP"], &["--pv", "RF:AMP:*"]] {
        let asked = range(within);
        let rows = table(plant, "records", &[&words(&asked)[1..], only].concat());
        assert!(!rows.is_empty());
        rows.iter().for_each(|row| is_rate(&plant.truth, row, &row["ioc"], within));
    }
    let asked = range(within);
    for row in plant.lines(&[&["graph"], &words(&asked)[..]].concat()) {
        is_rate(&plant.truth, &row, &row["ioc"], within);
    }
}

/// Every chain, as often as it was, and how long it took: never longer than its client waited.
#[test]
fn chains_took_as_long_as_they_took() {
    let Some(plant) = plant("plant-top-chains") else { return };
    let within = window(plant);
    let mut truth = chains(&plant.truth, within.0, within.1);
    let asked = range(within);
    let mut wrong = Vec::new();
    for row in table(plant, "chains", &words(&asked)[1..]) {
        let name = row["name"].as_str().expect("a name");
        let number = |key: &str| row[key].as_f64();
        let Some((times, records, waited)) = truth.remove(name) else {
            wrong.push(format!("{name} is invented: {row}"));
            continue;
        };
        let each = format!("{:.1} records each", records as f64 / times as f64);
        // of one that is scanned without a change, the number is only nearly known
        let is_exact = name != "scan LI:VAC1:PRESS";
        if is_exact && (row["count"].as_u64() != Some(times) || row["detail"] != *each) {
            wrong.push(format!("{name}: {times} times, {each}, not {row}"));
        }
        if ASYNCHRONOUS.iter().any(|record| name.ends_with(record)) {
            assert!(number("median_ms").is_none() && row["untimed"] == row["count"], "{row}");
            continue;
        }
        let [median, most, max] = ["median_ms", "p99_ms", "max_ms"].map(|key| number(key).expect(key));
        assert!(0.0 < median && median <= most && most <= max && row["untimed"] == 0, "{row}");
        if times == 1 && is_exact {
            assert!(median == max, "{row}");
        }
        if let Some(waited) = waited.filter(|waited| max * 1e6 > *waited as f64) {
            wrong.push(format!("{name}: the client waited {waited} ns at most, not {row}"));
        }
    }
    // VAC1 apart, which `processed` leaves out
    truth.retain(|name, _| name != "scan LI:VAC1:PRESS");
    wrong.extend(truth.keys().map(|name| format!("{name} is missing")));
    is_right(&wrong);
}

/// Time is by record what the stacks of the profile add up to; both formats say the same.
#[test]
fn times_add_up() {
    let Some(plant) = plant("plant-times") else { return };
    let within = window(plant);
    let asked = range(within);
    let stacks = folded(plant, &words(&asked));
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, time) in &stacks {
        *sums.entry(stack.last().expect("a frame").clone()).or_insert(0) += time;
    }
    let often = processed(&plant.truth, within.0, within.1);
    for row in table(plant, "time", &words(&asked)[1..]) {
        let name = row["name"].as_str().expect("a name");
        let sum = sums.remove(name).unwrap_or_else(|| panic!("{name} has no stack"));
        let time = row["time_ms"].as_f64().expect("a time");
        assert!((time * 1e6 - sum as f64).abs() < 0.5, "{row}: {sum}");
        assert!(name == "LI:VAC1:PRESS" || row["count"].as_u64() == often.get(name).copied(), "{row}");
    }
    assert!(sums.is_empty(), "{sums:?}");
    // no put took its client less time than the record that it made process
    for (put, _, _) in puts(&plant.truth, within.0, within.1) {
        let record = record_of(put["pv"].as_str().expect("a PV"));
        let all = puts(&plant.truth, within.0, within.1);
        let waited: u64 = all
            .filter(|(other, ..)| record_of(other["pv"].as_str().expect("a PV")) == record)
            .map(|(.., waited)| waited)
            .sum();
        let under: u64 = stacks
            .iter()
            .filter(|(stack, _)| stack[1] == "put" && stack[2] == record)
            .map(|(_, time)| time)
            .sum();
        assert!(under <= waited, "{record}: {under} ns, but its clients waited {waited} ns");
    }

    let arguments = [&["profile", "--format", "speedscope"], &words(&asked)[..]].concat();
    let (code, text, said) = plant.outcome(&arguments);
    let async_ones = ASYNCHRONOUS.len();
    assert!(
        code == 0 && said.starts_with(&format!("iocreplay: {async_ones} processings without a known time")),
        "{said}"
    );
    let speedscope: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(speedscope["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = speedscope["shared"]["frames"].as_array().expect("frames");
    let mut opened: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for profile in speedscope["profiles"].as_array().expect("profiles") {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let weights = profile["weights"].as_array().expect("weights");
        let samples = profile["samples"].as_array().expect("samples");
        assert_eq!(weights.len(), samples.len());
        let sum: u64 = weights.iter().filter_map(Value::as_u64).sum();
        assert_eq!((profile["startValue"].as_u64(), profile["endValue"].as_u64()), (Some(0), Some(sum)));
        for (sample, weight) in samples.iter().zip(weights) {
            let name = |frame: &Value| frames[frame.as_u64().expect("a number") as usize]["name"].clone();
            let names = sample.as_array().expect("frames").iter().map(name);
            let mut stack = vec![profile["name"].as_str().expect("a name").to_owned()];
            stack.extend(names.map(|name| name.as_str().expect("a name").to_owned()));
            assert!(opened.insert(stack, weight.as_u64().expect("a time")).is_none());
        }
    }
    assert_eq!(opened, stacks);
}

/// The stacks of `profile`, each with its time.
fn folded(plant: &Plant, asked: &[&str]) -> BTreeMap<Vec<String>, u64> {
    let (code, out, err) = plant.outcome(&[&["profile"], asked].concat());
    assert_eq!(code, 0, "{err}");
    let lines = out.lines().map(|line| {
        let (stack, time) = line.rsplit_once(' ').expect("a time");
        (stack.split(';').map(str::to_owned).collect(), time.parse().expect("nanoseconds"))
    });
    let count = out.lines().count();
    let stacks: BTreeMap<Vec<String>, u64> = lines.collect();
    assert_eq!(stacks.len(), count, "a stack has one line");
    stacks
}

/// Every way by which a record came to process is a stack, and no other.
#[test]
fn stacks_are_the_ways_that_were_taken() {
    let Some(plant) = plant("plant-profile") else { return };
    let (within, truth) = (window(plant), &plant.truth);
    let asked = range(within);
    let mut expected: Vec<Vec<String>> = Vec::new();
    for (_, tree, _) in puts(truth, within.0, within.1) {
        let mut above: Vec<(usize, &str)> = Vec::new();
        for line in &tree {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let Some(record) = line.trim_start().strip_prefix("process ") else {
                above.clear(); // a put, and what a link leads to, begins a chain
                continue;
            };
            above.retain(|(other, _)| *other < depth);
            above.push((depth, record));
            if ASYNCHRONOUS.contains(&record) || record == DEEP {
                continue;
            }
            let ioc = truth.ioc_of(record)["name"].as_str().expect("a name");
            let frames = [ioc, "put"].into_iter().chain(above.iter().map(|(_, record)| *record));
            expected.push(frames.map(str::to_owned).collect());
        }
    }
    for ((_, to, kind), _) in links(truth, within.0, within.1) {
        if kind == "CP" {
            let ioc = truth.ioc_of(&to)["name"].as_str().expect("a name").to_owned();
            expected.push(vec![ioc, "CP link".into(), to]);
        }
    }
    for record in truth.list("scanned").iter().map(|record| record.as_str().expect("a name")) {
        let about = &truth.part("records")[record];
        let scan = about["fields"]["SCAN"].as_str().expect("a period");
        let ioc = about["ioc"].as_str().expect("an IOC");
        expected.push(vec![ioc.to_owned(), format!("scan {scan}"), record.to_owned()]);
    }
    expected.sort();
    expected.dedup();
    let mut found = folded(plant, &words(&asked));
    let deep = found.keys().filter(|stack| stack.last().is_some_and(|frame| frame == DEEP)).count();
    found.retain(|stack, _| stack.last().is_some_and(|frame| frame != DEEP));
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), expected);
    assert!(found.values().all(|time| *time > 0));
    assert!(deep > 100, "each turn is a stack, up to some depth: {deep}");
}

/// Clients by their puts, each with the time of its first and its last.
#[test]
fn clients_put_as_often_as_they_did() {
    let Some(plant) = plant("plant-top-clients") else { return };
    let truth = &plant.truth;
    let rows = table(plant, "clients", &[]);
    let mut seen = 0;
    for client in truth.list("clients") {
        let own: Vec<&Value> = truth.puts().iter().filter(|put| put["client"] == client["name"]).collect();
        let refused = own.iter().filter(|put| put["outcome"] == "denied" || put["outcome"] == "ECA_PUTFAIL");
        let word = |key: &str| client[key].as_str().expect(key);
        let name = format!("{}@{} (127.0.0.1)", word("user"), word("host"));
        let row = rows.iter().find(|row| row["name"] == *name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(row["count"], own.len(), "{row}");
        assert_eq!(row["refused"], refused.count(), "{row}");
        for (key, put) in [("first", own.first()), ("last", own.last())] {
            let put = put.expect("a put");
            let at = nanoseconds(&row[key]);
            // shown in microseconds
            assert!(at > time(put, "begin") - 1000 && at <= time(put, "end"), "{row}: {put}");
        }
        seen += own.len();
    }
    assert_eq!(rows.len(), truth.list("clients").len(), "{rows:?}");
    assert_eq!(seen + 1, truth.puts().len(), "one by the shell");
    let shares: f64 = rows.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

/// The drawings have the arrows of the rows, with their counts and rates.
#[test]
fn graphs_are_drawn_as_they_are_listed() {
    let Some(plant) = plant("plant-drawings") else { return };
    let asked = range(window(plant));
    let of = |format: &str| plant.replay(&[&["graph", "--format", format], &words(&asked)[..]].concat());
    let rows = crate::rig::json_lines(of("jsonl").as_bytes());
    let mut listed: Vec<(String, String, String, bool)> = rows
        .iter()
        .map(|row| {
            let word = |key: &str| row[key].as_str().expect(key).to_owned();
            let kind = word("kind");
            let rate = row["per_second"].as_f64().expect("a rate");
            // with what is worth a digit
            let digits = (1.0 - rate.log10().floor()).max(1.0) as usize;
            let label = format!("{kind} {} ({rate:.digits$}/s)", row["count"]);
            (word("from"), word("to"), label, kind == "CP" || kind == "CA")
        })
        .collect();
    listed.sort();
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let mermaid = of("mermaid");
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    let dot = of("dot");
    let arrows = |text: &str, is_mermaid: bool| {
        let mut nodes: BTreeMap<&str, String> = BTreeMap::new();
        let mut arrows = Vec::new();
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.split(' ').collect();
            let is_arrow =
                words.iter().any(|word| ["-->", "-.->", "->"].iter().any(|it| word.starts_with(it)));
            let is_node = line.starts_with('n') && line[1..].starts_with(|c: char| c.is_ascii_digit());
            if is_arrow {
                let target = match is_mermaid {
                    true => line.rsplit(' ').next(),
                    false => words.get(2).copied(),
                };
                let name = |node: Option<&str>| nodes[node.expect("a node").trim_end_matches(';')].clone();
                let dashed = line.contains("-.->") || line.contains("dashed");
                arrows.push((
                    name(words.first().copied()),
                    name(target),
                    quoted(line).expect("a label"),
                    dashed,
                ));
            } else if is_node {
                let end = line.find(['[', '(', ' ']).expect("a label");
                nodes.insert(&line[..end], quoted(line).expect("a label"));
            }
        }
        arrows.sort();
        arrows
    };
    assert_eq!(arrows(&mermaid, true), listed);
    assert_eq!(arrows(&dot, false), listed);
}
