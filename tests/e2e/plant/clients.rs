//! Who was connected: `clients`.

use super::truth::{record_of, time, Truth};
use super::{nanoseconds, plant};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

/// How late the recorder may learn of a connection's end, nanoseconds.
const LATE: i64 = 2_000_000_000;

/// A client's puts to an IOC.
fn puts<'a>(truth: &'a Truth, client: &'a Value, ioc: &'a Value) -> impl Iterator<Item = &'a Value> {
    truth.puts().iter().filter(move |put| {
        put["client"] == client["name"]
            && truth.ioc_of(put["pv"].as_str().expect("a PV"))["name"] == ioc["name"]
    })
}

/// Every client with each of its circuits, what it claims and wrote; the observer; the CA link of one IOC to the other.
/// Nobody else.
#[test]
fn clients_are_those_that_were_there() {
    let Some(plant) = plant("plant-clients") else { return };
    let truth = &plant.truth;
    let (code, out, err) = plant.outcome(&["clients", "--utc", "--format", "jsonl"]);
    assert_eq!(code, 0, "{err}");
    let lines = crate::rig::json_lines(out.as_bytes());
    let mut circuits: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for line in &lines {
        let word = |key: &str| line[key].as_str().expect(key).to_owned();
        let other = circuits.insert((word("client"), word("ioc")), line);
        assert!(other.is_none(), "twice: {line}");
    }
    for client in truth.list("clients") {
        for (port, address) in client["addresses"].as_object().expect("addresses") {
            let ioc = truth.list("iocs").iter().find(|ioc| ioc["port"].as_u64() == port.parse().ok());
            let ioc = ioc.expect("an IOC");
            let name = (address.as_str().unwrap().to_owned(), ioc["name"].as_str().unwrap().to_owned());
            let line = circuits.remove(&name).unwrap_or_else(|| panic!("{name:?} is missing: {lines:?}"));
            assert_eq!(line["user"], client["user"], "{line}");
            assert_eq!(line["client_host"], client["host"], "{line}");
            assert_eq!(line["server"], format!("127.0.0.1:{port}"), "{line}");
            assert!(line["client_ioc"].is_null(), "{line}");
            // the program behind the claim, with its process
            assert_eq!(line["process"]["pid"], client["pid"], "{line}");
            assert_eq!(line["process"]["program"], "client.py", "{line}");
            let own: Vec<&Value> = puts(truth, client, ioc).collect();
            let refused = |outcome: &str| own.iter().filter(|put| put["outcome"] == outcome).count();
            assert_eq!(line["puts"], own.len(), "{line}");
            assert_eq!(line["denied"], refused("denied"), "{line}");
            assert_eq!(line["failed"], refused("ECA_PUTFAIL"), "{line}");
            assert_eq!(line["last_pv"], own.last().expect("a put")["pv"], "{line}");
            let mut channels: BTreeSet<&str> = own.iter().map(|put| put["pv"].as_str().unwrap()).collect();
            let listed = line["channel_names"].as_array().expect("names");
            channels.retain(|pv| !listed.contains(&json!(pv)));
            assert!(channels.is_empty(), "{channels:?} are missing: {line}");
            for pv in listed {
                let record = record_of(pv.as_str().expect("a PV"));
                assert_eq!(truth.ioc_of(record)["name"], ioc["name"], "{line}");
            }
            // when it came, if that was after the recorder; and when it went, or its IOC died
            let began = time(client, "began");
            let recorded = time(truth.part("recording"), "begin");
            let connected = &line["connected"];
            assert_eq!(connected.is_null(), began < recorded && port == "5074", "{line}");
            assert!(connected.is_null() || nanoseconds(connected) >= began, "{line}");
            let ended = time(client, "ended").min(time(ioc, "end"));
            let gone = nanoseconds(&line["disconnected"]);
            assert!(gone >= ended - LATE && gone <= ended + LATE, "{line}: {ended}");
        }
    }
    let link = circuits.values().filter(|line| line["client_ioc"] == "LINAC1").count();
    assert_eq!(link, 1, "{circuits:?}");
    // the observer, with a circuit to each
    circuits.retain(|_, line| line["client_ioc"].is_null());
    let iocs: Vec<&str> = circuits.keys().map(|(_, ioc)| ioc.as_str()).collect();
    assert_eq!(iocs.len(), 2, "{circuits:?}");
    assert!(circuits.values().all(|line| line["puts"] == 0), "{circuits:?}");
}
