//! The traces of a recorded plant in Jaeger: sent to a small server with Jaeger's own page (`tests/rig/jaeger`), asked for
//! as the page asks, and read off the page in a real browser.
//!
//! What must be there is known from those who made the log: the script that put (`tests/rig/plant/record.py`), and the
//! databases of its IOCs (`linac.db`, `rf.db`), whose links say what a put sets off.

#[path = "report/chromium.rs"]
#[allow(dead_code)] // the report's tests use the rest
mod chromium;
mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use chromium::Chromium;
use common::run;
use not_run::{not_run, Needs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// More traces than the log has.
const ALL: &str = "limit=1000000";

/// Jaeger, to which chains of the plant's log were sent; it ends with its standard input.
struct Jaeger {
    child: Child,
    url: String,
    sent: usize,
}

impl Jaeger {
    /// Sends it the chains that options choose; `None`, after saying so, where it was not built.
    fn with_the_plant(test: &str, chosen: &[&str]) -> Option<Jaeger> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = here.join("../.venv/jaeger/jaeger");
        if !program.exists() {
            not_run(test, Needs::Program(".venv/jaeger"));
            return None;
        }
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim_end().to_owned();
        let mut jaeger = Jaeger { child, url, sent: 0 };
        let words = [&["traces", "log", "--otlp", &jaeger.url], chosen].concat();
        let (code, out, err) = run(&here.join("tests/plant"), &words);
        // the only line: nothing was sent twice, rejected or left out
        let start = format!("iocreplay: {}: sent ", jaeger.url);
        assert!(code == 0 && out.is_empty() && err.starts_with(&start) && err.lines().count() == 1, "{err}");
        jaeger.sent = err[start.len()..].split(" spans in ").next().unwrap().parse().unwrap();
        Some(jaeger)
    }

    fn get(&self, path: &str) -> Value {
        let answer = minreq::get(format!("{}{path}", self.url)).with_timeout(300).send().unwrap();
        assert_eq!(answer.status_code, 200, "{path}");
        serde_json::from_slice::<Value>(answer.as_bytes()).unwrap()["data"].take()
    }
}

impl Drop for Jaeger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The service, name and children of each span, as the page draws a trace.
fn tree(trace: &Value) -> Vec<String> {
    let spans = trace["spans"].as_array().unwrap();
    let mut below: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for span in spans {
        let references = span["references"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(references.len() <= 1, "{span}");
        let parent = references.first().map_or("", |reference| {
            assert_eq!(
                (&reference["refType"], &reference["traceID"]),
                (&"CHILD_OF".into(), &trace["traceID"])
            );
            reference["spanID"].as_str().unwrap()
        });
        below.entry(parent).or_default().push(span);
    }
    let mut lines = Vec::new();
    let mut waiting: Vec<(usize, &Value)> = below[""].iter().map(|span| (0, *span)).collect();
    assert_eq!(waiting.len(), 1, "a trace has one root");
    while let Some((depth, span)) = waiting.pop() {
        let service = &trace["processes"][span["processID"].as_str().unwrap()]["serviceName"];
        let name = span["operationName"].as_str().unwrap();
        lines.push(format!("{}{} {name}", "  ".repeat(depth), service.as_str().unwrap()));
        let mut children = below.remove(span["spanID"].as_str().unwrap()).unwrap_or_default();
        children.sort_by_key(|span| std::cmp::Reverse(span["startTime"].as_u64().unwrap()));
        waiting.extend(children.into_iter().map(|span| (depth + 1, span)));
    }
    assert_eq!(lines.len(), spans.len(), "each span is below the root");
    lines
}

/// The IOC of a record or PV: the databases name theirs so.
fn ioc(pv: &str) -> &'static str {
    match pv.split(':').next() {
        Some("LI") => "LINAC1",
        Some("RF") => "RF1",
        _ => panic!("{pv} is not of the plant"),
    }
}

/// A put to LI:RF:REQ: its OUT is a CA link to RF:AMP:SP of the other IOC, whose forward link is RF:AMP:RB.
const REQUEST: [&str; 6] = [
    "LINAC1 caput LI:RF:REQ",
    "  LINAC1 process LI:RF:REQ",
    "    LINAC1 caputlink RF:AMP:SP",
    "      RF1 caput RF:AMP:SP",
    "        RF1 process RF:AMP:SP",
    "          RF1 process RF:AMP:RB",
];

/// How often the script puts to RF:EVENT:LOOP's event before it changes nothing (EVENT_TURNS).
const EVENT_TURNS: usize = 300;

