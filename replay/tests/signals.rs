//! Log records and metrics of OpenTelemetry, and OpenMetrics: decoded strictly by the official definitions
//! (`check_signals.py`), read by Prometheus' own parser (`check_openmetrics.py`), taken by a real collector
//! (`send_to_rotel.py`), and compared with what the log is known to hold.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{consumers, iocreplay, outcome, run, write_events, write_log, SECOND};
use iocrec_log::event::{Fact, Loss, LossSource, Record, Resources};
use not_run::{not_run, Needs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const HOSTILE: &str = "T:\"} 1\n# EOF\\\u{1b}[2J\u{202e}\0";

/// A log in which everything happens that these formats know.
fn story(directory: &Path) {
    let mut facts = common::happenings();
    let used = |threads| Resources {
        ioc: 1,
        period: 1_000_000,
        cpu: Some(250_000),
        waiting: None,
        minor_faults: 3,
        major_faults: 0,
        resident: Some(2048),
        threads,
        descriptors: Some(17),
        udp_drops: None,
        most: Vec::new(),
    };
    facts.push((2 * SECOND, Fact::from(used(11))));
    facts.push((3 * SECOND, Fact::from(used(12))));
    let unknown = Loss { source: LossSource::Packets, count: 0, since: SECOND, cause: HOSTILE.into() };
    facts.push((5 * SECOND, Fact::Loss(unknown)));
    facts.push((5 * SECOND, Fact::Mark(HOSTILE.into())));
    facts.push((
        0,
        Fact::from(Record { id: 9, ioc: 1, address: 8192, name: HOSTILE.into(), rtype: "ai".into() }),
    ));
    facts.push((6 * SECOND, common::process(common::SCAN, -100, 2, 9)));
    facts.push((6 * SECOND + 1000, common::complete(common::SCAN, -200, 9, f64::NAN, 3)));
    facts.sort_by_key(|(time, _)| *time);
    write_events(directory, "box\"1\\\n", 7, facts);
}

/// The interpreter, if it has this package.
fn python(test: &str, package: &'static str) -> Option<PathBuf> {
    let python = consumers::python().filter(|_| consumers::package(package).is_some());
    if python.is_none() {
        not_run(test, Needs::Program(package));
    }
    python
}

/// Runs a script that checks files; gives what it printed.
fn checked(python: &Path, script: &str, arguments: &[&str]) -> String {
    let output = consumers::script(python, script, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes a format into a file, and gives its path.
fn file(directory: &Path, command: &str, format: &str) -> String {
    let path = directory.join(format!("{command}.{format}")).to_str().unwrap().to_owned();
    let written =
        iocreplay([command, "log", "--format", format, "-o", &path]).current_dir(directory).output();
    let (code, out, err) = outcome(written.unwrap());
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    path
}

/// The log records of a JSON lines file, with their services.
fn records(directory: &Path) -> Vec<(String, Value)> {
    let lines = fs::read_to_string(file(directory, "logs", "otlp")).unwrap();
    let mut records = Vec::new();
    for batch in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for of in batch["resourceLogs"].as_array().unwrap() {
            let attributes = of["resource"]["attributes"].as_array().unwrap();
            let name = attributes.iter().find(|own| own["key"] == "service.name").unwrap();
            let name = name["value"]["stringValue"].as_str().unwrap();
            let all = of["scopeLogs"][0]["logRecords"].as_array().unwrap();
            records.extend(all.iter().map(|record| (name.to_owned(), record.clone())));
        }
    }
    records
}

fn of<'a>(record: &'a Value, key: &str) -> &'a Value {
    let all = record["attributes"].as_array().unwrap();
    all.iter().find(|attribute| attribute["key"] == key).map_or(&Value::Null, |found| &found["value"])
}

/// Lines have no ids, so fewer chains are read for them: they say what the records do.
#[test]
fn lines_say_what_records_say() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let travelled = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/travelled");
    let travelled = ["x86_64-6.1", "arm64-ioc-6.12"].map(|name| travelled.join(name).join("log"));
    for log in [PathBuf::from("log")].iter().chain(&travelled).map(|log| log.to_str().unwrap()) {
        let parsed = |format: &str| -> Vec<Value> {
            let (code, out, err) = run(here.path(), &["logs", log, "--format", format]);
            assert_eq!(code, 0, "{log}: {err}");
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let text = |of: &Value| of.as_str().unwrap().to_owned();
        let mut lines: Vec<String> = parsed("jsonl").iter().map(|line| text(&line["text"])).collect();
        let mut records = Vec::new();
        for batch in parsed("otlp") {
            for of in batch["resourceLogs"].as_array().unwrap() {
                let all = of["scopeLogs"][0]["logRecords"].as_array().unwrap();
                records.extend(all.iter().map(|record| text(&record["body"]["stringValue"])));
            }
        }
        // a batch has what is of one IOC together
        lines.sort();
        records.sort();
        assert!(!lines.is_empty(), "{log}");
        assert_eq!(lines, records, "{log}");
    }
}

