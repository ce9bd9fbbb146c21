//! Channels and processes that are older than the recorder.

use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};

/// Port of the server that is not EPICS Base.
const FOREIGN: u16 = 5099;
const PORT: u16 = 5074;

/// A libca client opened its channel before the recording, to a server whose memory cannot be read. The recorder finds the
/// name in the client's memory.
#[test]
fn a_local_client_names_its_channels() {
    let Some(rig) = Rig::new("channels-client") else { return };
    let server = rig.foreign_server(FOREIGN, "FOREIGN:SP");
    let mut client = rig.client("libca", &[FOREIGN], &[]);
    let address = client.connect("FOREIGN:SP");
    let mut recorder = rig.record(&["--pid", &server.pid().to_string()]);
    rig.wait_until_recording(&mut client, "FOREIGN:SP", "packet");
    client.put("FOREIGN:SP", 6, json!(-1.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = rig.puts(&["--pv", "FOREIGN:SP"]);
    assert!(log.iter().all(|put| put["client"] == json!(address)), "{log:?}");
    assert_eq!(log.last().map(|put| &put["requested"]), Some(&json!(-1.5)));
}

/// An IOC with CA links is such a client as well.
#[test]
fn an_ioc_names_the_targets_of_its_ca_links() {
    let Some(rig) = Rig::new("channels-link") else { return };
    let server = rig.foreign_server(FOREIGN, "FOREIGN:SP");
    let mut ioc = rig.ioc("near", PORT, "foreign_link.db", &[FOREIGN]);
    let mut client = rig.client("libca", &[FOREIGN], &[]);
    let address = client.connect("FOREIGN:SP");
    wait_until("the link is connected", || {
        ioc.command("dbpf NEAR:OUT 1.5");
        client.get("FOREIGN:SP") == json!(1.5)
    });
    // The server alone is selected, so nothing is recorded inside the IOC.
    let mut recorder = rig.record(&["--pid", &server.pid().to_string()]);
    let mut log = Vec::new();
    wait_until("the recorder sees a put and knows its name", || {
        ioc.command("dbpf NEAR:OUT 2.5");
        log = rig.puts(&[]);
        log.last().is_some_and(|put| put["pv"] == "FOREIGN:SP")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(log.iter().all(|put| put["requested"] == json!(2.5)), "{log:?}");
    assert!(log.iter().all(|put| put["client"] != json!(address)), "it is the IOC that puts: {log:?}");
}

/// The names of other clients' channels cannot be read; the log has their puts without names.
#[test]
fn what_nobody_names_is_recorded_all_the_same() {
    let Some(rig) = Rig::new("channels-unnamed") else { return };
    let server = rig.foreign_server(FOREIGN, "FOREIGN:SP");
    let mut client = rig.client("caproto", &[FOREIGN], &[]);
    let address = client.connect("FOREIGN:SP");
    let mut recorder = rig.record(&["--pid", &server.pid().to_string()]);
    let mut log = Vec::new();
    wait_until("the recorder sees a put", || {
        client.put("FOREIGN:SP", 6, json!(2.5), true);
        log = rig.puts(&[]);
        !log.is_empty()
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let nameless = |put: &Value| put["pv"].as_str().is_none_or(str::is_empty);
    let seen = log.iter().all(|put| nameless(put) && put["client"] == json!(address));
    assert!(seen && log[0]["requested"] == json!(2.5), "{log:?}");
}
