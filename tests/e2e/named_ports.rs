//! Ports that the user names: of either protocol, and of both; and one that nobody names but the server's answers.

use crate::rig::ca_client::CaClient;
use crate::rig::pva_client::PvaClient;
use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5374;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// Where a server without records is, and is searched for.
const OTHER: u16 = 6390;
const SEARCH: u16 = 6391;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";

/// What was put over a protocol.
fn values(rig: &Rig, protocol: &str, pv: Option<&str>) -> Vec<Value> {
    let puts = rig.puts(&[]).into_iter();
    let of_it = puts.filter(|put| put["protocol"] == protocol && put["pv"] == json!(pv));
    of_it.map(|put| put["requested"].clone()).collect()
}

fn put(client: &mut PvaClient, sid: u32, numbers: std::ops::Range<u8>) -> Vec<Value> {
    for number in numbers.clone() {
        assert_eq!(client.put(sid, NONE, 2, &f64::from(number).to_le_bytes()), 0);
    }
    numbers.map(|number| json!(f64::from(number))).collect()
}

/// Nothing is said to be lost.
fn loses_nothing(rig: &Rig) {
    for run in rig.runs() {
        let losses = run["losses"].as_array().cloned().unwrap_or_default();
        assert!(losses.iter().all(|loss| loss["source"] != "stream"), "{losses:#?}");
    }
}

#[test]
fn the_port_of_an_ioc_is_that_of_its_protocol() {
    for (server, tier) in [("qsrv", "ring"), ("pvxs", "packet")] {
        let Some(rig) = Rig::new(&format!("named-{server}")) else { return };
        let ioc = rig.ioc_with("named", PORT, "pvaccess.db", &["--pva", server]);
        let (ca, pva) = (PORT.to_string(), PVA.to_string());
        let named = ["--pid", &ioc.pid_argument(), "--tier", tier, "--port", &ca, "--port", &pva];
        let mut recorder = rig.record(&named);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "PVA:READY", if tier == "packet" { "packet" } else { "both" });
        let mut pva = PvaClient::connect(PVA, "operator", "console-7");
        let sp = pva.channel("PVA:SP");
        let truth = put(&mut pva, sp, 1..30);
        client.put("PVA:SP", 6, json!(50.5), true);
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert_eq!(values(&rig, "pva", Some("PVA:SP")), truth, "{server}");
        assert_eq!(values(&rig, "ca", Some("PVA:SP")), [json!(50.5)], "{server}");
        loses_nothing(&rig);
    }
}

/// Nobody knows what the server is: its bytes tell, also those of a connection that is older than the recorder.
#[test]
fn the_port_of_an_unknown_server_is_that_of_its_bytes() {
    for tier in ["ring", "packet"] {
        let Some(rig) = Rig::new(&format!("named-unknown-{tier}")) else { return };
        let _server = rig.pva_server(OTHER, SEARCH, "OTHER:PV");
        let _ioc = rig.ioc("unknown", PORT, "puts.db", &[]);
        let mut older = PvaClient::connect(OTHER, "operator", "console-7");
        let old = older.channel("OTHER:PV");
        put(&mut older, old, 0..1);
        let mut client = rig.client("libca", &[PORT], &[]);
        client.connect("PUT:LONG");
        let (log, ca, pva) = (rig.log(), PORT.to_string(), OTHER.to_string());
        let mut recorder = rig.isolated_agent(&[
            "record", "--dir", &log, "--flush", "300ms", "--tier", tier, "--port", &ca, "--port", &pva,
        ]);
        let mut first = 100;
        wait_until("it records", || {
            first += 1;
            put(&mut older, old, first..first + 1);
            client.put("PUT:LONG", 5, json!(first), true);
            std::thread::sleep(std::time::Duration::from_millis(400));
            rig.puts(&[]).iter().any(|put| put["protocol"] == "ca")
                && rig.puts(&[]).iter().any(|put| put["protocol"] == "pva")
        });
        let mut newer = PvaClient::connect(OTHER, "operator", "console-7");
        let new = newer.channel("OTHER:PV");
        let truth = put(&mut newer, new, 1..30);
        let of_older = put(&mut older, old, 30..60);
        for number in 0..30 {
            client.put("PUT:LONG", 5, json!(number), true);
        }
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert_eq!(values(&rig, "pva", Some("OTHER:PV")), truth, "{tier}");
        let older = values(&rig, "pva", None);
        assert_eq!(older[older.len() - of_older.len()..], of_older, "{tier}");
        let expected: Vec<Value> = (0..30).map(|number| json!(number)).collect();
        let numbers = values(&rig, "ca", None);
        assert!(numbers.ends_with(&expected), "{tier}: {numbers:?}");
        loses_nothing(&rig);
    }
}