#[test]
fn records_are_what_happened_with_the_ids_of_spans() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let records = records(here.path());
    let (_, otlp, _) = run(here.path(), &["traces", "log", "--format", "otlp"]);
    let mut spans = BTreeMap::new();
    for batch in otlp.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for resource in batch["resourceSpans"].as_array().unwrap() {
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                let ids = (span["traceId"].to_string(), span["spanId"].to_string());
                spans.insert(ids, span["name"].as_str().unwrap().to_owned());
            }
        }
    }
    let named = |name: &str| -> Vec<&(String, Value)> {
        records.iter().filter(|(_, record)| record["eventName"] == name).collect()
    };
    let (_, puts, _) = run(here.path(), &["puts", "log", "--format", "jsonl"]);
    assert_eq!(named("epics.put").len(), puts.lines().count());
    for (name, prefix) in [("epics.put", "caput "), ("epics.alarm.change", "process ")] {
        let found = named(name);
        assert!(!found.is_empty(), "{name}");
        for (_, record) in found {
            let span = &spans[&(record["traceId"].to_string(), record["spanId"].to_string())];
            let of_what = if name == "epics.put" { "epics.pv.name" } else { "epics.record.name" };
            assert_eq!(*span, format!("{prefix}{}", of(record, of_what)["stringValue"].as_str().unwrap()));
        }
    }
    let put = &named("epics.put")[0];
    assert_eq!(
        (put.0.as_str(), of(&put.1, "epics.client.user")["stringValue"].as_str()),
        ("demo", Some("alice"))
    );
    let denied =
        named("epics.put").into_iter().find(|(_, put)| of(put, "epics.status")["stringValue"] == "denied");
    assert_eq!(denied.unwrap().1["severityText"], "WARN");
    assert_eq!(named("iocrec.mark")[0].1["body"]["stringValue"], "beam lost");
    let loss = named("iocrec.loss")[0];
    assert_eq!(of(&loss.1, "iocrec.loss.count")["intValue"], "17");
    assert_eq!(loss.0, "iocrec");
    // In order of time, as the lines of text.
    let times: Vec<u64> =
        records.iter().map(|(_, record)| record["timeUnixNano"].as_str().unwrap().parse().unwrap()).collect();
    let (_, text, _) = run(here.path(), &["logs", "log"]);
    assert_eq!(text.lines().count(), times.len());
    let (_, marks, _) = run(here.path(), &["logs", "log", "--kind", "marks"]);
    assert!(marks.lines().count() == 1 && marks.contains("mark") && marks.contains("beam lost"), "{marks}");
    let (code, _, err) = run(here.path(), &["logs", "log", "--kind", "x"]);
    assert!(code == 2 && err.contains("unknown kind 'x'") && err.lines().count() == 1, "{err}");
}

#[test]
fn the_official_definitions_take_both_signals() {
    let Some(python) = python("the_official_definitions_take_both_signals", "opentelemetry") else { return };
    for write in [story as fn(&Path), |log: &Path| write_log(log, "box1", 7)] {
        let here = tempfile::tempdir().unwrap();
        write(&here.path().join("log"));
        for command in ["logs", "metrics"] {
            let files = ["otlp", "otlp-proto", "otlp-proto-delimited"]
                .map(|format| file(here.path(), command, format));
            let [json, protobuf, delimited] = &files;
            let said = checked(&python, "check_signals.py", &[command, json, protobuf, delimited]);
            let count: usize = said.split(' ').next().unwrap().parse().unwrap();
            assert!(count >= 5, "{said}");
        }
    }
}

