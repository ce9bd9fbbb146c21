//! PVAccess beside puts to records: searches, servers that come and go, servers without records, calls.

use crate::rig::{json_lines, wait_until, Client, Rig};
use serde_json::{json, Value};
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5274;
/// Where ioc.py serves PVAccess, and is searched for.
const PVA: u16 = PORT + 1000;
const SEARCH: u16 = PORT + 2000;
/// Where the server without records is.
const OTHER: u16 = 6290;

fn net(rig: &Rig, arguments: &[&str]) -> Vec<Value> {
    let all = [&["--format", "jsonl", "--all"], arguments].concat();
    let lines = json_lines(&rig.replay("net", &all).stdout);
    lines.into_iter().filter(|line| line["protocol"] == "pva").collect()
}

fn of(lines: &[Value], kind: &str) -> Vec<Value> {
    lines.iter().filter(|line| line["kind"] == kind).cloned().collect()
}

/// Monitors one PV twice, and another until the end.
fn monitors(client: &mut Client) {
    for (pv, stops) in [("PVA:TEXT", true), ("PVA:TEXT", true), ("PVA:ARRAY", false)] {
        let answer = client.tries(json!({"do": "monitor", "pv": pv, "stops": stops}));
        assert!(answer["error"].is_null(), "{answer}");
    }
}

/// That is told.
fn are_monitored(lines: &[Value]) {
    let monitored: Vec<Value> = of(lines, "monitored")
        .iter()
        .map(|line| json!([line["pv"], line["count"], line["going_on"], line["servers"], line["protocol"]]))
        .collect();
    let of_ioc = json!([format!("127.0.0.1:{PVA}")]);
    let truth = json!([["PVA:TEXT", 2, false, of_ioc, "pva"], ["PVA:ARRAY", 1, true, of_ioc, "pva"]]);
    assert_eq!(json!(monitored), truth, "{lines:#?}");
}

