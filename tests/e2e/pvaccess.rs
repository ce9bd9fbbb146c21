//! PVAccess from the wire to the put log, with both servers for records: what is put, and what comes of it.

use crate::rig::pva_client::{options, PvaClient};
use crate::rig::{wait_until, Ioc, Rig};
use serde_json::{json, Value};
use std::time::Duration;

const PORT: u16 = 5074;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";

fn ioc(rig: &Rig, server: &str) -> Ioc {
    let access = crate::rig::rig_file("access.acf");
    let access = access.to_str().expect("a path");
    rig.ioc_with("pvaccess", PORT, "pvaccess.db", &["--pva", server, "--access", access])
}

fn put_log(rig: &Rig) -> Vec<Value> {
    rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PVA:READY").collect()
}

/// Compares the lines with what is expected of them, by the keys that are named.
fn compare(log: &[Value], expected: &[Value]) {
    let mut wrong = Vec::new();
    for (number, (line, expected)) in log.iter().zip(expected).enumerate() {
        for (key, value) in expected.as_object().expect("an object") {
            if line[key] != *value {
                wrong.push(format!("line {number}: {key} is {}, not {value}", line[key]));
            }
        }
    }
    assert!(wrong.is_empty() && log.len() == expected.len(), "{}\n{log:#?}", wrong.join("\n"));
}

fn record(rig: &Rig, ioc: &Ioc, tier: &str) -> crate::rig::Running {
    let recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", if tier == "packet" { "packet" } else { "both" });
    recorder
}

