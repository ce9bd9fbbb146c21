//! Messages of PVAccess that no client sends: in a byte order of their own, in segments that don't follow each other, with
//! others between them. Servers differ in what they make of them; what the IOC then holds is the truth, and the log tells
//! that, or that it is not known.

use crate::pva_messages::{message, request};
use crate::rig::pva_client::PvaClient;
use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};
use std::time::Duration;

const PORT: u16 = 5074;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";
const PUT: u8 = 11;
/// SET_ENDIANNESS: big.
const BIG: &[u8] = b"\xca\x02\x81\x02\0\0\0\0";

/// A put's payload in a byte order.
fn body(sid: u32, ioid: u32, number: f64, big: bool) -> Vec<u8> {
    let ids = match big {
        true => [sid.to_be_bytes(), ioid.to_be_bytes()].concat(),
        false => [sid.to_le_bytes(), ioid.to_le_bytes()].concat(),
    };
    let number = if big { number.to_be_bytes() } else { number.to_le_bytes() };
    [&ids[..], &[0, 1, 2], &number].concat()
}

/// With a flag that says the other byte order.
fn contrary(mut message: Vec<u8>) -> Vec<u8> {
    message[2] ^= 0x80;
    message
}

type Odd = fn(u32, u32, f64) -> Vec<u8>;

const ODD: &[(&str, Odd)] = &[
    ("as all send it", |sid, ioid, n| request(PUT, sid, ioid, 0, &body(sid, ioid, n, false)[9..])),
    ("big-endian", |sid, ioid, n| message(0x80, PUT, &body(sid, ioid, n, true))),
    ("a flag alone", |sid, ioid, n| contrary(message(0, PUT, &body(sid, ioid, n, false)))),
    ("a size that is too long", |sid, ioid, n| {
        let mut message = message(0, PUT, &body(sid, ioid, n, false));
        message[6] = 1;
        message
    }),
    ("another order from now on", |sid, ioid, n| {
        [BIG, &message(0x80, PUT, &body(sid, ioid, n, true))].concat()
    }),
    ("that, without the flag", |sid, ioid, n| {
        [BIG, &contrary(message(0x80, PUT, &body(sid, ioid, n, true)))].concat()
    }),
    ("the first segment alone", |sid, ioid, n| message(0x10, PUT, &body(sid, ioid, n, false))),
    ("the last alone", |sid, ioid, n| message(0x20, PUT, &body(sid, ioid, n, false))),
    ("the first twice", |sid, ioid, n| {
        let body = body(sid, ioid, n, false);
        [message(0x10, PUT, &body[..12]), message(0x10, PUT, &body[12..]), message(0x20, PUT, b"")].concat()
    }),
    ("an echo between segments", |sid, ioid, n| {
        let body = body(sid, ioid, n, false);
        [message(0x10, PUT, &body[..12]), message(0, 2, b""), message(0x20, PUT, &body[12..])].concat()
    }),
    ("a mark between segments", |sid, ioid, n| {
        let body = body(sid, ioid, n, false);
        [message(0x10, PUT, &body[..12]), message(1, 0, b""), message(0x20, PUT, &body[12..])].concat()
    }),
    ("another command in the last segment", |sid, ioid, n| {
        let body = body(sid, ioid, n, false);
        [message(0x10, PUT, &body[..12]), message(0x20, 10, &body[12..])].concat()
    }),
    ("another order in the last segment", |sid, ioid, n| {
        let body = body(sid, ioid, n, true);
        [message(0x10, PUT, &body[..9]), message(0xa0, PUT, &body[9..])].concat()
    }),
    ("a put in the first segment, another in the last", |sid, ioid, n| {
        let (first, last) = (body(sid, ioid, n, false), body(sid, ioid, n + 0.25, false));
        [message(0x10, PUT, &first), message(0x20, PUT, &last)].concat()
    }),
    ("a put in a first segment, and another", |sid, ioid, n| {
        let (first, last) = (body(sid, ioid, n, false), body(sid, ioid, n + 0.25, false));
        [message(0x10, PUT, &first), message(0, PUT, &last)].concat()
    }),
    ("behind an unknown command", |sid, ioid, n| {
        [message(0, 99, b"abc"), message(0, PUT, &body(sid, ioid, n, false))].concat()
    }),
];

