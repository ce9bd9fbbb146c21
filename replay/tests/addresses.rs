//! Addresses: a client of IPv6 is asked for by its own, with and without brackets; in exports they stand without brackets
//! and port.

mod common;

use common::network::{log_of, NAMESPACE};
use common::{run, write_log, SECOND};
use iocrec_log::event::*;
use std::net::Ipv6Addr;

const CLIENT: &str = "2001:db8::5";
const CIRCUIT: u32 = 81;
const CHANNEL: u32 = 811;

/// A put over PVAccess that its server refuses.
fn refused() -> Vec<(u64, Fact)> {
    let bytes = |address: &str| address.parse::<Ipv6Addr>().unwrap().octets().to_vec();
    let circuit = Circuit {
        id: CIRCUIT,
        client: Address { ip: 0, port: 40_081 },
        server: Address { ip: 0, port: 5075 },
        user: "carol".into(),
        host: "office".into(),
        minor: 0,
        origin: Origin::Opened,
    };
    let of_pva = PvaCircuit {
        circuit: CIRCUIT,
        version: 2,
        method: "ca".into(),
        client_ip: bytes(CLIENT),
        server_ip: bytes("2001:db8::9"),
    };
    let channel = Channel {
        id: CHANNEL,
        circuit: CIRCUIT,
        cid: Some(1),
        sid: Some(1),
        pv: "T:SP".into(),
        dbr: None,
        count: None,
        origin: Origin::Opened,
    };
    let ends = CircuitEnds { circuit: CIRCUIT, namespace: NAMESPACE, server: Some(1), client: None };
    let mut number = vec![1, 2];
    number.extend(5_f64.to_le_bytes());
    let value = PvaValue { types: vec![1], big_endian: false, length: number.len() as u32, bytes: number };
    let (kind, options) = (PvaKind::Put, PvaValue::default());
    let put = PvaPut { circuit: CIRCUIT, channel: CHANNEL, ioid: 5, kind, options, value };
    let (text, value) = ("Put not permitted".to_owned(), PvaValue::default());
    let answer = PvaAnswer { circuit: CIRCUIT, ioid: 5, kind: PvaKind::Put, status: 2, text, value };
    let ms = SECOND / 1000;
    vec![
        (SECOND, Fact::PvaType(PvaType { id: 1, description: b"\x80\x00\x01\x05value\x43".to_vec() })),
        (SECOND, Fact::from(circuit)),
        (SECOND, Fact::from(of_pva)),
        (SECOND, Fact::CircuitEnds(ends)),
        (SECOND, Fact::from(channel)),
        (2 * SECOND, Fact::PvaPut(Box::new(put))),
        (2 * SECOND + ms, Fact::PvaAnswer(Box::new(answer))),
        (3 * SECOND, Fact::Mark("end".into())),
    ]
}

#[test]
fn a_client_is_asked_for_by_its_address() {
    let directory = log_of(refused());
    for command in ["puts", "clients"] {
        for name in ["2001:db8::5", "2001:db8::*", "[2001:db8::5]", "[2001:db8::5]:40081"] {
            let (code, out, err) = run(directory.path(), &[command, "log", "--client", name]);
            assert_eq!((code, out.lines().count()), (0, 1), "{command} {name}: {out}{err}");
            assert!(out.contains("[2001:db8::5]:40081"), "{command} {name}: {out}");
        }
        let (_, out, _) = run(directory.path(), &[command, "log", "--client", "2001:db8::6"]);
        assert_eq!(out, "", "{command}");
    }
}

/// `network.peer.address` of OpenTelemetry is an address, without what a port needs before it.
#[test]
fn its_address_is_exported_as_one() {
    let directory = log_of(refused());
    let peer = r#"{"key":"network.peer.address","value":{"stringValue":"2001:db8::5"}}"#;
    for (command, format, expected) in
        [("traces", "otlp", peer), ("logs", "otlp", peer), ("traces", "zipkin", r#""ipv6":"2001:db8::5""#)]
    {
        let (code, out, err) = run(directory.path(), &[command, "log", "--format", format]);
        assert_eq!(code, 0, "{command} {format}: {err}");
        assert!(out.contains(expected), "{command} {format}: {out}");
    }
}

#[test]
fn the_server_of_a_link_has_an_address_and_a_port() {
    let directory = tempfile::tempdir().unwrap();
    write_log(&directory.path().join("log"), "box1", 7);
    let traces = |format: &str| run(directory.path(), &["traces", "log", "--format", format]).1;
    let (otlp, zipkin) = (traces("otlp"), traces("zipkin"));
    for attribute in [
        r#"{"key":"server.address","value":{"stringValue":"10.0.0.9"}}"#,
        r#"{"key":"server.port","value":{"intValue":"5066"}}"#,
    ] {
        assert!(otlp.contains(attribute), "{attribute} is not in {otlp}");
    }
    let end = r#""remoteEndpoint":{"serviceName":"second","ipv4":"10.0.0.9","port":5066}"#;
    assert!(zipkin.contains(end), "{zipkin}");
}