/// Everything that can be put, by each server's rules.
fn truth(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-{server}-{tier}")) else { return };
    let ioc = ioc(&rig, server);
    let mut recorder = record(&rig, &ioc, tier);
    let mut client = PvaClient::connect(PVA, "operator", "console-7");
    let is_probed = tier != "packet";
    let address = client.address.clone();
    let common = |line: Value| {
        let mut line = line;
        let more = json!({
            "via": "pva", "protocol": "pva", "user": "operator", "client_host": "console-7", "ioc": "pvaccess",
            "client": address, "server": format!("127.0.0.1:{PVA}"),
        });
        let object = line.as_object_mut().expect("an object");
        for (key, value) in more.as_object().expect("an object") {
            object.entry(key).or_insert(value.clone());
        }
        line
    };
    let mut expected = Vec::new();

    let sp = client.channel("PVA:SP");
    assert_eq!(client.put(sp, NONE, 2, &5.5f64.to_le_bytes()), 0);
    let known = |value: Value| if is_probed { value } else { Value::Null };
    let old = |value: Value| if is_probed { value } else { Value::Null };
    let source = if is_probed { "both" } else { "packet" };
    expected.push(json!({
        "pv": "PVA:SP", "record": "PVA:SP", "field": "VAL", "dbr": "double", "requested": 5.5, "old": old(json!(0.0)),
        "new": 5.5, "status": "ok", "request": "put", "fields": {"value": 5.5}, "options": {}, "source": source,
    }));
    // limited by the record
    assert_eq!(client.put(sp, &options("true", "false"), 2, &500f64.to_le_bytes()), 0);
    expected.push(json!({
        "pv": "PVA:SP", "requested": 500.0, "old": old(json!(5.5)), "status": "ok",
        "new": if is_probed { json!(100.0) } else { json!(500.0) },
        "options": {"process": "true", "block": "false"}, "inexact": !is_probed,
    }));
    // to a record that doesn't process
    let still = client.channel("PVA:STILL");
    assert_eq!(client.put(still, &options("false", "false"), 2, &7i32.to_le_bytes()), 0);
    expected.push(json!({"pv": "PVA:STILL", "dbr": "int", "requested": 7, "old": old(json!(0)), "new": 7, "status": "ok"}));
    // index of an enum
    let mode = client.channel("PVA:MODE");
    assert_eq!(client.put(mode, NONE, 4, &1i32.to_le_bytes()), 0);
    expected.push(json!({
        "pv": "PVA:MODE", "dbr": "enum", "requested": 1, "new": 1, "status": "ok",
        "fields": {"value.index": 1}, "new_text": known(json!("On")),
    }));
    let text = client.channel("PVA:TEXT");
    assert_eq!(client.put(text, NONE, 2, b"\x05hello"), 0);
    expected.push(json!({
        "pv": "PVA:TEXT", "dbr": "string", "requested": "hello", "old": old(json!("")), "new": "hello", "status": "ok",
    }));
    // more than is kept
    let array = client.channel("PVA:ARRAY");
    let numbers: Vec<u8> = (0..10_000u16).flat_map(u16::to_le_bytes).collect();
    let value = [&b"\xfe\x10\x27\x00\x00"[..], &numbers].concat();
    assert_eq!(client.put(array, NONE, 2, &value), 0);
    expected.push(
        json!({"pv": "PVA:ARRAY", "dbr": "short[]", "count": 10_000, "requested_cut": true, "status": "ok"}),
    );
    // a field that is a link
    let link = client.channel("PVA:LINK.OUT");
    assert_eq!(client.put(link, NONE, 2, b"\x0aPVA:SP NPP"), 0);
    expected.push(json!({"pv": "PVA:LINK.OUT", "field": "OUT", "requested": "PVA:SP NPP", "status": "ok"}));
    // until the record is done
    let busy = client.channel("PVA:BUSY.A");
    assert_eq!(client.put(busy, &options("true", "true"), 2, &3f64.to_le_bytes()), 0);
    expected.push(json!({"pv": "PVA:BUSY.A", "field": "A", "requested": 3.0, "status": "ok"}));
    // refused
    let secure = client.channel("PVA:SECURE");
    assert_ne!(client.put(secure, NONE, 2, &1f64.to_le_bytes()), 0);
    expected.push(json!({
        "pv": "PVA:SECURE", "requested": 1.0, "new": null, "status": "denied", "message": "Put not permitted",
        "source": "packet",
    }));
    // refused by the record itself: the name of a record is fixed
    let name = client.channel("PVA:SP.NAME");
    assert_ne!(client.put(name, NONE, 2, b"\x05other"), 0);
    expected.push(json!({
        "pv": "PVA:SP.NAME", "record": "PVA:SP", "field": "NAME", "requested": "other", "status": "error",
        "old": old(json!("PVA:SP")), "source": source,
    }));
    // no field: the server says OK, and QSRV2 writes 0
    assert_eq!(client.put(sp, NONE, 0, b""), 0);
    let (new, source) =
        if server == "pvxs" && is_probed { (json!(0.0), "both") } else { (Value::Null, "packet") };
    expected.push(json!({"pv": "PVA:SP", "new": new, "status": "ok", "fields": {}, "source": source}));
    // the value before, then the put, both on one request
    let (ioid, _) = client.prepare(11, sp, NONE);
    client.ask(11, sp, ioid, 0x40, b"");
    client.ask(11, sp, ioid, 0, &[&[1, 2][..], &9f64.to_le_bytes()].concat());
    let before = if server == "pvxs" { 0.0 } else { 100.0 };
    expected.push(json!({"pv": "PVA:SP", "requested": 9.0, "new": 9.0, "old": before, "status": "ok"}));
    if server == "qsrv" {
        let (ioid, _) = client.prepare(16, sp, NONE);
        client.ask(16, sp, ioid, 0, b"");
        expected.push(json!({"pv": "PVA:SP", "request": "process", "requested": null, "status": "ok"}));
    }
    if server == "pvxs" {
        // its byte order is the message's
        let (ioid, _) = client.prepare(11, sp, NONE);
        let ids = [sp.to_be_bytes(), ioid.to_be_bytes()].concat();
        client.say(&crate::pva_messages::message(
            0x80,
            11,
            &[&ids[..], &[0, 1, 2], &4f64.to_be_bytes()].concat(),
        ));
        client.receive(11);
        expected.push(
            json!({"pv": "PVA:SP", "requested": 4.0, "old": old(json!(9.0)), "new": 4.0, "status": "ok"}),
        );
    }
    let expected: Vec<Value> = expected.into_iter().map(common).collect();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = put_log(&rig).into_iter().filter(|line| line["via"] == "pva").collect();
    compare(&log, &expected);
    let blocked = log.iter().find(|line| line["pv"] == "PVA:BUSY.A").expect("a line");
    assert!(blocked["callback_ms"].as_f64() >= Some(200.0), "{blocked}");
}

