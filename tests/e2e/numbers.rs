//! Clients that use the numbers of their channels and requests as they like. What the IOC did is the truth: the log tells
//! it, or that it is not known, and nothing else.

use crate::pva_messages::{create, message, request};
use crate::rig::pva_client::PvaClient;
use crate::rig::{rig_file, wait_until, Rig};
use serde_json::{json, Value};
use std::time::Duration;

const PORT: u16 = 5074;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";

/// The server's number in its answer to a request for a channel.
fn sid(created: &[u8]) -> u32 {
    u32::from_le_bytes(created[4..8].try_into().expect("four bytes"))
}

fn double(number: f64) -> Vec<u8> {
    [&[1, 2][..], &number.to_le_bytes()].concat()
}

/// What the log must not say otherwise, if it says something: the PV, the status, the user.
#[derive(Debug)]
struct Truth(&'static str, Value, &'static str, &'static str, &'static str);

fn check(rig: &Rig, truth: &[Truth]) {
    let puts = rig.puts(&[]);
    let is_of = |put: &Value, requested: &Value| {
        put["requested"] == *requested || put["requested"].as_str() == requested.to_string().as_str().into()
    };
    for Truth(via, requested, pv, status, user) in truth {
        let found: Vec<&Value> = puts
            .iter()
            .filter(|put| {
                put["via"].as_str().is_some_and(|own| own.starts_with(via)) && is_of(put, requested)
            })
            .collect();
        let [put] = &found[..] else { panic!("{requested} once: {puts:#?}") };
        let told = put["pv"].as_str().map(|pv| pv.trim_end_matches(".VAL"));
        assert!(told.is_none_or(|told| told == *pv), "{requested} to {pv}: {put}");
        let told = put["status"].as_str().expect("a status");
        assert!(told == "unknown" || told == *status, "{requested}, {status}: {put}");
        let told = put["user"].as_str().unwrap_or_default();
        assert!(told.is_empty() || told == *user, "{requested} by {user}: {put}");
        if *status != "ok" {
            assert_eq!(put["new"], Value::Null, "{requested}, {status}: {put}");
        }
    }
    let last = rig.replay("last", &[]);
    let last = String::from_utf8_lossy(&last.stdout).into_owned();
    assert!(!last.contains("with callback, no answer seen"), "{last}");
}