#[test]
fn the_network_of_pvaccess_is_told_as_it_was() {
    let Some(rig) = Rig::new("pvaccess-network") else { return };
    let ioc = rig.ioc_with("network", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let server = rig.pva_server(OTHER, SEARCH, "PVA:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let mut client = rig.client("p4p", &[PORT], &[]);
    monitors(&mut client);
    // two have it; nobody has the other, and the client waits for 20 s
    client.get("PVA:SP");
    let missing = client.tries(json!({"do": "get", "pv": "PVA:NOBODY"}));
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("Timeout")), "{missing}");
    // another server takes its place
    drop(server);
    let again = rig.pva_server(OTHER, SEARCH, "PVA:OTHER");
    wait_until("the recorder has seen it start again", || {
        !of(&net(&rig, &[]), "server_restarted").is_empty()
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop((again, ioc));
    let lines = net(&rig, &[]);
    are_monitored(&lines);
    let several = of(&lines, "several_servers");
    let servers = json!([format!("127.0.0.1:{PVA}"), format!("127.0.0.1:{OTHER}")]);
    assert!(several.iter().any(|line| line["pv"] == "PVA:SP" && line["servers"] == servers), "{lines:#?}");
    let unanswered = net(&rig, &["--pv", "PVA:NOBODY", "--kind", "unanswered"]);
    let [nobody] = &unanswered[..] else { panic!("one name: {lines:#?}") };
    assert!(nobody["count"].as_u64() >= Some(5) && nobody["at_least"] == false, "{nobody}");
    // the process that searches is looked for with Channel Access only
    assert_eq!(nobody["reason"], "no_answer_seen", "{nobody}");
    let restarted = of(&lines, "server_restarted");
    let [restarted] = &restarted[..] else { panic!("one server: {lines:#?}") };
    assert_eq!(restarted["servers"], json!([format!("127.0.0.1:{OTHER}")]));
    assert_eq!(restarted["reason"], "new_guid");
    assert!(restarted["text"].as_str().is_some_and(|text| text.contains(" instead of ")), "{restarted}");
    let text = String::from_utf8(rig.replay("net", &["--pv", "PVA:NOBODY"]).stdout).unwrap();
    assert!(text.contains("PVAccess: PVA:NOBODY searched for by"), "{text}");
}

/// QSRV1, by the server of pvAccess: who searched for its PVs, and who monitors them.
#[test]
fn the_network_of_qsrv_is_told_as_it_was() {
    let Some(rig) = Rig::new("pvaccess-network-qsrv") else { return };
    let ioc = rig.ioc_with("network", PORT, "pvaccess.db", &["--pva", "qsrv"]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let mut client = rig.client("p4p", &[PORT], &[]);
    monitors(&mut client);
    client.get("PVA:STILL");
    // searches are told once a second
    sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(ioc);
    let lines = net(&rig, &[]);
    are_monitored(&lines);
    for pv in ["PVA:TEXT", "PVA:ARRAY", "PVA:STILL"] {
        let searched = of(&lines, "searched");
        let told = searched.iter().find(|line| line["pv"] == pv);
        let told = told.unwrap_or_else(|| panic!("{pv} was searched for: {lines:#?}"));
        assert_eq!(
            (&told["reason"], &told["servers"]),
            (&json!("answered"), &json!([format!("127.0.0.1:{PVA}")])),
            "{told}"
        );
    }
}

/// Each start of QSRV1 has a GUID of its own.
#[test]
fn a_server_of_qsrv_that_starts_again_has_another_guid() {
    let Some(rig) = Rig::alone("pvaccess-guid") else { return };
    let first = rig.ioc_with("first", PORT, "pvaccess.db", &["--pva", "qsrv"]);
    let mut recorder = rig.record(&[]);
    let server = json!([format!("127.0.0.1:{PVA}")]);
    let of_it = |kind: &str| -> Vec<Value> {
        let mut lines = of(&net(&rig, &[]), kind);
        lines.retain(|line| line["servers"] == server);
        lines
    };
    wait_until("a beacon is seen", || {
        ["server_seen", "server_started"].iter().any(|kind| !of_it(kind).is_empty())
    });
    assert!(of_it("server_restarted").is_empty());
    drop(first);
    let again = rig.ioc_with("again", PORT, "pvaccess.db", &["--pva", "qsrv"]);
    wait_until("it is seen to start again", || !of_it("server_restarted").is_empty());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(again);
    let restarted = of_it("server_restarted");
    let [restarted] = &restarted[..] else { panic!("once: {restarted:#?}") };
    assert_eq!(restarted["reason"], "new_guid", "{restarted}");
    let text = restarted["text"].as_str().expect("a text");
    let guids = text.strip_prefix("GUID ").and_then(|guids| guids.split_once(" instead of "));
    let (new, old) = guids.unwrap_or_else(|| panic!("both GUIDs: {restarted}"));
    assert!(new != old && [new, old].iter().all(|guid| guid.len() == 24), "{restarted}");
}

/// Puts and calls to a server without records: nothing but its answers shows what came of them.
#[test]
fn puts_and_calls_without_records() {
    let Some(rig) = Rig::new("pvaccess-calls") else { return };
    let ioc = rig.ioc_with("calls", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let server = rig.pva_server(OTHER, SEARCH, "CALL:SUM");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &server.pid().to_string()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let mut client = rig.client("p4p", &[PORT], &[]);
    client.put("CALL:SUM", 6, json!(2.5), false);
    let refused =
        client.tries(json!({"do": "put", "pv": "CALL:SUM", "dbr": 6, "value": -1.0, "notify": false}));
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("no negative values")), "{refused}");
    assert_eq!(client.rpc("CALL:SUM", json!({"a": 3.0, "b": 4.5}))["value"], 7.5);
    let refused = client.rpc("CALL:SUM", json!({"a": 3.0}));
    assert!(
        refused["error"].as_str().is_some_and(|error| error.contains("a and b are missing")),
        "{refused}"
    );
    sleep(Duration::from_millis(500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop((server, ioc));
    let puts: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] == "CALL:SUM").collect();
    let expected = [
        json!({"request": "put", "requested": 2.5, "status": "ok", "fields": {"value": 2.5}}),
        json!({"request": "put", "requested": -1.0, "status": "error", "message": "no negative values"}),
        json!({"request": "rpc", "status": "ok"}),
        json!({"request": "rpc", "status": "error", "message": "a and b are missing"}),
    ];
    assert_eq!(puts.len(), expected.len(), "{puts:#?}");
    for (line, expected) in puts.iter().zip(expected) {
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(line[key], *value, "{key} of {line:#}");
        }
        for (key, value) in [("protocol", json!("pva")), ("user", json!("root")), ("source", json!("packet"))]
        {
            assert_eq!(line[key], value, "{key} of {line:#}");
        }
        assert_eq!(line["server"], format!("127.0.0.1:{OTHER}"), "{line:#}");
    }
    let fields = &puts[2]["fields"];
    assert_eq!((&fields["query.a"], &fields["query.b"]), (&json!(3.0), &json!(4.5)), "{fields:#}");
}

/// p4p asks over IPv6, and servers on circuits (EPICS_PVA_NAME_SERVERS) over both versions of IP.
#[test]
fn searches_over_ipv6_and_on_circuits() {
    let Some(rig) = Rig::new("pvaccess-searches") else { return };
    let ioc = rig.ioc_with("searches", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let server = rig.pva_server_on("::1", OTHER, SEARCH, "SIX:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &server.pid().to_string()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let name_servers = [format!("127.0.0.1:{PVA}"), format!("[::1]:{OTHER}")];
    let mut by_datagrams = rig.client("p4p", &[PORT], &["--address", "[::1]"]);
    by_datagrams.get("SIX:SP");
    let [mut of_ioc, mut of_other] =
        name_servers.each_ref().map(|server| rig.client("p4p", &[PORT], &["--name-server", server]));
    of_ioc.get("PVA:STILL");
    of_other.put("SIX:SP", 6, json!(4.5), false);
    let missing = of_other.tries(json!({"do": "get", "pv": "SIX:NOBODY"}));
    assert!(missing["error"].as_str().is_some_and(|error| error.contains("Timeout")), "{missing}");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop((server, ioc));
    let lines = net(&rig, &[]);
    let connected: Vec<Value> = of(&lines, "connected");
    // the client's end and the server, of whoever searched and was answered
    let found = |pv: &str, on_circuit: bool| {
        let searched = of(&lines, "searched");
        let ours: Vec<Value> = searched
            .into_iter()
            .filter(|line| {
                let is_circuit = connected.iter().any(|circuit| circuit["client"] == line["client"]);
                line["pv"] == pv && is_circuit == on_circuit
            })
            .collect();
        let [line] = &ours[..] else { panic!("{pv} once: {lines:#?}") };
        assert_eq!(line["reason"], "answered", "{line}");
        let client = line["client"].as_str().expect("an address").to_owned();
        (client, line["servers"].clone())
    };
    let (client, servers) = found("SIX:SP", false);
    assert!(client.starts_with("[::1]:"), "{client}");
    assert_eq!(servers, json!([name_servers[1]]));
    let (on_six, servers) = found("SIX:SP", true);
    assert!(on_six.starts_with("[::1]:"), "{on_six}");
    assert_eq!(servers, json!([name_servers[1]]));
    let (client, servers) = found("PVA:STILL", true);
    assert!(client.starts_with("127.0.0.1:"), "{client}");
    assert_eq!(servers, json!([name_servers[0]]));
    let nobody = of(&lines, "unanswered");
    let nobody = nobody.iter().find(|line| line["pv"] == "SIX:NOBODY").expect("it is told");
    assert_eq!((&nobody["client"], &nobody["at_least"]), (&json!(on_six), &json!(false)), "{nobody}");
    let puts: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] == "SIX:SP").collect();
    let [put] = &puts[..] else { panic!("one put: {puts:#?}") };
    assert_eq!((&put["requested"], &put["status"]), (&json!(4.5), &json!("ok")), "{put}");
    assert_eq!((&put["client"], &put["server"]), (&json!(on_six), &json!(name_servers[1])), "{put}");
    assert_eq!(put["process"]["pid"], of_other.pid(), "{put}");
}

/// A server without records on a port of its own for searches, and no IOC that has the same.
#[test]
fn searches_on_the_port_of_a_server_without_records() {
    let Some(rig) = Rig::new("pvaccess-other-search") else { return };
    let server = rig.pva_server(OTHER, SEARCH, "PVA:SP");
    let mut recorder = rig.record(&["--pid", &server.pid().to_string()]);
    let mut client = rig.client("p4p", &[PORT], &[]);
    wait_until("a search is recorded", || {
        let missing = client.tries(json!({"do": "get", "pv": "PVA:NOBODY"}));
        assert!(missing["error"].as_str().is_some_and(|error| error.contains("Timeout")), "{missing}");
        net(&rig, &[]).iter().any(|line| line["pv"] == "PVA:NOBODY")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &[]);
    let of_it: Vec<&Value> = lines.iter().filter(|line| line["pv"] == "PVA:NOBODY").collect();
    assert!(of_it.iter().any(|line| line["kind"] == "unanswered"), "{lines:#?}");
}
