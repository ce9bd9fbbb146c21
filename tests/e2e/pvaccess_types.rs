//! Types of PVAccess that clients use in odd ways at a server without records (p4p): a number that stands for another type by
//! now, or for none; PUT_GET, which that server does not have. What the server then holds, or answers, is the truth.

use crate::pva_messages::request;
use crate::rig::pva_client::PvaClient;
use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};
use std::time::Duration;

const PORT: u16 = 5674;
/// Where the server without records is.
const OTHER: u16 = 6690;
const SEARCH: u16 = 6691;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";
const GET: u8 = 10;
const PUT: u8 = 11;
const PUT_GET: u8 = 12;
const RPC: u8 = 20;

/// A type that gets this number: a structure of one member.
fn defined(number: u8, member: &str) -> Vec<u8> {
    [&[0xfd, number, 0, 0x80, 0, 1, member.len() as u8], member.as_bytes(), b"\x60"].concat()
}

/// An NTURI's type with this number: `query` has `a` and `b` of this type.
fn call(number: u8, kind: u8) -> Vec<u8> {
    let query = [b"\x05query\x80\x00\x02\x01a", &[kind][..], b"\x01b", &[kind]].concat();
    [&[0xfd, number, 0, 0x80, 0, 1][..], &query].concat()
}

/// What is sent on channel 0 with 3 requests, so that this number is put if the server takes it.
type Odd = fn(u32, f64) -> Vec<Vec<u8>>;

const ODD: &[(&str, Odd)] = &[
    ("as all send it", |sid, n| vec![request(PUT, sid, 1, 8, NONE), put(PUT, sid, 1, n)]),
    ("a number that is defined twice", |sid, n| {
        let other = [defined(9, "block"), b"\x04true".to_vec()].concat();
        vec![
            request(PUT, sid, 1, 8, &[defined(9, "process"), b"\x04true".to_vec()].concat()),
            request(PUT, sid, 2, 8, &other),
            request(PUT, sid, 3, 8, b"\xfe\x09\x00\x04true"),
            put(PUT, sid, 3, n),
        ]
    }),
    ("a number defined as another structure", |sid, n| {
        vec![
            request(PUT, sid, 1, 8, &[defined(9, "process"), b"\x04true".to_vec()].concat()),
            request(PUT, sid, 2, 8, b"\xfd\x09\x00\x80\x00\x00"),
            request(PUT, sid, 3, 8, b"\xfe\x09\x00"),
            put(PUT, sid, 3, n),
        ]
    }),
    ("a number never defined", |sid, n| vec![request(PUT, sid, 1, 8, b"\xfe\x63\x00"), put(PUT, sid, 1, n)]),
    ("a number never defined, with a value", |sid, n| {
        vec![request(PUT, sid, 1, 8, b"\xfe\x63\x00\x04true"), put(PUT, sid, 1, n)]
    }),
    ("a number of the other side", |sid, n| {
        vec![request(PUT, sid, 1, 8, b"\xfe\x01\x00"), put(PUT, sid, 1, n)]
    }),
    ("a put and get", |sid, n| vec![request(PUT_GET, sid, 1, 8, NONE), put(PUT_GET, sid, 1, n)]),
    ("a put and get on a request for puts", |sid, n| {
        vec![request(PUT, sid, 1, 8, NONE), put(PUT_GET, sid, 1, n)]
    }),
    ("a put on a request for puts and gets", |sid, n| {
        vec![request(PUT_GET, sid, 1, 8, NONE), put(PUT, sid, 1, n)]
    }),
];

fn put(command: u8, sid: u32, ioid: u32, number: f64) -> Vec<u8> {
    request(command, sid, ioid, 0, &[&b"\x01\x02"[..], &number.to_le_bytes()].concat())
}

