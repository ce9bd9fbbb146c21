//! Two IOCs with the same PVs on one machine, as one for production and one for tests: no answer takes one for the other.

use crate::rig::{iocreplay, json_lines, wait_until, Client, Ioc, Rig};
use serde_json::{json, Value};
use std::process::{Command, Output};

const PORT: u16 = 5074;
const STRING: u16 = 0;
const DOUBLE: u16 = 6;

/// Runs iocreplay with these words; the log is the last.
fn ask(rig: &Rig, words: &[&str]) -> Output {
    Command::new(iocreplay()).args(words).arg(rig.log()).output().expect("iocreplay runs")
}

fn lines(rig: &Rig, words: &[&str]) -> Vec<Value> {
    json_lines(&ask(rig, &[words, &["--format", "jsonl"]].concat()).stdout)
}

fn why(rig: &Rig, more: &[&str]) -> Value {
    let out = ask(rig, &[&["why", "SAY:AI", "--json"], more].concat());
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the log has puts of each client, by probes and packets.
fn wait_until_recorded(rig: &Rig, clients: &mut [(&mut Client, &Ioc)]) {
    for (client, _) in clients {
        let address = client.connect("SAY:READY");
        let mut number = 0;
        wait_until("its puts are seen", || {
            number += 1;
            client.put("SAY:READY", DOUBLE, json!(number), true);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let seen = |put: &Value| put["client"] == *address && put["source"] == "both";
            rig.puts(&["--pv", "SAY:READY"]).iter().any(seen)
        });
    }
}

/// IOCs of these names in network namespaces of their own; what was put to SAY:AI of the first is 12.5, then it is
/// killed; what was put to that of the second is 3, and 4 after that.
fn record(rig: &Rig, names: [&str; 2]) -> [u32; 2] {
    let [mut production, test] = names.map(|name| rig.ioc_apart(name, PORT, "statements.db", &[]));
    let pids = [production.pid(), test.pid()];
    let mut recorder = rig.record(&["--pid", &production.pid_argument(), "--pid", &test.pid_argument()]);
    let mut operator = rig.client_beside(production.pid(), "libca", PORT, &[]);
    let mut tester = rig.client_beside(test.pid(), "libca", PORT, &["--uid", "65534"]);
    wait_until_recorded(rig, &mut [(&mut operator, &production), (&mut tester, &test)]);
    operator.put("SAY:AI", DOUBLE, json!(12.5), true);
    tester.put("SAY:AI", DOUBLE, json!(3.0), true);
    operator.put("SAY:AI.RTYP", STRING, json!("x"), true);
    assert_eq!(operator.get("SAY:AI.RTYP"), json!("ai"));
    wait_until("the log has the puts", || rig.puts(&["--pv", "SAY:AI*"]).len() == 3);
    production.kill();
    wait_until("the log has the end", || {
        lines(rig, &["at", "now", "--pv", "SAY:AI"])
            .iter()
            .any(|line| line["doubt"].as_str().is_some_and(|doubt| doubt.contains("killed by SIGKILL")))
    });
    tester.put("SAY:AI", DOUBLE, json!(4.0), true);
    wait_until("the log has the last put", || rig.puts(&["--pv", "SAY:AI"]).len() == 3);
    assert_eq!(tester.get("SAY:AI"), json!(4.0));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    pids
}

#[test]
fn one_ioc_is_never_taken_for_the_other() {
    let Some(rig) = Rig::new("namesakes") else { return };
    record(&rig, ["production", "testing"]);
    // its own end is the end of its values alone
    let at = lines(&rig, &["at", "now", "--pv", "SAY:AI"]);
    let values: Vec<_> = at.iter().filter(|line| line["field"] == "VAL").collect();
    assert_eq!(values.len(), 2, "{at:?}");
    assert_eq!((&values[0]["ioc"], &values[0]["known"]), (&json!("production"), &json!("no")), "{at:?}");
    assert_eq!((&values[1]["ioc"], &values[1]["value"]), (&json!("testing"), &json!(4.0)), "{at:?}");
    // which one is meant, and that there is another
    let answer = why(&rig, &[]);
    assert_eq!(
        (&answer["ioc"], &answer["from"], &answer["to"]),
        (&json!("testing"), &json!(3.0), &json!(4.0))
    );
    assert_eq!(answer["others"][0]["ioc"], "production", "{answer}");
    let answer = why(&rig, &["--ioc", "production"]);
    assert_eq!((&answer["ioc"], &answer["to"]), (&json!("production"), &json!(12.5)), "{answer}");
    let said = text(&ask(&rig, &["why", "SAY:AI"]).stdout);
    assert!(said.contains("It is also a PV of production pid"), "{said}");
    // nothing is written to whichever answers
    let undo = ask(&rig, &["undo", "--since", "2020-01-01"]);
    assert!(text(&undo.stderr).contains("several IOCs have a PV of this name"), "{}", text(&undo.stderr));
    assert!(!text(&undo.stdout).lines().any(|line| line.starts_with("back ")), "{}", text(&undo.stdout));
    let undo = text(&ask(&rig, &["undo", "--since", "2020-01-01", "--ioc", "testing"]).stdout);
    assert!(undo.lines().any(|line| line.starts_with("back one 4 0 ") && line.contains("SAY:AI")), "{undo}");
    // a put from outside set this input, so it can be restored
    let puts = rig.puts(&["--pv", "SAY:AI*"]);
    let time = puts[2]["time"].as_str().expect("a time");
    let restore = text(&ask(&rig, &["at", time, "--pv", "SAY:AI", "--format", "caput"]).stdout);
    assert!(!restore.lines().any(|line| line.starts_with("restore ") && line.contains("12.5")), "{restore}");
    assert!(restore.contains("SAY:AI is left out: several IOCs"), "{restore}");
    let words = ["at", time, "--pv", "SAY:AI", "--ioc", "production", "--format", "caput"];
    let restore = text(&ask(&rig, &words).stdout);
    assert!(restore.lines().any(|line| line.starts_with("restore ") && line.contains("12.5")), "{restore}");
    // an attribute is as it was
    let rtype = puts.iter().find(|put| put["field"] == "RTYP").expect("the put to RTYP");
    assert_eq!((&rtype["old"], &rtype["new"]), (&json!("ai"), &json!("ai")), "{rtype}");
}

#[test]
fn iocs_of_one_name_are_two() {
    let Some(rig) = Rig::new("namesakes-alike") else { return };
    let pids = record(&rig, ["ioc", "ioc"]);
    let answer = why(&rig, &[]);
    assert_eq!((&answer["from"], &answer["to"]), (&json!(3.0), &json!(4.0)), "{answer}");
    assert_eq!((&answer["started_anew"], &answer["pid"]), (&json!(false), &json!(pids[1])), "{answer}");
    assert_eq!(answer["others"][0]["pid"], json!(pids[0]), "{answer}");
    let rows = text(&ask(&rig, &["at", "now", "--pv", "SAY:AI"]).stdout);
    for pid in pids {
        assert!(rows.contains(&format!("ioc pid {pid}")), "{rows}");
    }
    let puts = rig.puts(&["--pv", "SAY:AI"]);
    let [first, last] = [&puts[0], &puts[2]].map(|put| put["time"].as_str().expect("a time"));
    let rows = lines(&rig, &["diff", first, last, "--pv", "SAY:AI"]);
    assert!(!rows.iter().any(|row| row["before"] == 12.5 && row["after"] == 4.0), "{rows:?}");
    told_apart_everywhere(&rig, pids);
}

/// Whose puts, values, traces and clients are shown, against who made them: 12.5 was put to the first, 3 and 4 to the second.
fn told_apart_everywhere(rig: &Rig, pids: [u32; 2]) {
    let names = pids.map(|pid| format!("ioc pid {pid}"));
    let of = |value: &Value| match value.as_f64() {
        Some(12.5) => Some(&names[0]),
        Some(3.0 | 4.0) => Some(&names[1]),
        _ => None,
    };
    let mut puts = rig.puts(&["--pv", "SAY:AI"]);
    puts.retain(|put| put["field"] == "VAL");
    let asked: Vec<_> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    assert_eq!(asked, [Some(12.5), Some(3.0), Some(4.0)], "{puts:?}");
    for put in &puts {
        assert_eq!(put["ioc"].as_str(), of(&put["requested"]).map(String::as_str), "{put}");
    }
    let csv = text(&ask(rig, &["puts", "--pv", "SAY:AI", "--format", "csv"]).stdout);
    let rows: Vec<&str> = csv.lines().skip(1).filter(|row| !row.contains("RTYP")).collect();
    let whose: Vec<bool> = rows.iter().map(|row| row.contains(&names[0])).collect();
    assert_eq!(whose, [true, false, false], "{csv}");
    assert_eq!(rows.iter().filter(|row| row.contains(&names[1])).count(), 2, "{csv}");
    // one log holds what two modules would have written: a burst is of one IOC
    for (format, first) in [("caputlog", "new=12.5 "), ("caputlog-json", "\"new\":12.5,")] {
        let words = ["puts", "--pv", "SAY:AI", "--format", format];
        let all = text(&ask(rig, &words).stdout);
        assert_eq!(all.lines().filter(|line| line.contains(first)).count(), 1, "{all}");
        let one = text(&ask(rig, &[&words[..], &["--ioc", &names[1]]].concat()).stdout);
        assert!(!one.is_empty() && !one.contains(first), "{one}");
        let own = text(&ask(rig, &[&words[..], &["--ioc", &names[0]]].concat()).stdout);
        assert!(own.contains(first), "{own}");
    }
    let mut valued = 0;
    for line in lines(rig, &["values", "SAY:AI"]) {
        if let Some(name) = of(&line["value"]) {
            assert_eq!(line["ioc"], name.as_str(), "{line}");
            valued += 1;
        }
    }
    assert!(valued >= 3, "{valued}");
    // the resource of each span is the process that truly did it
    let traces = text(&ask(rig, &["traces", "--pv", "SAY:AI", "--format", "otlp"]).stdout);
    let mut spans = 0;
    for line in json_lines(traces.as_bytes()) {
        for resource in line["resourceSpans"].as_array().expect("resources") {
            let attribute = |key: &str| {
                let all = resource["resource"]["attributes"].as_array().expect("attributes");
                all.iter().find(|of| of["key"] == key).map(|of| of["value"].clone()).unwrap_or_default()
            };
            let (name, pid) = (attribute("service.name"), attribute("process.pid"));
            let pid = pid["intValue"].as_str().and_then(|pid| pid.parse().ok());
            let place = pids.iter().position(|own| Some(*own) == pid).unwrap_or_else(|| panic!("{resource}"));
            assert_eq!(name["stringValue"], names[place].as_str(), "{resource}");
            let said = resource["scopeSpans"].to_string();
            let [first, second] =
                [said.contains("\"doubleValue\":12.5"), said.contains("\"doubleValue\":3.0")];
            assert!(!(first && place == 1 || second && place == 0), "{resource}");
            spans += resource["scopeSpans"][0]["spans"].as_array().expect("spans").len();
        }
    }
    assert!(spans >= 3, "{traces}");
    let listed = text(&ask(rig, &["traces", "--pv", "SAY:AI"]).stdout);
    for name in &names {
        assert!(listed.contains(&format!("{name}]")), "{listed}");
    }
    for name in &names {
        let clients = lines(rig, &["clients", "--ioc", name]);
        assert!(
            !clients.is_empty() && clients.iter().all(|line| line["ioc"] == name.as_str()),
            "{clients:?}"
        );
        let report = text(&ask(rig, &["report"]).stdout);
        assert!(report.contains(name.as_str()), "{name}");
        let report = text(&ask(rig, &["report", "--ioc", name]).stdout);
        assert!(report.contains(name.as_str()), "{name}");
    }
    let said = text(&ask(rig, &["puts", "--ioc", "ioc"]).stderr);
    assert!(said.contains("are called ioc, and all are shown; to choose one: --ioc 'ioc pid "), "{said}");
}