/// One number, at two addresses.
#[test]
fn a_port_of_both_protocols() {
    let Some(rig) = Rig::new("named-both") else { return };
    let one = rig.ioc_with("one", PORT, "pvaccess.db", &["--pva", "qsrv"]);
    let two = rig.ioc_with("two", PVA, "puts.db", &["--address", "127.0.0.2"]);
    for (tier, named) in [("ring", true), ("packet", false)] {
        let log = rig.log();
        let _ = std::fs::remove_dir_all(&log);
        let port = PVA.to_string();
        let pids = [one.pid_argument(), two.pid_argument()];
        let mut arguments = vec!["--pid", &pids[0], "--pid", &pids[1], "--tier", tier];
        arguments.extend(if named { vec!["--port", &port] } else { vec![] });
        let mut recorder = rig.record(&arguments);
        let mut of_one = rig.client("libca", &[PORT], &[]);
        let source = if tier == "packet" { "packet" } else { "both" };
        rig.wait_until_recording(&mut of_one, "PVA:READY", source);
        let mut ready = CaClient::connect("127.0.0.2", PVA, "operator");
        let sid = ready.channel("PUT:INT64");
        wait_until("it records the other, too", || {
            ready.put(sid, 7);
            std::thread::sleep(std::time::Duration::from_millis(300));
            !rig.puts(&["--pv", "PUT:INT64"]).is_empty()
        });
        let mut pva = PvaClient::connect(PVA, "operator", "console-7");
        let sp = pva.channel("PVA:SP");
        let mut ca = CaClient::connect("127.0.0.2", PVA, "operator");
        let long = ca.channel("PUT:LONG");
        (0..30).for_each(|number| ca.put(long, number));
        let truth = put(&mut pva, sp, 1..30);
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert_eq!(values(&rig, "pva", Some("PVA:SP")), truth, "{tier}");
        let expected: Vec<Value> = (0..30).map(|number| json!(number)).collect();
        assert_eq!(values(&rig, "ca", Some("PUT:LONG")), expected, "{tier}");
        loses_nothing(&rig);
    }
}

/// A server whose port is taken serves on another one, which its environment does not name.
#[test]
fn a_port_that_a_server_answers_with() {
    let Some(rig) = Rig::new("named-answered") else { return };
    let ioc = rig.ioc_with("first", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let second = rig.pva_server(PVA, PORT + 2000, "SECOND:PV");
    let pids = [ioc.pid_argument(), second.pid().to_string()];
    let mut recorder = rig.record(&["--tier", "packet", "--pid", &pids[0], "--pid", &pids[1]]);
    let mut ready = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ready, "PVA:READY", "packet");
    let mut number = 0.0;
    wait_until("a put to the second one is recorded", || {
        // a new client searches
        let mut client = rig.client("p4p", &[PORT], &[]);
        number += 1.0;
        client.put("SECOND:PV", 6, json!(number), true);
        std::thread::sleep(std::time::Duration::from_millis(600));
        !values(&rig, "pva", Some("SECOND:PV")).is_empty()
    });
    let mut client = rig.client("p4p", &[PORT], &[]);
    let truth: Vec<Value> = (0..20).map(|number| json!(f64::from(number) + 0.5)).collect();
    for value in &truth {
        client.put("SECOND:PV", 6, value.clone(), true);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = values(&rig, "pva", Some("SECOND:PV"));
    assert_eq!(all[all.len() - truth.len()..], truth);
    let puts = rig.puts(&["--pv", "SECOND:PV"]);
    assert!(puts.iter().all(|put| put["ioc"].is_string()), "{puts:#?}");
    loses_nothing(&rig);
}

/// An IOC whose port is taken from its start, and that has another port besides.
#[test]
fn a_port_that_an_ioc_answers_with() {
    let Some(rig) = Rig::new("named-taken") else { return };
    let _taken = std::net::TcpListener::bind(("127.0.0.1", PVA)).expect("it is free");
    let ioc = rig.ioc_with("taken", PORT, "pvaccess.db", &["--pva", "pvxs", "--web"]);
    let mut recorder = rig.record(&["--tier", "packet", "--pid", &ioc.pid_argument()]);
    let mut ready = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ready, "PVA:READY", "packet");
    let mut number = 0.0;
    wait_until("a put over PVAccess is recorded", || {
        // a new client searches
        let mut client = rig.client("p4p", &[PORT], &[]);
        number += 1.0;
        client.put("PVA:SP", 6, json!(number), true);
        std::thread::sleep(std::time::Duration::from_millis(600));
        !values(&rig, "pva", Some("PVA:SP")).is_empty()
    });
    let mut client = rig.client("p4p", &[PORT], &[]);
    let truth: Vec<Value> = (0..20).map(|number| json!(f64::from(number) + 0.5)).collect();
    for value in &truth {
        client.put("PVA:SP", 6, value.clone(), true);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = values(&rig, "pva", Some("PVA:SP"));
    assert_eq!(all[all.len() - truth.len()..], truth);
    loses_nothing(&rig);
}
