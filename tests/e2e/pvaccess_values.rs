//! Values of all forms that PVAccess has: what a client sent, compared with the put log. The clients print what they send.

use crate::pvaccess_clients::compiled;
use crate::rig::{python, Rig, Running};
use serde_json::Value;
use std::process::Command;

const PORT: u16 = 5594;
/// Where the values are served, and searched for.
const SERVER: u16 = PORT + 1;
const SEARCH: u16 = PORT + 2000;

/// Compares each line with what the client says that it sent.
fn compare(rig: &Rig, mut recorder: Running, said: &str) {
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts: Vec<Value> = rig
        .puts(&[])
        .into_iter()
        .filter(|line| line["pv"].as_str().is_some_and(|pv| pv.starts_with("V:")))
        .collect();
    // the library may say something, too
    let sent = said.lines().filter(|line| line.starts_with('{'));
    let sent: Vec<Value> = sent.map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(
        sent.len() > 15 && sent.len() == puts.len(),
        "{} sent, {} in the log: {said}",
        sent.len(),
        puts.len()
    );
    let mut wrong = Vec::new();
    for (line, sent) in puts.iter().zip(&sent) {
        for key in ["pv", "fields", "requested"] {
            // as text, since -0 equals 0
            let [told, true_text] = [&line[key], &sent[key]].map(Value::to_string);
            if line[key] != sent[key] || key == "requested" && told != true_text {
                wrong.push(format!("{key} of {}: {} in the log, {} sent", sent["pv"], line[key], sent[key]));
            }
        }
        // more than the log keeps
        let is_long = sent["requested"].as_str().is_some_and(|text| text.len() > 4000);
        if line["fields_cut"] != is_long || is_long && line["requested_cut"] != true {
            wrong.push(format!("cut: {line}"));
        }
        assert_eq!(line["status"], "ok", "{line:#}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let states: Vec<_> = puts.iter().filter(|line| line["pv"] == "V:ENUM").collect();
    // the server's choices, which the client fetched, or those that were put
    assert!(states.iter().any(|line| line["new_text"] == "On" || line["new_text"] == "Auto"), "{states:#?}");
    assert!(states.iter().all(|line| line["new"].is_i64()), "{states:#?}");
}

fn truth(name: &str, client: impl FnOnce(&Rig) -> Command) {
    let Some(rig) = Rig::new(&format!("pvaccess-values-{name}")) else { return };
    let ioc = rig.ioc_with("values", PORT, "pvaccess.db", &[]);
    let server = rig.pva_values(SERVER, SEARCH);
    let recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &server.pid().to_string()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let said = client(&rig).output().expect("the client runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    compare(&rig, recorder, &String::from_utf8_lossy(&said.stdout));
    drop((server, ioc));
}

#[test]
fn values_that_p4p_puts() {
    truth("p4p", |_| {
        let mut put = python("pva_values.py");
        put.args(["put", &SEARCH.to_string()]);
        put
    });
}

#[test]
fn values_that_pvaccesscpp_puts() {
    truth("cpp", |rig| {
        let mut put = Command::new(compiled(&rig.dir, "pva_values.cpp"));
        put.env("EPICS_PVA_ADDR_LIST", format!("127.0.0.1:{SEARCH}"));
        put.env("EPICS_PVA_AUTO_ADDR_LIST", "NO").env("EPICS_PVA_BROADCAST_PORT", SEARCH.to_string());
        put
    });
}
