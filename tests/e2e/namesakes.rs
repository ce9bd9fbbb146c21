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
}