/// What the server holds.
fn held() -> f64 {
    let mut client = PvaClient::connect(OTHER, "reader", "console-8");
    let sid = client.channel("OTHER:PV");
    let (ioid, _) = client.prepare(GET, sid, NONE);
    let (_, answer) = client.ask(GET, sid, ioid, 0, b"");
    // status, the length of the bits, bits, values: `value` comes first
    let at = 2 + usize::from(answer[1]);
    f64::from_le_bytes(answer[at..at + 8].try_into().expect("a double"))
}

#[test]
fn types_at_a_server_without_records() {
    let Some(rig) = Rig::new("pvaccess-types") else { return };
    let ioc = rig.ioc("types", PORT, "puts.db", &[]);
    let server = rig.pva_server(OTHER, SEARCH, "OTHER:PV");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &server.pid().to_string()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PUT:READY", "both");
    wait_until("the other server is recorded", || {
        let mut client = PvaClient::connect(OTHER, "first", "console-7");
        let sid = client.channel("OTHER:PV");
        assert_eq!(client.put(sid, NONE, 2, &0.5f64.to_le_bytes()), 0);
        std::thread::sleep(Duration::from_millis(500));
        rig.puts(&["--pv", "OTHER:PV"]).iter().any(|put| put["user"] == "first")
    });
    let mut truth = Vec::new();
    let mut kept = Vec::new();
    for (step, (what, odd)) in (1..).zip(ODD) {
        let mut client = PvaClient::connect(OTHER, "operator", "console-7");
        let sid = client.channel("OTHER:PV");
        let number = f64::from(step) + 0.25;
        for message in odd(sid, number) {
            client.say(&message);
            std::thread::sleep(Duration::from_millis(100));
        }
        truth.push((*what, client.address.clone(), number, held() == number));
        kept.push(client);
    }
    // two types under one number, as the argument of calls
    let mut client = PvaClient::connect(OTHER, "operator", "console-7");
    let sid = client.channel("OTHER:PV");
    let mut results = Vec::new();
    let (double, long) = (0x43, 0x23);
    let bytes = [2.0f64.to_le_bytes(), 3.0f64.to_le_bytes()].concat();
    for (ioid, kind) in [(1, call(5, double)), (2, call(5, long)), (3, b"\xfe\x05\x00".to_vec())] {
        client.ask(RPC, sid, ioid, 8, NONE);
        let (_, answer) = client.ask(RPC, sid, ioid, 0, &[kind, bytes.clone()].concat());
        assert_eq!(answer[0], 0xff, "{answer:x?}");
        // the result ends with the rest of an NTScalar, which is not set
        let five = 5.0f64.to_le_bytes();
        results.push(answer.windows(8).any(|bytes| *bytes == five));
    }
    eprintln!("doubles: {results:?}");
    let caller = client.address.clone();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(kept);
    let puts = rig.puts(&[]);
    for (what, address, number, taken) in &truth {
        let of_it: Vec<&Value> = puts.iter().filter(|put| put["client"] == **address).collect();
        let how: Vec<_> = of_it
            .iter()
            .map(|put| json!([put["request"], put["requested"], put["status"], put["options"]]))
            .collect();
        eprintln!("{what:40} taken {taken} {}", json!(how));
        if *taken {
            let is_it = |put: &&&Value| {
                put["requested"] == *number && put["status"] == "ok" && put["pv"] == "OTHER:PV"
            };
            assert_eq!(of_it.iter().filter(is_it).count(), 1, "{what}: {of_it:#?}");
        } else {
            assert!(
                of_it.iter().all(|put| put["status"] != "ok" && put["new"].is_null()),
                "{what}: {of_it:#?}"
            );
        }
    }
    let calls: Vec<&Value> = puts.iter().filter(|put| put["client"] == caller).collect();
    assert_eq!(calls.len(), 3, "{calls:#?}");
    for (call, is_double) in calls.iter().zip(results) {
        let a = &call["fields"]["query.a"];
        eprintln!("call: double {is_double}, fields {}", call["fields"]);
        let right = if is_double { json!(2.0) } else { json!(i64::from_le_bytes(2.0f64.to_le_bytes())) };
        assert!(a.is_null() || *a == right, "{call:#}");
    }
}