#[test]
fn puts_to_qsrv_over_the_ring_buffer() {
    truth("qsrv", "ring");
}

#[test]
fn puts_to_pvxs_over_the_ring_buffer() {
    truth("pvxs", "ring");
}

#[test]
fn puts_to_qsrv_by_packets_alone() {
    truth("qsrv", "packet");
}

/// Circuits that were open before the recorder: names and users come from the memory of the server.
fn older_than_the_recorder(server: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-older-{server}")) else { return };
    let ioc = ioc(&rig, server);
    let mut client = PvaClient::connect(PVA, "operator", "console-7");
    let (sp, still) = (client.channel("PVA:SP"), client.channel("PVA:STILL"));
    let (on_sp, _) = client.prepare(11, sp, NONE);
    let (on_still, _) = client.prepare(11, still, NONE);
    let mut recorder = record(&rig, &ioc, "ring");
    for turn in 0..5 {
        client.ask(11, sp, on_sp, 0, &[&[1, 2][..], &f64::from(10 + turn).to_le_bytes()].concat());
        client.ask(11, still, on_still, 0, &[&[1, 2][..], &(20i32 + turn).to_le_bytes()].concat());
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = put_log(&rig).into_iter().filter(|line| line["via"] == "pva").collect();
    let expected: Vec<Value> = (0..5)
        .flat_map(|turn| {
            [("PVA:SP", json!(f64::from(10 + turn))), ("PVA:STILL", json!(20 + turn))]
                .map(|(pv, value)| json!({"pv": pv, "requested": value, "new": value, "status": "ok", "source": "both", "client": client.address}))
        })
        .collect();
    compare(&log, &expected);
    // the server's memory tells who it is, if it was read before the end; tests/e2e/pvaccess_memory.rs waits for that
    assert!(log.iter().all(|line| line["user"] == "operator" || line["user"].is_null()), "{log:?}");
}

#[test]
fn circuits_older_than_the_recorder_to_qsrv() {
    older_than_the_recorder("qsrv");
}

#[test]
fn circuits_older_than_the_recorder_to_pvxs() {
    older_than_the_recorder("pvxs");
}

/// A PVA link of one IOC writes to a record of another.
#[test]
fn links() {
    let Some(rig) = Rig::new("pvaccess-links") else { return };
    let (here, there) = (PORT + 40, PORT + 41);
    let find = there.to_string();
    let near = rig.ioc_with("near", here, "pva_links.db", &["--pva", "pvxs", "--find", &find]);
    let far = rig.ioc_with("far", there, "puts.db", &["--pva", "pvxs"]);
    let mut recorder = rig.record(&["--pid", &near.pid_argument(), "--pid", &far.pid_argument()]);
    let mut client = rig.client("libca", &[here, there], &[]);
    rig.wait_until_recording(&mut client, "LINK:READY", "both");
    rig.wait_until_recording(&mut client, "PUT:DOUBLE", "both");
    // until the link has connected its puts go nowhere
    // no number that was put while waiting for the recorder
    let mut value = 100.5;
    wait_until("the link writes", || {
        value += 1.0;
        client.put("LINK:OUT", 6, json!(value), false);
        std::thread::sleep(Duration::from_millis(200));
        client.get("PUT:DOUBLE") == json!(value)
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = rig.puts(&["--pv", "PUT:DOUBLE"]);
    let written: Vec<&Value> = all.iter().filter(|put| put["requested"] == value).collect();
    let [put] = written[..] else { panic!("one put of {value}: {written:#?}") };
    for (key, truth) in [
        ("via", json!("pva_link")),
        ("client_ioc", json!("near")),
        ("ioc", json!("far")),
        ("new", json!(value)),
    ] {
        assert_eq!(put[key], truth, "{key}: {put:#}");
    }
}
