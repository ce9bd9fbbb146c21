//! Circuits that a client ends with its last put (FIN behind it, in the same breath): the servers carry it out all the same,
//! and mostly answer. Each put is in the log once, with its client, and with the status that the client was told, if it was.

use crate::rig::ca_client::CaClient;
use crate::rig::pva_client::PvaClient;
use crate::rig::Rig;
use serde_json::{json, Value};

const PORT: u16 = 5384;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";
const CIRCUITS: u8 = 30;

/// What a log must say of a put that the IOC carried out: its client, old and new value, and the status, if that is known.
fn truth(address: &str, old: f64, new: f64, is_answered: bool) -> Value {
    json!([address, old, new, if is_answered { "ok" } else { "unknown" }])
}

fn said(rig: &Rig, protocol: &str) -> Vec<Value> {
    let of_it = rig.puts(&["--pv", "PVA:SP"]).into_iter().filter(|put| put["via"] != "dbpf");
    let line = |put: Value| {
        assert_eq!((&put["protocol"], &put["source"]), (&json!(protocol), &json!("both")), "{put:#}");
        json!([put["client"], put["old"], put["new"], put["status"]])
    };
    of_it.map(line).collect()
}

#[test]
fn puts_before_the_clients_end() {
    for server in ["qsrv", "pvxs"] {
        let Some(rig) = Rig::alone(&format!("half-closed-{server}")) else { return };
        let ioc = rig.ioc_with("half", PORT, "pvaccess.db", &["--pva", server]);
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "PVA:READY", "both");
        let mut expected = Vec::new();
        for number in 1..=CIRCUITS {
            let mut pva = PvaClient::connect(PVA, "operator", "console-7");
            let sp = pva.channel("PVA:SP");
            let value = f64::from(number);
            let is_answered = pva.put_and_end(sp, NONE, 2, &value.to_le_bytes());
            expected.push(truth(&pva.address, value - 1.0, value, is_answered));
        }
        assert_eq!(client.get("PVA:SP"), json!(f64::from(CIRCUITS)), "the IOC took all");
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert_eq!(said(&rig, "pva"), expected, "{server}");
    }
}

#[test]
fn puts_before_the_clients_end_of_channel_access() {
    let Some(rig) = Rig::alone("half-closed-ca") else { return };
    let ioc = rig.ioc("half", PORT, "pvaccess.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", "both");
    let mut expected = Vec::new();
    for number in 1..=CIRCUITS {
        let mut ca = CaClient::connect("127.0.0.1", PORT, "operator");
        let sp = ca.channel("PVA:SP");
        let value = f64::from(number);
        let is_answered = ca.put_and_end(sp, number.into());
        expected.push(truth(&ca.address, value - 1.0, value, is_answered));
    }
    assert_eq!(client.get("PVA:SP"), json!(f64::from(CIRCUITS)), "the IOC took all");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(said(&rig, "ca"), expected);
}