fn truth(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("odd-{server}-{tier}")) else { return };
    let ioc = rig.ioc_with("odd", PORT, "pvaccess.db", &["--pva", server]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", if tier == "packet" { "packet" } else { "both" });
    let mut held = Vec::new();
    for (step, (what, odd)) in (1..).zip(ODD) {
        let mut pva = PvaClient::connect(PVA, "operator", "console-7");
        let sid = pva.channel("PVA:SP");
        let (ioid, _) = pva.prepare(PUT, sid, NONE);
        let number = f64::from(step) + 0.5;
        pva.say(&odd(sid, ioid, number));
        std::thread::sleep(Duration::from_millis(200));
        held.push((*what, number, client.get("PVA:SP")));
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&[]);
    let of = |put: &Value, number: f64| {
        [&put["requested"], &put["new"]]
            .iter()
            .any(|told| **told == json!(number) || told.as_str() == Some(&number.to_string()))
    };
    for put in &puts {
        let pv = put["pv"].as_str().map(|pv| pv.trim_end_matches(".VAL"));
        assert!(pv.is_none_or(|pv| pv == "PVA:SP" || pv == "PVA:READY"), "no other was put to: {put}");
    }
    for (what, number, held) in held {
        let of = |number: f64| puts.iter().filter(move |put| of(put, number)).collect::<Vec<_>>();
        if held == json!(number) {
            let own = of(number);
            assert!(!own.is_empty(), "{what}, {number}, of {server}: {puts:#?}");
            let by = own.iter().any(|put| put["user"] == "operator");
            assert!(by, "{what}, {number}, of {server}: {puts:#?}");
        }
        for other in [number, number + 0.25].into_iter().filter(|other| held != json!(other)) {
            let is_ok = of(other).into_iter().find(|put| put["status"] == "ok" || put["new"] == json!(other));
            assert_eq!(is_ok, None, "{what}, {other}, of {server}, which holds {held}");
        }
    }
}

/// Servers take names to their first NUL: so does the log, and nobody hides what he puts behind one.
fn names(server: &str) {
    let Some(rig) = Rig::new(&format!("odd-names-{server}")) else { return };
    let ioc = rig.ioc_with("odd", PORT, "pvaccess.db", &["--pva", server]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", "both");
    let mut pva = PvaClient::connect(PVA, "operator\0of nothing", "console-7\0x");
    let sid = pva.channel("PVA:SP\0.DESC");
    assert_eq!(pva.put(sid, NONE, 2, &3.5f64.to_le_bytes()), 0);
    assert_eq!(client.get("PVA:SP"), json!(3.5));
    let told = || rig.puts(&["--pv", "PVA:SP"]);
    wait_until("the put is told", || !told().is_empty());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = told();
    let [put] = &puts[..] else { panic!("one put: {puts:#?}") };
    let told = ["pv", "user", "client_host", "new", "status"].map(|key| put[key].clone());
    let truth = [json!("PVA:SP"), json!("operator"), json!("console-7"), json!(3.5), json!("ok")];
    assert_eq!(told, truth, "{put}");
}

#[test]
fn odd_names_to_qsrv() {
    names("qsrv");
}

#[test]
fn odd_names_to_pvxs() {
    names("pvxs");
}

#[test]
fn odd_messages_to_qsrv() {
    truth("qsrv", "ring");
}

#[test]
fn odd_messages_to_pvxs() {
    truth("pvxs", "ring");
}

#[test]
fn odd_messages_to_qsrv_by_packets() {
    truth("qsrv", "packet");
}

#[test]
fn odd_messages_to_pvxs_by_packets() {
    truth("pvxs", "packet");
}