fn truth(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("numbers-{server}-{tier}")) else { return };
    let access = rig_file("access.acf");
    let access = access.to_str().expect("a path");
    let ioc = rig.ioc_with("numbers", PORT, "pvaccess.db", &["--pva", server, "--access", access]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", if tier == "packet" { "packet" } else { "both" });
    let mut truth = Vec::new();

    // Channel Access: two channels that wait with one number
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    ask(json!({"do": "open", "create": [], "priority": 0}));
    let both = json!([[18, 0, 0, 7, 13, "PVA:SP"], [18, 0, 0, 7, 13, "PVA:STILL"]]);
    let first = ask(json!({"do": "send_all", "messages": both, "until": [18]}))["answer"][4].clone();
    let first = first.as_u64().expect("a number") as u32;
    let mut put = |sid: u32, ioid: u32, text: &str| {
        ask(json!({"do": "send", "fields": [19, 0, 1, sid, ioid, text], "until": [19]}))["answer"][3].clone()
    };
    assert_eq!((put(first, 1, "11"), put(first + 1, 2, "12")), (json!(1), json!(1)));
    assert_eq!((client.get("PVA:SP"), client.get("PVA:STILL")), (json!(11.0), json!(12)));
    truth.push(Truth("ca", json!(11), "PVA:SP", "ok", "raw"));
    truth.push(Truth("ca", json!(12), "PVA:STILL", "ok", "raw"));
    // one number for a put that takes long and one that is refused at once
    let two =
        ask(json!({"do": "open", "create": ["PVA:BUSY.A", "PVA:SECURE"], "priority": 0}))["sids"].clone();
    let puts = json!([[19, 0, 1, two[0], 9, "13"], [19, 0, 1, two[1], 9, "14"]]);
    let answer = ask(json!({"do": "send_all", "messages": puts, "until": [19]}))["answer"].clone();
    assert_eq!(answer[3], 376, "the second is refused before the first is done");
    wait_until("the first is done", || client.get("PVA:BUSY.A") == json!(13.0));
    std::thread::sleep(Duration::from_millis(700));
    truth.push(Truth("ca", json!(13), "PVA:BUSY.A", "ok", "raw"));
    truth.push(Truth("ca", json!(14), "PVA:SECURE", "denied", "raw"));
    // a channel ends by the server's number, and who has none may change its name
    let sids = ask(json!({"do": "open", "create": ["PVA:SP"], "priority": 0}))["sids"].clone();
    let messages =
        json!([[12, 0, 0, sids[0], 99, ""], [20, 0, 0, 0, 0, "other"], [18, 0, 0, 0, 13, "PVA:STILL"]]);
    let sid_of = ask(json!({"do": "send_all", "messages": messages, "until": [18]}))["answer"][4].clone();
    ask(json!({"do": "send", "fields": [19, 0, 1, sid_of, 1, "15"], "until": [19]}));
    assert_eq!(client.get("PVA:STILL"), json!(15));
    truth.push(Truth("ca", json!(15), "PVA:STILL", "ok", "other"));

    // PVAccess
    let mut pva = PvaClient::connect(PVA, "operator", "console-7");
    pva.say(&[create(77, "PVA:SP"), create(77, "PVA:STILL")].concat());
    let [sp, still] = [(); 2].map(|()| sid(&pva.receive(7)));
    assert_eq!(pva.put(sp, NONE, 2, &21f64.to_le_bytes()), 0);
    assert_eq!(pva.put(still, NONE, 2, &22i32.to_le_bytes()), 0);
    assert_eq!((client.get("PVA:SP"), client.get("PVA:STILL")), (json!(21.0), json!(22)));
    truth.push(Truth("pva", json!(21.0), "PVA:SP", "ok", "operator"));
    truth.push(Truth("pva", json!(22), "PVA:STILL", "ok", "operator"));
    // two puts of one request at once: the second is refused, or passed over
    let mut pva = PvaClient::connect(PVA, "operator", "console-7");
    let sp = pva.channel("PVA:SP");
    let (ioid, _) = pva.prepare(11, sp, NONE);
    pva.say(&[request(11, sp, ioid, 0, &double(31.0)), request(11, sp, ioid, 0, &double(32.0))].concat());
    pva.receive(11);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.get("PVA:SP"), json!(31.0));
    truth.push(Truth("pva", json!(31.0), "PVA:SP", "ok", "operator"));
    truth.push(Truth("pva", json!(32.0), "PVA:SP", "error", "operator"));
    // the client does not wait for the first
    let mut pva = PvaClient::connect(PVA, "operator", "console-7");
    let sp = pva.channel("PVA:SP");
    let (ioid, _) = pva.prepare(11, sp, NONE);
    let ids = [sp.to_le_bytes(), ioid.to_le_bytes()].concat();
    let cancel = message(0, 21, &ids);
    let puts = [41.0, 42.0].map(|number| request(11, sp, ioid, 0, &double(number)));
    pva.say(&[&puts[0][..], &cancel, &puts[1]].concat());
    pva.receive(11);
    std::thread::sleep(Duration::from_millis(300));
    let second = if client.get("PVA:SP") == json!(42.0) { "ok" } else { "error" };
    truth.push(Truth("pva", json!(41.0), "PVA:SP", "ok", "operator"));
    truth.push(Truth("pva", json!(42.0), "PVA:SP", second, "operator"));
    // QSRV1 answers what was done before the CANCEL came; then nothing is owed
    if server == "qsrv" {
        let mut pva = PvaClient::connect(PVA, "operator", "console-7");
        let sp = pva.channel("PVA:SP");
        let (ioid, _) = pva.prepare(11, sp, NONE);
        let ids = [sp.to_le_bytes(), ioid.to_le_bytes()].concat();
        pva.say(&[request(11, sp, ioid, 0, &double(43.0)), message(0, 21, &ids)].concat());
        pva.receive(11);
        pva.ask(11, sp, ioid, 0, &double(44.0));
        truth.push(Truth("pva", json!(44.0), "PVA:SP", "ok", "operator"));
    }
    // a channel ends by the server's number
    let mut pva = PvaClient::connect(PVA, "operator", "console-7");
    let [sp, still] = ["PVA:SP", "PVA:STILL"].map(|pv| pva.channel(pv));
    pva.say(&message(0, 8, &[9999u32.to_le_bytes(), 1u32.to_le_bytes()].concat()));
    assert_eq!(pva.put(sp, NONE, 2, &51f64.to_le_bytes()), 0);
    truth.push(Truth("pva", json!(51.0), "PVA:SP", "ok", "operator"));
    if server == "qsrv" {
        // it has the requests of each channel apart
        pva.say(&[request(11, sp, 9, 8, NONE), request(11, still, 9, 8, NONE)].concat());
        let _prepared = [pva.receive(11), pva.receive(11)];
        pva.ask(11, sp, 9, 0, &double(61.0));
        pva.ask(11, still, 9, 0, &[&[1, 2][..], &62i32.to_le_bytes()].concat());
        assert_eq!((client.get("PVA:SP"), client.get("PVA:STILL")), (json!(61.0), json!(62)));
        // which of the two structures is whose can't be told: packets alone don't show what was put
        let requested = if tier == "packet" { Value::Null } else { json!(62) };
        let is_told = |put: &Value| (&put["requested"], &put["status"]) == (&requested, &json!("ok"));
        wait_until("the last put", || rig.puts(&["--pv", "PVA:STILL"]).last().is_some_and(is_told));
        if tier != "packet" {
            truth.push(Truth("pva", requested, "PVA:STILL", "ok", "operator"));
        }
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    check(&rig, &truth);
    if server == "qsrv" {
        let put = rig.puts(&[]).into_iter().find(|put| put["requested"] == 44.0).expect("told");
        assert_eq!(put["status"], "ok", "{put}");
    }
    let to_still = rig.puts(&["--pv", "PVA:STILL"]);
    assert!(!to_still.iter().any(|put| put["requested"] == 61.0 || put["new"] == 61.0), "{to_still:#?}");
}

