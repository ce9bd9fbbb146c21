//! Capture files in which a port served Channel Access first and PVAccess later, or the other way round; whose ports the user
//! names, or not; and that are cut within messages of PVAccess.

use crate::rig::ca_client::CaClient;
use crate::rig::pva_client::PvaClient;
use crate::rig::{iocreplay, json_lines, python, run, Rig, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

/// Channel Access at first.
const FIRST: u16 = 5574;
/// PVAccess at first.
const SECOND: u16 = 6590;
const SEARCH: u16 = 6591;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";

/// Puts over PVAccess: circuit, PV, value.
fn over_pva(client: &mut PvaClient, sid: u32, pv: &str, numbers: std::ops::Range<u8>) -> Vec<Value> {
    let put = |number: u8| {
        assert_eq!(client.put(sid, NONE, 2, &f64::from(number).to_le_bytes()), 0);
        json!(["pva", client.address, pv, f64::from(number)])
    };
    numbers.map(put).collect()
}

fn over_ca(port: u16) -> Vec<Value> {
    let mut client = CaClient::connect("127.0.0.1", port, "operator");
    let sid = client.channel("PUT:LONG");
    let put = |number: u8| {
        client.put(sid, number.into());
        json!(["ca", client.address, "PUT:LONG", number])
    };
    (1..20).map(put).collect()
}

fn read(log: &str, file: &str, more: &[&str]) -> (Output, Vec<Value>) {
    let _ = fs::remove_dir_all(log);
    let output = run(Command::new(IOCREC).args(["record", "--dir", log, "--read", file]).args(more));
    let puts = Command::new(iocreplay()).args(["puts", log, "--format", "jsonl"]).output().expect("it runs");
    (output, json_lines(&puts.stdout))
}

fn told(puts: &[Value]) -> Vec<Value> {
    puts.iter().map(|put| json!([put["protocol"], put["client"], put["pv"], put["requested"]])).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The packets of a pcap file: where each begins, its header included.
fn packets(file: &[u8]) -> Vec<usize> {
    let mut places = vec![24];
    while let Some(stored) = places.last().and_then(|at| file.get(at + 8..at + 12)) {
        let stored = u32::from_ne_bytes(stored.try_into().expect("4 bytes")) as usize;
        places.push(places[places.len() - 1] + 16 + stored);
    }
    places.pop();
    places
}

#[test]
fn a_port_that_served_both_one_after_the_other() {
    let Some(rig) = Rig::new("capture-ports") else { return };
    let before = rig.pva_server(SECOND, SEARCH, "OTHER:PV");
    let mut older = PvaClient::connect(SECOND, "operator", "console-7");
    let old = older.channel("OTHER:PV");
    over_pva(&mut older, old, "", 0..1);
    let capture = rig.path("capture.pcap");
    let mut tcpdump = rig.ioc_by("capture", python("capture.py").arg(&capture));
    let mut truth = Vec::new();
    // mid-stream
    let of_older = over_pva(&mut older, old, "", 1..20);
    let newer = |truth: &mut Vec<Value>, port| {
        let mut client = PvaClient::connect(port, "operator", "console-7");
        let sid = client.channel("OTHER:PV");
        truth.extend(over_pva(&mut client, sid, "OTHER:PV", 20..40));
    };
    newer(&mut truth, SECOND);
    let first = rig.ioc("first", FIRST, "puts.db", &[]);
    truth.extend(over_ca(FIRST));
    drop((first, older, before));
    std::thread::sleep(Duration::from_millis(300));
    let after = rig.pva_server(FIRST, SEARCH, "OTHER:PV");
    newer(&mut truth, FIRST);
    let second = rig.ioc("second", SECOND, "puts.db", &[]);
    truth.extend(over_ca(SECOND));
    drop((after, second));
    std::thread::sleep(Duration::from_millis(300));
    tcpdump.stop();

    let named = [FIRST, SECOND].map(|port| port.to_string());
    let named = ["--port", &named[0], "--port", &named[1]];
    let log = rig.log();
    for named in [&named[..], &[]] {
        let (output, puts) = read(&log, &capture, named);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let (without, with): (Vec<_>, Vec<_>) = told(&puts).into_iter().partition(|put| put[2].is_null());
        assert_eq!(with, truth, "{named:?}: {}", said(&output));
        // their names came before the capture, and without its port nothing shows what it is
        let numbers: Vec<_> = without.iter().map(|put| put[3].clone()).collect();
        let all: Vec<_> = of_older.iter().map(|put| put[3].clone()).collect();
        assert!(numbers == all || named.is_empty() && numbers.is_empty(), "{named:?}: {without:#?}");
        let losses = said(&output);
        let of = |protocol: &str| puts.iter().filter(|put| put["protocol"] == protocol).count();
        for count in [format!(", {} puts;", of("ca")), format!(", {} puts and calls;", of("pva"))] {
            assert!(losses.contains(&count), "{named:?}: {count} {losses}");
        }
        let losses = losses.lines().filter(|line| line.contains("loss") && !line.contains("losses: none"));
        assert_eq!(losses.collect::<Vec<_>>(), [""; 0], "{named:?}");
    }

    // cut within a message: in the packet of a put, whose rest the file lacks
    let bytes = fs::read(&capture).expect("the capture");
    let value = [&[0, 1, 2][..], &30f64.to_le_bytes()].concat();
    let places = packets(&bytes);
    let holds = |at: &usize| {
        let stored = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        bytes[at + 16..at + 16 + stored].ends_with(&value)
    };
    let its: Vec<usize> = places.iter().copied().filter(holds).collect();
    let cut = rig.path("cut.pcap");
    for (at, count) in its.iter().zip([10, 49]) {
        let stored = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        // the file ends there, and the packet is kept in part (a snapshot length), within its header and within its value
        for left in [stored - 24, stored - 4] {
            fs::write(&cut, &bytes[..at + 16 + left]).expect("a file");
            let (output, puts) = read(&log, &cut, &named);
            let line = said(&output);
            assert_eq!(output.status.code(), Some(1), "{line}");
            assert_eq!(line.lines().filter(|line| line.contains("is cut off")).count(), 1, "{line}");
            let with: Vec<_> = told(&puts).into_iter().filter(|put| !put[2].is_null()).collect();
            assert_eq!(with, truth[..count], "{left} of {stored}");

            let kept = (left as u32).to_ne_bytes();
            let parts =
                [&bytes[..at + 8], &kept, &bytes[at + 12..at + 16 + left], &bytes[at + 16 + stored..]];
            fs::write(&cut, parts.concat()).expect("a file");
            let (output, puts) = read(&log, &cut, &named);
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            let with = told(&puts).into_iter().filter(|put| !put[2].is_null());
            // of the put that was cut it may be known that there was one
            let (parts, with): (Vec<_>, Vec<_>) = with.partition(|put| put[3].is_null());
            let mut expected = truth.clone();
            let lost = expected.remove(count);
            assert_eq!(with, expected, "{left} of {stored}");
            assert!(parts.len() < 2 && parts.iter().all(|put| put[1] == lost[1]), "{parts:?}");
            assert!(!said(&output).contains("losses: none"), "{}", said(&output));
        }
    }
    assert_eq!(its.len(), 2, "the put of 30 on both ports");
}