/// The samples of an OpenMetrics file as Prometheus' parser has them: name and labels, time, number.
fn samples(python: &Path, path: &str) -> Vec<(String, BTreeMap<String, String>, f64, f64)> {
    let said = checked(python, "check_openmetrics.py", &[path]);
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prometheus_reads_the_numbers() {
    let Some(python) = python("prometheus_reads_the_numbers", "prometheus_client") else { return };
    let here = tempfile::tempdir().unwrap();
    story(&here.path().join("log"));
    let all = samples(&python, &file(here.path(), "metrics", "openmetrics"));
    let get = |name: &str, label: (&str, &str)| {
        let has = |labels: &BTreeMap<String, String>| {
            label.0.is_empty() || labels.get(label.0).is_some_and(|own| own == label.1)
        };
        let found: Vec<_> = all.iter().filter(|(own, labels, ..)| own == name && has(labels)).collect();
        assert_eq!(found.len(), 1, "{name}: {all:?}");
        found[0].3
    };
    let (_, puts, _) = run(here.path(), &["puts", "log", "--format", "jsonl"]);
    let counted: f64 =
        all.iter().filter(|(name, ..)| name == "epics_ioc_puts_total").map(|found| found.3).sum();
    assert_eq!(counted, puts.lines().count() as f64);
    assert_eq!(get("epics_ioc_puts_total", ("status", "denied")), 1.0);
    // Five scans, and that of the record with the hostile name.
    assert_eq!(get("epics_ioc_record_processings_total", ("trigger", "scan")), 6.0);
    assert_eq!(get("epics_ioc_cpu_time_seconds_total", ("", "")), 0.5);
    assert_eq!(get("epics_ioc_memory_resident_bytes", ("", "")), 2048.0 * 1024.0);
    assert_eq!(get("epics_ioc_threads", ("", "")), 12.0);
    assert_eq!(get("epics_ioc_page_faults_total", ("kind", "minor")), 6.0);
    assert_eq!(get("iocrec_lost_total", ("source", "hits")), 17.0);
    assert_eq!(get("iocrec_losses_total", ("source", "packets")), 1.0);
    assert!(!all
        .iter()
        .any(|(name, labels, ..)| name == "iocrec_lost_total" && labels["source"] == "packets"));
    assert!(
        !all.iter().any(|(name, ..)| name.contains("waiting") || name.contains("udp")),
        "unknown is left out"
    );
    assert!(all.iter().all(|(_, labels, ..)| labels["host"] == "box\"1\\\\n"), "{all:?}");
    // Each second: the sums grow to the same.
    let path = here.path().join("steps").to_str().unwrap().to_owned();
    let (code, _, err) = run(here.path(), &["metrics", "log", "--step", "1s", "-o", &path]);
    assert_eq!(code, 0, "{err}");
    let steps = samples(&python, &path);
    let of_lost: Vec<_> =
        steps.iter().filter(|(name, ..)| name == "epics_ioc_cpu_time_seconds_total").collect();
    let numbers: Vec<f64> = of_lost.iter().map(|found| found.3).collect();
    assert!(
        numbers.len() > 3 && numbers.is_sorted() && numbers[0] == 0.0 && *numbers.last().unwrap() == 0.5,
        "{numbers:?}"
    );
    assert!(of_lost.is_sorted_by(|a, b| a.2 < b.2), "{of_lost:?}");
}

#[test]
fn a_real_collector_takes_all_signals() {
    let Some(python) = python("a_real_collector_takes_all_signals", "rotel") else { return };
    let here = tempfile::tempdir().unwrap();
    story(&here.path().join("log"));
    let mut files = Vec::new();
    for command in ["traces", "logs", "metrics"] {
        files.push(file(here.path(), command, "otlp"));
        files.push(file(here.path(), command, "otlp-proto"));
    }
    let program = env!("CARGO_BIN_EXE_iocreplay");
    let log = here.path().join("log").to_str().unwrap().to_owned();
    let arguments: Vec<&str> = [program, &log].into_iter().chain(files.iter().map(String::as_str)).collect();
    let said = checked(&python, "send_to_rotel.py", &arguments);
    assert_eq!(said.lines().count(), files.len() + 5, "{said}");
}

#[test]
fn options_that_do_not_go_together() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    for (words, reason) in [
        (vec!["logs", "log", "--otlp", "https://x"], "TLS is not spoken"),
        (vec!["logs", "log", "--skip-records", "3"], "--skip-records goes on with sending"),
        (
            vec!["logs", "log", "--follow", "--otlp", "http://x:1"],
            "leave out --follow, or send with iocreplay follow",
        ),
        (vec!["metrics", "log", "--skip-points", "3"], "--skip-points goes on with sending"),
        (vec!["metrics", "log", "--otlp", "http://x:1", "--format", "otlp"], "leave out --format"),
        (vec!["metrics", "log", "--step", "0s"], "no length of time"),
        (vec!["metrics", "log", "--step", "é"], "no length of time"),
        (vec!["metrics", "log", "--step", "99999999999999d"], "no length of time"),
    ] {
        let (code, out, err) = run(here.path(), &words);
        assert!(code == 2 && out.is_empty() && err.contains(reason) && err.lines().count() == 1, "{err}");
    }
    let (code, out, err) = run(here.path(), &["metrics", "log", "--host", "none"]);
    assert!(code == 0 && out == "# EOF\n" && err.lines().count() == 1, "{code} {out} {err}");
}