#[test]
fn numbers_of_channel_access_and_qsrv() {
    truth("qsrv", "ring");
}

#[test]
fn numbers_of_channel_access_and_pvxs() {
    truth("pvxs", "ring");
}

#[test]
fn numbers_of_channel_access_and_qsrv_by_packets() {
    truth("qsrv", "packet");
}

#[test]
fn numbers_of_channel_access_and_pvxs_by_packets() {
    truth("pvxs", "packet");
}

/// Two puts without callback in one segment, of which the first is no number. RSRV says that one failed, by the number that
/// both have.
#[test]
fn which_of_two_failed() {
    let Some(rig) = Rig::new("numbers-failed") else { return };
    let ioc = rig.ioc("numbers", PORT, "pvaccess.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", "both");
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let sid = ask(json!({"do": "open", "create": ["PVA:SP"], "priority": 0}))["sids"][0].clone();
    let puts = json!([[4, 0, 1, sid, 1, "no number"], [4, 0, 1, sid, 1, "17.5"]]);
    let answer = ask(json!({"do": "send_all", "messages": puts, "until": [11]}))["answer"].clone();
    assert_eq!(answer[4], 160, "one has failed");
    assert_eq!(client.get("PVA:SP"), json!(17.5));
    wait_until("both are told", || rig.puts(&["--pv", "PVA:SP"]).len() == 2);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PVA:SP"]);
    let told = |put: &Value| (put["requested"].clone(), put["status"].clone(), put["new"].clone());
    let [first, second] = [0, 1].map(|number| told(&puts[number]));
    assert_eq!((&first.0, &second.0), (&json!("no number"), &json!("17.5")));
    assert!(first.1 != "ok" && first.2 != 17.5, "{first:?}");
    assert!(second.1 == "ok" || second.1 == "unknown", "{second:?}");
    assert_eq!(second.2, 17.5, "{second:?}");
}