/// How many puts the script makes while it records, by PV, and what each sets off by the databases.
fn truth() -> Vec<(usize, Vec<String>)> {
    let mut puts = Vec::new();
    let mut tell = |count, pv: &str, processed: &[&str]| {
        let verb = if pv == "LI:SHELL" { "put" } else { "caput" };
        let mut lines = vec![format!("{} {verb} {pv}", ioc(pv))];
        for (depth, record) in processed.iter().enumerate() {
            lines.push(format!("{}{} process {record}", "  ".repeat(depth + 1), ioc(record)));
        }
        puts.push((count, lines));
    };
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 20] {
        let (set, read) = (format!("LI:COR{n}:SP"), format!("LI:COR{n}:RB"));
        tell(1, &set, &[&set, &read]);
    }
    tell(8, "LI:MAG1:SP", &["LI:MAG1:SP", "LI:MAG1:RB"]);
    // of three who put, two may not; and DISP refuses
    tell(1, "LI:GUN:HV", &["LI:GUN:HV"]);
    tell(2, "LI:GUN:HV", &[]);
    tell(1, "LI:LOCKED", &[]);
    // a field that processes nothing, acknowledgements
    tell(1, "LI:MAG2:SP.DESC", &[]);
    tell(3, "LI:TEMP1", &[]);
    tell(1, "LI:VAC1:PRESS", &[]);
    tell(2, "LI:PUMP:RATIO.B", &["LI:PUMP:RATIO", "LI:PUMP:SUM"]);
    tell(1, "LI:SLOW.A", &["LI:SLOW", "LI:SLOW:DONE"]);
    let turns = ["RF:EVENT:LOOP"; EVENT_TURNS + 1];
    tell(1, "RF:EVENT:LOOP.PROC", &turns);
    for (count, pvs) in [
        (1, &["LI:MAG2:SP", "LI:TEMP1.HIGH", "LI:NOTE", "LI:LONGNOTE.VAL$", "LI:NAMES", "LI:BYTES"][..]),
        (1, &["LI:SHELL", "LI:WATER:FLOW", "RF:LOOP:LIMIT", "RF:LOOP:A.PROC", "RF:EVENT:LIMIT"]),
        (1, &["RF:TUNER:MOVE.A"]),
        (2, &["LI:VALVE", "LI:COUNT64", "LI:STEPS", "LI:CURVE", "LI:FLAP:GATE"]),
        (3, &["LI:VAC1:RAW"]),
        (4, &["LI:MODE"]),
        (6, &["LI:TEMP1:RAW"]),
        (30, &["LI:PHASE:SP"]),
    ] {
        for pv in pvs {
            tell(count, pv, &[pv.split('.').next().unwrap()]);
        }
    }
    puts.push((3, REQUEST.map(String::from).to_vec()));
    puts
}

#[test]
fn jaeger_holds_what_the_plant_did() {
    let Some(jaeger) = Jaeger::with_the_plant("jaeger_holds_what_the_plant_did", &[]) else { return };
    // a server that takes anything would prove nothing
    let damaged = minreq::post(format!("{}/v1/traces", jaeger.url))
        .with_header("Content-Type", "application/x-protobuf")
        .with_body(b"\x0a\xff".as_slice());
    assert_eq!(damaged.send().unwrap().status_code, 400);

    assert_eq!(jaeger.get("/api/services"), serde_json::json!(["LINAC1", "RF1"]));
    let traces = jaeger.get(&format!("/api/traces?{ALL}"));
    let traces = traces.as_array().unwrap();
    let ids: BTreeSet<&str> = traces.iter().map(|trace| trace["traceID"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), traces.len());
    let spans = || traces.iter().flat_map(|trace| trace["spans"].as_array().unwrap());
    assert_eq!(spans().count(), jaeger.sent);

    // each span is a record's or PV's, in the IOC that has it; a CA link is put by the other one
    let mut puts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for trace in traces {
        let lines = tree(trace);
        for line in &lines {
            let [service, verb, pv] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            match verb {
                "caputlink" => assert_eq!((service, pv), ("LINAC1", "RF:AMP:SP")),
                "caput" | "put" | "process" => assert_eq!(service, ioc(pv), "{line}"),
                _ => panic!("{line}"),
            }
        }
        if !lines[0].contains(" process ") {
            *puts.entry(lines).or_default() += 1;
        }
    }
    let truth: BTreeMap<Vec<String>, usize> =
        truth().into_iter().map(|(count, lines)| (lines, count)).collect();
    for (lines, count) in &truth {
        assert_eq!(
            puts.get(lines).copied().unwrap_or_default(),
            *count,
            "{}",
            lines[..lines.len().min(9)].join("\n")
        );
    }
    assert_eq!(puts.len(), truth.len(), "other puts than the script's");

    // LI:TICKn adds n to its value ten times a second: nothing was lost or came twice on the way
    let attribute = |span: &Value, key: &str| {
        let tags = span["tags"].as_array().unwrap();
        tags.iter().find(|tag| tag["key"] == key).map(|tag| tag["value"].clone()).unwrap_or_default()
    };
    for n in 1..=6 {
        let name = format!("process LI:TICK{n}");
        let of_it = spans().filter(|span| span["operationName"] == name.as_str());
        let mut ticks: Vec<(u64, f64)> = of_it
            .map(|span| {
                (span["startTime"].as_u64().unwrap(), attribute(span, "epics.record.value").as_f64().unwrap())
            })
            .collect();
        ticks.sort_by_key(|(time, _)| *time);
        assert!(ticks.len() > 200, "{name}: half a minute has more than {}", ticks.len());
        assert!(ticks.windows(2).all(|pair| pair[1].1 - pair[0].1 == f64::from(n)), "{name}: {ticks:?}");
    }
    // what was asked of the other IOC, by whom and from where, in the order of the script
    let mut requests: Vec<&Value> =
        spans().filter(|span| span["operationName"] == "caput LI:RF:REQ").collect();
    requests.sort_by_key(|span| span["startTime"].as_u64().unwrap());
    let of = |key| requests.iter().map(|span| attribute(span, key)).collect::<Vec<_>>();
    assert_eq!(of("epics.put.value"), [8.0, 26.0, 10.0]);
    assert_eq!(of("client.address"), ["laptop-7", "control-2", "control-2"]);
    assert_eq!(of("epics.client.user")[1..], ["alice", "alice"]);
    // calcout's ODLY of 0.3 s
    let slow = spans().find(|span| span["operationName"] == "process LI:SLOW").unwrap();
    assert!((300_000..400_000).contains(&slow["duration"].as_u64().unwrap()), "{slow}");
}

