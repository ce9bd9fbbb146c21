//! PVAccess circuits that are older than the recorder: names and users come from the memory of the server.
//!
//! All clients put the same value, so that nothing but memory tells to which PV.

use crate::pva_messages::message;
use crate::rig::pva_client::PvaClient;
use crate::rig::{wait_until, Rig, Running};
use serde_json::{json, Value};

const PORT: u16 = 5074;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
const ECHO: u8 = 2;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";
const PVS: [&str; 3] = ["PVA:SP", "PVA:SP.HIGH", "PVA:BUSY.A"];
/// Values that `until_named` puts.
const BEFORE: std::ops::Range<i32> = 10_000..100_000;

/// A client with a prepared put on each of the PVs.
struct Older {
    user: String,
    client: PvaClient,
    /// Of each PV: the server's number of the channel, and the request's.
    requests: Vec<(u32, u32)>,
}

fn older(port: u16, user: &str, pvs: &[&str]) -> Older {
    let mut client = PvaClient::connect(port, user, "console-7");
    let channels: Vec<u32> = pvs.iter().map(|pv| client.channel(pv)).collect();
    let prepare = |sid| (sid, client.prepare(11, sid, NONE).0);
    let requests = channels.into_iter().map(prepare).collect();
    Older { user: user.to_owned(), client, requests }
}

impl Older {
    fn put(&mut self, number: usize, value: f64) {
        let (sid, ioid) = self.requests[number];
        let (_, status) = self.client.ask(11, sid, ioid, 0, &[&[1, 2][..], &value.to_le_bytes()].concat());
        assert_eq!(status[0], 0xff);
    }
}

fn by_pva(rig: &Rig) -> Vec<Value> {
    rig.puts(&[]).into_iter().filter(|line| line["via"] == "pva").collect()
}

/// The first of these clients puts until the log has the name and the user of a put.
fn until_named(rig: &Rig, clients: &mut [Older]) {
    let mut turns = BEFORE;
    wait_until("the server's memory is read", || {
        clients[0].put(0, f64::from(turns.next().expect("patience has ended before")));
        // QSRV closes connections on which nothing is sent
        clients.iter_mut().for_each(|client| client.client.say(&message(0, ECHO, b"")));
        by_pva(rig).last().is_some_and(|line| line["user"] == clients[0].user.as_str())
    });
}

