//! `iocrec watch` and `iocrec check`.

use crate::rig::{run, Rig, IOCREC};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5074;

#[test]
fn watch_prints_a_put_as_it_happens() {
    let Some(rig) = Rig::new("watch") else { return };
    let ioc = rig.ioc("watched", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    let address = client.connect("PUT:DOUBLE");
    for tier in ["ring", "perf"] {
        let mut watch = rig.agent(&["watch", "--pid", &ioc.pid_argument(), "--tier", tier]);
        // It says a put only once it watches; so put until it does.
        let mut number = 0;
        let line = loop {
            number += 1;
            client.put("PUT:DOUBLE", 6, json!(number), false);
            if let Some(line) = watch.line_within(std::time::Duration::from_millis(300)) {
                if line.starts_with("Write:") {
                    break line;
                }
            }
            assert!(number < 200, "{}", watch.errors());
        };
        let begin = "Write: PUT:DOUBLE ";
        assert!(line.starts_with(begin), "{line}");
        let words: Vec<&str> = line[begin.len()..].split_whitespace().collect();
        let shown: f64 = words[0].parse().expect("the value");
        assert!(shown >= 1.0 && shown <= f64::from(number), "{line}");
        assert_eq!(words[1..5], ["from", &address, "to", &format!("127.0.0.1:{PORT}")], "{line}");
        assert!(line.contains("nobody") && line.contains("console-3"), "{line}");
        assert!(watch.stop().success(), "{}", watch.errors());
    }
}

#[test]
fn check_says_what_the_machine_allows_and_finds_iocs() {
    let Some(rig) = Rig::new("check") else { return };
    let ioc = rig.ioc("checked", PORT, "puts.db", &[]);
    let output = run(Command::new(IOCREC).arg("check"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    for word in [kernel.trim(), "ring", "packet", "checked", &ioc.pid_argument(), "7.0.10", "5074"] {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }

    let output = run(Command::new(IOCREC).args(["check", "--json"]));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let iocs = json["iocs"].as_array().expect("iocs");
    let found = iocs.iter().find(|found| found["pid"] == ioc.pid()).expect("our IOC");
    assert_eq!(found["name"], "checked");
    assert!(found["base_version"].as_str().expect("a version").contains("7.0.10"));
    assert_eq!(found["ca_ports"], json!([PORT]));
}