/// What an expression in the page gives, once it gives something.
fn shown(browser: &mut Chromium, what: &str, expression: &str) -> Value {
    let limit = Instant::now() + PATIENCE;
    loop {
        let value = browser.eval(expression);
        if value.as_array().is_some_and(|list| !list.is_empty()) {
            return value;
        }
        assert!(Instant::now() < limit, "the page shows no {what}: {}", browser.text("body"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The traces on the page of a search: the link, then all texts.
const FOUND: &str =
    "[...document.querySelectorAll('.ResultItem')].map(item => [item.querySelector('a').pathname, \
    item.querySelector('.TraceName').textContent, \
    ...[...item.querySelectorAll('.ant-tag')].map(tag => tag.textContent)])";

/// The rows of a trace: depth, service, name.
const ROWS: &str = "[...document.querySelectorAll('.span-row')].map(row => \
    [row.querySelectorAll('.SpanTreeOffset--indentGuide').length, \
    row.querySelector('.span-svc-name').textContent.trim(), row.querySelector('.endpoint-name').textContent])";

#[test]
fn jaegers_page_shows_a_put_over_two_iocs() {
    let test = "jaegers_page_shows_a_put_over_two_iocs";
    let Some(program) = chromium::program() else { return not_run(test, Needs::Program("chromium")) };
    let Some(jaeger) = Jaeger::with_the_plant(test, &["--pv", "LI:RF:REQ"]) else { return };
    let mut browser = Chromium::start(program);
    let size = (1400, 1000);

    let search = "service=LINAC1&operation=caput%20LI%3ARF%3AREQ&limit=20&lookback=custom&start=1&end=2000000000000000";
    browser.open_url(&format!("{}/search?{search}", jaeger.url), size);
    let found = shown(&mut browser, "traces", FOUND);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
    for item in found {
        let texts: Vec<&str> =
            item.as_array().unwrap()[1..].iter().map(|text| text.as_str().unwrap()).collect();
        assert_eq!(texts, ["LINAC1: caput LI:RF:REQ", "6 Spans", "LINAC1 (3)", "RF1 (3)"]);
    }

    // each of the three, by its link
    for item in found {
        let path = item[0].as_str().unwrap();
        assert!(path.starts_with("/trace/") && path.len() == "/trace/".len() + 32, "{path}");
        browser.open_url(&format!("{}{path}", jaeger.url), size);
        let rows = shown(&mut browser, "spans", ROWS);
        let drawn: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let depth = row[0].as_u64().unwrap() as usize;
                format!("{}{} {}", "  ".repeat(depth - 1), row[1].as_str().unwrap(), row[2].as_str().unwrap())
            })
            .collect();
        assert_eq!(drawn, REQUEST);
    }
    let thrown = browser.seen("Runtime.exceptionThrown");
    assert!(thrown.is_empty(), "{thrown:?}");
}