fn record(rig: &Rig, pid: &str) -> Running {
    let recorder = rig.record(&["--pid", pid]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PVA:READY", "both");
    recorder
}

fn names(server: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-memory-{server}")) else { return };
    let ioc = rig.ioc_with("pvaccess", PORT, "pvaccess.db", &["--pva", server]);
    let mut clients: Vec<Older> =
        (0..4).map(|number| older(PVA, &format!("operator{number}"), &PVS)).collect();
    let mut recorder = record(&rig, &ioc.pid_argument());
    until_named(&rig, &mut clients);
    let mut expected = Vec::new();
    for (number, pv) in PVS.iter().enumerate() {
        for client in &mut clients {
            client.put(number, 3.5);
            expected.push(json!([pv, client.user, client.client.address, 3.5, 3.5, "ok", "pva", "both"]));
        }
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = by_pva(&rig);
    let short = |line: &Value| {
        let keys = ["pv", "user", "client", "requested", "new", "status", "via", "source"];
        Value::from(keys.map(|key| line[key].clone()).to_vec())
    };
    let is_before = |line: &&Value| line["requested"].as_f64() >= Some(f64::from(BEFORE.start));
    let (before, after): (Vec<&Value>, Vec<&Value>) = log.iter().partition(is_before);
    let found: Vec<Value> = after.into_iter().map(short).collect();
    assert_eq!(found, expected);
    // those that were put before the names were read
    let named =
        |line: &&Value| line["pv"] == "PVA:SP" && line["user"] == "operator0" && line["source"] == "both";
    assert!(before.iter().all(named), "{before:#?}");
}

#[test]
fn names_from_the_memory_of_qsrv() {
    names("qsrv");
}

#[test]
fn names_from_the_memory_of_pvxs() {
    names("pvxs");
}

/// A server without records: nothing but its memory and packets tell of a put.
#[test]
fn names_from_the_memory_of_a_p4p_server() {
    let Some(rig) = Rig::new("pvaccess-memory-p4p") else { return };
    let server = rig.pva_server(PVA, PORT + 2000, "P4P:PV");
    let mut clients = ["operator1", "operator2"].map(|user| older(PVA, user, &["P4P:PV"]));
    let pid = server.pid().to_string();
    let mut recorder = rig.record(&["--pid", &pid]);
    wait_until("the recorder knows the server", || {
        // on a busy machine it may end before the process counts as a server
        let knows = recorder.errors().contains("recording");
        if !knows && !recorder.runs() {
            recorder = rig.record(&["--pid", &pid]);
        }
        knows
    });
    until_named(&rig, &mut clients);
    clients[1].put(0, 3.5);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = by_pva(&rig);
    assert!(log.iter().all(|line| line["pv"] == "P4P:PV" && line["status"] == "ok"), "{log:#?}");
    let last = log.last().expect("a put");
    assert_eq!((&last["user"], &last["client"]), (&json!("operator2"), &json!(clients[1].client.address)));
}

/// A put to a group is one, with its members, whether its channel is older than the recorder or not.
fn groups(server: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-groups-{server}")) else { return };
    let ioc = rig.ioc_with("pvaccess", PORT, "pvaccess_groups.db", &["--pva", server]);
    let mut older = rig.client("p4p", &[PORT], &["--user", "operator1"]);
    older.put("PVA:GROUP", 6, json!({"first": 0.25, "second": 1}), false);
    let mut named = [self::older(PVA, "operator0", &["PVA:SP"])];
    let mut recorder = record(&rig, &ioc.pid_argument());
    until_named(&rig, &mut named);
    let mut younger = rig.client("p4p", &[PORT], &["--user", "operator2"]);
    let puts = [
        (0, json!({"first": 1.5, "second": 70000})),
        (1, json!({"first": 2.5, "second": 80000})),
        (0, json!({"second": 90000})),
        (1, json!({"first": 3.5})),
    ];
    for (client, value) in &puts {
        [&mut older, &mut younger][*client].put("PVA:GROUP", 6, value.clone(), false);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = by_pva(&rig).into_iter().filter(|line| line["pv"] != "PVA:SP").collect();
    let short = |line: &Value| {
        let members = line["members"].as_array().cloned().unwrap_or_default();
        let of = |member: &Value| json!([member["record"], member["requested"], member["new"]]);
        json!([line["pv"], line["status"], members.iter().map(of).collect::<Vec<_>>()])
    };
    let found: Vec<Value> = log.iter().map(short).collect();
    let member = |record: &str, value: Value| json!([record, value, value]);
    let (first, second) =
        (|value: f64| member("PVA:A", json!(value)), |value: i32| member("PVA:B", json!(value)));
    let expected = [
        json!(["PVA:GROUP", "ok", [first(1.5), second(70000)]]),
        json!(["PVA:GROUP", "ok", [first(2.5), second(80000)]]),
        json!(["PVA:GROUP", "ok", [second(90000)]]),
        json!(["PVA:GROUP", "ok", [first(3.5)]]),
    ];
    assert_eq!(found, expected, "{log:#?}");
    assert!(log.iter().all(|line| line["user"] == "root"), "{log:#?}");
    let clients: Vec<&Value> = log.iter().map(|line| &line["client"]).collect();
    assert!(clients[0] == clients[2] && clients[1] == clients[3] && clients[0] != clients[1], "{log:#?}");
}

#[test]
fn groups_of_qsrv() {
    groups("qsrv");
}

#[test]
fn groups_of_pvxs() {
    groups("pvxs");
}

/// Twenty clients put the same value to the same PV at once, by both protocols. Each put is one line with its user;
/// whose put found the old value is told if it is known, and of nobody else.
fn at_once(server: &str) {
    const CLIENTS: usize = 10;
    const ROUNDS: usize = 20;
    /// The record limits its values to 100.
    const FIRST: f64 = 20.0;
    let Some(rig) = Rig::new(&format!("pvaccess-at-once-{server}")) else { return };
    let ioc = rig.ioc_with("pvaccess", PORT, "pvaccess.db", &["--pva", server]);
    let mut clients: Vec<Older> =
        (0..CLIENTS).map(|number| older(PVA, &format!("operator{number}"), &PVS[..1])).collect();
    let mut others: Vec<_> = (0..CLIENTS).map(|_| rig.client("libca", &[PORT], &[])).collect();
    let addresses: Vec<String> = others.iter_mut().map(|client| client.connect("PVA:SP")).collect();
    let mut recorder = record(&rig, &ioc.pid_argument());
    until_named(&rig, &mut clients);
    // prepared anew, so that packets show the type
    for client in &mut clients {
        let (sid, _) = client.requests[0];
        client.requests[0].1 = client.client.prepare(11, sid, NONE).0;
    }
    for round in 0..ROUNDS {
        let value = FIRST + round as f64;
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(move || client.put(0, value));
            }
            for client in &mut others {
                scope.spawn(move || client.put("PVA:SP", 6, json!(value), false));
            }
        });
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let values = FIRST..FIRST + ROUNDS as f64;
    let of_rounds = |line: &Value| line["requested"].as_f64().is_some_and(|value| values.contains(&value));
    let all: Vec<Value> = rig.puts(&["--pv", "PVA:SP"]).into_iter().filter(of_rounds).collect();
    let log: Vec<&Value> = all.iter().filter(|line| line["via"] == "pva").collect();
    assert_eq!(log.len(), CLIENTS * ROUNDS, "a put is one line");
    for client in &clients {
        let own = log.iter().filter(|line| line["client"] == client.client.address.as_str());
        let own: Vec<&Value> = own.copied().collect();
        assert_eq!(own.len(), ROUNDS, "{}", client.user);
        let right = |line: &&Value| {
            line["user"] == client.user.as_str() && line["pv"] == "PVA:SP" && line["status"] == "ok"
        };
        assert!(own.iter().all(right), "{own:#?}");
        for (round, line) in own.iter().enumerate() {
            assert_eq!(line["requested"], json!(FIRST + round as f64), "{own:#?}");
        }
    }
    for address in &addresses {
        let own = all.iter().filter(|line| line["client"] == address.as_str() && line["via"] == "ca_write");
        assert_eq!(own.count(), ROUNDS, "{address}");
    }
    assert_eq!(all.len(), 2 * CLIENTS * ROUNDS, "nothing else put");
    // Where hits were joined, no two puts of a round are said to have found the value of before the round.
    for round in 0..ROUNDS {
        let value = json!(FIRST + round as f64);
        let first = all
            .iter()
            .filter(|line| line["requested"] == value && !line["old"].is_null() && line["old"] != value);
        assert!(first.count() <= 1, "round {round}: {all:#?}");
    }
}

#[test]
fn twenty_clients_at_once_to_qsrv() {
    at_once("qsrv");
}

#[test]
fn twenty_clients_at_once_to_pvxs() {
    at_once("pvxs");
}
